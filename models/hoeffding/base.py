"""What trees of this family have in common: their arrays, room for more, a larger schema, and nodes for people."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats, Learner, Schema
from riparian.models.explanation.description import as_node
from riparian.models.hoeffding.nodes import MC_CORRECT, NB_CORRECT
from riparian.models.hoeffding.parameters import NBA, HoeffdingSettings, bins_of
from riparian.models.joined import copied, enlarge, grown
from riparian.models.observers.gaussians import Cache, SeenValues, check_growth, transfer


class ClassificationTree(Learner):
    """Base class of trees whose arrays are named as in models.hoeffding.nodes.HoeffdingNodes; what stands in the
    columns of `links`, and which rows of `stats` are whose, is a subclass's matter."""

    _nodes: Any
    _known: SeenValues
    _settings: HoeffdingSettings
    _cache: Cache

    @abstractmethod
    def _prepare(self) -> None:
        """What follows from the schema and the size of the arrays, and is not state."""

    def _enlarge(self, n_nodes: int, n_blocks: int, n_mapped: int) -> None:
        """Room for so many nodes, blocks and entries of child_of_value; capacities double."""
        lengths = {"stats": n_blocks, "child_of_value": n_mapped, "counts": 0}
        arrays = self._nodes._asdict().items()
        self._nodes = type(self._nodes)(*(enlarge(array, lengths.get(name, n_nodes)) for name, array in arrays))
        self._cache = Cache(enlarge(self._cache.rows, n_blocks), enlarge(self._cache.fresh, n_blocks))

    def _without_room(self, n_nodes: int, n_blocks: int, n_mapped: int) -> Any:
        """The nodes without the room to grow."""
        lengths = {"stats": n_blocks, "child_of_value": n_mapped, "counts": None}
        arrays = self._nodes._asdict().items()
        return type(self._nodes)(*(array[: lengths.get(name, n_nodes)] for name, array in arrays))

    def resize(self, schema: Schema) -> None:
        check_growth(self.schema, schema)
        old = self._nodes
        stats, self._known = self._transfer(schema)
        weights = grown(old.weights, len(old.weights), schema.n_outputs)
        self._nodes = old._replace(weights=weights, stats=stats)
        self.schema = schema
        self._prepare()

    def _transfer(self, schema: Schema) -> tuple[Floats, SeenValues]:
        """The statistics of all nodes that have some, and what is known, in a larger schema."""
        return transfer(self._nodes.stats, self._known, self.schema, schema, bins_of(self._parameters))

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._nodes = copied(state, self._nodes)
        self._known = SeenValues(np.array(state["values"], np.uint8), np.array(state["n_values"], np.int64))
        self._prepare()

    def _described(self, i: int, parent: int, depth: int, weight: float, value: Floats) -> dict[str, Any]:
        """A node for people, before it is known what it tests or predicts. parent : -1 for none."""
        return as_node(i, None if parent < 0 else parent, depth, weight, value.tolist())

    def _predictor(self, node: int) -> str:
        """What a leaf predicts by."""
        if self._settings.leaf_prediction != NBA:
            return str(self._parameters["leaf_prediction"])
        leaf = self._nodes.leaf[node]
        return "mc" if leaf[MC_CORRECT] > leaf[NB_CORRECT] else "nb"

    def _test(self, feature: int, default: int, value: float, children: list[int]) -> dict[str, Any]:
        """What an inner node tests. children : by branch, -1 for none."""
        test: dict[str, Any] = {"feature": feature, "default": default}
        if self.schema.n_values[feature] == 0:
            return test | {"threshold": value, "children": children}
        if self._settings.binary_splits:
            return test | {"equals": int(value), "children": children}
        return test | {"children": {v: child for v, child in enumerate(children) if child >= 0}}
