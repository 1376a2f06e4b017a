"""`riparian`, dying at a chosen point as kill -9 would have it: python -m tests.broker.crashing POINT FILE worker ...

The process ends itself the first time it comes to POINT while FILE exists; nothing is flushed, closed or said. Where
FILE says `freeze`, it stops instead, once, until it is sent SIGCONT; where it says `stop`, it is asked to end. Every
method that is patched stands in `POINTS`, of workers that copy topics (`rekey`) in `COPYING`, of those whose stream
grows in `GROWING`, and of joint turns in `SHARING`.
"""

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer

import riparian.app.kafka.sending
import riparian.app.state.log
import riparian.app.worker.assignment
import riparian.app.worker.shared.joint_turns
import riparian.app.worker.task.checkpoints
from riparian.app.cli import main
from riparian.app.kafka.sending import Outputs
from riparian.app.state import checkpoint
from riparian.app.worker.context import WorkerContext
from riparian.app.worker.states import States
from riparian.app.worker.task.checkpoints import Checkpoints

EXIT_CODE = 9
FREEZE, STOP = "freeze", "stop"
Method = Callable[..., Awaitable[Any]]
armed = Path()


def die_if_armed() -> None:
    if armed.exists():
        if armed.read_text() == FREEZE:
            armed.unlink()
            os.kill(os.getpid(), signal.SIGSTOP)
            return
        if armed.read_text() == STOP:
            os.kill(os.getpid(), signal.SIGTERM)
            return
        os._exit(EXIT_CODE)


# -- when, in a method ------------------------------------------------------------------------------------------------


def before(method: Method, *args: Any, **named: Any) -> Awaitable[Any]:
    die_if_armed()
    return method(*args, **named)


async def after(method: Method, *args: Any, **named: Any) -> Any:
    result = await method(*args, **named)
    die_if_armed()
    return result


async def after_acknowledged(method: Method, outputs: Outputs, *args: Any, **named: Any) -> Any:
    result = await method(outputs, *args, **named)
    await outputs.flush()
    die_if_armed()
    return result


async def between_batches(method: Method, outputs: Outputs, topic: str, batches: list[Any]) -> Any:
    """Die when the first of several is acknowledged."""
    if armed.exists() and len(batches) > 1:
        await after_acknowledged(method, outputs, topic, batches[:1])
    return await method(outputs, topic, batches)


