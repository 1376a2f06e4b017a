"""`riparian grow`: the partitions that a stream was given."""

import json
from pathlib import Path

import click

from riparian.app.cli import broker_option, json_option, load, stream_argument, with_rights
from riparian.app.kafka.connection import Connection


@click.command("grow")
@stream_argument
@json_option
@broker_option
def command(stream: Path, as_json: bool, connection: Connection) -> None:
    """Let a stream go on with the partitions that its features and labels were given, where its file says grow: ask.

    \b
      riparian grow fraud.yaml
    """
    spec = load(stream, connection)
    from riparian.app.state.growing import allow

    said = with_rights(spec, connection, "grow", lambda: allow(spec, connection))
    click.echo(json.dumps({"stream": spec.name, "said": said}) if as_json else said)
