"""`riparian` without one of its guards, for campaigns that must fail: python -m tests.chaos.unguarded GUARD worker ...

What each guard is for shows in what goes wrong without it. The patches are of this process only.
"""

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from aiokafka.structs import TopicPartition

import riparian.app.worker.assignment
from riparian.app.cli import main
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.topics.lag import lag
from riparian.app.partition.records.partition_group import RecordedOrder
from riparian.app.stream_file.spec import Spec
from riparian.app.worker.faust_client.input_logs import InputLogs
from riparian.app.worker.task.uncommitted_outputs import UncommittedOutputs
from tests.chaos.schedule import FREEZE_LONG, KILL

COMMIT_SECONDS = 2.0  # Faust commits every 2.8 s


def without_tail() -> None:
    """What was sent since the last checkpoint is not read back: it is sent again."""
    read = riparian.app.worker.assignment.read_tails

    async def read_tails(spec: Spec, connection: Connection, loaded: Sequence[Any]) -> list[UncommittedOutputs]:
        return [
            sent._replace(script=RecordedOrder(), rejected={}, metrics={})
            for sent in await read(spec, connection, loaded)
        ]

    riparian.app.worker.assignment.read_tails = read_tails


def without_fence() -> None:
    """The broker does not tell owners of a partition apart: one that wakes up late writes on."""

    async def producer(
        connection: Connection, stream: str, tps: Sequence[TopicPartition], limits: Any = (), id_: str | None = None
    ) -> Any:
        plain = connection.producer(enable_idempotence=True)
        await plain.start()
        return plain

    riparian.app.worker.assignment.fenced_producer = producer


def without_offsets() -> None:
    """Where to go on is what was committed, by the clock, and not what the state says: Faust's way."""
    read, commit = riparian.app.worker.assignment.read_tails, InputLogs.commit
    committed_at: dict[Any, float] = {}

    def now_and_then(inputs: InputLogs, offsets: Any) -> None:
        first = next(iter(offsets), None)
        if first is None or time.monotonic() - committed_at.get(first, 0.0) >= COMMIT_SECONDS:
            committed_at[first] = time.monotonic()
            commit(inputs, offsets)

    async def read_tails(spec: Spec, connection: Connection, loaded: Sequence[Any]) -> list[UncommittedOutputs]:
        committed = {(row.topic, row.partition): row.committed for row in (await lag(spec, connection)).rows}
        for one in loaded:
            learner = one.learner
            learner.places["features"] = committed[spec.topics.features, learner.partition] or 0
            learner.places["labels"] = committed[spec.topics.labels, learner.partition] or 0
        return await read(spec, connection, loaded)

    InputLogs.commit = now_and_then  # type: ignore[method-assign]
    riparian.app.worker.assignment.read_tails = read_tails


class Guard(NamedTuple):
    """How to switch it off, and the fault that it guards against."""

    remove: Callable[[], None]
    fault: str


GUARDS = {
    "tail": Guard(without_tail, KILL),
    "fence": Guard(without_fence, FREEZE_LONG),
    "offsets": Guard(without_offsets, KILL),
}

if __name__ == "__main__":
    GUARDS[sys.argv.pop(1)].remove()
    main()
