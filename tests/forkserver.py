"""Processes of `riparian` without the seconds that imports take: forked from one process that has imported everything.

`python -m riparian.app.cli worker` spends two seconds of a core before its first line, and the tests start hundreds of
them. One process of a run imports the same modules once, loads the kernels that most streams use, and forks for each
`Process` a child that runs the module as `python -m` would. The child is a process like any other: it is killed, frozen
and limited as one, has its own working directory, environment and output, and ends with the interpreter. One that
executes `python -m` itself, as a worker does that begins again, is followed by a fork, too. What an exec would show
(the command line, a fresh import, another seed of hashes) is left to the tests that start `riparian` as users do.

The run's first process (`tests/conftest.py`) starts the server, which imports nothing until it is asked or gets a line,
and ends when that process does. It has one thread. A `Process` may outlive whoever asked for it, but not the server.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import itertools
import json
import os
import resource
import runpy
import select
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[1]
FOLDER = (
    "TEST_RIPARIAN_FOLDER"  # of the environment: what a run keeps for all of its processes, the server's socket too
)
SOCKET = "forks"
COSTS = "costs"  # file of a line for each process that has ended: seconds of CPU, and the test that asked for it
LENGTH = 8  # bytes that say how long a request is
ANSWER = struct.Struct("!?q")  # whether a process has begun, and its id; else it has ended, and its exit code
FOLLOWED = 97  # exit code of a process that has asked for the one that follows it

# What most streams of the tests run (`tests.broker.harness.stream_file`), and the detectors of drift.
COMMON = {
    "name": "common",
    "task": "classification",
    "features": {"a": "numeric", "b": "numeric", "c": {"type": "nominal"}},
    "champion": {"model": "hoeffding-tree", "grace_period": 50},
    "challengers": {"nb": "naive-bayes", "last": "last-label"},
    "drift": {"detectors": ["adwin"]},
}


def _number_anew() -> None:
    """What a fork compiles has names of its own in machine code, as what another process compiles: riparian's compiler
    draws where numba begins to number functions, once a process."""
    bytecode: Any = sys.modules.get("numba.core.bytecode")
    if bytecode is not None:
        bytecode.FunctionIdentity._unique_ids = itertools.count(int.from_bytes(os.urandom(6)))


os.register_at_fork(after_in_child=_number_anew)


# -- who asks ---------------------------------------------------------------------------------------------------------


class Process:
    """A child of the server that runs a module, as `subprocess.Popen` has it: pid, poll, wait, kill, send_signal.

    Parameters
    ----------
    arguments : sequence of str
        The module and its arguments: what stands behind `python -m`.
    stdout, stderr : int
        Descriptors of files.
    n_files : int, optional
        How many files it may have open.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        stdout: int,
        stderr: int,
        cwd: Path = ROOT,
        env: Mapping[str, str] | None = None,
        n_files: int | None = None,
    ) -> None:
        self.args = [sys.executable, "-m", *arguments]
        self.returncode: int | None = None
        environment = dict(os.environ if env is None else env)
        self._link = _ask(arguments, stdout, stderr, cwd=str(cwd), environment=environment, n_files=n_files)
        _, self.pid = self._answer()

    def poll(self) -> int | None:
        """The exit code (the negative signal, where one ended it), or None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        while self.returncode is None:
            if not select.select([self._link], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            begun, number = self._answer()
            if begun:  # another one in its place
                self.pid = number
                continue
            self.returncode = number
            self._link.close()
        return self.returncode

    def _answer(self) -> tuple[bool, int]:
        begun, number = ANSWER.unpack(_exactly(self._link, ANSWER.size))  # EOFError: the server has gone
        return begun, number

    def send_signal(self, number: int) -> None:
        while self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # another one is about to take its place
                return os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _ask(arguments: Sequence[str], stdout: int, stderr: int, **request: Any) -> socket.socket:
    """Ask the server for a child, whose beginning and end come by the link."""
    body = json.dumps({"arguments": list(arguments), "test": _test(), **request}).encode()
    link = socket.socket(socket.AF_UNIX)
    link.connect(str(_folder() / SOCKET))
    socket.send_fds(link, [len(body).to_bytes(LENGTH)], [stdout, stderr])
    link.sendall(body)
    return link


def _test() -> str:
    """The test that runs in this process, where one does."""
    return os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]


def costs(folder: Path) -> "dict[str, float]":
    """Seconds of CPU of the processes that each test asked for, with all that these waited for; of a server that has
    ended. What none asked for, as the broker, is under ""."""
    found: dict[str, float] = {}
    with contextlib.suppress(FileNotFoundError):
        for line in (folder / COSTS).read_text().splitlines():
            seconds, _, test = line.partition(" ")
            found[test] = found.get(test, 0.0) + float(seconds)
    return found


def _folder() -> Path:
    """The run's. What is no run of tests, a campaign, say, has a server of its own from its first process on."""
    if FOLDER not in os.environ:
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="riparian-run-")
        atexit.register(shutil.rmtree, os.environ[FOLDER], ignore_errors=True)
        start(Path(os.environ[FOLDER]))
    return Path(os.environ[FOLDER])


