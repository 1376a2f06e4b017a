"""The tests of a family's file run over each of its CASES, for each task of the learner."""

import pytest

from riparian.models.registry import REGISTRY

pytest.register_assert_rewrite("tests.models.contract.checks", "tests.models.contract.worlds")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        every = [
            pytest.param(name, task, case, id=f"{name}-{task}-{i}")
            for name, cases in metafunc.module.CASES.items()
            for task in REGISTRY[name].tasks
            for i, case in enumerate(cases)
        ]
        metafunc.parametrize(("name", "task", "case"), every)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [
        item
        for item in items
        if (mark := item.get_closest_marker("only")) is None or item.callspec.params["task"] in mark.args  # type: ignore[attr-defined]
    ]


@pytest.fixture(autouse=True)
def _pickles_are_trusted(state_key: str) -> None:
    """States of models of other libraries are pickles, which are loaded only with a key."""
