"""`riparian import`: an exported state into a partition's changelog."""

import json
from pathlib import Path

import click

from riparian.app.cli import broker_option, json_option, load, stream_argument, with_rights
from riparian.app.kafka.connection import Connection


@click.command("import")
@stream_argument
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--partition", type=int, help="The partition that gets the state. [default: 0; with --models-only: all]")
@click.option("--replace", is_flag=True, help="Put it in the place of a state that the partition has.")
@click.option("--models-only", is_flag=True, help="Begin a stream that has not predicted yet with its models.")
@json_option
@broker_option
def command(
    stream: Path,
    file: Path,
    partition: int | None,
    replace: bool,
    models_only: bool,
    as_json: bool,
    connection: Connection,
) -> None:
    """Make an exported state that of a partition; its workers must be stopped.

    Workers go on from the offsets that it was exported at, which must be in the stream's topics. With --models-only a
    stream that has not predicted yet begins with the models of the state, in all its partitions. Their number may
    differ, and so may learning. Nothing waits, and nothing is scored.
    """
    spec = load(stream, connection)

    from riparian.app.state.transfer import import_models, import_state, read_file

    exported = read_file(file)
    if models_only:
        offsets, anew = with_rights(
            spec,
            connection,
            "import",
            lambda: import_models(spec, connection, exported, str(file), partition=partition, replace=replace),
        )
        if as_json:
            begun = [{"partition": p, "offsets": found} for p, found in offsets.items()]
            click.echo(json.dumps({"stream": spec.name, "partitions": begun, "anew": anew}))
            return
        of = "all partitions begin" if len(offsets) == spec.partitions else f"partition {partition} begins"
        click.echo(f"{spec.name}: {of} with the models of {file}" + (f"; new are {', '.join(anew)}" if anew else ""))
        for p, found in offsets.items():
            places = [f"{n:,} of the {role}" for role, n in found.items() if n]
            if places:
                click.echo(f"partition {p} goes on at {' and '.join(places)}")
        return
    own = partition or 0
    sequence = with_rights(
        spec, connection, "import", lambda: import_state(spec, connection, own, exported, str(file), replace=replace)
    )
    meta = exported.manifest.meta
    if as_json:
        plain = {
            "stream": spec.name,
            "partition": own,
            "sequence": sequence,
            "offset": meta["feature_offset"],
            "label_offset": meta["label_offset"],
        }
        click.echo(json.dumps(plain))
        return
    click.echo(
        f"{spec.name}, partition {own} has the state of {file} as checkpoint {sequence:,}: a worker goes on at "
        f"feature offset {meta['feature_offset']:,} and label offset {meta['label_offset']:,}."
    )
