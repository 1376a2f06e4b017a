"""Partitions read from an offset to where they end now, by a consumer of their own."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

log = logging.getLogger(__name__)

FETCH_BYTES = 8 * 1024 * 1024
POLL_MS = 10  # the end may be control records: they come, but as nothing, and the client waits for more


class Bounds(NamedTuple):
    """The first offset that a partition keeps, and the next one."""

    first: int
    end: int


async def read_to_end(
    broker: str,
    starts: Mapping[TopicPartition, int],
    take: Callable[[TopicPartition, list[Any]], None],
) -> dict[TopicPartition, Bounds]:
    """Read partitions to where they end at the call, all at once; where each begins and ends.

    Parameters
    ----------
    starts : mapping of TopicPartition to int
        Where to begin; at the first offset kept where that is later.
    take : callable
        Given consecutive records (ConsumerRecord) of a partition, below its end.

    Raises
    ------
    KafkaError
        The broker does not answer.
    """
    if not starts:
        return {}
    consumer = AIOKafkaConsumer(
        bootstrap_servers=broker,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=100,
        max_partition_fetch_bytes=FETCH_BYTES,
    )
    await consumer.start()
    try:
        tps = list(starts)
        consumer.assign(tps)
        ends = await consumer.end_offsets(tps)
        firsts = await consumer.beginning_offsets(tps)
        left = set()
        for tp, start in starts.items():
            if max(start, firsts[tp]) < ends[tp]:
                consumer.seek(tp, max(start, firsts[tp]))
                left.add(tp)
            else:
                consumer.pause(tp)
        while left:
            found = await consumer.getmany(*left, timeout_ms=POLL_MS)
            for tp, records in found.items():
                if records[-1].offset >= ends[tp]:
                    records = [record for record in records if record.offset < ends[tp]]
                if records:
                    take(tp, records)
            for tp in [tp for tp in left if await consumer.position(tp) >= ends[tp]]:
                left.discard(tp)
                consumer.pause(tp)
        return {tp: Bounds(firsts[tp], ends[tp]) for tp in tps}
    finally:
        await consumer.stop()
