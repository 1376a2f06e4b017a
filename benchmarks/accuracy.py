"""Every learner of the registry on every data set: accuracy or MAE, and memory, as docs/evidence/accuracy.md has them.

    python -m benchmarks.accuracy [--data ../shared/data] [--models hoeffding-tree,naive-bayes]
    python -m benchmarks.accuracy --batch   # those that are refitted on a window, of docs/evidence/accuracy-batch.md

Test-then-train in file order, immediate labels, `--seeds` seeds, by the code that `riparian evaluate` and the worker
run: means, and the standard deviation of the seeds where a learner draws random numbers. Learners run at their
defaults; ROWS adds others. A learner that is new in the registry is in the table by itself; `auto` is beside them.
Batch learners have a table of their own, since their fits take longer than all others together. Data sets and
learners are spread over all cores.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.record import printed
from benchmarks.shrubs import GOALS
from riparian.app.cli.terminal.progress import progress
from riparian.app.dataset.files.data import DataFile
from riparian.app.dataset.files.synthetic import Recipe, SyntheticFile
from riparian.app.errors import RiparianError
from riparian.app.evaluation.evaluate import FileStream, evaluate, problem_for
from riparian.app.evaluation.pool import Pool, advance
from riparian.app.evaluation.sweep import Candidate, warm_up
from riparian.app.stream_file.spec import Spec
from riparian.models.auto.auto import AUTO
from riparian.models.batch import entries as batch
from riparian.models.kernels.threads import n_cores
from riparian.models.registry import REGISTRY, find, validate
from riparian.models.streams.registry import ConceptDrift
from riparian.topics.records import CLASSIFICATION, REGRESSION

ROOT = Path(__file__).resolve().parents[1]

# File -> features that are categories though they look like numbers.
FILES: dict[str, tuple[str, ...]] = {
    "elec": ("day",),
    "weather": (),
    "pendigits": (),
    "nursery": ("children",),
    "splice": (),
    "fried": (),
    "abalone": (),
}
GENERATED = {
    "agrawal": Recipe("agrawal", 50_000, 1),
    "agrawal, drifts": Recipe(
        "agrawal", 50_000, 1, {}, (ConceptDrift(20_000, 0, {"function": 3}), ConceptDrift(35_000, 0, {}))
    ),
}
BATCH = [entry.name for entry in batch.ENTRIES]
OURS = [*(name for name, entry in REGISTRY.items() if not entry.slow and name not in BATCH), AUTO]
SELDOM = {"refit_every": 2000, "lag": 500}  # of batch learners: a quarter of the fits that they make at their defaults
BESIDE = ("hoeffding-tree", "adaptive-random-forest", "fimt-dd")  # what batch learners are compared with
# Besides a row of every learner at its defaults.
ROWS = (
    Candidate("hoeffding-tree", {"leaf_prediction": "nb"}),
    Candidate("hoeffding-tree", {"leaf_prediction": "mc"}),
    Candidate("hoeffding-tree", {"observer": "histogram"}),
    Candidate("hoeffding-adaptive-tree", {"bootstrap": True}),
    Candidate("extremely-fast-decision-tree", {"observer": "histogram"}),
    Candidate("streaming-decision-tree", {"window": 0}),
    Candidate("streaming-decision-tree", {"window": 0, "leaf_values": "overwrite"}),
    Candidate("mondrian-forest", {"split_below": 1.0, "vote_power": 0.0}),
    Candidate("mondrian-forest", {"aggregation": False}),
    Candidate("mondrian-forest", {"split_below": 1.0, "vote_power": 0.0, "aggregation": False}),
    Candidate("stochastic-gradient-tree", {"preset": "paper"}),
    Candidate("stochastic-gradient-tree", {"preset": "boosted"}),
)
# The best that a grid found for one data set, beside the best of at most 50 configurations in Buschjäger, Hess and
# Morik 2022 (Shrub ensembles, table 2).
HISTOGRAMS = {"observer": "histogram", "split_criterion": "hellinger", "binary_splits": True, "delta": 0.1}
EARLY = {"split_criterion": "gini", "grace_period": 8, "tie_threshold": 0.03, "reevaluation_period": 3000}
BAGGED = HISTOGRAMS | {"n_bins": 8, "min_branch_fraction": 0.0, "leaf_prediction": "nb", "grace_period": 20} | {
    "tie_threshold": 0.1, "n_models": 16, "vote": "weighted",
}  # fmt: skip
WATCHFUL = {"n_models": 30, "observer": "histogram", "warning_delta": 0.2, "drift_delta": 0.05}
BEST = (
    (Candidate("hoeffding-tree", HISTOGRAMS), "elec", 86.45),
    (Candidate("hoeffding-tree", {"grace_period": 25, "tie_threshold": 0.2}), "weather", 75.11),
    (
        Candidate("extremely-fast-decision-tree", {"grace_period": 50, "delta": 0.5, "reevaluation_period": 200}),
        "elec",
        87.75,
    ),
    (Candidate("extremely-fast-decision-tree", EARLY), "weather", 76.59),
    (Candidate("online-bagging", BAGGED), "elec", 89.77),
    (
        Candidate(
            "online-bagging",
            {"split_criterion": "hellinger", "binary_splits": True, "leaf_prediction": "nb", "n_models": 20}
            | {"grace_period": 50, "delta": 0.3, "tie_threshold": 0.2, "min_branch_fraction": 0.05},
        ),
        "weather",
        78.38,
    ),
    (
        Candidate(
            "smooth-boost",
            {"split_criterion": "hellinger", "binary_splits": True, "gamma": 0.7, "n_models": 32, "vote": "majority"}
            | {"grace_period": 100, "delta": 0.3, "tie_threshold": 0.1, "min_branch_fraction": 0.05},
        ),
        "elec",
        88.37,
    ),
    (
        Candidate(
            "smooth-boost",
            {"split_criterion": "gini", "gamma": 0.5, "n_models": 20, "vote": "majority"}
            | {"grace_period": 16, "delta": 0.01, "tie_threshold": 0.3, "min_branch_fraction": 0.05},
        ),
        "weather",
        76.95,
    ),
    (Candidate("adaptive-random-forest", WATCHFUL), "elec", 91.06),
    (Candidate("adaptive-random-forest", {"n_models": 20, "tie_threshold": 0.05}), "weather", 78.33),
    (Candidate("streaming-random-patches", WATCHFUL), "elec", 91.42),
    (
        Candidate("streaming-random-patches", {"n_models": 30, "grace_period": 200, "tie_threshold": 0.05}),
        "weather",
        79.19,
    ),
    *(
        (Candidate("shrub-ensemble", GOALS[name][0]), name, theirs)
        for name, theirs in (("elec", 94.01), ("weather", 75.86))
    ),
)
POINTS = 20  # of curves: steps of 2,000 rows, whose calls cost the learners little

TASKS = (CLASSIFICATION, REGRESSION)

# With confidence 1e-3. Splice had its rows in another order: there the last label scored 41.22, and here 36.74 % of the
# rows repeat the one before.
MOA = {
    "last-label": {"elec": 85.33, "weather": 68.03, "pendigits": 10.29, "nursery": 23.94},
    "naive-bayes": {"elec": 73.35, "weather": 69.22, "pendigits": 85.82, "nursery": 85.17, "splice": 93.86},
    "hoeffding-tree": {"elec": 81.94, "weather": 74.03, "pendigits": 89.18, "nursery": 90.74, "splice": 93.86},
    "hoeffding-tree leaf_prediction=mc": {
        "elec": 74.64,
        "weather": 72.19,
        "pendigits": 17.57,
        "nursery": 84.40,
        "splice": 51.82,
    },
    "hoeffding-adaptive-tree": {
        "elec": 85.48,
        "weather": 74.34,
        "pendigits": 89.21,
        "nursery": 90.95,
        "splice": 91.32,
    },
    "extremely-fast-decision-tree": {
        "elec": 82.32,
        "weather": 74.66,
        "pendigits": 88.76,
        "nursery": 89.90,
        "splice": 81.10,
    },
    "online-bagging": {"elec": 82.43, "weather": 74.84, "pendigits": 87.93, "nursery": 90.26, "splice": 93.48},
    "adaptive-random-forest": {
        "elec": 89.44,
        "weather": 78.24,
        "pendigits": 92.87,
        "nursery": 93.65,
        "splice": 90.75,
    },
    "streaming-random-patches": {
        "elec": 88.13,
        "weather": 78.81,
        "pendigits": 94.13,
        "nursery": 94.81,
        "splice": 90.88,
    },
    "smooth-boost": {"elec": 83.57, "weather": 74.95, "pendigits": 87.30, "nursery": 91.16, "splice": 94.11},
}

Results = dict[str, dict[str, dict[str, Any]]]  # row -> data set -> result of `evaluate`, or {"failed": why}


class Case(NamedTuple):
    """One row on one data set, with one seed. seconds : of CPU, after which it is given up."""

    row: str
    data: str
    file: DataFile
    spec: Spec
    goal: str | None
    n: int
    limit: int | None
    seconds: float


class TimeUpError(Exception):
    """A case took too long."""


def measure(case: Case) -> dict[str, Any]:
    """In a process of the pool: the result, or why there is none."""
    started, done = time.process_time(), 0

    def told(rows: int) -> None:
        nonlocal done
        advance(rows - done)
        done = rows
        if time.process_time() - started > case.seconds:
            raise TimeUpError

    try:
        return evaluate(case.file, case.spec, case.goal, case.n, limit=case.limit, points=POINTS, on_progress=told)
    except TimeUpError:
        return {"failed": f"{done:,} of {case.n:,} in {case.seconds:.0f} s"}
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"}
    finally:
        advance(case.n - done)


def data_sets(folder: Path, wanted: Sequence[str], limit: int | None) -> dict[str, tuple[DataFile, FileStream]]:
    """Name -> the data and what they are. RiparianError where a file is not there."""
    found: dict[str, tuple[DataFile, FileStream]] = {}
    for name, nominal in FILES.items():
        if name in wanted:
            file = DataFile(folder / f"{name}.csv.gz")
            found[name] = file, problem_for(file, nominal=nominal, limit=limit)
    for name, recipe in GENERATED.items():
        if name in wanted:
            made = SyntheticFile(recipe)
            found[name] = made, problem_for(made, limit=limit)
    return found


def rows_of(models: Sequence[str], apart: bool = False) -> list[Candidate]:
    """The rows of a table: every model at its defaults, and what ROWS adds. apart : that of the batch learners."""
    for name in models:
        if name != AUTO:
            find(name)
    if apart:
        return [Candidate(name, SELDOM if name in BATCH else {}) for name in models]
    rows = [Candidate(name, {}) for name in models] + [row for row in ROWS if row.model in models]
    return sorted(rows, key=lambda row: [*REGISTRY, AUTO].index(row.model))


def does(row: Candidate, task: str) -> bool:
    """Whether a model does the task, with these parameters."""
    if row.model != AUTO:
        try:
            validate(row.model, task, row.parameters)
        except ValueError:
            return False
    return True


def cases(
    data: Mapping[str, tuple[DataFile, FileStream]],
    rows: Sequence[Candidate],
    best: Sequence[tuple[Candidate, str, float]],
    limit: int | None,
    seconds: float,
    seeds: int = 1,
) -> list[Case]:
    """Every row on every data set of a task that it does, and those of `best` on theirs, with the seeds 0, 1, …."""
    pairs = [(row, name) for row in rows for name in data if does(row, data[name][1].fields["task"])]
    pairs += [(row, name) for row, name, _ in best if name in data]
    return [
        Case(row.label, name, file, spec, problem.goal, problem.n, limit, seconds)
        for row, name in pairs
        for file, problem in (data[name],)
        for spec in (problem.spec(row.model, row.parameters, seed) for seed in range(seeds))
    ]


def run(todo: Sequence[Case], jobs: int) -> Results:
    """The slow ones are unknown, so the large data sets go first."""
    order = sorted(todo, key=lambda case: -case.n)
    first = {case.spec.models()["champion"][0]: case.spec for case in todo}
    runs: dict[str, dict[str, list[dict[str, Any]]]] = {case.row: {} for case in todo}
    with progress("accuracy", sum(case.n for case in todo)) as told, Pool(jobs, told) as pool:
        pool.map(warm_up, list(first.values()))
        for case, found in zip(order, pool.map(measure, order), strict=True):
            runs[case.row].setdefault(case.data, []).append(found)
    return {row: {name: together(found) for name, found in sets.items()} for row, sets in runs.items()}


def together(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One result of the runs of all seeds: the mean of each figure, its standard deviation under "spread", the most
    bytes, and the runs themselves. One that failed stands for all."""
    failed = next((run for run in runs if "failed" in run), None)
    if failed is not None:
        return dict(failed)
    known = [name for name, value in runs[0].items() if isinstance(value, float | int)]
    figures = {name: [run[name] for run in runs] for name in known if all(name in run for run in runs)}
    spread = {name: float(np.std(values, ddof=1)) for name, values in figures.items()} if len(runs) > 1 else {}
    means = {name: float(np.mean(values)) for name, values in figures.items()}
    return {**means, "peak_live_bytes": max(figures["peak_live_bytes"]), "spread": spread, "runs": list(runs)}


