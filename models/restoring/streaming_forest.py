"""Rules of streaming decision trees and forests."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.contract import Schema
from models.restoring.arrays import Arrays
from models.streaming_forest.false_roots import LEAVES, NODES
from models.streaming_forest.forest import LEARNED, NEXT_SERIAL


def check(a: Arrays, forest: Any) -> None:
    fresh, schema = forest.state(), forest.schema
    trees, room = a.take("feature", fresh.feature, None, None).shape
    k = schema.n_outputs
    feature, left, _, _, sizes, serials, _ = a.fields(
        fresh, "feature", "left", "value", "counts", "sizes", "serials", "quality",
        feature=(trees, room), left=(trees, room), value=(trees, room), counts=(trees, room // 2, k),
        sizes=(trees, 2), serials=(trees,), quality=(trees, 2),
    )  # fmt: skip
    columns, y, _, numbers = a.fields(fresh, "columns", "y", "w", "numbers")
    a.require(trees > 0 and room >= 2 and room % 2 == 0, "feature", "has no trees")
    a.counts("numbers", numbers[[LEARNED, NEXT_SERIAL]])
    a.counts("serials", serials)
    a.within("y", y, 0, k - 1, "classes")
    _codes(a, "columns", columns, schema)
    n_nodes = sizes[:, NODES].astype(np.int64)
    a.within("sizes", n_nodes, 1, room - 1, "nodes")
    a.require((n_nodes % 2 == 1).all(), "sizes", "has trees of an even number of nodes")
    a.equal("sizes", sizes[:, LEAVES], (n_nodes + 1) // 2, "leaves")
    there = np.arange(room) < n_nodes[:, None]
    a.within("feature", feature, -1, schema.n_features - 1, "features")
    a.require((feature[~there] == -1).all(), "feature", "has tests where no node is")
    a.equal("feature", (feature >= 0).sum(axis=1), n_nodes // 2, "tests")
    tree, node = np.nonzero(feature >= 0)
    first = left[tree, node].astype(np.int64)
    a.within("left", first, 1, n_nodes[tree] - 2, "children")
    a.require((first > node).all(), "left", "has children before their parents")
    starts = np.cumsum(n_nodes) - n_nodes
    at = starts[tree] + first
    a.each_once("left", np.concatenate([at, at + 1, starts]), int(n_nodes.sum()), "children")
    tree, node = np.nonzero((feature < 0) & there)
    rows = left[tree, node].astype(np.int64)
    n_leaves = (n_nodes + 1) // 2
    a.within("left", rows, 0, n_leaves[tree] - 1, "rows of counts")
    a.each_once("left", (np.cumsum(n_leaves) - n_leaves)[tree] + rows, int(n_leaves.sum()), "rows of counts")
    test, values = a.state["value"], np.array(schema.n_values)
    tree, node = np.nonzero(feature >= 0)
    n_values = values[feature[tree, node]]
    a.whole("value", test[tree, node][n_values > 0], 0, n_values[n_values > 0] - 1, "values")


def _codes(a: Arrays, name: str, columns: NDArray[np.float64], schema: Schema) -> None:
    """Of a window by columns, the nominal features: a code, or infinity for a missing value."""
    for column, n in zip(columns, schema.n_values, strict=True):
        if n:
            a.whole(name, column[column != np.inf], 0, n - 1, "values")
