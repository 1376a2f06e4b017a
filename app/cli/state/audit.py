"""`riparian audit`: shows whether the models are what the records made of them."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from riparian.app.cli import broker_option, json_option, load, partition_option, stream_argument, with_rights
from riparian.app.kafka.connection import Connection

if TYPE_CHECKING:
    from riparian.app.state.audit.audit import AuditReport
    from riparian.app.stream_file.sections.record import TopicsSpec

SHOWN = 5  # differences of a kind


@click.command("audit")
@stream_argument
@partition_option
@click.option(
    "--from",
    "start",
    type=click.IntRange(min=1),
    metavar="CHECKPOINT",
    help="Begin at this checkpoint.  [default: the beginning of the topics]",
)
@click.option(
    "--until",
    type=click.IntRange(min=1),
    metavar="CHECKPOINT",
    help="End at this checkpoint.  [default: the last prediction]",
)
@json_option
@broker_option
def command(
    stream: Path, partition: int | None, start: int | None, until: int | None, as_json: bool, connection: Connection
) -> None:
    """Fold the records of STREAM.yaml again and compare every prediction, and the state, with what was sent and stored.

    The topics are replayed in memory, in the order that the predictions recorded; nothing is changed, and workers may
    run. Ends with exit code 0 where all is equal, 1 where something differs (the first difference is named), 2 where it
    cannot be done.
    """
    spec = load(stream, connection)
    if partition is None and spec.partitions > 1 and (start or until):
        raise click.UsageError("--from and --until name a checkpoint of one partition: give --partition, too")

    from riparian.app.cli.terminal.progress import progress
    from riparian.app.errors import TopicError
    from riparian.app.kafka import admin
    from riparian.app.state.audit.audit import AuditReport, audit
    from riparian.app.state.changelog import no_state

    wanted = range(spec.partitions) if partition is None else [partition]

    async def run() -> list[AuditReport]:
        missing = (await admin.check_topics(spec, connection)).missing
        needed = {spec.topics.features, spec.topics.labels, spec.topics.predictions, spec.topics.drift}
        if needed & set(missing):
            raise TopicError(
                f"expected the topics of stream {spec.name}, found no {min(needed & set(missing), key=str)}: start a "
                "worker first"
            )
        reports = []
        for k in wanted:
            with progress(f"{spec.name}, partition {k}") as advance:
                found = await audit(spec, connection, k, start=start, until=until, on_progress=advance)
            if found is not None:
                reports.append(found)
        return reports

    reports = with_rights(spec, connection, "audit", run)
    if not reports:
        raise no_state(spec, wanted[0])
    holds = all(report.holds for report in reports)
    if as_json:
        found = {"stream": spec.name, "holds": holds, "partitions": [report.plain() for report in reports]}
        click.echo(json.dumps(found, ensure_ascii=False))
    else:
        for report in reports:
            _show(spec.name, spec.topics, report)
    if not holds:
        raise SystemExit(1)


def _show(stream: str, topics: "TopicsSpec", report: "AuditReport") -> None:
    topic = topics.predictions
    sequence, offset, _ = report.begin
    begin = f"checkpoint {sequence:,} (offset {offset:,})" if sequence else "the beginning"
    n, drift = len(report.checkpoints), report.drift
    click.echo(
        f"{stream}, partition {report.partition}: from {begin} to offset {report.end[1]:,} and label offset "
        f"{report.end[2]:,}, {report.n_predictions:,} prediction{'' if report.n_predictions == 1 else 's'}, {n:,} "
        f"checkpoint{'' if n == 1 else 's'} and {drift.n_compared:,} drift event{'' if drift.n_compared == 1 else 's'} "
        f"compared: {'all equal' if report.holds else 'not as recorded'}"
    )
    first = report.first
    if first is not None:
        click.echo(f"  first: {_place(topic, report.partition, first.plain())}")
        for name, value in (("sent", first.sent), ("the fold gives", first.made)):
            if value is not None:
                click.echo(f"    {name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")
    for kind, found in report.listed.items():
        click.echo(f"  {kind}: {report.counts[kind]:,}")
        for one in found[: 0 if kind == "different" else SHOWN]:
            click.echo(f"    {_place(topic, report.partition, one.plain())}")
    answers = report.answers
    if answers is not None:
        verdict = "equal" if answers.holds else "not as recorded"
        click.echo(f"  {answers.n_compared:,} answer{'' if answers.n_compared == 1 else 's'} to commands: {verdict}")
        for one in answers.listed[:SHOWN]:
            click.echo(f"  answer: {_place(str(topics.events), report.partition, one.plain())}")
    for one in drift.listed[:SHOWN]:
        click.echo(f"  drift event: {_place(topics.drift, report.partition, one.plain())}")
    equal = sequence
    for compared in report.checkpoints:
        if compared.equal:
            equal = compared.sequence
            continue
        since = f"checkpoint {equal:,}" if equal else "the beginning"
        click.echo(
            f"  checkpoint {compared.sequence:,} (offset {compared.offset:,}, label offset {compared.label_offset:,}) "
            f"is not what the fold gives, equal up to {since}: {', '.join(compared.parts[:SHOWN])}"
        )


def _place(topic: str, partition: int, one: dict[str, Any]) -> str:
    """Where a difference is, in words."""
    words = [one["kind"]]
    if "offset" in one:
        words.append(f"feature offset {one['offset']:,}, label offset {one['label_offset']:,}")
    if "position" in one:
        words.append(f"at {one['position']:,} of {topic}[{partition}]")
    return ", ".join(words)
