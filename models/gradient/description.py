"""Stochastic gradient trees as nodes for people."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats, Schema
from riparian.models.explanation.description import as_node
from riparian.models.gradient.bins import Bins
from riparian.models.gradient.tree import (
    CODE,
    DEFAULT,
    DEPTH,
    LEAF,
    LEFT,
    MANY,
    N_NODES,
    NEXT,
    PARENT,
    RIGHT,
    SEEN,
    TEST,
    TREE,
    GradientNodes,
)


def describe_trees(
    nodes: GradientNodes, roots: NDArray[np.int32], schema: Schema, centre: float | None, spread: float
) -> list[dict[str, Any]]:
    """Nodes of all trees, ids from 1, below a node 0 that is not among them: parents before children.

    roots : (stages, trees). centre : where the score of a single tree is a prediction, what it gets after `spread`.
    """
    mean = means(nodes)
    seen = nodes.meta[:, SEEN].copy()
    for i in range(len(seen) - 1, -1, -1):
        parent = nodes.links[i, PARENT]
        if parent >= 0:
            seen[parent] += seen[i]
    described = []
    for i, link in enumerate(nodes.links.tolist()):
        values = mean[i] if centre is None else centre + spread * mean[i]
        node = as_node(i + 1, link[PARENT] + 1, link[DEPTH] + 1, seen[i], values.tolist())
        if centre is None:
            node["unit"] = "score"
        if link[PARENT] < 0:
            node["stage"] = link[TREE] // roots.shape[1]
            if schema.task != "regression" and nodes.value.shape[1] == 1:
                node["class"] = link[TREE] % roots.shape[1] + 1
        if link[TEST] == LEAF:
            if nodes.slope.shape[1]:
                node["slope"] = nodes.slope[i].tolist()
        else:
            node |= _test(link, float(nodes.test[i]), nodes, schema)
        described.append(node)
    return described


def means(nodes: GradientNodes) -> Floats:
    """The mean score of the leaves below each node, by the weight that each has seen; where they have seen nothing yet,
    a node's own when it was split."""
    n = int(nodes.counts[N_NODES])
    links, found = nodes.links[:n], nodes.value[:n].copy()
    weight = np.where(links[:, TEST] == LEAF, nodes.meta[:n, SEEN], 0.0)
    total = found * weight[:, None]
    for i in range(n - 1, -1, -1):  # parents come before children
        if weight[i] > 0.0:
            found[i] = total[i] / weight[i]
        if links[i, PARENT] >= 0:
            weight[links[i, PARENT]] += weight[i]
            total[links[i, PARENT]] += total[i]
    return found


def _test(link: list[int], value: float, nodes: GradientNodes, schema: Schema) -> dict[str, Any]:
    test: dict[str, Any] = {"feature": link[TEST], "default": link[DEFAULT] + 1}
    if link[RIGHT] == MANY:
        children, child = {}, link[LEFT]
        while child >= 0:
            children[int(nodes.links[child, CODE])] = child + 1
            child = int(nodes.links[child, NEXT])
        return test | {"children": children}
    pair = [link[LEFT] + 1, link[RIGHT] + 1]
    if schema.n_values[link[TEST]]:
        return test | {"equals": int(value), "children": pair}
    return test | {"threshold": value, "children": pair}


def describe_bins(bins: Bins, schema: Schema) -> list[list[float] | None]:
    """Edges of the bins of each feature, None for nominal ones."""
    return [None if n else np.asarray(bins.edges[f, : bins.n_edges[f]]).tolist() for f, n in enumerate(schema.n_values)]
