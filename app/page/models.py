"""A model for the browser: its trees as nodes with words and shares, from the last checkpoint of its partition."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from riparian.app import inspection
from riparian.app.errors import StateError
from riparian.app.kafka.connection import Connection
from riparian.app.page.predictions import believed
from riparian.app.state import loading
from riparian.app.stream_file.spec import Spec

KEPT_SECONDS = 4.0  # a model is read once in so long, however many look at it
MOST_NODES = 3000  # nodes of a tree that is drawn, at most
MOST_LINES = 600  # lines of an outline, at most
T = TypeVar("T")


class ModelPages:
    """Reads last checkpoints, one at a time, and keeps each for a moment."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._lock = asyncio.Lock()
        self._kept: dict[tuple[str, int], tuple[float, Any]] = {}

    async def of(self, spec: Spec, partition: int, tell: Callable[[loading.State], T]) -> T:
        """What `tell` says of the last checkpoint of a partition. Raises as `loading.load` does."""
        async with self._lock:
            key = spec.name, partition
            at, state = self._kept.get(key, (0.0, None))
            if state is None or time.monotonic() - at > KEPT_SECONDS:
                state = await asyncio.to_thread(loading.load, spec, self.connection, partition)
                self._kept = {k: v for k, v in self._kept.items() if time.monotonic() - v[0] < KEPT_SECONDS}
                self._kept[key] = time.monotonic(), state
            return await asyncio.to_thread(tell, state)


def described(state: loading.State, role: str) -> dict[str, Any]:
    """Summary, trees and outline of a model; of a pool its members by weight, and the trees of the first."""
    if role not in state.learner.roles:
        raise StateError(f"the last checkpoint of partition {state.manifest.partition} has no model {role}")
    (nodes, goes_by), classes = inspection.described(state, role), state.learner.classes
    lines = list(inspection.tree_lines(nodes))
    members, own = believed(nodes)  # of a pool, the trees of the member that it believes most
    trees = trees_of(own)
    return {
        "summary": inspection.summary(state, role),
        "members": members,
        "trees": [tree for tree in trees if len(tree["nodes"]) <= MOST_NODES],
        "too_large": sum(len(tree["nodes"]) > MOST_NODES for tree in trees),
        "classes": None if classes is None else [*classes.texts],
        "importance": [one for one in (goes_by or {}).items() if one[1] > 0.0],
        "outline": lines[:MOST_LINES],
        "more_lines": max(0, len(lines) - MOST_LINES),
    }


def trees_of(nodes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The trees among the nodes: each its nodes with condition, children, weight and shares of the classes.

    The weight and the shares of an inner node are the sums of those below it.
    """
    by_id = {node["id"]: node for node in nodes}
    trees = []
    edges = {node["id"]: inspection.edges(dict(node)) for node in nodes}
    led = {child for branches in edges.values() for _, child in branches}
    for root in (node for node in nodes if edges[node["id"]] and node["id"] not in led):
        found: list[dict[str, Any]] = []
        stack: list[tuple[Mapping[str, Any], str, int | None]] = [(root, "", None)]
        while stack:
            node, condition, parent = stack.pop()
            branches = edges[node["id"]]
            at = len(found)
            value = node.get("value")
            found.append(
                {
                    "if": condition,
                    "parent": parent,
                    "feature": node.get("feature") if branches else None,
                    "children": [],
                    "weight": 0.0 if branches else float(node.get("weight", 0.0)),
                    "value": {} if branches else value,
                }
            )
            if parent is not None:
                found[parent]["children"].append(at)
            stack.extend((by_id[child], text, at) for text, child in reversed(branches) if child in by_id)
        for inner in reversed(found):
            if inner["children"]:
                below = [found[child] for child in inner["children"]]
                inner["weight"] = sum(child["weight"] for child in below)
                inner["value"] = _pooled(below)
        trees.append({"nodes": found})
    return trees


def _pooled(below: Sequence[Mapping[str, Any]]) -> Any:
    """Shares of the classes, or the mean value, of several nodes by their weights; None where they have none."""
    total = sum(child["weight"] for child in below)
    if all(isinstance(child["value"], dict) for child in below):
        pooled: defaultdict[str, float] = defaultdict(float)
        for child in below:
            mine = sum(child["value"].values())
            for name, value in child["value"].items():
                pooled[name] += child["weight"] * value / mine if mine else 0.0
        return dict(pooled)
    numbers = [(_number(child["value"]), child["weight"]) for child in below]
    known = [(value, weight) for value, weight in numbers if value is not None]
    if not known or not total:
        return None
    return sum(value * weight for value, weight in known) / max(sum(weight for _, weight in known), 1e-300)


def _number(value: Any) -> float | None:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return float(value) if isinstance(value, int | float) else None
