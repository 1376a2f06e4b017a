"""A short campaign of topics that workers copy, under commands, and one without a guard, which must fail. Long ones
are those of `make chaos`."""

import inspect
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from riparian.app.worker import assignment
from riparian.app.worker.faust_client.input_logs import InputLogs
from tests.chaos.campaign import UNGUARDED_SECONDS, Report, run, summary
from tests.chaos.checks import Verdict
from tests.chaos.schedule import (
    ADD,
    BROKER_KILL,
    DROP,
    FREEZE_LONG,
    KILL,
    KINDS,
    REFUSE,
    STALL_LONG,
    TERM,
    schedule,
)
from tests.chaos.steered import fields
from tests.chaos.unguarded import GUARDS

SEED = 58  # with a rule that promotes (`steered.fields`)
SESSION_SECONDS = 3.0
SHORT = (KILL, TERM, ADD, FREEZE_LONG, STALL_LONG, REFUSE, DROP, BROKER_KILL)


def test_a_seed_is_a_schedule_and_every_fault_ends():
    steps = schedule(SEED, 100)
    assert steps == schedule(SEED, 100)
    assert steps != schedule(SEED + 1, 100)
    assert {step.fault for step in steps} - {None} == set(KINDS)
    ends = {"freeze": "thaw", "refuse": "heal", "stall": "heal", "broker kill": "start", "broker stop": "start"}
    lasting: dict[int, str] = {}
    up = {0, 1}
    for step in steps:
        if step.slot in lasting:
            assert step.action.endswith(lasting.pop(step.slot)), step
        elif step.action in ends:
            lasting[step.slot] = ends[step.action]
        if step.action == "start":
            assert step.slot not in up
            up.add(step.slot)
        elif step.slot >= 0:
            assert step.slot in up
            up -= {step.slot} if step.action in ("kill", "stop") else set()
    assert not lasting


def test_a_worker_without_a_guard_runs_and_what_a_crash_leaves_undone_proves_nothing(monkeypatch):
    for owner, name in ((assignment, "read_tails"), (assignment, "fenced_producer"), (InputLogs, "commit")):
        monkeypatch.setattr(owner, name, getattr(owner, name))  # comes back
    usual, committed = inspect.signature(assignment.fenced_producer), []
    monkeypatch.setattr(InputLogs, "commit", lambda _, offsets: committed.append(offsets))
    for guard in GUARDS.values():
        guard.remove()
    assert list(inspect.signature(assignment.fenced_producer).parameters) == list(usual.parameters)
    for offsets in ({}, {"tp": 3}, {"tp": 4}, {}):
        InputLogs.commit(None, offsets)
    assert committed == [{}, {"tp": 3}, {}]
    undone = Verdict("s", 0, 1, 1, 0, "", ["predictions: 3 lost, first of source offset 1"], {})
    twice = undone._replace(failures=["predictions: 3 repeated, first of source offset 1"])
    assert not Report(Counter(), 0, ["a worker ended by itself"], [undone, undone]).wrong
    assert Report(Counter(), 0, [], [undone, twice]).wrong


@pytest.mark.broker
def test_faults_lose_nothing_and_repeat_nothing_and_without_a_guard_they_do(broker, tmp_path):
    """Two campaigns at once: they wait most of the time."""

    def campaign(name, n_faults, kinds, **options):
        folder = tmp_path / name
        folder.mkdir()
        steps = schedule(SEED, n_faults, session=SESSION_SECONDS, kinds=kinds)
        return run(folder, name, steps, seed=SEED, session=SESSION_SECONDS, rate=100.0, backlog=1000, **options)

    with ThreadPoolExecutor(2) as pool:
        guarded = pool.submit(campaign, "guarded", len(SHORT), SHORT, rekey=True, **fields(SEED))
        entry = ("tests.chaos.unguarded", "tail")
        unguarded = pool.submit(campaign, "unguarded", 3, (KILL,), entry=entry, patience=UNGUARDED_SECONDS, lent=broker)
        report = guarded.result()
        assert report.passed, summary(report)
        assert report.counts.total() == len(SHORT)
        assert all(min(verdict.answers.values()) > 0 for verdict in report.verdicts), summary(report)
        report = unguarded.result()
    assert any("repeated" in failure for verdict in report.verdicts for failure in verdict.failures), summary(report)
