"""The contract of batch learners."""

from riparian.checks import Case
from tests.models.contract.checks import test_contract  # noqa: F401

CASES = {
    "cart": [
        Case({"window": 300, **more}, breathes=True)
        for more in ({"ccp_alpha": 0.01, "drift_delta": 0.1}, {"ccp_alpha": 0.0, "lag": 20, "max_depth": 4})
    ],
    "bagging": [Case({"n_trees": 2, "window": 300, "sample": 0.5}, breathes=True)],
    "random-forest": [Case({"n_trees": 2, "window": 300, "max_depth": 5, "lag": 0}, breathes=True)],
    "adaboost": [Case({"n_trees": 2, "window": 300}, breathes=True)],
    "gradient-boosting": [Case({"n_trees": 2, "window": 300, "sample": 0.7}, breathes=True)],
    "xgboost": [Case({"n_trees": 2, "window": 300, "max_depth": 3}, breathes=True)],
}
