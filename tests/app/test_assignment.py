"""The assignment without a broker: who waits for whom."""

import asyncio
import itertools
import threading
from types import SimpleNamespace

import pytest
from aiokafka.errors import KafkaError, ProducerFenced
from faust.assignor.client_assignment import ClientAssignment

from riparian.app.errors import TopicError
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.shared.replica import Replica
from riparian.app.worker import assignment as module
from riparian.app.worker import context
from riparian.app.worker.assignment import SupersededError
from riparian.topics.names import changelog_topic
from tests.broker.harness import engine_of, stream_file


class Slow:
    """A runner that is in the middle of a step when it is told to stop."""

    partition, tps = 0, {}

    def __init__(self, assignment):
        self.assignment, self.told, self.stepped = assignment, asyncio.Event(), asyncio.Event()

    async def stop(self):
        self.told.set()
        await self.stepped.wait()
        await self.assignment.worker.in_thread(int)  # metrics, the last checkpoint


def test_a_worker_stops_after_runners_that_a_rebalance_is_stopping(tmp_path):
    _, spec = stream_file(tmp_path, "stops")

    async def run():
        assignment = engine_of(spec, tmp_path)
        runner = assignment.runners[0] = Slow(assignment)
        rebalance = asyncio.create_task(assignment._drop([runner]))
        await runner.told.wait()
        signal = asyncio.create_task(assignment.stop())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not signal.done()
        runner.stepped.set()
        await asyncio.gather(rebalance, signal)

    asyncio.run(run())


@pytest.mark.parametrize(("learning", "n"), [("shared", 1), ("partition", 0)])
def test_a_turn_waits_for_the_log_of_all_partitions_only_where_there_is_one(tmp_path, learning, n):
    _, spec = stream_file(tmp_path, "reads", partitions=2, learning=learning)
    assert len(engine_of(spec, tmp_path)._readers([Replica(spec)] * 2)) == n


def test_partitions_of_workers_on_one_machine_are_all_known(tmp_path):
    """Who takes some for not given out joins the group again, and the others, and so on."""
    _, spec = stream_file(tmp_path, "machine")
    topic = changelog_topic("machine")

    async def run():
        app = engine_of(spec, tmp_path).states.app
        app.assignor._member_urls = {"a": "http://one:6066", "b": "http://one:6066", "c": "http://other:6066"}
        given = {"a": [0, 3], "b": [1], "c": []}
        found = app.assignor._get_changelog_distribution(
            {name: ClientAssignment(actives={topic: its, "f": its}, standbys={}) for name, its in given.items()}
        )
        assert found == {"http://one:6066": {topic: [0, 1, 3]}, "http://other:6066": {topic: []}}

    asyncio.run(run())


def test_learners_are_a_table_of_the_app_whose_changelog_holds_no_single_change(tmp_path):
    _, spec = stream_file(tmp_path, "table")

    async def run():
        states = engine_of(spec, tmp_path).states
        assert states.app.tables.changelog_topics == {changelog_topic("table")}
        assert states.app.tables["state"] is states
        states[0] = learner = PartitionLearner(spec)
        assert states[0] is learner
        assert list(states.values()) == [learner]
        del states[0]
        assert not states

    asyncio.run(run())


def test_a_partition_that_is_loaded_while_the_worker_stops_ends_it_in_good_order(tmp_path, monkeypatch):
    _, spec = stream_file(tmp_path, "stops")

    async def run():
        assignment = engine_of(spec, tmp_path)
        begun, stopped = asyncio.Event(), asyncio.Event()

        async def load(partitions, generation):
            begun.set()
            await stopped.wait()
            await assignment.worker.in_thread(int)  # restores the state, in threads that have ended

        monkeypatch.setattr(assignment, "_load", load)
        loading = asyncio.create_task(assignment._insist([0], assignment._generation))
        await begun.wait()
        await assignment.stop()
        stopped.set()
        with pytest.raises(SupersededError):
            await loading

    asyncio.run(run())


