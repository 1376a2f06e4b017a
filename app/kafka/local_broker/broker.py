"""A real Apache Kafka on this machine: one KRaft node on 127.0.0.1, for the demo, the tests and a first try.

Two ways to hold it:

- `start`, `stop`, `status`: a daemon that survives the command, known by a record in its data directory;
- `LocalBroker`: a context manager whose broker lives as long as the calling process, and dies with it even when that is
  killed with -9 (app/kafka/local_broker/supervisor.py).

The data directory holds `broker.json` (the record: process id, its start time, port), `server.properties` as
rendered, `kafka/` (topics) and `logs/`. The record names a process by its id *and* its start time, so a reused id is
never killed. Whoever starts or stops holds the directory's lock.
"""

import base64
import contextlib
import json
import os
import select
import signal
import string
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from riparian.app.errors import BrokerError
from riparian.app.kafka.local_broker.java import (
    BROKER_FILES,
    archive_name,
    class_archive,
    find_java,
    kafka_jars,
    kafka_version,
    locked,
)
from riparian.app.kafka.local_broker.ports import answers, free_port, port_is_free
from riparian.app.kafka.local_broker.supervisor import Supervised

DEFAULT_PORT = 9092
READY_SECONDS = 120.0  # on a busy machine; one that ends meanwhile is seen at once
STOP_SECONDS = 20.0
LAST_LINES = 12  # of a log that a message shows
STOPPED = 128 + signal.SIGTERM  # the exit code of a Java that was asked to stop

