"""`riparian deadletters`: the records that were rejected, counted, shown and written to their topics once more."""

import functools
import json
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from riparian.app.cli import broker_option, json_option, load, since_option, stream_argument, with_rights
from riparian.app.errors import safe
from riparian.app.kafka.connection import Connection

if TYPE_CHECKING:
    from riparian.app.retries import DeadLetterRecord, LetterFilter, Overview
    from riparian.app.stream_file.spec import Spec

SHOWN = 400  # characters of a value, where not all are asked for


def letters_options(function: Any) -> Any:
    """The options that say which letters: the parameter `wanted`."""

    @functools.wraps(function)
    def chosen(*, since: int | None, reasons: tuple[str, ...], fields: tuple[str, ...], **given: Any) -> Any:
        return function(wanted=_wanted(reasons, fields, since), **given)

    field = click.option("--field", "fields", metavar="FIELD", multiple=True, help="Likewise, about this field.")
    reason = click.option(
        "--reason", "reasons", metavar="REASON", multiple=True, help="Only those of this reason; again for more."
    )
    return since_option(reason(field(chosen)))


@click.group("deadletters")
def command() -> None:
    """List, show and retry the records that were rejected."""


@command.command("list")
@stream_argument
@letters_options
@json_option
@broker_option
def list_(stream: Path, wanted: "LetterFilter", as_json: bool, connection: Connection) -> None:
    """Count a stream's dead letters by reason, field, topic and partition, with the first and the last time.

    \b
    riparian deadletters list STREAM.yaml --since 24h
    """
    spec, overview = _read(stream, connection, wanted, None)
    groups = overview.groups()
    if as_json:
        rows = [group._asdict() for group in groups]
        total = sum(group.n for group in groups)
        click.echo(json.dumps({"stream": spec.name, "n": total, "groups": rows, "other": overview.n_other}))
        return
    if not groups:
        click.echo(f"{spec.name}: no dead letters{' of these' if wanted != _wanted((), (), None) else ''}")
    else:
        _show_groups(groups)
    if overview.n_other:
        n = overview.n_other
        click.echo(f"{n:,} record{'' if n == 1 else 's'} of {spec.topics.deadletters} no worker wrote.")


def _show_groups(groups: list[Any]) -> None:
    from rich.text import Text

    from riparian.app.cli.terminal.console import plain_table, stdout_console
    from riparian.topics.records import REASONS

    figures = ["partition", "letters", "retried", "first (UTC)", "last (UTC)"]
    table = plain_table(["reason", "field", "topic"], figures)
    for group in groups:
        numbers = (
            f"{group.partition}",
            f"{group.n:,}",
            f"{group.retried:,}",
            _moment(group.first),
            _moment(group.last),
        )
        table.add_row(*(Text(safe(cell)) for cell in (group.reason, group.field, group.topic, *numbers)))
    stdout_console().print(table)
    for reason in dict.fromkeys(group.reason for group in groups if group.reason in REASONS):
        click.echo(f"{reason}: the record {REASONS[reason].replace('`', '')}.")


@command.command()
@stream_argument
@click.option("--limit", metavar="N", type=click.IntRange(1, 10_000), default=1, show_default=True, help="The last N.")
@click.option("--at", metavar="PARTITION/OFFSET", help="The one at this place of the dead letters.")
@letters_options
@click.option("--value", "whole", is_flag=True, help=f"The whole value, and not {SHOWN} characters of it.")
@json_option
@broker_option
def show(
    stream: Path,
    limit: int,
    at: str | None,
    wanted: "LetterFilter",
    whole: bool,
    as_json: bool,
    connection: Connection,
) -> None:
    """Show the last dead letters, or one: where it came from, why it is one, key and value.

    Whoever wrote the record decides what is in it: what is no printable text is shown as escapes.

    \b
    riparian deadletters show STREAM.yaml --reason wrong-type --limit 3
    """
    place = None if at is None else _place(at)
    found: deque[DeadLetterRecord] = deque(maxlen=limit)

    def keep(letter: "DeadLetterRecord") -> None:
        if place is None or (letter.partition, letter.offset) == place:
            found.append(letter)

    spec, overview = _read(stream, connection, wanted, keep)
    letters = sorted(found, key=lambda letter: (letter.timestamp, letter.partition, letter.offset))
    retried = overview.retried
    if as_json:
        rows = [{**letter.plain(), "retried": letter.offset in retried.get(letter.partition, ())} for letter in letters]
        click.echo(json.dumps({"stream": spec.name, "letters": rows}))
        return
    if not letters:
        click.echo(f"{spec.name}: no such dead letter; riparian deadletters list counts those that there are")
    for letter in letters:
        _show(letter, spec.topics.deadletters, letter.offset in retried.get(letter.partition, ()), whole)


