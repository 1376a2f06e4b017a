"""A model of the window for people: its trees as nodes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.models.batch.forest import LINK, MEDIAN, SOFTMAX, VECTOR, FittedForest
from riparian.models.contract import Floats
from riparian.models.explanation.description import as_node


def levels(forest: FittedForest) -> NDArray[np.int64]:
    """The depth of every node in its tree. Children may stand anywhere behind their parent."""
    depth = np.zeros(len(forest.column), np.int64)
    here, level = forest.root.astype(np.int64), 0
    while len(here):
        depth[here] = level
        inner = here[forest.column[here] >= 0]
        here = np.concatenate([forest.left[inner], forest.right[inner]]).astype(np.int64)
        level += 1
    return depth


def depth(forest: FittedForest) -> int:
    return int(levels(forest).max(initial=0))


def described(forest: FittedForest, totals: Floats, classes: bool, n_outputs: int) -> list[dict[str, Any]]:
    """See `WindowLearner.describe`."""
    if classes:
        weight, value = float(totals.sum()), totals.tolist()
    else:
        weight, value = float(totals[0]), [float(totals[1] / totals[0]) if totals[0] else 0.0]
    nodes = [as_node(0, None, 0, weight, value, part="model")]
    depths, values = levels(forest), values_of(forest)
    parents = np.zeros(len(forest.column), np.int64)
    for node in np.flatnonzero(forest.column >= 0).tolist():
        parents[forest.left[node]] = parents[forest.right[node]] = node + 1
    trees = {node: t for t, node in enumerate(forest.root.tolist())}
    n_groups, total = int(forest.group.max(initial=0)) + 1, float(forest.weight.sum())
    link, group = int(forest.kind[LINK]), VECTOR
    order = np.lexsort((depths, np.searchsorted(forest.root, np.arange(len(depths)), side="right")))
    for node in order.tolist():
        described: dict[str, Any] = {
            "id": node + 1,
            "parent": int(parents[node]),
            "depth": int(depths[node]) + 1,
            "weight": float(forest.cover[node]),
        }
        if node in trees:
            group = int(forest.group[trees[node]])
            described["part"] = "tree"
            if group == VECTOR:
                described["share"] = float(forest.weight[trees[node]]) / total
            else:
                described["stage"] = trees[node] // n_groups
                if link == SOFTMAX:
                    described["class"] = int(forest.classes[group])
        described["value"] = _spread(values[node], forest, group, n_outputs)
        if group != VECTOR or link == SOFTMAX:
            described["unit"] = "score"
        elif classes:
            described["unit"] = "share"
        column = int(forest.column[node])
        if column >= 0:
            children = [int(forest.left[node]) + 1, int(forest.right[node]) + 1]
            described["default"] = children[0] if forest.missing[node] else children[1]
            described["feature"] = int(forest.feature[column])
            threshold, numeric = float(forest.threshold[node]), bool(np.isnan(forest.code[column]))
            if threshold == np.inf or not (numeric or 0.0 <= threshold < 1.0):  # what is known goes one way
                described["known"] = True
                if threshold < 0.0:
                    children.reverse()
            elif numeric:
                described["threshold"] = threshold + float(forest.centre[column])
            else:  # what has the value goes right: written the other way about, as elsewhere
                described["equals"] = int(forest.code[column])
                children.reverse()
            described["children"] = children
        nodes.append(described)
    return nodes


def values_of(forest: FittedForest) -> Floats:
    """Of every node; of an inner one, the mean of its children's by weight."""
    values = np.zeros((len(forest.column), forest.values.shape[1]))
    leaves = forest.column < 0
    values[leaves] = forest.values[forest.left[leaves]]
    depths = levels(forest)
    for level in range(int(depths.max(initial=0)) - 1, -1, -1):
        inner = np.flatnonzero((depths == level) & ~leaves)
        left, right = forest.left[inner], forest.right[inner]
        a, b = forest.cover[left].astype(float), forest.cover[right].astype(float)
        share = np.where(a + b > 0.0, a / np.where(a + b > 0.0, a + b, 1.0), 0.5)[:, None]
        values[inner] = share * values[left] + (1.0 - share) * values[right]
    return values


def _spread(value: Floats, forest: FittedForest, group: int, n_outputs: int) -> list[float]:
    """A leaf's value by class code where it has one for each class."""
    if group != VECTOR or forest.kind[LINK] == MEDIAN or n_outputs == 1:
        return [float(value[0])]
    found = np.zeros(n_outputs)
    found[forest.classes] = value
    return [float(one) for one in found]
