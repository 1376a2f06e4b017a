"""What trees go by in all: the mean decrease of impurity, from the nodes that models describe.

A split takes impurity away: Gini's of the classes, or the variance of what the children's means leave; of gradient
trees that of scores. Each node's decrease counts by the share of its tree's instances that came to it, for the feature
that it tests (Breiman, Friedman, Olshen and Stone 1984); trees count alike, or by their share of the vote where a model
holds it, and so do the options of a node. A pool's members count by their shares in it.

The gate of a soft tree looks at several features. It is taken for a split that sends each instance to one of its
children with the probability that the gate gives, and its decrease is shared out: alpha of it in proportion to the
variances of the terms of the linear form, and 1 - alpha to the feature of the split test. With alpha 0 that is the
importance of a hard tree.

Naive Bayes has no splits. Its importance is the mutual information of each feature and the class, by what it takes them
for itself: Laplace's estimates and Gaussians, times the share of the weight whose value is known.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from riparian.models.contract import Floats

Node = Mapping[str, Any]

PLACES, SHARES = np.polynomial.hermite_e.hermegauss(32)  # of a standard Gaussian's integral
SHARES = SHARES / SHARES.sum()
MOST_CLASSES = 100  # classes that the information of a number is about, those of most weight
LEAST_DEVIATION = 1e-3  # least deviation of a class, in units of the mixture's: below, a Gaussian is as good as a point


def importance(nodes: Sequence[Node], n_features: int, regression: bool) -> list[float] | None:
    """The share of each feature in all decreases; they sum to 1. None where no tree has split, or where nodes do not
    have what it takes: classes, means or scores below. Members of a pool that do not have it are left out.

    nodes : as `Learner.describe` gives them. O(nodes classes).
    """
    starts = [at for at, node in enumerate(nodes) if isinstance(node.get("member"), str)]
    if not starts:
        return _shares(_decreases(nodes, n_features, regression))
    total = [0.0] * n_features
    for start, stop in zip(starts, [*starts[1:], len(nodes)], strict=True):
        shares = _shares(_decreases(nodes[start:stop], n_features, regression))
        if shares is not None:
            total = [a + nodes[start]["share"] * b for a, b in zip(total, shares, strict=True)]
    return _shares(total)


def _shares(total: list[float] | None) -> list[float] | None:
    added = sum(total) if total is not None else 0.0
    return [one / added for one in total] if total is not None and added > 0.0 else None


def _decreases(nodes: Sequence[Node], n_features: int, regression: bool) -> list[float] | None:
    """By feature, of one model."""
    by_id = {node["id"]: node for node in nodes}
    beside = {node[key] for node in nodes for key in ("alternate", "option") if key in node}
    below = {child for node in nodes for child in children(node)} | beside
    total = [0.0] * n_features
    for node in nodes:
        if "mean" in node or "values" in node:
            total[node["feature"]] += node["weight"] * information(node)
    for root in nodes:
        if not (children(root) or "option" in root) or root["id"] in below or root.get("background"):
            continue
        share = root.get("share", 1.0) if root.get("part") == "tree" else 1.0
        whole, stack = weight(root, regression), [(root, share)]
        while stack:
            node, share = stack.pop()
            options = [node]
            while "option" in options[-1]:
                options.append(by_id[options[-1]["option"]])
            share /= len(options)
            for option in options:
                parts = [by_id[child] for child in children(option)]
                if any(not one.get("value") for one in (option, *parts)):
                    return None
                if parts and whole > 0.0:
                    lost = share * weight(option, regression) / whole * decrease(parts, regression)
                    for feature, part in decided_by(option):
                        total[feature] += lost * part
                stack += [(part, share) for part in parts]
    return total


def decided_by(node: Node) -> list[tuple[int, float]]:
    """Features, and what each has of the node's decrease."""
    return list(enumerate(node["gate"]["variance"])) if "gate" in node else [(node["feature"], 1.0)]


def information(part: Node) -> float:
    """Mutual information of a feature of naive Bayes and the class, in nats. O(classes^2) up to MOST_CLASSES,
    or O(classes values)."""
    of_class = np.array(part["value"])
    there = of_class > 0.0
    if "mean" in part:
        there &= of_class >= np.sort(of_class)[-MOST_CLASSES:][0]
    if there.sum() < 2:
        return 0.0
    prior = of_class[there] / of_class[there].sum()
    if "values" in part:
        table = np.array(part["values"])[there]
        table = table[:, table.sum(axis=0) > 0.0] + 1.0
        table /= table.sum(axis=1, keepdims=True)
        return float(prior @ (table * np.log(table / (prior @ table))).sum(axis=1))
    mean, deviation = np.array(part["mean"])[there], np.array(part["deviation"])[there]
    with np.errstate(over="ignore", invalid="ignore"):
        whole = float(np.sqrt(prior @ (deviation**2 + (mean - prior @ mean) ** 2)))
    if not 0.0 < whole < np.inf:
        return 0.0
    deviation = np.maximum(deviation, LEAST_DEVIATION * whole)
    found = 0.0
    for c, share in enumerate(prior):
        z = (mean[c] + deviation[c] * PLACES[:, None] - mean) / deviation
        logs: Floats = -0.5 * z**2 - np.log(deviation / whole)  # of the density in each class, (places, classes)
        most = logs.max(axis=1)
        mixed = most + np.log(np.exp(logs - most[:, None]) @ prior)
        found += float(share * (SHARES @ (logs[:, c] - mixed)))
    return max(0.0, found)


def children(node: Node) -> list[int]:
    """Ids, each once."""
    found = node.get("children", [])
    named = list(found.values()) if isinstance(found, dict) else list(found)
    if "feature" in node and named and node.get("default") is not None:
        named.append(node["default"])
    return list(dict.fromkeys(named))


def weight(node: Node, regression: bool) -> float:
    return float(node["weight"] if regression or "unit" in node else sum(node["value"]))


def decrease(parts: Sequence[Node], regression: bool) -> float:
    """What impurity a split takes away: how far the children's shares of the classes, means or scores lie from their
    mean, squared and summed. Of shares it is the decrease of Gini's impurity."""
    weights = [weight(part, regression) for part in parts]
    whole = sum(weights)
    if not whole > 0.0:
        return 0.0
    values = [list(part["value"]) for part in parts]
    if not (regression or parts[0].get("unit") == "score"):
        values = [[one / (sum(value) or 1.0) for one in value] for value in values]
    found = 0.0
    for column in zip(*values, strict=True):
        mean = sum(w * v for w, v in zip(weights, column, strict=True)) / whole
        found += sum(w * (v - mean) ** 2 for w, v in zip(weights, column, strict=True)) / whole
    return found
