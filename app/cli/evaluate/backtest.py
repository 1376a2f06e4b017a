"""`riparian backtest`: other models on the records that a stream's topics still hold."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from riparian.app.cli import (
    broker_option,
    grid_option,
    json_option,
    load,
    partition_option,
    stream_argument,
    with_rights,
)
from riparian.app.cli.terminal.parsing import parse_grid, parse_model
from riparian.app.kafka.connection import Connection

if TYPE_CHECKING:
    from riparian.app.state.audit.backtest import Backtest

SHOWN = ("n", "accuracy", "kappa", "f1_macro", "log_loss", "auroc", "cost", "mae", "rmse", "r2")


@click.command("backtest")
@stream_argument
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME[:KEY=VALUE,…]",
    help="A learner; `riparian models` lists them. Repeatable: side by side.  [default: those of the stream file]",
)
@grid_option
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="Take the first N records of the features of each partition only, and their labels.",
)
@partition_option
@json_option
@broker_option
def command(
    stream: Path,
    models: tuple[str, ...],
    grid: tuple[str, ...],
    limit: int | None,
    partition: int | None,
    as_json: bool,
    connection: Connection,
) -> None:
    """How models would have done on the records that the topics of STREAM.yaml still hold: test-then-train, in memory.

    Records are taken in the order that the predictions recorded, and decoded as the stream file says, so the stream's
    own models come to the figures of its workers. Where there are no predictions yet, timestamps decide. Nothing is
    written, and workers may run.

    \b
    riparian backtest elec.yaml
    riparian backtest elec.yaml --model naive-bayes --model adaptive-random-forest:n_models=10
    riparian backtest elec.yaml --model hoeffding-tree --grid grace_period=50,200,1000 --limit 100000
    """
    from riparian.app.cli.terminal.progress import progress
    from riparian.app.errors import TopicError
    from riparian.app.kafka import admin
    from riparian.app.state.audit.backtest import backtest

    spec = load(stream, connection)
    chosen = [parse_model(text) for text in models] or list(spec.models().values())
    labels = [] if models or grid else [f"{role}: {name}" for role, (name, _) in spec.models().items()]
    if grid:
        from riparian.app.evaluation.sweep import candidates

        chosen = [(one.model, dict(one.parameters)) for one in candidates(chosen, {}, parse_grid(grid))]
    wanted = range(spec.partitions) if partition is None else [partition]

    async def run() -> list["Backtest"]:
        missing = (await admin.check_topics(spec, connection)).missing
        needed = {spec.topics.features, spec.topics.labels} & set(missing)
        if needed:
            raise TopicError(
                f"expected the topics of stream {spec.name}, found no {min(needed, key=str)}: correct its name, or "
                "start a worker first"
            )
        recorded = spec.topics.predictions not in missing
        found = []
        for k in wanted:
            with progress(f"{spec.name}, partition {k}") as advance:
                found.append(await backtest(spec, chosen, connection, k, advance, recorded, limit))
        return found

    found = with_rights(spec, connection, "backtest", run)
    if as_json:
        click.echo(json.dumps(_plain(spec.name, chosen, found)))
    else:
        _show(chosen, labels, found)


def _plain(stream: str, models: list[tuple[str, dict[str, Any]]], found: list["Backtest"]) -> dict[str, Any]:
    from riparian.app.state.audit.backtest import classes_of, pooled, roles

    def overall(one: "Backtest", role: str) -> dict[str, Any]:
        classes = classes_of(one, role)
        return {**one.figures.overall[role], **({"classes": classes} if classes else {})}

    return {
        "stream": stream,
        "models": [
            {
                "model": name,
                "parameters": found[0].learner.roles[role].model.parameters(),
                "overall": pooled(found, role),
                "partitions": [
                    {
                        "partition": one.partition,
                        "first": dict(one.first),
                        "recorded": one.n_recorded,
                        "rejected": one.n_rejected,
                        "instances": one.figures.n_instances,
                        "overall": overall(one, role),
                        "recent": one.figures.recent[role],
                    }
                    for one in found
                ],
            }
            for role, (name, _) in zip(roles(models), models, strict=True)
        ],
    }


def _show(models: list[tuple[str, dict[str, Any]]], labels: list[str], found: list["Backtest"]) -> None:
    """labels : of the stream file's own models; else their names and parameters are shown."""
    from rich.console import Console
    from rich.table import Column, Table

    from riparian.app.cli.evaluate.table import show_decided
    from riparian.app.partition.learner import early_labels
    from riparian.app.state.audit.backtest import classes_of, pooled, roles

    rows, decided = [], []
    for i, (role, (name, parameters)) in enumerate(zip(roles(models), models, strict=True)):
        given = "".join(f" {key}={value}" for key, value in parameters.items()) * bool(len(models) > 1)
        label = labels[i] if labels else name + given
        rows += [(label, str(one.partition), one.figures.overall[role]) for one in found]
        decided += [
            (f"{label}, partition {one.partition}", one.figures.overall[role], classes_of(one, role)) for one in found
        ]
        if len(found) > 1:
            rows.append((label, "all", pooled(found, role)))
    names = [name for name in SHOWN if any(name in scores for _, _, scores in rows)]
    figures = [Column(name, no_wrap=True, min_width=len(name)) for name in ("partition", *names)]
    table = Table(Column("model", overflow="fold"), *figures)
    for label, partition, scores in rows:
        values = [scores.get(name) for name in names]
        table.add_row(
            label,
            partition,
            *("" if v is None else f"{v:,.0f}" if n == "n" else f"{v:.4f}" for n, v in zip(names, values, strict=True)),
        )
    console = Console(width=max(Console().width, 100))
    console.print(table)
    for name, scores, classes in decided:
        show_decided(console, name, scores, classes)
    early = early_labels([one.learner for one in found])
    if early is not None:
        click.echo(early)
    for one in found:
        lost = [f"{role} begin at offset {first:,}" for role, first in one.first.items() if first]
        order = f"{one.n_recorded:,} predictions" if one.n_recorded else "their timestamps"
        summary = f"{one.figures.n_instances:,} instances, in the order of {order}"
        rejected = f"; records that could not be read: {one.n_rejected:,}" if one.n_rejected else ""
        more = f"; older records are gone: {' and '.join(lost)}" if lost else ""
        click.echo(f"partition {one.partition}: {summary}{rejected}{more}")
