"""Export, import and rollback: a partition's state from a changelog into a file, from a file into a changelog, and back
to an older checkpoint.

Workers may run during an export, but not during an import or rollback: a worker keeps its learner in memory and would
overwrite the new state. So these refuse a stream that has workers.
"""

import contextlib
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from aiokafka.structs import TopicPartition

from app.errors import DataError, StateError, TopicError
from app.kafka.connection import Connection
from app.kafka.lag import PartitionLag, lag
from app.kafka.reading import EVERYTHING, read_to_end
from app.partition.changes import next_origin
from app.state import checkpoint, portable
from app.state.changelog import bounds, check_partition, n_partitions, no_state, read, read_whole, write
from app.state.log import StateLog
from app.stream_file.spec import Spec
from topics.names import PREDICTIONS, changelog_topic, state_field


class Version(NamedTuple):
    """A complete checkpoint. chunks : those that it needs, by hash, as stored."""

    manifest: checkpoint.Manifest
    chunks: dict[bytes, bytes]


async def export_state(spec: Spec, connection: Connection, partition: int, file: Path) -> checkpoint.Manifest:
    """Write the last checkpoint of a partition to `file`, which appears complete or not at all.

    Raises
    ------
    StateError
        There is no state yet, or it is damaged.
    DataError
        The file cannot be written.
    """
    check_partition(spec, partition)
    log, findings = await read_whole(connection, spec.name, partition)
    if not log.items:
        raise no_state(spec, partition)
    if findings.manifest is None or not findings.sound:
        raise StateError(
            f"the state of partition {partition} is damaged ({findings.damage[0]}): riparian state verify lists all"
        )
    part = file.with_name(f"{file.name}.part")
    try:
        with part.open("wb") as stream:
            stream.write(portable.pack(log.items, partition))
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(file)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise DataError(f"{file} cannot be written ({error.strerror}): name another file") from error
    return findings.manifest


