"""The contract of ensembles."""

from riparian.checks import Case
from tests.models.contract.checks import test_contract  # noqa: F401

CASES = {
    "online-bagging": [
        Case({"n_models": 3, "grace_period": 50, "tie_threshold": 0.2, **more}, {"max_nodes": 15})
        for more in ({}, {"vote": "majority", "observer": "histogram"})
    ],
    "adaptive-random-forest": [
        Case(
            {"n_models": 3, "grace_period": 30, "warning_delta": 0.9, "drift_delta": 0.3, **more},
            {"max_nodes": 7, "drift_delta": 0.9, "tie_threshold": 1.0, "rate": 1.0, "n_models": 12},  # soon two trees
            breathes=True,
        )
        for more in ({}, {"max_features": "sqrt", "observer": "histogram", "background_trees": False})
    ],
    "streaming-random-patches": [
        Case(
            {"n_models": 3, "grace_period": 30, "warning_delta": 0.9, "drift_delta": 0.3, **more},
            {"max_nodes": 7, "drift_delta": 0.9, "tie_threshold": 1.0, "rate": 1.0, "n_models": 12},  # soon two trees
            breathes=True,
        )
        for more in ({}, {"training_method": "resampling"})
    ],
    **{
        name: [Case({"n_models": 3, "grace_period": 50, "tie_threshold": 0.2, **more}, {"max_nodes": 15})]
        for name, more in {
            "leveraging-bagging": {"rate": 2.0, "drift_delta": 0.9, "leaf_prediction": "mc"},
            "smooth-boost": {"vote": "weighted", "gamma": 0.5},
            "online-boosting": {"poisson": False},
        }.items()
    },
}
