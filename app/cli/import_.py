"""`riparian import`: an exported state into a partition's changelog."""

import asyncio
import json
from pathlib import Path

import click

from app.cli import broker_option
from app.kafka.connection import Connection


@click.command("import")
@click.argument("stream", metavar="STREAM.yaml", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--partition", default=0, show_default=True, help="The partition that gets the state.")
@click.option("--replace", is_flag=True, help="Put it in the place of a state that the partition has.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@broker_option
def command(stream: Path, file: Path, partition: int, replace: bool, as_json: bool, connection: Connection) -> None:
    """Make an exported state that of a partition; its workers must be stopped.

    Workers go on from the offsets that it was exported at, which must be in the stream's topics.
    """
    from app.kafka import rights
    from app.stream_file import spec as stream_file

    spec = stream_file.load(stream)

    from app.state.transfer import import_state, read_file

    exported = read_file(file)

    async def run() -> int:
        await rights.enter(spec, connection, "import")
        return await import_state(spec, connection, partition, exported, str(file), replace=replace)

    sequence = asyncio.run(run())
    meta = exported.manifest.meta
    if as_json:
        found = {
            "stream": spec.name,
            "partition": partition,
            "sequence": sequence,
            "offset": meta["feature_offset"],
            "label_offset": meta["label_offset"],
        }
        click.echo(json.dumps(found))
        return
    click.echo(
        f"{spec.name}, partition {partition} has the state of {file} as checkpoint {sequence:,}: a worker goes on at "
        f"feature offset {meta['feature_offset']:,} and label offset {meta['label_offset']:,}."
    )
