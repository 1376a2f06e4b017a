"""`riparian demo`: the whole thing at once, on this machine."""

import asyncio
import contextlib
import functools
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from riparian.app.cli import broker_option, json_option
from riparian.app.cli.run.signals import interruptible
from riparian.app.cli.run.ui import PORT as PAGE_PORT
from riparian.app.kafka.connection import Connection

if TYPE_CHECKING:
    from riparian.app.demo.run import DemoPlan, Process, Show
    from riparian.app.demo.view import Story, WorkerFigures

LINE_SECONDS = 5.0  # time between two plain lines, s


@click.command("demo")
@functools.partial(
    broker_option, default=None, help="A Kafka that runs already. [default: one of the demo's own, in .riparian/demo]"
)
@click.option("--rows", type=click.IntRange(1, 150_000), default=150_000, show_default=True, help="Payments to stream.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the metrics page. [default: 6066, or a free one]")
@click.option("--page/--no-page", default=True, help="Serve the live page, and open it where there is a browser.")
@click.option("--exit", "exit_", is_flag=True, help="End after the last row, as without a terminal.")
@click.option("--keep", is_flag=True, help="Keep the topics after the end.")
@json_option
def command(
    connection: Connection | None,
    rows: int,
    port: int | None,
    page: bool,
    exit_: bool,
    keep: bool,
    as_json: bool,
) -> None:
    """Start a broker and a worker, stream payments through them, and show how the models do.

    One payment in a hundred is fraud, whose pattern changes twice, and labels come four seconds later. A tree is the
    champion until auto is better; then it is frozen. On a terminal the demo stays up after the last record, until
    Ctrl-C. Every run starts afresh.
    """
    from riparian.app.demo import run as demo

    def report(line: str) -> None:
        click.echo(line, err=as_json)

    folder = Path(".riparian") / "demo"
    chosen, name = demo.choose_port(port), "payments"
    started, local = False, connection is None
    with interruptible() as hold, contextlib.ExitStack() as stack:
        try:
            if connection is None:
                report("Starting Kafka …")
                connection = stack.enter_context(demo.local_broker(folder, keep, report))
            else:
                from riparian.app.kafka.admin import wait_for_broker

                asyncio.run(wait_for_broker(connection, 10.0))
                name = stack.enter_context(demo.foreign_broker(connection, keep))
            plan = demo.make_plan(folder, connection, name, rows, chosen)
            started = True
            worker = stack.enter_context(demo.worker_process(plan))
            address = None
            if page:
                number = demo.choose_port(None, PAGE_PORT)
                address = f"http://127.0.0.1:{number}/"
                shown = stack.enter_context(demo.page_process(plan, number))
                demo.until_ready(shown, f"{address}health", report)
                report(f"Live page: {address}")
            _run(plan, worker, address, as_json, report)
            if sys.stdout.isatty() and not exit_ and not as_json:
                _stay(plan, worker, address)
            elif keep:
                report(_kept(plan, local))
        finally:
            hold()  # what is being stopped is stopped whole
            if started:
                click.echo("Stopping …", err=True)


def _run(plan: "DemoPlan", worker: "Process", page: str | None, as_json: bool, report: Callable[[str], None]) -> None:
    """Stream the payments and sum up. page : address of the live page, which is opened once the worker is ready."""
    from riparian.app.demo import run as demo
    from riparian.app.demo.view import Story

    report(f"Starting a worker of stream {plan.spec.name} on {plan.connection} …")
    story = Story(plan.rows, demo.changes(demo.recipe(plan.rows)))
    demo.until_ready(worker, plan.health_url, report)
    report(f"Metrics: {plan.metrics_url}")
    watched = sys.stdout.isatty() and not as_json
    if page is not None and watched and has_display():
        click.launch(page)
    began = time.monotonic()
    with _table(plan, story) if watched else _lines(story, report) as show:
        demo.stream(plan, worker, show)
    seconds = round(time.monotonic() - began, 1)
    if as_json:
        of = {"payments": plan.rows, "seconds": seconds, "changes": story.changes, "events": story.events}
        click.echo(json.dumps({**of, "recall": story.recalls()}))
        return
    report(f"\n{plan.rows:,} payments in {seconds} s. What happened, by payments:")
    for sentence in (
        *story.events,
        "Recall of fraud by 1 % of alerts, of each pattern the lowest and the last:",
        *story.summary(),
    ):
        report(sentence)


@contextlib.contextmanager
def _lines(story: "Story", report: Callable[[str], None]) -> Iterator["Show"]:
    """Where figures go without a terminal: a line now and then."""
    from riparian.app.demo import view as demo_view

    due = 0.0

    def line(figures: "WorkerFigures", said: str | None) -> None:
        nonlocal due
        story.note(figures, said)
        if figures.at >= due:
            due = figures.at + LINE_SECONDS
            report(demo_view.line(figures, story))

    yield line


@contextlib.contextmanager
def _table(plan: "DemoPlan", story: "Story") -> Iterator["Show"]:
    """Where figures go on a terminal: a live table."""
    from rich.live import Live

    from riparian.app.demo import view as demo_view

    heading = f"stream {plan.spec.name} on {plan.connection}, metrics at {plan.metrics_url}"
    with Live(auto_refresh=False) as live:

        def draw(figures: "WorkerFigures", said: str | None) -> None:
            story.note(figures, said)
            live.update(demo_view.table(heading, figures, story), refresh=True)

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
