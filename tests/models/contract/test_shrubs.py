"""The contract of shrub ensembles."""

from riparian.checks import Case
from tests.models.contract.checks import test_contract  # noqa: F401

CASES = {
    "shrub-ensemble": [
        Case({"window": 64, "n_trees": 4, **more}, {"max_depth": 3}, breathes=True)
        for more in (
            {"splits": "best", "n_windows": 1, "every": 1, "weighting": "equal"},
            {"max_features": "sqrt", "every": 3, "train_share": 0.5, "ridge": 0.2, "n_windows": 2},
        )
    ]
}