def _show(letter: "DeadLetterRecord", topic: str, retried: bool, whole: bool) -> None:
    again = ", retried" if retried else ""
    click.echo(f"{topic}[{letter.partition}] at {letter.offset:,}, {_moment(letter.timestamp)} UTC{again}")
    source = f"{safe(letter.topic)}[{letter.source_partition}] at {letter.source_offset:,}"
    which = "" if letter.source_index is None else f", instance {letter.source_index:,}"
    click.echo(f"  record  {source}{which}")
    click.echo(f"  reason  {safe(letter.reason)}: {safe(letter.detail)}")
    for name, value in letter.headers:
        click.echo(f"  header  {safe(name)}: {'none' if value is None else safe(value)}")
    for what, data, size in zip(("value", "key"), (letter.value, letter.key), letter.sizes, strict=False):
        text = "none" if data is None else safe(data)
        more = "" if size is None else f" (cut off: it had {size:,} bytes)"
        if what == "value" and not whole and len(text) > SHOWN:
            text, more = f"{text[:SHOWN]}…", more or f" ({len(data or b''):,} bytes: --value shows all)"
        click.echo(f"  {what:7} {text}{more}")


@command.command()
@stream_argument
@letters_options
@click.option("--dry-run", is_flag=True, help="Write nothing; say what would be written.")
@json_option
@broker_option
def retry(stream: Path, wanted: "LetterFilter", dry_run: bool, as_json: bool, connection: Connection) -> None:
    """Write the records of dead letters to the end of their topics once more, each once.

    For after the stream file was changed, and its workers run with it. A record that the stream file still rejects
    stays where it is. What was retried is marked: run again, the command goes on, whatever ended it before.

    \b
    riparian deadletters retry STREAM.yaml --reason unknown-value --dry-run
    """
    spec = load(stream, connection)

    from riparian.app import retries
    from riparian.app.cli.terminal.progress import progress

    with progress(f"dead letters of {spec.name}") as advance:
        report = with_rights(
            spec,
            connection,
            "retry",
            lambda: retries.retry(spec, connection, wanted, dry_run=dry_run, on_progress=advance),
        )
    if as_json:
        found = {
            "stream": spec.name,
            "dry_run": dry_run,
            "retried": dict(report.retried),
            "left": {why: n for why, n in report.left.items() if n},
            "rejected": dict(report.reasons),
        }
        click.echo(json.dumps(found))
        return
    total = sum(report.retried.values())
    by_topic = ", ".join(f"{n:,} to {topic}" for topic, n in sorted(report.retried.items()))
    letters = f"{total:,} dead letter{'' if total == 1 else 's'}"
    click.echo(f"{spec.name}: {letters} {'would be ' if dry_run else ''}retried{f' ({by_topic})' if by_topic else ''}")
    for why, n in report.left.items():
        if n:
            reasons_ = ", ".join(f"{reason} {m:,}" for reason, m in sorted(report.reasons.items()))
            click.echo(f"  left: {n:,} {why}{f' ({reasons_})' if why == retries.STILL else ''}")


def _read(
    stream: Path, connection: Connection, wanted: "LetterFilter", keep: "Callable[[DeadLetterRecord], None] | None"
) -> "tuple[Spec, Overview]":
    """The stream, and its dead letters; each that is wanted is also given to `keep`."""
    from riparian.app.cli.terminal.progress import progress
    from riparian.app.retries import Overview, partitions, read

    spec = load(stream, connection)
    overview = Overview(wanted)

    def take(letter: "DeadLetterRecord") -> None:
        overview.take(letter)
        if keep is not None and wanted.has(letter):
            keep(letter)

    async def run() -> None:
        with progress(f"dead letters of {spec.name}") as work:
            await read(await partitions(spec, connection), connection, take, overview, work)

    with_rights(spec, connection, "deadletters", run)
    return spec, overview


def _wanted(reasons: tuple[str, ...], fields: tuple[str, ...], since: int | None) -> "LetterFilter":
    from riparian.app.retries import LetterFilter
    from riparian.topics.records import PREDICTION_TOO_LARGE, REASONS

    known = (*REASONS, PREDICTION_TOO_LARGE)
    for reason in reasons:
        if reason not in known:
            raise click.BadParameter(f"{reason!r} is no reason: use {', '.join(known)}", param_hint="--reason")
    return LetterFilter(reasons, since or 0, fields=fields)


def _place(text: str) -> tuple[int, int]:
    partition, slash, offset = text.partition("/")
    if not (slash and partition.isdecimal() and offset.isdecimal()):
        raise click.BadParameter(f"{text!r} is no place: write PARTITION/OFFSET, such as 0/17", param_hint="--at")
    return int(partition), int(offset)


def _moment(ms: int) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(ms / 1000.0))
    except (ValueError, OverflowError, OSError):  # a timestamp is what a producer wrote
        return f"{ms} ms"
