"""The contract of learners of anomalies."""

from riparian.checks import Case
from tests.models.contract.checks import test_contract  # noqa: F401

SMALL = {"n_trees": 5, "height": 6, "window": 50}

CASES = {
    "half-space-trees": [Case(SMALL), Case(SMALL | {"window": 20, "max_window": 90})],
    "online-isolation-forest": [Case({"n_trees": 3, "window": 50, "leaf_size": 3})],
}
