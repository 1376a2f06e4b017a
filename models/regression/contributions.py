"""What features add to predictions of regression trees by linear models in leaves.

The way to a leaf is that of all trees (models.contributions), and leads to the mean of its targets. A linear model is a
sum: a feature adds its term there, less what this term is on average over what the leaf has seen, which is in the mean
already, and was told on the way. A leaf's observers know what it has seen: of nominal values the weights; of numeric
values the keys of the histogram, and once this is full the middles of its bins. A missing value's term is 0, in the
average as in the model.

A leaf of a forest does not observe all features, and one that was just split off has seen nothing. A numeric feature
that it has not observed is taken to be as in the whole stream, where inputs are 0 on average, unless it was tested on
the way; the terms of one that was tested, and of nominal ones, are left. Left, too, is what the model says on average
beyond the mean of the targets, which has more of the past.
"""

import numpy as np

from models.kernel import kernel
from models.regression.leaf import CENTRE, PER_WIDTH, SEEN, N, scale, standardise, uses_model
from models.regression.nodes import BLOCK, PARENT, TEST


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
def add_model(links, leaf, blocks, layout, scales, leaf_prediction, slab, r, z, share, told, terms, out):
    """Add `share` times what features add in the linear model of row r's leaf, if that predicts by it.

    z : (d,), scratch. terms : (blocks, d), of average_terms, where told : (blocks,) bool. Mutates these and
    out : (d + 1,). O(d), and once a leaf that of average_terms.
    """
    own = links[leaf, BLOCK]
    block = blocks[own]
    if not block[N] > 0.0 or not uses_model(block, leaf_prediction):
        return
    if not told[own]:
        average_terms(links, leaf, block, layout, scales, terms[own])
        told[own] = True
    standardise(scales, layout.n_values, slab, r, z)
    for f in range(len(z)):
        average = terms[own, f]
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
def add_models(links, leaves, blocks, layout, scales, leaf_prediction, slab, rows, z, told, terms, out):
    """Add what the linear models of the rows' leaves make of features. leaves : (n,), of each row. Mutates z, told,
    terms (see add_model) and out : (n, d + 1). O(n d + leaves d (n_bins or V))."""
    for i in range(len(rows)):
        add_model(links, leaves[i], blocks, layout, scales, leaf_prediction, slab, rows[i], z, 1.0, told, terms, out[i])
