"""A Mondrian forest for people."""

from typing import Any

import numpy as np

from riparian.models.contract import Floats
from riparian.models.explanation.description import as_node
from riparian.models.mondrian.nodes import (
    FEATURE,
    LEFT,
    NODES,
    ODDS,
    THRESHOLD,
    VALUES,
    WEIGHT,
    MondrianSettings,
    MondrianTrees,
)
from riparian.models.mondrian.weights import trust


def describe(trees: MondrianTrees, settings: MondrianSettings, n_outputs: int) -> list[dict[str, Any]]:
    """The forest, then each tree, root first. "share" of a tree is its weight in the vote, "stop" of an inner node the
    weight of the prunings that end there, among those that reach it. "value" is a node's class shares ("unit"), or
    mean target, of all that it has learned."""
    learned = float(trees.nodes[0, 0, WEIGHT]) if trees.counts[0, NODES] else 0.0
    found = [as_node(0, None, 0, learned, [], part="ensemble")]
    power = settings.vote_power if settings.classes else 0
    votes = [trust(errors, power) for errors in trees.errors]
    for tree, vote in enumerate(votes):
        if trees.counts[tree, NODES]:
            root = {"part": "tree", "share": vote / sum(votes)}
            found += _tree(trees.tests[tree], trees.nodes[tree], settings, n_outputs, len(found), root)
    return found


def _tree(
    tests: Floats, nodes: Floats, settings: MondrianSettings, n_outputs: int, first: int, root: dict[str, Any]
) -> list[dict[str, Any]]:
    """Its nodes, level by level, with ids from `first` on. root : further keys of the root."""
    links = tests.view(np.uint32)
    found: list[dict[str, Any]] = []
    waiting = [(0, 0, 1)]
    while waiting:
        node, parent, depth = waiting.pop(0)
        value = _value(nodes[node], settings.classes, n_outputs)
        described = as_node(first + len(found), parent, depth, nodes[node, WEIGHT], value)
        if settings.classes:
            described["unit"] = "share"
        if node == 0:
            described |= root
        feature, left = int(links[node, FEATURE]), int(links[node, LEFT])
        if left == 0:
            described["predictor"] = "shares" if settings.classes else "mean"
        else:
            threshold, odds = float(tests[node, THRESHOLD]), float(nodes[node, ODDS])
            queued = described["id"] + len(waiting) + 1
            heavier = int(nodes[left, WEIGHT] < nodes[left + 1, WEIGHT])
            described |= {"feature": feature, "stop": odds / (1.0 + odds)}
            described |= {"equals": int(threshold)} if settings.n_values[feature] else {"threshold": threshold}
            described |= {"children": [queued, queued + 1], "default": queued + heavier}
            waiting += [(left, described["id"], depth + 1), (left + 1, described["id"], depth + 1)]
        found.append(described)
    return found


def _value(node: Floats, classes: bool, n_outputs: int) -> list[float]:
    """There may be no columns yet for classes that have not been learned."""
    known = node[VALUES : VALUES + n_outputs]
    values = np.zeros(n_outputs)
    values[: len(known)] = known / node[WEIGHT] if classes else known
    shares: list[float] = values.tolist()
    return shares
