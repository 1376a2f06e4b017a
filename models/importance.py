"""What trees go by in all: the mean decrease of impurity, from the nodes that models describe.

A split takes impurity away: Gini's of the classes, or the variance of what the children's means leave. Each node's
decrease counts by the share of its tree's instances that came to it, for the feature that it tests (Breiman, Friedman,
Olshen and Stone 1984); trees count alike.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Node = Mapping[str, Any]


def importance(nodes: Sequence[Node], n_features: int, regression: bool) -> list[float] | None:
    """The share of each feature in all decreases; they sum to 1. None where no tree has split, or where nodes do not
    have what it takes: classes or means below, and one feature tested at a time.

    nodes : as `Learner.describe` gives them. O(nodes classes).
    """
    by_id = {node["id"]: node for node in nodes}
    beside = {node[key] for node in nodes for key in ("alternate", "option") if key in node}
    below = {child for node in nodes for child in children(node)} | beside
    total = [0.0] * n_features
    for root in nodes:
        if not children(root) or root["id"] in below or root.get("background"):
            continue
        whole, stack = weight(root, regression), [root]
        while stack:
            node = stack.pop()
            parts = [by_id[child] for child in children(node)]
            if not parts:
                continue
            if "gate" in node or any(one.get("unit") == "score" or not one.get("value") for one in (node, *parts)):
                return None
            if whole > 0.0:
                total[node["feature"]] += weight(node, regression) / whole * decrease(node, parts, regression)
            stack += parts
    added = sum(total)
    return [one / added for one in total] if added > 0.0 else None


def children(node: Node) -> list[int]:
    """Ids, each once."""
    found = node.get("children", [])
    named = list(found.values()) if isinstance(found, dict) else list(found)
    if "feature" in node and named and node.get("default") is not None:
        named.append(node["default"])
    return list(dict.fromkeys(named))


def weight(node: Node, regression: bool) -> float:
    return float(node["weight"] if regression else sum(node["value"]))


def decrease(node: Node, parts: Sequence[Node], regression: bool) -> float:
    """What impurity a split takes away."""
    weights = [weight(part, regression) for part in parts]
    whole = sum(weights)
    if not whole > 0.0:
        return 0.0
    if regression:
        means = [part["value"][0] for part in parts]
        mean = sum(w * m for w, m in zip(weights, means, strict=True)) / whole
        return float(sum(w * (m - mean) ** 2 for w, m in zip(weights, means, strict=True)) / whole)
    return gini(node["value"]) - sum(w / whole * gini(part["value"]) for w, part in zip(weights, parts, strict=True))


def gini(value: Sequence[float]) -> float:
    total = sum(value)
    return 1.0 - sum((one / total) ** 2 for one in value) if total > 0.0 else 0.0
