"""The transient chessboard: one field after another is shown alone, and after each four of them the whole board.

Losing, Hammer and Wersing: KNN classifier with self adjusting memory for heterogeneous concept drift. ICDM 2016.
*Virtual* drift: where points lie changes, what class a place has never does. So whoever forgets at each change of the
fields loses what is true when the whole board comes again. Numbers and classes are those of the published data set.
"""

from functools import partial

import numpy as np

from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.randomness import below, seeded, uniform
from riparian.models.streams import EndlessStream, numbered

GROUP = 4  # fields that are shown alone before the whole board is


def source(seed: int = 0, *, size: int = 8, alone: int = 250, together: int = 1000) -> EndlessStream:
    """Points of the unit square. Row r and column c have class (c + 2 r) modulo `size`; each pass over the board has an
    order of its own."""
    fill = partial(_fill, seeded(seed), np.arange(size * size), np.zeros(1, np.int64), size, alone, together)
    return EndlessStream(fill, (0, 0), numbered(2), size)


@kernel
def _fill(state, order, position, size, alone, together, x, y):
    """Write all rows of `x` and `y`; mutates the random state, order : (size^2,), the fields of this pass, and
    position : (1,), of the next instance."""
    for i in range(len(x)):
        cycle, k = divmod(position[0], GROUP * alone + together)
        if k < GROUP * alone:
            turn = (GROUP * cycle + k // alone) % len(order)
            if turn == 0 and k % alone == 0:
                _shuffle(state, order)
            row, column = divmod(order[turn], size)
        else:
            row, column = below(state, size), below(state, size)
        x[i, 0] = (column + uniform(state)) / size
        x[i, 1] = (row + uniform(state)) / size
        y[i] = (column + 2 * row) % size
        position[0] += 1


@kernel
def _shuffle(state, order):
    """Fisher and Yates. Mutates both."""
    for last in range(len(order) - 1, 0, -1):
        other = below(state, last + 1)
        order[last], order[other] = order[other], order[last]
