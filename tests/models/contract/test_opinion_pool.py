"""The contract, for pools of opinions."""

from tests.models.contract.checks import *  # noqa: F403
from tests.models.contract.worlds import Case

TWO = {"soft": {"model": "soft-hoeffding-tree", "max_depth": 3}, "last": "last-label"}
CASES = {
    "opinion-pool": [
        Case({"members": {**TWO, "mondrian": {"model": "mondrian-forest", "n_trees": 2, "max_nodes": 101}}}),
        Case({"members": {**TWO, "again-1": "last-label"}, "pool": "linear", "rate": 0.05, "threads": 2}),
        Case({"members": TWO, "pool": "leader", "floor": 0.2}),
        Case({"members": {"soft": {**TWO["soft"], "max_values": 2, "target_means": [2, 4]}, "last": "last-label"}}),
        Case({"members": {**TWO, "fixed": "soft-tree"}, "rate": 0.05, "rest_below": 0.1}),
    ]
}
