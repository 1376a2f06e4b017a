"""Waits until checkpoints of a running stream hold what commands have left, and has it write some by one."""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from aiokafka.structs import TopicPartition

from riparian.app.kafka import command_client
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import EVERYTHING, bounds_of, read_ends, read_to_end
from riparian.app.state import checkpoint
from riparian.app.state.changelog import PAUSE_SECONDS, n_partitions
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
    ends = {tp.partition: bounds.end for tp, bounds in (await bounds_of(connection, tps, EVERYTHING)).items()}
    answers = await command_client.ask(spec, connection, what, seconds)
    # One answers for all where they learn one model, and they come to its command one after the other.
    places = {k: answers.get(k if k in spec.commanded else 0) for k in ends}
    wanted = {k: answer.control_offset or 0 for k, answer in places.items() if answer is not None}
    return answers, await _written(spec, connection, wanted, ends, until, on_written)


async def settle(spec: Spec, connection: Connection, seconds: float) -> list[int]:
    """Wait until the last checkpoints hold the commands that were answered, for at most so many seconds: they come by
    themselves, within `checkpoint.every`. Returns the partitions that answered, and whose checkpoint does not."""
    until, last = time.monotonic() + seconds, dict[int, int]()

    def take(tp: TopicPartition, records: list[Any]) -> None:
        for record in records:
            with suppress(ValueError):  # of somebody else
                offset = read_event(record.value).control_offset
                if offset is not None:  # else of a rule
                    last[tp.partition] = offset

    topic = str(spec.topics.events)
    counts = [await n_partitions(connection, one) for one in (topic, changelog_topic(spec.name))]
    n = min(len(spec.commanded), *counts)
    await read_ends(connection, [TopicPartition(topic, k) for k in range(n)], TAIL, take, first=False)
    found = await _written(spec, connection, last, dict.fromkeys(last, 0), until)
    return sorted(last.keys() - found.keys())


async def _written(
    spec: Spec,
    connection: Connection,
    wanted: Mapping[int, int],
    starts: Mapping[int, int],
    until: float,
    on_written: Callable[[Manifest], None] = lambda manifest: None,
) -> dict[int, Manifest]:
    """Manifests behind commands, of those that come by `until`; what is there is read in any case.

    wanted : partition -> offset of the command. starts : partition -> offset of the changelog to begin at.
    """
    found, last = dict[int, Manifest](), dict[int, bytes | None]()

    def take(tp: TopicPartition, records: list[Any]) -> None:
        for record in records:
            if record.key == checkpoint.manifest_key(tp.partition):
                last[tp.partition] = record.value

    places = {TopicPartition(changelog_topic(spec.name), k): starts[k] for k in wanted}
    while True:
        bounds = await read_to_end(connection, places, take, isolation=EVERYTHING)
        for partition, data in last.items():
            if partition not in found and data is not None:  # as of a state that was deleted
                manifest = checkpoint.decode_manifest(data)
                if _next_command(manifest.meta) > wanted[partition]:
                    found[partition] = manifest
                    on_written(manifest)
        places = {tp: end for tp, (_, end) in bounds.items() if tp.partition not in found}
        if not places or time.monotonic() >= until:
            return dict(sorted(found.items()))
        await asyncio.sleep(PAUSE_SECONDS)


def _next_command(meta: Mapping[str, Any]) -> int:
    """The offset of the next command, where a state stands."""
    _, of_all = meta.get("shared", {}).get("commands", (0, 0))
    return max(int(of_all), int(meta.get(state_field(CONTROL, "offset"), 0)))
