"""`riparian rollback`: back to an older checkpoint."""

import json
import time
from pathlib import Path

import click

from riparian.app.cli import broker_option, json_option, load, stream_argument, with_rights
from riparian.app.errors import StateError
from riparian.app.kafka.connection import Connection


@click.command("rollback")
@stream_argument
@click.option("--to", metavar="VERSION", type=int, help="Number of the checkpoint. Left out: list those there are.")
@click.option("--partition", default=0, show_default=True, help="The partition that goes back.")
@click.option(
    "--models-only", is_flag=True, help="Keep offsets, waiting instances and metrics: forget, do not relearn."
)
@json_option
@broker_option
def command(
    stream: Path, to: int | None, partition: int, models_only: bool, as_json: bool, connection: Connection
) -> None:
    """Make an older checkpoint the state of a partition again; its workers must be stopped.

    Workers learn later records again, in the recorded order: use it for a damaged state, or after topics were repaired.
    With --models-only they keep their offsets and go on with the older models: use it after models learned wrong
    records.
    """
    spec = load(stream, connection)
    if models_only and spec.shares:
        raise StateError(
            f"{spec.name} has learning: shared, so all partitions learn one model, and those of one cannot go back "
            "alone: leave out --models-only, which learns the later records again, or begin a stream of a new name "
            "with an export from before (riparian import --models-only)"
        )

    from riparian.app.state.transfer import rollback, versions

    if to is not None:
        sequence = with_rights(
            spec, connection, "rollback", lambda: rollback(spec, connection, partition, to, models_only=models_only)
        )
        if as_json:
            click.echo(json.dumps({"stream": spec.name, "partition": partition, "sequence": sequence, "from": to}))
        else:
            what = f"the {'models' if models_only else 'state'} of checkpoint {to:,}"
            click.echo(f"{spec.name}, partition {partition} has {what} as checkpoint {sequence:,}.")
        return
    _, found = with_rights(spec, connection, "state", lambda: versions(spec, connection, partition))
    rows = [
        {
            "sequence": manifest.sequence,
            "created": manifest.created_ms,
            "offset": manifest.meta["feature_offset"],
            "label_offset": manifest.meta["label_offset"],
        }
        for manifest, _ in found
    ]
    if as_json:
        click.echo(json.dumps({"stream": spec.name, "partition": partition, "versions": rows}))
        return
    if not rows:
        click.echo(f"{spec.name}, partition {partition}: no checkpoint that is whole")
        return

    from riparian.app.cli.terminal.console import plain_table, stdout_console

    table = plain_table(["checkpoint"], ["created (UTC)", "feature offset", "label offset"])
    for row in rows:
        created = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(row["created"] / 1000.0))
        table.add_row(f"{row['sequence']:,}", created, f"{row['offset']:,}", f"{row['label_offset']:,}")
    stdout_console().print(table)
    click.echo(f"riparian rollback {stream} --partition {partition} --to CHECKPOINT goes back to one of them.")
