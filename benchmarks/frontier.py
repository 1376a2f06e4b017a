"""Our default, our single learners and the best that MOA's own jar ships: accuracy, CPU time and bytes, with ranks.

    python -m benchmarks.frontier [--data ../shared/data] [--n 1000000] [--delays 0,1000] [--only elec,led]

The public data sets of a folder, in file order, and the usual generated streams with a change of concept at each
quarter (abrupt, or gradual over a tenth of the instances). A stream, a delay and a learner is a run; runs are kept in
--results as they end, a line of JSON each, and not repeated, so the command may be stopped and started again. MOA
learns the same rows from a file, by EvaluatePrequential, or EvaluatePrequentialDelayed where labels come late; ours go
through `riparian evaluate`. Rows before the first label are not scored. CPU seconds are the learner's, ours without
reading the file, MOA's with it (a few percent). Bytes are ours, in memory at most: MOA tells them to an agent alone
that its jar has not. A run that takes longer than --seconds is given up, and counts as the last one in the ranks.

At a million instances and 100 trees MOA takes days. docs/evidence/frontier.md has its tables.
"""

import contextlib
import json
import math
import re
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.papers import diagram
from benchmarks.papers.comparison import Sets, Trials, compare
from benchmarks.peers import FOLDER, PeerError, find_moa, moa_rows, write_arff
from benchmarks.record import printed
from benchmarks.tables import NOMINAL
from riparian.app.cli.terminal.progress import progress
from riparian.app.dataset.files.arrow import open_data
from riparian.app.dataset.files.data import DataFile
from riparian.app.dataset.files.synthetic import Recipe, SyntheticFile
from riparian.app.dataset.files.table import Table as Rows
from riparian.app.dataset.files.table import read_table
from riparian.app.evaluation.evaluate import evaluate_all, problem_for
from riparian.app.partition.outcome import Outcome
from riparian.models.contract import Floats
from riparian.models.streams import Stream
from riparian.models.streams.registry import ConceptDrift
from riparian.topics.names import CHAMPION
from riparian.topics.records import REGRESSION

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / ".riparian" / "frontier.jsonl"
REGRESSIONS = ("fried", "abalone")
SEED = 1
OURS = {
    "auto": ("auto", {}),
    "auto, 200 µs": ("auto", {"max_microseconds": 200}),
    "shrub ensemble": ("shrub-ensemble", {}),
    "random patches, 10": ("streaming-random-patches", {}),
}
OURS_OF_VALUES = {
    "auto": ("auto", {}),
    "auto, 200 µs": ("auto", {"max_microseconds": 200}),
    "shrub ensemble": ("shrub-ensemble", {}),
    "random forest, 10": ("adaptive-random-forest", {}),
}
MOA = {
    "MOA random forest, 100": "meta.AdaptiveRandomForest -s 100",
    "MOA random patches, 100": "meta.StreamingRandomPatches -s 100",
    "MOA leveraging bagging, 100": "meta.LeveragingBag -s 100",
    "MOA gradient boosted trees": "meta.StreamingGradientBoostedTrees",
    "MOA member selection": "meta.DynamicEnsembleMemberSelection",
    "MOA kNN": "lazy.kNN",
    "MOA SAMkNN": "lazy.SAMkNN",
    "MOA AutoClass": "meta.AutoML.AutoClass -f {settings} -b lazy.kNN,trees.HoeffdingTree,trees.HoeffdingAdaptiveTree",
    "MOA Heros": "meta.heros.Heros",
    "MOA Heros, 6 learn": "meta.heros.Heros -p (ZetaPolicy -k 6) -d 1e-5 -a 2",
}
# Of AutoClass, in the jar; what it has by default is a file of its author's machine. It has short names of learners,
# with which AutoClass fails at the end of its first window: it asks for whole ones.
SETTINGS = "moa/classifiers/meta/AutoML/settings.json"
SHORT_NAME = re.compile(r'(?<="algorithm": ")(?!moa\.)')
MOA_OF_VALUES = {
    "MOA random forest, 100": "meta.AdaptiveRandomForestRegressor -s 100",
    "MOA nearest leaves, 100": "meta.SelfOptimisingKNearestLeaves -s 100",
    "MOA gradient boosted trees": "meta.StreamingGradientBoostedRegression",
    "MOA kNN": "lazy.kNN",
}


class World(NamedTuple):
    """A stream that all learn. nominal : features that look like numbers."""

    name: str
    file: DataFile
    task: str
    nominal: Sequence[str] = ()


