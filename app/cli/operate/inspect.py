"""`riparian inspect`: what a partition has learned, from its last checkpoint."""

import asyncio
from pathlib import Path

import click

from riparian.app.cli import broker_option, load, stream_argument
from riparian.app.cli.operate.deadletters import safe
from riparian.app.kafka.connection import Connection


@click.command("inspect")
@stream_argument
@click.option("--partition", default=0, show_default=True, help="The partition whose model is shown.")
@click.option("--model", "role", default="champion", show_default=True, help="champion, or a challenger's name.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "dot"]),
    default="text",
    show_default=True,
    help="A tree for people, one JSON object, or a graph for Graphviz.",
)
@broker_option
def command(stream: Path, partition: int, role: str, form: str, connection: Connection) -> None:
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
    shown = {"text": inspection.text, "json": inspection.as_json, "dot": inspection.dot}[form]
    with progress(f"stream {spec.name}", only_compiling=True):
        state = loading.load(spec, connection, partition)
        inspection.check_role(spec, role, state.learner.roles)
        text = shown(state, spec, role)
    click.echo("\n".join(map(safe, text.split("\n"))))
