"""A partition's state out of a changelog into a file, and from a file into a changelog.

Export needs nothing to stand still. Import does: a worker keeps its learner in memory and would write over what was
imported, so a stream with workers is refused.
"""

import contextlib
import os
from pathlib import Path

from app import admin
from app.errors import DataError, StateError, TopicError
from app.spec import Spec
from app.state import checkpoint, portable
from app.state.changelog import bounds, changelog_topic, check_partition, no_state, read, read_whole, write
from topics.names import PREDICTIONS


async def export_state(spec: Spec, broker: str, partition: int, file: Path) -> checkpoint.Manifest:
    """Write the last checkpoint of a partition to `file`, which appears whole or not at all.

    Raises
    ------
    StateError
        There is no state yet, or it is damaged.
    DataError
        The file cannot be written.
    """
    check_partition(spec, partition)
    log, findings = await read_whole(broker, spec.name, partition)
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
    spec: Spec, broker: str, partition: int, exported: portable.Exported, where: str, *, replace: bool = False
) -> int:
    """Make `exported` the state of a partition. Its number (sequence) there.

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
    portable.restore(spec, exported, where)
    report = await admin.lag(spec, broker)
    if report.workers:
        raise StateError(
            f"the stream {spec.name} has {report.workers} worker{'' if report.workers == 1 else 's'} (group "
            f"{report.group}): stop all, wait until riparian lag shows none, and import again"
        )
    wanted = {spec.topics.features: manifest.meta["feature_offset"]}
    if spec.topics.labels is not None:
        wanted[spec.topics.labels] = manifest.meta["label_offset"]
    for row in report.rows:
        if row.partition == partition:
            _check_offset(where, row, wanted[row.topic])
    log = await read(broker, changelog_topic(spec.name), partition)
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
    # Where to read predictions back from is an offset of the predictions topic that the state was exported beside. In
    # another one it means nothing: there all is read, and what belongs to records below the offsets is left out.
    first, end = await bounds(broker, spec.topics.predictions, partition)
    same = manifest.stream == spec.name and first <= manifest.outputs.get(PREDICTIONS, 0) <= end
    data = portable.addressed(exported, spec.name, sequence, manifest.outputs if same else {})
    await write(spec, broker, partition, exported.chunks, data)
    return sequence


def _check_offset(where: str, row: admin.PartitionLag, offset: int) -> None:
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
