"""Every learner by the name that a stream file uses, with its tasks, parameters, ranges and paper.

A family of learners lists its own in `models/<family>/entries.py`. The entries are plain data and the classes are
imported when a learner is created, so that `riparian models`, `riparian check` and the validation of a stream file do
not wait for numba. A test compares what an entry says about parameters with the signature of the class: the two cannot
drift apart.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from models.adapter import entries as adapter
from models.anomaly import entries as anomaly
from models.bags import entries as bags
from models.baseline import entries as baseline
from models.batch import entries as batch
from models.ensemble import entries as ensemble
from models.entry import TASKS, Entry, suggest
from models.gradient import entries as gradient
from models.hoeffding import entries as hoeffding
from models.mondrian import entries as mondrian
from models.opinion_pool import entries as opinion_pool
from models.opinion_pool.members import members as opinion_members
from models.regression import entries as regression
from models.shrubs import entries as shrubs
from models.soft import entries as soft
from models.streaming_forest import entries as streaming_forest

if TYPE_CHECKING:
    from models.contract import Learner, Schema

FAMILIES = (
    hoeffding,
    regression,
    ensemble,
    streaming_forest,
    shrubs,
    mondrian,
    gradient,
    soft,
    opinion_pool,
    bags,
    anomaly,
    batch,
    adapter,
    baseline,
)

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


def n_kept(name: str, task: str, parameters: Mapping[str, Any]) -> int:
    """`Learner.n_kept` of a learner of these parameters, before it is made."""
    if name != "opinion-pool":
        return 0
    return len(opinion_members(task, parameters.get("members")))


def create(name: str, schema: "Schema", *, seed: int = 0, **parameters: Any) -> "Learner":
    """A new learner. Raises ValueError as `validate` does."""
    validate(name, schema.task, parameters)
    return REGISTRY[name].load(schema.task)(schema, seed=seed, **parameters)
