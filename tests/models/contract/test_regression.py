"""The contract of regression trees."""

from riparian.checks import Case
from tests.models.contract.checks import test_contract  # noqa: F401

CASES = {
    "fimt-dd": [
        Case({"grace_period": 50, "delta": 0.1, "tie_threshold": 0.2, "n_bins": 8, **more}, {"max_nodes": 15})
        for more in ({}, {"leaf_prediction": "mean", "drift_detection": False, "max_depth": 4})
    ],
    "hoeffding-regression-tree": [Case({"grace_period": 50, "delta": 0.1, "n_bins": 8}, {"max_nodes": 15})],
    "orto": [
        Case({"grace_period": 50, "delta": 0.1, "tie_threshold": 0.2, "n_bins": 8, **more}, {"max_nodes": 15})
        for more in ({"prediction": "average", "keep_leaf": False}, {"prediction": "best-path"})
    ],
}
