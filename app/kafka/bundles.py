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


class Answer(NamedTuple):
    """The part of a broker's answer that is about one request: what the client looks at."""

    API_VERSION: int
    topics: list[tuple[str, list[Any]]]


class Bundles:
    """What the producers of one worker send together: to each broker, what comes while the last was on its way."""

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
                await asyncio.gather(*(_send(node_id, bundle) for bundle in _bundles(waiting)))
        finally:
            del self._tasks[node_id]


def _bundles(waiting: list[WaitingRequest]) -> list[list[WaitingRequest]]:
    """What goes together: a request names a partition once, and has a size. All go at once, each by a connection of
    its own. Where all partitions append to one log, a queue of their requests would hold up what stands in them
    besides."""
    left = [one for one in waiting if not one.answer.done()]  # nobody waits for the others any more
    found = list[list[WaitingRequest]]()
    while left:
        bundle, rest, tps, n_bytes = list[WaitingRequest](), list[WaitingRequest](), set[tuple[str, int]](), 0
        for one in left:
            fits = not one.tps & tps and n_bytes <= MOST_BYTES
            (bundle if fits else rest).append(one)
            if fits:
                tps |= one.tps
                n_bytes += one.n_bytes
        found.append(bundle)
        left = rest
    return found


async def _send(node_id: int, bundle: list[WaitingRequest]) -> None:
    """By the connection of the first; where that fails, each sends its own again. Each gets its part of the answer: the
    client goes through all of it."""
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
        found = {} if answer is None else {(topic, about[0]): about for topic, all in answer.topics for about in all}
        for one in bundle:
            if one.answer.done():
                continue
            if answer is None:
                one.answer.set_exception(copy.copy(error) or KafkaConnectionError("the connection was closed"))
            else:
                own = [
                    (topic, [found[topic, partition]]) for topic, partition in one.tps if (topic, partition) in found
                ]
                one.answer.set_result(Answer(answer.API_VERSION, own))