# Java's options, by the names that Kafka's own scripts read. One compiler tier: against the default two, 6 million
# records of 80 bytes in and out cost 3.3-4.3 s of CPU instead of 5.7, and a start takes 1.4 s instead of 2.1. The
# serial collector: 230 MB resident, against 275 (G1) and 320 (parallel), at the same rates; 200 MB with one tier.
JAVA_OPTIONS = {
    "KAFKA_HEAP_OPTS": "-Xms128m -Xmx512m",
    "KAFKA_JVM_PERFORMANCE_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


class Running(NamedTuple):
    """A broker's record: what `broker.json` holds."""

    data_dir: Path
    pid: int
    started: str  # the process's start time as the system tells it; with the pid it names one process for good
    port: int
    version: str

    @property
    def bootstrap(self) -> str:
        """HOST:PORT for Kafka clients."""
        return f"127.0.0.1:{self.port}"


# processes -----------------------------------------------------------------------------------------------------------


def process_start(pid: int) -> str | None:
    """When a process started, as text that is equal for one process only; None when it is gone (or a zombie)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
    except OSError:
        return None
    else:
        fields = stat.rpartition(")")[2].split()  # the name before it may hold spaces
        return None if fields[0] in "ZX" else fields[19]
    shown = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True)
    state, _, started = shown.stdout.strip().partition(" ")
    return started.strip() if started and not state.startswith("Z") else None


def alive(running: Running) -> bool:
    """Whether the recorded process still runs."""
    return process_start(running.pid) == running.started


def _wait_until_gone(running: Running, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while alive(running):
        if time.monotonic() > deadline:
            return False
        with contextlib.suppress(ChildProcessError):
            os.waitpid(running.pid, os.WNOHANG)  # it is our own child when one process starts and stops it
        time.sleep(0.02)
    return True


# the data directory --------------------------------------------------------------------------------------------------


def _record_path(data_dir: Path) -> Path:
    return data_dir / "broker.json"


def _write_record(running: Running) -> None:
    path = _record_path(running.data_dir)
    fresh = path.with_suffix(".tmp")
    fresh.write_text(json.dumps({**running._asdict(), "data_dir": str(running.data_dir)}) + "\n", encoding="utf-8")
    fresh.replace(path)


def status(data_dir: Path) -> Running | None:
    """The broker that runs on a data directory, or None."""
    try:
        fields = json.loads(_record_path(data_dir).read_text(encoding="utf-8"))
        running = Running(data_dir.resolve(), *(fields[name] for name in Running._fields[1:]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return running if alive(running) else None


def log_tail(data_dir: Path) -> str:
    """The last lines of what the broker wrote: of its log, and of what Java said when it could not even start."""
    lines: list[str] = []
    for name in ("java.out", "server.log"):
        with contextlib.suppress(OSError):
            lines += (data_dir / "logs" / name).read_text(encoding="utf-8", errors="replace").splitlines()
    lines = [line for line in lines if not line.startswith("\tat ")]  # where in Kafka it was thrown mends nothing
    return "\n".join(lines[-LAST_LINES:]) or "(its log is empty)"


class Runtime(NamedTuple):
    """What runs Kafka. options : Java's, for the classes that it loads."""

    java: str
    jars: list[Path]
    options: list[str]


def _mapped_classes(java: str, jars: list[Path], report: Callable[[str], None], seconds: float) -> list[str]:
    """Java's option by which Kafka's classes are mapped from an archive: a start takes 1.7 s of CPU instead of 3.1, and
    a third of the time. The archive is made once; where that fails, Kafka starts without it."""
    folder = jars[0].parent
    with contextlib.suppress(OSError, BrokerError), locked(folder.with_suffix(".lock")):
        archive = class_archive(java, folder)
        if archive is None:
            report("Recording the classes that Kafka loads, for faster starts (once) …")
            archive = _record_classes(java, jars, seconds)
        return [f"-XX:SharedArchiveFile={archive}"] if archive.stat().st_size else []
    return []


def _record_classes(java: str, jars: list[Path], seconds: float) -> Path:
    """Make the archive: by a broker that starts and stops, and then does so with what the first wrote (11 s of CPU
    in all). Archives of other Javas, 50 MB each, and damaged ones go."""
    folder = jars[0].parent
    with tempfile.TemporaryDirectory(prefix="recording-", dir=folder) as scratch:
        made = Path(scratch) / "classes"
        for option in ("ArchiveClassesAtExit", "SharedArchiveFile"):
            runtime = Runtime(java, jars, [f"-XX:{option}={made}", "-Xlog:disable"])
            recorded = LocalBroker(Path(scratch) / "broker", runtime=runtime)
            recorded.start(seconds)
            code = recorded.stop(READY_SECONDS)
            if code != STOPPED:
                raise BrokerError(f"Kafka ended with exit code {code}, which may leave half an archive.")
            made.touch()
            if not made.stat().st_size:
                break
        for old in folder.glob("classes-*.jsa"):
            old.unlink()
        return made.rename(folder / archive_name(java, made))


def _prepare(
    data_dir: Path,
    port: int,
    report: Callable[[str], None],
    seconds: float,
    overrides: str = "",
    format_options: Sequence[str] = (),
    runtime: Runtime | None = None,
) -> list[str]:
    """Make the data directory ready for one start; return the command that runs Kafka on it."""
    if runtime is None:
        java, jars = find_java(), kafka_jars(data_dir, report)
        runtime = Runtime(java, jars, _mapped_classes(java, jars, report, seconds))
    java, jars, mapped = runtime
    kafka, logs = data_dir / "kafka", data_dir / "logs"
    if "," in str(kafka):
        raise BrokerError(f"Kafka reads a comma as a list of directories, found one in {kafka}: choose another --data.")
    logs.mkdir(parents=True, exist_ok=True)
    for name in ("java.out", "server.log"):  # a failed start shows its own last lines, not an earlier one's
        with contextlib.suppress(FileNotFoundError):
            (logs / name).replace(logs / f"{name}.previous")
    properties = data_dir / "server.properties"
    # Of two lines for one property, Java takes the later.
    template = string.Template((BROKER_FILES / "server.properties").read_text(encoding="utf-8") + overrides)
    filled = template.substitute(port=port, controller_port=free_port(port), log_dir=str(kafka).replace("\\", "\\\\"))
    properties.write_text(filled, encoding="utf-8")
    common = [
        f"-Driparian.logs={logs}",
        f"-Dlog4j2.configurationFile={(BROKER_FILES / 'log4j2.properties').as_uri()}",
        "-cp",
        os.pathsep.join(map(str, jars)),
    ]
    if not (kafka / "meta.properties").exists():
        cluster = "R" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]  # an id must not begin with "-"
        tool = ["kafka.tools.StorageTool", "format", "-t", cluster, "--ignore-formatted", "-c", str(properties)]
        done = subprocess.run(
            [java, "-XX:TieredStopAtLevel=1", *mapped, *common, *tool, *format_options],
            capture_output=True, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode != 0:
            shown = "\n".join((done.stdout + done.stderr).strip().splitlines()[-8:])
            raise BrokerError(
                f"Kafka could not format its storage in {kafka}: see to that directory. It said:\n{shown}"
            )
    options = [option for name, usual in JAVA_OPTIONS.items() for option in os.environ.get(name, usual).split()]
    return [java, *options, *mapped, "-Djava.awt.headless=true", *common, "kafka.Kafka", str(properties)]


def ready(running: Running) -> bool:
    """Whether it answers a client."""
    return answers(running.port)


def _wait_until_ready(running: Running, seconds: float) -> None:
    """Wait for the port and an answered request; BrokerError when they do not come."""
    deadline = time.monotonic() + seconds
    while not ready(running):
        dead = not alive(running)
        if dead or time.monotonic() > deadline:
            what = "ended while starting" if dead else f"did not answer within {seconds:.0f} s"
            raise BrokerError(
                f"Kafka {what}: see {running.data_dir / 'logs'}, or choose an empty directory with --data. "
                f"Its last lines:\n{log_tail(running.data_dir)}"
            )
        with contextlib.suppress(ChildProcessError):
            os.waitpid(running.pid, os.WNOHANG)
        time.sleep(0.05)


def end(running: Running, seconds: float = STOP_SECONDS) -> None:
    """End a recorded broker: ask it to stop, and kill it when it does not; its record goes last."""
    try:
        if alive(running):
            os.kill(running.pid, signal.SIGTERM)
        if not _wait_until_gone(running, seconds):
            os.kill(running.pid, signal.SIGKILL)
            _wait_until_gone(running, seconds)
    except ProcessLookupError:
        pass
    except PermissionError:
        raise BrokerError(
            f"The broker (process {running.pid}) belongs to another user: stop it as that user."
        ) from None
    _record_path(running.data_dir).unlink(missing_ok=True)


def _check_port(port: int) -> None:
    if not port_is_free(port):
        who = "a Kafka broker that was not started from this data directory" if answers(port) else "another program"
        raise BrokerError(
            f"Port {port} of 127.0.0.1 is in use by {who}: choose another with --port, or name that broker by --broker."
        )


def silent(line: str) -> None:
    """Progress for nobody."""


# the daemon ----------------------------------------------------------------------------------------------------------


def start(
    data_dir: Path,
    *,
    port: int | None = None,
    report: Callable[[str], None] = silent,
    seconds: float = READY_SECONDS,
) -> Running:
    """Start a broker that survives this process; where one runs already, return that.

    Parameters
    ----------
    data_dir : Path
        Made when absent; its topics are kept from one start to the next.
    port : int, optional
        Default: the running broker's, else 9092.
    report : callable
        Told what takes long, one line at a time.
    seconds : float
        How long to wait for an answer.
    """
    data_dir = data_dir.resolve()
    with locked(data_dir / "lock"):
        running = status(data_dir)
        if running is not None:
            if port not in (None, running.port):
                raise BrokerError(
                    f"A broker runs on {data_dir} already, at port {running.port}, not {port}: stop it first "
                    f"(riparian broker stop), or choose another --data."
                )
            _wait_until_ready(running, seconds)
            return running
        port = DEFAULT_PORT if port is None else port
        _check_port(port)
        command = _prepare(data_dir, port, report, seconds)
        process: subprocess.Popen[bytes] | None = None
        try:
            with (data_dir / "logs" / "java.out").open("ab") as output:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
                )
            process.returncode = 0  # a daemon: let Popen neither wait for it nor warn that nobody did
            running = _recorded(data_dir, process.pid, port)
            _wait_until_ready(running, seconds)
        except BaseException:  # Ctrl-C too: a start that fails leaves nothing
            if process is not None:
                end(Running(data_dir, process.pid, process_start(process.pid) or "", port, ""))
            raise
    return running


