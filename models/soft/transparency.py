"""What a soft tree decides by, for people: its nodes, their rules, and how many features matter in each.

Köbschall et al., Section 4. A feature matters in a rule if its part of |w_1 z_1| + ... + |w_p z_p|, times alpha, is at
least 1 / d; the split test's feature does if 1 - alpha is (Eq. 5; without a split test alpha is 1, Eq. 4). d counts
features: the indicators of a nominal feature are one. The bias is no feature and not in the sum.

The equation is about one instance. `important_features` takes the mean over given instances, as the paper does; a
description has none at hand and uses the mean |z| of every feature, and the frequencies of nominal values.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats, Schema
from riparian.models.soft.forest import (
    DEPTH,
    FEATURE,
    FIRST,
    GATE,
    PARENT,
    REACH,
    S_ALPHA,
    SCALE_INVERSE,
    SCALE_MEAN,
    SCALE_N,
    SCALE_SIZE,
    SCALE_VARIANCE,
    SHARE,
    VALUE,
    WEIGHT,
    SoftForest,
    encode,
)
from riparian.models.soft.passes.forward import CLIP, HUGE
from riparian.models.soft.program import T_N


def parts(weights: Floats, forest: SoftForest, model: int, schema: Schema) -> Floats:
    """Typical |w_f z_f| of every feature. weights : (p,) of a gate. Returns (d,)."""
    encoding, _ = encode(schema)
    dense = int(encoding.dense[0])
    found = np.zeros(schema.n_features)
    for f, n in enumerate(schema.n_values):
        place = int(encoding.place[f])
        if n == 0:
            found[f] = abs(weights[place]) * forest.scales[model, f, SCALE_SIZE]
        else:
            seen = forest.values[model, place - dense : place - dense + n]
            if seen.sum() > 0.0:
                found[f] = np.abs(weights[place : place + n]) @ seen / seen.sum()
    return found


def variances(weights: Floats, forest: SoftForest, model: int, schema: Schema) -> Floats:
    """Variance of w_f z_f of every feature, over what the model has learned. weights : (p,) of a gate. Returns (d,).

    A normalised number has the variance 1/9, since its unit is three deviations; clipping is left out of account. What
    is missing counts as 0, as it does for the gate.
    """
    encoding, _ = encode(schema)
    dense = int(encoding.dense[0])
    learned = forest.targets[model, T_N] if schema.task == "regression" else forest.known[model].sum()
    found = np.zeros(schema.n_features)
    for f, n in enumerate(schema.n_values):
        place = int(encoding.place[f])
        if n == 0:
            if forest.scales[model, f, SCALE_VARIANCE] > 0.0:
                found[f] = weights[place] ** 2 / 9.0 * forest.scales[model, f, SCALE_N] / learned
        elif learned > 0.0:
            terms = weights[place : place + n]
            shares = forest.values[model, place - dense : place - dense + n] / learned
            mean = terms @ shares
            found[f] = (terms - mean) ** 2 @ shares + max(0.0, 1.0 - shares.sum()) * mean**2
    return found


def _shares(of_features: Floats, alpha: float) -> Floats:
    """What each feature has of alpha, in proportion."""
    total = of_features.sum()
    return alpha * of_features / total if total > 0.0 else np.zeros(len(of_features))


def count(of_features: Floats, alpha: float) -> NDArray[np.int64]:
    """Eq. 5, of rules whose parts of the sum are of_features : (..., d). Returns (...) int64."""
    d = of_features.shape[-1]
    total = of_features.sum(axis=-1, keepdims=True)
    shares = np.divide(of_features, total, out=np.zeros_like(of_features), where=total > 0.0)
    matters: NDArray[np.int64] = (alpha * shares >= 1.0 / d).sum(axis=-1) + int(1.0 - alpha >= 1.0 / d)
    return matters


def important_features(forest: SoftForest, model: int, schema: Schema, alpha: float, x: Floats) -> float:
    """Mean share of features that matter in a rule, over all gates of a model and the rows of x : (n, d); NaN if none.

    Figure 5 of the paper.
    """
    encoding, _ = encode(schema)
    gates = [forest.links[i, GATE] for i in _below(forest, model) if forest.links[i, FIRST] >= 0]
    shares = []
    for gate in gates:
        weights, found = forest.gates[gate, WEIGHT], np.zeros(x.shape)
        for f, n in enumerate(schema.n_values):
            place = int(encoding.place[f])
            if n == 0:
                scale = forest.scales[model, f]
                known = np.abs(x[:, f]) < HUGE
                z = np.where(known, (x[:, f] - scale[SCALE_MEAN]) * scale[SCALE_INVERSE], 0.0).clip(-CLIP, CLIP)
                found[:, f] = np.abs(weights[place] * z)
            else:
                known = (x[:, f] >= 0.0) & (x[:, f] < n)
                codes = np.where(known, x[:, f], 0.0).astype(np.int64)
                found[:, f] = np.where(known, np.abs(weights[place + codes]), 0.0)
        shares.append(count(found, alpha).mean() / schema.n_features)
    return float(np.mean(shares)) if shares else float("nan")


def _below(forest: SoftForest, model: int) -> list[int]:
    """The nodes of a model, parents before children."""
    found = [int(root) for root in forest.roots[model]]
    for node in found:
        if forest.links[node, FIRST] >= 0:
            found += [int(forest.links[node, FIRST]), int(forest.links[node, FIRST]) + 1]
    return found


def described(forest: SoftForest, model: int, schema: Schema, settings: Floats) -> list[dict[str, Any]]:
    """The nodes of a model, roots first, parents before children.

    "weight" is the sum over the instances learned since the node is there of their weight times the probability to
    reach it. "value" is the share of each class ("unit"), or the value, that the leaf stands for by itself; of an inner
    node the mean over the leaves below by their weight. Inner nodes have "children"; with a split test "feature",
    "threshold" or "equals", and "missing", the share of a missing value that goes to the first child; and "gate":

    - alpha: the share of the linear form in the rule; the split test has the rest. bias.
    - weights: of the features, of those in normalised units (three standard deviations), of nominal ones by value.
    - importance: the part of every feature in the rule, (d,), alpha |w z| / sum and 1 - alpha for the test's feature.
    - variance: the same by the variances of w z, (d,): what features have of the gate's decrease of impurity
      (models.explanation.importance).
    - important: how many features matter, Eq. 5, for an instance that is typical.
    """
    nodes: dict[int, dict[str, Any]] = {}
    order = _below(forest, model)
    for i in order:
        link = forest.links[i].tolist()
        node: dict[str, Any] = {
            "id": i,
            "parent": None if link[PARENT] < 0 else link[PARENT],
            "depth": link[DEPTH],
            "weight": float(forest.weights[i, REACH]),
        } | ({} if schema.task == "regression" else {"unit": "share"})
        nodes[i] = node
        if link[FIRST] < 0:
            node["value"] = _leaf_value(forest, model, schema, i)
        else:
            node |= _rule(forest, model, schema, settings, i)
    for i in reversed(order):
        node = nodes[i]
        if "children" in node:
            below = [nodes[child] for child in node["children"]]
            weight = sum(child["weight"] for child in below)
            share = below[0]["weight"] / weight if weight > 0.0 else 0.5
            node["value"] = share * below[0]["value"] + (1.0 - share) * below[1]["value"]
            node["weight"] += weight
    return [node | {"value": node["value"].tolist()} for node in nodes.values()]


def _leaf_value(forest: SoftForest, model: int, schema: Schema, leaf: int) -> Floats:
    """Class shares, or the value, of a leaf's vector alone."""
    vector = forest.leaves[leaf, WEIGHT]
    if schema.task == "regression":
        _, mean, variance = forest.targets[model]
        return np.array([mean + np.sqrt(variance) * vector[0]])
    known = forest.known[model] > 0.0
    if not known.any():
        return np.zeros(schema.n_outputs)
    odds = np.where(known, np.exp(vector - vector[known].max()), 0.0)
    shares: Floats = odds / odds.sum()
    return shares


