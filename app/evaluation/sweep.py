"""Several models, parameters and repeats over one file: which runs there are, and how processes share them.

A *candidate* is a model with parameters. Repeat r of every candidate has the seed + r: for the learner's random
numbers, for the order of the rows where they are shuffled, and for the stream where it is generated. So the candidates
of one repeat see the same rows in the same order, and a run does not depend on what else is run, or where.
"""

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np

from riparian.app.dataset.files.data import DataFile
from riparian.app.errors import SpecError
from riparian.app.evaluation.evaluate import FileStream, evaluate_all
from riparian.app.evaluation.pool import Pool, advance
from riparian.app.partition.learner import PartitionLearner
from riparian.app.stream_file.spec import Spec
from riparian.models.auto.auto import AUTO, PARAMETERS
from riparian.models.entry import Parameter, suggest
from riparian.models.registry import find

TASKS_A_JOB = 4  # tasks for each process, so that all end at about the same time
TRIES_A_DRAW = 20  # tries to draw what was not drawn before, where ranges hold few values
MOST_TOGETHER = 16  # models that share one reading of the file, in memory at once


class Candidate(NamedTuple):
    """A model with the parameters that it is given; the others are at their defaults."""

    model: str
    parameters: Mapping[str, Any]

    @property
    def label(self) -> str:
        return " ".join([self.model, *(f"{key}={value}" for key, value in self.parameters.items())])


class ParameterRange(NamedTuple):
    """What to draw a parameter from: numbers from low to high, evenly or evenly in the logarithm; or some values."""

    low: float = 0.0
    high: float = 0.0
    log: bool = False
    values: Sequence[Any] = ()

    def draw(self, rng: np.random.Generator, whole: bool) -> Any:
        """One value, of four digits at most. whole : for a whole number, each of which is as likely as its neighbour
        on the scale."""
        if self.values:
            return self.values[int(rng.integers(len(self.values)))]
        if whole:  # half of the way to the next ones belongs to the first and the last
            least, most = math.ceil(self.low), math.floor(self.high)
            return min(max(round(self._draw(rng, least - 0.5, most + 0.5)), least), most)
        return min(max(float(f"{self._draw(rng, self.low, self.high):.4g}"), self.low), self.high)

    def _draw(self, rng: np.random.Generator, low: float, high: float) -> float:
        return math.exp(rng.uniform(math.log(low), math.log(high))) if self.log else float(rng.uniform(low, high))


class Search(NamedTuple):
    """A random search (Bergstra and Bengio: Random search for hyper-parameter optimization. JMLR 13, 2012).

    n : draws for each model
    ranges : parameter -> what to draw from, for every model that has it; or "MODEL.PARAMETER" for one
    seed : of the draws, which are those of a model whatever other models there are
    """

    n: int = 0
    ranges: Mapping[str, ParameterRange] = {}
    seed: int = 0

    def draws(self, model: str, axes: Mapping[str, ParameterRange]) -> list[dict[str, Any]]:
        """Different ones; fewer than n where there are no more. axes : the ranges of the parameters of `model`."""
        rng = np.random.default_rng([self.seed, zlib.crc32(model.encode())])
        types = {parameter.name: parameter.type for parameter in _parameters(model)}
        for name, axis in axes.items():
            number = types[name] in (int, float)
            if not axis.values and not (number and (types[name] is float or math.ceil(axis.low) <= axis.high)):
                raise SpecError(f"--range of {name!r} holds none of its values: list some, separated by commas")
        found: list[dict[str, Any]] = []
        for _ in range(self.n * TRIES_A_DRAW):
            one = {name: axis.draw(rng, types[name] is int) for name, axis in axes.items()}
            if one not in found:
                found.append(one)
            if len(found) == self.n:
                break
        return found


class Task(NamedTuple):
    """Runs over the same rows in the same order, that one process does together.

    places : of their results
    options : of `evaluate_all`
    """

    file: DataFile
    goal: str | None
    n: int
    specs: list[Spec]
    places: list[int]
    options: Mapping[str, Any]


