"""`riparian lag`: how many records a stream's workers have not taken yet."""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from riparian.app.cli import broker_option, load, streams_argument, with_rights
from riparian.app.cli.terminal.messages import for_each
from riparian.app.kafka.connection import Connection

if TYPE_CHECKING:
    from riparian.app.kafka.topics.lag import LagReport


@click.command()
@streams_argument
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; of several files, one a line.")
@partial(broker_option, each=True)
def command(streams: tuple[Path, ...], as_json: bool, connections: list[Connection]) -> None:
    """Show how far a stream's workers are behind, per partition of each input topic.

    processed: the next record that a worker takes, as its last predictions and metrics show. checkpoint: the record
    from which it would go on after a crash. lag: records from processed to the end.
    """
    for_each(streams, lambda place: _print_lag(streams[place], connections[place], as_json))


def _print_lag(stream: Path, connection: Connection, as_json: bool) -> None:
    from riparian.app.kafka.topics.lag import lag

    declared = load(stream, connection)
    report = with_rights(declared, connection, "lag", lambda: lag(declared, connection))
    lags = [row.lag for row in report.rows if row.lag is not None]
    total = sum(lags) if len(lags) == len(report.rows) else None
    if as_json:
        found = {
            "stream": declared.name,
            "group": report.group,
            "workers": report.workers,
            "lag": total,
            "partitions": [row._asdict() for row in report.rows],
        }
        click.echo(json.dumps(found))
        return
    _show(declared.name, report, total)


def _show(stream: str, report: "LagReport", total: int | None) -> None:
    """Print the report as a table."""
    from riparian.app.cli.terminal.console import plain_table, stdout_console

    workers = f"{report.workers} worker{'' if report.workers == 1 else 's'}"
    table = plain_table(["topic"], ["partition", "start", "end", "processed", "checkpoint", "lag"])
    for row in report.rows:
        numbers = (row.start, row.end, row.processed, row.committed, row.lag)
        table.add_row(row.topic, str(row.partition), *("-" if n is None else f"{n:,}" for n in numbers))
    console = stdout_console()
    console.print(f"{stream}: {workers}, group {report.group}", soft_wrap=True)
    console.print(table)
    if total is not None:
        waits = sum(row.lag or 0 for row in report.rows if row.copied)
        console.print(f"{total:,} records behind{f', {waits:,} of them not copied yet' if waits else ''}.")
    elif all(row.processed is None for row in report.rows):
        console.print(f"No worker has processed anything yet, and the group {report.group} has committed nothing.")
    else:
        console.print("Of some partitions nothing has been processed yet.")
    reset = [f"{row.topic}[{row.partition}]" for row in report.rows if row.foreign is not None]
    if reset:
        console.print(
            f"The offsets of the group {report.group} for {', '.join(reset)} are none of a checkpoint of this version "
            "(kafka-consumer-groups.sh --reset-offsets, say). Workers do not read them: they go on from their state.",
            soft_wrap=True,
        )
    for row in report.rows:
        gone = 0 if row.processed is None else row.start - row.processed
        if gone > 0:
            console.print(
                f"{row.topic}, partition {row.partition}: Kafka has deleted {gone:,} records that were not processed "
                "(retention.ms of the topic, by the records' timestamps).",
                soft_wrap=True,
            )
