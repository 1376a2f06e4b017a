"""Export, import and rollback: a partition's state from a changelog into a file, from a file into a changelog, and back
to an older checkpoint.

Workers may run during an export, but not during an import or rollback: a worker keeps its learner in memory and would
overwrite the new state. So these refuse a stream that has workers.
"""

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from aiokafka.structs import TopicPartition

from riparian.app.errors import DataError, StateError, TopicError
from riparian.app.kafka.admin import ensure_topics
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import EVERYTHING, read_to_end
from riparian.app.kafka.topics.lag import PartitionLag, lag
from riparian.app.partition.changes import next_origin
from riparian.app.partition.shared.shared_lineup import STATE
from riparian.app.state import checkpoint, portable
from riparian.app.state.changelog import bounds, check_partition, n_partitions, no_state, read, read_whole, write
from riparian.app.state.checkpoint import Stored
from riparian.app.state.log import StateLog
from riparian.app.stream_file.lineup import place_of
from riparian.app.stream_file.sections.learning import PARTITION, SHARED
from riparian.app.stream_file.spec import Spec
from riparian.topics.names import PREDICTIONS, changelog_topic, state_field


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
    write_file(file, portable.pack(log.items, partition))
    return findings.manifest


def write_file(file: Path, data: bytes) -> None:
    """Write a state, which appears complete or not at all, for its owner alone. DataError where it cannot be."""
    part = file.with_name(f"{file.name}.part")
    try:
        part.unlink(missing_ok=True)
        # Its own, for its owner alone: not what a link of this name leads to.
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(file)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise DataError(f"{file} cannot be written ({error.strerror}): name another file") from error


def read_file(file: Path) -> Stored:
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
    exported: Stored,
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
    await _check_stream(spec, connection, {partition: manifest.meta}, where)
    cure = f"put {where} in its place, after riparian export if it may be wanted again"
    sequence = await _next_sequence(spec, connection, partition, manifest.sequence, None if replace else cure)
    # The offset from which predictions are read back belongs to the predictions topic of the stream from which the
    # state was exported. In another topic it has no meaning: there all predictions are read, and those for records
    # below the offsets are left out.
    first, end = await bounds(connection, spec.topics.predictions, partition)
    same = manifest.stream == spec.name and first <= manifest.outputs.get(PREDICTIONS, 0) <= end
    data = portable.addressed(exported, spec, sequence, manifest.outputs if same else {})
    await write(spec, connection, partition, exported.chunks, data)
    return sequence


async def import_models(
    spec: Spec,
    connection: Connection,
    exported: Stored,
    where: str,
    *,
    partition: int | None = None,
    replace: bool = False,
) -> tuple[dict[int, dict[str, int]], list[str]]:
    """Let a stream that has not predicted yet begin with the models of `exported`, whichever kind of learning either
    has. Its missing topics are made.

    Parameters
    ----------
    partition : int, optional
        The only one that begins with them; else all.

    Returns
    -------
    Partition -> role of an input topic -> the offset where it begins (0 : where the topic does), and the roles of
    models that the state does not have.

    Raises
    ------
    StateError
        The models do not fit the stream file, partitions would differ, records would be learned again, the stream has
        workers, has predicted, or (without `replace`) has a state.
    TopicError
        The offsets are not in the topics.
    """
    manifest = exported.manifest
    _check_beginning(spec, manifest, where, partition)
    chosen = range(spec.partitions) if partition is None else [partition]
    begun = [portable.begun(spec, exported, p, where) for p in chosen]
    await ensure_topics(spec, connection)
    written = [*((spec.topics.predictions, p) for p in chosen), *((topic, 0) for topic in spec.of_all)]
    for topic, p in written:
        if (await bounds(connection, topic, p))[1]:
            raise StateError(
                f"the stream {spec.name} has begun already ({topic}[{p}] holds records), and --models-only is for one "
                "that has not: give it a new name"
            )
    await _check_stream(spec, connection, {learner.partition: learner.snapshot().meta for learner, _ in begun}, where)
    cure = None if replace else f"begin with the models of {where} instead"
    sequences = [await _next_sequence(spec, connection, p, 1, cure) for p in chosen]
    for (learner, _), sequence in zip(begun, sequences, strict=True):
        _, manifest_data, chunks = portable.encoded(spec, learner, sequence)
        await write(spec, connection, learner.partition, chunks, manifest_data)
    return {learner.partition: learner.offsets for learner, _ in begun}, begun[0][1]


