"""The contract, for pools of opinions."""

import numpy as np

from riparian.checks import N_VALUES, Case, check_one_wrong_target, check_targets_far_from_zero, errors, rows
from riparian.models.auto.auto import resolve
from riparian.models.opinion_pool.opinion_pool import OpinionPool
from tests.models.contract.checks import test_contract  # noqa: F401

TWO = {"soft": {"model": "soft-hoeffding-tree", "max_depth": 3}, "last": "last-label"}
CASES = {
    "opinion-pool": [
        Case({"members": {**TWO, "mondrian": {"model": "mondrian-forest", "n_trees": 2, "max_nodes": 101}}}),
        Case({"members": {**TWO, "again-1": "last-label"}, "pool": "linear", "rate": 0.05}),
        Case({"members": TWO, "pool": "leader", "floor": 0.2}),
        Case({"members": {"soft": {**TWO["soft"], "max_values": 2, "target_means": [2, 4]}, "last": "last-label"}}),
        Case({"members": {**TWO, "fixed": "soft-tree"}, "rate": 0.05, "rest_below": 0.1}, roomy=False),
    ]
}


def test_the_default_champion_believes_no_wrong_target_and_follows_its_level():
    """`auto` of a regression: seven kinds of learners, each of which may be what is wrong with it."""
    auto = Case(resolve("regression", N_VALUES, 1, {}).parameters)
    check_targets_far_from_zero(OpinionPool, "regression", auto)
    check_one_wrong_target(OpinionPool, "regression", auto)
    y = rows(2600, "regression", missing=0.0)[1]
    spread = y.std()
    y[1000:] += 1e5 * spread  # it is right
    assert np.median(errors(OpinionPool, "regression", auto, y)[1200:2000]) < 2.0 * spread
