"""A tree of a streaming forest for people, and how deep it is."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Schema
from riparian.models.kernels.kernel import kernel
from riparian.models.streaming_forest.false_roots import NODES


def describe_tree(arrays: Sequence[NDArray[Any]], schema: Schema) -> list[dict[str, Any]]:
    """Nodes as Learner.describe has them; ids are those of the arrays: parents come before their children.

    arrays : of one tree, those of models.streaming_forest.false_roots.StreamingForestTrees.
    """
    feature, value, left, counts, sizes = arrays
    n = int(sizes[NODES])
    totals = np.zeros((n, counts.shape[1]))
    for node in range(n - 1, -1, -1):
        inner = feature[node] >= 0
        totals[node] = totals[left[node]] + totals[left[node] + 1] if inner else counts[left[node]]
    nodes: list[dict[str, Any]] = [{"id": 0, "parent": None, "depth": 0}]
    nodes += [{"id": node} for node in range(1, n)]
    for node, described in enumerate(nodes):
        described |= {"weight": float(totals[node].sum()), "value": totals[node].tolist()}
        f, child = int(feature[node]), int(left[node])
        if f < 0:
            described["predictor"] = "counts"
            continue
        described["feature"] = f
        described |= {"equals": int(value[node])} if schema.n_values[f] else {"threshold": float(value[node])}
        described |= {"children": [child, child + 1], "default": child + 1}
        for below in (child, child + 1):
            nodes[below] |= {"parent": node, "depth": described["depth"] + 1}
    return nodes


@kernel(allocates=True)
def depth_of(feature, left, n_nodes):
    """Of one tree: children come after their parents."""
    depth = np.zeros(n_nodes, np.int32)
    for node in range(n_nodes):
        if feature[node] >= 0:
            depth[left[node]] = depth[node] + 1
            depth[left[node] + 1] = depth[node] + 1
    return depth.max()
