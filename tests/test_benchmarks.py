"""Benchmarks are run seldom: each can be imported, and labels come late in those of pools as `late` says."""

import importlib
import pkgutil

import numpy as np
import pytest

import benchmarks
from benchmarks.opinion_pool import LEAST, followed, late
from benchmarks.tables import Table
from riparian.models.contract import LEARN, PREDICT, Schema

IN_PEERS = {"kafka_loops"}  # run by the Python of another environment
NAMES = sorted({one.name for one in pkgutil.iter_modules(benchmarks.__path__)} - IN_PEERS)


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_can_be_imported(name: str) -> None:
    importlib.import_module(f"benchmarks.{name}")


@pytest.mark.parametrize(
    ("delay", "learned"), [(0, [0, 1, 2, 3, 4]), (2, [0, 1, 2]), ("2", [0, 1, 2]), ("block:2", [0, 1, 2, 3])]
)
def test_labels_come_as_late_as_is_said(delay: int | str, learned: list[int]) -> None:
    table = Table(Schema((0,), 1, "regression"), np.zeros((5, 1)), np.arange(5.0))
    program = late(table, delay)
    assert program.row[program.op == PREDICT].tolist() == list(range(5))
    assert program.row[program.op == LEARN].tolist() == learned
    first = np.flatnonzero(program.op == LEARN)[0]
    assert first == {0: 1, 2: 3, "2": 3, "block:2": 2}[delay]


def test_a_leader_is_named_by_labels_that_have_come_alone() -> None:
    n, delay = 3 * LEAST, 5
    table = Table(Schema((0,), 1, "regression"), np.zeros((n, 1)), np.zeros(n))
    first, good = np.full(n, 2.0), np.full(n, 1.0)
    known = np.arange(n) >= 10  # of the instances before, nothing was known that a label could judge
    found = followed(late(table, delay), known, first, np.array([first + 1.0, good]), 1.0, np.inf)
    named = 10 + LEAST + delay  # the first instance after LEAST such labels
    assert found[:named].tolist() == [2.0] * named
    assert found[named:].tolist() == [1.0] * (n - named)
    assert followed(late(table, delay), known, first, good[None], 1.0, 0.5).tolist() == first.tolist()
    assert followed(late(table, delay), known, first, good[None], 1.0, 0.6).tolist() == found.tolist()
