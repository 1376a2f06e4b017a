"""What the kernel that runs a program is called with each time, in a frame (models.kernels.frames):
models.regression.fimt_dd."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats
from riparian.models.kernels.frames import BOOLEAN, INTEGER, NUMBER, array_of, framed, put
from riparian.models.kernels.kernel import kernel
from riparian.models.regression.nodes import RegressionGrowth, RegressionNodes, RegressionScratch
from riparian.models.regression.observers import TargetLayout


class DriftSettings(NamedTuple):
    """The parameters of drift detection, as kernels take them.

    room : nodes that the tree itself may have.
    """

    detect: bool
    delta: float
    threshold: float
    period: float
    patience: float
    room: int


class Subset(NamedTuple):
    """Scratch: the features that a leaf observes of one row, as `observe` takes features.

    n_values, offset : of models.regression.observers.TargetLayout, (m,).
    x : (1, m).
    places : (2, m).
    """

    n_values: NDArray[np.int32]
    offset: NDArray[np.int64]
    x: Floats
    places: NDArray[np.int64]


def room_for(m: int) -> Subset:
    return Subset(np.zeros(m, np.int32), np.zeros(m, np.int64), np.zeros((1, m)), np.zeros((2, m), np.int64))


# What `run` takes where a leaf observes all features and nobody asks for errors.
UNTOLD, ALL, EMPTY = np.zeros(0), np.zeros((1, 0), np.int32), room_for(0)


class FimtValues(NamedTuple):
    """What the kernel of a tree is called with each time: models.kernels.frames.

    progress : (1,) int64, the next operation; between programs 0.
    chosen : (n_nodes, m) int32, the features that a leaf observes; with m = 0 all. subset : room for them.
    """

    progress: Any
    nodes: Any
    chosen: Any
    layout: Any
    growth: Any
    drift: Any
    subset: Any
    scratch: Any


@kernel
def _fill(words, values):
    """Mutates words."""
    put(words, values)


_numbers, _table, _integers = array_of(np.float64, 1), array_of(np.float64, 2), array_of(np.int64, 1)
_codes, _links, _places = array_of(np.int32, 1), array_of(np.int32, 2), array_of(np.int64, 2)
new_frame, values_of = framed(
    FimtValues(
        progress=_integers,
        nodes=RegressionNodes(_links, _numbers, *(_table,) * 3, _integers),
        chosen=_links,
        layout=TargetLayout(_codes, *(_integers,) * 3),
        growth=RegressionGrowth(*(NUMBER,) * 4, INTEGER, *(NUMBER,) * 3, *(INTEGER,) * 2),
        drift=DriftSettings(BOOLEAN, *(NUMBER,) * 4, INTEGER),
        subset=Subset(_codes, _integers, _table, _places),
        scratch=RegressionScratch(*(_numbers,) * 5, _places),
    ),
    _fill,
)