def tables(results: Results, task: str, data: Mapping[str, FileStream], anchors: Mapping[str, Any]) -> list[str]:
    """Markdown of one task: quality, memory. data : its data sets. anchors : row -> data set -> MOA's."""
    key = "accuracy" if task == CLASSIFICATION else "mae"
    tuned = {row.label for row, _, _ in BEST}
    rows = [row for row in results if row not in tuned and set(results[row]) & set(data)]
    pick = max if task == CLASSIFICATION else min
    best = {
        name: pick((results[row][name][key] for row in rows if key in results[row].get(name, {})), default=None)
        for name in data
    }

    def quality(row: str, name: str, found: Mapping[str, Any]) -> str:
        text = f"{100 * found[key]:.2f}" if task == CLASSIFICATION else f"{found[key]:.4g}"
        text = f"**{text}**" if found[key] == best[name] else text
        text += off(found, key, task)
        return text + (f" ({anchors[row][name]:.2f})" if name in anchors.get(row, {}) else "")

    def memory(row: str, name: str, found: Mapping[str, Any]) -> str:
        return short(found["peak_live_bytes"] / 1000)

    what = "Accuracy, % (in brackets: MOA's)" if task == CLASSIFICATION else "Mean absolute error"
    sizes = [f"{problem.n:,} x {len(problem.fields['features'])}" for problem in data.values()]
    lines = [f"## {task.capitalize()}"]
    for heading, cell in (
        (what, quality),
        ("KB in memory, at most", memory),
    ):
        lines += ["", f"### {heading}", "", _row("", data), "|---" * (len(data) + 1) + "|"]
        if cell == quality:
            lines.append(_row("*rows x features*", [f"*{size}*" for size in sizes]))
        for row in rows:
            found = {name: results[row].get(name, {}) for name in data}
            lines.append(
                _row(
                    row, [cell(row, n, f) if key in f else "failed" if "failed" in f else "" for n, f in found.items()]
                )
            )
    failed = [(row, name, results[row][name].get("failed")) for row in rows for name in data if name in results[row]]
    sentences = [f"- {row} on {name}: {why}" for row, name, why in failed if why]
    return [*lines, "", "Failed:", "", *sentences] if sentences else lines


