"""`riparian demo`: the whole thing at once, on this machine."""

import asyncio
import contextlib
import functools
import os
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from riparian.app.cli import broker_option
from riparian.app.cli.run.signals import interruptible
from riparian.app.cli.run.ui import PORT as PAGE_PORT
from riparian.app.kafka.connection import Connection

if TYPE_CHECKING:
    from riparian.app.demo.run import DemoPlan, Process, Show
    from riparian.app.demo.view import WorkerFigures

LINE_SECONDS = 5.0  # time between two plain lines, s


@click.command("demo")
@functools.partial(
    broker_option, default=None, help="A Kafka that runs already. [default: one of the demo's own, in .riparian/demo]"
)
@click.option(
    "--rows", type=click.IntRange(1, 45_312), default=45_312, show_default=True, help="Rows of elec to stream."
)
@click.option(
    "--rate",
    type=click.FloatRange(1, 100_000),
    default=1000.0,
    show_default=True,
    metavar="N",
    help="Instances a second.",
)
@click.option(
    "--label-delay",
    default="0s",
    show_default=True,
    metavar="DURATION",
    help="From an instance's features to its label, such as 5s; 0s: before the next features.",
)
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the metrics page. [default: 6066, or a free one]")
@click.option("--page/--no-page", default=True, help="Serve the live page, and open it where there is a browser.")
@click.option("--exit", "exit_", is_flag=True, help="End after the last row, as without a terminal.")
@click.option("--keep", is_flag=True, help="Keep the topics after the end.")
def command(
    connection: Connection | None,
    rows: int,
    rate: float,
    label_delay: str,
    port: int | None,
    page: bool,
    exit_: bool,
    keep: bool,
) -> None:
    """Start a broker and a worker, stream the electricity data through them, and show how the models do.

    A Hoeffding tree is the champion; naive Bayes and the last label are its challengers. On a terminal the demo stays
    up after the last record, until Ctrl-C. Every run starts afresh.
    """
    from riparian.app.stream_file.durations import parse_duration

    try:
        delay = parse_duration(label_delay, example="5s")
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--label-delay") from None

    from riparian.app.demo import run as demo

    folder = Path(".riparian") / "demo"
    settings: dict[str, Any] = {"rows": rows, "rate": rate, "label_delay": delay, "port": demo.choose_port(port)}
    started, local = False, connection is None
    with interruptible() as hold, contextlib.ExitStack() as stack:
        try:
            if connection is None:
                click.echo("Starting Kafka …")
                connection = stack.enter_context(demo.local_broker(folder, keep, click.echo))
                plan = demo.make_plan(folder, connection, "elec", **settings)
            else:
                from riparian.app.kafka.admin import wait_for_broker

                asyncio.run(wait_for_broker(connection, 10.0))
                name = stack.enter_context(demo.foreign_broker(connection, keep))
                plan = demo.make_plan(folder, connection, name, **settings)
            started = True
            worker = stack.enter_context(demo.worker_process(plan))
            address = None
            if page:
                number = demo.choose_port(None, PAGE_PORT)
                address = f"http://127.0.0.1:{number}/"
                shown = stack.enter_context(demo.page_process(plan, number))
                asyncio.run(demo.until_page(shown, address))
                click.echo(f"Live page: {address}")
            same = _run(plan, worker, address)
            if sys.stdout.isatty() and not exit_:
                _stay(plan, worker, address)
            elif keep:
                click.echo(_kept(plan, local))
        finally:
            hold()  # what is being stopped is stopped whole
            if started:
                click.echo("Stopping …", err=True)
    if not same:
        sys.exit(1)


def _run(plan: "DemoPlan", worker: "Process", page: str | None) -> bool:
    """Stream the data and sum up. Returns whether the figures equal those of `riparian evaluate`, where they must.

    page : address of the live page, which is opened once the worker is ready.
    """
    from riparian.app.demo import run as demo

    click.echo(f"Starting a worker of stream {plan.spec.name} on {plan.connection} …")
    began = time.monotonic()

    async def stream() -> "WorkerFigures":
        nonlocal began
        await demo.until_ready(plan, worker, click.echo)
        click.echo(f"Metrics: {plan.metrics_url}")
        if page is not None and sys.stdout.isatty() and has_display():
            click.launch(page)
        began = time.monotonic()
        with _view(plan) as show:
            return await demo.stream(plan, worker, show)

    figures = asyncio.run(stream())
    seconds = time.monotonic() - began
    labels = f"labels {plan.label_delay:g} s late" if plan.label_delay else "immediate labels"
    click.echo(f"\n{plan.rows:,} instances of elec in {seconds:.1f} s, {labels}")
    click.echo(f"{'model':<10}{'learner':<18}{'accuracy':<22}{'kappa':>8}{'nodes':>8}")
    for model in figures.models:
        kappa = "–" if model.kappa is None else f"{model.kappa:.4f}"
        click.echo(f"{model.role:<10}{model.learner:<18}{model.accuracy!r:<22}{kappa:>8}{model.nodes:>8,}")
    if plan.label_delay:
        return True
    if plan.rate > 1000:
        click.echo(
            "At more than 1,000 a second several instances share a millisecond, and all their features go first."
        )
        return True
    expected = demo.evaluated(plan)["accuracy"]
    same = bool(figures.models[0].accuracy == expected)
    verdict = "the same to the last digit" if same else "NOT THE SAME: please report this"
    click.echo(f"In memory, the champion has {expected!r}, {verdict}:\n  {demo.evaluate_command(plan)}")
    return same


@contextlib.contextmanager
def _view(plan: "DemoPlan") -> Iterator["Show"]:
    """Where figures go: a live table on a terminal, a line now and then elsewhere."""
    from riparian.app.demo import view as demo_view

    rate = demo_view.Rate()
    if not sys.stdout.isatty():
        due = 0.0

        def line(sent: int, figures: "WorkerFigures") -> None:
            nonlocal due
            speed = rate(figures.at, figures.instances)
            if figures.at >= due:
                due = figures.at + LINE_SECONDS
                click.echo(demo_view.line(sent, plan.rows, figures, speed))

        yield line
        return
    from rich.live import Live

    heading = f"stream {plan.spec.name} on {plan.connection}, metrics at {plan.metrics_url}"
    with Live(auto_refresh=False) as live:

        def draw(sent: int, figures: "WorkerFigures") -> None:
            speed = rate(figures.at, figures.instances)
            live.update(demo_view.table(heading, sent, plan.rows, figures, speed), refresh=True)

        yield draw


def has_display() -> bool:
    """Whether a browser can show something here. Over SSH without a display, a text browser would take the terminal."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _stay(plan: "DemoPlan", worker: "Process", page: str | None) -> None:
    """Stay up until Ctrl-C, so that people can look around."""
    click.echo("\nEverything stays up.")
    if page is not None:
        click.echo(f"Live page: {page}")
    click.echo(f"Try, in another terminal,\n  curl {plan.metrics_url}")
    click.echo(f"  riparian inspect {plan.stream} {shlex.join(plan.connection.arguments())}")
    click.echo("Ctrl-C ends it.")
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(0.5)
            worker.check()


def _kept(plan: "DemoPlan", local: bool) -> str:
    again = f"riparian broker start --data {plan.folder / 'broker'} has them again"
    where = again if local else f"on {plan.connection}"
    return f"The topics of stream {plan.spec.name} are kept: {where}."