def read_file(file: Path) -> portable.Exported:
    """The state in `file`; DataError where it cannot be read, StateError where it cannot be used."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror}): name a file that riparian export wrote") from error
    return portable.unpack(data, str(file))


async def import_state(
    spec: Spec,
    connection: Connection,
    partition: int,
    exported: portable.Exported,
    where: str,
    *,
    replace: bool = False,
) -> int:
    """Make `exported` the state of a partition. Returns its number (sequence) there.

    Workers go on from its offsets. What the partition's predictions topic holds from these offsets on is not sent
    again, as after a crash.

    Raises
    ------
    StateError
        It is another partition's, does not fit the stream file, the stream has workers, or (without `replace`) the
        partition has a state.
    TopicError
        The offsets are not in the topics.
    """
    check_partition(spec, partition)
    manifest = exported.manifest
    if manifest.partition != partition:
        raise StateError(
            f"{where} holds the state of partition {manifest.partition}, and --partition is {partition}: a state "
            f"belongs to the records of its partition, give --partition {manifest.partition}"
        )
    portable.restore(spec, exported)
    await _check_stream(spec, connection, manifest, where)
    log = await read(connection, changelog_topic(spec.name), partition)
    if log.items and not replace:
        raise StateError(
            f"partition {partition} of the stream {spec.name} has a state already: give --replace to put {where} in "
            "its place, after riparian export if it may be wanted again"
        )
    sequence = manifest.sequence
    held = log.items.get(checkpoint.manifest_key(partition))
    if held is not None:
        with contextlib.suppress(StateError):  # replacing a damaged state is what import is for
            sequence = max(sequence, checkpoint.decode_manifest(held).sequence + 1)
    # The offset from which predictions are read back belongs to the predictions topic of the stream from which the
    # state was exported. In another topic it has no meaning: there all predictions are read, and those for records
    # below the offsets are left out.
    first, end = await bounds(connection, spec.topics.predictions, partition)
    same = manifest.stream == spec.name and first <= manifest.outputs.get(PREDICTIONS, 0) <= end
    data = portable.addressed(exported, spec, sequence, manifest.outputs if same else {})
    await write(spec, connection, partition, exported.chunks, data)
    return sequence


async def versions(
    spec: Spec, connection: Connection, partition: int
) -> tuple[checkpoint.Manifest | None, list[Version]]:
    """The last checkpoint of a partition and all those that the changelog still holds, the newest first.

    Every manifest that was read is tried, and those that it names, so an older one may be found complete though the
    last is not.
    """
    check_partition(spec, partition)
    log = StateLog(partition)
    manifests: dict[bytes, bytes] = {}  # hash -> bytes of every manifest in the log, in order

    def take(_: object, records: list[Any]) -> None:
        for record in records:
            log.append(record.offset, record.key, record.value)
            if record.key == checkpoint.manifest_key(partition) and record.value:
                digest = checkpoint.hash_of(record.value)
                manifests.pop(digest, None)
                manifests[digest] = record.value

    topic = changelog_topic(spec.name)
    if partition < await n_partitions(connection, topic):
        await read_to_end(connection, {TopicPartition(topic, partition): 0}, take, isolation=EVERYTHING)
    whole = {digest for digest, packed in log.chunks.items() if checkpoint.unpack(digest, packed) is not None}
    found: dict[int, Version] = {}
    last = None
    for data in reversed(manifests.values()):
        with contextlib.suppress(StateError):
            manifest = checkpoint.decode_manifest(data)
            last = last or manifest
            for one in [manifest, *map(log.past_manifest, manifest.past)]:
                if one is not None and one.sequence not in found and one.chunks() <= whole:
                    found[one.sequence] = Version(one, {digest: log.chunks[digest] for digest in one.chunks()})
    return last, [found[sequence] for sequence in sorted(found, reverse=True)]


async def rollback(spec: Spec, connection: Connection, partition: int, to: int, *, models_only: bool = False) -> int:
    """Make an older checkpoint of a partition its state again, under a new number, which is returned.

    Without `models_only`, offsets and all go back: the records since are learned again in the order that the
    predictions recorded, with the same result unless topics, stream file or program changed. With it, only the models
    go back; offsets, waiting instances and metrics stay, so what was learned since is forgotten.

    Raises
    ------
    StateError
        There is no such checkpoint, it does not fit the stream file, or the stream has workers.
    TopicError
        The offsets are not in the topics any more.
    """
    last, found = await versions(spec, connection, partition)
    if last is None:
        raise no_state(spec, partition)
    chosen = next((version for version in found if version.manifest.sequence == to), None)
    if chosen is None:
        there = ", ".join(f"{version.manifest.sequence:,}" for version in found) or "none that is whole"
        raise StateError(f"partition {partition} of {spec.name} has no checkpoint {to:,}: the changelog holds {there}")
    manifest, chunks = chosen
    newest = found[0]
    if models_only:
        if newest.manifest.sequence != last.sequence:
            raise StateError(
                f"the last checkpoint of partition {partition} is damaged, so only its models cannot go back: leave "
                "out --models-only"
            )
        if "steering" in last.meta and last.meta["models"] != manifest.meta["models"]:
            raise StateError(
                f"commands have changed which models partition {partition} has since checkpoint {to:,}, so its models "
                "alone cannot go back: leave out --models-only, or promote the model that shall be champion"
            )
        older = {name: entry for name, entry in manifest.arrays.items() if name.startswith("models/")}
        # A model on trial belongs to the current models: it does not go back, so its trial ends.
        now = ("models/", "drift/trials/")
        rest = {name: entry for name, entry in last.arrays.items() if not name.startswith(now)}
        meta = {**last.meta, "origin": next_origin(last.meta)}
        if "room" in manifest.meta:  # of the models' arrays
            meta["room"] = manifest.meta["room"]
        manifest = msgspec.structs.replace(last, arrays={**rest, **older}, meta=meta)
        chunks = {**newest.chunks, **chunks}
    where = f"checkpoint {to:,}"
    portable.restore(spec, portable.Exported(manifest, chunks))
    await _check_stream(spec, connection, manifest, where)
    # The newest checkpoint stays available for a later rollback.
    past, more = [], dict[bytes, bytes]()
    for version in [newest] if newest.manifest.sequence > to else []:
        data = checkpoint.encode_manifest(version.manifest)
        digest = checkpoint.hash_of(data)
        past.append(version.manifest.as_past(digest))
        more.update({**version.chunks, digest: checkpoint.pack(data)})
    sequence = max(last.sequence, newest.manifest.sequence) + 1
    manifest = msgspec.structs.replace(
        manifest,
        version=checkpoint.VERSION,
        sequence=sequence,
        created_ms=int(time.time() * 1000),
        past=past,
    )
    needed = {digest: {**chunks, **more}[digest] for digest in [*manifest.chunks(), *more]}
    await write(spec, connection, partition, needed, checkpoint.encode_manifest(manifest))
    return sequence


async def _check_stream(spec: Spec, connection: Connection, manifest: checkpoint.Manifest, where: str) -> None:
    """StateError where the stream has workers, TopicError where its topics do not hold the next records."""
    report = await lag(spec, connection)
    if report.workers:
        raise StateError(
            f"the stream {spec.name} has {report.workers} worker{'' if report.workers == 1 else 's'} (group "
            f"{report.group}): stop all, wait until riparian lag shows none, and try again"
        )
    wanted = {topic: manifest.meta.get(state_field(role, "offset"), 0) for role, topic, _ in spec.inputs}
    for row in report.rows:
        if row.topic in wanted and row.partition == manifest.partition:  # copies, not what they were made from
            _check_offset(where, row, wanted[row.topic])


def _check_offset(where: str, row: PartitionLag, offset: int) -> None:
    """TopicError unless the next record of a state is in the topic, or will be."""
    if offset > row.end:
        raise TopicError(
            f"{where} goes on at offset {offset:,} of {row.topic}[{row.partition}], which ends at {row.end:,}: the "
            "state has seen records that this topic does not hold; name the topic that it was learned from"
        )
    if offset < row.start:
        raise TopicError(
            f"{where} goes on at offset {offset:,} of {row.topic}[{row.partition}], which begins at {row.start:,}: "
            f"the {row.start - offset:,} records between were deleted; import a later export"
        )