def run(
    arguments: Sequence[object], *, cwd: Path = ROOT, env: Mapping[str, str] | None = None, timeout: float | None = None
) -> "subprocess.CompletedProcess[str]":
    """As `subprocess.run` with captured text. arguments : the module and its arguments."""
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        process = Process([*map(str, arguments)], stdout=stdout.fileno(), stderr=stderr.fileno(), cwd=cwd, env=env)
        try:
            process.wait(timeout)
        finally:
            process.kill()
            code = process.wait()
        for file in (stdout, stderr):
            file.seek(0)
        return subprocess.CompletedProcess(process.args, code, stdout.read(), stderr.read())


def start(folder: Path) -> "subprocess.Popen[bytes]":
    """The server of a folder, which ends when its standard input closes."""
    server = subprocess.Popen([sys.executable, "-m", __name__, str(folder)], stdin=subprocess.PIPE, cwd=ROOT)
    while not (folder / SOCKET).exists():
        assert server.poll() is None, "the fork server has not started"
        time.sleep(0.01)
    return server


# -- the server -------------------------------------------------------------------------------------------------------


def imports() -> None:
    """Import what workers and commands import, from their first line to their last."""
    from riparian.app.cli import COMMANDS

    for module in {name.partition(":")[0] for name in COMMANDS.values()}:
        importlib.import_module(f"riparian.app.cli.{module}")
    for name in (
        "cli.run.environment", "cli.run.kernels", "cli.terminal.by_value", "cli.terminal.console",
        "cli.terminal.progress", "dataset.dated", "dataset.files.arrow", "dataset.files.synthetic",
        "kafka.access.rights", "kafka.admin", "kafka.client.sources", "kafka.client.wire", "kafka.topics.delays",
        "kafka.topics.lag", "kafka.topics.topic_warnings", "page.server", "replay", "state.audit.audit",
        "state.audit.backtest", "state.audit.moment", "state.transfer", "worker.application", "worker.host",
        "worker.exposition.metrics", "worker.exposition.web",
    ):  # fmt: skip
        importlib.import_module(f"riparian.app.{name}")
    for name in (  # what Faust and the terminal import when they are asked for something
        "faust.app.router", "faust.fixups.django", "faust.tables.objects", "faust.tables.sets", "faust.topics",
        "faust.transport.utils", "rich._emoji_codes", "rich.markup", "rich.progress", "rich.table",
    ):  # fmt: skip
        importlib.import_module(name)


def _prepare() -> None:
    """Import it, change Kafka's clients as all of them do, and load the kernels that most of them run."""
    from riparian.app.cli.run import starting

    starting.quickly()
    imports()
    # Of every package that is installed, which each app of Faust asks for what it adds.
    installed: Any = importlib.import_module("mode.utils.imports")
    installed.entry_points = functools.cache(installed.entry_points)
    installed.entry_points()
    from riparian.app.kafka.connection import DEFAULT, Connection
    from riparian.app.kafka.wire_format import record_batches, written_batches
    from riparian.app.partition.learner import PartitionLearner
    from riparian.app.stream_file.spec import build

    Connection(DEFAULT).faust()
    PartitionLearner(build(COMMON, "common")).warm_up()
    record_batches.warm_up()
    written_batches.warm_up()
    gc.collect()
    gc.freeze()  # no child goes through all of this again


