"""Each check of `riparian.checks` as a test of each case of a family's learners.

A file `test_<family>.py` has `CASES` and imports `test_contract`. So a family's kernels are compiled and loaded by one
process of those that share the tests.
"""

import pytest

from riparian.checks import check_any_pieces, check_huge_and_tiny_values, run_check
from riparian.models.ensemble import chunks
from riparian.models.registry import REGISTRY
from tests.conftest import INTERPRETED
from tests.models.shared_out import share_out


def test_contract(check, name, task, case, monkeypatch):
    if check is check_huge_and_tiny_values and INTERPRETED:
        pytest.skip("Python's math raises where compiled kernels go on with infinity")
    if check is check_any_pieces:
        share_out(monkeypatch, 3)
        monkeypatch.setattr(chunks, "MOST", 800)
    run_check(check, REGISTRY[name].load(task), task, case)
