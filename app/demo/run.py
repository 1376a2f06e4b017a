"""The demo: a broker, a worker, and payments streamed through both, of which one in a hundred is fraud.

Fraud changes its pattern twice, at `changes`. A tree is the champion until `auto` is better for sure. It is then
frozen, and `auto` goes on.

Everything lives below one folder (`.riparian/demo`) and every run starts afresh: a local broker's topics are removed
before the start, and on somebody's own broker the stream gets a name of its own. The worker is a process like any other
worker; it and the broker end with the demo, even when the demo is killed with -9
(app/kafka/local_broker/supervisor.py).
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

import numpy as np

from riparian.app import compiling
from riparian.app.dataset.files.synthetic import Recipe
from riparian.app.demo import view as demo_view
from riparian.app.errors import BrokerError, RiparianError
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.local_broker.supervisor import Supervised
from riparian.app.stream_file.sections.models import AUTO
from riparian.app.stream_file.spec import Spec, load
from riparian.topics.names import CHAMPION

TEMPLATE = Path(__file__).with_name("data") / "payments.yaml"
N_ROWS, SEED = 150_000, 1
CAMPAIGN = 27  # days
WORLD = {"customers": 1000, "terminals": 2800, "bad_customers": 2, "bad_terminals": 1, "campaign": CAMPAIGN}
RATE = 1500  # payments/s: a day in 1.25 s
LABEL_DELAY = "4s"
TREE = "tree"  # the challenger that is promoted at once, and frozen once it is one again
FROZEN_AT = 37_500  # payments predicted; not before
DEFAULT_PORT = 6066
WORKER_SECONDS = 120.0  # longest wait for the worker's next line, or for it to be ready, s
COMPILING_SECONDS = 900.0  # longest wait after a line that it compiles kernels, s; machines may be slow or busy
STALL_SECONDS = 60.0  # without any progress, something is wrong
LOOK_SECONDS = 0.5  # time between two looks at the worker, s


class DemoPlan(NamedTuple):
    """What a run does. port : of the worker's web server."""

    folder: Path
    connection: Connection
    stream: Path
    spec: Spec
    rows: int
    port: int

    @property
    def auto(self) -> str | None:
        """Name of the learner that `auto` is here; None where the stream file names another champion."""
        return self.spec.models()[CHAMPION][0] if self.spec.champion.model == AUTO else None

    @property
    def metrics_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/metrics"

    @property
    def health_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/health"


Show = Callable[[demo_view.WorkerFigures, str | None], None]  # with a command that was given


def recipe(rows: int = N_ROWS, seed: int = SEED) -> Recipe:
    """The payments."""
    return Recipe("payments", rows, seed, WORLD)


def changes(of: Recipe) -> list[int]:
    """Numbers of the first payments of a new pattern of fraud."""
    from riparian.models.streams.generators.payments import BEGIN, DAY

    days = (of.open().take(of.n).x[:, 0] - BEGIN) / DAY
    return list(map(int, np.searchsorted(days, np.arange(CAMPAIGN, days[-1], CAMPAIGN))))


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
    name = f"payments-demo-{secrets.token_hex(3)}"
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
    """A command over the plan's stream file as a process that ends when this one does. name : of the command, and of
    its log; the words after it and the options are `options`."""

    def __init__(self, plan: DemoPlan, name: str, *options: str) -> None:
        self.name, self.log = name, plan.folder / f"{name}.log"
        words = [name, str(plan.stream), *options, *plan.connection.arguments()]
        self._command = [sys.executable, "-m", "riparian.app.cli", *words]
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

    @property
    def ended(self) -> bool:
        """Whether it runs no more."""
        assert self._supervised is not None
        return self._supervised.process.poll() is not None

    def check(self, may_end: bool = False) -> None:
        """RiparianError with its own last words where it has ended. may_end : not where it has done its work."""
        assert self._supervised is not None
        code = self._supervised.process.poll()
        if code is None or (may_end and code == 0):
            return
        lines = self.lines()
        last = lines[-1].removeprefix("riparian: ") if lines else "it said nothing"
        raise RiparianError(f"the {self.name} ended with exit code {code} ({last}): see {self.log}")


def worker_process(plan: DemoPlan) -> Process:
    """Its worker."""
    return Process(plan, "worker", "--port", str(plan.port), "--data-dir", str(plan.folder / "worker"))


