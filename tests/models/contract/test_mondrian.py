"""The contract of Mondrian forests."""

from tests.models.contract.checks import *  # noqa: F403
from tests.models.contract.worlds import Case

CASES = {
    "mondrian-forest": [
        Case({"n_trees": 3, **more}, {"max_nodes": 101})
        for more in (
            {},
            {"split_below": 1.0, "vote_power": 0, "max_bytes": 100_000},
            {"aggregation": False, "split_pure": True, "step": 0.5, "threads": 2},
        )
    ],
}
