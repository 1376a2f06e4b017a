"""The contract of models of other libraries."""

from riparian.checks import Case
from tests.models.contract.checks import test_contract  # noqa: F401

CASES = {
    "external": [
        Case(
            {"arguments": {"grace_period": 50}},
            {"arguments": {"grace_period": 50, "max_depth": 0}},
            breathes=True,
            roomy=False,  # a pickle names the classes
        )
    ]
}
