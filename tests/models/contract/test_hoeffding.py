"""The contract of Hoeffding trees."""

from riparian.checks import Case
from tests.models.contract.checks import test_contract  # noqa: F401

CASES = {
    "hoeffding-tree": [
        Case({"grace_period": 50, "tie_threshold": 0.2, **more}, bounded)
        for more, bounded in (
            ({}, {"max_nodes": 15}),
            ({"leaf_prediction": "nb", "binary_splits": True}, {"max_nodes": 15}),
            ({"leaf_prediction": "mc", "split_criterion": "gini", "max_depth": 4}, {"max_nodes": 15}),
            (
                {"observer": "histogram", "n_bins": 8, "split_criterion": "hellinger", "max_active_leaves": 3},
                {"max_leaves": 8},
            ),
        )
    ],
    "hoeffding-adaptive-tree": [
        Case(
            {"grace_period": 50, "tie_threshold": 0.2, "drift_delta": 0.3, "least_window": 50, **more},
            {"max_nodes": 5, "drift_delta": 0.9, "least_window": 20, "tie_threshold": 1.0},
        )
        for more in (
            {"leaf_prediction": "nb", "binary_splits": True, "early_prediction": False},
            {"split_criterion": "gini", "max_depth": 4, "bootstrap": True},
        )
    ],
    "extremely-fast-decision-tree": [
        Case({"grace_period": 50, "reevaluation_period": 100, "tie_threshold": 0.2, **more}, {"max_nodes": 15})
        for more in (
            {},
            {"leaf_prediction": "nb", "binary_splits": True, "split_criterion": "gini", "max_depth": 4},
            {"observer": "histogram", "n_bins": 8, "split_criterion": "hellinger"},
        )
    ],
}
