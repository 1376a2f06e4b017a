"""A shrub ensemble for people: its trees with their shares of the vote, each node with the items that reach it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats
from riparian.models.explanation.description import as_node
from riparian.models.shrubs.blend import Blend
from riparian.models.shrubs.shrubs import Shrubs
from riparian.models.shrubs.trees import FEATURE, KNOWN, LEFT, VALUE
from riparian.models.shrubs.window import FILLED, MEMBERS, ORIGIN


def describe(windows: Sequence[Shrubs], blend: Blend) -> list[dict[str, Any]]:
    """The ensemble (its "windows" with their shares), then each tree, the longest window and the oldest tree first."""
    longest = windows[0].window.w[: int(windows[0].counts[FILLED])]
    shares = [{"size": one.size, "share": share} for one, share in zip(windows, blend.weights.tolist(), strict=True)]
    nodes = [as_node(0, None, 0, longest.sum(), _mean(windows[0], longest), part="ensemble", windows=shares)]
    for shrubs, share in zip(windows, blend.weights.tolist(), strict=True):
        members = shrubs.members
        for j in range(int(shrubs.counts[MEMBERS])):
            own = share * float(members.weights[j])
            nodes += _tree(shrubs, int(members.slots[j]), own, len(nodes))
    return nodes


def _tree(shrubs: Shrubs, slot: int, share: float, first: int) -> list[dict[str, Any]]:
    """The nodes of one tree, breadth first, with ids from `first` on."""
    trees, window, n = shrubs.trees, shrubs.window, int(shrubs.counts[FILLED])
    nodes: list[dict[str, Any]] = []
    waiting: list[tuple[int, int, int, NDArray[np.bool_]]] = [(0, 0, 1, np.ones(n, bool))]
    while waiting:
        node, parent, depth, here = waiting.pop(0)
        own = first + len(nodes)
        feature, value = int(trees.links[slot, node, FEATURE]), float(trees.tests[slot, node, VALUE])
        left = int(trees.links[slot, node, LEFT])
        weight = window.w[:n] * here
        described: dict[str, Any] = {"id": own, "parent": parent, "depth": depth, "weight": float(weight.sum())}
        if shrubs.settings.classes:
            described["unit"] = "share"
        if node == 0:
            described |= {"part": "tree", "share": share, "window": shrubs.size}
        if feature < 0:
            described |= {"value": (trees.values[slot, left] + shrubs.level[ORIGIN]).tolist(), "predictor": "shares"}
        else:
            nominal = shrubs.n_values[feature] > 0
            column = window.x[:n, feature]
            goes = column == value if nominal else column <= value
            described |= {"value": _mean(shrubs, weight), "feature": feature}
            described |= (
                {"equals": int(value)} if nominal else {"known": True} if value == KNOWN else {"threshold": value}
            )
            queued = own + len(waiting) + 1
            described |= {"children": [queued, queued + 1], "default": queued + 1}
            waiting += [(left, own, depth + 1, here & goes), (left + 1, own, depth + 1, here & ~goes)]
        nodes.append(described)
    return nodes


def _mean(shrubs: Shrubs, weight: Floats) -> list[float]:
    """Class shares, or mean target, of the window's items by these weights."""
    y, total = shrubs.window.y[: len(weight)], weight.sum()
    if not shrubs.settings.classes:
        return [float(weight @ y / total) if total else 0.0]
    counts = np.bincount(y.astype(np.int64), weight, shrubs.schema.n_outputs)
    shares: list[float] = (counts / total if total else counts).tolist()
    return shares
