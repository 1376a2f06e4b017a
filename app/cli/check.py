"""`riparian check`: whether a stream file is valid, and what it declares."""

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from app.cli import broker_option
from app.errors import StateError, TopicError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.kafka.admin import TopicsReport
    from app.kafka.keys import Ids
    from app.state.changes import Changes
    from app.stream_file.spec import Spec


@click.command()
@click.argument("stream", metavar="STREAM.yaml", required=False, type=click.Path(path_type=Path))
@click.option("--schema", is_flag=True, help="Print the JSON Schema of stream files, for editors.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@broker_option
@click.pass_context
def command(context: click.Context, stream: Path | None, schema: bool, as_json: bool, broker: str) -> None:
    """Check a stream file and show what it declares.

    With --broker it is also compared with the topics that are there: whether an id and its label come to the same
    partition; and with the state: what a worker would carry over, restart, drop or refuse.
    """
    if schema:
        from app.stream_file.reference import json_schema

        click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))
        return
    if stream is None:
        raise click.UsageError("expected a stream file, found none; give STREAM.yaml or --schema", context)

    from app.stream_file.spec import load

    spec = load(stream)
    report, states, ids = None, None, None
    # Only the option asks for it: RIPARIAN_BROKER may be set for other commands.
    if context.get_parameter_source("broker") is ParameterSource.COMMANDLINE:
        report, states, ids = asyncio.run(_ask(spec, broker))
    if as_json:
        click.echo(json.dumps(_summary(spec, report, states, ids), ensure_ascii=False))
    else:
        _show(spec, report)
        if ids is not None and not ids.broken:
            click.echo(ids.sentence())
        _show_states(states or {})
    if ids is not None and ids.broken:
        raise TopicError(ids.sentence())
    refused = [sentence for _, changes in (states or {}).values() for sentence in changes.refused]
    if refused:
        raise StateError(f"no worker can go on with the state of {spec.name}: {refused[0]}")


async def _ask(spec: "Spec", broker: str) -> "tuple[TopicsReport, dict[int, tuple[int, Changes]], Ids | None]":
    from app import inspection
    from app.kafka import admin, keys

    await admin.wait_for_broker(broker, timeout_seconds=3.0)
    report = await admin.check_topics(spec, broker)
    there = {spec.topics.features, spec.topics.labels} <= set(report.partitions)
    ids = await keys.sample(spec, broker) if there else None
    return report, await inspection.prospects(spec, broker), ids


def _show_states(states: "Mapping[int, tuple[int, Changes]]") -> None:
    """What becomes of each partition's state, in lines."""
    for partition, (sequence, changes) in states.items():
        fate = "does not fit" if changes.refused else "goes on" if changes.found else "goes on as it is"
        click.echo(f"state of partition {partition}, checkpoint {sequence:,}: {fate}")
        for change in changes.found:
            click.echo(f"  {change.fate}: {change.sentence}")


def waiting_bytes(spec: "Spec") -> int:
    """What the instances of a full pending store take, a partition, apart from their ids; of bags, the largest."""
    from app.partition.pending import ROW_BYTES
    from app.partition.ragged import PLACE_BYTES

    classes = spec.class_vocabulary()
    n_outputs = 1 if classes is None else max(2, classes.capacity)
    x = 8 * len(spec.features)
    if spec.task == "multi-instance":
        x = PLACE_BYTES + spec.record.max_instances * x
    each = ROW_BYTES + x + 8 * n_outputs * len(spec.models())
    return min(spec.join.max_pending * each, spec.join.max_pending_bytes)


def _summary(
    spec: "Spec",
    report: "TopicsReport | None",
    states: "Mapping[int, tuple[int, Changes]] | None",
    ids: "Ids | None" = None,
) -> dict[str, Any]:
    mapping = spec.mapping()
    resolved = spec.resolved()
    summary: dict[str, Any] = {
        "name": spec.name,
        "task": spec.task,
        "partitions": spec.partitions,
        "topics": spec.topics.model_dump(),
        "features": [
            {
                "name": feature.name,
                "type": feature.type,
                "path": list(feature.path),
                "values": spec.features[feature.name].values,
            }
            for feature in mapping.features
        ],
        "classes": spec.classes,
        "models": {
            role: {"model": name, "parameters": parameters} for role, (name, parameters) in spec.models().items()
        },
        "auto": None if resolved is None else resolved._asdict(),
        "waiting_bytes": waiting_bytes(spec),
    }
    if report is not None:
        summary["partitions_present"] = report.partitions
        summary["missing"] = list(report.missing)
    if ids is not None:
        summary["ids"] = {"both": ids.both, "apart": ids.apart}
    if states is not None:
        summary["state"] = [
            {"partition": k, "checkpoint": sequence, "changes": [change._asdict() for change in changes.found]}
            for k, (sequence, changes) in states.items()
        ]
    return summary


def _partitions(n: int) -> str:
    return f"{n:,} partition{'' if n == 1 else 's'}"


def _show(spec: "Spec", report: "TopicsReport | None") -> None:
    """Print three tables: topics, features, models."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from app.stream_file.durations import format_duration
    from topics.vocabulary import canonical

    def table(title: str, *headings: str) -> Table:
        new = Table(title=title, title_justify="left")
        for heading in headings:
            new.add_column(heading, overflow="fold")
        return new

    def row(to: Table, *cells: str) -> None:
        to.add_row(*map(escape, cells))

    topics = table(f"{escape(spec.name)}: {spec.task}, {_partitions(spec.partitions)}", "topic", "name")
    if report is not None:
        topics.add_column("at the broker")
    for role, name in spec.topics.model_dump().items():
        cells = [role, name or "in the feature records"]
        if report is not None:
            n = report.partitions.get(name)
            cells.append("" if name is None else "missing" if n is None else _partitions(n))
        row(topics, *cells)

    features = table("", "feature", "type", "field", "values")
    for feature in spec.mapping().features:
        declared = spec.features[feature.name]
        values = ""
        if declared.values is not None:
            values = ", ".join(map(canonical, declared.values))
        elif feature.type == "nominal":
            values = f"learned, up to {declared.max_values:,}"
        row(features, feature.name, feature.type, ".".join(feature.path), values)

    models = table("", "role", "model", "parameters")
    for role, (name, parameters) in spec.models().items():
        row(models, role, name, ", ".join(f"{key}={value}" for key, value in parameters.items()))

    console = Console()
    console.print(topics, features, models)
    resolved = spec.resolved()
    if resolved is not None:
        takes = f", reckoned to take {resolved.n_bytes / 1e6:,.1f} MB and {resolved.microseconds:.1f} µs an instance"
        console.print(
            f"champion: auto is {resolved.model}{takes if resolved.n_bytes else ''}", highlight=False, soft_wrap=True
        )
    if spec.task == "classification":
        classes = ", ".join(map(canonical, spec.classes or [])) or f"learned, up to {spec.max_classes:,}"
        console.print(f"classes: {escape(classes)}")
    console.print(
        f"waiting for labels: up to {format_duration(spec.join.horizon)} and {spec.join.max_pending:,} instances "
        f"a partition, {waiting_bytes(spec) / 1e6:,.0f} MB when full",
        highlight=False,
    )
    if report is not None and report.missing:
        console.print(f"missing topics are created by riparian worker: {escape(', '.join(report.missing))}")
