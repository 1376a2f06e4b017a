"""Rules of Mondrian forests."""

from typing import Any

import numpy as np

from models.mondrian import nodes as rows
from models.restoring.arrays import Arrays


def check(a: Arrays, forest: Any) -> None:
    fresh, schema, settings = forest.state(), forest.schema, forest._settings
    m, capacity, _ = a.take("tests", fresh.tests, len(fresh.tests), None, 2).shape
    columns = a.take("nodes", fresh.nodes, m, capacity, None).shape[2]
    a.require(
        8 <= columns <= rows.columns_of(schema.n_outputs if settings.classes else 1) and columns % 8 == 0,
        "nodes", f"has {columns} columns",
    )  # fmt: skip
    boxes, seen = (fresh.boxes.shape[2], fresh.seen.shape[2])
    tests, nodes, _, _, pairs, counts, errors = a.fields(
        fresh, "tests", "nodes", "boxes", "seen", "pairs", "counts", "errors",
        tests=(m, capacity, 2), nodes=(m, capacity, columns), boxes=(m, capacity, boxes), seen=(m, capacity, seen),
        pairs=(m, capacity // 2, 2),
    )  # fmt: skip
    a.require(capacity >= 3, "tests", "has no room for three nodes")
    a.counts("counts", counts)
    a.within("counts", counts[:, rows.CLASSES], 0, schema.n_outputs, "classes")
    a.require((errors >= 0.0).all(), "errors", "has sums below 0")
    n_nodes = counts[:, rows.NODES]
    a.within("counts", n_nodes, 0, capacity, "nodes")
    a.require(((n_nodes % 2 == 1) | (n_nodes == 0)).all(), "counts", "has trees of an even number of nodes")
    if settings.classes:
        known = nodes[:, 0, rows.VALUES :] > 0.0
        n_codes = (np.arange(1, known.shape[1] + 1) * known).max(axis=1)
    else:
        n_codes = np.ones(m, np.int64)
    most = [rows.allowed(settings, max(1, int(n))) for n in n_codes]
    a.within("counts", n_nodes, 0, np.array(most), "nodes")
    empty = n_nodes == 0  # the first label makes a root of what is there
    a.require(not (tests[empty, 0].any() or nodes[empty, 0].any()), "tests", "has a root in trees without nodes")
    there = np.arange(capacity) < n_nodes[:, None]
    links = np.ascontiguousarray(tests).view(np.uint32)
    inner = (links[:, :, rows.LEFT] > 0) & there
    tree, node = np.nonzero(inner)
    left = links[tree, node, rows.LEFT].astype(np.int64)
    a.within("tests", left, 1, n_nodes[tree] - 2, "children")
    a.require((left % 2 == 1).all(), "tests", "has children that are no pair")
    a.equal("counts", np.bincount(tree, minlength=m), n_nodes // 2, "nodes")
    starts = np.cumsum(n_nodes) - n_nodes
    total = int(n_nodes.sum())
    at = starts[tree] + left
    owner = np.concatenate([starts[tree] + node] * 2)
    a.owners("tests", owner, np.concatenate([at, at + 1]), total, starts[n_nodes > 0])
    a.within("tests", links[tree, node, rows.FEATURE], 0, schema.n_features - 1, "features")
    n_values = np.array(schema.n_values)[links[tree, node, rows.FEATURE]]
    threshold = tests[tree, node, rows.THRESHOLD]
    a.whole("tests", threshold[n_values > 0], 0, n_values[n_values > 0] - 1, "values")
    pair = pairs[tree, (left - 1) // 2]
    a.equal("pairs", pair[:, rows.PARENT], node, "parents")
    leaves = ~inner[tree, left] & ~inner[tree, left + 1]
    closable = pair[:, rows.CLOSABLE]
    a.require((closable[leaves] >= 0.0).all() and (closable[~leaves] == -1.0).all(), "pairs", "has other leaves")
    a.require((nodes[there][:, rows.ODDS] >= 0.0).all(), "nodes", "has odds below 0")
