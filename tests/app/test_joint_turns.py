"""Turns of all partitions without a broker: who may take them."""

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaError, MessageSizeTooLargeError, ProducerFenced
from aiokafka.structs import RecordMetadata, TopicPartition

from riparian.app.errors import BrokerError
from riparian.app.kafka.bundles import Bundles
from riparian.app.kafka.sending import Outputs
from riparian.app.worker.shared import joint_turns as module
from riparian.app.worker.shared.joint_turns import (
    FEW_EACH,
    LEAST,
    LONGEST_SECONDS,
    MOST,
    TURN_SECONDS,
    JointTurns,
    TurnSize,
)
from riparian.topics.names import changelog_topic
from tests.broker.harness import engine_of, stream_file


class Log:
    """Gives producers; only one is made at a time, and each ends those before."""

    def __init__(self) -> None:
        self.n, self.making = 0, False
        self.closed: list[Any] = []

    async def producer(self, connection: Any, name: str, tps: list[TopicPartition], *_: Any) -> int:
        # Behind `fenced_producer` a marker may still come where the first of them is.
        assert [tp.topic for tp in tps] == [changelog_topic(name), f"{name}.learned"]
        if self.making:
            raise ProducerFenced
        self.making = True
        for _i in range(5):
            await asyncio.sleep(0)
        self.making, self.n = False, self.n + 1
        return self.n

    async def join(self, _: int) -> None: ...

    async def close(self, producer: Any) -> None:
        self.closed.append(producer)


class Task:
    busy, n_waiting, steps_together, appends_together, running, appends = False, 1000, True, True, True, False

    def __init__(self, owned: bool = True, whole: bool = True) -> None:
        self.shared = self
        self.owned, self.whole, self.proved, self.begun = owned, whole, 0, 0.0
        self.failed: list[BaseException] = []

    def leave_to(self, turn: Any) -> None:
        self.busy = True

    def go_on(self, more: bool) -> None:
        self.busy = False

    async def prove(self) -> None:
        if not self.owned:
            raise ProducerFenced
        self.ask_checkpoint()

    def ask_checkpoint(self) -> None:
        self.proved += 1
        if self.whole:
            self.begun = time.monotonic()

    def proved_since(self, since: float) -> bool:
        return self.begun > since

    async def fails(self, error: BaseException) -> None:
        self.failed.append(error)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    log = Log()
    monkeypatch.setattr(module, "fenced_producer", log.producer)
    monkeypatch.setattr(module, "close", log.close)
    monkeypatch.setattr(Bundles, "join", log.join)
    monkeypatch.setattr("riparian.app.kafka.sending.close", log.close)
    return log


class Counted(JointTurns):
    n = 0

    async def _turn(self, tasks: Any, outputs: Any) -> bool:
        self.n += 1
        return False


def turns(folder: Path) -> Counted:
    worker = engine_of(stream_file(folder, "joint", learning="shared", partitions=2)[1], folder).worker
    worker.limits = dict.fromkeys((*worker.spec.of_all, worker.states.topic), 10**6)
    together = Counted(worker)
    together.paused = False
    return together


def test_partitions_that_are_loaded_at_once_fence_the_log_in_turn(log: Log, tmp_path: Path) -> None:
    async def run() -> None:
        together, tasks = turns(tmp_path), [Task(), Task()]
        await asyncio.gather(*(together.fence() for _ in range(4)))
        assert log.closed == [1, 2, 3, 4]
        for _ in range(2):
            await together._take(tasks)  # type: ignore[arg-type]
        assert together.n == 2
        assert log.n == 5
        assert [task.proved for task in tasks] == [1, 1]
        await together.fence()
        assert log.closed == [1, 2, 3, 4, 5, 6]
        await together._take(tasks)  # type: ignore[arg-type]
        assert [task.proved for task in tasks] == [2, 2]

    asyncio.run(run())


def test_a_partition_that_was_taken_over_unnoticed_is_loaded_again_before_any_turn(log: Log, tmp_path: Path) -> None:
    async def run() -> None:
        together, tasks = turns(tmp_path), [Task(), Task(owned=False)]
        await together._take(tasks)  # type: ignore[arg-type]
        assert together.n == 0
        assert together._worker.appender is None
        assert [list(map(type, task.failed)) for task in tasks] == [[], [ProducerFenced]]

    asyncio.run(run())


