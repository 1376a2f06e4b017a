"""The contract of soft trees and pools."""

from riparian.checks import Case
from tests.models.contract.checks import test_contract  # noqa: F401

CASES = {
    "soft-hoeffding-tree": [
        Case({"grace_period": 50, "learning_rate": 0.05, **more}, {"max_depth": 2})
        for more in ({"max_depth": 4}, {"max_depth": 3, "alpha": 0.0, "min_reach": 0.1})
    ],
    "model-pool": [
        Case({"of": "soft-tree", "candidates": "depth=1,2; learning_rate=0.02,0.1", "n_explored": 1}, roomy=False),
        Case({"of": "last-label", "candidates": ""}),
    ],
    "soft-tree": [
        Case({"depth": depth, "n_trees": n, "learning_rate": 0.05}, roomy=False) for depth, n in ((3, 1), (2, 3))
    ],
}
