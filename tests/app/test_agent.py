"""Rounds: which partitions take their turn, and what becomes of those that wait or fail."""

import asyncio
import time
import types

import faust
import pytest
from aiokafka.errors import KafkaError
from faust.types import TP

from riparian.app.worker import agent
from riparian.app.worker.faust_client.fetches import Fetches
from riparian.app.worker.task.partition_task import IDLE_SECONDS
from riparian.app.worker.task.turns import IN_STEP, Life, Turns, eagerly
from tests.broker.harness import engine_of, stream_file


class Task(Turns):
    """It has nothing but turns to take."""

    next_time = 0

    def __init__(self, worker, partition):
        super().__init__(worker)
        self.partition, self.life, self.due = partition, Life.RUNNING, float("inf")

    def _next_due(self):
        return time.monotonic() + IDLE_SECONDS


class Rounds:
    """An assignment with two partitions; `wakes` counts the rounds that were asked for."""

    def __init__(self, tmp_path):
        _, spec = stream_file(tmp_path, "rounds")
        self.assignment = engine_of(spec, tmp_path)
        self.wakes, self.ended = 0, []
        self.fetches = self.assignment.worker.fetches
        self.fetches.bring = self.wake
        self.assignment.worker.ended = self.end
        self.runners = [Task(self.assignment.worker, p) for p in range(2)]
        self.assignment.runners.update(enumerate(self.runners))

    def wake(self):
        self.wakes += 1

    async def end(self, runner, error):
        self.ended.append((runner.partition, error))


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_partition_takes_its_turn_when_it_has_something_to_do_or_something_is_due(tmp_path):
    async def run():
        rounds, taken = Rounds(tmp_path), []

        async def turn(task):
            taken.append(task.partition)
            return False

        first, second = rounds.runners
        first.wake()
        first.wake()
        assert rounds.wakes == 1  # one round does for both
        rounds.assignment.runners.round(turn)
        await settle()
        second.due = time.monotonic()
        rounds.assignment.runners.round(turn)
        await settle()
        rounds.assignment.runners.round(turn)
        await settle()
        assert taken == [0, 1]
        rounds.fetches.ask_at(time.monotonic() + 0.01)
        await asyncio.sleep(0.2)
        assert rounds.wakes == 2

    asyncio.run(run())


def test_a_partition_that_waits_is_passed_over_and_misses_nothing_that_came_meanwhile(tmp_path):
    async def run():
        rounds, taken, answered = Rounds(tmp_path), [], asyncio.Event()

        async def turn(task):
            taken.append(task.partition)
            if taken == [0]:
                await answered.wait()
            return False

        first, second = rounds.runners
        first.wake()
        rounds.assignment.runners.round(turn)
        await settle()
        assert first.busy
        second.wake()
        first.wake()
        rounds.assignment.runners.round(turn)
        await settle()
        assert taken == [0, 1]
        answered.set()
        await settle()
        assert taken == [0, 1, 0]
        assert not first.busy

    asyncio.run(run())


@pytest.mark.parametrize("sound", [True, False])
def test_an_error_ends_its_own_partition_alone(tmp_path, sound):
    """Where what was fetched shows that it cannot go on, what it has learned may be written still."""

    async def run():
        rounds, error = Rounds(tmp_path), KafkaError("refused")

        async def turn(task):
            if task.partition == 0:
                raise error
            return False

        first, second = rounds.runners
        for one in rounds.runners:
            one.wake()
        if sound:
            first.cannot(error)
        rounds.assignment.runners.round(turn)
        await settle()
        assert rounds.ended == [(0, error)]
        assert [first.life, second.life] == [Life.STOPPED if sound else Life.LOST, Life.RUNNING]
        first.wake()
        rounds.assignment.runners.round(turn)
        await settle()
        assert len(rounds.ended) == 1

    asyncio.run(run())


def test_a_request_that_the_client_cancels_within_a_turn_ends_its_partition_and_a_cancelled_turn_none(
    tmp_path,
):
    async def run():
        rounds = Rounds(tmp_path)
        requests = [asyncio.get_running_loop().create_future() for _ in rounds.runners]

        async def turn(task):
            await requests[task.partition]

        first, second = rounds.runners
        for one in rounds.runners:
            one.wake()
        rounds.assignment.runners.round(turn)
        await settle()
        requests[0].cancel()
        second._turns.cancel()
        await settle()
        assert [(partition, type(error)) for partition, error in rounds.ended] == [(0, asyncio.CancelledError)]
        assert [first.life, second.life] == [Life.LOST, Life.RUNNING]

    asyncio.run(run())


def test_a_batch_that_cannot_be_added_ends_its_partition_and_leaves_the_agent_to_the_others(tmp_path):
    """An error in its body would leave it to Faust's supervisor."""

    async def run():
        rounds, taken, error = Rounds(tmp_path), [], ValueError("no batch")

        def add(tp, fetched):
            raise error

        async def turn(task):
            taken.append(task.partition)
            return False

        first, second = rounds.runners
        first.add = add
        rounds.assignment.runners.add(TP("rounds.features", 0), "fetched")
        second.wake()
        rounds.assignment.runners.round(turn)
        await settle()
        assert taken == [1]
        assert rounds.ended == [(0, error)]
        assert first.life is Life.STOPPED

    asyncio.run(run())


