"""What ensembles for regression are made of."""

from collections.abc import Mapping
from typing import Any

from models.contract import Schema
from models.regression.subspace import SubspaceRegressionTree

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
