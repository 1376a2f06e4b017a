"""`riparian export`: a partition's state as a file."""

import json
from pathlib import Path

import click

from riparian.app.cli import broker_option, json_option, load, stream_argument, with_rights
from riparian.app.kafka.connection import Connection


@click.command("export")
@stream_argument
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--partition", default=0, show_default=True, help="The partition whose state is written.")
@json_option
@broker_option
def command(stream: Path, file: Path, partition: int, as_json: bool, connection: Connection) -> None:
    """Write the last checkpoint of a partition to one file; workers may run."""
    spec = load(stream, connection)

    from riparian.app.state.transfer import export_state

    manifest = with_rights(spec, connection, "export", lambda: export_state(spec, connection, partition, file))
    found = {
        "stream": manifest.stream,
        "partition": manifest.partition,
        "sequence": manifest.sequence,
        "offset": manifest.meta["feature_offset"],
        "label_offset": manifest.meta["label_offset"],
        "file": str(file),
        "bytes": file.stat().st_size,
    }
    if as_json:
        click.echo(json.dumps(found))
        return
    click.echo(
        f"{file}: checkpoint {found['sequence']:,} of {spec.name}, partition {partition}, {found['bytes']:,} bytes; "
        f"next feature offset {found['offset']:,}, next label offset {found['label_offset']:,}."
    )
