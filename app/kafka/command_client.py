"""Sends a command to all partitions of a running stream, and waits for what they answer."""

import asyncio
import getpass
import socket
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from aiokafka.structs import TopicPartition

from riparian.app.errors import SpecError, TopicError
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import EVERYTHING, counts, started
from riparian.app.stream_file.spec import Spec
from riparian.topics import commands
from riparian.topics.commands import Command, EventRecord

POLL_MS = 200


def me() -> str:
    """Who asks, unless they say otherwise: USER@HOST."""
    user = "unknown"
    with suppress(OSError, KeyError, ImportError):  # no name for the user's number
        user = getpass.getuser()
    return f"{user}@{socket.gethostname()}"[:200]


def command(what: str, by: str | None = None, **arguments: Any) -> Command:
    """A new command, with an id of its own. what : one of `topics.commands`. by : None for `me`."""
    asked = int(time.time() * 1000)
    return Command(id=str(uuid.uuid4()), command=what, by=me() if by is None else by, asked=asked, **arguments)  # type: ignore[arg-type]


def check(spec: Spec) -> None:
    """SpecError where the stream takes no commands."""
    if not spec.control:
        raise SpecError(
            f"control: expected true, since the stream {spec.name} is to take a command, found false: write "
            "control: true in the stream file, and start its workers with it"
        )


async def ask(
    spec: Spec,
    connection: Connection,
    what: Command,
    seconds: float,
    on_answer: Callable[[EventRecord], None] = lambda event: None,
) -> dict[int, EventRecord]:
    """Send a command to every partition (`Spec.commanded`); partition -> its answer, of those that answered within
    `seconds`.

    An answer comes with the next prediction of the partition, which it takes effect before. One that does not come in
    time comes later all the same: a command that was sent cannot be taken back.

    Raises
    ------
    SpecError
        The stream takes no commands.
    TopicError
        One of the two topics is missing, or the command is larger than a partition takes.
    KafkaError
        The broker does not answer, or refuses it.
    """
    check(spec)
    value = commands.write(what)
    try:
        commands.read_command(value)
    except ValueError as error:
        raise SpecError(f"the command {what.command} cannot be sent: {error}") from None
    control, events = spec.topics.control, spec.topics.events
    assert control is not None
    assert events is not None
    tps = [TopicPartition(events, partition) for partition in spec.commanded]
    async with started(connection.consumer(isolation_level=EVERYTHING, fetch_max_wait_ms=100)) as consumer:
        there = await counts(consumer, (control, events))
        for topic in (control, events):
            if topic not in there:
                raise TopicError(
                    f"the topic {topic} is missing: start a worker of this stream file, which creates it "
                    f"(riparian worker), or create it by the commands of riparian deploy topics"
                )
        ends = await consumer.end_offsets(tps)
        consumer.assign(tps)
        for tp, end in ends.items():
            consumer.seek(tp, end)
        await _send(connection, control, spec.commanded, value)
        return await _answers(consumer, what.id, len(spec.commanded), seconds, on_answer)


async def _send(connection: Connection, topic: str, partitions: Sequence[int], value: bytes) -> None:
    producer = connection.producer(enable_idempotence=True)
    await producer.start()
    try:
        sent = [await producer.send(topic, value, partition=partition) for partition in partitions]
        await asyncio.gather(*sent)
    finally:
        await producer.stop()


async def _answers(
    consumer: Any, id_: str, partitions: int, seconds: float, on_answer: Callable[[EventRecord], None]
) -> dict[int, EventRecord]:
    found: dict[int, EventRecord] = {}
    until = time.monotonic() + seconds
    while len(found) < partitions and time.monotonic() < until:
        for tp, records in (await consumer.getmany(timeout_ms=POLL_MS)).items():
            for record in records:
                with suppress(ValueError):  # of somebody else
                    event = commands.read_event(record.value)
                    if event.id == id_ and tp.partition not in found:
                        found[tp.partition] = event
                        on_answer(event)
    return dict(sorted(found.items()))