def _recorded(data_dir: Path, pid: int, port: int) -> Running:
    started = process_start(pid)
    if started is None:
        raise BrokerError(f"Kafka ended at once. Its last lines:\n{log_tail(data_dir)}")
    running = Running(data_dir, pid, started, port, kafka_version())
    _write_record(running)
    return running


def stop(data_dir: Path) -> Running | None:
    """Stop the broker of a data directory; return what was stopped, or None where nothing ran."""
    data_dir = data_dir.resolve()
    if not data_dir.is_dir():
        return None
    with locked(data_dir / "lock"):
        running = status(data_dir)
        if running is not None:
            end(running)
        return running


# the broker of one process -------------------------------------------------------------------------------------------


class LocalBroker:
    """A broker that lives as long as this process.

    Parameters
    ----------
    data_dir : Path
        Made when absent; its topics are kept from one start to the next.
    port : int, optional
        Default: a free one, kept by later starts of the same object.
    report : callable
        Told what takes long, one line at a time.
    properties : str
        Lines that override those of deploy/broker/server.properties; ${port} and ${controller_port} are filled in.
    format_options : sequence of str
        Of Kafka's StorageTool, at the first start: `--add-scram`, say.
    runtime : Runtime, optional
        Default: the jars of the pom.

    Notes
    -----
    `start` after `stop` or `kill` comes back on the same port with the same topics: an outage, for tests.

        with LocalBroker(folder) as broker:
            producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap)
    """

    def __init__(
        self,
        data_dir: Path,
        port: int | None = None,
        report: Callable[[str], None] = silent,
        properties: str = "",
        format_options: Sequence[str] = (),
        runtime: Runtime | None = None,
    ) -> None:
        self.data_dir = data_dir.resolve()
        self.port = port
        self._report = report
        self._properties = properties
        self._format_options = format_options
        self._runtime = runtime
        self._supervised: Supervised | None = None
        self._running: Running | None = None

    def __enter__(self) -> "LocalBroker":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def bootstrap(self) -> str:
        """HOST:PORT for Kafka clients."""
        return self._known().bootstrap

    @property
    def pid(self) -> int:
        """The process id of Kafka itself."""
        return self._known().pid

    def _known(self) -> Running:
        if self._running is None:
            raise BrokerError(f"The broker on {self.data_dir} has not been started: call start() first.")
        return self._running

    @property
    def alive(self) -> bool:
        """Whether Kafka's process runs."""
        return self._running is not None and alive(self._running)

    def start(self, seconds: float = READY_SECONDS) -> None:
        """Start Kafka and wait until it answers."""
        if self.alive:
            return
        self._reap()
        with locked(self.data_dir / "lock"):
            other = status(self.data_dir)
            if other is not None:
                raise BrokerError(
                    f"A broker runs on {self.data_dir} already (port {other.port}, process {other.pid}): use it with "
                    f"--broker {other.bootstrap}, or stop it first (riparian broker stop)."
                )
            port = free_port() if self.port is None else self.port
            _check_port(port)
            command = _prepare(
                self.data_dir, port, self._report, seconds, self._properties, self._format_options, self._runtime
            )
            self._supervised = Supervised(str(self.data_dir / "logs" / "java.out"), command)
            try:
                self._running = _recorded(self.data_dir, self._first_line(self._supervised), port)
                _wait_until_ready(self._running, seconds)
            except BaseException:
                self._reap()
                _record_path(self.data_dir).unlink(missing_ok=True)
                raise
            self.port = port

    def _first_line(self, supervised: Supervised) -> int:
        """Kafka's process id, from the supervisor's first line."""
        output = supervised.process.stdout
        assert output is not None
        readable, _, _ = select.select([output], [], [], READY_SECONDS)
        line = output.readline() if readable else b""
        if not line:
            raise BrokerError(f"Kafka could not be started. Last lines:\n{log_tail(self.data_dir)}")
        return int(line)

    def stop(self, seconds: float = STOP_SECONDS) -> int:
        """Stop Kafka in good order, and kill it after these seconds; what it holds stays in the data directory. Return
        its exit code."""
        if self._running is not None:
            with locked(self.data_dir / "lock"):
                end(self._running, seconds)
        return self._reap()

    def kill(self) -> None:
        """End Kafka as a crash does (SIGKILL)."""
        running = self._known()
        with contextlib.suppress(ProcessLookupError):
            if alive(running):
                os.kill(running.pid, signal.SIGKILL)
        _wait_until_gone(running, STOP_SECONDS)
        self._reap()

    def wait(self) -> int:
        """Block until Kafka ends; return its exit code."""
        return 0 if self._supervised is None else self._supervised.process.wait()

    def _reap(self) -> int:
        """Let the supervisor end (it ends Kafka first, where that still runs); return Kafka's exit code."""
        code = 0 if self._supervised is None else self._supervised.end()
        self._supervised = None
        return code
