"""The last labelled instances: a ring that keeps, of each feature, the order of its values.

A new instance costs one pass over each order; trees that are grown from the window sort nothing.

What is squared later are targets less an origin: one of them, next to their mean, chosen anew each time the window has
been filled once more. Of 1e9 and 1e9 + 3 squares would keep nothing of the 3. An origin that is a target itself leaves
whole numbers whole, and one wrong target among many is not the one next to the mean. A target counts as far from the
origin as models.running_scale lets it, or one would decide all weights for as long as it stays in the window.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats, Schema
from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.simd import WIDTH
from riparian.models.running_scale import held

# Places in `counts`.
LEARNED, FILLED, HEAD, MEMBERS = range(4)
# Places in `level`: what targets are less, and their mean square then. Both are 0 of classes.
ORIGIN, SQUARE = range(2)


class ShrubWindow(NamedTuple):
    """The ring. Its first places are filled first.

    x : (size, d and more, a whole number of models.kernels.simd's lanes), a missing value as infinity.
    columns : (d, size), the same by features, or (0, size) without `order`.
    y, w : (size,), y as far as it counts.
    above : (size,), y less the origin; of classes y.
    order : (d, size) uint32, items by value (of equal ones the first place first), or (0, size) where no learner asks
        for it.
    chosen : (size,) uint8, scratch: the items that a tree grows on.
    """

    x: Floats
    columns: Floats
    y: Floats
    w: Floats
    above: Floats
    order: NDArray[np.uint32]
    chosen: NDArray[np.uint8]


class PackedWindow(NamedTuple):
    """The window as a state holds it, by place. b: items in it.

    x : (b, numeric features) float64.
    codes : (b, nominal features) uint8, uint16 or uint32, the greatest of the type for a missing value.
    y : (b,) uint8 or uint16, classes, or float64.
    w : (b,) float64.
    """

    x: Floats
    codes: NDArray[np.unsignedinteger]
    y: NDArray[np.generic]
    w: Floats


def room_for_window(n_features: int, size: int, ordered: bool) -> ShrubWindow:
    return ShrubWindow(
        np.zeros((size, -(-n_features // WIDTH) * WIDTH)),
        np.zeros((n_features if ordered else 0, size)),
        np.zeros(size),
        np.zeros(size),
        np.zeros(size),
        np.zeros((n_features if ordered else 0, size), np.uint32),
        np.ones(size, np.uint8),
    )


@kernel
def take_in(x, r, y, w, counts, level, window):
    """Put row r of x, with label and weight, in the place of the oldest item, which is returned. Mutates counts (not
    MEMBERS, LEARNED), window. O(d size)."""
    d, size = x.shape[1], len(window.y)
    i = counts[HEAD]
    full = counts[FILLED] == size
    n = counts[FILLED] - 1 if full else counts[FILLED]
    for f in range(d):
        value = x[r, f]
        if value - value != 0.0:
            value = np.inf
        window.x[i, f] = value
        if len(window.order) == 0:
            continue
        window.columns[f, i] = value
        order = window.order[f]
        if full:
            k = 0
            while order[k] != i:
                k += 1
            while k < n:
                order[k] = order[k + 1]
                k += 1
        k = n
        while k > 0:
            there = window.columns[f, order[k - 1]]
            if there < value or (there == value and order[k - 1] < i):
                break
            order[k] = order[k - 1]
            k -= 1
        order[k] = i
    window.y[i] = y
    window.above[i] = y - level[ORIGIN]
    window.w[i] = w
    counts[HEAD] = (i + 1) % size
    counts[FILLED] = n + 1
    return i


@kernel(inline=True)
def counted(y, counts, size, level):
    """What a target counts as in a window of so many. Mutates level. O(1)."""
    if counts[LEARNED] == 0:
        level[ORIGIN] = y
    n = min(counts[LEARNED] + 1, size)
    far = y - level[ORIGIN]
    square = held(far * far, level[SQUARE], n)
    level[SQUARE] += (square - level[SQUARE]) / n
    if square < far * far:
        y = level[ORIGIN] + math.copysign(math.sqrt(square), far)
    return y


@kernel
def centre(n, level, window):
    """Choose the origin anew: of n targets the first that is next to their mean; how much higher it is than before.
    Mutates level, window. O(n)."""
    total = 0.0
    mean = 0.0
    for i in range(n):
        total += window.w[i]
        mean += (window.above[i] - mean) * window.w[i] / total
    place = 0
    for i in range(n):
        if abs(window.above[i] - mean) < abs(window.above[place] - mean):
            place = i
    step = window.above[place]
    level[ORIGIN] = window.y[place]
    level[SQUARE] = 0.0
    for i in range(n):
        window.above[i] = window.y[i] - level[ORIGIN]
        level[SQUARE] += window.above[i] * window.above[i] / n
    return step


def code_type(capacity: int) -> type[np.unsignedinteger]:
    """The smallest type for codes below `capacity` and one that none of them has."""
    return np.uint8 if capacity < 256 else np.uint16 if capacity < 65536 else np.uint32


def pack_window(window: ShrubWindow, n: int, schema: Schema) -> PackedWindow:
    """The first n places."""
    nominal = np.array(schema.n_values) > 0
    x = window.x[:n, : len(nominal)]
    codes = np.ascontiguousarray(x[:, nominal])
    kind = code_type(max(schema.n_values, default=0))
    labels = window.y[:n]
    return PackedWindow(
        np.ascontiguousarray(x[:, ~nominal]),
        np.where(codes < np.inf, codes, np.iinfo(kind).max).astype(kind),
        labels.astype(code_type(schema.n_outputs)) if schema.task == "classification" else labels,
        window.w[:n],
    )


def unpack_window(packed: PackedWindow, level: Floats, schema: Schema, window: ShrubWindow) -> None:
    """Into the first places of an empty window. Mutates level, window."""
    n = len(packed.y)
    nominal = np.array(schema.n_values) > 0
    x = window.x[:n, : len(nominal)]
    x[:, ~nominal] = packed.x
    codes = packed.codes.astype(np.float64)
    x[:, nominal] = np.where(codes < np.iinfo(packed.codes.dtype).max, codes, np.inf)
    window.y[:n] = packed.y
    window.above[:n] = window.y[:n] - level[ORIGIN]
    if schema.task == "regression" and n and level[SQUARE] == 0.0:  # of a state that an older version wrote, unknown
        level[SQUARE] = np.mean(window.above[:n] * window.above[:n])
    window.w[:n] = packed.w
    for f, order in enumerate(window.order):
        window.columns[f, :n] = x[:, f]
        order[:n] = np.argsort(window.columns[f, :n], kind="stable")