@pytest.mark.parametrize(("cores", "at_once"), [(1, 2), (2, 2), (5, 5)])
def test_as_many_steps_run_at_once_as_there_are_cores(tmp_path, monkeypatch, cores, at_once):
    """And a checkpoint beside a step, where there is one."""
    _, spec = stream_file(tmp_path, "cores")
    monkeypatch.setattr(context, "n_cores", lambda: cores)
    running, most, all_there = 0, 0, threading.Barrier(at_once, timeout=30)
    lock = threading.Lock()

    def step():
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        all_there.wait()  # which none would pass where fewer run
        with lock:
            running -= 1

    async def run():
        assignment = engine_of(spec, tmp_path)
        await asyncio.gather(*(assignment.worker.in_thread(step) for _ in range(3 * at_once)))
        await assignment.stop()

    asyncio.run(run())
    assert most == at_once


def test_the_first_of_two_failures_stops_the_worker(tmp_path, monkeypatch):
    """Both come before it has begun to stop: a replica cannot go on, say, and a topic is gone."""
    _, spec = stream_file(tmp_path, "fails")

    async def run():
        worker, crashes = engine_of(spec, tmp_path).worker, []

        async def crash(error):
            crashes.append(error)

        monkeypatch.setattr(worker.app, "crash", crash)
        first, second = ValueError("first"), ValueError("second")
        worker.fail(first)
        worker.fail(second)
        await worker._crashing
        assert crashes == [first]
        assert worker.failure is first

    asyncio.run(run())


def test_a_task_that_another_worker_has_fenced_begins_again_and_is_counted(tmp_path, monkeypatch):
    _, spec = stream_file(tmp_path, "fenced")

    async def run():
        assignment, again = engine_of(spec, tmp_path), []
        monkeypatch.setattr(assignment, "_restart", lambda _, why: again.append(why))
        await assignment.ended(Slow(assignment), KafkaError("gone"))
        assert assignment.n_fenced == 0
        await assignment.ended(Slow(assignment), ProducerFenced())
        assert assignment.n_fenced == 1
        assert again == ["KafkaError('gone')", "another worker has taken it over"]

    asyncio.run(run())


def test_a_topic_that_is_missing_is_waited_for_as_long_as_a_fresh_one_may_take(tmp_path, monkeypatch):
    _, spec = stream_file(tmp_path, "missing")
    monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 0.0)

    async def run(n_missing):
        assignment, loads = engine_of(spec, tmp_path), []

        async def load(partitions, generation):
            loads.append(partitions)
            if len(loads) <= n_missing:
                raise TopicError("it is not there")
            return {}

        monkeypatch.setattr(assignment, "_load", load)
        return await assignment._insist([0], 0), len(loads)

    assert asyncio.run(run(1)) == ({}, 2)
    clock = itertools.count(0, 100)  # as in a process that was frozen
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(clock)), raising=False)
    assert asyncio.run(run(2)) == ({}, 3)
    monkeypatch.setattr(module, "MISSING_SECONDS", -1.0)
    with pytest.raises(TopicError):
        asyncio.run(run(1))


def test_what_begins_partitions_leaves_the_event_loop_to_heartbeats(tmp_path, monkeypatch):
    """Each takes figures of its models, 64 of auto for a second on a busy machine: the group would miss the worker."""
    _, spec = stream_file(tmp_path, "begins")
    threads = []

    async def nothing(*_):
        return [{}]  # limits, tails, what is lost

    def runner(*_):
        threads.append(threading.current_thread())
        raise KafkaError

    async def run():
        assignment = engine_of(spec, tmp_path)
        assignment._fence = assignment.states.catch_up = nothing
        assignment.inputs.asker.connected = connected
        monkeypatch.setattr(type(assignment), "consumer", SimpleNamespace(assignment=set))
        assignment.states.restore = lambda _: ([SimpleNamespace(learner=SimpleNamespace(partition=0))], {0: None})
        assignment._runner = runner
        for name in ("largest_batches", "read_tails", "check_inputs", "close"):
            monkeypatch.setattr(module, name, nothing)
        with pytest.raises(KafkaError):
            await assignment._load([0], assignment._generation)
        await assignment.stop()

    async def connected():
        return SimpleNamespace(_client=SimpleNamespace(_metadata_update=known))

    async def known(*_):
        return True

    monkeypatch.setattr(module, "check_topics", lambda *_: None)
    asyncio.run(run())
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()
