"""The contract, for pools of opinions."""

from tests.models.contract.checks import *  # noqa: F403
from tests.models.contract.worlds import Case

TWO = {"soft": {"model": "soft-hoeffding-tree", "max_depth": 3}, "last": "last-label"}
CASES = {
    "opinion-pool": [
        Case({"members": {**TWO, "mondrian": {"model": "mondrian-forest", "n_trees": 2, "max_nodes": 101}}}),
        Case({"members": {**TWO, "again-1": "last-label"}, "pool": "linear", "rate": 0.05, "threads": 2}),
        Case({"members": TWO, "pool": "leader", "floor": 0.2}),
    ]
}
