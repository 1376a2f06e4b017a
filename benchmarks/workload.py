"""The records of the benchmark: labelled instances as JSON, published in big produce batches, in good time order.

An instance has an id, ten numbers in [0, 1) of six digits, and one of two classes: a concept on three of the numbers
that a tree has to find, with 5 % of the labels turned round. The features are stamped 1 ms apart; a label is stamped
`LABEL_DELAY_MS` after its features, so that about as many instances wait for their label at any moment. Instance i goes
to partition i modulo their number. Same seed, same bytes.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import yaml
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from riparian.app.stream_file.spec import Spec, load

NAMES = tuple(f"f{j}" for j in range(10))
CLASSES = ("no", "yes")
NOISE = 0.05
LABEL_DELAY_MS = 1000
STEP_MS = 1
BATCH_RECORDS = 2000
MAX_BATCH_BYTES = 900_000
MAX_OUTSTANDING = 8

_X: Any = msgspec.defstruct("X", [(name, float) for name in NAMES], gc=False)


class _Features(msgspec.Struct, gc=False):
    id: str
    x: Any


class _Label(msgspec.Struct, gc=False):
    id: str
    y: str


class Instances(NamedTuple):
    """Records of consecutive instances. keys : the ids as bytes."""

    keys: list[bytes]
    features: list[bytes]
    labels: list[bytes]


def rows(first: int, n: int, seed: int = 0) -> tuple[Any, Any]:
    """The numbers of instances `first` to `first + n`, and of each its place in CLASSES."""
    rng = np.random.default_rng([seed, first])
    x = rng.random((n, len(NAMES))).round(6)
    return x, (x[:, 0] > 0.5) ^ ((x[:, 1] > 0.3) & (x[:, 2] > 0.6)) ^ (rng.random(n) < NOISE)


def instances(first: int, n: int, seed: int = 0) -> Instances:
    """Instances `first` to `first + n`."""
    x, y = rows(first, n, seed)
    ids = [f"{i:08d}" for i in range(first, first + n)]
    encode = msgspec.json.Encoder().encode
    features = list(map(encode, map(_Features, ids, map(_X, *x.T.tolist()))))
    labels = list(map(encode, map(_Label, ids, map(CLASSES.__getitem__, y.astype(int).tolist()))))
    return Instances(list(map(str.encode, ids)), features, labels)


def stream_file(
    folder: Path, name: str, partitions: int, topics: Mapping[str, str | None] | None = None, **fields: Any
) -> tuple[Path, Spec]:
    """Write the stream file of a worker: a Hoeffding tree, models of its own in each partition, everything that
    `fields` do not say at its default."""
    path = folder / f"{name}.yaml"
    content = {
        "name": name,
        "task": "classification",
        "partitions": partitions,
        "learning": "partition",
        "topics": dict(topics or {}),
        "features": dict.fromkeys(NAMES, "numeric"),
        "champion": "hoeffding-tree",
        **fields,
    }
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path, load(path)


@contextlib.asynccontextmanager
async def admin(broker: str) -> AsyncIterator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(bootstrap_servers=broker)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


async def create(broker: str, topics: Sequence[str], partitions: int, configs: dict[str, str] | None = None) -> None:
    """Make topics that keep their records whatever their stamps."""
    configs = {"retention.ms": "-1", **(configs or {})}
    async with admin(broker) as client:
        answer = await client.create_topics(
            [NewTopic(topic, partitions, 1, topic_configs=configs) for topic in topics], timeout_ms=10_000
        )
        for topic, code, *detail in answer.topic_errors:
            if code:
                raise RuntimeError(f"Kafka did not create {topic}: {detail}")
        while True:  # a topic is known a moment after it is made
            found = {t["topic"]: t for t in await client.describe_topics() if t["topic"] in topics}
            if all(
                name in found
                and len(found[name]["partitions"]) == partitions
                and all(part["leader"] >= 0 for part in found[name]["partitions"])
                for name in topics
            ):
                return
            await asyncio.sleep(0.05)


async def delete(broker: str, prefix: str) -> None:
    """Delete all topics whose name begins with `prefix`, so that the disk is bounded."""
    async with admin(broker) as client:
        mine = [t["topic"] for t in await client.describe_topics() if t["topic"].startswith(prefix)]
        if mine:
            await client.delete_topics(mine, timeout_ms=10_000)


@contextlib.asynccontextmanager
async def producing(broker: str, **options: Any) -> AsyncIterator[AIOKafkaProducer]:
    producer = AIOKafkaProducer(bootstrap_servers=broker, enable_idempotence=True, acks="all", **options)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


def _parts(first: int, n: int, partitions: int) -> Iterator[tuple[int, slice]]:
    """Partition and slice of a chunk's instances."""
    for p in range(partitions):
        start = (p - first) % partitions
        if start < n:
            yield p, slice(start, n, partitions)


class Backlog:
    """Publishes consecutive instances to the two topics, all in their own time.

    Parameters
    ----------
    broker, features, labels : str
        The topics must exist.
    partitions : int
    start : int
        Stamp (ms) of the first instance.
    batch_records : int
        Records in a produce batch.
    """

    def __init__(
        self, broker: str, features: str, labels: str, partitions: int, start: int, batch_records: int = BATCH_RECORDS
    ) -> None:
        self.broker, self.topics, self.partitions, self.start = broker, (features, labels), partitions, start
        self.batch_records = batch_records
        self.n = 0
        self.n_bytes = 0
        self._outstanding: deque[asyncio.Future[Any]] = deque()

    async def publish(self, n: int, advance: Callable[[int], None]) -> None:
        """The next n instances; returns when the broker has them. `advance` is told how many went out."""
        async with producing(
            self.broker, max_batch_size=MAX_BATCH_BYTES, max_request_size=4 * MAX_BATCH_BYTES
        ) as producer:
            stop = self.n + n
            while self.n < stop:
                size = min(self.batch_records * self.partitions, stop - self.n)
                chunk = instances(self.n, size)
                stamps = range(self.start + self.n * STEP_MS, self.start + (self.n + size) * STEP_MS, STEP_MS)
                for p, rows in _parts(self.n, size, self.partitions):
                    await self._post(producer, 0, p, chunk.keys[rows], chunk.features[rows], stamps[rows], 0)
                    await self._post(producer, 1, p, chunk.keys[rows], chunk.labels[rows], stamps[rows], LABEL_DELAY_MS)
                self.n += size
                advance(size)
            while self._outstanding:
                await self._outstanding.popleft()

    async def _post(
        self,
        producer: AIOKafkaProducer,
        topic: int,
        partition: int,
        keys: list[bytes],
        values: list[bytes],
        stamps: range,
        delay: int,
    ) -> None:
        batch = producer.create_batch()
        for key, value, stamp in zip(keys, values, stamps, strict=True):
            if batch.append(key=key, value=value, timestamp=stamp + delay) is None:
                raise RuntimeError(f"{self.batch_records} records do not fit into a batch: use fewer")
        self.n_bytes += batch.size()
        if len(self._outstanding) >= MAX_OUTSTANDING:
            await self._outstanding.popleft()
        self._outstanding.append(await producer.send_batch(batch, self.topics[topic], partition=partition))


def past(n: int) -> int:
    """A stamp (ms) for the first of n instances, so that the last label is stamped about now."""
    return int(time.time() * 1000) - n * STEP_MS - LABEL_DELAY_MS
