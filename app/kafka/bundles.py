"""What the producers of a worker send, in one pass for all, and small batches of several to a broker as one request.

Each partition has a producer of its own, which can be fenced (app/kafka/sending.py). The client gives each a routine
that waits for batches, and a task for each request: with many partitions these cost more than what they send. Here one
pass drains all producers that have something. An idempotent batch names its producer, its epoch and its number by
itself, so one request may hold batches of many producers, and the broker accepts or refuses each. What is queued,
numbered, tried again and told of errors is left to the client's own classes. Order stays as it is: a producer has no
second batch of a partition on its way before the first is answered.
"""

import asyncio
import copy
import itertools
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from aiokafka.errors import KafkaConnectionError, KafkaError
from aiokafka.producer.sender import SendProduceReqHandler
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.structs import TopicPartition

if TYPE_CHECKING:
    from riparian.app.kafka.connection import Producer

log = logging.getLogger(SendProduceReqHandler.__module__)  # of whose lines a worker leaves out what is said again

SMALL_BYTES = 16_384  # largest request that goes with others, bytes of its batches
MOST_BYTES = 1 << 20  # largest bundle, bytes of its batches


class OwnRequest(NamedTuple):
    """What one producer has for a broker: a batch of each partition. Their bytes, once they are numbered."""

    of: "JoinedProducer"
    batches: dict[TopicPartition, Any]
    n_bytes: int


class Answer(NamedTuple):
    """The part of a broker's answer that is about one request: what the client looks at."""

    API_VERSION: int
    topics: list[tuple[str, list[Any]]]


class JoinedProducer:
    """A producer whose batches are sent by `Bundles`; its `task` stands for the client's own routine."""

    def __init__(self, bundles: "Bundles", producer: "Producer") -> None:
        self.client, self.sender, self.waiting = producer.client, producer._sender, producer._message_accumulator
        self.later = set[asyncio.Task[None]]()  # what waits to be tried again
        self.unled = False  # whether it is looked for the leader of a partition
        self.task = asyncio.create_task(self._until_closed(bundles), name="producer")

    async def _until_closed(self, bundles: "Bundles") -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            bundles._ready.pop(self, None)
            for task in self.later:
                task.cancel()

    def drain(self) -> tuple[list[tuple[int, OwnRequest]], bool]:
        """The next batch of each partition that has none on its way, by broker. And whether one has no leader.

        Nothing of a producer that was given up, or is by what happens here. All that it has queued learns of that: the
        client's `add_batch` may queue one afterwards.
        """
        if (ended := self.waiting._exception) is not None:
            self.waiting.fail_all(ended)
            return [], False
        queued = [batch for batches in self.waiting._batches.values() for batch in batches]
        try:
            return self._taken()
        except Exception as unexpected:
            self.give_up(unexpected)
            for batch in queued:  # one may be taken, and not yet among those on their way
                batch.failure(self.waiting._exception)
            return [], False

    def _taken(self) -> tuple[list[tuple[int, OwnRequest]], bool]:
        found, unled = self.waiting.drain_by_nodes(self.sender._in_flight, self.sender._muted_partitions)
        requests = []
        for node_id, batches in found.items():
            self.sender._in_flight.add(node_id)
            self.sender._muted_partitions.update(batches)
            n_bytes = sum(len(batch.get_data_buffer()) for batch in batches.values())
            requests.append((node_id, OwnRequest(self, batches, n_bytes)))
        return requests, unled

    def end(self, node_id: int, request: OwnRequest) -> None:
        """Nothing of it is on its way any more."""
        self.sender._in_flight.discard(node_id)
        self.sender._muted_partitions.difference_update(request.batches)

    def give_up(self, error: BaseException) -> None:
        """No producer can go on behind what nobody expects: a batch may be with the broker, or not."""
        log.error("Unexpected error while sending", exc_info=error)
        self.waiting.fail_all(KafkaError("Unexpected error during batch delivery"))