async def between_records(method: Method, checkpoints: Checkpoints, records: dict[bytes, bytes]) -> Any:
    """Die when half of the records are in the changelog."""
    if armed.exists() and len(records) > 1:
        await after(method, checkpoints, dict(list(records.items())[: len(records) // 2]))
    return await method(checkpoints, records)


async def between_copies(method: Method, checkpoints: Checkpoints, n_written: int) -> Any:
    """Die when half of the old chunks that are copied are in the changelog once more."""
    append = checkpoints._append
    checkpoints._append = lambda records: between_records(lambda _, some: append(some), checkpoints, records)  # type: ignore
    return await method(checkpoints, n_written)


# -- which calls ------------------------------------------------------------------------------------------------------


def chunks(checkpoints: Checkpoints, records: dict[bytes, bytes], *_: Any) -> bool:
    return bool(records) and checkpoint.manifest_key(checkpoints._partition) not in records


def manifest(checkpoints: Checkpoints, records: dict[bytes, bytes], *_: Any) -> bool:
    return checkpoint.manifest_key(checkpoints._partition) in records


def to(topic: str) -> Callable[..., bool]:
    """Sends to the stream's topic of this role."""
    return lambda outputs, name, *_, **__: name.endswith(f".{topic}")


def letters(_: Outputs, name: str, batches: list[Any]) -> bool:
    return name.endswith(".deadletters") and bool(batches)


def every(*_: Any, **__: Any) -> bool:
    return True


class Point(NamedTuple):
    """A method of `owner` and what becomes of those calls for which `which` is true. settings : constants put over."""

    owner: Any
    method: str
    way: Callable[..., Any]
    which: Callable[..., bool] = every
    settings: tuple[tuple[Any, str, float], ...] = ()


CLEANING = (
    (riparian.app.state.log, "CLEAN_BYTES", 0),
    (riparian.app.state.log, "CLEAN_FACTOR", 1),
    (riparian.app.state.log, "HURRY_FACTOR", 1),
)
CUTTING = (*CLEANING, (riparian.app.worker.task.checkpoints, "TRUNCATE_BYTES", 1))
SMALL = (
    (riparian.app.kafka.sending, "MAX_BATCH_BYTES", 8_000),
    (riparian.app.kafka.sending, "LEAST_BATCH_BYTES", 8_000),
)

POINTS = {
    "after the fence": Point(riparian.app.worker.assignment, "fenced_producer", after),
    "before the predictions": Point(Outputs, "send", before, to("predictions")),
    "between predictions": Point(Outputs, "send", between_batches, to("predictions"), settings=SMALL),
    "after the predictions": Point(Outputs, "send", after_acknowledged, to("predictions")),
    "after a dead letter": Point(Outputs, "send", after_acknowledged, letters),
    "before a drift event": Point(Outputs, "send_one", before, to("drift")),
    "after a drift event": Point(Outputs, "send_one", after_acknowledged, to("drift")),
    "between metrics": Point(Outputs, "send_one", after_acknowledged, to("metrics")),
    "before the chunks": Point(Checkpoints, "_append", before, chunks),
    "between the chunks": Point(Checkpoints, "_append", between_records, chunks),
    "before the manifest": Point(Checkpoints, "_append", before, manifest),
    "after the manifest": Point(Checkpoints, "_append", after, manifest),
    "between the copies": Point(Checkpoints, "_clean", between_copies, settings=CLEANING),
    "before the changelog is cut": Point(States, "delete_before", before, settings=CUTTING),
    "after the changelog was cut": Point(States, "delete_before", after, settings=CUTTING),
}


FEW = ((riparian.app.worker.shared.joint_turns, "MOST", 600),)
SHARING = {  # where one worker has all partitions of a shared stream that has a backlog
    "before the log of a joint turn": Point(Outputs, "send", before, to("learned"), settings=FEW),
    "between batches of that log": Point(Outputs, "send", between_batches, to("learned"), settings=(*FEW, *SMALL)),
    "after the log of a joint turn": Point(Outputs, "send", after_acknowledged, to("learned"), settings=FEW),
    "between its partitions": Point(Outputs, "send", after_acknowledged, to("predictions"), settings=FEW),
}


def for_all(outputs: Outputs, name: str, *_: Any) -> bool:
    """Appends by the producer of all partitions."""
    return not outputs._homes and name.endswith(".learned")


APPENDING = {  # where one worker has all partitions of a shared stream
    "before the log of a round": Point(Outputs, "append", before, for_all),
    "after the log of a round": Point(Outputs, "append", after_acknowledged, for_all),
}

COPYING = {
    "before copies are sent": Point(AIOKafkaProducer, "begin_transaction", after),
}


GROWING = {
    "before it begins again": Point(WorkerContext, "crash", after),
}


def install(point: Point) -> None:
    """Patch this process."""
    for owner, name, value in point.settings:
        assert hasattr(owner, name)
        setattr(owner, name, value)
    method = getattr(point.owner, point.method)

    def patched(*args: Any, **named: Any) -> Any:
        return point.way(method, *args, **named) if point.which(*args, **named) else method(*args, **named)

    setattr(point.owner, point.method, patched)


if __name__ == "__main__":
    armed = Path(sys.argv[2])
    install({**POINTS, **SHARING, **APPENDING, **COPYING, **GROWING}[sys.argv[1]])
    del sys.argv[1:3]
    main()