def generated(n: int) -> list[World]:
    """The usual streams with n instances, a concept a quarter."""

    def recipe(name: str, width: int, first: Mapping[str, Any], *others: Mapping[str, Any]) -> Recipe:
        drifts = [ConceptDrift(n * (i + 1) // 4, width, other) for i, other in enumerate(others)]
        return Recipe(name, n, SEED, first, drifts)

    gradual = n // 10
    functions: list[dict[str, Any]] = [{"function": k} for k in (0, 1, 2, 3)]
    swapped: list[dict[str, Any]] = [{"n_swapped": k} for k in (3, 5, 7)]
    recipes = {
        "led, abrupt": recipe("led", 0, {}, *swapped),
        "led, gradual": recipe("led", gradual, {}, *swapped),
        "sea, abrupt": recipe("sea", 0, *functions),
        "sea, gradual": recipe("sea", gradual, *functions),
        "agrawal, abrupt": recipe("agrawal", 0, *({"function": k} for k in (1, 3, 4, 7))),
        "agrawal, gradual": recipe("agrawal", gradual, *({"function": k} for k in (1, 3, 4, 7))),
        "rbf, moving": Recipe("random-rbf", n, SEED, {"n_classes": 5}),
        "hyperplane": Recipe("hyperplane", n, SEED),
    }
    return [World(name, SyntheticFile(found), "classification") for name, found in recipes.items()]


def shown(folder: Path) -> list[World]:
    """The data sets that a folder has."""
    sets = [World(name, open_data(folder / f"{name}.csv.gz"), "classification", NOMINAL[name])
            for name in NOMINAL if (folder / f"{name}.csv.gz").exists()]  # fmt: skip
    return sets + [
        World(name, open_data(folder / f"{name}.csv.gz"), REGRESSION)
        for name in REGRESSIONS
        if (folder / f"{name}.csv.gz").exists()
    ]


def run_ours(world: World, delay: int, model: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    problem = problem_for(world.file, task=world.task, nominal=world.nominal, label_delay=delay)
    spec = problem.spec(model, parameters, SEED)
    said: list[Any] = []

    def keep(_: int, outcome: Outcome) -> None:
        p = outcome.p[CHAMPION]
        said.append(np.where(p.max(axis=1) > 0.0, p.argmax(axis=1), -1) if len(p) else np.zeros(0, np.int64))

    (found,) = evaluate_all(world.file, [spec], problem.goal, problem.n, label_delay=delay, on_outcome=keep)
    figures: dict[str, float] = {key: found[key] for key in ("mae", "rmse") if key in found}
    if world.task != REGRESSION:
        y, named = by_first_sight(table_of(world).y), np.concatenate(said)
        if abs((named == y).mean() - found["accuracy"]) > 1e-9:
            raise AssertionError(f"{world.name}: these are not the labels that were scored")
        figures = agreement(y[delay:], named[delay:])
    return figures | {"n": problem.n, "seconds": found["seconds"], "bytes": found["peak_live_bytes"]}


def table_of(world: World) -> Rows:
    return read_table(world.file, task=world.task, nominal=world.nominal)


def by_first_sight(y: Floats) -> NDArray[np.int64]:
    """Codes of classes as our learners have them. MOA gets the same: its gradient boosted trees know one class of
    splice alone where codes go by the names of its classes."""
    _, first, found = np.unique(y, return_index=True, return_inverse=True)
    codes: NDArray[np.int64] = np.argsort(np.argsort(first))[found]
    return codes


def agreement(y: NDArray[np.int64], named: NDArray[np.int64]) -> dict[str, float]:
    """Accuracy, and Cohen's kappa."""
    accuracy, n = float((y == named).mean()), len(y)
    chance = sum(float((y == k).sum()) * float((named == k).sum()) for k in np.unique(y)) / n**2
    return {"accuracy": accuracy, "kappa": (accuracy - chance) / (1.0 - chance) if chance < 1.0 else 0.0}


def run_moa(world: World, delay: int, jar: Path, learner: str, folder: Path, seconds: float) -> dict[str, Any]:
    path, n = folder / "rows.arff", folder / "rows.n"
    if not n.exists() or n.read_text() != world.name:
        table = table_of(world)
        n_classes = 0 if world.task == REGRESSION else table.schema.n_outputs
        y = by_first_sight(table.y).astype(float) if n_classes else table.y
        write_arff(path, Stream(np.asarray(table.x), y, table.schema.n_values, (), n_classes))
        n.write_text(world.name)
    kind = "Regression" if world.task == REGRESSION else "Classification"
    task = (
        f"EvaluatePrequential{'Delayed' if delay else ''}{'Regression' if kind == 'Regression' and not delay else ''}"
    )
    late = f"-k {delay} -p {delay} " if delay else ""
    if "{settings}" in learner:
        settings = folder / "settings.json"
        with zipfile.ZipFile(jar) as packed:
            settings.write_text(SHORT_NAME.sub("moa.classifiers.", packed.read(SETTINGS).decode()))
        learner = learner.format(settings=settings)
    evaluator = f"Basic{kind}PerformanceEvaluator"
    row = moa_rows(
        jar, f"{task} {late}-l ({learner}) -s (ArffFileStream -f {path}) -e {evaluator} -f 100000000", seconds
    )[-1]
    figures: dict[str, Any] = {
        "n": int(float(row["learning evaluation instances"])),
        "bytes": None,
    }
    figures["seconds"] = float(row["evaluation time (cpu seconds)"])
    if kind == "Regression":
        return figures | {"mae": float(row["mean absolute error"]), "rmse": float(row["root mean squared error"])}
    percent = {"accuracy": "classifications correct (percent)", "kappa": "Kappa Statistic (percent)"}
    return figures | {name: float(row[column]) / 100.0 for name, column in percent.items()}


def known(path: Path) -> dict[tuple[str, int, int, str], dict[str, Any]]:
    """Runs that have ended, by stream, instances asked for, delay and learner."""
    lines = path.read_text().splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines if line.endswith("}")]  # the last one may be half written
    return {(row["stream"], row["size"], row["delay"], row["learner"]): row for row in rows}


@click.command(help=(__doc__ or "").splitlines()[0])
@click.option("--data", type=click.Path(path_type=Path), default=ROOT.parent / "shared" / "data", help="Of data sets.")
@click.option(
    "--n", "n", type=click.IntRange(min=100), default=1_000_000, show_default=True, help="Of generated streams."
)
@click.option("--delays", default="0,1000", show_default=True, help="Instances that labels are late.")
@click.option("--only", default="", help="These streams alone, by the beginnings of their names.")
@click.option("--learners", default="", help="These learners alone, by the beginnings of their names.")
@click.option("--seconds", type=float, default=7200.0, show_default=True, help="When a run of MOA is given up.")
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, help="Where runs are kept.")
@click.option("--folder", type=click.Path(path_type=Path), default=FOLDER, help="Where peers are kept.")
@click.option("--picture", type=click.Path(path_type=Path), help="Draw the ranks there, for each delay.")
@click.option("--show", is_flag=True, help="Run nothing; show what there is.")
@click.option("--write", is_flag=True, help="Keep the tables of each delay, which the documentation is filled from.")
def main(
    data: Path,
    n: int,
    delays: str,
    only: str,
    learners: str,
    seconds: float,
    results: Path,
    folder: Path,
    picture: Path | None,
    show: bool,
    write: bool,
) -> None:
    late = [int(one) for one in delays.split(",")]
    worlds = [world for world in [*shown(data), *generated(n)] if chosen(world.name, only)]
    todo: list[tuple[World, int, str]] = []
    for world in worlds:
        values = world.task == REGRESSION
        names = [*(OURS_OF_VALUES if values else OURS), *(MOA_OF_VALUES if values else MOA)]
        todo += [(world, delay, name) for delay in late for name in names if chosen(name, learners)]
    if not show:
        results.parent.mkdir(parents=True, exist_ok=True)
        run_all(todo, n, results, folder, seconds)
    done = known(results)
    for delay in late:
        with printed(f"frontier-{delay}") if write else contextlib.nullcontext():
            for task in ("classification", REGRESSION):
                these = [world for world in worlds if world.task == task]
                if these:
                    report(these, n, delay, task, done, picture)


def chosen(name: str, asked: str) -> bool:
    return not asked or any(name.startswith(one) for one in asked.split(","))


def size_of(world: World, n: int) -> int:
    """Instances asked for: of a data set all, which is said as 0."""
    return n if isinstance(world.file, SyntheticFile) else 0


def run_all(todo: Sequence[tuple[World, int, str]], n: int, results: Path, folder: Path, seconds: float) -> None:
    """The runs that are not known yet, ours and MOA's in turns, each kept when it ends."""
    done = known(results)
    left = [run for run in todo if (run[0].name, size_of(run[0], n), run[1], run[2]) not in done]
    jar: Path | None = None
    try:
        jar = find_moa(folder) if any(name.startswith("MOA") for _, _, name in left) else None
    except PeerError as error:
        click.echo(f"MOA is left out: {error}", err=True)
    with tempfile.TemporaryDirectory() as temporary, progress("frontier", len(left)) as told:
        for i, (world, delay, name) in enumerate(left):
            told(i)
            values = world.task == REGRESSION
            ours = (OURS_OF_VALUES if values else OURS).get(name)
            if ours is None and jar is None:
                continue
            row: dict[str, Any] = {"stream": world.name, "size": size_of(world, n), "delay": delay, "learner": name}
            try:
                if ours is not None:
                    row |= run_ours(world, delay, *ours)
                elif jar is not None:
                    command = (MOA_OF_VALUES if values else MOA)[name]
                    row |= run_moa(world, delay, jar, command, Path(temporary), seconds)
            except PeerError as error:
                row |= {"failed": reason(error)}
            with results.open("a") as file:
                file.write(json.dumps(row) + "\n")
            click.echo(f"{world.name}, {delay} late, {name}: {told_of(row, world.task)}", err=True)


def reason(error: PeerError) -> str:
    """The last line of what a program said, of files their names alone: folders are those of one machine."""
    return re.sub(r"(?<!\w)(?:\w+:)*/\S*/", "", str(error).strip().splitlines()[-1].strip())


def told_of(row: Mapping[str, Any], task: str) -> str:
    if "failed" in row:
        return f"failed: {row['failed']}"
    figure = f"MAE {row['mae']:.4g}" if task == REGRESSION else f"{100 * row['accuracy']:.2f} %"
    return f"{figure}, {row['seconds']:,.1f} s"


def report(
    worlds: Sequence[World],
    n: int,
    delay: int,
    task: str,
    done: Mapping[tuple[str, int, int, str], dict[str, Any]],
    picture: Path | None,
) -> None:
    """Tables of quality, cost and bytes as Markdown, a row for each learner that has figures, and a column for each
    stream that has rows of ours and of MOA's. A dash is a run that was given up or failed, an empty cell is none. Ranks
    are of learners that have run on more than half of these streams, over the streams where all of them have."""
    values = task == REGRESSION
    everyone = [*(OURS_OF_VALUES if values else OURS), *(MOA_OF_VALUES if values else MOA)]
    measure, worst = ("mae", math.inf) if values else ("accuracy", 0.0)
    rows = {world.name: {name: done[world.name, size_of(world, n), delay, name] for name in everyone
                         if (world.name, size_of(world, n), delay, name) in done} for world in worlds}  # fmt: skip
    rows = {
        world: found for world, found in rows.items() if {name.startswith("MOA") for name in found} == {True, False}
    }
    learners = [name for name in everyone if any("n" in found.get(name, {}) for found in rows.values())]
    if not rows:
        click.echo(f"labels {delay:,} late, {task}: no stream has runs of ours and of MOA's")
        return
    often = [name for name in learners if 2 * sum(name in found for found in rows.values()) > len(rows)]
    complete = [world for world, found in rows.items() if set(often) <= set(found)]
    late = f"labels {delay:,} late" if delay else "labels at once"
    ranks: Mapping[str, float] = {}
    if len(complete) > 2:
        trials = {world: {name: _trials(rows[world][name].get(measure, worst)) for name in often} for world in complete}
        ranked = compare(Sets(trials, dict.fromkeys(trials), measure))
        ranks = dict(zip(ranked["models"], ranked["ranks"], strict=True))
        limit = ranked["critical_difference"]
        click.echo(f"critical difference of ranks {limit:.2f}, {late}, {task}, over {len(complete)} streams")
        if picture is not None:
            path = picture.with_stem(f"{picture.stem}-{task}-{delay}")
            diagram.write(path, ranked["models"], ranked["ranks"], limit)
    for title, key in (
        ("mean absolute error" if values else "accuracy, %", measure),
        *([] if values else [("kappa", "kappa")]),
        ("µs of CPU time an instance", "cost"),
        ("MB at most", "bytes"),
    ):
        shown = {name: [_cell(rows[world].get(name), key) for world in rows] for name in learners}
        shown = {name: cells for name, cells in shown.items() if key != "bytes" or set(cells) - {"", "–"}}
        means = {name: _mean([rows[world].get(name, {}).get(key) for world in rows]) for name in learners}
        further = ["mean", "rank"] * (key == "accuracy")
        click.echo(f"\n| {title}, {late} | " + " | ".join([*rows, *further]) + " |")
        click.echo("|---" * (1 + len(rows) + len(further)) + "|")
        for name, cells in shown.items():
            last = [_cell({key: means[name]}, key, ""), f"{ranks[name]:.2f}" if name in ranks else ""]
            click.echo(f"| {name} | " + " | ".join([*cells, *last[: len(further)]]) + " |")
    click.echo("")


def _mean(values: Sequence[float | None]) -> float | None:
    """None where one is missing."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def _cell(row: Mapping[str, Any] | None, key: str, missing: str = "–") -> str:
    if row is None:
        return ""
    value = row["seconds"] / row["n"] * 1e6 if key == "cost" and "seconds" in row else row.get(key)
    if value is None:
        return missing
    return {
        "accuracy": f"{100 * value:.2f}",
        "mae": f"{value:.4g}",
        "kappa": f"{value:.3f}",
        "cost": f"{value:,.0f}",
    }.get(key, f"{value / 1e6:,.1f}")


def _trials(value: float) -> Trials:
    return Trials(value, {(SEED, 0): value})


if __name__ == "__main__":
    sys.exit(main())
