"""The changelog topic of a stream's state, read and written by plain clients: no worker needs to run.

A checkpoint appends chunks, then the manifest, so every prefix of the log is a whole state. Not so what a reader sees
of a log whose front is cut off meanwhile: a chunk can be gone because a later record, past the reader's end, has taken
its place. `read_whole` therefore reads again when the state that it got is not whole and the log has grown.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import TopicAlreadyExistsError, for_code
from aiokafka.structs import TopicPartition

from app.errors import SpecError, StateError, TopicError
from app.kafka.admin import admin_client, check_state, stream_topics
from app.state import checkpoint
from app.state.log import StateLog
from app.state.soundness import Findings, examine
from app.stream_file.spec import Spec
from app.worker.outputs import Outputs, fenced_producer
from app.worker.reading import read_to_end
from topics.names import changelog_topic

ATTEMPTS = 8  # at reading a state that a worker is writing
PAUSE_SECONDS = 0.2
LEADER_SECONDS = 15.0

# Records stay until we delete them. Kafka frees the disk by whole segments, so these are small.
CONFIG = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "segment.bytes": str(16 * 1024 * 1024),
    "message.timestamp.type": "CreateTime",
}


class Changelog(NamedTuple):
    """A partition as it was read.

    items : the last value of every key, deleted ones left out. n_records, n_bytes : all that Kafka still keeps, bytes
    of keys and values (without Kafka's headers and its compression). end : the next offset.
    """

    items: dict[bytes, bytes]
    n_records: int
    n_bytes: int
    end: int


async def n_partitions(broker: str, topic: str) -> int:
    """Partitions of a topic, 0 where it is absent. All topics are asked for: naming one may create it."""
    admin = AIOKafkaAdminClient(bootstrap_servers=broker)
    await admin.start()
    try:
        found = [entry for entry in await admin.describe_topics() if entry["topic"] == topic]
    finally:
        await admin.close()
    return sum(len(entry["partitions"]) for entry in found)


async def bounds(broker: str, topic: str, partition: int) -> tuple[int, int]:
    """The first offset that is kept and the next one; (0, 0) where there is no such partition."""
    if partition >= await n_partitions(broker, topic):
        return 0, 0
    tp = TopicPartition(topic, partition)
    consumer = AIOKafkaConsumer(bootstrap_servers=broker, enable_auto_commit=False)
    await consumer.start()
    try:
        return (await consumer.beginning_offsets([tp]))[tp], (await consumer.end_offsets([tp]))[tp]
    finally:
        await consumer.stop()


async def read(broker: str, topic: str, partition: int) -> Changelog:
    """A partition to where it ends now. Empty where there is no such partition."""
    if partition >= await n_partitions(broker, topic):
        return Changelog({}, 0, 0, 0)
    items: dict[bytes, bytes] = {}
    sizes: list[int] = []

    def take(_: TopicPartition, records: list[Any]) -> None:
        for record in records:
            sizes.append(len(record.key or b"") + len(record.value or b""))
            if record.value is None:
                items.pop(record.key, None)
            else:
                items[record.key] = record.value

    tp = TopicPartition(topic, partition)
    bounds = await read_to_end(broker, {tp: 0}, take)
    return Changelog(items, len(sizes), sum(sizes), bounds[tp].end)


async def read_whole(broker: str, stream: str, partition: int) -> tuple[Changelog, Findings]:
    """The changelog of a stream's partition and what is in it; read again while it is not whole and grows."""
    topic = changelog_topic(stream)
    attempt = 0
    while True:
        attempt += 1
        log = await read(broker, topic, partition)
        findings = examine(log.items, stream, partition)
        if findings.sound and (findings.manifest is not None or log.end == 0):
            return log, findings
        await asyncio.sleep(PAUSE_SECONDS)
        if attempt == ATTEMPTS or (await bounds(broker, topic, partition))[1] == log.end:
            return log, findings


async def write(spec: Spec, broker: str, partition: int, chunks: Mapping[bytes, bytes], manifest: bytes) -> None:
    """Make a partition's state what is given, in the order of a checkpoint: chunks, then the manifest.

    Parameters
    ----------
    chunks : mapping of digest to stored bytes
        All that the manifest and its past need; those that are live already are not written again.
    manifest : bytes
        As encoded.
    """
    topic = changelog_topic(spec.name)
    await ensure_changelog(spec, broker)
    # A worker that runs in spite of everything loses the partition, and loads what is written here.
    producer = await fenced_producer(broker, spec.name, [TopicPartition(topic, partition)])
    outputs = Outputs(producer, partition, {topic: 0})
    try:
        log = StateLog(partition)
        tp = TopicPartition(topic, partition)
        await read_to_end(broker, {tp: 0}, log.take)
        try:
            needed = log.needed()
        except StateError:  # a damaged state is what this may be there to replace
            needed = {}
        new = {d: chunk for d, chunk in chunks.items() if d not in needed or log.chunks.get(d) != chunk}
        await outputs.write(topic, [(checkpoint.chunk_key(partition, d), chunk) for d, chunk in new.items()])
        await outputs.write(topic, [(checkpoint.manifest_key(partition), manifest)])
    finally:
        await outputs.stop()


async def ensure_changelog(spec: Spec, broker: str) -> None:
    """Create the changelog where it is missing, and have Kafka leave its cleaning to us (app.state.log).

    Raises
    ------
    TopicError
        It has other partitions than the stream file says, or Kafka refuses to create it.
    """
    topic = changelog_topic(spec.name)
    async with admin_client(broker) as admin:
        found = [entry for entry in await admin.describe_topics() if entry["topic"] == topic]
        if not found:
            wanted = NewTopic(topic, spec.partitions, spec.replication, topic_configs=CONFIG)
            answer = await admin.create_topics([wanted])
            for _, code, *_ in answer.topic_errors:
                if code and for_code(code) is not TopicAlreadyExistsError:
                    raise TopicError(
                        f"Kafka refuses to create the topic {topic} ({for_code(code).__name__}): change partitions or "
                        "replication in the stream file"
                    )
        else:
            await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, CONFIG)])
        async with asyncio.timeout(LEADER_SECONDS):
            while not (found and found[0]["partitions"] and all(p["leader"] >= 0 for p in found[0]["partitions"])):
                await asyncio.sleep(0.05)
                found = [entry for entry in await admin.describe_topics() if entry["topic"] == topic]
    check_state(spec, stream_topics(spec), {}, len(found[0]["partitions"]))


def check_partition(spec: Spec, partition: int) -> None:
    """SpecError unless the stream has this partition."""
    if not 0 <= partition < spec.partitions:
        raise SpecError(
            f"--partition is {partition}, and the stream {spec.name} has {spec.partitions}: give 0"
            + (f" to {spec.partitions - 1}" if spec.partitions > 1 else "")
        )


def no_state(spec: Spec, partition: int) -> StateError:
    """The error of a partition without a checkpoint."""
    return StateError(
        f"stream {spec.name} has no state in partition {partition} yet: start a worker, and wait for its first "
        f"checkpoint (checkpoint.every is {spec.checkpoint.every:g} s)"
    )
