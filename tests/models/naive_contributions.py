"""What features add to a prediction, from the definition: the way through the nodes that a model describes.

The value of a node is the share of a class among what the leaves below it have, or the mean of their targets. A step
from a node to its child adds the difference of their values to the feature that the node tests.
"""

import math
from itertools import pairwise

import numpy as np


def child_of(node, row):
    value, children = row[node["feature"]], node["children"]
    if math.isnan(value):
        return node["default"]
    if node.get("known"):
        return children[0]
    if isinstance(children, dict):
        return children.get(int(value), node["default"])
    if "threshold" in node:
        return children[0 if value <= node["threshold"] else 1]
    return children[0 if value == node["equals"] else 1]


def value_of(node, about):
    if about < 0:
        return node["value"][0]
    total = sum(node["value"])
    return node["value"][about] / total if total > 0.0 else None


def contributions(nodes, root, row, about):
    """(what each feature added, the value of the root); about : a class, or -1 of a regression."""
    by_id = {node["id"]: node for node in nodes}
    added, node = [0.0] * len(row), by_id[root]
    value = value_of(node, about)
    begin = value
    while "children" in node:
        child = by_id[child_of(node, row)]
        after = value_of(child, about)
        if after is None:  # an empty leaf is as its parent
            break
        added[node["feature"]] += after - value
        node, value = child, after
    return added, begin


def contributions_of_window(nodes, root, row, about):
    """As `contributions`, of a tree whose inner nodes have the mean of what comes to them now, so that something may
    lie below one to which nothing comes: that one is as its parent."""
    by_id = {node["id"]: node for node in nodes}
    added, node = [0.0] * len(row), by_id[root]
    value = begin = node["value"][max(about, 0)]
    while "children" in node:
        child = by_id[child_of(node, row)]
        empty = "children" in child and child["weight"] == 0.0
        after = value if empty else child["value"][max(about, 0)]
        added[node["feature"]] += after - value
        node, value = child, after
    return added, begin


def votes(nodes, root, row, about):
    """As `contributions`, where a tree votes for the class that is the most frequent, the lowest of equals."""
    voting = []
    for node in nodes:
        says = max(range(len(node["value"])), key=lambda c: (node["value"][c], -c))
        voting.append({**node, "value": [float(c == says) for c in range(len(node["value"]))]})
    return contributions(voting, root, row, about)


def mean_score(nodes, node):
    """(score, weight): of the leaves below a node, by what they have seen."""
    if "children" not in node:
        return node["value"], node["weight"]
    children = node["children"].values() if isinstance(node["children"], dict) else node["children"]
    below = [mean_score(nodes, nodes[child]) for child in children]
    total = sum(weight for _, weight in below)
    if total == 0.0:
        return node["value"], 0.0
    return [sum(w * v[k] for v, w in below) / total for k in range(len(node["value"]))], total


def scores(nodes, row, deviations, n_outputs, shrinkage, one_tree):
    """What features add to the scores of gradient trees, and where these begin: (d + 1) lists of n_outputs."""
    by_id = {node["id"]: node for node in nodes}
    added = [[0.0] * n_outputs for _ in range(len(row) + 1)]

    def add(to, at, values):
        for k, value in enumerate(values):
            added[to][k + 1 if one_tree else at] += shrinkage * value

    for root in nodes:
        if "stage" not in root:
            continue
        at, node = root.get("class", 0), root
        before, _ = mean_score(by_id, node)
        add(-1, at, before)
        while "children" in node:
            child = by_id[child_of(node, row)]
            after, _ = mean_score(by_id, child)
            add(node["feature"], at, [a - b for a, b in zip(after, before, strict=True)])
            node, before = child, after
        for f, z in enumerate(deviations):
            slope = node.get("slope", [0.0] * (len(before) * len(row)))
            add(f, at, [slope[k * len(row) + f] * z for k in range(len(before))])
    return added


def probabilities(scored):
    top = max(scored)
    raised = [math.exp(one - top) for one in scored]
    return [one / sum(raised) for one in raised]


def by_score(added, about):
    """What features add to the probability of a class, and where it begins, by the formula with logarithms of
    quotients."""
    *features, begin = added
    end = [sum(column) for column in zip(*added, strict=True)]
    before, after = probabilities(begin), probabilities(end)
    means = [p if p == q else (q - p) / (math.log(q) - math.log(p)) for p, q in zip(before, after, strict=True)]
    found = []
    for one in features:
        mean = sum(m * change for m, change in zip(means, one, strict=True)) / sum(means)
        found.append(means[about] * (one[about] - mean))
    return found, before[about]


def of_pool(members, floors, about):
    """What features add to a logarithmically pooled probability, what is left, and where it begins.

    floors : of each class. members : (weight, votes, told) each; told : of each class (what each feature added, where
    that began), or None. The ways from where members begin to their votes are gone in many small steps, in place of the
    quotients.
    """
    classes = [c for c in range(len(members[0][1])) if any(votes[c] > 0.0 for _, votes, _ in members)]
    d = max(len(told[0][0]) for _, _, told in members if told)
    added = [[0.0] * len(classes) for _ in range(d + 2)]
    steps = 20_000
    for weight, votes, told in members:
        for at, c in enumerate(classes):
            if told is None:
                added[d][at] += weight * math.log(max(votes[c], floors[c]))
                continue
            features, begin = told[c]
            way = votes[c] - begin
            middles = (begin + (step + 0.5) / steps * way for step in range(steps))
            slope = sum(1.0 / p for p in middles if p > floors[c]) / steps
            for f, one in enumerate([*features, way - sum(features)]):
                added[f][at] += weight * slope * one
            added[d + 1][at] += weight * math.log(max(begin, floors[c]))
    return by_score(added, classes.index(about))


