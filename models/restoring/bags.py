"""Rules of the learners that are fitted to a window of bags."""

from typing import Any

import numpy as np

from models.bags.diverse_density import NO_POSITIVE
from models.bags.miti import LEAF
from models.bags.window import FIRST, FITTED, HEAD, N_BAGS, N_ROWS, SINCE
from models.restoring.arrays import Arrays


def check(a: Arrays, learner: Any) -> None:
    fresh = learner.state()
    x, size, y, w, at = a.fields(
        fresh, "window_x", "window_size", "window_y", "window_w", "window_at",
        window_x=(None, learner.schema.n_features),
    )  # fmt: skip
    a.within("window_x", len(x), 0, learner.max_instances, "instances")
    a.within("window_at", at[N_BAGS], 0, len(size), "bags")
    a.within("window_at", at[FIRST], 0, len(size) - 1, "places")
    a.within("window_at", at[N_ROWS], 0, len(x), "instances")
    a.within("window_at", at[HEAD], 0, max(0, len(x) - 1), "places")
    a.counts("window_at", at[[SINCE, FITTED]])
    bags = (at[FIRST] + np.arange(at[N_BAGS])) % len(size)
    a.within("window_size", size[bags], 1, max(1, len(x)), "bags")
    a.require(size[bags].sum() == at[N_ROWS], "window_size", "has other bags than instances")
    a.require(((y[bags] == 0.0) | (y[bags] == 1.0)).all(), "window_y", "has labels other than 0 and 1")
    a.require(((w[bags] > 0.0) & (w[bags] < np.inf)).all(), "window_w", "has weights that are none")
    if learner.name == "miti":
        _tree(a, learner, fresh)
    else:
        _point(a, fresh)


def _tree(a: Arrays, learner: Any, fresh: Any) -> None:
    (n_nodes,) = a.fields(fresh, "n_nodes")
    length = len(a.take("feature", fresh.feature, None))
    names = ("feature", "threshold", "left", "right", "parent", "value", "weight")
    columns = a.fields(fresh, *names, **dict.fromkeys(names, (length,)))
    a.within("n_nodes", n_nodes, 0, length, "nodes")
    n = int(n_nodes[0])
    feature, threshold, left, right, parent, _, _ = (column[:n] for column in columns)
    a.within("feature", feature, LEAF, learner.schema.n_features - 1, "features")
    here = np.flatnonzero(feature != LEAF)
    if n:
        above = a.owners("left", np.concatenate([here, here]), np.concatenate([left[here], right[here]]), n, [0])
        a.equal("parent", parent, above, "parents")
        a.require((above[1:] < np.arange(1, n)).all(), "left", "has children before their parents")
    n_values = np.array(learner.schema.n_values)[feature[here]]
    nominal = n_values > 0
    a.whole("threshold", threshold[here][nominal], 0, n_values[nominal] - 1, "values")


def _point(a: Arrays, fresh: Any) -> None:
    status, target, scale, mean, deviation = a.fields(fresh, "status", "target", "scale", "mean", "deviation")
    a.within("status", status, 0, NO_POSITIVE, "numbers")
    for name, array in (("target", target), ("scale", scale), ("mean", mean)):
        a.require(not np.isnan(array).any(), name, "has numbers that are none")
    a.require((deviation > 0.0).all(), "deviation", "has numbers that are not above 0")
