"""While the broker is away: a start waits, a stop ends, and no error of the client's own tasks comes out."""

import asyncio
import types

import pytest
from aiokafka.errors import KafkaConnectionError, NodeNotReadyError, TopicAuthorizationFailedError

from app.kafka.reading import close
from app.worker import runner, transport
from tests.app.test_runner import runner_of, spec

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
    monkeypatch.setattr(runner, "LAST_CHECKPOINT_SECONDS", 0.01)
    waiting, closed = runner_of(spec), []

    async def close_outputs() -> None:
        closed.append(True)

    async def stop() -> bool:
        waiting.outputs.stop = close_outputs
        waiting._run = lambda: asyncio.sleep(60)
        waiting.start({})
        waiting._dirty = True  # a step was begun, and is not complete: this state must not be written
        await waiting.stop()
        return waiting._task.cancelled()

    assert asyncio.run(stop())
    assert closed == [True]