def page_process(plan: DemoPlan, port: int) -> Process:
    """The live page, without what it remembers of an earlier run: that had other topics."""
    shutil.rmtree(plan.folder / "ui", ignore_errors=True)
    return Process(plan, "ui", "--port", str(port), "--data-dir", str(plan.folder / "ui"))


def replay_process(plan: DemoPlan) -> Process:
    """What sends payments and labels."""
    made = [word for name, value in WORLD.items() for word in ("--set", f"{name}={value}")]
    paced = ["-n", str(plan.rows), "--seed", str(SEED), "--rate", str(RATE), "--label-delay", LABEL_DELAY]
    return Process(plan, "replay", "--generate", "payments", *made, *paced)


def until_ready(process: Process, url: str, report: Callable[[str], None]) -> None:
    """Wait until a worker has its partition, or the live page answers; what it says meanwhile, that it compiles
    kernels, is passed on."""
    deadline, seen = time.monotonic() + WORKER_SECONDS, 0
    while True:
        process.check()
        lines = process.lines()
        for line in lines[seen:]:
            compiles = compiling.BEGINNING in line
            deadline = time.monotonic() + (COMPILING_SECONDS if compiles else WORKER_SECONDS)
            if compiles:
                report(line.removeprefix("riparian: "))
        seen = len(lines)
        with contextlib.suppress(OSError, ValueError):
            if _json(url).get("partitions", True):
                return
        if time.monotonic() > deadline:
            raise RiparianError(
                f"the {process.name} is not ready, although it runs, and says no more: see {process.log}"
            )
        time.sleep(0.1)


def _json(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=5.0) as answer:
        found: dict[str, Any] = json.loads(answer.read())
    return found


def stream(plan: DemoPlan, worker: Process, show: Show) -> None:
    """Send the payments, steer the models, and show how these do, until the last label is learned."""
    due = [(FROZEN_AT, "freeze"), (1, "promote")]
    moved, before = time.monotonic(), (-1, -1)
    with contextlib.ExitStack() as stack:
        ends = [stack.enter_context(replay_process(plan))]
        while True:
            worker.check()
            for process in ends:
                process.check(may_end=True)
            obeyed = all(command.ended for command in ends[1:])
            try:
                figures = demo_view.scrape(plan.metrics_url, plan.auto)
            except (OSError, ValueError) as error:
                if time.monotonic() - moved > STALL_SECONDS:  # not at once: on a busy machine an answer may come late
                    raise BrokerError(f"the worker does not answer at {plan.metrics_url} ({error})") from error
                time.sleep(LOOK_SECONDS)
                continue
            said = None
            # The champion goes by no other name: a command to the tree waits until it is a challenger.
            if due and obeyed and figures.instances >= due[-1][0] and TREE in {one.role for one in figures.models}:
                said = due.pop()[1]
                ends.append(stack.enter_context(Process(plan, said, TREE, "--wait", "600")))
            show(figures, said)
            if figures.learned == plan.rows:
                return
            now = (figures.instances, figures.learned)
            if now != before:
                moved, before = time.monotonic(), now
            elif time.monotonic() - moved > STALL_SECONDS:
                raise RiparianError(
                    f"nothing moved for {STALL_SECONDS:.0f} s, with {figures.instances:,} of {plan.rows:,} payments "
                    f"predicted and {figures.learned:,} learned: see {worker.log}"
                )
            time.sleep(LOOK_SECONDS)


def choose_port(port: int | None, usual: int = DEFAULT_PORT) -> int:
    """The port of a page: as asked for, else the usual one, else a free one."""
    from riparian.app.kafka.local_broker.ports import free_port, port_is_free

    if port is None:
        return usual if port_is_free(usual) else free_port()
    if not port_is_free(port):
        raise BrokerError(f"port {port} of 127.0.0.1 is in use: choose another with --port, or leave it out")
    return port


def make_plan(folder: Path, connection: Connection, name: str, rows: int, port: int) -> DemoPlan:
    """Write the stream file of a run, from the template in the package."""
    text = TEMPLATE.read_text(encoding="utf-8").replace("name: payments\n", f"name: {name}\n", 1)
    path = folder / "payments.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return DemoPlan(folder, connection, path, load(path), rows, port)
