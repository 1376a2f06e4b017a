"""The contract, for pools of opinions."""

import numpy as np

from riparian.models.auto.auto import resolve
from tests.models.contract.checks import *  # noqa: F403
from tests.models.contract.checks import errors
from tests.models.contract.worlds import N_VALUES, Case, rows

TWO = {"soft": {"model": "soft-hoeffding-tree", "max_depth": 3}, "last": "last-label"}
CASES = {
    "opinion-pool": [
        Case({"members": {**TWO, "mondrian": {"model": "mondrian-forest", "n_trees": 2, "max_nodes": 101}}}),
        Case({"members": {**TWO, "again-1": "last-label"}, "pool": "linear", "rate": 0.05, "threads": 2}),
        Case({"members": TWO, "pool": "leader", "floor": 0.2}),
        Case({"members": {"soft": {**TWO["soft"], "max_values": 2, "target_means": [2, 4]}, "last": "last-label"}}),
        Case({"members": {**TWO, "fixed": "soft-tree"}, "rate": 0.05, "rest_below": 0.1}, roomy=False),
    ]
}


def test_the_default_champion_believes_no_wrong_target_and_follows_its_level():
    """`auto` of a regression: seven kinds of learners, each of which may be what is wrong with it."""
    auto = Case(resolve("regression", N_VALUES, 1, {}).parameters)
    test_targets_far_from_zero("opinion-pool", "regression", auto)  # noqa: F405
    test_one_wrong_target("opinion-pool", "regression", auto)  # noqa: F405
    y = rows(2600, "regression", missing=0.0)[1]
    spread = y.std()
    y[1000:] += 1e5 * spread  # it is right
    assert np.median(errors("opinion-pool", "regression", auto, y)[1200:2000]) < 2.0 * spread
