"""`riparian evaluate`: test-then-train over a file, in memory, without a broker."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from models.drift import DETECTORS

if TYPE_CHECKING:
    from app.dataset.synthetic import Recipe

# As app.evaluation.summary.MEASURES, which would import numpy.
SORTS = (
    *("accuracy", "kappa", "kappa_temporal", "log_loss", "f1_macro", "balanced_accuracy", "auroc"),
    *("mean_running_accuracy", "mae", "rmse", "r2", "instances_per_second", "seconds", "wall_seconds", "n_nodes"),
    *("n_leaves", "live_bytes", "mean_live_bytes", "peak_live_bytes", "state_bytes", "peak_state_bytes", "given"),
)


@click.command("evaluate")
@click.argument("data", metavar="[DATA.csv.gz]", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--model",
    "models",
    multiple=True,
    required=True,
    metavar="NAME[:KEY=VALUE,…]",
    help="A learner, with parameters of its own; `riparian models` lists them. Repeatable: side by side.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="[NAME.]KEY=VALUE",
    help="A parameter of every model that has it, or of NAME alone. Repeatable.",
)
@click.option(
    "--grid",
    multiple=True,
    metavar="[NAME.]KEY=A,B,…",
    help="Try every value, in all combinations with those of other --grid. Repeatable.",
)
@click.option(
    "--label-delay",
    default="0",
    show_default=True,
    metavar="N|DURATION",
    help="The label of an instance comes N instances later; with --time so much time later: 250ms, 30s, 5m, 2h, 7d.",
)
@click.option("--time", "clock", metavar="COLUMN", help="Time of each row: seconds since 1970, or ISO 8601.")
@click.option("--repeats", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Seeds to try.")
@click.option("--shuffle", is_flag=True, help="Rows in random order, another one in each repeat. Held in memory.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    help="Of the learner, of --shuffle and of --generate; each repeat adds 1. [default: 0]",
)
@click.option("--sort", type=click.Choice(SORTS), metavar="MEASURE", help="[default: accuracy, or mae]")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Processes. [default: a core each]")
@click.option(
    "--stream",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="STREAM.yaml",
    help="Take features, task, classes, metrics and seed from a stream file. Otherwise they are inferred.",
)
@click.option("--target", metavar="COLUMN", help="The column to predict. [default: the last]")
@click.option("--task", type=click.Choice(["classification", "regression"]), help="[default: inferred from the target]")
@click.option("--nominal", multiple=True, metavar="COLUMN", help="Nominal although it looks numeric. Repeatable.")
@click.option("--ignore", multiple=True, metavar="COLUMN", help="No feature, such as an id. Repeatable.")
@click.option(
    "--max-values",
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    help="Most values of a nominal feature; a column with more is refused. [default: 1000]",
)
@click.option(
    "--date-parts",
    multiple=True,
    metavar="COLUMN",
    help="Make COLUMN_hour and COLUMN_weekday of a column of times. Repeatable.",
)
@click.option("--window", type=click.IntRange(min=1), metavar="N", help="Labels in the curve's window. [default: 1000]")
@click.option("--fading", type=float, metavar="F", help="Factor by which the past fades, instead of the window.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Read the first N rows only.")
@click.option(
    "--generate",
    metavar="NAME[:KEY=VALUE,…]",
    help="A synthetic stream instead of a file; `riparian generate --list` names them.",
)
@click.option("-n", "n", type=click.IntRange(min=1), metavar="N", help="Instances to generate. [default: 100000]")
@click.option("--drift", "drifts", multiple=True, metavar="AT[:gradual[:WIDTH]]", help="As `riparian generate` has it.")
@click.option("--to", "concepts", multiple=True, metavar="KEY=VALUE[,…]", help="The new concept of each --drift.")
@click.option(
    "--curve",
    "curves",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.csv|.svg|.png",
    help="Write the curves of all models, as numbers or as a picture. Repeatable.",
)
@click.option(
    "--detector",
    "detectors",
    multiple=True,
    type=click.Choice(list(DETECTORS)),
    metavar="NAME",
    help=f"Watch the errors of every model: {', '.join(DETECTORS)}. Repeatable.",
)
@click.option("--points", type=click.IntRange(min=1), metavar="N", help="Points of a curve, about. [default: 50]")
@click.option(
    "--folds",
    type=click.IntRange(min=2),
    metavar="N",
    help="Cross-validation with so many folds, instead of test-then-train. Rows are dealt anew in each repeat.",
)
@click.option("--bag", metavar="COLUMN", help="A row is an instance of the bag that this column names.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: one object for one run, else summary and runs.")
def command(
    data: Path | None,
    models: tuple[str, ...],
    settings: tuple[str, ...],
    grid: tuple[str, ...],
    label_delay: str,
    clock: str | None,
    repeats: int,
    shuffle: bool,
    seed: int | None,
    sort: str | None,
    jobs: int | None,
    stream: Path | None,
    target: str | None,
    task: str | None,
    nominal: tuple[str, ...],
    ignore: tuple[str, ...],
    max_values: int | None,
    date_parts: tuple[str, ...],
    window: int | None,
    fading: float | None,
    limit: int | None,
    generate: str | None,
    n: int | None,
    drifts: tuple[str, ...],
    concepts: tuple[str, ...],
    curves: tuple[Path, ...],
    detectors: tuple[str, ...],
    points: int | None,
    folds: int | None,
    bag: str | None,
    as_json: bool,
) -> None:
    """Predict each row of a file, then learn it: prequential evaluation, in memory.

    The rows go through the code that the worker runs, so a worker that sees the same rows and the same delay reports
    the same figures. The file is CSV with a header, gzipped or not; an empty cell or "?" is a missing value. A column
    of numbers is a numeric feature, one of times (ISO 8601) is left out, any other is a nominal feature.

    \b
    riparian evaluate elec.csv.gz --model hoeffding-tree --model naive-bayes
    riparian evaluate elec.csv.gz --model hoeffding-tree --grid grace_period=50,200,1000 --grid delta=1e-7,1e-3
    riparian evaluate elec.csv.gz --model hoeffding-tree:grace_period=50 --repeats 10 --shuffle
    riparian evaluate --generate agrawal:function=3 -n 50000 --drift 25000 --to function=5 --model hoeffding-tree
    """
    from app.cli import evaluation_table as shown
    from app.cli.progress import progress
    from app.dataset.data import MOST_NOMINAL, DataFile
    from app.dataset.dated import DatedFile
    from app.dataset.shuffled import ShuffledFile
    from app.dataset.synthetic import SyntheticFile
    from app.dataset.table import read_table
    from app.evaluation import curves as pictures
    from app.evaluation.evaluate import evaluate_bags, problem_for
    from app.evaluation.folds import cross_validate
    from app.evaluation.pool import n_cores
    from app.evaluation.summary import default_sort, summarise
    from app.evaluation.sweep import candidates, run, tasks_of
    from app.stream_file.spec import load

    if (data is None) == (generate is None):
        raise click.UsageError("give either DATA.csv.gz or --generate NAME")
    if shuffle and clock is not None:
        raise click.UsageError("--shuffle and --time exclude each other: shuffled rows are not in the order of time")
    for curve in curves:
        pictures.check(curve)
    delay = parse_delay(label_delay, clock)
    chosen = candidates([parse_model(model) for model in models], parse_settings(settings), parse_grid(grid))
    if folds is not None or bag is not None:
        why = "--bag" if folds is None else "--folds"
        strangers: dict[str, Any] = {"--generate": generate, "--stream": stream, "--time": clock, "--curve": curves}
        strangers |= {"--detector": detectors, "--shuffle": shuffle, "--label-delay": delay and folds}
        for option in [option for option, value in strangers.items() if value]:
            raise click.UsageError(f"{why} and {option} exclude each other")
        path = Path(data or "")
        table = read_table(
            DatedFile(DataFile(path), date_parts),
            bag=bag,
            target=target,
            task=task,
            nominal=nominal,
            ignore=ignore,
            max_values=max_values or MOST_NOMINAL,
            limit=limit,
        )
        tell_times(table.times, date_parts)
        results: list[dict[str, Any]] = []
        with progress(f"{len(chosen)} models on {path.name}", len(chosen) * repeats) as told:
            for one in chosen:
                for each in range(seed or 0, (seed or 0) + repeats):
                    if folds is not None:
                        found = cross_validate(table, one.model, one.parameters, folds, seed=each)
                        results.append({"data": path.name, **found})
                    else:
                        how = {"points": points, "window": window, "fading": fading, "label_delay": int(delay)}
                        results.append(evaluate_bags(table, *one, data=path.name, seed=each, **how))  # type: ignore[arg-type]
                    told(len(results))
        summary = summarise(chosen, results, sort)
        if as_json and len(results) == 1:
            click.echo(json.dumps(results[0]))
        elif as_json:
            about = {"data": path.name, "task": table.schema.task, "folds": folds, "repeats": repeats}
            click.echo(json.dumps({**about, "summary": summary, "runs": results}))
        elif folds is None and len(results) == 1:
            shown.show_one(results[0], shown.past(window or 1000, fading))
        else:
            shown.show_all(summary, results[0], False)
        return
    spec = None if stream is None else load(stream)
    start = seed if seed is not None else 0 if spec is None else spec.seed
    seeds = range(start, start + repeats)
    files: Sequence[DataFile]
    changes: list[int] = []
    if generate is not None:
        made = parse_recipe(generate, n, drifts, concepts)
        files = [SyntheticFile(made._replace(seed=each)) for each in seeds]
        changes = [drift.at for drift in made.drifts]
    else:
        stray = [option for option, value in {"-n": n, "--drift": drifts, "--to": concepts}.items() if value]
        if stray:
            raise click.UsageError(f"{stray[0]} says what to generate: add --generate NAME, or leave it out")
        files = [DatedFile(DataFile(data or ""), date_parts)] * repeats
    # What a file is told to be does not depend on the order of its rows; generated ones differ.
    kinds = {
        id(file): problem_for(
            file,
            stream=spec,
            target=target,
            task=task,
            nominal=nominal,
            ignore=ignore,
            max_values=max_values,
            clock=clock,
            window=window,
            fading=fading,
            label_delay=delay,
            limit=limit,
        )
        for file in files
    }
    tell_times(next(iter(kinds.values())).times, date_parts)
    problems = [
        (ShuffledFile(file, each, limit) if shuffle else file, kinds[id(file)])
        for file, each in zip(files, seeds, strict=True)
    ]
    n_runs = len(chosen) * repeats
    jobs = min(n_cores() if jobs is None else jobs, n_runs)
    options = {"label_delay": delay, "clock": clock, "limit": limit, "points": points, "detectors": detectors}
    tasks = tasks_of(problems, chosen, seeds, jobs=jobs, **options)
    what = chosen[0].model if len(chosen) == 1 else f"{len(chosen)} models"
    times = f", {repeats} times" if repeats > 1 else ""
    with progress(f"{what} on {files[0].path.name}{times}", sum(t.n * len(t.specs) for t in tasks)) as told:
        results = run(tasks, jobs, told, told.elsewhere)
    summary = summarise(chosen, results, sort)
    metrics = tasks[0].specs[0].metrics
    past = shown.past(metrics.window, metrics.fading)
    if curves:
        runs = {one.label: results[i * repeats : (i + 1) * repeats] for i, one in enumerate(chosen)}
        lines = [pictures.Line(entry["label"], runs[entry["label"]]) for entry in summary]
        for curve in curves:
            pictures.write(curve, lines, default_sort(results), past, changes)
    if len(models) == 1 and not grid and repeats == 1:
        if as_json:
            click.echo(json.dumps(results[0]))
        else:
            shown.show_one(results[0], past)
    elif as_json:
        about = {"data": results[0]["data"], "task": results[0]["task"], "repeats": repeats, "shuffled": shuffle}
        about["sort"] = sort or default_sort(results)
        click.echo(json.dumps({**about, "summary": summary, "runs": results}))
    else:
        shown.show_all(summary, results[0], shuffle)


def tell_times(columns: Sequence[str], made: Sequence[str]) -> None:
    """Say which columns were left out because they hold times, unless parts of them were made."""
    for name in columns:
        if name not in made:
            click.echo(
                f"riparian: column {name!r} holds times and is left out; --date-parts {name} makes features of its "
                f"hour and weekday, --ignore {name} silences this",
                err=True,
            )


def parse_settings(settings: Sequence[str], option: str = "--set", example: str = "grace_period=100") -> dict[str, Any]:
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


def parse_model(text: str) -> tuple[str, dict[str, Any]]:
    """Name and parameters from "hoeffding-tree:grace_period=100,delta=1e-5"."""
    name, colon, rest = text.partition(":")
    return name, parse_settings(rest.split(","), "--model", "hoeffding-tree:grace_period=100") if colon else {}


def parse_grid(grid: Sequence[str]) -> dict[str, list[str]]:
    """Parameter -> values from "key=a,b,c" texts."""
    from app.errors import SpecError

    example = "grace_period=50,200,1000"
    found: dict[str, list[str]] = {}
    for key, text in parse_settings(grid, "--grid", example).items():
        values = [value.strip() for value in text.split(",")]
        if "" in values:
            raise SpecError(f"--grid is {key + '=' + text!r}: write the values to try, such as --grid {example}")
        repeated = [value for i, value in enumerate(values) if value in values[:i]]
        if repeated:
            raise SpecError(f"--grid gives {key}={repeated[0]} twice: keep one")
        found[key] = values
    return found


def parse_delay(text: str, clock: str | None) -> float:
    """A number of instances, or with a clock, seconds."""
    from app.stream_file.durations import parse_duration

    if clock is None:
        if text.strip().isdecimal():
            return int(text)
        cure = "give a number of instances, or name the column of times by --time for a duration"
        raise click.BadParameter(f"{text!r} is no whole number: {cure}", param_hint="--label-delay")
    try:
        return 0.0 if text.strip() == "0" else parse_duration(text, example="30m")
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--label-delay") from None


def parse_recipe(text: str, n: int | None, drifts: tuple[str, ...], concepts: tuple[str, ...]) -> "Recipe":
    """A stream from "agrawal:function=3" and the options of `riparian generate`."""
    from app.cli.generate import recipe

    name, colon, rest = text.partition(":")
    return recipe(name, n, tuple(rest.split(",")) if colon else (), None, drifts, concepts)
