"""`model: auto`: a pool of opinions that fits a budget of bytes and of processor time, from the stream file alone.

What members take is reckoned from the shape of the stream (models/auto/costs.py), never measured at a start: the same
file means the same model on every machine. What a state was made with it keeps (app/partition/changes.py).
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from riparian.models.auto import costs
from riparian.models.auto.costs import NODES, tree_bytes
from riparian.models.auto.values import FIXED, LITTLE, TEN, Sight, Values
from riparian.models.entry import ANOMALY, CLASSIFICATION, MULTI_INSTANCE, REGRESSION, Parameter, checked

AUTO = "auto"
PARAMETERS = (
    Parameter("max_bytes", int, 64_000_000, 100_000, 10**13, text="of the model, as reckoned, a partition"),
    Parameter("max_microseconds", float, 100.0, 0.5, 1e6, text="to predict and learn an instance, on one core"),
    Parameter(
        "members", dict, None, text="of the pool besides those chosen, which are not reckoned: as of opinion-pool"
    ),
)
UNNAMED = TEN

POOL = "opinion-pool"
FOREST = "adaptive-random-forest"  # what `auto` was before, and states still have


class MemberStep(NamedTuple):
    """A member that comes into the pool, or takes the place of one of its name, where that fits.

    kind : of its costs. n_trees : that these are multiplied by. share : of the bytes, beside the shares of others; 0
    for a member of fixed size. leaves : members that it makes needless, also later. idle : whether its time is that of
    an idle machine.
    """

    name: str
    model: str
    parameters: Mapping[str, Any]
    kind: str
    n_trees: int = 1
    share: int = 0
    leaves: tuple[str, ...] = ()
    idle: bool = False


# The paper's shrubs with the settings that did best on elec: almost the last label, for a few microseconds.
REPEATS = {
    "n_windows": 1, "window": 16, "n_trees": 4, "every": 1, "step": 2.0, "ridge": 0.0, "splits": "best"
}  # fmt: skip
BOOSTED = {"preset": "boosted", "n_bins": costs.BINS}
RECENT = {"window": 500}
GRADIENT = "stochastic-gradient-tree"

# A member for each way a stream can be; what is cheapest comes into the pool first. Soft trees: smooth functions of
# many features. Bayes: few labels; recent: few since a change. Repeats, last: the next label is like the last ones.
# Forest: rows of one world, drift. Mondrian forest: few labels, many classes. Boosted, bagging, linear: functions that
# are sums.
MEMBERS: Mapping[str, tuple[MemberStep, ...]] = {
    CLASSIFICATION: (
        MemberStep("soft", "soft-hoeffding-tree", {}, "soft"),
        MemberStep("sums", "soft-tree", {}, "sums"),
        MemberStep("bayes", "naive-bayes", {}, "bayes"),
        MemberStep("recent", "naive-bayes", RECENT, "bayes"),
        MemberStep("last", "last-label", {}, "last"),
        MemberStep("repeats", "shrub-ensemble", REPEATS, "repeats", leaves=("last",)),
        MemberStep("forest", FOREST, {"n_models": 5}, "forest", 5, 3),
        MemberStep("mondrian", "mondrian-forest", {"n_trees": 5}, "mondrian", 5, 2),
        MemberStep("boosted", GRADIENT, BOOSTED, "boosted", 1, 4),
    ),
    REGRESSION: (
        MemberStep("soft", "soft-hoeffding-tree", {}, "soft"),
        MemberStep("sums", "soft-tree", {}, "sums"),
        MemberStep("last", "last-label", {}, "last"),
        MemberStep("linear", "fimt-dd", {}, "linear", 1, 1),
        MemberStep("boosted", GRADIENT, BOOSTED, "boosted", 1, 3),
        MemberStep("bagging", "online-bagging", {"n_models": 10}, "bagging", 10, 2),
        MemberStep("forest", FOREST, {"n_models": 5}, "forest", 5, 3),
        MemberStep("mondrian", "mondrian-forest", {"n_trees": 5}, "mondrian", 5, 2),
    ),
}
FORESTS = (
    MemberStep("forest", FOREST, {"n_models": 10}, "forest", 10, 3),
    MemberStep("mondrian", "mondrian-forest", {"n_trees": 10}, "mondrian", 10, 2),
)
SHRUBS = (
    MemberStep("shrubs", "shrub-ensemble", {"every": 64}, "few-shrubs", leaves=("last", "repeats")),
    MemberStep("shrubs", "shrub-ensemble", {}, "shrubs"),
)
# The last value stays beside shrubs: without it the error is a fifth greater on elec's demand, a tenth on its price.
SHRUBS_OF_VALUES = tuple(step._replace(leaves=()) for step in SHRUBS)
# What makes it better then, in this order. Patches: where a few features decide. Shrubs: whatever changes soon. Near:
# classes that are clouds; it is last, since on splice shrubs are worth more than it is.
MORE: Mapping[str, tuple[MemberStep, ...]] = {
    CLASSIFICATION: (
        *FORESTS,
        MemberStep("patches", "streaming-random-patches", {"n_models": 10}, "patches", 10, 3),
        *SHRUBS,
        MemberStep("near", "nearest-neighbours", {}, "near"),
    ),
    REGRESSION: (*FORESTS, *SHRUBS_OF_VALUES),
}
# Of many classes boosted trees take longer than neighbours. Where all features are numbers, as on pendigits, they are
# worth 0.5 points less, and three neighbours more than five: these come in the order of their costs.
NEAR_OF_MANY = MemberStep("near", "nearest-neighbours", {"k": 3}, "near")
# Below so many microseconds these come first, in this order: what is worth most for its time. Few shrubs of equal
# weight, one memory of neighbours and counts that fade follow changes for a fifth of the time of those above. A later
# step of a name takes the place of the earlier one.
LIGHT_BELOW = 90.0
LIGHT_SHRUBS = {"weighting": "equal", "n_trees": 8, "every": 128, "n_windows": 2}
LIGHT: Mapping[str, tuple[MemberStep, ...]] = {
    CLASSIFICATION: (
        MemberStep("soft", "soft-hoeffding-tree", {}, "soft", idle=True),
        MemberStep("shrubs", "shrub-ensemble", LIGHT_SHRUBS, "small-shrubs", idle=True, leaves=("last",)),
        MemberStep("boosted", GRADIENT, BOOSTED, "boosted", 1, 4, idle=True),
        MemberStep("shrubs", "shrub-ensemble", {"every": 64}, "few-shrubs", idle=True, leaves=("last", "repeats")),
        MemberStep("near", "nearest-neighbours", {"window": 1000, "long": 0}, "short-near", idle=True),
        MemberStep("recent", "naive-bayes", RECENT, "bayes", idle=True),
        MemberStep("sums", "soft-tree", {}, "sums", idle=True),
        MemberStep("patches", "streaming-random-patches", {"n_models": 3}, "patches", 3, 3, idle=True),
        MemberStep("tree", "hoeffding-tree", {}, "plain-tree", 1, 1, idle=True),
        MemberStep("bayes", "naive-bayes", {}, "bayes", idle=True),
    ),
    REGRESSION: (
        MemberStep("last", "last-label", {}, "last"),
        MemberStep("linear", "fimt-dd", {}, "linear", 1, 1),
        MemberStep("sums", "soft-tree", {}, "sums"),
        MemberStep("soft", "soft-hoeffding-tree", {}, "soft"),
        MemberStep("boosted", GRADIENT, BOOSTED, "boosted", 1, 3),
        MemberStep("bagging", "online-bagging", {"n_models": 5}, "bagging", 5, 2),
    ),
}
REST_BELOW = 0.005  # weight below which members rest (docs/evidence/auto.md#members-that-rest)
RATE = 0.001  # rate of the pool's weights: with late labels better than its default, and equal otherwise
FEWEST = 3  # members of a pool that is better than a single tree


class Single(NamedTuple):
    """The one tree where no pool fits, bytes of its nodes, what runs beside a champion, and parameters of its own."""

    tree: str
    node_bytes: int
    challengers: Mapping[str, str]
    parameters: Mapping[str, Any] = {}


SINGLE = {
    CLASSIFICATION: Single(
        "hoeffding-adaptive-tree",
        1000,  # a window of errors each
        {"tree": "hoeffding-adaptive-tree", "naive-bayes": "naive-bayes", "last-label": "last-label"},
    ),
    REGRESSION: Single("fimt-dd", costs.NODE_BYTES, {"tree": "fimt-dd", "last-label": "last-label"}),
    MULTI_INSTANCE: Single(GRADIENT, costs.NODE_BYTES, {"majority-class": "majority-class"}),
    ANOMALY: Single("half-space-trees", costs.NODE_BYTES, {}, {"height": 12, "max_window": 16_000}),
}
# What `auto` chooses, or chose once: a state with one of these is its own.
CHOICES = (POOL, FOREST, *(single.tree for single in SINGLE.values()))


class Resolved(NamedTuple):
    """The model, its parameters that are not defaults, and what it is reckoned to take at its bound."""

    model: str
    parameters: dict[str, Any]
    n_bytes: int
    microseconds: float

    @property
    def parts(self) -> str:
        """For people: the model, and of a pool its members."""
        members = self.parameters.get("members", {})
        return f"{self.model}{' of ' if members else ''}{', '.join(members)}"


class TooSmallError(ValueError):
    """`max_bytes`, `most`, holds not even a tree of the fewest nodes, which takes `least`."""

    def __init__(self, most: int, least: int) -> None:
        super().__init__(f"max_bytes is {most:,}, and a tree of {NODES[-1]} nodes takes {least:,}: raise it")
        self.least = least


def resolve(task: str, values: Values | Sequence[int], n_classes: int, budget: Mapping[str, Any]) -> Resolved:
    """The model for a stream.

    Parameters
    ----------
    values : of the features; or how many of each, 0 for a numeric one.
    n_classes : 1 for a regression.
    budget : parameters of PARAMETERS, as the stream file has them.

    Raises
    ------
    ValueError
        One sentence: a parameter is not valid, not even a tree of the fewest nodes fits, or there are further members
        and no pool.
    """
    given = checked(f"model {AUTO!r}", PARAMETERS, budget)
    most_bytes, most_microseconds, further = given["max_bytes"], given["max_microseconds"], given["members"] or {}
    if task in (MULTI_INSTANCE, ANOMALY):  # bounded by its own defaults: bags have no size to reckon with
        if further:
            raise ValueError(f"model {AUTO!r}: members are of a pool, and of {task} auto is one model: leave them out")
        return Resolved(SINGLE[task].tree, dict(SINGLE[task].parameters), 0, 0.0)
    values = values if isinstance(values, Values) else Values(values)
    sight = Sight(task, values, n_classes, most_bytes, most_microseconds)
    order = _in_order(sight, task, most_microseconds)
    taken = _chosen(sight, order, most_microseconds, most_bytes)
    if len(taken) < FEWEST:  # a few that are dear
        taken = _chosen(sight, _cheapest_first(sight, order), most_microseconds, most_bytes)
    if len(taken) < FEWEST:
        if further:
            raise ValueError(
                f"model {AUTO!r}: members are of a pool, and within these bounds auto is a single tree: raise "
                "max_microseconds or max_bytes, or leave them out"
            )
        return _single(sight, most_bytes)
    members, n_bytes = within(sight, taken.values(), most_bytes) or ({}, 0)
    parameters = {"members": members | further, "rate": RATE}
    parameters |= {"rest_below": REST_BELOW} if task == REGRESSION else {}
    return Resolved(POOL, parameters, n_bytes, time_of(sight, taken.values()))


def _chosen(
    sight: Sight, order: Sequence[MemberStep], most_microseconds: float, most_bytes: int
) -> dict[str, MemberStep]:
    """By their names, what comes into the pool, one after the other, where it fits."""
    taken: dict[str, MemberStep] = {}
    for step in order:
        if any(step.name in one.leaves for one in taken.values()):
            continue
        wanted = {name: one for name, one in (taken | {step.name: step}).items() if name not in step.leaves}
        if time_of(sight, wanted.values()) <= most_microseconds and within(sight, wanted.values(), most_bytes):
            taken = wanted
    return taken


def _cheapest_first(sight: Sight, steps: Sequence[MemberStep]) -> list[MemberStep]:
    return sorted(steps, key=lambda step: microseconds(sight, step))


def _in_order(sight: Sight, task: str, most_microseconds: float) -> list[MemberStep]:
    """What may come into the pool."""
    light, first, more = list(LIGHT[task]), list(MEMBERS[task]), MORE[task]
    boosted = max(microseconds(sight, step) for step in first if step.name == "boosted")
    shape = sight.of("last").shape
    of_numbers = task == CLASSIFICATION and not any(sight.of("near").shape.n_values)
    if most_microseconds < LIGHT_BELOW:
        if of_numbers and shape.n_classes > 2:
            light = sorted((_of_three(step) for step in light), key=lambda step: step.name not in ("soft", "near"))
        same = {(step.name, step.kind, step.n_trees) for step in light}
        rest = [*_cheapest_first(sight, first), *more]
        return [*light, *(step for step in rest if (step.name, step.kind, step.n_trees) not in same)]
    if of_numbers and microseconds(sight, NEAR_OF_MANY) < boosted:
        first.append(NEAR_OF_MANY)
        more = tuple(step for step in more if step.name != NEAR_OF_MANY.name)
    return [*_cheapest_first(sight, first), *more]


def _of_three(step: MemberStep) -> MemberStep:
    """Neighbours as of numbers and several classes."""
    return step._replace(parameters={**step.parameters, "k": 3}) if step.name == NEAR_OF_MANY.name else step


def steps(task: str) -> list[MemberStep]:
    """All that may be members."""
    near = (NEAR_OF_MANY,) if task == CLASSIFICATION else ()
    every = (*LIGHT[task], *MEMBERS[task], *near, *MORE[task])
    return [step for i, step in enumerate(every) if step not in every[:i]]


def microseconds(sight: Sight, step: MemberStep) -> float:
    """Of a member."""
    return costs.microseconds(sight.of(step.kind).shape, step.kind, step.n_trees, step.idle)


def time_of(sight: Sight, steps: Collection[MemberStep]) -> float:
    """Microseconds of a pool of these members."""
    return sum(microseconds(sight, step) for step in steps) + costs.pooling(sight.of("last").shape, len(steps))


def within(sight: Sight, steps: Collection[MemberStep], most: int) -> tuple[dict[str, dict[str, Any]], int] | None:
    """These members, with the parameters that keep them within so many bytes together, and the bytes that they take;
    None where they do not fit. What those of fixed size leave is dealt out by shares."""
    seen = {step.name: sight.of(step.kind) for step in steps}
    n_bytes = costs.scratch_bytes(sight.of("last").shape, len(steps), sight.width(seen.values())) + sight.table_bytes
    n_bytes += sum(costs.fixed_bytes(seen[step.name].shape, step.kind, seen[step.name].depth) for step in steps)
    if n_bytes > most:
        return None
    each = (most - n_bytes) / max(1, sum(step.share for step in steps))
    members = {}
    for step in steps:
        members[step.name] = {"model": step.model, **step.parameters}
        bound = None
        if step.share:
            bound = costs.bounded(seen[step.name].shape, step.kind, step.n_trees, step.share * each)
            if bound is None:
                return None
            members[step.name] |= bound[0]
            n_bytes += bound[1]
        members[step.name] |= sight.parameters(_widened(sight, step, bound, step.share * each, most))
    return members, n_bytes


def _widened(sight: Sight, step: MemberStep, bound: tuple[dict[str, Any], int] | None, room: float, most: int) -> Any:
    """What a member sees, where more than ten values may come of a feature for which ten are reckoned."""
    seen = sight.of(step.kind)
    if step.kind in FIXED:
        reckoned = costs.fixed_bytes(seen.shape, step.kind, seen.depth)
        return sight.widened(
            step.kind, lambda shape: costs.fixed_bytes(shape, step.kind, seen.depth), reckoned + LITTLE * most
        )
    if bound is None or step.kind == "mondrian":
        return sight.widened(step.kind, lambda _: 0.0, room)
    return sight.widened(step.kind, lambda shape: costs.widened(shape, step.kind, step.n_trees, bound[0]), room)


def _single(sight: Sight, most_bytes: int) -> Resolved:
    seen = sight.of("tree")
    shape, alone = seen.shape, SINGLE[seen.shape.task]
    sizes = {
        n: costs.SLOTS * tree_bytes(shape, len(shape.n_values), n, alone.node_bytes)
        for n in NODES
        if n <= costs.MOST_NODES[shape.task]
    }
    fitting = [n for n, n_bytes in sizes.items() if n_bytes <= most_bytes]
    if not fitting:
        raise TooSmallError(most_bytes, min(sizes.values()))
    tree = {"max_nodes": fitting[0]}
    n_bytes, takes = sizes[fitting[0]], costs.microseconds(shape, "tree")
    reduced = sight.parameters(
        sight.widened(
            "tree",
            lambda wider: costs.SLOTS * tree_bytes(wider, len(wider.n_values), fitting[0], alone.node_bytes),
            max(most_bytes, n_bytes),
        )
    )
    if not reduced:
        return Resolved(alone.tree, tree, n_bytes, takes)
    members = {"tree": {"model": alone.tree, **tree, **reduced}}  # a pool of one, which shows it fewer values
    return Resolved(POOL, {"members": members}, n_bytes + sight.table_bytes, takes + costs.pooling(shape, 1))


def challengers(task: str, champion: str, many: bool = False) -> dict[str, str]:
    """Role -> model, of what to hold a champion against. many : whether a feature may have many values, with which a
    tree that sees all of them would take gigabytes."""
    found = {role: model for role, model in SINGLE[task].challengers.items() if model != champion}
    return {role: model for role, model in found.items() if not (many and model == SINGLE[task].tree)}