def candidates(
    models: Sequence[tuple[str, Mapping[str, Any]]],
    settings: Mapping[str, Any],
    grid: Mapping[str, Sequence[Any]],
    search: Search = Search(),  # noqa: B008
) -> list[Candidate]:
    """Every model with every combination of the grid, and beside each of these every draw of a search.

    Parameters
    ----------
    models : (name, its own parameters), which come before all others.
    settings, grid : parameter -> value, or values, for every model that has it; or "MODEL.PARAMETER" for one.

    Raises
    ------
    SpecError
        An unknown model, a parameter that none of the models has, or one candidate twice.
    """
    ways: dict[str, Mapping[str, Any]] = {"--set": settings, "--grid": grid, "--range": search.ranges}
    for (first, some), (second, others) in combinations(ways.items(), 2):
        both = sorted(set(some) & set(others))
        if both:
            raise SpecError(f"{both[0]!r} is given by {first} and by {second}: keep one")
    names = list(dict.fromkeys(name for name, _ in models))
    for name in names:
        _parameters(name)
    for key in (*settings, *grid, *search.ranges):
        if not any(_parameter(key, name) for name in names):
            raise SpecError(_nobody(key, names))
    found: list[Candidate] = []
    for name, own in models:
        fixed = {p: value for key, value in settings.items() if (p := _parameter(key, name)) and p not in own}
        axes = {p: values for key, values in grid.items() if (p := _parameter(key, name)) and p not in own}
        drawn = {p: values for key, values in search.ranges.items() if (p := _parameter(key, name)) and p not in own}
        draws = search.draws(name, drawn) if drawn else [{}]
        for values in product(*axes.values()):
            tried = dict(zip(axes, values, strict=True))
            found += [Candidate(name, {**own, **fixed, **tried, **draw}) for draw in draws]
    for i, candidate in enumerate(found):
        if candidate in found[:i]:
            raise SpecError(f"{candidate.label} is given twice: keep one, or use --repeats")
    return found


def _parameters(model: str) -> Sequence[Parameter]:
    """The parameters of a model; SpecError where there is no model of that name."""
    if model == AUTO:
        return PARAMETERS
    try:
        return find(model).parameters
    except ValueError as error:
        raise SpecError(str(error)) from None


def _parameter(key: str, model: str) -> str | None:
    """The parameter of `model` that "PARAMETER" or "MODEL.PARAMETER" means, if any."""
    owner, dot, name = key.rpartition(".")
    known = {parameter.name for parameter in _parameters(model)}
    return name if name in known and (not dot or owner == model) else None


def _nobody(key: str, names: Sequence[str]) -> str:
    """A sentence about a parameter that none of the models has."""
    owner, dot, name = key.rpartition(".")
    if dot and owner not in names:
        return f"{key!r} is for the model {owner!r}: {suggest(owner, dict.fromkeys(names))}"
    names = [owner] if dot else names
    known = {parameter.name: None for model in names for parameter in _parameters(model)}
    who = f"model {names[0]!r} has no" if len(names) == 1 else "none of the models has a"
    return f"{who} parameter {name!r}: {suggest(name, known) if known else 'remove it'}"


def tasks_of(
    problems: Sequence[tuple[DataFile, FileStream]],
    chosen: Sequence[Candidate],
    seeds: Sequence[int],
    *,
    jobs: int = 1,
    **options: Any,
) -> list[Task]:
    """The runs of every candidate and repeat; the place of a result is candidate * repeats + repeat.

    Parameters
    ----------
    problems : the file of each repeat, in its order, and the stream it stands for.
    seeds : one per repeat.
    """
    repeats = len(seeds)
    together = max(1, len(chosen) * repeats // (TASKS_A_JOB * jobs))
    n_groups = -(-len(chosen) // min(MOST_TOGETHER, len(chosen) if jobs == 1 else together))
    tasks = []
    for repeat, ((file, problem), seed) in enumerate(zip(problems, seeds, strict=True)):
        for group in range(n_groups):
            picked = range(group, len(chosen), n_groups)  # neighbours in a grid cost alike: spread them
            specs = [problem.spec(*chosen[i], seed) for i in picked]
            places = [i * repeats + repeat for i in picked]
            tasks.append(Task(file, problem.goal, problem.n, specs, places, options))
    return tasks


def run(
    tasks: Sequence[Task],
    jobs: int,
    on_progress: Callable[[int], None] | None = None,
    on_compiling: Callable[[int], None] | None = None,
) -> list[dict[str, Any]]:
    """The results of all runs, in the order of their places. on_progress : told the rows done, of all runs together.
    on_compiling : told how many kernels other processes are compiling."""
    if jobs == 1:
        done = 0

        def add(n: int) -> None:
            nonlocal done
            done += n
            if on_progress is not None:
                on_progress(done)

        found = [_work(task, add) for task in tasks]
    else:
        first = {spec.models()["champion"][0]: spec for task in reversed(tasks) for spec in task.specs}
        with Pool(jobs, on_progress, on_compiling) as pool:
            pool.map(warm_up, list(first.values()))  # once, and not in every process
            found = pool.map(_work, tasks)
    results = {
        k: one for task, part in zip(tasks, found, strict=True) for k, one in zip(task.places, part, strict=True)
    }
    return [results[place] for place in sorted(results)]


def _work(task: Task, add: Callable[[int], None] = advance) -> list[dict[str, Any]]:
    """add : given how many more rows are done."""
    before = 0

    def on_progress(rows: int) -> None:
        nonlocal before
        add((rows - before) * len(task.specs))
        before = rows

    return evaluate_all(task.file, task.specs, task.goal, task.n, on_progress=on_progress, **task.options)


def warm_up(spec: Spec) -> None:
    """Compile what the model of `spec` needs, for the processes that follow."""
    PartitionLearner(spec).warm_up()
