"""A minute of `make fuzz`, always the same one, and every case that ever failed."""

import pytest

from tests.fuzz.children import CASES, replay, run
from tests.fuzz.target import TARGETS, find

SEED = 1


@pytest.mark.parametrize("name", [name for name in TARGETS if find(name).budget])
def test_nothing_is_found(name: str) -> None:
    outcome = run(name, SEED, count=find(name).budget)
    assert not outcome.found, outcome.found[0].said + repr(outcome.found[0].case[:2000])
    assert outcome.cases == find(name).budget


@pytest.mark.parametrize("name", TARGETS)
def test_what_failed_once_does_not_again(name: str) -> None:
    files = sorted((CASES / name).glob("*"))
    if not files:
        pytest.skip("none ever did")
    assert not [found.said for found in replay(name, files)]
