"""Turns of all partitions without a broker: who may take them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import ProducerFenced

from riparian.app.worker.shared import joint_turns as module
from riparian.app.worker.shared.joint_turns import JointTurns
from tests.broker.harness import engine_of, stream_file


class Log:
    """Gives producers; only one is made at a time, and each ends those before."""

    def __init__(self) -> None:
        self.n, self.making = 0, False
        self.closed: list[Any] = []

    async def producer(self, *_: Any) -> int:
        if self.making:
            raise ProducerFenced
        self.making = True
        for _i in range(5):
            await asyncio.sleep(0)
        self.making, self.n = False, self.n + 1
        return self.n

    async def close(self, producer: Any) -> None:
        self.closed.append(producer)


class Task:
    busy, n_waiting, steps_together, running = False, 1000, True, True

    def __init__(self, owned: bool = True, whole: bool = True) -> None:
        self.owned, self.whole, self.proved = owned, whole, 0
        self.failed: list[BaseException] = []

    def leave_to(self, turn: Any) -> None: ...
    def go_on(self, more: bool) -> None: ...

    async def prove(self) -> bool:
        if not self.owned:
            raise ProducerFenced
        self.proved += 1
        return self.whole

    async def fails(self, error: BaseException) -> None:
        self.failed.append(error)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    log = Log()
    monkeypatch.setattr(module, "fenced_producer", log.producer)
    monkeypatch.setattr(module, "close", log.close)
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
    return Counted(worker)


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
        assert [type(error) for task in tasks for error in task.failed] == [ProducerFenced, ProducerFenced]

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
