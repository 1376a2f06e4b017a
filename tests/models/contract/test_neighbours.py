"""The contract of nearest neighbours."""

from riparian.checks import Case
from tests.models.contract.checks import test_contract  # noqa: F401

CASES = {
    "nearest-neighbours": [
        Case({"window": 64, "long": 40, "minimum": 8}, {"minimum": 16}, breathes=True),
        Case({"k": 3, "window": 200, "long": 0, "minimum": 20}, breathes=True),
    ]
}
