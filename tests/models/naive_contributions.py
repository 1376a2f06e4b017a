"""What features add to a prediction, from the definition: the way through the nodes that a model describes.

The value of a node is the share of a class among what the leaves below it have, or the mean of their targets. A step
from a node to its child adds the difference of their values to the feature that the node tests.
"""

import math


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


def of_pool(members, floor, about):
    """What features add to a logarithmically pooled probability, what is left, and where it begins.

    members : (weight, votes, told) each; told : of each class (what each feature added, where that began), or None. The
    ways from where members begin to their votes are gone in many small steps, in place of the quotients.
    """
    classes = [c for c in range(len(members[0][1])) if any(votes[c] > 0.0 for _, votes, _ in members)]
    d = max(len(told[0][0]) for _, _, told in members if told)
    added = [[0.0] * len(classes) for _ in range(d + 2)]
    steps = 20_000
    for weight, votes, told in members:
        for at, c in enumerate(classes):
            if told is None:
                added[d][at] += weight * math.log(max(votes[c], floor))
                continue
            features, begin = told[c]
            way = votes[c] - begin
            middles = (begin + (step + 0.5) / steps * way for step in range(steps))
            slope = sum(1.0 / p for p in middles if p > floor) / steps
            for f, one in enumerate([*features, way - sum(features)]):
                added[f][at] += weight * slope * one
            added[d + 1][at] += weight * math.log(max(begin, floor))
    return by_score(added, classes.index(about))


def roots(nodes):
    """Of the trees that vote."""
    return [node["id"] for node in nodes if node.get("parent") is None and not node.get("background")]
