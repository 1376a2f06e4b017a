"""While the broker is away: a start waits, a stop ends, and no error of the client's own tasks comes out."""

import asyncio
import socket
import types
from typing import Any

import faust
import pytest
from aiokafka.errors import KafkaConnectionError, KafkaError, NodeNotReadyError, TopicAuthorizationFailedError
from aiokafka.structs import TopicPartition

from riparian.app.kafka import reading
from riparian.app.kafka.access import refusal
from riparian.app.kafka.reading import close, read_to_end
from riparian.app.stream_file.spec import build
from riparian.app.worker.faust_client import transport
from riparian.app.worker.faust_client.input_logs import InputLogs
from riparian.app.worker.shared import training_log
from riparian.app.worker.shared.training_log import Commands
from riparian.app.worker.states import States
from riparian.app.worker.task import partition_task
from tests.app.test_partition_task import runner_of, spec

__all__ = ["spec"]


def start(*answers: BaseException | None, should_stop: bool = False) -> int:
    """How often `when_there` asked, of a broker that gives these answers."""
    left = list(answers)

    async def action() -> None:
        answer = left.pop(0)
        if answer is not None:
            raise answer

    service = types.SimpleNamespace(should_stop=should_stop, label="it")
    asyncio.run(transport.when_there(service, action))
    return len(answers) - len(left)


def test_a_start_waits_for_the_broker_and_for_nothing_else(monkeypatch):
    monkeypatch.setattr(transport, "START_PAUSE_SECONDS", 0.0)
    assert start(NodeNotReadyError(), KafkaConnectionError(), OSError(), None) == 4
    assert start(None, should_stop=True) == 0
    with pytest.raises(TopicAuthorizationFailedError):
        start(TopicAuthorizationFailedError())


class Client:
    """Of a consumer or a producer."""

    def __init__(self) -> None:
        self.closed = False

    async def close(self) -> None:
        self.closed = True


class Consumer:
    """Lets the cancellation of a task of its own out, as aiokafka's does while a fetch waits for its next attempt."""

    def __init__(self) -> None:
        self._client, self._fetcher = Client(), Client()
        self._coordinator: Any = None  # without a group

    async def stop(self) -> None:
        fetch = asyncio.ensure_future(asyncio.sleep(60))
        await asyncio.sleep(0)
        fetch.cancel()
        await fetch


def test_closing_a_consumer_does_not_end_the_task_that_does_it():
    consumer = Consumer()
    asyncio.run(close(consumer))
    assert consumer._client.closed


def test_closing_a_consumer_lets_our_own_cancellation_through():
    class Slow(Consumer):
        async def stop(self) -> None:
            await asyncio.sleep(60)

    async def cancelled() -> bool:
        task = asyncio.create_task(close(Slow()))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(cancelled())


def test_a_consumer_is_closed_although_a_silent_broker_does_not_let_it_leave_its_group(monkeypatch):
    """A heartbeat that went on would keep its partitions from others for ever."""
    monkeypatch.setattr(reading, "CLOSE_SECONDS", 0.01)

    class Silent(Consumer):
        async def stop(self) -> None:
            await asyncio.Event().wait()

    ended = []

    async def stop_heartbeat() -> None:
        ended.append(True)

    consumer = Silent()
    consumer._coordinator = types.SimpleNamespace(_stop_heartbeat_task=stop_heartbeat)
    asyncio.run(close(consumer))
    assert ended == [True]
    assert consumer._fetcher.closed
    assert consumer._client.closed


class Reading(Consumer):
    """Of a log that is made anew, and shorter, while it is read from its beginning."""

    def __init__(self, *ends: int) -> None:
        super().__init__()
        self._ends = list(ends)

    async def start(self) -> None: ...
    def assign(self, _: Any) -> None: ...
    def seek(self, *_: Any) -> None: ...

    async def end_offsets(self, tps: Any) -> Any:
        return dict.fromkeys(tps, self._ends.pop(0))

    async def beginning_offsets(self, tps: Any) -> Any:
        return dict.fromkeys(tps, 0)

    async def getmany(self, *_: Any, **__: Any) -> Any:
        await asyncio.sleep(0)
        return {}

    async def position(self, _: Any) -> int:
        return 0


