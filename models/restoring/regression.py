"""Rules of the regression trees."""

from typing import Any

import numpy as np

from models.regression.fimt import FimtDD
from models.regression.nodes import (
    BLOCK,
    DEFAULT,
    DEPTH,
    FREE,
    FREE_BLOCK,
    FREE_NODE,
    LEAF,
    LEFT,
    N_BLOCKS,
    N_LIVE,
    N_NODES,
    N_OTHER,
    OTHER,
    PARENT,
    RIGHT,
    TEST,
)
from models.regression.observers import lay_out
from models.regression.orto import Orto
from models.restoring.arrays import Arrays
from models.restoring.hoeffding import histograms


def check(a: Arrays, tree: Any) -> None:
    fresh = tree.state()
    counts, links = a.fields(fresh, "counts", "links", links=(None, 8))
    n = len(links)
    test, _, blocks, _ = a.fields(
        fresh, "test", "monitor", "blocks", "scales",
        test=(n,), monitor=(n, fresh.monitor.shape[1]), blocks=(None, fresh.blocks.shape[1]),
    )  # fmt: skip
    n_blocks, schema, n_bins = len(blocks), tree.schema, tree.parameters()["n_bins"]
    tested = links[:, TEST].astype(np.int64)
    a.within("links", tested, FREE, schema.n_features - 1, "features")
    free, leaf, inner = tested == FREE, tested == LEAF, tested >= 0
    a.require(n > 0 and not free[0], "links", "has no root")
    a.equal("counts", counts[[N_NODES, N_BLOCKS, N_LIVE]], (n, n_blocks, (~free).sum()), "counts")
    a.within("counts", counts[FREE_NODE], 0, n, "free nodes")
    a.chain("links", int(counts[FREE_NODE]) - 1, links[:, LEFT].astype(np.int64) - 1, free)

    live = np.flatnonzero(~free)
    here, other = np.flatnonzero(inner), links[:, OTHER].astype(np.int64)
    a.within("links", other[live], -1, n - 1, "other trees")
    beside = live[other[live] >= 0]
    number = np.full(n, -1, np.int64)
    number[live] = np.arange(len(live))
    owner = np.concatenate([here, here, beside])
    child = np.concatenate([links[here, LEFT], links[here, RIGHT], other[beside]]).astype(np.int64)
    a.within("links", child, 0, n - 1, "children")
    a.owners("links", number[owner], number[child], len(live), [0])
    parent, depth = links[:, PARENT].astype(np.int64), links[:, DEPTH].astype(np.int64)
    a.equal("links", parent[child[: 2 * len(here)]], owner[: 2 * len(here)], "parents")
    a.require(parent[0] == -1 and depth[0] == 0, "links", "has a root that is not at the top")
    a.equal("links", depth[child[: 2 * len(here)]], depth[owner[: 2 * len(here)]] + 1, "depths")
    a.equal("links", depth[other[beside]], depth[beside], "depths")
    if isinstance(tree, Orto):
        a.equal("links", parent[other[beside]], parent[beside], "parents")
        a.equal("counts", counts[N_OTHER], len(beside), "options")
        a.within("counts", len(beside), 0, tree.parameters()["max_trees"] - 1, "options")
    else:
        a.require((parent[other[beside]] == -1).all(), "links", "has parents of alternate trees")
        a.require(
            not len(beside) or (isinstance(tree, FimtDD) and tree.parameters().get("drift_detection", False)),
            "links", "has alternate trees, which it does not grow",
        )  # fmt: skip
    default = links[here, DEFAULT]
    a.require(
        ((default == links[here, LEFT]) | (default == links[here, RIGHT])).all(),
        "links", "has a way for missing values that leads to no child",
    )  # fmt: skip
    n_values = np.array(schema.n_values, np.int64)[tested[here]]
    a.whole("test", test[here][n_values > 0], 0, n_values[n_values > 0] - 1, "values")

    block = links[:, BLOCK]
    a.require((block[here] == -1).all(), "links", "has blocks of inner nodes")
    a.within("links", block[leaf], 0, n_blocks - 1, "blocks")
    used = np.zeros(n_blocks, bool)
    used[block[leaf]] = True
    a.require(used.sum() == leaf.sum(), "links", "has a block twice")
    following = np.zeros(n_blocks, np.int64)
    a.whole("blocks", blocks[~used, 0], 0, n_blocks, "free blocks")
    following[~used] = blocks[~used, 0]
    a.within("counts", counts[FREE_BLOCK], 0, n_blocks, "free blocks")
    a.chain("blocks", int(counts[FREE_BLOCK]) - 1, following - 1, ~used)
    layout = lay_out(schema, n_bins)[0]
    at = np.where(layout.n_values == 0, layout.offset, -1)
    histograms(a, blocks[used], at[None], n_bins, "blocks", signed=True)
