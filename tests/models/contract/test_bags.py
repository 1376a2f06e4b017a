"""The contract of multi-instance trees and diverse density."""

from riparian.checks import Case
from tests.models.contract.checks import test_contract  # noqa: F401

CASES = {
    "miti": [
        Case({"refit_every": 100, "window": 200, **more}, {"max_instances": 300})
        for more in ({}, {"split_criterion": "max-bepp", "k": 0.0})
    ],
    "quick-diverse-density": [
        Case({"refit_every": 200, "window": 200, "max_steps": 20, "cap": 3.0}, {"max_instances": 300})
    ],
}