def _check_beginning(spec: Spec, manifest: checkpoint.Manifest, where: str, partition: int | None) -> None:
    """StateError where partitions would not have one model, or would learn records again."""
    if partition is not None:
        check_partition(spec, partition)
        if spec.shares:
            raise StateError(
                f"all partitions of the stream {spec.name} learn one model, so all begin with the same: leave out "
                "--partition"
            )
    if STATE not in manifest.meta or not portable.learned_from(spec, manifest):
        return
    if partition is None and spec.partitions > 1:
        each = ", or give each partition an export of its own, with --partition"
        cure = {PARTITION: each, SHARED: ""}[spec.learning.kind]
        raise StateError(
            f"{where} has learned all partitions of {spec.topics.features}, which would be learned again: name other "
            f"topics{cure}"
        )
    if (partition or 0) != manifest.partition:
        raise StateError(
            f"{where} is of partition {manifest.partition} of {spec.topics.features}, and tells where that one goes "
            f"on: give --partition {manifest.partition}, or an export of partition {partition or 0}"
        )


async def _next_sequence(spec: Spec, connection: Connection, partition: int, least: int, cure: str | None) -> int:
    """The number of a checkpoint behind the one that a changelog holds. StateError where it may hold none: `cure` says
    what to give --replace for."""
    items = (await read(connection, changelog_topic(spec.name), partition)).items
    if items and cure is not None:
        raise StateError(
            f"partition {partition} of the stream {spec.name} has a state already: give --replace to {cure}"
        )
    held = items.get(checkpoint.manifest_key(partition))
    if held is not None:
        with contextlib.suppress(StateError):  # replacing a damaged state is what import is for
            return max(least, checkpoint.decode_manifest(held).sequence + 1)
    return least


async def versions(
    spec: Spec, connection: Connection, partition: int
) -> tuple[checkpoint.Manifest | None, list[Stored]]:
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
    found: dict[int, Stored] = {}
    last = None
    for data in reversed(manifests.values()):
        with contextlib.suppress(StateError):
            manifest = checkpoint.decode_manifest(data)
            last = last or manifest
            for one in [manifest, *map(log.past_manifest, manifest.past)]:
                if one is not None and one.sequence not in found and one.chunks() <= whole:
                    found[one.sequence] = Stored(one, {digest: log.chunks[digest] for digest in one.chunks()})
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
        members, older_members = (_members(meta) for meta in (last.meta, manifest.meta))
        if other := [role for role in members if older_members.get(role, members[role]) != members[role]]:
            raise StateError(
                f"{place_of(other[0])} has other members since checkpoint {to:,}, so its models alone cannot go back: "
                "leave out --models-only"
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
    portable.restore(spec, Stored(manifest, chunks))
    await _check_stream(spec, connection, {partition: manifest.meta}, where)
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


def _members(meta: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Of each pool, in order."""
    return {role: list((parameters.get("members") or {}).items()) for role, (_, parameters) in meta["models"].items()}


async def _check_stream(spec: Spec, connection: Connection, metas: Mapping[int, Mapping[str, Any]], where: str) -> None:
    """StateError where the stream has workers, TopicError where its topics do not hold the next records. metas :
    partition -> of the state that it gets."""
    report = await lag(spec, connection)
    if report.workers:
        raise StateError(
            f"the stream {spec.name} has {report.workers} worker{'' if report.workers == 1 else 's'} (group "
            f"{report.group}): stop all, wait until riparian lag shows none, and try again"
        )
    roles = {topic: role for role, topic, _ in spec.inputs}
    for row in report.rows:
        if row.topic in roles and row.partition in metas:  # copies, not what they were made from
            offset = metas[row.partition].get(state_field(roles[row.topic], "offset"), 0)
            _check_offset(where, row, offset)


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