def test_nobody_waits_for_records_of_a_log_that_was_made_anew():
    connection: Any = types.SimpleNamespace(consumer=lambda **_: Reading(10, 10, 3))
    starts = {TopicPartition("log", 0): 0}
    with pytest.raises(KafkaError, match=r"log\[0\] ends at 3, and ended at 10"):
        asyncio.run(asyncio.wait_for(read_to_end(connection, starts, print), 10))


def test_what_the_client_cancels_is_asked_again_and_what_we_cancel_ends(monkeypatch):
    monkeypatch.setattr(training_log, "RETRY_SECONDS", 0.0)
    begun = asyncio.Queue[None]()

    class Cancelling(Reading):
        async def getmany(self, *_: Any, **__: Any) -> Any:
            begun.put_nowait(None)
            raise asyncio.CancelledError

    async def feed() -> bool:
        connection: Any = types.SimpleNamespace(consumer=lambda **_: Cancelling())
        feed = training_log.Feed(connection, "log", Commands(0), print, pytest.fail)
        feed.start()
        for _ in range(3):
            await begun.get()
        await asyncio.wait_for(feed.stop(), 10)
        return feed._task is not None and feed._task.cancelled()

    assert asyncio.run(feed())


def test_a_runner_that_waits_for_the_broker_can_be_stopped(monkeypatch, spec):
    monkeypatch.setattr(partition_task, "LAST_CHECKPOINT_SECONDS", 0.01)
    waiting, closed = runner_of(spec), []

    async def close_outputs() -> None:
        closed.append(True)

    async def stop() -> bool:
        waiting.outputs.stop = close_outputs
        waiting.start({})
        waiting.begin([waiting], lambda _: asyncio.sleep(60))
        await asyncio.sleep(0)
        waiting.checkpoints.dirty = True  # a step was begun, and is not complete: this state must not be written
        await waiting.stop()
        return waiting._turns.cancelled()

    assert asyncio.run(stop())
    assert closed == [True]


class Advertising:
    """A connection to a broker that answers, and names these addresses for the cluster."""

    settings = None

    def __init__(self, *named: tuple[str, int]) -> None:
        self.addresses = [("127.0.0.1", 9092)]
        self._named = named

    async def open(self, *_: Any, **__: Any) -> Any:
        async def send(_: Any) -> Any:
            return types.SimpleNamespace(brokers=[(i, host, port, None) for i, (host, port) in enumerate(self._named)])

        return types.SimpleNamespace(send=send, close=lambda: None)


def test_an_address_that_a_broker_advertises_and_nobody_reaches_is_named_with_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def lets_us_in(*_: Any) -> None: ...

    monkeypatch.setattr(refusal, "_refusal", lets_us_in)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        there = listening.getsockname()[:2]
        closed = ("127.0.0.1", 1)
        said = asyncio.run(refusal.refusal(Advertising(("kafka.invalid", 9092), closed)))  # type: ignore[arg-type]
        assert said is not None
        assert said.startswith("Kafka at 127.0.0.1:9092 answers, and has its clients call kafka.invalid:9092 (the name")
        assert "and 127.0.0.1:1 (nothing listens there), which cannot be reached from here" in said
        for named in ((closed, there), ()):
            assert asyncio.run(refusal.refusal(Advertising(*named))) is None  # type: ignore[arg-type]


def test_a_client_that_several_want_at_once_is_made_once():
    """One that could not be started is ended, and whoever asks next makes another."""
    made: list[Any] = []
    ended: list[Any] = []

    class Once:
        async def start(self) -> None:
            made.append(self)
            await asyncio.sleep(0)
            if len(made) == 1:
                raise KafkaConnectionError

        async def close(self) -> None:
            ended.append(self)

        async def delete_records(self, _: Any) -> None: ...

    connection: Any = types.SimpleNamespace(consumer=lambda **_: Once(), admin=Once)
    stream = build({"name": "s", "task": "classification", "features": {"a": "numeric"}})
    app = faust.App("s", broker="kafka://127.0.0.1:1")

    async def wanted() -> None:
        inputs, states = InputLogs(app, stream, connection), States(app, stream, connection)
        done = await asyncio.gather(*(states.delete_before(partition, 7) for partition in range(3)))
        assert done == [False, True, True]
        assert {await one for one in [asyncio.ensure_future(inputs.asker.connected()) for _ in range(3)]} == {made[2]}
        await states._admin.stop()

    asyncio.run(wanted())
    assert len(made) == 3
    assert ended == made[:2]
