"""Rules of shrub ensembles."""

from typing import Any

import numpy as np

from models.restoring.arrays import Arrays
from models.shrubs.trees import most_nodes
from models.shrubs.window import FILLED, HEAD, MEMBERS, code_type


def check(a: Arrays, ensemble: Any) -> None:
    fresh, schema, windows = ensemble.state(), ensemble.schema, ensemble._windows
    classes, k = ensemble._settings.classes, schema.n_outputs
    counts, random, _, _ = a.fields(fresh, "counts", "random", "blend", "errors")
    a.counts("counts", counts)
    a.random("random", random)
    if "seen" in a.state:  # older states have none
        a.within("seen", a.take("seen", fresh.seen), 0, 1)
    filled, members = counts[:, FILLED], counts[:, MEMBERS]
    sizes = np.array([shrubs.size for shrubs in windows])
    a.within("counts", filled, 0, sizes, "items")
    a.within("counts", counts[:, HEAD], 0, sizes - 1, "places")
    a.require(((filled == sizes) | (counts[:, HEAD] == filled)).all(), "counts", "has gaps in a window")
    a.within("counts", members, 0, ensemble._settings.n_trees, "members")
    items, m = int(filled.sum()), int(members.sum())
    pairs = int((members * (members + 1) // 2).sum())
    judging = len(a.take("alone", fresh.alone, None)) > 0
    wanted = ensemble._settings.train_share < 1.0
    a.require(judging == (wanted and m > 0), "alone", "is not of this train_share")
    x, codes, y, w = a.fields(
        fresh, "x", "codes", "y", "w", x=(items, fresh.x.shape[1]), codes=(items, fresh.codes.shape[1]), y=(items,),
        w=(None,),
    )  # fmt: skip
    a.require(len(w) in (0, items), "w", f"has {len(w)} weights, not {items}")
    a.require(((w > 0.0) & (w < np.inf)).all(), "w", "has weights that are none")
    a.require(not (np.isnan(x) | (x == -np.inf)).any(), "x", "has numbers that are none")
    if classes:
        a.within("y", y, 0, k - 1, "classes")
    else:
        a.finite("y", y)
    missing = np.iinfo(code_type(max(schema.n_values, default=0))).max
    for column, n in zip(codes.T, (n for n in schema.n_values if n), strict=True):
        a.within("codes", column[column != missing], 0, n - 1, "values")
    n_nodes, features = a.fields(fresh, "n_nodes", "features", n_nodes=(m,), features=(None,))
    whose = np.repeat(np.arange(len(windows)), members)
    most = np.array([most_nodes(shrubs.size, ensemble._settings.max_depth) for shrubs in windows])
    a.within("n_nodes", n_nodes, 1, most[whose], "nodes")
    a.require((n_nodes % 2 == 1).all() and n_nodes.sum() == len(features), "n_nodes", "has other nodes than there are")
    a.within("features", features, -1, schema.n_features - 1, "features")
    n_inner = np.add.reduceat(features >= 0, np.cumsum(n_nodes) - n_nodes) if m else np.zeros(0, np.int64)
    a.equal("features", n_inner, n_nodes // 2, "tests")
    n_leaves = (len(features) + m) // 2
    (tests,) = a.fields(fresh, "tests", tests=(len(features) - n_leaves,))
    n_values = np.array(schema.n_values)[features[features >= 0]]
    a.within("tests", tests[n_values > 0], 0, np.finfo(np.float64).max, "values")
    (named,) = a.fields(fresh, "classes", classes=(n_leaves if classes else 0,))
    a.within("classes", named, -1, k - 1, "classes")
    other = int((named < 0).sum()) if classes else n_leaves
    judged = int(((members * filled + 7) // 8).sum()) if wanted else 0
    a.fields(
        fresh, "shares", "weights", "gram", "labels", "together", "alone", "judged",
        shares=(other, fresh.shares.shape[1]), weights=(m,), gram=(pairs,), labels=(m,),
        together=(pairs if judging else 0,), alone=(m if judging else 0,), judged=(judged,),
    )  # fmt: skip