def test_before_others_get_partitions_each_appends_by_itself(log: Log, tmp_path: Path) -> None:
    async def run() -> None:
        together, tasks = turns(tmp_path), [Task(), Task()]
        worker = together._worker

        async def rounds(n: int = 20) -> None:
            for _ in range(n):
                together.begin(tasks)  # type: ignore[arg-type]
                await asyncio.sleep(0)

        for task in tasks:
            task.n_waiting, task.steps_together = 1, False
        await rounds()
        assert log.n == 0  # nothing is to be appended
        tasks[1].appends = True
        await rounds()
        assert worker.appender is not None
        assert (log.n, together.n) == (1, 0)
        together.pause()
        await together.settle()
        await rounds()
        assert worker.appender is None
        assert log.closed == [1]
        together.paused = False
        await rounds()
        assert worker.appender is not None
        assert [task.proved for task in tasks] == [2, 2]

    asyncio.run(run())


def test_while_one_partition_can_write_no_checkpoint_others_write_one(log: Log, tmp_path: Path) -> None:
    async def run() -> None:
        together, tasks = turns(tmp_path), [Task(), Task(whole=False)]
        for _ in range(5):
            await together._take(tasks)  # type: ignore[arg-type]
        assert [task.proved for task in tasks] == [1, 5]
        tasks[1].whole = True
        await together._take(tasks)  # type: ignore[arg-type]
        assert (together.n, log.n) == (1, 1)
        together._worker.appender = None  # it was refused
        together._next = 7
        await together._take(tasks)  # type: ignore[arg-type]
        assert (log.n, log.closed, together._next) == (2, [1], -1)
        assert tasks[0].proved == 2

    asyncio.run(run())


def test_a_producer_that_cannot_be_had_is_asked_for_later(log: Log, tmp_path: Path) -> None:
    async def run() -> None:
        together, tasks = turns(tmp_path), [Task(), Task()]
        log.making = True  # another worker's
        await together._take(tasks)  # type: ignore[arg-type]
        assert not any(task.failed for task in tasks)
        log.making = False
        together.begin(tasks)  # type: ignore[arg-type]
        assert together._task is None
        assert log.n == 0
        together._again = 0.0
        together.begin(tasks)  # type: ignore[arg-type]
        await together._task
        assert together.n == 1

    asyncio.run(run())


