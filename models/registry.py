"""Every learner by the name that a stream file uses, with its tasks, parameters, ranges and paper.

A family of learners lists its own in `models/<family>/entries.py`. The entries are plain data and the classes are
imported when a learner is created, so that `riparian models`, `riparian check` and the validation of a stream file do
not wait for numba. A test compares what an entry holds about parameters with the signature of the class: the two cannot
drift apart.
"""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from riparian.models.adapter import entries as adapter
from riparian.models.entry import TASKS, VALUES, Entry, suggest

if TYPE_CHECKING:
    from riparian.models.contract import Learner, Schema

_FAMILIES = (
    *("hoeffding", "regression", "ensemble", "streaming_forest", "shrubs", "mondrian", "neighbours", "gradient"),
    *("soft", "opinion_pool", "bags", "anomaly", "batch", "adapter", "baseline"),
)
FAMILIES = [importlib.import_module(f"riparian.models.{family}.entries") for family in _FAMILIES]

# Models whose parameters name code that is imported and called when one is made, and whose state is a pickle: a stream
# file has to trust both.
FOREIGN = frozenset(entry.name for entry in adapter.ENTRIES)

REGISTRY: dict[str, Entry] = {entry.name: entry for family in FAMILIES for entry in family.ENTRIES}


def find(name: str) -> Entry:
    """The entry called `name`. ValueError with the closest name otherwise."""
    if name in REGISTRY:
        return REGISTRY[name]
    raise ValueError(f"unknown model {name!r}: {suggest(str(name), REGISTRY)}")


def validate(name: str, task: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Check the parameters of a learner and fill in the defaults.

    Numbers may come as text ("200", "1e-7"), as YAML and the command line have them.

    Parameters
    ----------
    name : str
        A name of the registry.
    task : str
        One of models.entry.TASKS.
    parameters : mapping of str to value
        As the stream file or `--set` gives them.

    Returns
    -------
    dict
        Every parameter of the learner, of its declared type.

    Raises
    ------
    ValueError
        One sentence that names the model or parameter, what was found, and what would do.
    """
    entry = find(name)
    if task not in entry.tasks:
        able = ", ".join(other.name for other in REGISTRY.values() if task in other.tasks)
        if not able:
            raise ValueError(f"unknown task {task!r}: use one of {', '.join(TASKS)}")
        raise ValueError(f"model {name!r} does not do {task}: use one of {able}")
    return entry.valid(task, parameters)


def memo_names(name: str, task: str, parameters: Mapping[str, Any]) -> list[str]:
    """Names of the arrays that a learner of these parameters writes beside instances (`Learner.n_memos`), in order."""
    parts = _parts(name)
    return parts.memo_names(task, parameters) if parts else []


def exchanged(name: str, task: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Where a state that a model of parameters `was` made goes on in parts with parameters `now`: which parts, in
    words. ValueError where `was` are no parameters."""
    parts = _parts(name)
    return parts.exchanged(task, was, now) if parts else None


def memo_places(name: str, task: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, int | None]:
    """For each of `memo_names` by `now`, its place among those by `was`, of a state that goes on; None where it is
    new."""
    parts = _parts(name)
    return parts.memo_places(task, was, now) if parts else {}


def _parts(name: str) -> Any:
    place = REGISTRY[name].parts
    return importlib.import_module(place) if place else None


def resolved(name: str, schema: "Schema", parameters: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The learner that a name stands for, and its parameters, where "auto" is to be chosen (models.auto)."""
    from riparian.models.auto.auto import AUTO, resolve

    if name != AUTO:
        return name, dict(parameters)
    n_classes = schema.n_outputs if schema.task not in VALUES else 1
    found = resolve(schema.task, schema.n_values, n_classes, parameters)
    return found.model, found.parameters


def create(name: str, schema: "Schema", *, seed: int = 0, **parameters: Any) -> "Learner":
    """A new learner, or for "auto" the pool that fits the schema and the budget in `parameters`. Raises ValueError as
    `validate` does."""
    name, parameters = resolved(name, schema, parameters)
    validate(name, schema.task, parameters)
    learner: Learner = REGISTRY[name].load(schema.task)(schema, seed=seed, **parameters)
    return learner
