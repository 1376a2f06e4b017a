"""What features add to predictions of regression trees: linear models in leaves, and options.

The way to a leaf is that of all trees (models.contributions), and leads to the mean of its targets. A linear model is a
sum: a feature adds its term there, less what this term is on average over what the leaf has seen, which is in the mean
already, and was told on the way. A leaf's observers know what it has seen: of nominal values the weights; of numeric
values the keys of the histogram, and once this is full the middles of its bins. A missing value's term is 0, in the
average as in the model.

A leaf of a forest does not observe all features, and one that was just split off has seen nothing. A numeric feature
that it has not observed is taken to be as in the whole stream, where inputs are 0 on average, unless it was tested on
the way; the terms of one that was tested, and of nominal ones, are left. Left, too, is what the model says on average
beyond the mean of the targets, which has more of the past.

In an option tree a prediction is a mean over ways, weighted by the options that they take, and contributions are the
mean of those of the ways. So they begin with the mean of the options at the root. Of a node the value is the mean of
the targets in the leaves below, each weighted by the options on the way there.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.contract import Floats
from models.contributions import Sums, climb
from models.frames import INTEGER, array_of, framed, put
from models.kernel import kernel
from models.regression.leaf import CENTRE, MEAN, MEAN_LEAF, PER_WIDTH, SEEN, N, scale, standardise, uses_model
from models.regression.nodes import BLOCK, LEAF, LEFT, OTHER, PARENT, RIGHT, TEST, child_of, route
from models.regression.observers import Layout


class Terms(NamedTuple):
    """The average terms of the leaves that instances come to, as they come.

    place : (blocks,) int32, of any content, where a leaf's stand. It is right where `owner` says so.
    owner : (n,) int64, the block of the leaf.
    average : (n, d) float64, of average_terms.
    filled : (1,) int64, how many there are.
    """

    place: NDArray[np.int32]
    owner: NDArray[np.int64]
    average: Floats
    filled: NDArray[np.int64]


def room_for_terms(n: int, n_blocks: int, d: int) -> Terms:
    """Of n leaves."""
    return Terms(np.zeros(n_blocks, np.int32), np.zeros(n, np.int64), np.zeros((n, d)), np.zeros(1, np.int64))


class AskedTree(NamedTuple):
    """What is asked about features in a tree, as kernels take it: models.frames.

    z : (d,), scratch.
    """

    links: Any
    test: Any
    blocks: Any
    layout: Any
    scales: Any
    leaf_prediction: Any
    sums: Any
    terms: Any
    z: Any


@kernel
def _fill(words, values):
    """Mutates words."""
    put(words, values)


_numbers, _table, _integers = array_of(np.float64, 1), array_of(np.float64, 2), array_of(np.int64, 1)
_codes = array_of(np.int32, 1)
frame_of, values_of = framed(
    AskedTree(
        links=array_of(np.int32, 2),
        test=_numbers,
        blocks=_table,
        layout=Layout(_codes, *(_integers,) * 3),
        scales=_table,
        leaf_prediction=INTEGER,
        sums=Sums(array_of(np.uint8, 1), _table, _codes),
        terms=Terms(_codes, _integers, _table, _integers),
        z=_numbers,
    ),
    _fill,
)


@kernel
def add_up_stale(links, blocks, stale, sums, order):
    """Add up the stale nodes of a tree, each from its two children: the sum of the targets, and the weight. Mutates
    stale, sums, order. O(stale nodes)."""
    n = 0
    if stale[0] != 0:
        order[0] = 0
        n = 1
    at = 0
    while at < n:
        node = order[at]
        at += 1
        if links[node, TEST] != LEAF:
            for side in (LEFT, RIGHT):
                child = links[node, side]
                if stale[child] != 0:
                    order[n] = child
                    n += 1
    for at in range(n - 1, -1, -1):
        node = order[at]
        stale[node] = 0
        if links[node, TEST] == LEAF:
            block = blocks[links[node, BLOCK]]
            sums[node, 0] = block[MEAN] * block[N]
            sums[node, 1] = block[N]
        else:
            for c in range(2):
                sums[node, c] = sums[links[node, LEFT], c] + sums[links[node, RIGHT], c]


@kernel
def tell_way(frame, slab, rows, about, leaves, out):
    """Write what the tests on the way to the leaf change, and in the last column the value of the root.

    frame : the words of `frame_of` of an AskedTree. Mutates its sums, leaves : (n,) int64, of each row, and out :
    (n, d + 1). O(n depth), and stale nodes.
    """
    tree = values_of(frame)
    stale, sums, order = tree.sums
    add_up_stale(tree.links, tree.blocks, stale, sums, order)
    for i in range(len(rows)):
        leaves[i] = route(tree.links, tree.test, tree.layout.n_values, slab, rows[i], 0)
    climb(tree.links, TEST, PARENT, -1, sums, leaves, about, out)


@kernel
def average_terms(links, leaf, block, layout, scales, terms):
    """Write each feature's average term in the linear model of a leaf over what the leaf has seen, NaN where that is
    not known. Mutates terms : (d,). O(depth + d (n_bins or V))."""
    for f in range(len(terms)):
        terms[f] = np.nan if layout.n_values[f] > 0 else 0.0
    above = links[leaf, PARENT]
    while above >= 0:
        terms[links[above, TEST]] = np.nan
        above = links[above, PARENT]
    n_bins = layout.bins[0]
    for f in range(len(terms)):
        n_values = layout.n_values[f]
        first = layout.weight[f]
        keys = layout.offset[f] + 1
        n_keys = n_values if n_values > 0 else np.int64(block[layout.offset[f]])
        sums = layout.offset[f] if n_values > 0 else keys + n_bins
        n = 0.0
        total = 0.0
        for i in range(n_keys):
            n += block[sums + 3 * i]
            if n_values > 0:
                total += block[sums + 3 * i] * block[first + i]
                continue
            value = block[keys + i]
            if n_keys == n_bins and i > 0:
                value = 0.5 * value + 0.5 * block[keys + i - 1]
            z = scale(value, scales[CENTRE, f], scales[PER_WIDTH, f])
            total += block[sums + 3 * i] * block[first] * z
        if n > 0.0:
            terms[f] = total / block[SEEN]


@kernel
def add_model(links, leaf, blocks, layout, scales, leaf_prediction, slab, r, z, share, terms, out):
    """Add `share` times what features add in the linear model of row r's leaf, if that predicts by it.

    z : (d,), scratch. terms : Terms. Mutates these and out : (d + 1,). O(d), and once a leaf that of average_terms.
    """
    own = links[leaf, BLOCK]
    block = blocks[own]
    if not block[N] > 0.0 or not uses_model(block, leaf_prediction):
        return
    at = terms.place[own]
    if not (0 <= at < terms.filled[0] and terms.owner[at] == own):
        at = np.int32(terms.filled[0])
        terms.filled[0] += 1
        terms.place[own] = at
        terms.owner[at] = own
        average_terms(links, leaf, block, layout, scales, terms.average[at])
    standardise(scales, layout.n_values, slab, r, z)
    for f in range(len(z)):
        average = terms.average[at, f]
        if average != average:
            continue
        n_values = layout.n_values[f]
        term = 0.0
        if n_values == 0:
            term = block[layout.weight[f]] * z[f]
        elif slab[r, f] >= 0.0 and slab[r, f] < n_values:
            term = block[layout.weight[f] + np.int64(slab[r, f])]
        out[f] += share * (term - average)


@kernel
def add_models(frame, slab, rows, leaves, out):
    """Add what the linear models of the rows' leaves make of features. frame, leaves : of tell_way. Mutates scratch in
    the frame and out : (n, d + 1). O(n d + leaves d (n_bins or V))."""
    tree = values_of(frame)
    tree.terms.filled[0] = 0
    for i in range(len(rows)):
        add_model(
            tree.links, leaves[i], tree.blocks, tree.layout, tree.scales, tree.leaf_prediction, slab, rows[i], tree.z,
            1.0, tree.terms, out[i],
        )  # fmt: skip


@kernel
def tell_every(frames, slab, rows, about, places, found):
    """All that the trees of an ensemble say, one after the other. frames : (M, words). places : (2, n) int64, scratch.
    Mutates what the frames keep, places and found : (M, n, d + 1)."""
    for m in range(len(frames)):
        tell_way(frames[m], slab, rows, about, places[0], found[m])
        if values_of(frames[m]).leaf_prediction != MEAN_LEAF:
            add_models(frames[m], slab, rows, places[0], found[m])


@kernel
def add_up_options(links, mass, share, sums):
    """As models.contributions.add_up, of an option tree: what the leaves below each node have, each in proportion to
    the options on the way there.

    share : (n,), of an option among those of its option node, 1 of other nodes. mass, sums : (n, 2), of zeros. Mutates
    sums. O(n depth).
    """
    for leaf in range(len(links)):
        if links[leaf, TEST] != LEAF:
            continue
        node = leaf
        part = 1.0
        while node >= 0:
            for c in range(2):
                sums[node, c] += part * mass[leaf, c]
            part *= share[node]
            node = links[node, PARENT]


@kernel
def climb_options(
    links, test, blocks, layout, scales, leaf_prediction, sums, share, slab, rows, start, part, z, terms, out
):  # fmt: skip
    """Write the mean of what features change on the ways to the leaves, with their linear models, and in the last
    column of the values that the ways begin with.

    start, part : (2 max_trees + 1,), scratch, of each stretch of a way (models.regression.orto) the option that it
    begins at, and its share of the prediction. z, terms : of add_model. Mutates those and out : (n, d + 1), of
    zeros. O(n max_trees (depth + d)), and once a leaf average_terms.
    """
    last = out.shape[1] - 1
    for i in range(len(rows)):
        n = 0
        option = np.int64(0)
        while option >= 0:
            start[n] = option
            part[n] = share[option]
            if part[n] > 0.0:
                out[i, last] += part[n] * (sums[option, 0] / sums[option, 1])
                n += 1
            option = np.int64(links[option, OTHER])
        at = 0
        while at < n:
            node = start[at]
            while node >= 0 and links[node, TEST] >= 0:
                f = links[node, TEST]
                here = sums[node, 0] / sums[node, 1]
                below = np.int64(child_of(links, test, layout.n_values, slab, rows[i], node))
                node = below
                if links[below, OTHER] < 0:
                    out[i, f] += part[at] * (sums[below, 0] / sums[below, 1] - here)
                    continue
                while below >= 0:
                    start[n] = below
                    part[n] = part[at] * share[below]
                    if part[n] > 0.0:
                        out[i, f] += part[n] * (sums[below, 0] / sums[below, 1] - here)
                        n += 1
                    below = np.int64(links[below, OTHER])
                node = np.int64(-1)
            if node >= 0:
                add_model(
                    links, node, blocks, layout, scales, leaf_prediction, slab, rows[i], z, part[at], terms,
                    out[i],
                )  # fmt: skip
            at += 1
