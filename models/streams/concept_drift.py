"""Concept drift: one stream that becomes another, at once or little by little.

Gradual as in MOA's ConceptDriftStream: instance i comes from the new stream with probability
1 / (1 + exp(-4 (i - at) / width)), so `at` is the middle of the change and `width` about its length. i counts from 0.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from riparian.models.kernels.elementary import exp
from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.randomness import seeded, uniform
from riparian.models.streams import EndlessStream, Floats


def drifting(first: EndlessStream, second: EndlessStream, at: int, width: int = 0, seed: int = 0) -> EndlessStream:
    """Instances of `first`, then those of `second` from its beginning.

    Parameters
    ----------
    first, second : Source
        Of the same schema. They are read on, not copied: use each in one stream only.
    at : int
        Number, from 0, of the first instance of the new stream, or the middle of a gradual change.
    width : int
        Instances of a gradual change; 0 for an abrupt one.
    seed : int
        Of the choice between the two.

    Raises
    ------
    ValueError
        The streams have different features or classes.
    """
    if first[1:] != second[1:]:
        raise ValueError("the streams before and after a drift have other features or classes: keep them the same")
    fill = partial(_fill, first, second, seeded(seed), np.zeros(1, np.int64), at, width)
    return EndlessStream(fill, *first[1:])


def _fill(
    first: EndlessStream,
    second: EndlessStream,
    state: NDArray[np.uint64],
    position: NDArray[np.int64],
    at: int,
    width: int,
    x: Floats,
    y: Floats,
) -> None:
    """Write all rows of `x` and `y`; mutates the random state and `position`, and reads on in both streams."""
    new = np.empty(len(x), np.bool_)
    _choose(state, position, at, width, new)
    for stream, rows in ((first, ~new), (second, new)):
        part = stream.take(int(np.count_nonzero(rows)))
        x[rows], y[rows] = part.x, part.y


@kernel
def _choose(state, position, at, width, new):
    """Write which instances are of the new stream; mutates the random state and `position`."""
    for i in range(len(new)):
        if width == 0:
            new[i] = position[0] >= at
        else:
            new[i] = uniform(state) < 1.0 / (1.0 + exp(-4.0 * (position[0] - at) / width))
        position[0] += 1
