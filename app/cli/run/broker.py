"""`riparian broker start|stop|status`: a real Apache Kafka on this machine."""

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import click

from riparian.app.cli import json_option
from riparian.app.cli.run.signals import interruptible


def data_option(function: Any) -> Any:
    """The option --data, the same for start, stop and status."""
    return click.option(
        "--data",
        "data_dir",
        metavar="DIR",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path(".riparian") / "broker",
        show_default=True,
        help="Where the broker keeps its topics, log and record.",
    )(function)


@click.group(name="broker")
def command() -> None:
    """Start, stop and look at a local Apache Kafka (one KRaft node on 127.0.0.1)."""


@command.command()
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="Port on 127.0.0.1.  [default: the running broker's, else 9092]",
)
@data_option
@click.option("--foreground", is_flag=True, help="Stay until Ctrl-C, and stop the broker then.")
@json_option
def start(port: int | None, data_dir: Path, foreground: bool, as_json: bool) -> None:
    """Start a broker, and return when it answers.

    Started twice on the same directory, it says so and succeeds. The first start fetches Kafka's jars with Maven.
    """
    from riparian.app.kafka.local_broker import broker

    def report(line: str) -> None:
        click.echo(line, err=True)

    if foreground:
        local = broker.LocalBroker(data_dir, port or broker.DEFAULT_PORT, report)
        with interruptible(), contextlib.suppress(KeyboardInterrupt), local:
            _show(broker.status(data_dir), data_dir, as_json)
            code = local.wait()
            raise click.ClickException(f"Kafka ended by itself (exit code {code}): see {data_dir / 'logs'}.")
        return
    before = broker.status(data_dir)
    with interruptible():
        running = broker.start(data_dir, port=port, report=report)
    if before is not None and before.pid == running.pid and not as_json:
        click.echo("It was running already.", err=True)
    _show(running, data_dir, as_json)


@command.command()
@data_option
@json_option
def stop(data_dir: Path, as_json: bool) -> None:
    """Stop the broker of a data directory (its topics stay)."""
    from riparian.app.kafka.local_broker import broker

    stopped = broker.stop(data_dir)
    if as_json:
        click.echo(json.dumps({"stopped": stopped is not None, "pid": stopped and stopped.pid}))
    elif stopped is None:
        click.echo(f"No broker runs on {data_dir}.")
    else:
        click.echo(f"Stopped Kafka at {stopped.bootstrap} (process {stopped.pid}).")


@command.command()
@data_option
@json_option
def status(data_dir: Path, as_json: bool) -> None:
    """Say whether a broker runs: exit code 0 when it does, 1 when not."""
    from riparian.app.kafka.local_broker import broker

    running = broker.status(data_dir)
    _show(running, data_dir, as_json)
    sys.exit(0 if running else 1)


def _show(running: Any, data_dir: Path, as_json: bool) -> None:
    """Print a broker's record, for people or as JSON."""
    from riparian.app.kafka.local_broker.ports import answers

    if as_json:
        found: dict[str, Any] = {"running": running is not None, "data_dir": str(data_dir.resolve())}
        if running is not None:
            found |= {
                "answers": answers(running.port),
                "bootstrap": running.bootstrap,
                "port": running.port,
                "pid": running.pid,
                "version": running.version,
            }
        click.echo(json.dumps(found))
    elif running is None:
        click.echo(f"No broker runs on {data_dir}.")
    else:
        health = "" if answers(running.port) else ", which does not answer"
        process = f"process {running.pid}{health}"
        click.echo(f"Kafka {running.version} at {running.bootstrap} ({process}), data in {running.data_dir}")
