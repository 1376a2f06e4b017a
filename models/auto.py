"""`model: auto`: the forest whose size fits a budget of bytes and of processor time, from the stream file alone.

What a forest takes is reckoned from the schema, never measured at a start: the same file means the same model on every
machine. The figures stand in the two tables below, and what a state was made with it keeps (app/state/changes.py).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from models.entry import CLASSIFICATION, MULTI_INSTANCE, REGRESSION, Parameter, checked

AUTO = "auto"
PARAMETERS = (
    Parameter("max_bytes", int, 64_000_000, 100_000, 10**13, text="of the model, as reckoned, a partition"),
    Parameter("max_microseconds", float, 25.0, 0.5, 1e6, text="to predict and learn an instance, on one core"),
)
UNNAMED = 10  # classes, or values of a feature, where the stream file leaves them to be learned

FOREST = "adaptive-random-forest"
SIZES = (25, 10, 5, 3)  # trees, the most that fit
NODES = (8191, 4095, 2047, 1023, 511, 255, 127, 63, 31)  # of a tree, the most that fit
MOST_NODES = {CLASSIFICATION: 8191, REGRESSION: 2047}

NODE_BYTES = 220  # of a forest's trees, leaves apart


class Single(NamedTuple):
    """The one tree where no forest fits, bytes of its nodes, and what runs beside a champion."""

    tree: str
    node_bytes: int
    challengers: Mapping[str, str]


SINGLE = {
    CLASSIFICATION: Single(
        "hoeffding-adaptive-tree",
        1000,  # a window of errors each
        {"tree": "hoeffding-adaptive-tree", "naive-bayes": "naive-bayes", "last-label": "last-label"},
    ),
    REGRESSION: Single("fimt-dd", NODE_BYTES, {"tree": "fimt-dd", "last-label": "last-label"}),
    MULTI_INSTANCE: Single("stochastic-gradient-tree", NODE_BYTES, {"majority-class": "majority-class"}),
}
CHOICES = (FOREST, *(single.tree for single in SINGLE.values()))
# Microseconds to predict and learn: of a tree, and for each feature that its leaves look at and each class besides. By
# `python -m benchmarks.auto`, CPU time with nothing else on the core, a tree takes 0.5 (agrawal), 0.9 (elec), 1.4
# (pendigits), 1.7 (splice), 2.0 (30 features of moving centroids), 0.8 (abalone), 1.0 (fried): all but the centroids at
# most what is reckoned. Beside busy neighbours it takes 1.2 to 1.7 times as long.
MICROSECONDS = {CLASSIFICATION: (0.7, 0.06, 0.02), REGRESSION: (0.5, 0.1, 0.0)}
# Numbers that a leaf keeps of a numeric feature (a class) and of each value of a nominal one.
NUMBERS = {CLASSIFICATION: (5, 1), REGRESSION: (121, 4)}
SHARE = 0.5  # of the features, that a leaf of a forest looks at (and one more)
SLOTS = 2  # trees kept for each that votes: a background tree grows beside it


class Resolved(NamedTuple):
    """The model, its parameters that are not defaults, and what it is reckoned to take at its bound."""

    model: str
    parameters: dict[str, Any]
    n_bytes: int
    microseconds: float


def resolve(task: str, n_values: Sequence[int], n_classes: int, budget: Mapping[str, Any]) -> Resolved:
    """The model for a stream.

    Parameters
    ----------
    n_values : of each feature, 0 for a numeric one.
    n_classes : 1 for a regression.
    budget : parameters of PARAMETERS, as the stream file has them.

    Raises
    ------
    ValueError
        One sentence: a parameter is not valid, or not even a tree of the fewest nodes fits.
    """
    given = checked(f"model {AUTO!r}", PARAMETERS, budget)
    most_bytes, most_microseconds = given["max_bytes"], given["max_microseconds"]
    if task == MULTI_INSTANCE:  # bounded by its own defaults: bags have no size to reckon with
        return Resolved(SINGLE[task].tree, {}, 0, 0.0)
    looked_at = min(len(n_values), int(SHARE * len(n_values)) + 1)
    for n_trees in SIZES:
        microseconds = n_trees * tree_microseconds(task, looked_at, n_classes)
        if microseconds > most_microseconds:
            continue
        for n_nodes in NODES:
            n_bytes = SLOTS * n_trees * tree_bytes(task, n_values, looked_at, n_classes, n_nodes)
            if n_bytes <= most_bytes and n_nodes <= MOST_NODES[task]:
                return Resolved(FOREST, {"n_models": n_trees, "max_nodes": n_nodes}, n_bytes, microseconds)
    # An alternate tree may grow beside each part of it.
    alone, d = SINGLE[task], len(n_values)
    sizes = {
        n: SLOTS * tree_bytes(task, n_values, d, n_classes, n, alone.node_bytes) for n in NODES if n <= MOST_NODES[task]
    }
    fitting = [n for n, n_bytes in sizes.items() if n_bytes <= most_bytes]
    if not fitting:
        least = min(sizes.values())
        raise ValueError(f"max_bytes is {most_bytes:,}, and a tree of {NODES[-1]} nodes takes {least:,}: raise it")
    microseconds = tree_microseconds(task, d, n_classes)
    return Resolved(alone.tree, {"max_nodes": fitting[0]}, sizes[fitting[0]], microseconds)


def challengers(task: str, champion: str) -> dict[str, str]:
    """Role -> model, of what to hold a champion against."""
    return {role: model for role, model in SINGLE[task].challengers.items() if model != champion}


def tree_microseconds(task: str, looked_at: int, n_classes: int) -> float:
    """A tree's share of an instance, in microseconds."""
    tree, feature, one_class = MICROSECONDS[task]
    return tree + feature * looked_at + one_class * n_classes


def tree_bytes(
    task: str, n_values: Sequence[int], looked_at: int, n_classes: int, max_nodes: int, node_bytes: int = NODE_BYTES
) -> int:
    """Bytes of a tree that has all its nodes: arrays have room for a power of two, and half of it for leaves. Leaves
    are reckoned to look at the features that take most."""
    numeric, nominal = NUMBERS[task]
    each = sorted((numeric if n == 0 else nominal * (1 + n) for n in n_values), reverse=True)
    room = 1 << max_nodes.bit_length()
    return room * node_bytes + room // 2 * 8 * sum(each[:looked_at]) * n_classes
