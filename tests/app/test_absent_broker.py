"""While the broker is away: a start waits, a stop ends, and no error of the client's own tasks comes out."""

import asyncio
import socket
import types
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError, NodeNotReadyError, TopicAuthorizationFailedError

from riparian.app.kafka.access import refusal
from riparian.app.kafka.reading import close
from riparian.app.worker.faust_client import transport
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
        self._client = Client()

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