def _rule(forest: SoftForest, model: int, schema: Schema, settings: Floats, i: int) -> dict[str, Any]:
    link = forest.links[i].tolist()
    encoding, _ = encode(schema)
    weights = forest.gates[link[GATE], WEIGHT]
    alpha = float(settings[S_ALPHA])
    terms: list[dict[str, Any]] = []
    for f, n in enumerate(schema.n_values):
        place = int(encoding.place[f])
        if n == 0:
            scale = forest.scales[model, f]
            if scale[SCALE_N] > 0.0:
                terms.append({"feature": f, "weight": float(weights[place])})
        else:
            terms += [
                {"feature": f, "equals": v, "weight": float(weights[place + v])} for v in range(n) if weights[place + v]
            ]
    typical = parts(weights, forest, model, schema)
    importance, variance = (
        _shares(of_features, alpha) for of_features in (typical, variances(weights, forest, model, schema))
    )
    rule: dict[str, Any] = {"children": [link[FIRST], link[FIRST] + 1]}
    if link[FEATURE] >= 0:
        importance[link[FEATURE]] += 1.0 - alpha
        variance[link[FEATURE]] += 1.0 - alpha
        value = float(forest.tests[i, VALUE])
        rule |= {"feature": link[FEATURE], "missing": float(forest.tests[i, SHARE])}
        rule |= {"equals": int(value)} if schema.n_values[link[FEATURE]] else {"threshold": value}
    return rule | {
        "gate": {
            "alpha": alpha,
            "bias": float(weights[int(encoding.bias[0])]),
            "weights": terms,
            "importance": importance.tolist(),
            "variance": variance.tolist(),
            "important": int(count(typical, alpha)),
        }
    }
