"""What one call of `riparian evaluate` runs: the rows, the models, and how the rows are gone through."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from riparian.app.dataset.arrow import open_data
from riparian.app.dataset.data import MOST_NOMINAL, DataFile
from riparian.app.dataset.dated import DatedFile
from riparian.app.dataset.shuffled import ShuffledFile
from riparian.app.dataset.synthetic import Recipe, SyntheticFile
from riparian.app.dataset.table import read_table
from riparian.app.errors import SpecError
from riparian.app.evaluation.evaluate import evaluate_bags, problem_for
from riparian.app.evaluation.folds import cross_validate
from riparian.app.evaluation.sweep import Candidate, run, tasks_of
from riparian.app.stream_file.spec import Spec
from riparian.models.decision import MEMORY
from riparian.models.threads import n_cores

Told = Callable[[int], None]


class Rows(NamedTuple):
    """The rows, and what the options say about them.

    data : a file, or None where a `recipe` generates them
    stream : says what the columns are; else they are inferred as `app.evaluation.evaluate.problem_for` does
    date_parts : columns of times, of which features are made
    bag : the column that says which bag a row is of
    """

    data: Path | None
    recipe: Recipe | None = None
    stream: Spec | None = None
    target: str | None = None
    task: str | None = None
    nominal: Sequence[str] = ()
    ignore: Sequence[str] = ()
    max_values: int | None = None
    date_parts: Sequence[str] = ()
    clock: str | None = None
    limit: int | None = None
    bag: str | None = None


class Protocol(NamedTuple):
    """How the rows are gone through.

    seed : of the first repeat
    label_delay : as `evaluate_all` takes it
    folds : of a cross-validation, instead of test-then-train
    jobs : processes
    """

    label_delay: float = 0
    repeats: int = 1
    shuffle: bool = False
    seed: int | None = None
    window: int | None = None
    fading: float | None = None
    coverage: float | None = None
    calibrated: bool = False
    points: int | None = None
    detectors: Sequence[str] = ()
    folds: int | None = None
    jobs: int | None = None


class Experiment(ABC):
    """All that is run, once it is known to be valid.

    Attributes
    ----------
    name : str
        Of the data.
    total : int
        Of what `run` tells its callback.
    remarks : sequence of str
        Sentences on what was inferred and may be wrong.
    past : tuple
        Labels of the window, and the factor of fading, of a point of the curves; predictions where there are no labels.
    labelled : bool
        Whether there are labels: without them alerts are counted.
    drifts : list of int
        Labels at known changes of a generated stream.
    about : dict
        What all results have in common, as JSON.
    """

    name: str
    total: int
    remarks: Sequence[str] = ()
    past: tuple[int, float | None]
    labelled: bool = True
    drifts: Sequence[int] = ()
    about: dict[str, Any]

    def __init__(self, protocol: Protocol, chosen: Sequence[Candidate]) -> None:
        self._protocol, self._chosen = protocol, chosen

    def run(self, told: Told, compiling: Told | None = None) -> list[dict[str, Any]]:
        """The results, candidate by candidate and repeat by repeat, each with the candidate's `label`. told : how much
        is done. compiling : how many kernels other processes are compiling."""
        labels = [one.label for one in self._chosen for _ in range(self._protocol.repeats)]
        return [{"label": label, **one} for label, one in zip(labels, self._run(told, compiling), strict=True)]

    @abstractmethod
    def _run(self, told: Told, compiling: Told | None) -> list[dict[str, Any]]:
        """The results, without labels, in the order of `run`."""


def prepare(rows: Rows, protocol: Protocol, chosen: Sequence[Candidate]) -> Experiment:
    """What is to be run. DataError or SpecError where it cannot be."""
    of_table = rows.bag is not None or protocol.folds is not None
    return _OfTable(rows, protocol, chosen) if of_table else _OfStream(rows, protocol, chosen)


def check_unlabelled(protocol: Protocol) -> None:
    """SpecError where something is asked for that only labels can tell."""
    asked: dict[str, Any] = {"--label-delay": protocol.label_delay, "--detector": protocol.detectors}
    asked |= {"--window": protocol.window, "--fading": protocol.fading}
    for option in [option for option, value in asked.items() if value]:
        raise SpecError(f"{option} is about labels, and there are none: name their column by --target, or leave it out")


def recent_predictions(spec: Spec) -> int:
    """About how many of the last predictions a recent alert rate is of."""
    assert spec.decision is not None
    assert spec.decision.alert_rate is not None
    return round(MEMORY / 2.0 / spec.decision.alert_rate)


class _OfStream(Experiment):
    """Test-then-train over rows, a repeat a seed."""

    def __init__(self, rows: Rows, protocol: Protocol, chosen: Sequence[Candidate]) -> None:
        super().__init__(protocol, chosen)
        start = protocol.seed if protocol.seed is not None else 0 if rows.stream is None else rows.stream.seed
        seeds = range(start, start + protocol.repeats)
        files: Sequence[DataFile]
        if rows.recipe is not None:
            files = [SyntheticFile(rows.recipe._replace(seed=seed)) for seed in seeds]
            self.drifts = [drift.at for drift in rows.recipe.drifts]
        else:
            files = [DatedFile(open_data(rows.data or ""), rows.date_parts)] * protocol.repeats
        # What is inferred from a file does not depend on the order of its rows; generated files differ.
        kinds = {
            id(file): problem_for(
                file,
                stream=rows.stream,
                target=rows.target,
                task=rows.task,
                nominal=rows.nominal,
                ignore=rows.ignore,
                max_values=rows.max_values,
                clock=rows.clock,
                window=protocol.window,
                fading=protocol.fading,
                coverage=protocol.coverage,
                calibrated=protocol.calibrated,
                label_delay=protocol.label_delay,
                limit=rows.limit,
            )
            for file in files
        }
        self.labelled = all(one.goal is not None for one in kinds.values())
        if not self.labelled:
            check_unlabelled(protocol)
        problems = [
            (ShuffledFile(file, seed, rows.limit) if protocol.shuffle else file, kinds[id(file)])
            for file, seed in zip(files, seeds, strict=True)
        ]
        self._jobs = min(n_cores() if protocol.jobs is None else protocol.jobs, len(chosen) * protocol.repeats)
        options: dict[str, Any] = {"label_delay": protocol.label_delay, "clock": rows.clock, "limit": rows.limit}
        options |= {"points": protocol.points, "detectors": protocol.detectors}
        self._tasks = tasks_of(problems, chosen, seeds, jobs=self._jobs, **options)
        metrics = self._tasks[0].specs[0].metrics
        self.name, self.remarks = files[0].path.name, kinds[id(files[0])].remarks
        self.past = metrics.window, metrics.fading
        if not self.labelled:
            self.past = recent_predictions(self._tasks[0].specs[0]), None
        self.total = sum(task.n * len(task.specs) for task in self._tasks)
        self.about = {"data": self.name, "rows": self._tasks[0].n, "task": self._tasks[0].specs[0].task}
        self.about |= {"label_delay": protocol.label_delay} if self.labelled else {}
        self.about |= {} if rows.clock is None else {"clock": rows.clock}
        if rows.recipe is not None:
            self.about["generated"] = {key: value for key, value in rows.recipe.plain().items() if key != "seed"}
        self.about |= {"repeats": protocol.repeats, "shuffled": protocol.shuffle}

    def _run(self, told: Told, compiling: Told | None) -> list[dict[str, Any]]:
        return run(self._tasks, self._jobs, told, compiling)


class _OfTable(Experiment):
    """Cross-validation of rows or bags, or test-then-train over bags: all of them in memory."""

    def __init__(self, rows: Rows, protocol: Protocol, chosen: Sequence[Candidate]) -> None:
        super().__init__(protocol, chosen)
        path = Path(rows.data or "")
        self._table = read_table(
            DatedFile(open_data(path), rows.date_parts),
            bag=rows.bag,
            target=rows.target,
            task=rows.task,
            nominal=rows.nominal,
            ignore=rows.ignore,
            max_values=rows.max_values or MOST_NOMINAL,
            limit=rows.limit,
        )
        self.name, self.remarks = path.name, self._table.remarks
        self.past = protocol.window or 1000, protocol.fading
        self.total = len(chosen) * protocol.repeats
        how = {"label_delay": protocol.label_delay} if protocol.folds is None else {"folds": protocol.folds}
        self.about = {"data": self.name, "rows": len(self._table.y), "task": self._table.schema.task, **how}
        self.about |= {"repeats": protocol.repeats, "shuffled": False}

    def _run(self, told: Told, compiling: Told | None) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = []
        start = self._protocol.seed or 0
        for one in self._chosen:
            for seed in range(start, start + self._protocol.repeats):
                results.append(self._run_one(one, seed))
                told(len(results))
        return results

    def _run_one(self, one: Candidate, seed: int) -> dict[str, Any]:
        asked = self._protocol
        if asked.folds is not None:
            found = cross_validate(self._table, one.model, one.parameters, asked.folds, seed=seed)
            return {"data": self.name, **found}
        return evaluate_bags(
            self._table,
            one.model,
            one.parameters,
            data=self.name,
            label_delay=int(asked.label_delay),
            seed=seed,
            points=asked.points,
            window=asked.window,
            fading=asked.fading,
        )
