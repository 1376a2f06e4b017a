"""Mondrian trees in arrays: the boxes of their nodes, the distance of an instance to one, and its way down.

A way down is mostly waiting for memory. So tests lie close together, where a cache holds those of all trees, and what
else a prediction needs of a node is in one row. A box is kept by the least of v and of -v for each numeric feature, so
that both sides are one loop, and by a bit for each value of a nominal one.

Distances are in units of each feature's range so far, which is the box of the root; a nominal feature's are 1 over the
number of its other values. Thresholds are values of features, so a range that grows moves none of them.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats, Schema
from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.simd import each, load, spread, where_less
from riparian.models.kernels.words import zeros_below

# Columns of `links`, which is `tests` as uint32. LEFT is 0 in a leaf; the right child follows the left one.
FEATURE, LEFT = range(2)
# Columns of `tests`. THRESHOLD of a nominal feature is the value that goes left.
LINKS, THRESHOLD = range(2)
# Columns of `nodes`, from VALUES on the weight of each class, or the mean target. TIME is that of the split, infinite
# in a leaf.
ODDS, WEIGHT, TIME, VALUES = range(4)
FORMER = ODDS  # of a leaf: its weight when its children went, 0 if it had none
# Columns of `pairs`: the node whose children nodes 1 + 2 i and 2 + 2 i are, and its odds if both are leaves, else -1.
PARENT, CLOSABLE = range(2)
# Places in `counts`: nodes, labels learned, classes seen.
NODES, LEARNED, CLASSES = range(3)

LARGEST = 1e300  # the difference of two values is finite
# Kernels go down a tree by unsigned indices: numba would ask of a signed one whether it counts from the end.
ONE, FOUR = np.uint64(1), np.uint64(4)
LINE = 64  # bytes
WORD = 64  # bits; of more values, those 64 codes apart share one


class MondrianTrees(NamedTuple):
    """m trees.

    tests : (m, capacity, 2) float64.
    nodes : (m, capacity, columns) float64, see above; columns are a multiple of 8, a line of the cache, as many as the
        classes learned so far need.
    pairs : (m, capacity // 2, 2) float64.
    boxes : (m, capacity, sides) float64, the least of v and of -v of each numeric feature, NaN where none is known;
        sides are a multiple of 4.
    seen : (m, capacity, words) uint64, the nominal values of a box, see BoxLayout.
    counts : (m, 3) int64.
    errors : (m, 2) float64, of a regression the sum of squared errors of a tree's predictions, and of the weights; of a
        classification the faded sum of the probabilities that a tree gave to the labels, and of the weights.
    """

    tests: Floats
    nodes: Floats
    boxes: Floats
    seen: NDArray[np.uint64]
    pairs: Floats
    counts: NDArray[np.int64]
    errors: Floats


class MondrianTree(NamedTuple):
    """One of them.

    links : `tests` as (capacity, 4) uint32.
    """

    links: NDArray[np.uint32]
    tests: Floats
    nodes: Floats
    boxes: Floats
    seen: NDArray[np.uint64]
    pairs: Floats
    counts: NDArray[np.int64]
    errors: Floats


class BoxLayout(NamedTuple):
    """Where features stand in a box.

    numeric, nominal : int32, these features.
    word, first, mask : of each nominal feature the word of its values, the bit of value 0, and all its bits.
    owner : (64 words,) int32, the nominal feature to which a bit belongs.
    """

    numeric: NDArray[np.int32]
    nominal: NDArray[np.int32]
    word: NDArray[np.int32]
    first: NDArray[np.uint64]
    mask: NDArray[np.uint64]
    owner: NDArray[np.int32]

    @property
    def n_sides(self) -> int:
        return 4 * ((len(self.numeric) + 1) // 2)

    @property
    def n_words(self) -> int:
        return len(self.owner) // WORD


class MondrianSettings(NamedTuple):
    """The parameters, as kernels take them.

    n_values : (d,) int32.
    dirichlet : 0 for 1 over the classes seen.
    keys : (m,) uint64, of the random numbers of each tree.
    tree_bytes : that a tree may take.
    node_bytes : of a node, its columns of `nodes` apart.
    """

    layout: BoxLayout
    n_values: NDArray[np.int32]
    keys: NDArray[np.uint64]
    max_nodes: int
    tree_bytes: int
    node_bytes: int
    step: float
    dirichlet: float
    split_pure: bool
    split_below: float
    vote_power: int
    classes: bool
    aggregation: bool


class Instance(NamedTuple):
    """Scratch: one instance as trees see it.

    x : (d,), NaN where missing.
    sides : v and -v of each numeric feature.
    words : the bits of its nominal values, none where missing.
    units : what a distance of 1 is worth, of each side.
    unit : of each nominal feature.
    """

    x: Floats
    sides: Floats
    words: NDArray[np.uint64]
    units: Floats
    unit: Floats


def room(shape: tuple[int, ...], dtype: type = np.float64) -> NDArray[Any]:
    """Zeros that begin where a line of the cache does."""
    size = math.prod(shape) * 8
    raw = np.zeros(size + LINE, np.uint8)
    start = -raw.ctypes.data % LINE
    return raw[start : start + size].view(dtype).reshape(shape)


@kernel(inline=True)
def columns_of(n_outputs):
    """Of `nodes`, for class codes below n_outputs, or a target (1)."""
    return (VALUES + n_outputs + 7) // 8 * 8


def node_bytes(layout: BoxLayout) -> int:
    """Of a node, the columns of `nodes` apart: its test, half its pair, its box. Nominal features are reckoned with a
    word each, which is the most they take: how many share a word follows from capacities, and when these grow from how
    batches were cut, on which no bound may depend."""
    return 8 * (2 + 1 + layout.n_sides + len(layout.nominal))


@kernel(inline=True)
def allowed(settings, n_outputs):
    """Nodes that a tree may have once it has learned class codes below n_outputs: max_nodes, or as many as its bytes
    hold, but 3 at least."""
    each = settings.node_bytes + 8 * columns_of(n_outputs)
    return max(min(settings.max_nodes, settings.tree_bytes // each), 3)


def layout_of(schema: Schema) -> BoxLayout:
    n_values = np.array(schema.n_values, np.int32)
    numeric, nominal = np.flatnonzero(n_values == 0), np.flatnonzero(n_values > 0)
    word, first, mask, owner = [], [], [], []
    free = 0
    for g, f in enumerate(nominal):
        n_bits = min(WORD, int(n_values[f]))
        if n_bits > free:
            owner += [0] * free
            free = WORD
        word.append(len(owner) // WORD)
        first.append(WORD - free)
        mask.append(((1 << n_bits) - 1) << first[-1])
        owner += [g] * n_bits
        free -= n_bits
    owner += [0] * free
    return BoxLayout(
        numeric.astype(np.int32),
        nominal.astype(np.int32),
        np.array(word, np.int32),
        np.array(first, np.uint64),
        np.array(mask, np.uint64),
        np.array(owner, np.int32),
    )


@kernel(inline=True)
def take(slab, r, settings, one):
    """Fill x, sides and words of `one` from a row. O(d)."""
    layout = settings.layout
    for g in range(len(layout.numeric)):
        f = layout.numeric[g]
        v = slab[r, f]
        if not abs(v) <= LARGEST:
            v = np.nan
        one.x[f] = v
        one.sides[2 * g] = v
        one.sides[2 * g + 1] = -v
    for i in range(len(one.words)):
        one.words[i] = 0
    for g in range(len(layout.nominal)):
        f = layout.nominal[g]
        v = slab[r, f]
        if v >= 0.0 and v < settings.n_values[f]:
            one.x[f] = np.floor(v)
            one.words[layout.word[g]] |= np.uint64(1) << (layout.first[g] + (np.uint64(v) & np.uint64(WORD - 1)))
        else:
            one.x[f] = np.nan


@kernel
def outside(tree, node, one):
    """Whether the instance is not in the box of a node, or knows what the box does not. O(d)."""
    for i in range(len(one.sides)):
        side = tree.boxes[node, i]
        if one.sides[i] < side or (side != side and one.sides[i] == one.sides[i]):
            return True
    new = np.uint64(0)
    for i in range(len(one.words)):
        new |= one.words[i] & ~tree.seen[node, i]
    return new != 0


@kernel
def measure(tree, settings, one):
    """The units of distances: of the box of the root, and of the instance in it. Mutates units, unit. O(d)."""
    layout = settings.layout
    for i in range(0, len(one.sides), 2):
        low = tree.boxes[0, i]
        minus_high = tree.boxes[0, i + 1]
        if one.sides[i] < low:
            low = one.sides[i]
        if one.sides[i + 1] < minus_high:
            minus_high = one.sides[i + 1]
        width = -minus_high - low
        one.units[i] = one.units[i + 1] = 1.0 / width if width > 1.0 / LARGEST else 0.0
    for g in range(len(layout.nominal)):
        i = layout.word[g]
        values = (tree.seen[0, i] | one.words[i]) & layout.mask[g]
        n = 0
        while values:
            values &= values - np.uint64(1)
            n += 1
        one.unit[g] = 1.0 / (n - 1) if n > 1 else 0.0


@kernel(inline=True)
def beyond(tree, node, one, i):
    """What side i of the box adds to the distance."""
    d = tree.boxes[node, i] - one.sides[i]
    return (d if d > 0.0 else 0.0) * one.units[i]


@kernel(inline=True)
def distance(tree, node, settings, one):
    """Of the instance to the box of a node: the sum over the features. A missing value, and a feature without a known
    value in the box, is no distance. O(d)."""
    box = tree.boxes[node]
    sums = nothing = spread(0.0)
    for i in range(np.uint64(0), np.uint64(len(one.sides)), FOUR):
        d = load(box, i) - load(one.sides, i)
        sums = sums + where_less(nothing, d, d, nothing) * load(one.units, i)
    first, second, third, fourth = each(sums)
    total = (first + second) + (third + fourth)
    for i in range(len(one.words)):
        seen = tree.seen[node, i]
        new = one.words[i] & ~seen
        while new:
            g = settings.layout.owner[WORD * i + zeros_below(new)]
            new &= new - np.uint64(1)
            if seen & settings.layout.mask[g]:
                total += one.unit[g]
    return total


@kernel(inline=True)
def child(tree, settings, node, left, one):
    """The child that an instance goes to, of which `left` > 0 is the left one: the heavier one where its value is
    missing. O(1)."""
    f = tree.links[node, FEATURE]
    v = one.x[f]
    right = left + ONE
    if v != v:
        return left if tree.nodes[left, WEIGHT] >= tree.nodes[right, WEIGHT] else right
    if settings.n_values[f] > 0:
        return left if v == tree.tests[node, THRESHOLD] else right
    return left if v <= tree.tests[node, THRESHOLD] else right