def test_the_agent_s_channel_is_none_of_faust_s_topics(tmp_path):
    """A conductor would assert that the partitions of its topics are assigned, and subscribe anew where one stops."""

    async def run():
        _, spec = stream_file(tmp_path, "rounds")
        worker = engine_of(spec, tmp_path).worker
        conductor, (learn,) = worker.app.topics, worker.app.agents.values()
        assert {topic for one in conductor for topic in one.topics} == {log.topic for log in spec.inputs}
        conductor._subscription_changed = asyncio.Event()
        stream = learn.stream()
        await stream.stop()
        stream.channel.on_stop_iteration()
        assert not conductor._subscription_changed.is_set()
        for moved in ({0}, set(), {1}):
            conductor._update_tp_index({TP(log.topic, partition) for log in spec.inputs for partition in moved})

    asyncio.run(run())


def test_a_turn_that_waits_for_nothing_is_taken_within_its_round_without_a_task(tmp_path):
    async def run():
        rounds, taken = Rounds(tmp_path), []

        async def turn(task):
            taken.append((task.partition, asyncio.current_task()))
            return False

        for one in rounds.runners:
            one.wake()
        rounds.assignment.runners.round(turn)
        assert taken == [(0, asyncio.current_task()), (1, asyncio.current_task())]
        assert not any(one.busy for one in rounds.runners)

    asyncio.run(run())


def test_what_waits_goes_on_in_a_task_with_what_it_waited_for():
    async def run():
        taken, answers = [], [asyncio.get_running_loop().create_future() for _ in range(3)]

        async def work():
            taken.append("begun")
            await asyncio.sleep(0)
            taken.append(await answers[0])
            try:
                await answers[1]
            except KafkaError as error:
                taken.append(error)
            try:
                await answers[2]
            except asyncio.CancelledError:
                taken.append("cancelled")

        (task,), error = eagerly(work()), KafkaError("refused")
        assert taken == ["begun"]
        await settle()
        answers[0].set_result("answer")
        answers[1].set_exception(error)
        await settle()
        assert taken == ["begun", "answer", error]
        task.cancel()
        await task
        assert taken[-1] == "cancelled"

    asyncio.run(run())


def test_those_that_need_not_wait_come_to_each_place_before_any_goes_on():
    """One that waits goes on by itself, and does not wait for the others; nor does one that fails."""

    async def run():
        taken = []

        async def work(name, waits=False, fails=False):
            for stage in range(3):
                taken.append(f"{name}{stage}")
                if stage == 1 and waits:
                    await asyncio.sleep(0)
                if stage == 1 and fails:
                    raise ValueError(name)
                await IN_STEP

        first, second = eagerly(work("a"), work("b"))
        assert first is second is None
        assert taken == ["a0", "b0", "a1", "b1", "a2", "b2"]
        taken.clear()
        (left, none) = eagerly(work("a", waits=True), work("b"))
        assert none is None
        assert taken == ["a0", "b0", "a1", "b1", "b2"]
        await left
        assert taken[-1] == "a2"
        taken.clear()
        (error, none) = eagerly(work("a", fails=True), work("b"))
        assert isinstance(error, ValueError)
        assert none is None
        assert taken == ["a0", "b0", "a1", "b1", "b2"]
        taken.clear()
        await work("a")  # nobody runs it with others
        assert taken == ["a0", "a1", "a2"]

    asyncio.run(run())


def test_two_may_wait_for_one_answer():
    async def run():
        taken, answer = [], asyncio.get_running_loop().create_future()

        async def work():
            taken.append(await answer)

        tasks = [*eagerly(work()), asyncio.create_task(work()), *eagerly(work())]
        await settle()
        answer.set_result("answer")
        await asyncio.gather(*tasks)
        assert taken == ["answer"] * 3

    asyncio.run(run())


def test_what_is_cancelled_before_it_goes_on_ends():
    async def run():
        ended = []

        async def work():
            try:
                await asyncio.sleep(0)
            finally:
                ended.append(True)

        (task,) = eagerly(work())
        task.cancel()
        await settle()
        assert task.cancelled()
        assert ended == [True]

    asyncio.run(run())


def test_what_was_fetched_and_not_added_yet_outlives_a_rebalance():
    """Faust clears the queues of its streams when a rebalance ends."""
    app = faust.App("rounds", broker="kafka://127.0.0.1:1", autodiscover=False)

    async def run():
        added = []
        fetches = Fetches(app)
        tasks = types.SimpleNamespace(add=lambda *one: added.append(one), round=added.append)
        agent.install(types.SimpleNamespace(app=app, fetches=fetches), tasks)
        events = fetches.clone(is_iterator=True)
        fetch = [(TP("s.features", 0), "fetched")]
        fetches.bring(fetch)
        app.flow_control.suspend()
        app.flow_control.resume()
        fetches.bring()
        assert [events.queue.get_nowait() for _ in range(2)] == [fetch, ()]

    asyncio.run(run())


def test_what_several_partitions_ask_for_is_one_question(tmp_path):
    async def run():
        inputs, asked = Rounds(tmp_path).assignment.inputs, []
        answer = asyncio.get_running_loop().create_future()

        async def ends_of(partitions):
            asked.append(partitions)
            return await answer if len(asked) == 1 else dict.fromkeys(partitions, "then")

        inputs._ends_of = ends_of
        tasks = [asyncio.create_task(inputs.ends(partition)) for partition in (0, 1)]
        await settle()
        tasks += [asyncio.create_task(inputs.ends(partition)) for partition in (0, 2)]
        await settle()
        answer.set_result({0: "now"})
        assert await asyncio.gather(*tasks) == ["now", None, "then", "then"]
        assert asked == [[0, 1], [0, 2]]

    asyncio.run(run())
