"""What features add to a prediction, from the definition: the way through the nodes that a model describes.

The value of a node is the share of a class among what the leaves below it have, or the mean of their targets. A step
from a node to its child adds the difference of their values to the feature that the node tests.
"""

import math


def child_of(node, row):
    value, children = row[node["feature"]], node["children"]
    if math.isnan(value):
        return node["default"]
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


def roots(nodes):
    """Of the trees that vote."""
    return [node["id"] for node in nodes if node.get("parent") is None and not node.get("background")]
