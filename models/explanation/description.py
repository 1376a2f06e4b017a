"""Nodes that models describe themselves by (Learner.describe), put together."""

from typing import Any


def as_node(i: int, parent: int | None, depth: int, weight: Any, value: list[Any], **more: Any) -> dict[str, Any]:
    """What every node has, and more."""
    return {"id": i, "parent": parent, "depth": depth, "weight": float(weight), "value": value, **more}


def moved(nodes: list[dict[str, Any]], by: int, parent: int | None, depth: int) -> list[dict[str, Any]]:
    """The nodes with ids raised by `by`, their roots below `parent`, and depths raised by `depth`."""
    result = []
    for node in nodes:
        other = dict(node)
        for name in ("id", "default", "alternate", "option"):
            if other.get(name) is not None:
                other[name] += by
        children = other.get("children")
        if isinstance(children, dict):
            other["children"] = {value: child + by for value, child in children.items()}
        elif children is not None:
            other["children"] = [child + by for child in children]
        other["parent"] = parent if node["parent"] is None else node["parent"] + by
        other["depth"] += depth
        result.append(other)
    return result


def summed(sizes: list[dict[str, int]]) -> dict[str, int]:
    """Nodes and leaves of all together, and the depth of the deepest."""
    total = {name: sum(size[name] for size in sizes) for name in ("n_nodes", "n_leaves")}
    return total | {"depth": max(size["depth"] for size in sizes)}
