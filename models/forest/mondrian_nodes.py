"""Mondrian trees in arrays: the boxes of their nodes, the distance of an instance to one, and its way down.

Distances are in units of each feature's range so far, which is the box of the root; a nominal feature's are 1 over the
number of its other values. Thresholds are values of features, so a range that grows moves none of them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.contract import Floats
from models.kernel import kernel

# Columns of `links`. FEATURE is -1 in a leaf; the right child follows the left one. PARENT: of a left child.
FEATURE, LEFT, PARENT = range(3)
# Columns of `nodes`, from VALUES on the weight of each class, or the mean target. TIME is that of the split, infinite
# in a leaf. THRESHOLD of a nominal feature is the value that goes left.
THRESHOLD, TIME, ODDS, WEIGHT, VALUES = range(5)
# Places in `counts`: nodes, labels learned, classes seen.
NODES, LEARNED, CLASSES = range(3)

LARGEST = 1e300  # the difference of two values is finite


class MondrianTrees(NamedTuple):
    """m trees. links : (m, capacity, 3) int32, nodes : (m, capacity, VALUES + n_outputs) float64, see above.

    ranges : (m, capacity, 2, numeric features) float64, least and greatest value of a box, NaN where none is known.
    seen : (m, capacity, nominal features) uint64, bit v % 64 for each value v of a box. counts : (m, 3) int64.
    errors : (m, 2) float64, of a regression the sum of squared errors of a tree's predictions, and of the weights.
    """

    links: NDArray[np.int32]
    nodes: Floats
    ranges: Floats
    seen: NDArray[np.uint64]
    counts: NDArray[np.int64]
    errors: Floats


class MondrianSettings(NamedTuple):
    """The parameters, as kernels take them. numeric, nominal : int32, these features. n_values : (d,) int32.

    dirichlet : 0 for 1 over the classes seen. keys : (m,) uint64, of the random numbers of each tree.
    """

    numeric: NDArray[np.int32]
    nominal: NDArray[np.int32]
    n_values: NDArray[np.int32]
    keys: NDArray[np.uint64]
    max_nodes: int
    step: float
    dirichlet: float
    split_pure: bool
    classes: bool
    aggregation: bool


class Instance(NamedTuple):
    """Scratch: one instance as trees see it. x : (d,), NaN where missing. numbers : of the numeric features. bits : of
    the nominal ones, 0 where missing. per_range, per_value : what a distance of 1 is worth."""

    x: Floats
    numbers: Floats
    bits: NDArray[np.uint64]
    per_range: Floats
    per_value: Floats


@kernel(inline=True)
def take(slab, r, settings, one):
    """Fill x, numbers and bits of `one` from a row. O(d)."""
    for g in range(len(settings.numeric)):
        f = settings.numeric[g]
        v = slab[r, f]
        if not abs(v) <= LARGEST:
            v = np.nan
        one.x[f] = v
        one.numbers[g] = v
    for g in range(len(settings.nominal)):
        f = settings.nominal[g]
        v = slab[r, f]
        if v >= 0.0 and v < settings.n_values[f]:
            one.x[f] = np.floor(v)
            one.bits[g] = np.uint64(1) << (np.uint64(v) & np.uint64(63))
        else:
            one.x[f] = np.nan
            one.bits[g] = np.uint64(0)


@kernel(inline=True)
def _per_range(low, high):
    width = high - low
    return 1.0 / width if width > 1.0 / LARGEST else 0.0


@kernel(inline=True)
def measure(ranges, seen, one):
    """The units of distances: of the box of the root, and of the instance in it. Mutates per_range, per_value. O(d)."""
    for g in range(len(one.numbers)):
        low = ranges[0, 0, g]
        high = ranges[0, 1, g]
        v = one.numbers[g]
        if v < low:
            low = v
        if v > high:
            high = v
        one.per_range[g] = _per_range(low, high)
    for g in range(len(one.bits)):
        values = seen[0, g] | one.bits[g]
        n = 0
        while values:
            values &= values - np.uint64(1)
            n += 1
        one.per_value[g] = 1.0 / (n - 1) if n > 1 else 0.0


@kernel(inline=True)
def distance(ranges, seen, node, one):
    """Of the instance to the box of a node: the sum over the features. A missing value, and a feature without a known
    value in the box, is no distance. O(d)."""
    total = 0.0
    for g in range(len(one.numbers)):
        v = one.numbers[g]
        below = ranges[node, 0, g] - v
        above = v - ranges[node, 1, g]
        beyond = below if below > above else above
        total += beyond * one.per_range[g] if beyond > 0.0 else 0.0
    for g in range(len(one.bits)):
        values = seen[node, g]
        if values and one.bits[g] and not (values & one.bits[g]):
            total += one.per_value[g]
    return total


@kernel(inline=True)
def child(links, nodes, settings, node, one):
    """The child that an instance goes to: the heavier one where its value is missing. O(1)."""
    f = links[node, FEATURE]
    left = links[node, LEFT]
    v = one.x[f]
    if v != v:
        return left if nodes[left, WEIGHT] >= nodes[left + 1, WEIGHT] else left + 1
    if settings.n_values[f] > 0:
        return left if v == nodes[node, THRESHOLD] else left + 1
    return left if v <= nodes[node, THRESHOLD] else left + 1
