"""Waits until checkpoints of a running stream hold what commands have left, and has it write some by one."""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from aiokafka.structs import TopicPartition

from riparian.app.kafka import command_client
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import EVERYTHING, bounds_of, close, read_ends
from riparian.app.state import checkpoint
from riparian.app.state.changelog import PAUSE_SECONDS, n_partitions, read_whole
from riparian.app.state.checkpoint import Manifest
from riparian.app.stream_file.spec import Spec
from riparian.topics.commands import Command, EventRecord, read_event
from riparian.topics.names import CONTROL, changelog_topic, state_field

TAIL = 10  # last answers of a partition that are looked at


async def ask(
    spec: Spec,
    connection: Connection,
    what: Command,
    seconds: float,
    on_answer: Callable[[EventRecord], None] = lambda event: None,
    on_written: Callable[[Manifest], None] = lambda manifest: None,
) -> tuple[dict[int, EventRecord], dict[int, Manifest]]:
    """Send a command, and wait for a checkpoint of every partition behind it; raises what `command_client.ask` does.

    Returns
    -------
    dict
        Partition -> its answer, as `command_client.ask` has it.
    dict
        Partition -> the manifest, of those that wrote one within `seconds`.
    """
    until = time.monotonic() + seconds
    topic = changelog_topic(spec.name)
    tps = [TopicPartition(topic, k) for k in range(min(spec.partitions, await n_partitions(connection, topic)))]
    ends = await bounds_of(connection, tps, EVERYTHING)
    answers = await command_client.ask(spec, connection, what, seconds, on_answer)
    # One answers for all where they learn one model, and they come to its command one after the other.
    places = {k: answers.get(k if k in spec.commanded else 0) for k in range(spec.partitions)}
    wanted = {k: answer.control_offset or 0 for k, answer in places.items() if answer is not None}
    found = dict[int, Manifest]()
    consumer = connection.consumer(isolation_level=EVERYTHING, fetch_max_wait_ms=100)
    await consumer.start()
    try:
        consumer.assign(tps)
        for tp in tps:
            consumer.seek(tp, ends[tp].end)
        while len(found) < len(wanted) and time.monotonic() < until:
            for tp, records in (await consumer.getmany(timeout_ms=command_client.POLL_MS)).items():
                for record in records:
                    if record.key == checkpoint.manifest_key(tp.partition) and tp.partition not in found:
                        manifest = checkpoint.decode_manifest(record.value)
                        if tp.partition in wanted and _next_command(manifest.meta) > wanted[tp.partition]:
                            found[tp.partition] = manifest
                            on_written(manifest)
    finally:
        await close(consumer)
    return answers, dict(sorted(found.items()))


async def settle(spec: Spec, connection: Connection, seconds: float) -> None:
    """Wait until the last checkpoints hold all commands that were answered, for at most so many seconds: they come by
    themselves, within `checkpoint.every`."""
    until, last = time.monotonic() + seconds, dict[int, int]()

    def take(tp: TopicPartition, records: list[Any]) -> None:
        for record in records:
            with suppress(ValueError):  # of somebody else
                offset = read_event(record.value).control_offset
                if offset is not None:  # else of a rule
                    last[tp.partition] = offset

    topic = str(spec.topics.events)
    n = min(len(spec.commanded), await n_partitions(connection, topic))
    await read_ends(connection, [TopicPartition(topic, k) for k in range(n)], TAIL, take, first=False)
    for partition, offset in last.items():
        while time.monotonic() < until:
            _, findings = await read_whole(connection, spec.name, partition)
            if findings.manifest is not None and _next_command(findings.manifest.meta) > offset:
                break
            await asyncio.sleep(PAUSE_SECONDS)


def _next_command(meta: Mapping[str, Any]) -> int:
    """The offset of the next command, where a state stands."""
    _, of_all = meta.get("shared", {}).get("commands", (0, 0))
    return max(int(of_all), int(meta.get(state_field(CONTROL, "offset"), 0)))
