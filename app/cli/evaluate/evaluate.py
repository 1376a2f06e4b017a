"""`riparian evaluate`: test-then-train over a file, in memory, without a broker."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from riparian.app.cli import grid_option, load
from riparian.app.cli.terminal.parsing import (
    check_label_time,
    parse_delay,
    parse_grid,
    parse_measure,
    parse_model,
    parse_ranges,
    parse_recipe,
    parse_settings,
)
from riparian.app.evaluation.measures.measures import AS_GIVEN, MEASURES, quality
from riparian.models.drift import DETECTORS

if TYPE_CHECKING:
    from riparian.app.evaluation.experiment import Experiment
    from riparian.app.evaluation.setup import Setup
    from riparian.app.evaluation.sweep import Candidate


# Options that say nothing of a stream file's own models.
OF_MODELS = (
    *("settings", "grid", "search", "ranges", "repeats", "shuffle", "sort", "jobs", "curves", "fronts"),
    *("detectors", "points", "folds", "bag"),
)
# Options that need rows in their order.
OF_STREAMS = ("generate", "stream", "clock", "curves", "detectors", "shuffle", "coverage", "calibrated")


@click.command("evaluate")
@click.argument("data", metavar="[DATA.csv.gz]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME[:KEY=VALUE,…]",
    help="A learner, with parameters of its own; `riparian models` lists them. Repeatable: side by side. Left out "
    "beside --stream: its champion and challengers together, with what its promotion and drift would have done.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="[NAME.]KEY=VALUE",
    help="A parameter of every model that has it, or of NAME alone. Repeatable.",
)
@grid_option
@click.option(
    "--search",
    type=click.IntRange(min=1),
    metavar="N",
    help="Draw N times from all --range, by --seed, beside all combinations of --grid.",
)
@click.option(
    "--range",
    "ranges",
    multiple=True,
    metavar="[NAME.]KEY=LOW..HIGH[:log]",
    help="What --search draws from, evenly, or evenly in the logarithm; or KEY=A,B,…. Repeatable.",
)
@click.option(
    "--label-delay",
    default="0",
    show_default=True,
    metavar="N|DURATION",
    help="The label of an instance comes N instances later; with --time so much time later: 250ms, 30s, 5m, 2h, 7d.",
)
@click.option("--time", "clock", metavar="COLUMN", help="Time of each row: seconds since 1970, or ISO 8601.")
@click.option(
    "--label-time",
    "label_clock",
    metavar="COLUMN",
    help="Time at which the label of each row comes, as --time has it; empty where none does. A row with such a time "
    "and no label gets a label that is null.",
)
@click.option("--repeats", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Seeds to try.")
@click.option("--shuffle", is_flag=True, help="Rows in random order, another one in each repeat. Held in memory.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    help="Of the learner, of --shuffle and of --generate; each repeat adds 1. [default: 0]",
)
@click.option("--sort", type=click.Choice([*MEASURES, AS_GIVEN]), metavar="MEASURE", help="[default: accuracy, or mae]")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Processes. [default: a core each]")
@click.option(
    "--stream",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="STREAM.yaml",
    help="Take features, task, classes, metrics and seed from a stream file. Otherwise they are inferred.",
)
@click.option("--label", "target", metavar="COLUMN", help="The column to predict. [default: the last]")
@click.option(
    "--task", type=click.Choice(["classification", "regression", "anomaly"]), help="[default: inferred from the target]"
)
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
@click.option(
    "--coverage",
    type=click.FloatRange(0.5, 0.999),
    metavar="SHARE",
    help="Say intervals, or sets of classes, that shall hold this share of the labels, such as 0.9.",
)
@click.option(
    "--calibrated", is_flag=True, help="Scale probabilities, as labels come, so that they mean what they say."
)
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
    "--measure",
    "measures",
    multiple=True,
    callback=lambda _, __, values: tuple(map(parse_measure, values)),
    metavar="MEASURE",
    help="What --curve shows, such as auroc, recall:CLASS or live_bytes. Repeatable. [default: accuracy, or mae]",
)
@click.option(
    "--front",
    "fronts",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.csv|.svg|.png",
    help="Write accuracy, or MAE, against bytes in memory, with the front of what nothing beats in both. Repeatable.",
)
@click.option(
    "--detector",
    "detectors",
    multiple=True,
    type=click.Choice(list(DETECTORS)),
    metavar="NAME",
    help=f"Watch the errors of every model: {', '.join(DETECTORS)}. Repeatable.",
)
@click.option(
    "--predictions",
    type=click.File("wb"),
    metavar="FILE.jsonl",
    help="Write each prediction of --stream's models together, a line of JSON as a worker's record is; its id is the "
    "number of the row.",
)
@click.option(
    "--state",
    "state",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write what --stream's models have learned, and the past of its keys: `riparian import --models-only` lets a "
    "stream begin with it.",
)
@click.option("--points", type=click.IntRange(min=1), metavar="N", help="Points of a curve, about. [default: 50]")
@click.option(
    "--folds",
    type=click.IntRange(min=2),
    metavar="N",
    help="Cross-validation with so many folds, instead of test-then-train. Rows are dealt again in each repeat.",
)
@click.option("--bag", metavar="COLUMN", help="A row is an instance of the bag that this column names.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a summary, and all runs.")
def command(**given: Any) -> None:
    """Predict each row of a file, then learn it: prequential evaluation, in memory.

    The rows go through the code that the worker runs, so a worker that sees the same rows and the same delay reports
    the same figures. The file is CSV with a header, plain or packed; an empty cell or "?" is a missing value, and so
    is "NA" or "NaN" among numbers. A column of numbers is a numeric feature, one of times (ISO 8601) is left out, any
    other is a nominal feature.

    \b
    riparian evaluate elec.csv.gz --model hoeffding-tree --model naive-bayes
    riparian evaluate elec.csv.gz --model hoeffding-tree --grid grace_period=50,200,1000 --grid delta=1e-7,1e-3
    riparian evaluate elec.csv.gz --model hoeffding-tree:grace_period=50 --repeats 10 --shuffle
    riparian evaluate elec.csv.gz --model hoeffding-tree --search 20 --range grace_period=10..1000:log --front f.svg
    riparian evaluate elec.csv.gz --stream elec.yaml
    riparian evaluate --generate agrawal:function=3 -n 50000 --drift 25000 --to function=5 --model hoeffding-tree
    """
    from riparian.app.cli.evaluate import table as shown
    from riparian.app.cli.terminal.progress import progress
    from riparian.app.evaluation.experiment import prepare
    from riparian.app.evaluation.figures import files, pareto_front
    from riparian.app.evaluation.figures.curves import Line
    from riparian.app.evaluation.figures.curves import write as write_curves
    from riparian.app.evaluation.figures.summary import summarise
    from riparian.app.evaluation.sweep import Search, candidates

    check_combinations(given)
    if not given["models"]:
        from riparian.app.evaluation.whole import Whole

        setup = setup_of(given)
        whole = Whole(setup)
        for remark in whole.remarks:
            click.echo(f"riparian: {remark}", err=True)
        file = given["predictions"]
        with progress(f"{whole.spec.name} on {whole.name}", whole.total) as advance:
            found = whole.run(advance, None if file is None else file.write)
        if given["state"] is not None:
            from riparian.app.state import portable
            from riparian.app.state.transfer import write_file

            assert setup.stream is not None
            write_file(given["state"], portable.beginning(setup.stream, whole.learner))
        click.echo(json.dumps(found)) if given["as_json"] else shown.show_whole(found)
        return
    for picture in (*given["curves"], *given["fronts"]):
        files.check(picture, "--curve" if picture in given["curves"] else "--front")
    models, settings = [parse_model(model) for model in given["models"]], parse_settings(given["settings"])
    search = Search(given["search"] or 0, parse_ranges(given["ranges"]), given["seed"] or 0)
    chosen = candidates(models, settings, parse_grid(given["grid"]), search)
    setup = setup_of(given)
    with progress("reading the data"):
        experiment = prepare(setup, chosen)
    for remark in experiment.remarks:
        click.echo(f"riparian: {remark}", err=True)
    if given["fronts"] and not experiment.labelled:
        raise click.UsageError("--front is of AUROC, which needs labels: name their column by --label, or leave it out")
    with progress(title(experiment, chosen), experiment.total) as advance:
        results = experiment.run(advance, advance.elsewhere)
    sort, by = given["sort"], quality(experiment.about["task"]) if experiment.labelled else "alert_rate"
    summary = summarise(chosen, results, sort)
    runs = {one.label: results[i * setup.repeats :][: setup.repeats] for i, one in enumerate(chosen)}
    past = shown.past(*experiment.past) if experiment.labelled else shown.past_predictions(experiment.past[0])
    if given["as_json"]:
        about = {**experiment.about, "sort": sort or (by if experiment.labelled else AS_GIVEN)}
        click.echo(json.dumps({**about, "summary": summary, "runs": results}))
    elif len(results) == 1 and setup.folds is None:
        shown.show_one(results[0], past)
    else:
        shown.show_all(summary, results[0], setup.shuffle)
    for picture in given["curves"]:
        lines = [Line(entry["label"], runs[entry["label"]]) for entry in summary]
        along = "labels scored" if experiment.labelled else "predictions"
        write_curves(picture, lines, given["measures"] or (by,), past, experiment.drifts, along)
    for picture in given["fronts"]:
        pareto_front.write(picture, summary, by)


def check_combinations(given: dict[str, Any]) -> None:
    """UsageError where options exclude each other, or an option needs another one that is missing."""
    flags = {str(option.name): option.opts[0] for option in command.params}
    if (given["data"] is None) == (given["generate"] is None):
        raise click.UsageError("give either DATA.csv.gz or --generate NAME")
    if given["shuffle"] and given["clock"] is not None:
        raise click.UsageError("--shuffle and --time exclude each other: shuffled rows are not in the order of time")
    if not given["models"]:
        if given["stream"] is None:
            raise click.UsageError("give --model NAME, or --stream STREAM.yaml for its own models together")
        for name in OF_MODELS:
            if given[name] and given[name] != 1:
                raise click.UsageError(f"{flags[name]} is about models of --model: add one, or leave {flags[name]} out")
    else:
        for name in ("predictions", "state", "label_clock"):
            if given[name] is not None:
                raise click.UsageError(f"{flags[name]} is of the models of --stream together: leave --model out")
    check_label_time(given["label_clock"], given["clock"], given["label_delay"] != "0")
    if given["generate"] is None:
        for name in ("n", "drifts", "concepts"):
            if given[name]:
                raise click.UsageError(f"{flags[name]} says what to generate: add --generate NAME, or leave it out")
    if bool(given["search"]) != bool(given["ranges"]):
        raise click.UsageError("--search N draws N times from --range KEY=LOW..HIGH: give both")
    if given["measures"] and not given["curves"]:
        raise click.UsageError("--measure says what --curve FILE shows: add it")
    why = "--folds" if given["folds"] is not None else "--bag" if given["bag"] is not None else None
    if why is not None:
        late = ["label_delay"] if why == "--folds" and given["label_delay"] != "0" else []
        for name in (*OF_STREAMS, *late):
            if given[name]:
                raise click.UsageError(f"{why} and {flags[name]} exclude each other")


def setup_of(given: dict[str, Any]) -> "Setup":
    """What the options ask for."""
    from riparian.app.evaluation.setup import Setup

    made: dict[str, Any] = {"label_delay": parse_delay(given["label_delay"], given["clock"])}
    if given["generate"] is not None:
        made["recipe"] = parse_recipe(given["generate"], given["n"], given["drifts"], given["concepts"])
    if given["stream"] is not None:
        made["stream"] = load(given["stream"])
    return Setup(**{name: given[name] for name in Setup._fields if name in given} | made)


def title(experiment: "Experiment", chosen: "Sequence[Candidate]") -> str:
    """Of the bar."""
    repeats = experiment.about["repeats"]
    what = chosen[0].model if len(chosen) == 1 else f"{len(chosen)} models"
    return f"{what} on {experiment.name}{f', {repeats} times' if repeats > 1 else ''}"
