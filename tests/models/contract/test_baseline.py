"""The contract of baselines."""

from riparian.checks import Case
from tests.models.contract.checks import test_contract  # noqa: F401

CASES = {
    "majority-class": [Case()],
    "last-label": [Case()],
    "mean": [
        Case(skip=("check_one_wrong_target",)),  # it moves the mean of all by its share
        Case({"fading": 0.9}),
    ],
    "naive-bayes": [Case(), Case({"window": 60.0})],
}