def test_live_partitions_wait_neither_for_the_producer_nor_for_a_checkpoint(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        together, tasks = turns(tmp_path), [Task(), Task(whole=False)]
        worker = together._worker
        for task in tasks:
            task.n_waiting, task.steps_together, task.appends = 1, False, True

        async def rounds() -> None:
            for _ in range(20):
                together.begin(tasks)  # type: ignore[arg-type]
                assert not any(task.busy for task in tasks)
                await asyncio.sleep(0)

        await rounds()
        assert worker.appender is None
        assert [task.proved for task in tasks] == [1, 1]
        together._again = 0.0
        await rounds()
        assert [task.proved for task in tasks] == [1, 2]  # who has need not again
        tasks[1].whole, together._again = True, 0.0
        await rounds()
        assert worker.appender is not None
        worker.appender = None  # it was refused
        makes = log.producer

        async def cannot(*_: Any) -> int:
            log.n += 1
            raise OSError

        monkeypatch.setattr(module, "fenced_producer", cannot)
        await rounds()
        assert (log.n, log.closed) == (2, [1])  # tried once
        monkeypatch.setattr(module, "fenced_producer", makes)
        together._again = 0.0
        await rounds()
        assert worker.appender is not None
        assert [task.proved for task in tasks] == [2, 4]

    asyncio.run(run())


def test_no_turn_is_taken_while_a_partition_can_write_no_checkpoint(log: Log, tmp_path: Path) -> None:
    async def run() -> None:
        together, tasks = turns(tmp_path), [Task(), Task(whole=False)]
        await together._take(tasks)  # type: ignore[arg-type]
        tasks[1].whole = True
        assert together.n == 0
        await together._take(tasks)  # type: ignore[arg-type]
        assert together.n == 1
        assert log.n == 1

    asyncio.run(run())


class Broker:
    """Answers each batch as it is given."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def send_batch(self, *_: Any, **__: Any) -> "asyncio.Future[Any]":
        future = asyncio.get_running_loop().create_future()
        if isinstance(self.answer, Exception):
            future.set_exception(self.answer)
        else:
            future.set_result(self.answer)
        return future


class Batch:
    def record_count(self) -> int:
        return 3


def answered(folder: Path, answer: Any) -> Counted:
    """To three records of time 7 that are to stand at offset 5."""

    async def run() -> Counted:
        together = turns(folder)
        outputs = Outputs(Broker(answer), 0, {together._topic: 0})  # type: ignore[arg-type]
        await together._append(outputs, [Batch()], 5, 7)
        return together

    return asyncio.run(run())


def stands(offset: int, kind: int, stamp: int) -> RecordMetadata:
    return RecordMetadata("s.learned", 0, TopicPartition("s.learned", 0), offset, stamp, kind, 0)


def test_what_kafka_refuses_for_good_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(BrokerError, match=r"max\.message\.bytes"):
        answered(tmp_path, MessageSizeTooLargeError())


def test_records_of_a_repetition_stand_where_they_are_and_have_their_stamps(tmp_path: Path) -> None:
    """The client takes any stamp in the answer for one of the broker's own."""
    together = answered(tmp_path, stands(5, 1, 7))
    assert together._usable
    assert together._next == 8
    for other in (stands(6, 0, 7), stands(5, 1, 8), stands(-1, 1, 7)):
        with pytest.raises(KafkaError):
            answered(tmp_path, other)


@pytest.mark.parametrize("n", [1, 64])
@pytest.mark.parametrize("cost", [2**-20, 2**-15, 2**-10, 1.0])
def test_a_turn_has_as_many_records_as_its_time_allows(cost: float, n: int) -> None:
    size, sizes = TurnSize(n), list[int]()
    for _ in range(20):
        sizes.append(size.most)
        size.judge(size.most, cost * size.most)
    assert sizes[0] == LEAST
    few = min(FEW_EACH * n, int(LONGEST_SECONDS / cost))
    assert sizes[-1] == max(few, min(MOST, int(TURN_SECONDS / cost)))
    assert sizes[-1] * cost <= LONGEST_SECONDS
    size.judge(size.most, 10_000.0)  # the process was stopped
    assert size.most == sizes[-1] // 2
    size.judge(0, 1.0)
    assert size.most == sizes[-1] // 2


def test_turns_keep_up_where_partitions_cost_more_than_their_records() -> None:
    """On a machine that others use, a turn of 64 partitions has taken a second whatever was in it: it took less and
    less, and less than came."""
    size = TurnSize(64)
    for _ in range(20):
        size.judge(size.most, 1.0)
    assert size.most == 64 * FEW_EACH


@pytest.mark.parametrize("n", [1, 2, 4, 64])
def test_what_a_live_stream_has_waiting_for_a_moment_is_no_backlog(n: int, tmp_path: Path) -> None:
    together = JointTurns(
        engine_of(stream_file(tmp_path, "joint", learning="shared", partitions=n)[1], tmp_path).worker
    )
    together.paused = False
    waiting = max(LEAST, FEW_EACH * n)
    for more, taken in ((-1, False), (0, True)):
        tasks = [Task() for _ in range(n)]
        for task in tasks:
            task.n_waiting = 0
        tasks[-1].n_waiting = waiting + more
        assert together._can(tasks) is taken  # type: ignore[arg-type]


class Slow(Task):
    """Of a model that learns a thousand records a second."""

    def __init__(self) -> None:
        super().__init__()
        self.outputs = self.shared = self.replica = self
        self.asked = list[int]()

    async def done(self, *_: Any) -> int:
        return 1

    follows = punctuate = append = flush = sends = done

    def horizon(self, most: int) -> float:
        return 0.0

    def release_until(self, until: float, most: int) -> Any:
        self.asked.append(most)
        return SimpleNamespace(n=most)


def test_turns_of_a_slow_model_have_few_records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def run() -> list[int]:
        together, tasks, now = turns(tmp_path), [Slow(), Slow()], 0.0

        async def work(*_: Any) -> Any:
            nonlocal now
            now += sum(task.asked[-1] for task in tasks) / 1024
            return [SimpleNamespace(outcome=SimpleNamespace(ids=range(task.asked[-1]))) for task in tasks], []

        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now, time=lambda: now))
        monkeypatch.setattr(together._worker, "in_thread", work)
        monkeypatch.setattr(together, "_first", tasks[0].done)
        monkeypatch.setattr(together, "_append", tasks[0].done)
        for _ in range(3):
            await JointTurns._turn(together, tasks, None)  # type: ignore[arg-type]
        return tasks[1].asked

    assert asyncio.run(run()) == [LEAST // 2, 153, 153]
