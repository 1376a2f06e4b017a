"""The contract of streaming decision trees and forests."""

from riparian.checks import Case
from tests.models.contract.checks import test_contract  # noqa: F401

CASES = {
    "streaming-decision-tree": [
        Case({"batch_size": 50, **more}, {"max_nodes": 15})
        for more in ({"window": 0, "leaf_values": "overwrite"}, {"batch_size": 1, "window": 30})
    ],
    "streaming-decision-forest": [
        Case({"n_trees": 5, "batch_size": 30, **more}, {"max_nodes": 15})
        for more in (
            {"window": 200},
            {"window": 100, "replaced": "never", "vote": "average", "max_features": "all", "bootstrap": True},
        )
    ],
}
