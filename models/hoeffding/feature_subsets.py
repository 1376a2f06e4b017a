"""Leaves that look at some of the features only: what each looks at, and the layout of its block.

The features of a node follow from the tree's seed and the node's number (or from the seed alone, where all nodes have
the same), by a hash: a leaf keeps them for life, and they are not state. Its block holds the statistics of these
features only, one after the other as in a learner of so many features. So the kernels of models.observers.gaussians,
models.observers.histogram_blocks and models.hoeffding.splitting.candidates run on it as they are, on a row of gathered
values.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats, Schema
from riparian.models.hoeffding.nodes import TEST
from riparian.models.kernels.draws import uniform_at
from riparian.models.kernels.kernel import kernel
from riparian.models.observers.gaussians import BlockLayout, lay_out
from riparian.models.observers.likelihood import BEYOND


class FeatureSubsets(NamedTuple):
    """Of each node, in arrays of n_nodes rows (or of one row, where all nodes have the same features), s columns.

    features : (n, s) int32, ascending.
    n_values, offset, cached, code : (n, s), as models.observers.gaussians.BlockLayout has them.
    bins : (1,) int64, keys of a histogram, or 0.
    x : (1, s) float64, scratch, the values of an instance.
    n_seen : (s,) int64, scratch, how many values each of its features has had.
    """

    features: NDArray[np.int32]
    n_values: NDArray[np.int32]
    offset: NDArray[np.uint64]
    cached: NDArray[np.uint64]
    code: NDArray[np.uint64]
    bins: NDArray[np.int64]
    x: Floats
    n_seen: NDArray[np.int64]


_none, _nowhere = np.zeros((0, 0), np.int32), np.zeros((0, 0), np.uint64)
NO_SUBSETS = FeatureSubsets(
    _none, _none, _nowhere, _nowhere, _nowhere, np.zeros(1, np.int64), np.zeros((1, 0)), np.zeros(0, np.int64)
)


@kernel
def draw_features(key, first, features, n_features):
    """Fill the rows of `features` from `first` on, each with some of 0 .. n_features - 1, ascending and all sets alike
    (selection sampling: f is taken with the probability that it is among those still missing). O(n_features) a row."""
    n_chosen = features.shape[1]
    for node in range(first, len(features)):
        n = 0
        for f in range(n_features):
            if uniform_at(key, node * n_features + f) * (n_features - f) < n_chosen - n:
                features[node, n] = f
                n += 1


def lay_out_subsets(schema: Schema, n_bins: int, features: NDArray[np.int32]) -> FeatureSubsets:
    """The layouts of the blocks of nodes that look at `features`, (n, s)."""
    layout = lay_out(schema, n_bins)[0]
    blocks, rows = (widths[features] for widths in _widths(schema, n_bins))
    s = features.shape[1]
    return FeatureSubsets(
        features,
        layout.n_values[features],
        _starts(blocks, 0),
        _starts(rows, schema.n_outputs),
        layout.code[features],
        layout.bins,
        np.zeros((1, s)),
        np.zeros(s, np.int64),
    )


def widest(schema: Schema, n_bins: int, s: int) -> tuple[int, int]:
    """Room for a block of any `s` features, and for its row of the cache."""
    blocks, rows = (int(np.sort(widths)[len(widths) - s :].sum()) for widths in _widths(schema, n_bins))
    return blocks, 0 if n_bins else schema.n_outputs + rows + BEYOND


@lru_cache(100)
def _widths(schema: Schema, n_bins: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers of each feature in a block, and in a row of the cache."""
    layout, block, _ = lay_out(schema, n_bins)
    n_values = layout.n_values.astype(np.int64)
    starts = np.append(layout.offset.astype(np.int64), block)
    return starts[1:] - starts[:-1], schema.n_outputs * np.where(n_values == 0, 2, 1 + n_values)


def _starts(widths: NDArray[np.int64], first: int) -> NDArray[np.uint64]:
    return np.ascontiguousarray(np.cumsum(widths, axis=1) - widths + first, dtype=np.uint64)


@kernel(inline=True)
def layout_at(subsets, node):
    """The layout of the block of `node`."""
    row = node if len(subsets.features) > 1 else 0
    return BlockLayout(subsets.n_values[row], subsets.offset[row], subsets.cached[row], subsets.code[row], subsets.bins)


@kernel(inline=True)
def name_test(subsets, node, links):
    """Where `node` was split on the j-th feature that it looked at, put that feature's number for j. Mutates links."""
    if links[node, TEST] >= 0:
        links[node, TEST] = subsets.features[node if len(subsets.features) > 1 else 0, links[node, TEST]]


@kernel(inline=True)
def gather(subsets, node, n_seen, slab, r):
    """Bring the values of row r of the slab that `node` looks at, and of n_seen, into scratch."""
    row = node if len(subsets.features) > 1 else 0
    for j in range(subsets.features.shape[1]):
        f = subsets.features[row, j]
        subsets.x[0, j] = slab[r, f]
        subsets.n_seen[j] = n_seen[f]


@kernel(inline=True)
def know(subsets, node, known):
    """Note the gathered nominal values; whether one was new to the learner. Mutates known, and n_seen in scratch."""
    row = node if len(subsets.features) > 1 else 0
    new = False
    for j in range(subsets.features.shape[1]):
        n_values = subsets.n_values[row, j]
        value = subsets.x[0, j]
        if n_values > 0 and value >= 0.0 and value < n_values:
            code = subsets.code[row, j] + np.uint64(value)
            if known.values[code] == 0:
                known.values[code] = 1
                known.n_seen[subsets.features[row, j]] += 1
                subsets.n_seen[j] += 1
                new = True
    return new
