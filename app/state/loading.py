"""A partition's last checkpoint, read by a plain client: its learner, and what a changed stream file means for it.

Nothing is written, and no worker needs to run.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from riparian.app.errors import StateError
from riparian.app.kafka.connection import Connection
from riparian.app.partition.changes import LEARNING, Changes, reconcile
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.inputs import check_log
from riparian.app.partition.state import GO_BACK, reading
from riparian.app.state import checkpoint, portable
from riparian.app.state.changelog import bounds, check_partition, n_partitions, no_state, read_whole
from riparian.app.stream_file.spec import Spec
from riparian.topics.names import LEARNED, changelog_topic, state_field

VOCABULARIES = "vocabularies"


class Loaded(NamedTuple):
    """A partition as its changelog has it. notes : sentences on what the stream file changed."""

    learner: PartitionLearner
    encoder: checkpoint.Encoder
    manifest: checkpoint.Manifest | None
    notes: list[str]


class State(NamedTuple):
    """A partition as its last checkpoint left it. n_bytes : of the manifest and its chunks, compressed."""

    manifest: checkpoint.Manifest
    learner: PartitionLearner
    n_bytes: int


def restore(spec: Spec, partition: int, items: dict[bytes, bytes]) -> State:
    """The learner of a partition from the items of its changelog."""
    data = items.get(checkpoint.manifest_key(partition))
    if data is None:
        raise no_state(spec, partition)
    manifest = checkpoint.decode_manifest(data)
    learner = portable.restore(spec, checkpoint.Stored(manifest, checkpoint.chunks_of(items, partition)))
    chunks = (items[checkpoint.chunk_key(partition, digest)] for digest in manifest.chunks())
    return State(manifest, learner, len(data) + sum(map(len, chunks)))


def compare_with_stream_file(
    spec: Spec, manifest: checkpoint.Manifest, chunks: Mapping[bytes, bytes], topics: Mapping[str, str] | None = None
) -> Changes:
    """What the stream file changes for a checkpoint. topics : as in `reconcile`. chunks : by hash, as stored."""
    only = {name: entry for name, entry in manifest.arrays.items() if name == VOCABULARIES}
    snapshot = checkpoint.decode(msgspec.structs.replace(manifest, arrays=only), chunks)
    with reading(f"the state of partition {manifest.partition}", GO_BACK):
        return reconcile(spec, snapshot.meta, msgspec.msgpack.decode(snapshot.arrays[VOCABULARIES].tobytes()), topics)


class LearnedLog(NamedTuple):
    """What the log that all partitions learn holds.

    first, end : the offset with which it begins, and the next one
    place : where the checkpoint that has learned least of it goes on; None where there is none
    """

    topic: str
    first: int
    end: int
    place: int | None

    def sentence(self) -> str:
        stands = "no checkpoint has learned it" if self.place is None else f"checkpoints go on at {self.place:,}"
        return f"{self.topic}: offsets {self.first:,} to {self.end:,} (exclusive); {stands}"


async def learned_log(spec: Spec, connection: Connection) -> LearnedLog | None:
    """Of a stream whose partitions learn one model; None of others. StateError where it does not reach back to a
    checkpoint."""
    topic = spec.topics.learned
    if topic is None:
        return None
    (first, end), places = await bounds(connection, topic, 0), list[int]()
    for partition in range(spec.partitions):
        _, findings = await read_whole(connection, spec.name, partition)
        if findings.manifest is not None:
            places.append(int(findings.manifest.meta.get(state_field(LEARNED, "offset"), 0)))
            check_log(topic, partition, places[-1], (None, None), first, end)
    return LearnedLog(topic, first, end, min(places, default=None))


async def check_kind(spec: Spec, connection: Connection) -> None:
    """Before topics are created: StateError where the stream ran with models of each partition, and all shall learn
    one. Only a stream without that log has its state read for it."""
    topic, changelog = spec.topics.learned, changelog_topic(spec.name)
    if topic is None or await n_partitions(connection, topic) or not await n_partitions(connection, changelog):
        return
    for partition, (_, changes) in (await prospects(spec, connection)).items():
        sentences = [change.sentence for change in changes.found if change.what == LEARNING]
        if sentences:
            raise StateError(f"the state of partition {partition} does not fit the stream {spec.name}: {sentences[0]}")


async def prospects(
    spec: Spec, connection: Connection, partitions: Iterable[int] | None = None
) -> dict[int, tuple[int, Changes]]:
    """What a worker that starts now would do with the state: partition -> sequence of the checkpoint, and changes.
    partitions : default: all.

    StateError where a checkpoint is damaged.
    """
    found = {}
    for partition in range(spec.partitions) if partitions is None else partitions:
        log, findings = await read_whole(connection, spec.name, partition)
        if findings.damage:
            raise StateError(
                f"the state of partition {partition} is damaged ({findings.damage[0]}): riparian state verify lists all"
            )
        if findings.manifest is not None:
            chunks = checkpoint.chunks_of(log.items, partition)
            found[partition] = (
                findings.manifest.sequence,
                compare_with_stream_file(spec, findings.manifest, chunks, spec.input_topics),
            )
    return found


def load(spec: Spec, connection: Connection, partition: int) -> State:
    """Read the changelog and restore a partition.

    Raises
    ------
    SpecError
        There is no such partition.
    StateError
        There is no checkpoint, or it cannot be used.
    """
    check_partition(spec, partition)
    log, _ = asyncio.run(read_whole(connection, spec.name, partition))
    return restore(spec, partition, log.items)
