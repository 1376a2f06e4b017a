"""What one call of `riparian evaluate` runs: models over rows, as its `Setup` says."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from riparian.app.dataset.data import MOST_NOMINAL
from riparian.app.dataset.shuffled import ShuffledFile
from riparian.app.dataset.table import read_table
from riparian.app.evaluation.evaluate import evaluate_bags, problem_for
from riparian.app.evaluation.folds import cross_validate
from riparian.app.evaluation.setup import Setup
from riparian.app.evaluation.sweep import Candidate, run, tasks_of
from riparian.app.stream_file.spec import Spec
from riparian.models.decision import MEMORY
from riparian.models.threads import n_cores

Told = Callable[[int], None]


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

    def __init__(self, setup: Setup, chosen: Sequence[Candidate]) -> None:
        self._setup, self._chosen = setup, chosen

    def run(self, told: Told, compiling: Told | None = None) -> list[dict[str, Any]]:
        """The results, candidate by candidate and repeat by repeat, each with the candidate's `label`. told : how much
        is done. compiling : how many kernels other processes are compiling."""
        labels = [one.label for one in self._chosen for _ in range(self._setup.repeats)]
        return [{"label": label, **one} for label, one in zip(labels, self._run(told, compiling), strict=True)]

    @abstractmethod
    def _run(self, told: Told, compiling: Told | None) -> list[dict[str, Any]]:
        """The results, without labels, in the order of `run`."""


def prepare(setup: Setup, chosen: Sequence[Candidate]) -> Experiment:
    """What is to be run. DataError or SpecError where it cannot be."""
    of_table = setup.bag is not None or setup.folds is not None
    return _OfTable(setup, chosen) if of_table else _OfStream(setup, chosen)


def recent_predictions(spec: Spec) -> int:
    """About how many of the last predictions a recent alert rate is of."""
    assert spec.decision is not None
    assert spec.decision.alert_rate is not None
    return round(MEMORY / 2.0 / spec.decision.alert_rate)


class _OfStream(Experiment):
    """Test-then-train over rows, a repeat a seed."""

    def __init__(self, setup: Setup, chosen: Sequence[Candidate]) -> None:
        super().__init__(setup, chosen)
        start = setup.seed if setup.seed is not None else 0 if setup.stream is None else setup.stream.seed
        seeds, recipe = range(start, start + setup.repeats), setup.recipe
        files = [setup.open()] * setup.repeats if recipe is None else [setup.open(seed) for seed in seeds]
        self.drifts = [] if recipe is None else [drift.at for drift in recipe.drifts]
        # What is inferred from a file does not depend on the order of its rows; generated files differ.
        kinds = {id(file): problem_for(file, setup) for file in {id(file): file for file in files}.values()}
        self.labelled = all(one.goal is not None for one in kinds.values())
        if not self.labelled:
            setup.check_unlabelled()
        problems = [
            (ShuffledFile(file, seed, setup.limit) if setup.shuffle else file, kinds[id(file)])
            for file, seed in zip(files, seeds, strict=True)
        ]
        self._jobs = min(n_cores() if setup.jobs is None else setup.jobs, len(chosen) * setup.repeats)
        options = {name: getattr(setup, name) for name in ("label_delay", "clock", "limit", "points", "detectors")}
        self._tasks = tasks_of(problems, chosen, seeds, jobs=self._jobs, **options)
        metrics = self._tasks[0].specs[0].metrics
        self.name, self.remarks = files[0].path.name, kinds[id(files[0])].remarks
        self.past = metrics.window, metrics.fading
        if not self.labelled:
            self.past = recent_predictions(self._tasks[0].specs[0]), None
        self.total = sum(task.n * len(task.specs) for task in self._tasks)
        self.about = {"data": self.name, "rows": self._tasks[0].n, "task": self._tasks[0].specs[0].task}
        self.about |= {"label_delay": setup.label_delay} if self.labelled else {}
        self.about |= {} if setup.clock is None else {"clock": setup.clock}
        if recipe is not None:
            self.about["generated"] = {key: value for key, value in recipe.plain().items() if key != "seed"}
        self.about |= {"repeats": setup.repeats, "shuffled": setup.shuffle}

    def _run(self, told: Told, compiling: Told | None) -> list[dict[str, Any]]:
        return run(self._tasks, self._jobs, told, compiling)


class _OfTable(Experiment):
    """Cross-validation of rows or bags, or test-then-train over bags: all of them in memory."""

    def __init__(self, setup: Setup, chosen: Sequence[Candidate]) -> None:
        super().__init__(setup, chosen)
        file = setup.open()
        self._table = read_table(
            file,
            bag=setup.bag,
            target=setup.target,
            task=setup.task,
            nominal=setup.nominal,
            ignore=setup.ignore,
            max_values=setup.max_values or MOST_NOMINAL,
            limit=setup.limit,
        )
        self.name, self.remarks = file.path.name, self._table.remarks
        self.past = setup.window or 1000, setup.fading
        self.total = len(chosen) * setup.repeats
        how = {"label_delay": setup.label_delay} if setup.folds is None else {"folds": setup.folds}
        self.about = {"data": self.name, "rows": len(self._table.y), "task": self._table.schema.task, **how}
        self.about |= {"repeats": setup.repeats, "shuffled": False}

    def _run(self, told: Told, compiling: Told | None) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = []
        start = self._setup.seed or 0
        for one in self._chosen:
            for seed in range(start, start + self._setup.repeats):
                results.append(self._run_one(one, seed))
                told(len(results))
        return results

    def _run_one(self, one: Candidate, seed: int) -> dict[str, Any]:
        if self._setup.folds is not None:
            found = cross_validate(self._table, one.model, one.parameters, self._setup.folds, seed=seed)
            return {"data": self.name, **found}
        return evaluate_bags(self._table, one.model, one.parameters, self._setup, self.name, seed)
