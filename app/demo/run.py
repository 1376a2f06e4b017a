"""The demo: a broker, a worker, and the electricity data streamed through both, until it is told to end.

Everything lives below one folder (`.riparian/demo`) and every run starts afresh: a local broker's topics are removed
before the start, and on somebody's own broker the stream gets a name of its own. The worker is a process like any other
worker; it and the broker end with the demo, even when the demo is killed with -9
(app/kafka/local_broker/supervisor.py).

With immediate labels each label is acknowledged before the features after it are sent, and the worker takes the two
topics in that order, so the figures are those of `riparian evaluate` to the last digit, which the demo checks.
"""

import asyncio
import contextlib
import json
import secrets
import shutil
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

from riparian.app import compiling
from riparian.app.demo import view as demo_view
from riparian.app.errors import BrokerError, RiparianError
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.local_broker.supervisor import Supervised
from riparian.app.stream_file.spec import Spec, load
from riparian.topics.names import CHAMPION

DATA = Path(__file__).with_name("data") / "elec.csv.gz"
TEMPLATE = Path(__file__).with_name("data") / "elec.yaml"
N_ROWS = 45_312
DEFAULT_PORT = 6066
WORKER_SECONDS = 120.0  # longest wait for the worker's next line, or for it to be ready, s
COMPILING_SECONDS = 900.0  # longest wait after a line that it compiles kernels, s; machines may be slow or busy
STALL_SECONDS = 60.0  # without any progress, something is wrong
LOOK_SECONDS = 0.5  # time between two looks at the worker, s


class DemoPlan(NamedTuple):
    """What a run does.

    rate : instances/s
    label_delay : seconds
    port : of the worker's web server
    """

    folder: Path
    connection: Connection
    stream: Path
    spec: Spec
    rows: int
    rate: float
    label_delay: float
    port: int

    @property
    def metrics_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/metrics"

    @property
    def health_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/health"


Show = Callable[[int, demo_view.WorkerFigures], None]


def write_stream(folder: Path, name: str) -> Path:
    """The stream file of a run, from the template in the package."""
    text = TEMPLATE.read_text(encoding="utf-8").replace("name: elec\n", f"name: {name}\n", 1)
    path = folder / "elec.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@contextlib.contextmanager
def local_broker(folder: Path, keep: bool, report: Callable[[str], None]) -> Iterator[Connection]:
    """A broker below `folder`, without topics of an earlier run. Its topics go at the end, unless kept."""
    from riparian.app.kafka.local_broker import broker

    data_dir = folder / "broker"
    running = broker.status(data_dir)
    if running is not None:
        raise BrokerError(
            f"a demo runs in {folder} already (Kafka is process {running.pid}, on {running.bootstrap}): end that one "
            "first, or start this one in another folder"
        )
    shutil.rmtree(data_dir / "kafka", ignore_errors=True)
    local = broker.LocalBroker(data_dir, report=report)
    local.start()
    try:
        yield Connection(local.bootstrap)
    finally:
        local.stop()
        if not keep:
            shutil.rmtree(data_dir / "kafka", ignore_errors=True)


@contextlib.contextmanager
def foreign_broker(connection: Connection, keep: bool) -> Iterator[str]:
    """Somebody's own broker: a new name for the stream, whose topics go at the end, unless kept.

    Its consumer group stays, empty, until the broker forgets it: the client cannot delete groups.
    """
    name = f"elec-demo-{secrets.token_hex(3)}"
    try:
        yield name
    finally:
        if not keep:
            asyncio.run(_delete_topics(connection, name))


async def _delete_topics(connection: Connection, stream: str) -> None:
    admin = connection.admin()
    await admin.start()
    try:
        # The name is random, so all topics with it belong to this run, the changelog too.
        mine = [topic for topic in await admin.list_topics() if stream in topic]
        await admin.delete_topics(mine)
    finally:
        await admin.close()


class Process:
    """A command over the plan's stream file as a process that ends when this one does.

    Parameters
    ----------
    plan : Plan
    name : of the command. It also names its log.
    options : of the command.
    """

    def __init__(self, plan: DemoPlan, name: str, *options: str) -> None:
        self.name = name
        self.log = plan.folder / f"{name}.log"
        words = [name, str(plan.stream), *plan.connection.arguments(), *options]
        self._command = [sys.executable, "-m", "riparian.app.cli", *words, "--data-dir", str(plan.folder / name)]
        self._supervised: Supervised | None = None

    def __enter__(self) -> Self:
        self.log.unlink(missing_ok=True)
        self._supervised = Supervised(str(self.log), self._command)
        return self

    def __exit__(self, *_: object) -> None:
        """SIGTERM: a worker writes a last checkpoint; it is killed where that takes more than ten seconds."""
        if self._supervised is not None:
            self._supervised.end()

    def lines(self) -> list[str]:
        """What is in its log."""
        return self.log.read_text(encoding="utf-8", errors="replace").splitlines() if self.log.exists() else []

    def check(self) -> None:
        """RiparianError with its own last words where it has ended."""
        assert self._supervised is not None
        code = self._supervised.process.poll()
        if code is None:
            return
        lines = self.lines()
        last = lines[-1].removeprefix("riparian: ") if lines else "it said nothing"
        raise RiparianError(f"the {self.name} ended with exit code {code} ({last}): see {self.log}")


