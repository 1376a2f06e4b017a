"""The tests of a family's file run over each of its CASES, for each task of the learner, and each check."""

import pytest

from riparian.checks import checks_of
from riparian.models.registry import REGISTRY


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        every = [
            pytest.param(check, name, task, case, id=f"{check.__name__}-{name}-{task}-{i}")
            for name, cases in metafunc.module.CASES.items()
            for task in REGISTRY[name].tasks
            for i, case in enumerate(cases)
            for check in checks_of(task, case)
        ]
        metafunc.parametrize(("check", "name", "task", "case"), every)


@pytest.fixture(autouse=True)
def _pickles_are_trusted(state_key: str) -> None:
    """States of models of other libraries are pickles, which are loaded only with a key."""
