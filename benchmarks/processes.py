"""The processes that are measured: started and ended with a block, and watched through /proc.

Everything that is compared runs in a process of its own, so that it has an interpreter, an event loop and a share of
the machine of its own; the process that measures sleeps meanwhile.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from prometheus_client.parser import text_string_to_metric_families

from riparian.app.kafka.local_broker.ports import free_port

ROOT = Path(__file__).resolve().parents[1]
POLL_SECONDS = 0.2
SAMPLE_SECONDS = 0.02
STOP_SECONDS = 60.0
TICKS = os.sysconf("SC_CLK_TCK")


class MeasureError(RuntimeError):
    """A measured process ended, or did not do in time what it was started for."""


def cpu_seconds(pid: int, *, first: bool = False) -> float | None:
    """User and system time of a process so far, of all its threads or of the first, which has a worker's event loop;
    None where /proc does not tell."""
    folder = f"/proc/{pid}/task/{pid}" if first else f"/proc/{pid}"
    try:
        fields = Path(f"{folder}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_bytes(pid: int) -> int | None:
    """Resident memory of a process; None where /proc does not tell."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return None


class Child:
    """`python -m MODULE ARGUMENTS`: killed at the end of the block if it has not ended by itself.

    Parameters
    ----------
    folder : Path
        For its log.
    program : tuple of str
        What takes the module and its arguments.
    root : Path
        The checkout whose module it is.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        folder: Path,
        program: tuple[str, ...] = (sys.executable, "-m"),
        root: Path = ROOT,
    ) -> None:
        self.module = module
        self.log = folder / f"{module}-{time.monotonic_ns()}.log"
        self._log = self.log.open("wb")
        self.process = subprocess.Popen(
            [*program, module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=root,  # where `-m` looks first
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()

    @property
    def pid(self) -> int:
        return self.process.pid

    def check(self) -> None:
        """MeasureError where the process has ended."""
        if self.process.poll() is not None:
            tail = self.log.read_text(errors="replace")[-2000:]
            raise MeasureError(f"{self.module} ended with code {self.process.returncode}:\n{tail}")

    def result(self) -> dict[str, Any]:
        """What the process wrote to its standard output, one JSON object, at its end."""
        output, _ = self.process.communicate()
        if self.process.returncode:
            self.check()
        found: dict[str, Any] = json.loads(output)
        return found

    def kill(self) -> None:
        """SIGKILL, and wait: nothing of it runs any more."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """SIGTERM, and wait."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise MeasureError(f"{self.module} does not end when it is asked to") from None