class _Server:
    """Forks a child for each connection, and tells its process id, and its exit code when it has ended."""

    def __init__(self, folder: Path) -> None:
        self._prepared = False
        self._children: dict[int, socket.socket] = {}
        self._left: dict[int, socket.socket] = {}  # by children that have ended for others to follow
        self._costs, self._tests = (folder / COSTS).open("a"), dict[int, str]()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "forks.new"))
        self._listener.listen(64)
        self._woken, self._wakes = socket.socketpair()
        for one in (self._woken, self._wakes):
            one.setblocking(False)
        signal.set_wakeup_fd(self._wakes.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's to answer
        (folder / "forks.new").rename(folder / SOCKET)

    def serve(self) -> dict[str, Any] | None:
        """In a child: what it shall run. In the server itself: None, at the end."""
        with selectors.DefaultSelector() as selector:
            for one in (self._listener, self._woken, sys.stdin):
                selector.register(one, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                if self._woken in ready:
                    self._woken.recv(4096)
                    self._take_ends()
                if self._listener in ready and (request := self._fork()) is not None:
                    return request
                if sys.stdin in ready:
                    if not os.read(sys.stdin.fileno(), 1):
                        self._end()
                        return None
                    self._prepare()

    def _fork(self) -> dict[str, Any] | None:
        link, _ = self._listener.accept()
        head, (stdout, stderr), *_ = socket.recv_fds(link, LENGTH, 2)
        request: dict[str, Any] = json.loads(_exactly(link, int.from_bytes(head)))
        if "follows" in request:
            link.close()
            left = self._left_by(request["follows"])
            if left is None:
                os.close(stdout)
                os.close(stderr)
                return None
            link = left
        self._prepare()
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for one in (link, self._listener, self._woken, self._wakes, *self._children.values(), *self._left.values()):
                one.close()
            nothing = os.open(os.devnull, os.O_RDONLY)
            for number, given in enumerate((nothing, stdout, stderr)):
                os.dup2(given, number)
                os.close(given)
            return request
        os.close(stdout)
        os.close(stderr)
        self._children[child], self._tests[child] = link, request["test"]
        _say(link, child, begun=True)
        return None

    def _left_by(self, child: int) -> socket.socket | None:
        """The link of a child that ends for another to follow; None where somebody has ended it before."""
        if child in self._children:
            self._take_end(*os.wait4(child, 0))
        return self._left.pop(child, None)

    def _prepare(self) -> None:
        if not self._prepared:
            _prepare()
            self._prepared = True

    def _take_ends(self) -> None:
        for child in list(self._children):
            ended, status, used = os.wait4(child, os.WNOHANG)
            if ended:
                self._take_end(ended, status, used)

    def _take_end(self, child: int, status: int, used: resource.struct_rusage) -> None:
        print(used.ru_utime + used.ru_stime, self._tests.pop(child), file=self._costs, flush=True)
        link, code = self._children.pop(child), os.waitstatus_to_exitcode(status)
        if code == FOLLOWED:
            self._left[child] = link
            return
        _say(link, code, begun=False)
        link.close()

    def _end(self) -> None:
        """The caller has ended, or says that it will: nothing is left over."""
        for number, seconds in ((signal.SIGTERM, 30.0), (signal.SIGKILL, 5.0)):
            for child in self._children:
                os.kill(child, number)
            deadline = time.monotonic() + seconds
            while self._children and time.monotonic() < deadline:
                self._take_ends()
                time.sleep(0.02)


def _exactly(link: socket.socket, n: int) -> bytes:
    found = b""
    while len(found) < n:
        if not (more := link.recv(n - len(found))):
            raise EOFError("who asked has ended")
        found += more
    return found


def _say(link: socket.socket, number: int, *, begun: bool) -> None:
    with contextlib.suppress(OSError):  # who asked has gone
        link.sendall(ANSWER.pack(begun, number))


def _follow(_: str, command: Sequence[str]) -> NoReturn:
    """For `os.execv` of `python -m`: the server forks what follows this process, which ends."""
    arguments = command[command.index("-m") + 1 :]
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    _ask(arguments, 1, 2, cwd=os.getcwd(), environment=dict(os.environ), n_files=None, follows=os.getpid())
    os._exit(FOLLOWED)


def _become(request: dict[str, Any]) -> NoReturn:
    """Be the process that was asked for."""
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    if request["n_files"] is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (request["n_files"], request["n_files"]))
    os.execv = _follow  # type: ignore[assignment]
    module, *arguments = request["arguments"]
    sys.argv = [module, *arguments]
    sys.path[0] = request["cwd"]
    code: object = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    # The interpreter's end, but for taking apart what the server has imported.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if isinstance(code, str):
        print(code, file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    asked = _Server(Path(sys.argv[1])).serve()
    if asked is not None:
        _become(asked)
