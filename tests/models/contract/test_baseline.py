"""The contract of baselines."""

from tests.models.contract.checks import *  # noqa: F403
from tests.models.contract.worlds import Case

CASES = {
    "majority-class": [Case()],
    "last-label": [Case()],
    "mean": [Case(), Case({"fading": 0.9})],
    "naive-bayes": [Case()],
}
