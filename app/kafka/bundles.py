"""Small produce requests of several producers go to a broker together.

Each partition has a producer of its own, which can be fenced (app/kafka/sending.py), and sends a request for each small
batch. But an idempotent batch names its producer, its epoch and its number by itself, so one request may hold batches
of many producers, and the broker accepts or refuses each. Order stays as it is: a producer has no second batch of a
partition on its way before the first is answered.
"""

import asyncio
import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.produce import ProduceRequest

if TYPE_CHECKING:
    from riparian.app.kafka.connection import Producer

SMALL_BYTES = 16_384  # largest request that goes with others, bytes of its batches
MOST_BYTES = 1 << 20  # largest bundle, bytes of its batches


class WaitingRequest(NamedTuple):
    """A request, by what its own producer would send it, its partitions and bytes."""

    request: Any
    send: Any
    tps: set[tuple[str, int]]
    n_bytes: int
    answer: "asyncio.Future[Any]"


class Bundles:
    """What the producers of one worker send together, one request at a time to each broker."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[WaitingRequest]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def join(self, producer: "Producer") -> None:
        """Send a producer's small requests with those of others."""
        send = producer.client.send

        async def together(node_id: int, request: Any, **options: Any) -> Any:
            if not isinstance(request, ProduceRequest) or request._transactional_id is not None or options:
                return await send(node_id, request, **options)
            tps = {(topic, partition) for topic, batches in request._topics for partition, _ in batches}
            n_bytes = sum(len(batch) for _, batches in request._topics for _, batch in batches)
            if n_bytes > SMALL_BYTES:
                return await send(node_id, request)
            answer = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(node_id, []).append(WaitingRequest(request, send, tps, n_bytes, answer))
            if node_id not in self._tasks:
                self._tasks[node_id] = asyncio.create_task(self._run(node_id), name="bundles")
            return await answer

        producer.client.send = together

    async def _run(self, node_id: int) -> None:
        try:
            while waiting := self._waiting.pop(node_id, None):
                bundle, rest = _bundle(waiting)
                if rest:
                    self._waiting[node_id] = rest
                await _send(node_id, bundle)
        finally:
            del self._tasks[node_id]


def _bundle(waiting: list[WaitingRequest]) -> tuple[list[WaitingRequest], list[WaitingRequest]]:
    """What goes together, and what has to wait: a request names a partition once, and has a size."""
    bundle, rest = list[WaitingRequest](), list[WaitingRequest]()
    tps, n_bytes = set[tuple[str, int]](), 0
    for one in waiting:
        if one.answer.done():  # nobody waits for it any more
            continue
        if one.tps & tps or n_bytes > MOST_BYTES:
            rest.append(one)
            continue
        bundle.append(one)
        tps |= one.tps
        n_bytes += one.n_bytes
    return bundle, rest


async def _send(node_id: int, bundle: list[WaitingRequest]) -> None:
    """By the connection of the first; where that fails, each sends its own again. All get the one answer, in which each
    finds its own partitions."""
    if not bundle:
        return
    topics: dict[str, list[Any]] = {}
    for one in bundle:
        for topic, batches in one.request._topics:
            topics.setdefault(topic, []).extend(batches)
    first = bundle[0]
    asked = first.request
    request = ProduceRequest(None, asked.required_acks, asked._timeout, list(topics.items()))
    error: BaseException | None = None
    answer = None
    try:
        answer = await first.send(node_id, request)
    except asyncio.CancelledError:  # the first one's client was closed, or the worker ends
        error = KafkaConnectionError("the connection was closed")
        if asyncio.current_task().cancelling():  # type: ignore[union-attr]
            raise
    except Exception as failed:
        error = failed
    finally:
        for one in bundle:
            if one.answer.done():
                continue
            if answer is None:
                one.answer.set_exception(copy.copy(error) or KafkaConnectionError("the connection was closed"))
            else:
                one.answer.set_result(answer)
