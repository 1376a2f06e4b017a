"""`riparian inspect`: what a partition has learned, from its last checkpoint."""

import asyncio
from pathlib import Path

import click

from riparian.app.cli import broker_option, json_option, load, stream_argument
from riparian.app.errors import safe
from riparian.app.kafka.connection import Connection


@click.command("inspect")
@stream_argument
@click.option("--partition", default=0, show_default=True, help="The partition whose model is shown.")
@click.option("--model", "role", default="champion", show_default=True, help="champion, or a challenger's name.")
@click.option("--dot", is_flag=True, help="Print a graph for Graphviz.")
@json_option
@broker_option
def command(stream: Path, partition: int, role: str, dot: bool, as_json: bool, connection: Connection) -> None:
    """Show a model as the last checkpoint of its partition holds it.

    Reads the state's changelog topic and changes nothing; workers may run or not.
    """
    spec = load(stream, connection)

    from riparian.app import inspection
    from riparian.app.cli.terminal.progress import progress
    from riparian.app.kafka.access import rights
    from riparian.app.state import loading

    if not spec.control:  # a command may have brought others
        inspection.check_role(spec, role, spec.models())
    asyncio.run(rights.enter(spec, connection, "inspect"))
    shown = inspection.as_json if as_json else inspection.dot if dot else inspection.text
    with progress(f"stream {spec.name}", only_compiling=True):
        state = loading.load(spec, connection, partition)
        inspection.check_role(spec, role, state.learner.roles)
        text = shown(state, role)
    click.echo("\n".join(map(safe, text.split("\n"))))
