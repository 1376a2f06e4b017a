"""The process of a worker: the applications of its streams, in one event loop, with one end.

Each stream keeps a consumer group, clients and an `Assignment` of its own, as in a worker of its own, so
that it may move between the two at any time. Shared is what a process has once: Python with its libraries, the
compiled kernels, the event loop, the web server, the log. What one stream cannot recover from ends them all, as a
supervisor that starts the process again is the one cure there is.
"""

import asyncio
import gc
import logging
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import faust
from mode import Service
from mode.types import ServiceT

from riparian.app.errors import RiparianError
from riparian.app.worker.assignment import Assignment
from riparian.app.worker.exposition import connection_limits
from riparian.app.worker.faust_client.topic_watch import GrownError
from riparian.app.worker.naming import STREAM, Named

COLLECT_SECONDS = 5.0
REPEAT_SECONDS = 10.0

# Every worker says so whenever another one starts or stops.
REBALANCING = "Heartbeat failed for group %s because it is rebalancing"


class Hosted(NamedTuple):
    """A stream of this process: its file, its Faust app, its assignment."""

    file: Path
    app: Any
    assignment: Assignment


class Repeated(logging.Filter):
    """Lets each line of a logger through once in `REPEAT_SECONDS`: while the broker is away, the Kafka client would
    write 40 lines a second. What is said of every healthy rebalance stays out."""

    def __init__(self) -> None:
        super().__init__()
        self._until: dict[tuple[str | None, str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now, line = time.monotonic(), (STREAM.get(), record.name, str(record.msg))
        if record.msg == REBALANCING or now < self._until.get(line, 0.0):
            return False
        self._until[line] = now + REPEAT_SECONDS
        return True


class Host(faust.Worker):  # type: ignore[misc]
    """Faust's worker, with several apps. It would start one after the other, each when the one before has recovered;
    here all start at once, and all stop at once.

    Attributes
    ----------
    signalled : bool
        Whether a signal has asked it to stop.
    """

    signalled = False

    def __init__(self, streams: Sequence[Hosted], **settings: Any) -> None:
        self.streams = streams
        super().__init__(*(stream.app for stream in streams), **settings)
        self.spinner = None  # it writes escape codes, into log files too

    def on_init_dependencies(self) -> Iterable[ServiceT]:
        for stream in self.streams:
            stream.app.beacon.reattach(self.beacon)  # by which a crash finds the way here
        return []

    def on_setup_root_logger(self, logger: logging.Logger, level: int) -> None:
        super().on_setup_root_logger(logger, level)
        for handler in logger.handlers if len(self.streams) > 1 else ():
            handler.setFormatter(Named(handler.formatter or logging.Formatter()))

    def _install_signal_handlers_unix(self) -> None:
        super()._install_signal_handlers_unix()
        for number in (signal.SIGINT, signal.SIGTERM):  # besides the loop's own, which has its last turn before the end
            signal.signal(number, self._on_signal)

    def _on_signal(self, *_: Any) -> None:
        self.signalled = True

    def give_up(self) -> None:
        """Begin to stop."""
        self._schedule_shutdown(signal.SIGTERM)

    async def on_start(self) -> None:
        await super().on_start()
        for stream in self.streams:
            stream.app.in_worker = True
            self.add_future(self._run(stream))

    async def _run(self, stream: Hosted) -> None:
        STREAM.set(stream.assignment.spec.name)
        await stream.app.maybe_start()

    async def on_stop(self) -> None:
        await super().on_stop()
        await asyncio.gather(*map(self._end, self.streams))

    async def _end(self, stream: Hosted) -> None:
        STREAM.set(stream.assignment.spec.name)
        try:
            await stream.app.stop()
        except asyncio.CancelledError:  # the client's own
            pass
        except Exception as error:
            self.log.exception("Error while stopping: %r", error)

    async def _sentinel_task(self) -> None:
        """Between the end of the last task and that of the loop. mode's own sleeps for a second, while a worker that
        was told to stop has nothing left to do."""

    @Service.timer(COLLECT_SECONDS)  # type: ignore[untyped-decorator]
    async def _collect(self) -> None:
        # The Kafka client leaves cycles behind that hold on to fetched batches, megabytes each.
        gc.collect()


def _freeze() -> None:
    """Leave what there is out of later collections, each of which would go through it while everything waits."""
    gc.collect()
    gc.freeze()


def run(streams: Sequence[Hosted], *, loglevel: str, own_lines: bool = False) -> None:
    """Run the worker until a signal; raises what made a stream crash. Kernels must be warm by now.

    own_lines : leave the log as it is set up; else Faust sets up lines of its own.
    """
    # Batches are lists of short-lived objects: collecting at Python's default threshold costs more than it frees. What
    # is in cycles goes with the timer.
    gc.freeze()
    gc.enable()  # it is off while a worker starts
    gc.set_threshold(50_000, 50, 50)
    connection_limits.raise_file_limit()
    # Faust sets the root logger to DEBUG whatever is asked for; its client would build a record for every debug line,
    # a quarter of the time that it takes to fetch.
    for library in ("aiokafka", "asyncio", "faust", "mode"):
        logging.getLogger(library).setLevel(loglevel.upper())
    if loglevel != "debug":
        # That a timer began late, or took long, on a machine that is busy: it does what it has to do all the same.
        logging.getLogger("mode.timers").setLevel(logging.ERROR)
        for name in logging.root.manager.loggerDict:
            if name.partition(".")[0] == "aiokafka":
                logging.getLogger(name).addFilter(Repeated())
    host = Host(
        streams,
        loglevel=loglevel,
        redirect_stdouts=False,
        quiet=True,
        logging_config=None,
        override_logging=not own_lines,
    )
    for stream in streams:
        stream.assignment.worker.give_up = host.give_up
        stream.assignment.settled = _freeze
    try:
        host.execute_from_commandline()
    except SystemExit:
        error = _failure(streams, host.signalled)
        if error is not None:
            raise error from None
        raise
    logging.shutdown()


def _failure(streams: Sequence[Hosted], signalled: bool) -> BaseException | None:
    """Why one of the streams has ended the worker, by the name of its file where there are others. That topics have
    grown comes after all else, and is no reason to begin again for a worker that a signal has asked to stop."""
    failed = [stream for stream in streams if stream.assignment.worker.failure is not None]
    failed.sort(key=lambda stream: isinstance(stream.assignment.worker.failure, GrownError))
    if not failed:
        return None
    error, others = failed[0].assignment.worker.failure, len(streams) > 1
    if isinstance(error, GrownError) and signalled:
        return None
    return error.within(str(failed[0].file)) if others and isinstance(error, RiparianError) else error
