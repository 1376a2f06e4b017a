"""Rules of the stochastic gradient trees."""

from typing import Any

import numpy as np

from models.gradient.bag_learner import BagGradientTree
from models.gradient.learner_state import BUFFERED, LEARNED, NEXT_BINS, READY, UNIT
from models.gradient.tree import (
    BLOCK,
    DEEPEST,
    DEFAULT,
    DEPTH,
    LEAF,
    LEFT,
    MANY,
    N_BLOCKS,
    N_LEAVES,
    N_NODES,
    NEXT,
    PARENT,
    RIGHT,
    TEST,
    TREE,
)
from models.restoring.arrays import MANY as LARGE
from models.restoring.arrays import Arrays
from models.restoring.drift import adwin

BY_NODE = ("test", "meta", "value", "slope", "curvature", "totals")


def check(a: Arrays, learner: Any) -> None:
    fresh = learner.state()
    _nodes(a, learner, fresh)
    (chosen,) = a.fields(fresh, "chosen")
    a.within("chosen", chosen, 0, learner.schema.n_features - 1, "features")
    edges, n_edges, _, _ = a.fields(fresh, "edges", "n_edges", "pace", "ranges")
    a.within("n_edges", n_edges, 0, edges.shape[1], "counts")
    _learner_state(a, learner, fresh)
    watch = [name for name in fresh._fields if name.startswith("watch_")]
    a.fields(fresh, *watch)
    if len(fresh.watch_counts):
        filled = a.state["watch_filled"]
        adwin(a, a.state["watch_counts"], filled, a.state["watch_totals"].shape[2] - 1, "watch_")


def _nodes(a: Arrays, learner: Any, fresh: Any) -> None:
    counts, links, roots = a.fields(fresh, "nodes", "links", "roots", links=(None, 10))
    n = len(links)
    rows = {name: (n, *getattr(fresh, name).shape[1:]) for name in BY_NODE}
    a.fields(fresh, *BY_NODE, **rows)
    (stats,) = a.fields(fresh, "stats", stats=(None, fresh.stats.shape[1]))
    at = np.arange(n)
    tested = links[:, TEST]
    a.within("links", tested, LEAF, learner.schema.n_features - 1, "features")
    leaf, here = tested == LEAF, np.flatnonzero(tested != LEAF)
    a.equal("nodes", counts[[N_NODES, N_BLOCKS, N_LEAVES]], (n, len(stats), leaf.sum()), "counts")
    a.within("nodes", counts[DEEPEST], 0, n, "depths")
    # Children come after their parents, and one after the other.
    left, right, default = (links[here, column].astype(np.int64) for column in (LEFT, RIGHT, DEFAULT))
    many = right == MANY
    for to in (left, right[~many], default):
        a.within("links", to, 0, n - 1, "children")
    following, parent = links[:, NEXT].astype(np.int64), links[:, PARENT].astype(np.int64)
    a.within("links", following, -1, n - 1, "siblings")
    a.within("links", parent, -1, n - 1, "parents")
    on = np.flatnonzero(following >= 0)
    a.require((following[on] > on).all(), "links", "goes round in circles")
    a.require((parent < at).all(), "links", "has children before their parents")
    a.equal("links", parent[left], here, "parents")
    a.equal("links", parent[right[~many]], here[~many], "parents")
    a.equal("links", parent[default], here, "parents")
    a.equal("links", parent[following[on]], parent[on], "siblings")
    n_values = np.array(learner.schema.n_values)[tested[here]]
    a.require((n_values[many] > 0).all(), "links", "has a branch a value of a number")
    a.within("test", a.state["test"][here][~many & (n_values > 0)], 0, max(0, n_values.max(initial=0) - 1), "values")
    below = np.flatnonzero(parent >= 0)
    depth = links[:, DEPTH].astype(np.int64)
    a.equal("links", depth[below], depth[parent[below]] + 1, "depths")
    a.require(not depth[parent < 0].any(), "links", "has roots that are not at the top")
    a.equal("links", links[below, TREE], links[parent[below], TREE], "trees")
    top = np.flatnonzero(parent < 0)
    planted = roots.ravel() >= 0
    a.within("roots", roots, -1, n - 1, "roots")
    a.equal("roots", np.sort(roots.ravel()[planted]), top, "roots")
    a.within("links", links[:, TREE], 0, roots.size - 1, "trees")
    a.require((planted.reshape(roots.shape) == planted.reshape(roots.shape)[0]).all(), "roots", "lacks some")
    block = links[:, BLOCK]
    a.require((block[~leaf] == -1).all(), "links", "has statistics of inner nodes")
    a.each_once("links", block[leaf], len(stats), "rows of statistics")


def _learner_state(a: Arrays, learner: Any, fresh: Any) -> None:
    schema, task = learner.schema, learner._task
    counts, _, _, random = a.fields(fresh, "counts", "known", "scales", "rng")
    a.random("rng", random)
    target = a.take("target", fresh.target, None)
    a.require(len(target) in (UNIT, len(fresh.target)), "target", f"has {len(target)} numbers")
    a.counts("counts", counts[[LEARNED, BUFFERED]])
    a.within("counts", counts[NEXT_BINS], 0, np.iinfo(np.int64).max, "counts")
    a.within("counts", counts[READY], 0, 1)
    ready = counts[READY] == 1
    length = (0 if isinstance(learner, BagGradientTree) else task.sample) if ready else len(fresh.buffer)
    buffer = a.take("buffer", fresh.buffer, length, schema.n_features + 2)
    if not ready:
        a.require(counts[BUFFERED] < max(1, len(buffer)), "counts", "has more labels in the buffer than it holds")
        a.require(not len(a.state["links"]), "links", "has nodes before the warm-up has ended")
    a.require(counts[LEARNED] <= LARGE, "counts", "has more labels than there are")
