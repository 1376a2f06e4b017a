"""What one call of `riparian evaluate` runs: models over rows, as its `Setup` says."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from riparian.app.dataset.files.data import MOST_NOMINAL
from riparian.app.dataset.files.shuffled import ShuffledFile
from riparian.app.dataset.files.table import Table, read_table
from riparian.app.evaluation.evaluate import evaluate_bags, problem_for
from riparian.app.evaluation.folds import cross_validate
from riparian.app.evaluation.setup import Setup
from riparian.app.evaluation.sweep import Candidate, run, tasks_of
from riparian.app.stream_file.spec import Spec
from riparian.models.kernels.threads import n_cores
from riparian.models.predictions.decision import MEMORY

OnProgress = Callable[[int], None]


class Experiment(NamedTuple):
    """All that is run, once it is known to be valid.

    name : of the data
    total : of what `run` tells its callback
    past : labels of the window, and the factor of fading, of a point of the curves; predictions where there are no
        labels
    about : what all results have in common, as JSON
    run : to the results, candidate by candidate and repeat by repeat. It is given what is told how much is done, and
        what is told how many kernels other processes are compiling
    remarks : sentences on what was inferred and may be wrong
    labelled : whether there are labels: without them alerts are counted
    drifts : labels at known changes of a generated stream
    """

    name: str
    total: int
    past: tuple[int, float | None]
    about: dict[str, Any]
    run: Callable[[OnProgress, OnProgress | None], list[dict[str, Any]]]
    remarks: Sequence[str] = ()
    labelled: bool = True
    drifts: Sequence[int] = ()


def prepare(setup: Setup, chosen: Sequence[Candidate]) -> Experiment:
    """What is to be run; each result with the `label` of its candidate. DataError or SpecError where it cannot be."""
    of_table = setup.bag is not None or setup.folds is not None
    experiment = _of_table(setup, chosen) if of_table else _of_stream(setup, chosen)
    labels = [one.label for one in chosen for _ in range(setup.repeats)]

    def labelled(on_progress: OnProgress, compiling: OnProgress | None = None) -> list[dict[str, Any]]:
        results = experiment.run(on_progress, compiling)
        return [{"label": label, **one} for label, one in zip(labels, results, strict=True)]

    return experiment._replace(run=labelled)


def recent_predictions(spec: Spec) -> int:
    """About how many of the last predictions a recent alert rate is of."""
    assert spec.decision is not None
    assert spec.decision.alert_rate is not None
    return round(MEMORY / 2.0 / spec.decision.alert_rate)


def _of_stream(setup: Setup, chosen: Sequence[Candidate]) -> Experiment:
    """Test-then-train over rows, a repeat a seed."""
    start = setup.seed if setup.seed is not None else 0 if setup.stream is None else setup.stream.seed
    seeds, recipe = range(start, start + setup.repeats), setup.recipe
    files = [setup.open()] * setup.repeats if recipe is None else [setup.open(seed) for seed in seeds]
    # What is inferred from a file does not depend on the order of its rows; generated files differ.
    kinds = {id(file): problem_for(file, **setup._asdict()) for file in {id(file): file for file in files}.values()}
    labelled = all(one.goal is not None for one in kinds.values())
    if not labelled:
        setup.check_unlabelled()
    problems = [
        (ShuffledFile(file, seed, setup.limit) if setup.shuffle else file, kinds[id(file)])
        for file, seed in zip(files, seeds, strict=True)
    ]
    jobs = min(n_cores() if setup.jobs is None else setup.jobs, len(chosen) * setup.repeats)
    options = {name: getattr(setup, name) for name in ("label_delay", "clock", "limit", "points", "detectors")}
    tasks = tasks_of(problems, chosen, seeds, jobs=jobs, **options)
    spec, name = tasks[0].specs[0], files[0].path.name
    about: dict[str, Any] = {"data": name, "rows": tasks[0].n, "task": spec.task}
    about |= {"label_delay": spec.label.ahead or setup.label_delay} if labelled else {}
    about |= {} if setup.clock is None else {"clock": setup.clock}
    if recipe is not None:
        about["generated"] = {key: value for key, value in recipe.plain().items() if key != "seed"}
    return Experiment(
        name,
        sum(task.n * len(task.specs) for task in tasks),
        (spec.metrics.window, spec.metrics.fading) if labelled else (recent_predictions(spec), None),
        about | {"repeats": setup.repeats, "shuffled": setup.shuffle},
        partial(run, tasks, jobs),
        kinds[id(files[0])].remarks,
        labelled,
        [] if recipe is None else [drift.at for drift in recipe.drifts],
    )


def _of_table(setup: Setup, chosen: Sequence[Candidate]) -> Experiment:
    """Cross-validation of rows or bags, or test-then-train over bags: all of them in memory."""
    file = setup.open()
    table = read_table(
        file,
        bag=setup.bag,
        target=setup.target,
        task=setup.task,
        nominal=setup.nominal,
        ignore=setup.ignore,
        max_values=setup.max_values or MOST_NOMINAL,
        limit=setup.limit,
    )
    name, start = file.path.name, setup.seed or 0
    how = {"label_delay": setup.label_delay} if setup.folds is None else {"folds": setup.folds}
    about = {"data": name, "rows": len(table.y), "task": table.schema.task, **how}

    def run_all(on_progress: OnProgress, compiling: OnProgress | None) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = []
        for one in chosen:
            for seed in range(start, start + setup.repeats):
                results.append(_run_one(table, setup, one, name, seed))
                on_progress(len(results))
        return results

    return Experiment(
        name,
        len(chosen) * setup.repeats,
        (setup.window or 1000, setup.fading),
        about | {"repeats": setup.repeats, "shuffled": False},
        run_all,
        table.remarks,
    )


def _run_one(table: Table, setup: Setup, one: Candidate, name: str, seed: int) -> dict[str, Any]:
    if setup.folds is not None:
        return {"data": name, **cross_validate(table, one.model, one.parameters, setup.folds, seed=seed)}
    return evaluate_bags(table, one.model, one.parameters, setup, name, seed)