class Worker(Child):
    """`riparian worker` of a stream file, with its web server. root : as `Child` has it."""

    def __init__(
        self,
        stream: Path,
        broker: str,
        folder: Path,
        *more: str,
        module: tuple[str, ...] = ("riparian.app.cli",),
        root: Path = ROOT,
    ) -> None:
        self.port = free_port()
        super().__init__(
            *module,
            *("worker", str(stream), "--broker", broker, "--port", str(self.port)),
            *("--data-dir", str(folder / f"data-{time.monotonic_ns()}")),
            *more,
            folder=folder,
            root=root,
        )

    def _get(self, path: str) -> str | None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                text: str = answer.read().decode()
                return text
        except urllib.error.HTTPError as error:
            raise MeasureError(f"the worker reports {error.read().decode()[:500]}") from None
        except OSError:
            return None

    def partitions(self) -> dict[str, dict[str, int]]:
        """Its partitions with their counts, empty while it starts; STREAM/PARTITION where it has several streams."""
        text = self._get("/health")
        said: dict[str, Any] = json.loads(text) if text else {"partitions": {}}
        if "streams" not in said:
            found: dict[str, dict[str, int]] = said["partitions"]
            return found
        streams = said["streams"].items()
        return {f"{name}/{p}": counts for name, stream in streams for p, counts in stream["partitions"].items()}

    def wait_for_partitions(self, n: int, seconds: float = 60.0) -> None:
        self.wait(lambda: len(self.partitions()) == n, seconds, f"no assignment of {n} partitions")

    def wait_for_labels(self, n: int, seconds: float) -> None:
        """Until all partitions together have taken n instances and n labels, and none waits."""

        def done() -> bool:
            parts = self.partitions().values()
            return (
                sum(part["instances"] for part in parts) >= n
                and sum(part["labels"] for part in parts) >= n
                and not any(part["waiting"] for part in parts)
            )

        self.wait(done, seconds, f"{n:,} instances were not learned")

    def wait_for_instances(self, n: int, seconds: float) -> None:
        """Until all partitions together have taken n instances."""
        self.wait(
            lambda: sum(part["instances"] for part in self.partitions().values()) >= n,
            seconds,
            f"{n:,} instances were not taken",
        )

    def wait(self, done: Callable[[], bool], seconds: float, what: str) -> None:
        """Until `done`, or until the worker has failed or the time is over."""
        deadline = time.monotonic() + seconds
        while not done():
            self.check()
            if time.monotonic() > deadline:
                raise MeasureError(f"{what} within {seconds:.0f} s; the worker says {self.partitions()}")
            time.sleep(POLL_SECONDS)

    def metrics(self) -> dict[str, float]:
        """Its own metrics, summed over partitions (ratios: their mean); labels besides follow the name in braces."""
        text = self._get("/metrics")
        if text is None:
            raise MeasureError("the worker's /metrics does not answer")
        values: dict[str, list[float]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name.startswith("riparian_") and "le" not in sample.labels:
                    rest = [v for k, v in sorted(sample.labels.items()) if k not in ("stream", "partition")]
                    name = sample.name + ("{" + ",".join(rest) + "}" if rest else "")
                    values.setdefault(name, []).append(sample.value)
        return {name: sum(v) / len(v) if "_ratio" in name else sum(v) for name, v in values.items()}


class Watched(Worker):
    """A worker that says when it does what (benchmarks/watched.py).

    Parameters
    ----------
    ticker : bool
        Whether it watches its event loop.
    """

    def __init__(self, stream: Path, broker: str, folder: Path, *more: str, ticker: bool = False) -> None:
        self.started = time.time()
        self.said: list[dict[str, Any]] = []
        self._more = threading.Condition()
        options = ("--ticker",) if ticker else ()
        super().__init__(stream, broker, folder, *more, module=("benchmarks.watched", *options))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._more:
                self.said.append(json.loads(line))
                self._more.notify_all()

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self._reader.join()  # it ends with the process's output
        super().__exit__()

    def heard(self, event: str, after: int = 0) -> list[dict[str, Any]]:
        """All lines of one kind, from the `after`th line on."""
        return [line for line in self.said[after:] if line["event"] == event]

    def wait_to_hear(self, event: str, seconds: float = 60.0, after: int = 0, **least: float) -> dict[str, Any]:
        """The first line of one kind from the `after`th line on, with each named field at least so large."""
        deadline = time.monotonic() + seconds
        with self._more:
            while True:
                while after < len(self.said):
                    line = self.said[after]
                    after += 1
                    if line["event"] == event and all(line[field] >= value for field, value in least.items()):
                        return line
                if self.process.poll() is not None and not self._reader.is_alive():
                    break
                left = deadline - time.monotonic()
                if left < 0:
                    raise MeasureError(f"the worker did not say {event!r} {least or ''} within {seconds:.0f} s")
                self._more.wait(min(left, POLL_SECONDS))
        self.check()
        raise MeasureError(f"the worker ended before it said {event!r}")


class Sampler:
    """CPU time and memory of a process over (wall clock) time, taken by a thread."""

    def __init__(self, pid: int, every: float = SAMPLE_SECONDS) -> None:
        self.pid, self.every = pid, every
        # Seconds since 1970, CPU seconds, resident bytes, CPU seconds of the first thread.
        self.samples: list[tuple[float, float, int, float]] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(self.every):
            cpu, resident, loop = cpu_seconds(self.pid), resident_bytes(self.pid), cpu_seconds(self.pid, first=True)
            if cpu is None or resident is None or loop is None:
                return
            self.samples.append((time.time(), cpu, resident, loop))

    def cpu_between(self, first: float, last: float, column: int = 1) -> float | None:
        """CPU seconds spent between two moments (seconds since 1970); None where nothing is known. column : of
        `samples`, all threads or the first."""
        before = [sample for sample in self.samples if sample[0] <= first]
        after = [sample for sample in self.samples if sample[0] >= last]
        if not before or not after:
            return None
        return after[0][column] - before[-1][column]

    def share(self) -> float | None:
        """CPU seconds a second over all samples; None where nothing is known."""
        if len(self.samples) < 2:
            return None
        (first, before, *_), (last, after, *_) = self.samples[0], self.samples[-1]
        return (after - before) / (last - first)


@contextlib.contextmanager
def ended_by_signals() -> Any:
    """SIGTERM ends the blocks above as Ctrl-C does, so that no process stays behind."""

    def leave(*_: object) -> None:
        raise SystemExit(143)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
