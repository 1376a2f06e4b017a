"""The contract of models of other libraries."""

from tests.models.contract.checks import *  # noqa: F403
from tests.models.contract.worlds import Case

CASES = {
    "external": [
        Case(
            {"arguments": {"grace_period": 50}},
            {"arguments": {"grace_period": 50, "max_depth": 0}},
            breathes=True,
            roomy=False,  # a pickle names the classes
        )
    ],
}
