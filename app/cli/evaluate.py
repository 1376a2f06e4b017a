"""`riparian evaluate`: test-then-train over a file, in memory, without a broker."""

import json
from pathlib import Path
from typing import Any

import click

METRICS = (
    ("accuracy", "accuracy", "{:.4%}"),
    ("kappa", "kappa", "{:.4f}"),
    ("kappa_temporal", "kappa temporal", "{:.4f}"),
    ("log_loss", "log loss", "{:.4f}"),
    ("f1_macro", "macro F1", "{:.4f}"),
    ("mae", "MAE", "{:.6g}"),
    ("rmse", "RMSE", "{:.6g}"),
    ("r2", "R²", "{:.4f}"),
    ("n", "labels scored", "{:,}"),
    ("rejected", "rows rejected", "{:,}"),
    ("instances_per_second", "instances/s", "{:,}"),
    ("seconds", "seconds", "{:.3f}"),
    ("state_bytes", "bytes of state", "{:,}"),
)
STEPS = "▁▂▃▄▅▆▇█"


@click.command("evaluate")
@click.argument("data", metavar="DATA.csv.gz", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--model", required=True, metavar="NAME", help="A learner; `riparian models` lists them.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A parameter of the learner. Repeatable.")
@click.option(
    "--label-delay",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="The label of an instance comes N instances later.",
)
@click.option(
    "--stream",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="STREAM.yaml",
    help="Take features, task, classes, metrics and seed from a stream file. Otherwise they are inferred.",
)
@click.option("--target", metavar="COLUMN", help="The column to predict. [default: the last]")
@click.option("--task", type=click.Choice(["classification", "regression"]), help="[default: inferred from the target]")
@click.option("--nominal", multiple=True, metavar="COLUMN", help="Nominal although it looks numeric. Repeatable.")
@click.option("--window", type=click.IntRange(min=1), metavar="N", help="Labels in the curve's window. [default: 1000]")
@click.option("--fading", type=float, metavar="F", help="Factor by which the past fades, instead of the window.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Read the first N rows only.")
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="Of the learner's random numbers. [default: 0]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    data: Path,
    model: str,
    settings: tuple[str, ...],
    label_delay: int,
    stream: Path | None,
    target: str | None,
    task: str | None,
    nominal: tuple[str, ...],
    window: int | None,
    fading: float | None,
    limit: int | None,
    seed: int | None,
    as_json: bool,
) -> None:
    """Predict each row of a file, then learn it: prequential evaluation, in memory.

    The rows go through the code that the worker runs, so a worker that sees the same rows and the same delay reports
    the same figures. The file is CSV with a header, gzipped or not; an empty cell or "?" is a missing value.
    """
    from app.data import DataFile
    from app.evaluate import evaluate, spec_for
    from app.spec import load

    file = DataFile(data)
    spec, goal, n = spec_for(
        file,
        model,
        parse_settings(settings),
        stream=None if stream is None else load(stream),
        target=target,
        task=task,
        nominal=nominal,
        window=window,
        fading=fading,
        label_delay=label_delay,
        limit=limit,
        seed=seed,
    )

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    errors = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    ) as progress:
        bar = progress.add_task(f"{model} on {data.name}", total=n)
        result = evaluate(
            file,
            spec,
            goal,
            n,
            label_delay=label_delay,
            limit=limit,
            on_progress=lambda rows: progress.update(bar, completed=rows),
        )
    if as_json:
        click.echo(json.dumps(result))
    else:
        _show(result, spec.metrics.window, spec.metrics.fading)


def parse_settings(
    settings: tuple[str, ...], option: str = "--set", example: str = "grace_period=100"
) -> dict[str, Any]:
    """Parameters from "key=value" texts; the registry converts and checks the values. option, example : for errors."""
    from app.errors import SpecError

    parameters: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        key = key.strip()
        if not equals or not key:
            raise SpecError(f"{option} is {setting!r}: write a parameter and its value, such as {option} {example}")
        if key in parameters:
            raise SpecError(f"{option} gives {key!r} twice: keep one")
        parameters[key] = value.strip()
    return parameters


def _show(result: dict[str, Any], window: int, fading: float | None) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    given = ", ".join(f"{key}={value}" for key, value in result["parameters"].items())
    console.print(f"[bold]{result['model']}[/bold] on {result['data']}, labels {_delay(result['label_delay'])}")
    if given:
        console.print(given, style="dim")
    table = Table(show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for key, name, form in METRICS:
        if result.get(key) is not None:
            table.add_row(name, form.format(result[key]))
    console.print(table)
    if len(result["curve"]) > 1:
        values = [value for _, value in result["curve"]]
        low, high = min(values), max(values)
        marks = [STEPS[round((v - low) / (high - low) * (len(STEPS) - 1)) if high > low else 0] for v in values]
        measure = "accuracy" if "accuracy" in result else "MAE"
        past = f"the last {window:,} labels" if fading is None else f"a past that fades by {fading}"
        console.print(f"{''.join(marks)}  {measure} over {past}: {low:.4g} .. {high:.4g}, now {values[-1]:.4g}")


def _delay(n: int) -> str:
    return "at once" if n == 0 else f"{n:,} instance{'s' if n > 1 else ''} late"
