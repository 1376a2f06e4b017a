"""The changelog topic of a stream's state, read and written by plain clients: no worker needs to run.

A checkpoint appends chunks, then the manifest, so every prefix of the log holds a complete state. But if the front of
the log is deleted while a reader reads, the state that it gets may be incomplete: a chunk can be missing because it was
appended again, beyond the reader's end. Therefore `read_whole` reads again when the state is incomplete and the log has
grown.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code
from aiokafka.structs import TopicPartition

from riparian.app.errors import SpecError, StateError, TopicError
from riparian.app.kafka.admin import (
    admin_client,
    create_topics,
    described,
    led_partitions,
    partition_counts,
)
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import EVERYTHING, bounds_of, read_to_end
from riparian.app.kafka.sending import Outputs, fenced_producer
from riparian.app.kafka.topics.creating import CHANGELOG, not_ours
from riparian.app.state import checkpoint
from riparian.app.state.integrity import Findings, examine
from riparian.app.state.log import StateLog
from riparian.app.stream_file.spec import Spec
from riparian.topics.names import changelog_topic

OF_TOPIC = 1  # the source of a setting that was made for this topic
ATTEMPTS = 8  # attempts at reading a state that a worker is writing
PAUSE_SECONDS = 0.2

DELETES = {"cleanup.policy", "retention.ms", "retention.bytes"}  # of these, what makes Kafka delete records by itself


class Changelog(NamedTuple):
    """A partition as it was read.

    items : the last value of every key, deleted ones left out
    n_records, n_bytes : all that Kafka still keeps, bytes of keys and values (without Kafka's headers and its
        compression)
    end : the next offset
    """

    items: dict[bytes, bytes]
    n_records: int
    n_bytes: int
    end: int


async def n_partitions(connection: Connection, topic: str) -> int:
    """Partitions of a topic, 0 where it is absent."""
    async with admin_client(connection) as client:
        return (await partition_counts(client, [topic])).get(topic, 0)


async def bounds(connection: Connection, topic: str, partition: int) -> tuple[int, int]:
    """The first offset that is kept and the next one; (0, 0) where there is no such partition."""
    if partition >= await n_partitions(connection, topic):
        return 0, 0
    tp = TopicPartition(topic, partition)
    return (await bounds_of(connection, [tp], EVERYTHING))[tp]


async def read(connection: Connection, topic: str, partition: int) -> Changelog:
    """A partition to where it ends now. Empty where there is no such partition."""
    if partition >= await n_partitions(connection, topic):
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
    bounds = await read_to_end(connection, {tp: 0}, take, isolation=EVERYTHING)
    return Changelog(items, len(sizes), sum(sizes), bounds[tp].end)


async def read_whole(connection: Connection, stream: str, partition: int) -> tuple[Changelog, Findings]:
    """The changelog of a stream's partition and what was found in it; it is read again while it is incomplete and
    grows."""
    topic = changelog_topic(stream)
    attempt = 0
    while True:
        attempt += 1
        log = await read(connection, topic, partition)
        findings = examine(log.items, stream, partition)
        if findings.sound and (findings.manifest is not None or log.end == 0):
            return log, findings
        await asyncio.sleep(PAUSE_SECONDS)
        if attempt == ATTEMPTS or (await bounds(connection, topic, partition))[1] == log.end:
            return log, findings


async def write(
    spec: Spec,
    connection: Connection,
    partition: int,
    chunks: Mapping[bytes, bytes],
    manifest: bytes,
    once: bool = False,
) -> None:
    """Replace a partition's state, in the order of a checkpoint: chunks, then the manifest.

    Parameters
    ----------
    chunks : mapping of digest to stored bytes
        All that the manifest and its past need; those that are live already are not written again.
    manifest : bytes
        As encoded.
    once : bool
        Leave a state that is there.
    """
    topic = changelog_topic(spec.name)
    await ensure_changelog(spec, connection)
    # A worker that runs nevertheless loses the partition, and loads what is written here.
    producer = await fenced_producer(connection, spec.name, [TopicPartition(topic, partition)])
    outputs = Outputs(producer, partition, {topic: 0})
    try:
        log = StateLog(partition)
        tp = TopicPartition(topic, partition)
        await read_to_end(connection, {tp: 0}, log.take, isolation=EVERYTHING)
        if once and log.data is not None:
            return
        try:
            needed = log.needed()
        except StateError:  # this may be there to replace a damaged state
            needed = {}
        new = {d: chunk for d, chunk in chunks.items() if d not in needed or log.chunks.get(d) != chunk}
        await outputs.write(topic, [(checkpoint.chunk_key(partition, d), chunk) for d, chunk in new.items()])
        await outputs.write(topic, [(checkpoint.manifest_key(partition), manifest)])
    finally:
        await outputs.stop()


async def ensure_changelog(spec: Spec, connection: Connection) -> None:
    """Create the changelog if it is missing, and turn Kafka's cleaning of it off, since we do it (app.state.log).

    Raises
    ------
    TopicError
        It is missing and not for us to create, or Kafka refuses that.
    """
    topic = changelog_topic(spec.name)
    async with admin_client(connection) as client:
        if await described(client, [topic]):
            await _keep_configs(client, topic)
        elif spec.create_topics == "never":
            raise not_ours(spec, [topic], str(connection))
        else:
            await create_topics(client, spec, [topic])
        await led_partitions(client, [topic])


async def _keep_configs(admin: Any, topic: str) -> None:
    """Change the settings that differ from CHANGELOG, and keep all others that were set for this topic.

    TopicError where it cannot be set, for Kafka would then delete or compact the state. If we may not read its
    settings, they are assumed to be right.
    """
    answer = (await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)]))[0].to_object()
    entries = answer["resources"][0]["config_entries"]
    found = {entry["config_names"]: entry for entry in entries}
    wrong = {name: value for name, value in CHANGELOG.items() if found and found[name]["config_value"] != value}
    if not wrong:
        return
    own = {name: entry["config_value"] for name, entry in found.items() if entry.get("config_source") == OF_TOPIC}
    altered = ConfigResource(ConfigResourceType.TOPIC, topic, own | CHANGELOG)
    code, detail, *_ = (await admin.alter_configs([altered]))[0].resources[0]
    grave = wrong.keys() & DELETES
    if code and grave:
        settings = ",".join(f"{name}={CHANGELOG[name]}" for name in sorted(grave))
        raise TopicError(
            f"Expected {settings} of the topic {topic}, which holds the state, and Kafka refuses to set it "
            f"({detail or for_code(code).__name__}): set it yourself (kafka-configs.sh --alter --entity-type topics "
            f"--entity-name {topic} --add-config {settings}), or grant the ACL AlterConfigs on the topic"
        )


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
