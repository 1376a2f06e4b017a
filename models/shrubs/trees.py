"""Small trees side by side in arrays: where an instance falls, and how a tree is written down.

A tree is one row of `Trees`: node 0 is the root; the children of an inner node are left and left + 1; a leaf has
feature -1, and `left` is its row in `values`: class shares, or the mean. Tests: numeric x <= value, nominal x == value,
so a missing value always goes right; with the value KNOWN a test asks whether the value is known.

Nodes are numbered as `models.shrubs.cart` takes them up: a node that gets children is followed by its left child, with
all below it, then by the right one. So the features alone give the links of a tree, and a state goes without them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats
from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.simd import select

KNOWN = np.finfo(np.float64).max  # a threshold that only missing values exceed

# Columns of Trees.links, and of Trees.tests.
FEATURE, LEFT = range(2)
LINKS, VALUE = range(2)
# Places in Trees.sizes.
NODES, LEAVES = 0, 1


class Trees(NamedTuple):
    """Room for trees, one a row. n: most nodes of a tree.

    tests : (slots, n, 2) float64, VALUE is a threshold or nominal code; what decides the way down lies together.
    links : `tests` as (slots, n, 4) int32, FEATURE is -1 of a leaf, LEFT.
    values : (slots, leaves, outputs) float64.
    sizes : (slots, 2) int32, nodes and leaves.
    """

    tests: Floats
    links: NDArray[np.int32]
    values: Floats
    sizes: NDArray[np.int32]


class PackedTrees(NamedTuple):
    """Trees one after the other, as a state holds them.

    features : (nodes,) int16 or int32, -1 for a leaf.
    tests : (inner nodes,) float64, what an inner node compares with.
    classes : (leaves,) int16 or int32, the class of a leaf that knows one only; -1: a row of `shares`.
    shares : (other leaves, outputs) float64.
    """

    features: NDArray[np.signedinteger]
    tests: Floats
    classes: NDArray[np.signedinteger]
    shares: Floats


def most_nodes(size: int, max_depth: int) -> int:
    """Nodes that a tree on `size` rows can have."""
    full = 2 * size - 1
    return full if max_depth > 40 else min(full, 2 ** (max_depth + 1) - 1)


def room_for_trees(slots: int, n_nodes: int, n_outputs: int) -> Trees:
    tests = np.zeros((slots, n_nodes, 2))
    links = tests.view(np.int32)
    links[:, :, FEATURE] = -1
    return Trees(tests, links, np.zeros((slots, (n_nodes + 1) // 2, n_outputs)), np.zeros((slots, 2), np.int32))


@kernel(inline=True)
def leaf_of(trees, slot, n_values, x, r):
    """The row of `values` for row r of x (rows by instance; missing as NaN or infinity). O(depth)."""
    node = 0
    f = trees.links[slot, 0, FEATURE]
    while f >= 0:
        value = x[r, f]
        if n_values[f] > 0:
            left = value == trees.tests[slot, node, VALUE]
        else:
            left = value <= trees.tests[slot, node, VALUE] and value - value == 0.0
        node = trees.links[slot, node, LEFT] if left else trees.links[slot, node, LEFT] + 1
        f = trees.links[slot, node, FEATURE]
    return trees.links[slot, node, LEFT]


@kernel(inline=True)
def _below(trees, slot, n_values, x, r, node, f):
    """The child of a node with feature f to which row r goes; a leaf is its own. Without a branch."""
    g = np.uint64(max(f, 0))
    value = x[r, g]
    test = trees.tests[slot, node, VALUE]
    lowest = select(n_values[g] > 0, test, -KNOWN)
    right = np.uint64((value <= test) & (value >= lowest)) ^ np.uint64(1)
    return select(f >= 0, np.uint64(trees.links[slot, node, LEFT]) + right, node)


@kernel(inline=True)
def find_leaves(trees, slots, m, n_values, x, r, leaves):
    """Find the leaf of an instance (leaf_of) in the trees of the first m slots. Mutates leaves. O(m depth).

    Four trees at a time: on the way down one, a processor waits for memory, and guesses wrong which way it goes."""
    last = m - 1
    for first in range(0, m, 4):
        second, third, fourth = min(first + 1, last), min(first + 2, last), min(first + 3, last)
        a, b = np.uint64(slots[first]), np.uint64(slots[second])
        c, d = np.uint64(slots[third]), np.uint64(slots[fourth])
        i = j = k = l = np.uint64(0)
        while True:
            f, g = trees.links[a, i, FEATURE], trees.links[b, j, FEATURE]
            h, e = trees.links[c, k, FEATURE], trees.links[d, l, FEATURE]
            if (f & g & h & e) < 0:  # all four are leaves
                break
            i = _below(trees, a, n_values, x, r, i, f)
            j = _below(trees, b, n_values, x, r, j, g)
            k = _below(trees, c, n_values, x, r, k, h)
            l = _below(trees, d, n_values, x, r, l, e)
        leaves[first], leaves[second] = trees.links[a, i, LEFT], trees.links[b, j, LEFT]
        leaves[third], leaves[fourth] = trees.links[c, k, LEFT], trees.links[d, l, LEFT]


@kernel
def link(links, stack):
    """The links of a tree from its features. stack : (nodes + 1,) int32, scratch. Mutates links, stack."""
    n_linked = 1
    n_leaves = 0
    stack[0] = 0
    top = 1
    while top > 0:
        top -= 1
        node = stack[top]
        if links[node, FEATURE] < 0:
            links[node, LEFT] = n_leaves
            n_leaves += 1
            continue
        links[node, LEFT] = n_linked
        stack[top] = n_linked + 1
        stack[top + 1] = n_linked
        top += 2
        n_linked += 2


def small(largest: int) -> type[np.signedinteger]:
    """The type for codes from -1 to `largest`."""
    return np.int16 if largest < 2**15 else np.int32


def pack_trees(trees: Trees, slots: NDArray[np.int32], n_features: int, classes: bool) -> PackedTrees:
    """The trees of these slots, without what follows from the rest."""
    n_outputs = trees.values.shape[2]
    sizes = trees.sizes[slots].tolist()
    features = [trees.links[slot, :n, FEATURE] for slot, (n, _) in zip(slots, sizes, strict=True)]
    tests = [trees.tests[slot, :n, VALUE] for slot, (n, _) in zip(slots, sizes, strict=True)]
    leaves = [trees.values[slot, :n] for slot, (_, n) in zip(slots, sizes, strict=True)]
    feature = np.concatenate([trees.links[0, :0, FEATURE], *features])
    values = np.concatenate([trees.values[0, :0], *leaves])
    one = (values == 1.0).any(axis=1) & classes
    named = np.where(one, values.argmax(axis=1), -1) if len(values) else np.zeros(0, np.int64)
    return PackedTrees(
        feature.astype(small(n_features)),
        np.concatenate([trees.tests[0, :0, VALUE], *tests])[feature >= 0],
        named[:, None][:, : int(classes)].ravel().astype(small(n_outputs)),
        values[~one],
    )


def unpack_trees(packed: PackedTrees, n_nodes: list[int], trees: Trees) -> None:
    """Trees into the first slots. n_nodes : of each tree. Mutates trees."""
    n_outputs = trees.values.shape[2]
    feature = packed.features.astype(np.int32)
    value = np.zeros(len(feature))
    value[feature >= 0] = packed.tests
    n_leaves = int((feature < 0).sum())
    named = packed.classes.astype(np.int64) if len(packed.classes) else np.full(n_leaves, -1)
    values = np.zeros((n_leaves, n_outputs))
    values[named >= 0, named[named >= 0]] = 1.0
    values[named < 0, : packed.shares.shape[1]] = packed.shares
    stack = np.zeros(trees.tests.shape[1] + 1, np.int32)
    node = leaf = 0
    for slot, n in enumerate(n_nodes):
        n_own = (n + 1) // 2
        trees.links[slot, :n, FEATURE] = feature[node : node + n]
        trees.tests[slot, :n, VALUE] = value[node : node + n]
        trees.values[slot, :n_own] = values[leaf : leaf + n_own]
        link(trees.links[slot], stack)
        trees.sizes[slot] = n, n_own
        node, leaf = node + n, leaf + n_own
