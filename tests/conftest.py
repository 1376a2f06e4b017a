"""What all tests share: the data sets, one real Kafka a run, topic names, the check that no process is left over."""

import gc
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import forkserver, shared
from tests.spread import ASKED, need_broker, pytest_addoption, pytest_runtestloop, pytest_terminal_summary  # noqa: F401  (hooks)

ROOT = Path(__file__).resolve().parents[1]

# No test asserts a time: a busy machine is slow.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# Of tests that look at what numba compiles: for whoever runs some with the JIT off, to step through a kernel.
INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
jit = pytest.mark.skipif(INTERPRETED, reason="the JIT is off")

# Every process that a test starts inherits this, so that one that was left over is found at the end, whoever its parent
# is by then.
os.environ["TEST_RIPARIAN_RUN"] = uuid.uuid4().hex
MARK = f"TEST_RIPARIAN_RUN={os.environ['TEST_RIPARIAN_RUN']}"
ENDING_SECONDS = 20.0  # for those of a browser, say, that are about to end

# What processes of a run share, and the server that forks workers and commands for all of them.
os.environ[forkserver.FOLDER] = tempfile.mkdtemp(prefix="riparian-run-")
server = forkserver.start(Path(os.environ[forkserver.FOLDER]))


ASKING = pytest.StashKey["subprocess.Popen[bytes]"]()


def pytest_configure(config: pytest.Config) -> None:
    """Where all is run, the server gets ready while the tests are collected."""
    gc.disable()  # what collection makes stays: to look for cycles in it takes a third of its time
    if config.getoption("processes") and server.stdin is not None:
        server.stdin.write(b"!")
        server.stdin.flush()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Where all is run, the broker gets ready before the first test asks for it, if one will; and what commands import
    is there for the process of each file."""
    config = session.config
    if config.getoption("processes") and not config.option.collectonly and need_broker(session.items):
        config.stash[ASKING] = subprocess.Popen([sys.executable, "-m", "tests.shared"], cwd=ROOT)
        forkserver.imports()
    gc.enable()


def end_asking(config: pytest.Config) -> None:
    """A run that was cut short may end before its broker is there."""
    asking = config.stash.get(ASKING, None)
    if asking is not None:
        asking.terminate()
        asking.wait()


# Where colorama is installed, as here by a tool, numba colours thousands of sentences that nobody sees, a twentieth of
# the time that kernels take to compile.
os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")

# numba keeps compiled kernels beside their source, where that can be written; else in a folder of ours, named before
# anything imports numba.
if not os.access(ROOT / "models", os.W_OK):
    os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"riparian-numba-{os.getuid()}"))


# Files that take longest, with a broker and without, so that none of them is left when all others are done.
LONGEST = (
    *("test_registry", "test_secured", "test_ui", "test_chaos", "test_rekey", "test_acls", "test_shared_learning"),
    *("test_demo", "test_misbehaviour", "test_growing", "test_control", "test_first_pages", "test_init", "test_bench"),
    *("test_outages", "test_crash_points", "test_past", "test_mistakes", "test_replica", "test_same_bits"),
)
LAST = "test_kernels"  # of all kernels together, which are compiled by then


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """First: files of the learners' contract, which compile most kernels, and those that take longest."""
    contract = dict.fromkeys(item.path.stem for item in items if item.path.parent.name == "contract")
    place = {stem: i for i, stem in enumerate([*LONGEST, *contract])}
    items.sort(key=lambda item: (item.path.stem == LAST, place.get(item.path.stem, len(place))))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of the public data sets (elec.csv.gz, weather.csv.gz, …); skips where it is absent."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"the public data sets are not at {folder}")
    return folder


@pytest.fixture(scope="session")
def broker() -> Iterator[str]:
    """A real Kafka on a free port, started once a run: its bootstrap address."""
    yield shared.broker()
    clients = sys.modules.get("tests.broker.clients")
    for kept in () if clients is None else clients.KEPT:
        kept.end()


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A real schema registry on a free port, started once a run: tests.broker.registry.LocalRegistry."""
    from tests.broker.registry import LocalRegistry

    with LocalRegistry(tmp_path_factory.mktemp("registry")) as local:
        yield local


@pytest.fixture
def state_key(monkeypatch: pytest.MonkeyPatch) -> str:
    """A key that states are signed with; pickles of other libraries' models are loaded with one only."""
    key = uuid.uuid4().hex
    monkeypatch.setenv("RIPARIAN_STATE_KEY", key)
    return key


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A name for topics and streams that no other test of any run has."""
    test = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:40]
    return f"{test}-{uuid.uuid4().hex[:8]}"


def leftovers(mark: str, own_pid: int) -> dict[int, str]:
    """Processes other than our own that carry the mark in their environment (Linux; elsewhere none is seen)."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        try:
            if pid == own_pid or mark.encode() not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:  # ended meanwhile, or another user's
            continue
        # multiprocessing's own bookkeeper ends with us, by a pipe of its own
        if command and "multiprocessing.resource_tracker" not in command:
            found[pid] = command
    return found


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run that leaves a process behind fails (and ends it)."""
    fits = sys.modules.get("riparian.models.batch.process")
    if fits is not None:
        fits.PROCESSES.close()
    end_asking(session.config)
    assert server.stdin is not None
    server.stdin.close()
    server.wait()
    session.config.stash[ASKED] = forkserver.costs(Path(os.environ[forkserver.FOLDER]))
    shutil.rmtree(os.environ[forkserver.FOLDER])
    deadline = time.monotonic() + ENDING_SECONDS
    while (found := leftovers(MARK, os.getpid())) and time.monotonic() < deadline:
        time.sleep(0.1)
    if not found:
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    for pid, command in found.items():
        if reporter is not None:
            reporter.write_line(f"LEFT OVER: process {pid}: {command[:200]}", red=True)
        os.kill(pid, signal.SIGKILL)
    session.exitstatus = pytest.ExitCode.TESTS_FAILED
