"""Who copies a source partition, and from which offset on: the offsets of a consumer group, and who committed them.

An owner of source partitions writes copies and offsets in one transaction, by a transactional id of its own. Before it
writes anything, it *claims* its partitions: it commits their offsets with that id as their metadata, which Kafka only
lets members of the group's present generation do. So the next owner finds there whose transactions may still be under
way. It takes the next producer epoch of each of these ids: Kafka ends what they have begun, and refuses what they send
later, however long their owner was stopped or cut off. Only then it reads the offsets. Nothing can come between.

Kafka forgets the offsets of a group that was empty for a week. Then they are found in the copies themselves, whose
headers say where they come from.
"""

import asyncio
import secrets
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from aiokafka.errors import KafkaError, for_code
from aiokafka.protocol.commit import OffsetCommitRequest
from aiokafka.structs import TopicPartition

from riparian.app.kafka.admin import coordinator, group_offsets
from riparian.app.kafka.connection import MAX_BATCH_BYTES, Connection
from riparian.app.kafka.reading import COMMITTED, EVERYTHING, read_to_end
from riparian.app.kafka.sending import close
from riparian.app.kafka.topics.creating import COPY_BYTES
from riparian.topics.names import rekey_id, source_of

if TYPE_CHECKING:
    from riparian.app.kafka.connection import Admin, Consumer, Producer
    from riparian.app.stream_file.spec import Spec

NOWHERE = 2**62  # beyond every partition's end
LOOK_SECONDS = 0.2
TRANSACTION_MS = 10_000  # after which Kafka aborts what a dead owner has begun, if nobody has taken over before


def new_id(stream: str) -> str:
    """A transactional id that nobody has had."""
    return rekey_id(stream, secrets.token_hex(8))


def is_ours(stream: str, metadata: str) -> bool:
    """Whether what stands beside an offset is a transactional id of this stream's copying."""
    before, _, after = rekey_id(stream, "\0").partition("\0")
    return metadata.startswith(before) and metadata.endswith(after)


async def producer(connection: Connection, transactional_id: str, compression: str = "none") -> "Producer":
    """A producer that is started: whoever had the id before may not write any more, and what it began has ended."""
    made = connection.producer(
        transactional_id=transactional_id,
        transaction_timeout_ms=TRANSACTION_MS,
        max_batch_size=MAX_BATCH_BYTES,
        max_request_size=COPY_BYTES,
        compression_type=None if compression == "none" else compression,
    )
    try:
        await made.start()
    except BaseException:
        await close(made)
        raise
    return made


async def fence(connection: Connection, stream: str, metadata: Iterable[str]) -> None:
    """End the transactions of earlier owners, and take from them the right to begin others."""

    async def one(transactional_id: str) -> None:
        await close(await producer(connection, transactional_id))

    await asyncio.gather(*(one(found) for found in sorted({*metadata}) if is_ours(stream, found)))


async def offsets(admin: "Admin", group: str, tps: Collection[TopicPartition]) -> dict[TopicPartition, Any]:
    """Offset (-1 where there is none) and metadata that a group has committed. KafkaError where Kafka does not say."""
    found = await group_offsets(admin, group, tps)
    if silent := [tp for tp in tps if tp not in found]:
        raise KafkaError(f"Kafka does not say how far {silent[0].topic}[{silent[0].partition}] was copied")
    return found


class Member(NamedTuple):
    """Of a consumer group, in one generation. Kafka refuses what it commits once there is another."""

    generation: int
    id: str


async def commit(
    admin: "Admin", group: str, member: Member, found: Mapping[TopicPartition, int], metadata: str
) -> None:
    """Commit offsets as a member of that generation. KafkaError where there is another generation.

    The consumer's own `commit` would try again as a member of the next one.
    """
    topics: dict[str, list[tuple[int, int, str]]] = {}
    for tp, offset in found.items():
        topics.setdefault(tp.topic, []).append((tp.partition, offset, metadata))
    request = OffsetCommitRequest(group, *member, OffsetCommitRequest.DEFAULT_RETENTION_TIME, list(topics.items()))
    answer = await admin._send_request(request, await coordinator(admin, group))
    for topic, errors in answer.topics:
        for partition, code in errors:
            if code:
                raise for_code(code)(f"the offset of {topic}[{partition}] was not committed")


async def from_copies(
    spec: "Spec", connection: Connection, tps: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Where to go on in each of these sources, by the copies that there are."""
    roles = {spec.sources[tp.topic] for tp in tps}
    targets = [TopicPartition(getattr(spec.topics, role), k) for role in roles for k in range(spec.partitions)]
    found = dict[TopicPartition, int]()

    def take(_: TopicPartition, records: list[Any]) -> None:
        for record in records:
            source = source_of(record.headers)
            if source is not None:
                tp = TopicPartition(*source[:2])
                found[tp] = max(found.get(tp, 0), source[2] + 1)

    # A transaction under way hides the copies behind it: wait until those that there are now have ended.
    written = await read_to_end(connection, dict.fromkeys(targets, NOWHERE), take, isolation=EVERYTHING)
    starts = dict.fromkeys(targets, 0)
    while starts:
        read = await read_to_end(connection, starts, take, isolation=COMMITTED)
        starts = {tp: bounds.end for tp, bounds in read.items() if bounds.end < written[tp].end}
        await asyncio.sleep(LOOK_SECONDS if starts else 0.0)
    return found


async def positions(
    spec: "Spec", connection: Connection, admin: "Admin", asker: "Consumer", tps: Collection[TopicPartition]
) -> Mapping[TopicPartition, int]:
    """From which offsets on sources are copied. No earlier owner can move them any more, nor write a copy.

    asker : a consumer that is asked where topics begin.
    """
    before = await offsets(admin, spec.rekey_group, tps)
    await fence(connection, spec.name, (found.metadata for found in before.values()))
    now = await offsets(admin, spec.rekey_group, tps)
    unknown = [tp for tp in tps if tp not in now or now[tp].offset < 0]
    if not unknown:
        return {tp: now[tp].offset for tp in tps}
    firsts, copied = await asker.beginning_offsets(unknown), await from_copies(spec, connection, unknown)
    return {tp: copied.get(tp, firsts[tp]) if tp in firsts else now[tp].offset for tp in tps}
