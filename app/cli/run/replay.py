"""`riparian replay`: publish a file, or a synthetic stream, to a stream's topics."""

import asyncio
import json
from pathlib import Path
from typing import Any

import click

from riparian.app.cli import broker_option, json_option, load, stream_argument
from riparian.app.cli.run.generate import recipe_options
from riparian.app.cli.terminal.parsing import check_label_time, recipe
from riparian.app.kafka.connection import Connection


@click.command("replay")
@stream_argument
@click.argument("data", metavar="[DATA.csv.gz]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--generate", "name", metavar="NAME", help="A synthetic stream instead of a file; `generate --list` names them."
)
@recipe_options
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="Instances a second, in real time. [default: as fast as possible, stamped as if 1,000 a second had come]",
)
@click.option(
    "--label-delay",
    default="0s",
    show_default=True,
    metavar="DURATION",
    help="From an instance's features to its label: 250ms, 30s, 5m, by the records' timestamps.",
)
@click.option(
    "--time",
    "clock",
    metavar="COLUMN",
    help="Stamp each row with its own time: seconds since 1970, or ISO 8601. Excludes --rate.",
)
@click.option(
    "--label-time",
    "label_clock",
    metavar="COLUMN",
    help="Stamp each label with a time of its own; none is sent where that is empty. A row with such a time and no "
    "label gets a label that is null.",
)
@click.option("--label", "target", metavar="COLUMN", help="The column that holds the label. [default: the last]")
@click.option(
    "--date-parts",
    multiple=True,
    metavar="COLUMN",
    help="Make COLUMN_hour and COLUMN_weekday of a column of times, as `evaluate` does. Repeatable.",
)
@click.option("--bag", metavar="COLUMN", help="The column that names the bag of a row. [default, of bags: bag]")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Publish the first N rows only.")
@click.option(
    "--batch-rows",
    type=click.IntRange(min=1, max=1_000_000),
    metavar="N",
    help="Most instances of a record, where the codec is one of many a record (arrow). [default: 1,000]",
)
@click.option("--id-prefix", default="", metavar="TEXT", help="Put before the row's number, which is its id.")
@json_option
@broker_option
def command(
    stream: Path,
    data: Path | None,
    name: str | None,
    made: dict[str, Any],
    rate: float | None,
    label_delay: str,
    clock: str | None,
    label_clock: str | None,
    target: str | None,
    date_parts: tuple[str, ...],
    bag: str | None,
    limit: int | None,
    batch_rows: int | None,
    id_prefix: str,
    as_json: bool,
    connection: Connection,
) -> None:
    """Publish the rows of DATA.csv.gz to the topics of STREAM.yaml: features, and labels after a delay.

    Columns have the features' names, or the last names of their `from`. Missing topics are created. Without --rate
    everything is sent at once, stamped 1 ms apart and ending at about the present time. So a label delay of 30s means
    30,000 instances.

    With --time days between rows are days in the topics, to the labels' delay too. A time before that of an earlier row
    counts as that one.

    Records of many instances (codec: arrow) have the time of their last one.

    With --generate the rows are those that `riparian generate` writes with the same options.
    """
    if (data is None) == (name is None):
        raise click.UsageError("give either DATA.csv.gz or --generate NAME")
    stray = next((option for option in command.params if made.get(str(option.name)) not in (None, ())), None)
    if name is None and stray is not None:
        raise click.UsageError(f"{stray.opts[0]} says what to generate: add --generate NAME, or leave it out")

    if clock is not None and (rate is not None or bag is not None):
        raise click.UsageError("--time takes the times of the rows, so it excludes --rate and --bag")
    check_label_time(label_clock, clock, label_delay != "0s")

    from riparian.app.dataset.instances import label_times_of, times_of
    from riparian.app.errors import DataError
    from riparian.app.evaluation.setup import Setup
    from riparian.app.stream_file.durations import format_duration, parse_duration
    from riparian.topics.codecs import BATCHED

    spec = load(stream, connection)
    if batch_rows is not None and not {spec.codec.features, spec.codec.labels} & BATCHED.keys():
        raise click.UsageError(
            f"--batch-rows is for records of many instances ({', '.join(BATCHED)}), and codec is {spec.codec.plain()}"
        )
    try:
        delay = parse_duration(label_delay, example="30s")
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--label-delay") from None
    generated = None if name is None else recipe(name, **made)
    file = Setup(data=data, recipe=generated, stream=spec, date_parts=date_parts).open()
    if spec.task == "multi-instance":
        bag = bag or "bag"
        target = target or ("label" if "label" in file.names else None)
    elif bag is not None:
        raise click.UsageError(f"--bag is for streams of bags, and the task of {spec.name} is {spec.task}")
    if spec.has_labels:
        file.target(target, spec.features)
    elif target is not None:
        raise click.UsageError(f"--label names the labels, and stream {spec.name} has none: leave it out")
    for feature in spec.mapping().features:
        file.position(feature.name, "a feature or key of the stream")

    from riparian.app.cli.terminal.progress import progress

    with progress("reading the data"):
        rows = file.count(limit)
        times = None if clock is None else times_of(file, clock, limit)
        due = None if times is None or label_clock is None else label_times_of(file, label_clock, times)
        if bag is not None:
            owner = file.position(bag, "the bag of a row")
            owners = [text.strip() for block in file.blocks([owner], limit) for text in block.columns[0]]
            rows = sum(1 for i in range(len(owners)) if i == 0 or owners[i] != owners[i - 1])
    if rows == 0:
        raise DataError(f"{data} has a header and no rows: expected at least one")

    from riparian.app.dataset.rows import rows_of_bags, rows_of_file
    from riparian.app.replay import BATCH_ROWS, publish

    with progress(f"{file.path.name} to {spec.topics.features}", rows) as advance:
        done = asyncio.run(
            publish(
                spec,
                rows_of_file(file, spec, target, limit, id_prefix)
                if bag is None
                else rows_of_bags(file, spec, bag, target, limit, id_prefix),
                connection,
                rate=rate,
                label_delay=delay,
                n=rows,
                times=times,
                due=due,
                batch_rows=batch_rows or BATCH_ROWS,
                on_progress=advance,
            )
        )
    if as_json:
        found = {"stream": spec.name, "data": file.path.name, **done._asdict()}
        click.echo(json.dumps(found | {"records_per_second": round(done.records_per_second)}))
        return
    where = f"{done.features:,} features to {spec.topics.features}"
    if spec.topics.labels is not None:
        where += f", {done.labels:,} labels to {spec.topics.labels}"
    click.echo(f"{where}: {done.seconds:.1f} s, {done.records_per_second:,.0f} records/s, {done.n_bytes:,} bytes")
    horizon = 1000 * spec.join.horizon
    if spec.topics.labels is not None and rate is None and done.end - done.start > horizon:
        days = (done.end - done.start) / 86_400_000
        click.echo(
            f"{days:,.1f} days of records went by at once: start the worker after that. "
            f"One that ran meanwhile may have been {format_duration(spec.join.horizon)} (join.horizon) ahead of the "
            "labels, and have let their instances go.",
            err=True,
        )
