"""The contract of Mondrian forests."""

from riparian.checks import Case
from tests.models.contract.checks import test_contract  # noqa: F401

CASES = {
    "mondrian-forest": [
        Case({"n_trees": 3, **more}, {"max_nodes": 101})
        for more in (
            {},
            {"split_below": 1.0, "vote_power": 0, "max_bytes": 100_000},
            {"aggregation": False, "split_pure": True, "step": 0.5},
        )
    ]
}