class Bundles:
    """What the producers of one worker send together: to each broker, what comes while the last was on its way."""

    def __init__(self) -> None:
        self._ready: dict[JoinedProducer, None] = {}
        self._drains = False
        self._waiting: dict[int, list[OwnRequest]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}  # broker -> what sends small requests to it
        self._large = set[asyncio.Task[None]]()

    async def join(self, producer: "Producer") -> None:
        """Send what a producer is given from now on. It has been fenced, and is in no transaction."""
        sender, waiting = producer._sender, producer._message_accumulator
        if (own := sender._sender_task) is not None:
            own.cancel()
            await asyncio.wait([own])
        joined = JoinedProducer(self, producer)
        sender._sender_task = joined.task
        append = waiting._append_batch

        def appended(builder: Any, tp: TopicPartition) -> Any:
            batch = append(builder, tp)
            self._wake(joined)
            return batch

        waiting._append_batch = appended
        cluster = producer.client.cluster
        # A copy of all partitions is made at each send otherwise, to see that one is among them.
        cluster.partitions_for_topic = lambda topic: cluster._partitions.get(topic)

    def _wake(self, joined: JoinedProducer) -> None:
        if joined.task.done():
            return
        self._ready[joined] = None
        if not self._drains:
            self._drains = True
            asyncio.get_running_loop().call_soon(self._drain)

    def _drain(self) -> None:
        """Take what all producers have that nothing holds up."""
        self._drains = False
        ready, self._ready = self._ready, {}
        for joined in ready:
            requests, unled = joined.drain()
            for node_id, request in requests:
                if request.n_bytes > SMALL_BYTES:
                    task = asyncio.create_task(self._send(node_id, [request]), name="large")
                    self._large.add(task)
                    task.add_done_callback(self._large.discard)
                    continue
                self._waiting.setdefault(node_id, []).append(request)
                if node_id not in self._tasks:
                    self._tasks[node_id] = asyncio.create_task(self._run(node_id), name="bundles")
            if unled and not joined.unled:
                joined.unled = True
                self._soon(joined, self._find_leader(joined))

    async def _run(self, node_id: int) -> None:
        try:
            while waiting := self._waiting.pop(node_id, None):
                await asyncio.gather(*(self._send(node_id, bundle) for bundle in _bundles(waiting)))
        finally:
            del self._tasks[node_id]

    async def _send(self, node_id: int, bundle: list[OwnRequest]) -> None:
        """By the connection of the first; where that fails, each sends its own again. Each gets its part of the answer:
        the client goes through all of it."""
        answer: Any = None
        error: BaseException = KafkaConnectionError("the connection was closed")
        try:
            answer = await bundle[0].of.client.send(node_id, _one(bundle))
        except asyncio.CancelledError:  # the first one's client was closed, or the worker ends
            if asyncio.current_task().cancelling():  # type: ignore[union-attr]
                raise
        except Exception as failed:
            error = failed
        told = {} if answer is None else {(topic, one[0]): one for topic, all in answer.topics for one in all}
        for request in bundle:
            handler = SendProduceReqHandler(request.of.sender, request.batches)
            try:
                if answer is None:
                    _failed(handler, copy.copy(error))
                else:
                    about = [(tp.topic, [told[tp]]) for tp in request.batches if tp in told]
                    handler.handle_response(Answer(answer.API_VERSION, about))
            except Exception as unexpected:
                request.of.give_up(unexpected)
                continue
            if handler._to_reenqueue:
                self._soon(request.of, self._again(node_id, request, handler._to_reenqueue))
            else:
                self._ended(node_id, request)

    def _ended(self, node_id: int, request: OwnRequest) -> None:
        request.of.end(node_id, request)
        if request.of.waiting._batches:
            self._wake(request.of)

    def _soon(self, joined: JoinedProducer, coroutine: Any) -> None:
        task = asyncio.create_task(coroutine, name="again")
        joined.later.add(task)
        task.add_done_callback(joined.later.discard)

    async def _again(self, node_id: int, request: OwnRequest, batches: list[Any]) -> None:
        """Put batches first in their queues, after a moment, once it is known where to send them."""
        joined = request.of
        try:
            await asyncio.sleep(joined.sender._retry_backoff)
            for batch in batches:
                if not batch.future.done():  # the producer was given up meanwhile
                    joined.waiting.reenqueue(batch)
            await joined.client._maybe_wait_metadata()
        finally:
            self._ended(node_id, request)

    async def _find_leader(self, joined: JoinedProducer) -> None:
        """Of partitions that have none, as far as the client knows."""
        try:
            await joined.client.force_metadata_update()
        finally:
            joined.unled = False
            self._wake(joined)


def _bundles(waiting: list[OwnRequest]) -> list[list[OwnRequest]]:
    """What goes together: a request names a partition once, and has a size. All go at once, each by a connection of
    its own. Where all partitions append to one log, a queue of their requests would hold up what stands in them
    besides."""
    left = [one for one in waiting if not one.of.task.done()]  # nobody waits for the others any more
    found = list[list[OwnRequest]]()
    while left:
        bundle, rest, tps, n_bytes = list[OwnRequest](), list[OwnRequest](), set[TopicPartition](), 0
        for one in left:
            fits = tps.isdisjoint(one.batches) and n_bytes <= MOST_BYTES
            (bundle if fits else rest).append(one)
            if fits:
                tps.update(one.batches)
                n_bytes += one.n_bytes
        found.append(bundle)
        left = rest
    return found


def _one(bundle: list[OwnRequest]) -> ProduceRequest:
    """The request that holds the batches of all."""
    topics: dict[str, list[Any]] = {}
    for tp, batch in itertools.chain.from_iterable(one.batches.items() for one in bundle):
        topics.setdefault(tp.topic, []).append((tp.partition, batch.get_data_buffer()))
    sender = bundle[0].of.sender
    return ProduceRequest(None, sender._acks, sender._request_timeout_ms, list(topics.items()))


def _failed(handler: Any, error: BaseException) -> None:
    """A request has: as the client's own handler takes it."""
    if not isinstance(error, KafkaError):
        raise error
    log.warning("Got error produce response: %s", error)
    if getattr(error, "invalid_metadata", False):
        handler._client.force_metadata_update()
    for batch in handler._batches.values():
        if handler._can_retry(error, batch):
            handler._to_reenqueue.append(batch)
        else:
            batch.failure(exception=error)