def roots(nodes):
    """Of the trees that vote."""
    return [node["id"] for node in nodes if node.get("parent") is None and not node.get("background")]


def log_likelihood(observer, value, c, n_known):
    """log P(value | c) of an observer of tests.models.naive_hoeffding; of Gaussians from their densities."""
    if math.isnan(value) or math.isinf(value):
        return 0.0
    of_class = getattr(observer, "classes", {}).get(c)
    if not hasattr(of_class, "mean"):
        return observer.log_likelihood(value, c, n_known)
    variance, apart = of_class.variance(), value - of_class.mean
    if variance == 0.0:
        return 0.0 if apart == 0.0 else -math.inf
    return -0.5 * math.log(2.0 * math.pi * variance) - apart * apart / (2.0 * variance)


def of_naive_bayes(weights, observers, row, known, about):
    """What features add to a probability on the way from the shares of the classes to what naive Bayes says, and last
    what is no feature's: that a class was never seen with a feature.

    The way is gone in 20,000 steps, ever longer ones. The logarithms of all probabilities go straight to their ends.
    Where a class is, each feature moves it by p times its logarithm of the likelihood, less what it moves all classes
    by. What is ruled out has the logarithm of a very small likelihood.
    """
    classes = [c for c in sorted(weights) if weights[c] > 0.0]
    n_known = [len(values) for values in known]
    logs = np.zeros((len(row) + 1, len(classes)))
    for f, one in enumerate(observers):
        for at, c in enumerate(classes):
            unseen = not math.isnan(row[f]) and c not in getattr(one, "classes", [c])
            logs[-1 if unseen else f, at] = -math.inf if unseen else log_likelihood(one, row[f], c, n_known[f])
    if about not in classes or np.isinf(logs).any(axis=0).all():
        return [0.0] * len(logs)
    logs[np.isinf(logs)] = -1e6
    begin = np.log([weights[c] / sum(weights.values()) for c in classes])
    end = begin + logs.sum(axis=0)
    end -= end.max()
    end -= math.log(np.exp(end).sum())
    places = (np.arange(20_001) / 20_000) ** 4
    middles = (places[1:] + places[:-1]) / 2.0
    spent = np.diff(places) @ np.exp(begin + np.outer(middles, end - begin))  # of the way, by each class
    alike = logs @ spent / spent.sum()
    return (spent[classes.index(about)] * (logs[:, classes.index(about)] - alike)).tolist()


def of_linear_leaf(leaf, row, tested):
    """What features add in the linear model of a leaf of tests.models.naive_fimt, and what is left. tested : features
    on the way to the leaf.

    A term is what the model says of a row that has this value alone, beyond its constant; from it goes its average over
    what the leaf has observed."""
    added = [0.0] * len(row)
    if leaf.mean is None or not leaf.uses_model():
        return added, 0.0

    def term(f, value):
        return leaf.model([value if one == f else math.nan for one in range(len(row))]) - leaf.constant

    for f, observer in enumerate(leaf.observers):
        values = list(observer.keys if hasattr(observer, "keys") else observer.sums)
        weights = [sums.n for sums in (observer.sums if hasattr(observer, "keys") else observer.sums.values())]
        if hasattr(observer, "keys") and len(values) == observer.n_bins:
            values = [values[0], *((a + b) / 2.0 for a, b in pairwise(values))]
        if values:
            seen = [w / leaf.seen * term(f, value) for value, w in zip(values, weights, strict=True)]
            added[f] = term(f, row[f]) - sum(seen)
        elif hasattr(observer, "keys") and f not in tested:
            added[f] = term(f, row[f])
    return added, leaf.model(row) - leaf.mean - sum(added)


def of_options(tree, row):
    """What features add to the prediction of an option tree of tests.models.naive_fimt, where it begins, and what is
    left: the mean over all ways."""
    kind = tree.settings["prediction"]

    def shares(head):
        options = tree.options(head)
        counts = [1.0 / min(max(one.loss, 1e-100), 1e100) ** 2 if kind == "weighted" else 1.0 for one in options]
        if kind == "best-path":
            best = min(options, key=lambda one: one.loss)
            counts = [float(one is best) for one in options]
        return [(count / sum(counts), one) for count, one in zip(counts, options, strict=True)]

    def sums(node):
        if node.leaf is not None:
            return node.leaf.n * node.leaf.mean, node.leaf.n
        below = [(share, sums(option)) for child in node.children for share, option in shares(child)]
        return sum(share * total for share, (total, _) in below), sum(share * n for share, (_, n) in below)

    def value(node):
        total, n = sums(node)
        return total / n

    def ways(head, share, way):
        """(share, nodes from an option at the root to a leaf)"""
        for own, option in shares(head):
            node, nodes = option, [*way, option]
            while node.leaf is None:
                node = node.child(row, tree.n_values)
                if node.others:
                    yield from ways(node, share * own, nodes)
                    break
                nodes.append(node)
            else:
                yield share * own, nodes

    added, begin, left = [0.0] * len(row), 0.0, 0.0
    for share, nodes in ways(tree.root, 1.0, []):
        if share == 0.0:
            continue
        begin += share * value(nodes[0])
        for node, below in pairwise(nodes):
            added[node.feature] += share * (value(below) - value(node))
        more, rest = of_linear_leaf(nodes[-1].leaf, row, {node.feature for node in nodes[:-1]})
        added = [a + share * b for a, b in zip(added, more, strict=True)]
        left += share * rest
    return added, begin, left
