"""`riparian compare`: whether a challenger is better than the champion."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from riparian.app.cli import broker_option, json_option, load, stream_argument, with_rights
from riparian.app.kafka.connection import Connection

if TYPE_CHECKING:
    from riparian.app.comparisons import ChallengerComparison


@click.command()
@stream_argument
@json_option
@broker_option
def command(stream: Path, as_json: bool, connection: Connection) -> None:
    """Show whether a challenger is better than the champion, by the predictions that both made.

    All intervals of a champion hold together, at all times: look as often as you like, and stop when it pleases you.

    \b
    riparian compare elec.yaml
    """
    from riparian.app import comparisons
    from riparian.app.cli.terminal import by_value
    from riparian.app.errors import SpecError
    from riparian.app.evaluation.measures.by_value import tables
    from riparian.app.evaluation.measures.objective import most_frequent, objective_of, pooled
    from riparian.topics.names import CHAMPION
    from riparian.topics.records import REGRESSION

    declared = load(stream, connection)
    if len(declared.models()) < 2 and not declared.control:
        raise SpecError(f"challengers: {stream} has none to compare with the champion; add one")

    read = with_rights(declared, connection, "compare", lambda: comparisons.read(declared, connection))
    found, models = read.rows(), read.models()
    segments = tables(declared, (one for record in models.get(CHAMPION, []) for one in record.segments))
    objective = objective_of(declared, most_frequent([one.classes or {} for one in models.get(CHAMPION, [])]))
    values = {role: pooled(objective, records, declared.metrics.window)[0] for role, records in models.items()}
    if as_json:
        judged = {**objective._asdict(), "values": values}
        compared = [row._asdict() for row in found]
        click.echo(
            json.dumps({"stream": declared.name, "objective": judged, "compared": compared, "segments": segments})
        )
    elif found:
        of = ", ".join(f"{role} {objective.text(value)}" for role, value in values.items())
        click.echo(f"{objective.title} over the last labels: {of}")
        unit = "mean absolute error" if declared.task == REGRESSION else "mean cost" if declared.has_costs else None
        _show(declared.name, found, unit)
        by_value.show(segments)
    else:
        click.echo(
            "No label has come yet that both the champion and a challenger had predicted, since either has its role. "
            "Labels of rows that neither knew an answer for do not count."
        )


def _show(stream: str, rows: "list[ChallengerComparison]", unit: str | None) -> None:
    """Print a table, and what its numbers are. unit : of losses; None of shares of errors."""
    from riparian.app.cli.terminal.console import plain_table, stdout_console

    def number(x: float, sign: str = "") -> str:
        return f"{x:{sign}.4g}" if unit else f"{100 * x:{sign}.2f}"

    table = plain_table(["challenger", "partition"], ["labels", "since", "champion's", "its", "fewer by", "interval"])
    table.add_column("is")
    for row in rows:
        since = "-" if row.since is None else datetime.fromtimestamp(row.since / 1000, UTC).strftime("%m-%d %H:%M")
        table.add_row(
            row.challenger,
            "all" if row.partition is None else str(row.partition),
            f"{row.labels:,}",
            since,
            number(row.champion),
            number(row.challenger_loss),
            number(row.difference, "+"),
            f"{number(row.low, '+')} {number(row.high, '+')}",
            row.verdict,
        )
    stdout_console().print(f"{stream}: {unit or 'errors in %'}", table, sep="\n")
    sentence = f"The intervals hold together at all times with a confidence of {100 * rows[0].confidence:g} %."
    if unit:
        sentence += f" An error counts as {max(row.reach for row in rows):.4g} at most."
    click.echo(sentence)
