"""`riparian worker`, saying when it does what: one JSON object a line on standard output.

    python -m benchmarks.watched [--ticker] worker STREAM.yaml ...

The worker is the real one, with a clock around its parts. Every line has `event` and `time` (seconds since 1970).
`--ticker` besides has its event loop wake every millisecond, and tells how late that was at worst.
"""

import asyncio
import functools
import importlib
import json
import os
import sys
import threading
import time
from typing import Any

TICK_SECONDS = 0.001


def tell(event: str, **fields: Any) -> None:
    """One line, whole whichever thread it comes from."""
    os.write(1, json.dumps({"event": event, "time": time.time(), **fields}).encode() + b"\n")


def clocked(owner: Any, name: str, event: str) -> None:
    """Have `owner.name` tell how long each call took, in wall clock and, where it is no coroutine, CPU seconds."""
    inner = getattr(owner, name)

    @functools.wraps(inner)
    async def later(*args: Any, **named: Any) -> Any:
        began = time.perf_counter()
        try:
            return await inner(*args, **named)
        finally:
            tell(event, seconds=time.perf_counter() - began)

    @functools.wraps(inner)
    def now(*args: Any, **named: Any) -> Any:
        began, cpu = time.perf_counter(), time.thread_time()
        try:
            return inner(*args, **named)
        finally:
            tell(event, seconds=time.perf_counter() - began, cpu_seconds=time.thread_time() - cpu)

    setattr(owner, name, later if asyncio.iscoroutinefunction(inner) else now)


class Ticker:
    """How late the event loop was."""

    def __init__(self) -> None:
        self._worst = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """In the loop that is watched; once."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="ticker")

    async def _run(self) -> None:
        due = time.perf_counter() + TICK_SECONDS
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = time.perf_counter()
            self._worst = max(self._worst, now - due)
            due = now + TICK_SECONDS

    def worst(self) -> float:
        """Seconds, since the last call."""
        worst, self._worst = self._worst, 0.0
        return worst


def watch(ticker: Ticker | None) -> None:
    """Put clocks around the parts of a worker. Imports all of it."""
    from riparian.app.partition.learner import PartitionLearner
    from riparian.app.state import checkpoint
    from riparian.app.worker import assignment, states
    from riparian.app.worker.exposition import metrics
    from riparian.app.worker.task import checkpoints, partition_task

    for module in (
        "riparian.app.worker.application",
        "riparian.app.worker.host",
        "riparian.app.kafka.admin",
        "riparian.app.cli.run.worker",
        "riparian.models.registry",
    ):
        importlib.import_module(module)
    tell("imported")
    clocked(PartitionLearner, "warm_up", "warm")
    clocked(assignment, "fenced_producer", "fence")
    clocked(states.States, "catch_up", "read")
    clocked(checkpoint, "decode", "decode")
    clocked(PartitionLearner, "restore", "restore")
    clocked(states.States, "_restore", "restored")
    clocked(assignment, "read_tails", "sent")
    clocked(checkpoints.Checkpoints, "_take", "take")
    clocked(checkpoints.Checkpoints, "_encode", "encode")

    assign, start, stepped = assignment.Assignment.assign, partition_task.PartitionTask.start, metrics.Metrics.stepped
    revoke, stop = assignment.Assignment.revoke, assignment.Assignment.stop
    begin, checkpointed = checkpoints.Checkpoints.begin, metrics.Metrics.checkpointed
    answered: set[Any] = set()

    async def watched_assign(self: Any, tps: Any) -> Any:
        tell("assign", partitions=sorted({tp.partition for tp in tps}))
        if ticker is not None:
            ticker.start()
        offsets = await assign(self, tps)
        tell("assigned", partitions=sorted({tp.partition for tp in offsets}))
        return offsets

    async def watched_revoke(self: Any) -> None:
        began = time.perf_counter()
        await revoke(self)
        tell("revoked", seconds=time.perf_counter() - began)

    async def watched_stop(self: Any) -> None:
        await stop(self)
        tell("stopped")

    def watched_start(self: Any, epochs: Any) -> None:
        tell("ready", partition=self.partition, offset=self.learner.offsets["features"])
        start(self, epochs)

    def watched_stepped(self: Any, owner: Any, outcome: Any, seconds: float) -> None:
        stepped(self, owner, outcome, seconds)
        if owner not in answered and len(outcome.offsets):
            answered.add(owner)
            tell("answered", partition=owner.partition)

    async def watched_begin(self: Any, beside: Any) -> None:
        between = None if ticker is None else ticker.worst()
        tell("begin", partition=self._partition, stall_between=between)
        await begin(self, beside)

    def watched_checkpoint(self: Any, owner: Any, seconds: float, n_bytes: int) -> None:
        checkpointed(self, owner, seconds, n_bytes)
        state = owner.checkpoints.state
        meta = state.manifest.meta

        def finish() -> None:
            stall = None if ticker is None else ticker.worst()
            tell(
                "checkpoint",
                partition=owner.partition,
                sequence=state.manifest.sequence,
                offset=meta["feature_offset"],
                seconds=seconds,
                bytes=n_bytes,
                log_bytes=state.n_bytes,
                live_bytes=state.live_bytes,
                own_bytes=sum(len(state.chunks[digest]) for digest in state.manifest.chunks()),
                stall=stall,
            )

        # The iteration in which the checkpoint ends belongs to it: the ticker must have had its turn.
        asyncio.get_running_loop().call_later(5 * TICK_SECONDS, finish)

    for owner, name, function in (
        (assignment.Assignment, "assign", watched_assign),
        (assignment.Assignment, "revoke", watched_revoke),
        (assignment.Assignment, "stop", watched_stop),
        (partition_task.PartitionTask, "start", watched_start),
        (checkpoints.Checkpoints, "begin", watched_begin),
        (metrics.Metrics, "stepped", watched_stepped),
        (metrics.Metrics, "checkpointed", watched_checkpoint),
    ):
        setattr(owner, name, function)


def main() -> None:
    arguments = sys.argv[1:]
    ticker = Ticker() if "--ticker" in arguments else None
    watch(ticker)
    from riparian.app.cli import cli

    tell("prepare", threads=threading.active_count())
    cli.main([a for a in arguments if a != "--ticker"], standalone_mode=False)


if __name__ == "__main__":
    main()