def worker_process(plan: DemoPlan) -> Process:
    """Its worker."""
    return Process(plan, "worker", "--port", str(plan.port))


def page_process(plan: DemoPlan, port: int) -> Process:
    """The live page, without what it remembers of an earlier run: that had other topics."""
    shutil.rmtree(plan.folder / "ui", ignore_errors=True)
    return Process(plan, "ui", "--port", str(port))


async def until_page(page: Process, address: str) -> None:
    """Wait until the live page answers."""
    deadline = time.monotonic() + WORKER_SECONDS
    while True:
        page.check()
        with contextlib.suppress(OSError, ValueError):
            await asyncio.to_thread(_json, f"{address}health")
            return
        if time.monotonic() > deadline:
            raise RiparianError(f"the live page does not answer at {address}: see {page.log}, or give --no-page")
        await asyncio.sleep(0.1)


async def until_ready(plan: DemoPlan, worker: Process, report: Callable[[str], None]) -> None:
    """Wait until the worker has its partition; what it says meanwhile, that it compiles kernels, is passed on."""
    deadline, seen = time.monotonic() + WORKER_SECONDS, 0
    while True:
        worker.check()
        lines = worker.lines()
        for line in lines[seen:]:
            compiles = compiling.BEGINNING in line
            deadline = time.monotonic() + (COMPILING_SECONDS if compiles else WORKER_SECONDS)
            if compiles:
                report(line.removeprefix("riparian: "))
        seen = len(lines)
        with contextlib.suppress(OSError, ValueError):
            if (await asyncio.to_thread(_json, plan.health_url))["partitions"]:
                return
        if time.monotonic() > deadline:
            raise RiparianError(f"the worker is not ready, although it runs, and says no more: see {worker.log}")
        await asyncio.sleep(0.1)


def _json(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=5.0) as answer:
        found: dict[str, Any] = json.loads(answer.read())
    return found


async def stream(plan: DemoPlan, worker: Process, show: Show) -> demo_view.WorkerFigures:
    """Replay the data and show how the worker is doing, until the last label is learned; the last figures."""
    from riparian.app.dataset.files.data import DataFile
    from riparian.app.dataset.rows import rows_of_file
    from riparian.app.replay import publish

    sent = 0

    def progress(n: int) -> None:
        nonlocal sent
        sent = n

    rows = rows_of_file(DataFile(DATA), plan.spec, limit=plan.rows)
    replay = asyncio.create_task(
        publish(
            plan.spec,
            rows,
            plan.connection,
            rate=plan.rate,
            label_delay=plan.label_delay,
            n=plan.rows,
            on_progress=progress,
        )
    )
    try:
        moved, before = time.monotonic(), (-1, -1, -1)
        while True:
            worker.check()
            figures = await asyncio.to_thread(_figures, plan)
            show(sent, figures)
            if replay.done():
                replay.result()
                if figures.learned == plan.rows and all(m.scored == plan.rows for m in figures.models):
                    return figures
            now = (sent, figures.instances, sum(model.scored for model in figures.models))
            if now != before:
                moved, before = time.monotonic(), now
            elif time.monotonic() - moved > STALL_SECONDS + plan.label_delay:
                raise RiparianError(
                    f"nothing moved for {STALL_SECONDS:.0f} s, with {figures.instances:,} of {plan.rows:,} instances "
                    f"predicted and {figures.learned:,} learned: see {worker.log}"
                )
            await asyncio.wait([replay], timeout=LOOK_SECONDS) if not replay.done() else await asyncio.sleep(0.1)
    finally:
        replay.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await replay


def _figures(plan: DemoPlan) -> demo_view.WorkerFigures:
    try:
        return demo_view.scrape(plan.metrics_url)
    except (OSError, ValueError) as error:
        raise BrokerError(f"the worker does not answer at {plan.metrics_url} ({error})") from error


def evaluated(plan: DemoPlan) -> dict[str, Any]:
    """What `riparian evaluate` says about the champion on the same rows, in memory."""
    from riparian.app.dataset.files.data import DataFile
    from riparian.app.evaluation.evaluate import evaluate, spec_for

    file = DataFile(DATA)
    name, parameters = plan.spec.models()[CHAMPION]
    spec, goal, n = spec_for(file, name, parameters, stream=plan.spec, limit=plan.rows)
    return evaluate(file, spec, goal, n, limit=plan.rows)


def evaluate_command(plan: DemoPlan) -> str:
    """The command that evaluates the same rows, to try."""
    limit = "" if plan.rows == N_ROWS else f" --limit {plan.rows}"
    model = plan.spec.models()[CHAMPION][0]
    return f"riparian evaluate {DATA} --model {model} --stream {plan.stream}{limit}"


def choose_port(port: int | None, usual: int = DEFAULT_PORT) -> int:
    """The port of a page: as asked for, else the usual one, else a free one."""
    from riparian.app.kafka.local_broker.ports import free_port, port_is_free

    if port is None:
        return usual if port_is_free(usual) else free_port()
    if not port_is_free(port):
        raise BrokerError(f"port {port} of 127.0.0.1 is in use: choose another with --port, or leave it out")
    return port


def make_plan(folder: Path, connection: Connection, name: str, **settings: Any) -> DemoPlan:
    """Write the stream file of a run. settings : rows, rate, label_delay and port, as in Plan."""
    path = write_stream(folder, name)
    return DemoPlan(folder, connection, path, load(path), **settings)