def grid(results: Results) -> list[str]:
    """Markdown of what a grid found."""
    found = [(row, name, theirs, results[row.label][name]) for row, name, theirs in BEST if row.label in results]
    return [
        "## Best of a grid",
        "",
        _row("", ["data", "accuracy, %", "KB in memory, at most"]),
        "|---" * 4 + "|",
        *(
            _row(
                row.label,
                [
                    name,
                    f"{100 * one['accuracy']:.2f}{off(one, 'accuracy', CLASSIFICATION)} ({theirs:.2f})",
                    short(one["peak_live_bytes"] / 1000),
                ]
                if "accuracy" in one
                else [name, "failed", ""],
            )
            for row, name, theirs, one in found
        ),
        "",
    ]


def off(found: Mapping[str, Any], key: str, task: str) -> str:
    """ " ± 0.12", the standard deviation of the seeds, in the units of the table; nothing where they agree."""
    spread = found.get("spread", {}).get(key, 0.0)
    text = f"{100 * spread:.2f}" if task == CLASSIFICATION else f"{spread:.2g}"
    return f" ± {text}" if float(text) > 0.0 else ""


def _row(first: str, cells: Iterable[str]) -> str:
    return f"| {' | '.join([first, *cells])} |"


def short(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def chosen(results: Results, todo: Sequence[Case]) -> list[str]:
    """Markdown of what `auto` is: what is estimated for each model, and what the run found."""
    lines = [
        "## What `auto` is",
        "",
        _row("", ["model", "µs per instance, estimated", "KB in memory at most, estimated", "found"]),
        "|---" * 5 + "|",
    ]
    for case in {(case.row, case.data): case for case in todo}.values():
        resolved, found = case.spec.resolved(), results[case.row][case.data]
        if resolved is not None and "peak_live_bytes" in found:
            cells = [
                resolved.parts,
                short(resolved.microseconds),
                short(resolved.n_bytes / 1000),
                short(found["peak_live_bytes"] / 1000),
            ]
            lines.append(_row(case.data, cells))
    return [*lines, ""]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(os.environ.get("RIPARIAN_DATA") or ROOT.parent / "shared" / "data")
    every = [*FILES, *GENERATED]
    parser.add_argument("--data", type=Path, default=default, help="folder of elec.csv.gz, …; or RIPARIAN_DATA")
    parser.add_argument("--sets", default=";".join(every), help="data sets, separated by ;")
    parser.add_argument("--models", help="learners, separated by commas [all, and auto]")
    parser.add_argument("--batch", action="store_true", help="the table of those that are refitted on a window")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each learner, with seeds from 0 on")
    parser.add_argument("--limit", type=int, help="rows of each data set")
    parser.add_argument("--seconds", type=float, default=600.0, help="CPU time after which a run is given up")
    parser.add_argument("--jobs", type=int, default=n_cores())
    options = parser.parse_args(arguments)
    wanted, all_models = options.sets.split(";"), [*BESIDE, *BATCH] if options.batch else OURS
    models = options.models.split(",") if options.models else all_models
    best = [] if options.batch else [one for one in BEST if one[0].model in models]
    try:
        unknown = [name for name in wanted if name not in every]
        if unknown:
            raise RiparianError(f"there is no data set {unknown[0]!r}: use {'; '.join(every)}")
        if not options.data.is_dir() and set(wanted) & set(FILES):
            raise RiparianError(
                f"the public data sets are not at {options.data}: name their folder by --data or RIPARIAN_DATA, or "
                f"use --sets '{';'.join(GENERATED)}'"
            )
        data = data_sets(options.data, wanted, options.limit)
        todo = cases(data, rows_of(models, options.batch), best, options.limit, options.seconds, options.seeds)
        results = run(todo, max(1, options.jobs))
    except (RiparianError, ValueError) as error:
        sys.exit(f"accuracy: {error}")
    problems = {name: problem for name, (_, problem) in data.items()}
    anchors = MOA if options.limit is None else {}
    for task in TASKS:
        mine = {name: problem for name, problem in problems.items() if problem.fields["task"] == task}
        if any(set(found) & set(mine) for found in results.values()):
            print("\n".join([*tables(results, task, mine, anchors), ""]))
    if any(row.label in results for row, _, _ in BEST):
        print("\n".join(grid(results)))
    if AUTO in models:
        print("\n".join(chosen(results, todo)))


if __name__ == "__main__":
    with printed("accuracy", "--batch"):
        main()
