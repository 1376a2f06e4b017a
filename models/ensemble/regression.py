"""What ensembles for regression are made of."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats, Program, Schema
from riparian.models.hoeffding.feature_subsets import draw_features
from riparian.models.kernels.draws import key
from riparian.models.layout import StateLayout
from riparian.models.regression.nodes import RegressionNodes
from riparian.models.regression.subspace_tree import SubspaceRegressionTree
from riparian.models.restoring import restore

# Of the parameters that trees of both tasks have; the choices of a leaf correspond.
SHARED = ("grace_period", "delta", "tie_threshold", "n_bins", "min_branch_fraction", "max_nodes", "max_depth")
LEAF_PREDICTIONS = {"mc": "mean", "nb": "model", "nba": "adaptive"}


def regression_tree(
    schema: Schema, seed: int, parameters: Mapping[str, Any], n_features: int | None = None
) -> SubspaceRegressionTree:
    """A tree by parameters of a Hoeffding tree. n_features : that each leaf observes, None for all."""
    shared = {name: parameters[name] for name in SHARED}
    leaf = LEAF_PREDICTIONS[parameters["leaf_prediction"]]
    return SubspaceRegressionTree(schema, seed=seed, n_features=n_features, leaf_prediction=leaf, **shared)


class Patch:
    """A member of an ensemble: a regression tree that knows of some features only.

    Parameters
    ----------
    schema, seed, parameters
        As for `regression_tree`; the features follow from the seed.
    n_features : int
        That the tree, with its linear models, knows of.
    """

    layout = StateLayout(parts=("",))  # all is the tree's

    def __init__(self, schema: Schema, seed: int, parameters: Mapping[str, Any], n_features: int) -> None:
        features = np.zeros((1, n_features), np.int32)
        draw_features(key(seed), 0, features, schema.n_features)
        self.features: NDArray[np.int32] = features[0]
        self.schema = schema
        self._tree = regression_tree(self._part(schema), seed, parameters)

    def _part(self, schema: Schema) -> Schema:
        return schema._replace(n_values=tuple(schema.n_values[f] for f in self.features))

    def run(self, program: Program, slab: Floats, out: Floats, errors: Floats) -> None:
        self._tree.run(program, np.ascontiguousarray(slab[:, self.features]), out, errors)

    def resize(self, schema: Schema) -> None:
        self._tree.resize(self._part(schema))
        self.schema = schema

    def state(self) -> RegressionNodes:
        return self._tree.state()

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        restore(self._tree, state, "the tree")

    def describe(self) -> list[dict[str, Any]]:
        nodes = self._tree.describe()
        for node in nodes:
            if "feature" in node:
                node["feature"] = int(self.features[node["feature"]])
        return nodes

    def size(self) -> dict[str, int]:
        return self._tree.size()
