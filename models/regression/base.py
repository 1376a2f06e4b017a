"""What the regression trees have in common: parameters, arrays as state, capacities, nodes for people."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats, Learner, Schema
from riparian.models.joined import copied
from riparian.models.kernels.elementary import logs
from riparian.models.kernels.frames import KernelFrame
from riparian.models.layout import Paths, StateLayout
from riparian.models.observers.gaussians import check_growth
from riparian.models.regression.leaf import ADAPTIVE_LEAF, LEAF_PREDICTIONS, MEAN, MEAN_ERROR, MODEL_ERROR, SEEN, N
from riparian.models.regression.nodes import (
    BLOCK,
    DEFAULT,
    DEPTH,
    LEAF,
    LEFT,
    N_BLOCKS,
    N_LIVE,
    N_MONITOR,
    N_NODES,
    OTHER,
    RIGHT,
    SEEN_BEFORE,
    TEST,
    RegressionGrowth,
    RegressionNodes,
    RegressionScratch,
    make_room,
    plant,
    used,
)
from riparian.models.regression.observers import lay_out, transfer

MOST_BYTES = 64_000_000  # bytes of a tree whose nodes are not bounded by number
NODE_BYTES = 4 * 8 + 8 + 8 * N_MONITOR  # what a leaf knows apart
UNNAMED = 10  # values that a nominal feature is reckoned to have


def nodes_by_bytes(n_values: Sequence[int], n_bins: int) -> int:
    """Nodes of a tree that take MOST_BYTES, 3 at least. Follows from the number of features alone:
    how many values a schema has room for depends on how batches were cut."""
    reckoned = Schema(tuple(UNNAMED if n else 0 for n in n_values), 1, "regression")
    block = 8 * lay_out(reckoned, n_bins)[1]  # of a leaf, of which there is one more than of other nodes
    return max(3, int((MOST_BYTES - block) / (NODE_BYTES + block / 2)))


class RegressionTree(Learner):
    """A tree whose state is `RegressionNodes`. Subclasses run the program, and define what OTHER means in
    `describe`."""

    layout: ClassVar[StateLayout] = StateLayout(
        rows={"links test monitor": "nodes", "blocks": "blocks"},
        counts={("counts", N_NODES): "nodes", ("counts", N_BLOCKS): "blocks"},
        places={("links", TEST): "features", ("links", BLOCK): "blocks", ("links", OTHER): "nodes"},
        paths=(Paths(("links", TEST), (("links", LEFT), ("links", RIGHT), ("links", DEFAULT)), ("links", DEPTH)),),
    )

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        p = self._parameters
        most = p["max_nodes"]
        self.most_nodes = nodes_by_bytes(schema.n_values, p["n_bins"]) if most is None else int(most)
        self._growth = RegressionGrowth(
            float(p["grace_period"]),
            float(logs(1.0 / p["delta"])),
            float(p["tie_threshold"]),
            float(p["min_branch_fraction"]),
            LEAF_PREDICTIONS[p["leaf_prediction"]],
            float(p["learning_rate"]),
            float(p["learning_rate_decay"]),
            float(p["error_fading"]),
            self.most_nodes,
            -1 if p["max_depth"] is None else int(p["max_depth"]),
        )
        self._nodes = plant(schema.n_features, lay_out(schema, p["n_bins"])[1])
        self._prepare()

    def _prepare(self) -> None:
        """What follows from the schema and is not state."""
        self._layout, width = lay_out(self.schema, self._parameters["n_bins"])
        d = self.schema.n_features
        self._progress = np.zeros(1, np.int64)
        self._running: KernelFrame | None = None  # of the program; None where an array has been replaced since
        self._scratch = RegressionScratch(
            np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(4), np.zeros(width), np.zeros((2, d), np.int64)
        )

    def _make_room(self, more_nodes: int, more_blocks: int) -> None:
        self._nodes = make_room(self._nodes, more_nodes, more_blocks)
        self._running = None

    def resize(self, schema: Schema) -> None:
        check_growth(self.schema, schema)
        blocks = transfer(self._nodes.blocks, self.schema, schema, self._parameters["n_bins"])
        self._nodes = self._nodes._replace(blocks=blocks)
        self.schema = schema
        self._prepare()

    def state(self) -> RegressionNodes:
        return used(self._nodes)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        nodes: RegressionNodes = copied(state, self._nodes)
        self._nodes = nodes._replace(scales=np.ascontiguousarray(nodes.scales.T))
        self._prepare()

    def describe(self) -> list[dict[str, Any]]:
        """Nodes, root first, parents before children. Inner nodes: "feature", and "threshold" (numeric: values up to it
        go to the first child) or "equals" (nominal), "children", "default", the child of missing values. Leaves:
        "predictor", mean or model.

        "weight" is what passed through since the node is there, "value" the mean of the targets there, of an inner node
        over the leaves below. An id is a place in the arrays; that of a node that was dropped is used again.
        """
        described = [self._describe(node, parent, depth) for node, parent, depth in self._walk()]
        by_id = {node["id"]: node for node in described}
        sums: dict[int, tuple[float, float]] = {}
        for node in reversed(described):
            own = self._nodes.blocks[self._nodes.links[node["id"], BLOCK]]
            if "feature" in node:
                parts = [sums[child] for child in node["children"]]
                n, total = (sum(column) for column in zip(*parts, strict=True))
                node["weight"] += sum(by_id[child]["weight"] for child in node["children"])
            else:
                n, total = float(own[N]), float(own[N] * own[MEAN])
            sums[node["id"]] = n, total
            node["value"] = [total / n if n > 0.0 else 0.0]
        return described

    def _walk(self) -> Iterator[tuple[int, int | None, int]]:
        """Ids with the parent and depth that people see, parents before children. OTHER hangs below its node."""
        links = self._nodes.links
        stack: list[tuple[int, int | None, int]] = [(0, None, 0)]
        while stack:
            node, parent, depth = stack.pop()
            yield node, parent, depth
            below = [int(links[node, LEFT]), int(links[node, RIGHT])] if links[node, TEST] != LEAF else []
            if links[node, OTHER] >= 0:
                below.append(int(links[node, OTHER]))
            stack.extend((child, node, depth + 1) for child in reversed(below))

    def _describe(self, node: int, parent: int | None, depth: int) -> dict[str, Any]:
        """A node without "value", and with the weight that it learned as a leaf."""
        link = self._nodes.links[node].tolist()
        entry: dict[str, Any] = {"id": node, "parent": parent, "depth": depth}
        if link[TEST] == LEAF:
            block = self._nodes.blocks[link[BLOCK]]
            return entry | {"weight": float(block[SEEN]), "predictor": self._predictor(block)}
        key = "equals" if self.schema.n_values[link[TEST]] else "threshold"
        test = float(self._nodes.test[node])
        return entry | {
            "weight": float(self._nodes.monitor[node, SEEN_BEFORE]),
            "feature": link[TEST],
            key: int(test) if key == "equals" else test,
            "children": [link[LEFT], link[RIGHT]],
            "default": link[DEFAULT],
        }

    def _predictor(self, block: Floats) -> str:
        if self._growth.leaf_prediction != ADAPTIVE_LEAF:
            return str(self._parameters["leaf_prediction"])
        return "model" if block[MODEL_ERROR] <= block[MEAN_ERROR] else "mean"

    def size(self) -> dict[str, int]:
        return {
            "n_nodes": int(self._nodes.counts[N_LIVE]),
            "n_leaves": int((self.state().links[:, TEST] == LEAF).sum()),
            "depth": int(self.state().links[:, DEPTH].max()),
        }
