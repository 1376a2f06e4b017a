"""Partial fits of decision trees by mini-batches, as kernels.

Xu, Dey, Panda and Vogelstein 2021, Algorithm 1: the rows of a batch are sorted into leaves; each leaf that is reached
is a "false root", on whose rows the tree is grown further, down to pure leaves. Here the newest labels are kept in a
window of bounded length that all trees share, and a false root is grown on all rows of the window that lie in it.

Features are tried in random order, also where all are: in a false root of two or three rows most of them are as good,
and always the first of those would be a poor choice (pendigits 72 % instead of 81 %).

A leaf counts the classes of all that it has learned. When it splits, what the window still holds goes where it
belongs; the counts of what was forgotten are shared out, each class as the window's rows of it, and a class that the
window does not hold as all its rows. So the leaves of a tree always hold the weight of all that it has learned.

Trees are rows of `StreamingForestTrees`: node 0 is the root; the children of an inner node are left and left + 1; a
leaf has feature -1, and `left` is its row in `counts`. Tests: models.streaming_forest.node_tests.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats
from riparian.models.joined import zeros
from riparian.models.kernels.draws import poisson, uniform_at
from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.words import zeros_below
from riparian.models.observers.gaussians import heaviest
from riparian.models.streaming_forest.node_tests import best_category, best_threshold, sort_values

FEW = 12  # rows; so few are sorted sooner than they are found in the window's order
WORD = 64  # bits
NOWHERE = -1  # in `LabelWindow.at`: the tree does not learn the row

# Places in StreamingForestTrees.sizes.
NODES, LEAVES = 0, 1


class StreamingForestTrees(NamedTuple):
    """Room for trees, one a row. n: most nodes of a tree.

    feature : (trees, n) int32, -1 for a leaf.
    value : (trees, n) float64, threshold or nominal code.
    left : (trees, n) int32.
    counts : (trees, n / 2, K) float64.
    sizes : (trees, 2) int32, nodes and leaves.
    """

    feature: NDArray[np.int32]
    value: Floats
    left: NDArray[np.int32]
    counts: Floats
    sizes: NDArray[np.int32]


class LabelWindow(NamedTuple):
    """The newest labels, as a ring of `size`.

    columns : (d, size), missing values as infinity.
    y : (size,) int64.
    w : (size,).
    number : (size,) int64, how many labels came before, -1: nothing is there.
    at : (trees, size) int32, the leaf that a row lies in, or NOWHERE.
    order : (d, size) uint32, of each numeric feature the rows by value, of equal ones the first place first, as
        `sort_in` leaves them; (d, 0) where there are too few trees to share it, or none is numeric.
    rank : as `order`, where a row stands in it.
    """

    columns: Floats
    y: NDArray[np.int64]
    w: Floats
    number: NDArray[np.int64]
    at: NDArray[np.int32]
    order: NDArray[np.uint32]
    rank: NDArray[np.uint32]


class StreamingForestSettings(NamedTuple):
    """The parameters, as kernels take them.

    n_tried : features tried a node.
    """

    n_tried: int
    min_split: int
    max_nodes: int
    counting: bool
    bootstrap: bool
    majority: bool


class RegrowScratch(NamedTuple):
    """What one thread needs to grow a tree, and leaves behind as rubbish; only `mark` is all 0 between trees.

    rows, moved : (size,) int32, rows of the window.
    y, w, values, others, places, other_places : of a node's rows.
    local : (size,) int32, where a row of a node stands in `y` and `w`.
    ranks : (size / 64,) uint64, bits, all 0 between features.
    mark : (nodes,) int32, 1 + the false root's place in `roots` and `begin`.
    stack : (size + 2, 3) int32: node, first row, last row + 1.
    gone : (size + 2, K), forgotten counts of what is on the stack.
    table, seen : by nominal code.
    """

    rows: NDArray[np.int32]
    moved: NDArray[np.int32]
    y: NDArray[np.int64]
    w: Floats
    values: Floats
    others: Floats
    places: NDArray[np.int32]
    other_places: NDArray[np.int32]
    local: NDArray[np.int32]
    ranks: NDArray[np.uint64]
    mark: NDArray[np.int32]
    roots: NDArray[np.int32]
    begin: NDArray[np.int32]
    stack: NDArray[np.int32]
    gone: Floats
    features: NDArray[np.int32]
    total: Floats
    part: Floats
    table: Floats
    seen: NDArray[np.int64]


def room_for_forest(n_trees: int, n_nodes: int, n_outputs: int) -> StreamingForestTrees:
    """Trees of one leaf each, which knows nothing. n_nodes : even."""
    sizes = np.ones((n_trees, 2), np.int32)
    return StreamingForestTrees(
        np.full((n_trees, n_nodes), -1, np.int32),
        np.zeros((n_trees, n_nodes)),
        np.zeros((n_trees, n_nodes), np.int32),
        np.zeros((n_trees, n_nodes // 2, n_outputs)),
        sizes,
    )


def with_room(forest: StreamingForestTrees, n_nodes: int, n_outputs: int) -> StreamingForestTrees:
    """A copy with room for more nodes, or more classes."""
    wider = room_for_forest(len(forest.sizes), n_nodes, n_outputs)
    pairs: Any = zip(wider, forest, strict=True)
    for array, old in pairs:
        array[tuple(slice(n) for n in old.shape)] = old
    return wider


def room_to_regrow(n_features: int, size: int, n_nodes: int, n_outputs: int, n_codes: int) -> RegrowScratch:
    """size : of the window. n_codes : most values of a nominal feature."""
    return zeros(
        RegrowScratch, *9 * [size], -(-size // WORD), n_nodes, size, size + 2, (size + 2, 3), (size + 2, n_outputs),
        n_features, n_outputs, n_outputs, (n_codes, n_outputs), n_codes,
    )  # fmt: skip


@kernel(inline=True)
def leaf_of(forest, tree, n_values, x, r):
    """The leaf of row r of x (rows by instance; missing as NaN or infinity). O(depth)."""
    node = 0
    f = forest.feature[tree, 0]
    while f >= 0:
        value = x[r, f]
        if n_values[f] > 0:
            left = value == forest.value[tree, node]
        else:
            left = value <= forest.value[tree, node] and value - value == 0.0
        node = forest.left[tree, node] if left else forest.left[tree, node] + 1
        f = forest.feature[tree, node]
    return node


@kernel(inline=True)
def times(bootstrap, key, number):
    """How often a tree learns a label: once, or as often as a bootstrap sample would hold it (Poisson(1))."""
    return poisson(1.0, uniform_at(key, number)) if bootstrap else 1.0


@kernel
def vote(forest, n_values, slab, rows, first, last, by_majority, out):
    """Class probabilities of slab rows rows[first:last] into the same rows of `out`; 0 where nothing is known.

    by_majority : the share of the trees' votes, else the mean of the leaves' shares. O(rows trees depth).
    """
    n_trees = len(forest.sizes)
    n_classes = out.shape[1]
    for k in range(first, last):
        out[rows[k], :] = 0.0
    for tree in range(n_trees):
        for k in range(first, last):
            r = rows[k]
            leaf = leaf_of(forest, tree, n_values, slab, r)
            if by_majority:
                best = heaviest(forest.counts[tree, forest.left[tree, leaf]])
                if best >= 0:
                    out[r, best] += 1.0
                continue
            counts = forest.counts[tree, forest.left[tree, leaf]]
            total = 0.0
            for c in range(n_classes):
                total += counts[c]
            if total > 0.0:
                for c in range(n_classes):
                    out[r, c] += counts[c] / total
    for k in range(first, last):
        total = 0.0
        for c in range(n_classes):
            total += out[rows[k], c]
        if total > 0.0:
            for c in range(n_classes):
                out[rows[k], c] /= total


@kernel
def arrive(forest, window, n_values, batch, new, keys, bootstrap, first, last, right):
    """Sort a batch into the leaves of trees first .. last - 1.

    batch : (n, d), its rows; new : (n,) int64, their places in the window. keys : (trees,) uint64, of bootstrap draws.
    Mutates window.at, and right : (trees,), the weight of the rows that a tree would have predicted. O(n trees depth).
    """
    for tree in range(first, last):
        right[tree] = 0.0
        for k in range(len(new)):
            i = new[k]
            leaf = leaf_of(forest, tree, n_values, batch, k)
            if heaviest(forest.counts[tree, forest.left[tree, leaf]]) == window.y[i]:
                right[tree] += window.w[i]
            taken = times(bootstrap, keys[tree], window.number[i]) > 0.0
            window.at[tree, i] = leaf if taken else NOWHERE


@kernel
def place(forest, window, n_values, rows, keys, bootstrap, before, first, last):
    """Find the leaves of all rows that came before label `before`. rows : (size, d), the window by rows.

    Mutates window.at of trees first .. last - 1."""
    for tree in range(first, last):
        for i in range(len(window.y)):
            window.at[tree, i] = NOWHERE
            if 0 <= window.number[i] < before and times(bootstrap, keys[tree], window.number[i]) > 0.0:
                window.at[tree, i] = leaf_of(forest, tree, n_values, rows, i)


@kernel(allocates=True)
def sort_in(window, n_values, new, n_before, replaced):
    """Bring the order of numeric features up to date with the rows at places `new`, ascending.

    n_before : rows that are in the order. replaced : (size,) uint8, 1 for `new`. Mutates window.order, rank.
    O(size d), and O(n log n d).
    """
    n = len(new)
    values, others = np.empty(n), np.empty(n)
    places, other_places = np.empty(n, np.int32), np.empty(n, np.int32)
    kept = np.empty(len(window.y) + 1, np.uint32)
    for f in range(len(n_values)):
        if n_values[f] > 0:
            continue
        column, order, rank = window.columns[f], window.order[f], window.rank[f]
        for k in range(n):
            values[k] = column[new[k]]
            places[k] = k
        sort_values(values, places, n, others, other_places)
        n_kept = np.uint64(0)
        for k in range(np.uint64(n_before)):
            i = order[k]
            kept[n_kept] = i
            n_kept += np.uint64(1) - np.uint64(replaced[i])
        end = n_kept
        for k in range(n - 1, -1, -1):  # from the last one on, each to its place, and what comes behind it
            mine = np.uint32(new[places[k]])
            low, high = np.uint64(0), end
            while low < high:
                middle = (low + high) // np.uint64(2)
                there = column[kept[middle]]
                if there < values[k] or (there == values[k] and kept[middle] < mine):
                    low = middle + np.uint64(1)
                else:
                    high = middle
            for at in range(low, end):
                order[at + np.uint64(k + 1)] = kept[at]
            order[low + np.uint64(k)] = mine
            end = low
        for at in range(end):
            order[at] = kept[at]
        for at in range(n_kept + np.uint64(n)):
            rank[order[at]] = at


@kernel
def _by_value(column, order, rank, rows, start, n, local, ranks, values, places):
    """The values of rows[start : start + n] in their order, and in `places` where their rows stand in the node. Sorts
    nothing: each place in the window's order is a bit. Mutates local, values, places. O(n + size / 64)."""
    for k in range(np.uint64(n)):
        i = np.uint32(rows[np.uint64(start) + k])
        local[i] = k
        place = rank[i]
        ranks[place // np.uint32(WORD)] |= np.uint64(1) << np.uint64(place % np.uint32(WORD))
    at = np.uint64(0)
    for word in range(np.uint64(len(ranks))):
        left = ranks[word]
        ranks[word] = 0
        while left:
            i = order[word * np.uint64(WORD) + zeros_below(left)]
            left &= left - np.uint64(1)
            values[at] = column[i]
            places[at] = local[i]
            at += np.uint64(1)


@kernel
def _gather(tree, window, new, scratch):
    """Rows of the window by false root: how many of these; rows begin[j]:begin[j + 1] of scratch.rows are the j-th's.

    False roots are in the order in which the batch reaches them, rows in that of the window. Mutates scratch; leaves
    scratch.mark all 0. O(size).
    """
    rows, mark, roots, begin = scratch.rows, scratch.mark, scratch.roots, scratch.begin
    n_roots = 0
    begin[0] = 0
    for k in range(len(new)):
        leaf = window.at[tree, new[k]]
        if leaf >= 0 and mark[leaf] == 0:
            roots[n_roots] = leaf
            n_roots += 1
            mark[leaf] = n_roots
            begin[n_roots] = 0
    size = len(window.y)
    for i in range(size):
        leaf = window.at[tree, i]
        if leaf >= 0:
            begin[mark[leaf]] += 1
    begin[0] = 0
    for j in range(n_roots):
        begin[j + 1] += begin[j]
    total = begin[n_roots]
    for i in range(size - 1, -1, -1):
        leaf = window.at[tree, i]
        if leaf >= 0 and mark[leaf] > 0:
            begin[mark[leaf]] -= 1
            rows[begin[mark[leaf]]] = i
    for j in range(n_roots):  # what was the end of the j-th has become its start
        begin[j] = begin[j + 1]
        mark[roots[j]] = 0
    begin[n_roots] = total
    return n_roots


@kernel
def _grow(
    forest, tree, root, start, end, window, n_values, bootstrap_key, feature_key, draw, earliest, settings, scratch
):  # fmt: skip
    """Grow a tree further from a false root, on rows scratch.rows[start:end].

    feature_key, draw : of the features tried; returns the next draw. earliest : labels from this one on are new.
    Mutates the tree, window.at of its rows, scratch. O(rows n_tried depth log rows).
    """
    rows, moved, ys, ws = scratch.rows, scratch.moved, scratch.y, scratch.w
    local = scratch.local
    values, others, places, other_places = scratch.values, scratch.others, scratch.places, scratch.other_places
    stack, gone, features, total, part = scratch.stack, scratch.gone, scratch.features, scratch.total, scratch.part
    d = len(n_values)
    n_classes = len(total)
    counts = forest.counts[tree]
    for c in range(n_classes):
        gone[0, c] = counts[forest.left[tree, root], c] if settings.counting else 0.0
    if settings.counting:
        for k in range(start, end):
            i = rows[k]
            if window.number[i] < earliest:
                weight = window.w[i] * times(settings.bootstrap, bootstrap_key, window.number[i])
                gone[0, window.y[i]] = max(gone[0, window.y[i]] - weight, 0.0)
    stack[0, 0] = root
    stack[0, 1] = start
    stack[0, 2] = end
    top = 1
    while top > 0:
        top -= 1
        node = stack[top, 0]
        start = stack[top, 1]
        end = stack[top, 2]
        n = end - start
        total[:] = 0.0
        weight = 0.0
        pure = True
        for k in range(n):
            i = rows[start + k]
            ys[k] = window.y[i]
            ws[k] = window.w[i] * times(settings.bootstrap, bootstrap_key, window.number[i])
            total[ys[k]] += ws[k]
            weight += ws[k]
            pure = pure and ys[k] == ys[0]
        squares = 0.0
        for c in range(n_classes):
            squares += total[c] * total[c]
        best = -np.inf
        best_feature = -1
        best_value = 0.0
        if not pure and n >= settings.min_split and forest.sizes[tree, NODES] + 2 <= settings.max_nodes:
            for tried in range(d):
                if tried >= settings.n_tried and best_feature >= 0:
                    break
                swap = tried + np.int64(uniform_at(feature_key, draw) * (d - tried))
                draw += 1
                f = features[swap]
                features[swap] = features[tried]
                features[tried] = f
                column = window.columns[f]
                if n_values[f] > 0:
                    score, value = best_category(
                        column, n_values[f], rows, start, end, ys, ws, total, weight, scratch.table, scratch.seen
                    )
                else:
                    if n > FEW and window.order.shape[1] > 0:
                        _by_value(
                            column, window.order[f], window.rank[f], rows, start, n, local, scratch.ranks, values,
                            places,
                        )  # fmt: skip
                    else:
                        for k in range(n):
                            values[k] = column[rows[start + k]]
                            places[k] = k
                        sort_values(values, places, n, others, other_places)
                    score, value = best_threshold(values, places, n, ys, ws, total, weight, squares, part)
                if score > best:
                    best = score
                    best_feature = f
                    best_value = value
        if best_feature < 0:
            leaf = forest.left[tree, node]
            for c in range(n_classes):
                counts[leaf, c] = total[c] + gone[top, c]
            for k in range(start, end):
                window.at[tree, rows[k]] = node
            continue
        column = window.columns[best_feature]
        nominal = n_values[best_feature] > 0
        part[:] = 0.0
        left_weight = 0.0
        middle = start
        n_moved = 0
        for k in range(n):
            i = rows[start + k]
            here = column[i]
            if (here == best_value) if nominal else (here <= best_value):
                rows[middle] = i
                middle += 1
                part[ys[k]] += ws[k]
                left_weight += ws[k]
            else:
                moved[n_moved] = i
                n_moved += 1
        for k in range(n_moved):
            rows[middle + k] = moved[k]
        child = forest.sizes[tree, NODES]
        forest.feature[tree, node] = best_feature
        forest.value[tree, node] = best_value
        forest.left[tree, child] = forest.left[tree, node]
        forest.left[tree, child + 1] = forest.sizes[tree, LEAVES]
        forest.left[tree, node] = child
        forest.sizes[tree, NODES] += 2
        forest.sizes[tree, LEAVES] += 1
        for c in range(n_classes):
            share = part[c] / total[c] if total[c] > 0.0 else left_weight / weight
            before = gone[top, c]
            gone[top + 1, c] = before * share
            gone[top, c] = before - gone[top + 1, c]
        stack[top, 0] = child + 1
        stack[top, 1] = middle
        stack[top, 2] = end
        stack[top + 1, 0] = child
        stack[top + 1, 1] = start
        stack[top + 1, 2] = middle
        top += 2
    return draw


@kernel
def regrow(forest, window, n_values, new, bootstrap_keys, feature_keys, batch, settings, scratch, first, last):
    """Let trees first .. last - 1 learn a batch that has arrived (`arrive`). There must be room for as many more nodes
    as false roots may get: two for each row of the window.

    new : (n,) int64, places of the batch in the window. feature_keys : (trees,) uint64. batch : its number, from which
    the features' draws are counted. Mutates the trees, window.at, scratch.
    """
    earliest = window.number[new[0]]
    for tree in range(first, last):
        n_roots = _gather(tree, window, new, scratch)
        for f in range(len(n_values)):
            scratch.features[f] = f
        draw = np.int64(batch) << 32
        for j in range(n_roots):
            draw = _grow(
                forest, tree, scratch.roots[j], scratch.begin[j], scratch.begin[j + 1], window, n_values,
                bootstrap_keys[tree], feature_keys[tree], draw, earliest, settings, scratch,
            )  # fmt: skip
