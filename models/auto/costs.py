"""What the members of `auto`'s pool take: microseconds and bytes from the shape of a stream, for models/auto/auto.py.

Microseconds are CPU time of one core to predict and learn an instance. They grow with the numeric and the nominal
features, with the classes, and with their product. The coefficients are near `python -m benchmarks.auto`'s least
squares, of runs beside which two other processes were busy: a member may take half as much on an idle machine. Those of
IDLE, for members of small budgets, are of such a machine.
Bytes are those that arrays have room for, where a member has come to its bound. How many values of a nominal feature a
member sees, so that these are kept whatever values come: models/auto/values.py.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from riparian.models.entry import CLASSIFICATION, REGRESSION

NODES = (8191, 4095, 2047, 1023, 511, 255, 127, 63, 31)  # of a tree, the most that fit
MOST_NODES = {CLASSIFICATION: 8191, REGRESSION: 2047}
NODE_BYTES = 220  # bytes of a tree's node, leaves apart
# Numbers that a leaf keeps of a numeric feature (a class) and of each value of a nominal one.
NUMBERS = {CLASSIFICATION: (5, 1), REGRESSION: (121, 4)}
SHARES = {"forest": 0.5, "patches": 0.7}  # of the features, that a leaf looks at (and one more)
SLOTS = 2  # trees kept for each that votes: a background tree, or an alternate one, grows beside it

SOFT_DEPTH = 7  # depth of a soft tree by default
STAGES, BINS = {"boosted": 10}, 32  # of gradient trees
SPARE = 1.5  # room of boosted trees beyond what they reckon themselves
SMALLEST_FOREST = 1_000_000  # bytes, of Mondrian forests

# Of a whole member, or of one of its trees: for an instance, a numeric feature, a nominal one, each class beyond the
# first, and a numeric or nominal feature of each class beyond the first.
MICROSECONDS: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    CLASSIFICATION: {
        "soft": (0.4, 0.08, 0.03, 0.0, 0.0, 0.002),
        "sums": (0.45, 0.012, 0.007, 0.002, 0.0, 0.0),
        "bayes": (0.04, 0.006, 0.013, 0.01, 0.003, 0.0),
        "last": (0.02, 0.0, 0.0, 0.0, 0.0, 0.0),
        "repeats": (0.3, 0.37, 0.39, 0.1, 0.09, 0.04),
        "forest": (0.45, 0.05, 0.024, 0.01, 0.0, 0.0),
        "mondrian": (0.48, 0.04, 0.022, 0.0, 0.0, 0.001),
        "patches": (0.38, 0.04, 0.026, 0.01, 0.002, 0.0),
        "boosted": (0.9, 0.0, 0.04, 0.4, 0.265, 0.07),
        "shrubs": (26.0, 2.5, 0.8, 0.4, 0.33, 0.56),
        "few-shrubs": (6.5, 0.9, 0.37, 2.2, 0.01, 0.07),
        "near": (6.0, 1.1, 0.4, 0.0, 0.0, 0.0),
        "tree": (0.4, 0.03, 0.01, 0.02, 0.0, 0.0),
    },
    REGRESSION: {
        "soft": (0.2, 0.19, 0.19),
        "sums": (0.2, 0.075, 0.075),
        "linear": (0.05, 0.07, 0.07),
        "boosted": (0.3, 0.26, 0.1),
        "last": (0.02, 0.0, 0.0),
        "bagging": (0.05, 0.045, 0.045),
        "forest": (0.4, 0.075, 0.4),
        "mondrian": (0.2, 0.2, 0.2),
        "few-shrubs": (1.0, 3.0, 3.0),
        "shrubs": (5.0, 9.3, 9.3),
        "tree": (0.2, 0.06, 0.06),
    },
}
IDLE: Mapping[str, tuple[float, ...]] = {
    "soft": (0.43, 0.077, 0.019, 0.008, 0.0, 0.003),
    "sums": (0.4, 0.02, 0.003, 0.0, 0.0, 0.0),
    "bayes": (0.04, 0.004, 0.005, 0.003, 0.001, 0.0),
    "plain-tree": (0.085, 0.007, 0.005, 0.0, 0.002, 0.0),
    "small-shrubs": (1.3, 0.1, 0.045, 0.0, 0.002, 0.01),
    "few-shrubs": (3.6, 0.233, 0.206, 0.85, 0.033, 0.031),
    "short-near": (1.3, 0.05, 0.05, 0.0, 0.011, 0.004),
    "boosted": (0.16, 0.062, 0.033, 0.39, 0.1, 0.017),
    "patches": (0.32, 0.03, 0.011, 0.0, 0.001, 0.0),
}
# Of a soft Hoeffding tree, each further value that it sees of a feature, and class: it looks for tests among all.
SOFT_VALUE = {CLASSIFICATION: 0.0025, REGRESSION: 0.0005}
CHUNK, CHUNK_BYTES = 4096, 8_200_000  # operations that a pool runs at once, and most bytes that it takes for that
VOTES = 1024  # operations of which an ensemble in it keeps the votes of its trees
# Kinds that are reckoned to take the bytes of others, which take no fewer.
SAME_SIZE = {"few-shrubs": "shrubs", "small-shrubs": "shrubs"}
# To pool: for an instance, and for each member and output.
POOLING = (0.3, 0.02)


class StreamShape(NamedTuple):
    """Of a stream, or of what a member sees of it. n_values : of each feature, 0 for a numeric one. n_classes : 1 for a
    regression. many : values beyond the first ten of features whose bound is named."""

    task: str
    n_values: Sequence[int]
    n_classes: int
    many: int = 0

    @property
    def columns(self) -> tuple[float, ...]:
        """What the coefficients of MICROSECONDS are multiplied by."""
        nominal = sum(n > 0 for n in self.n_values)
        numeric, more = len(self.n_values) - nominal, self.n_classes - 1
        return 1, numeric, nominal, more, numeric * more, nominal * more

    def looked_at(self, kind: str) -> int:
        """Features that a leaf of a tree looks at."""
        d = len(self.n_values)
        return min(d, int(SHARES[kind] * d) + 1) if kind in SHARES else d

    @property
    def width(self) -> int:
        """Inputs where each value of a nominal feature is one."""
        return sum(max(1, n) for n in self.n_values)


def microseconds(shape: StreamShape, kind: str, n_trees: int = 1, idle: bool = False) -> float:
    """Of a member of the kind, or of so many of its trees; by IDLE, where classes are learned."""
    table = IDLE if idle and shape.task == CLASSIFICATION else MICROSECONDS[shape.task]
    values = SOFT_VALUE[shape.task] * shape.many * shape.n_classes if kind == "soft" else 0.0
    return n_trees * math.fsum(c * x for c, x in zip(table[kind], shape.columns, strict=False)) + values


def pooling(shape: StreamShape, n_members: int) -> float:
    """Microseconds of the pool itself."""
    instance, vote = POOLING
    return instance + vote * n_members * shape.n_classes


def scratch_bytes(shape: StreamShape, n_members: int, width: int = 0) -> int:
    """Of the pool itself: the votes of a chunk of operations, and its rows; and so many numbers of each as members see
    it."""
    return min(CHUNK_BYTES, 8 * CHUNK * (n_members * shape.n_classes + len(shape.n_values) + width + 10))


def tree_bytes(shape: StreamShape, looked_at: int, max_nodes: int, node_bytes: int = NODE_BYTES) -> int:
    """Bytes of a tree that has all its nodes: arrays have room for a power of two, and half of it for leaves. Leaves
    are reckoned to look at the features that take most."""
    numeric, nominal = NUMBERS[shape.task]
    each = sorted((numeric if n == 0 else nominal * (1 + n) for n in shape.n_values), reverse=True)
    room = 1 << max_nodes.bit_length()
    return room * node_bytes + room // 2 * 8 * sum(each[:looked_at]) * shape.n_classes


def fixed_bytes(shape: StreamShape, kind: str, depth: int = SOFT_DEPTH) -> int:
    """Of a member whose size follows from the stream. 0 for one that is given a share. depth : of the soft tree."""
    d, width, k = len(shape.n_values), shape.width, shape.n_classes
    observed = 50 * d + 4 * shape.many if shape.task == REGRESSION else (3 * d + shape.many) * k
    numbers = {
        "soft": (2 << depth) * (60 + 6 * width + observed),
        "sums": 64 * (60 + 2 * width + 2 * k),
        "bayes": 500 + k * (5 * d + 2 * width),
        "repeats": 8_000 + 500 * k + 20 * d,
        "last": 10,
        "shrubs": 240_000 + 95_000 * k + 2_000 * d,
        "near": 14_000 + 3_100 * d,
        "short-near": 8_000 + 1_600 * d,
    }
    return 8 * numbers.get(SAME_SIZE.get(kind, kind), 0)


def bounded(shape: StreamShape, kind: str, n_trees: int, n_bytes: float) -> tuple[dict[str, Any], int] | None:
    """The parameters that keep a member within a share of the bytes, and what it then takes; None where too few."""
    if kind == "mondrian":
        return ({"max_bytes": int(n_bytes)}, int(n_bytes)) if n_bytes >= SMALLEST_FOREST else None
    if kind in STAGES:
        cells = sum((n or BINS) + 1 for n in shape.n_values)
        first = STAGES[kind] * max(1, shape.n_classes - 1) * 8 * 6 * cells  # bytes of trees that are one leaf each
        most = int(n_bytes / SPARE)
        return ({"max_bytes": most}, int(n_bytes)) if most >= max(100_000, 4 * first) else None
    for n_nodes in NODES:
        bound = {"max_nodes": n_nodes}
        takes = taken(shape, kind, n_trees, bound)
        if takes <= n_bytes and n_nodes <= MOST_NODES[shape.task]:
            return bound, int(takes)
    return None


def taken(shape: StreamShape, kind: str, n_trees: int, bound: Mapping[str, Any]) -> float:
    """Bytes of a member of these parameters at its bound."""
    slots = 1 if kind == "bagging" else SLOTS
    return slots * n_trees * tree_bytes(shape, shape.looked_at(kind), bound["max_nodes"])


def widened(shape: StreamShape, kind: str, n_trees: int, bound: Mapping[str, Any]) -> float:
    """The bytes of a member that sees so many values, with what it keeps beside its state: what naive Bayes needs of
    each value once more, and the votes of a chunk."""
    if kind in STAGES:  # which reckons all features to have BINS values
        return SPARE * float(bound["max_bytes"]) if max(shape.n_values) <= BINS // 2 else math.inf
    twice = [2 * n + 1 if n else 0 for n in shape.n_values] if shape.task == CLASSIFICATION else shape.n_values
    votes = 8 * VOTES * n_trees * (2 * shape.n_classes + 4) if n_trees > 1 else 0
    return taken(shape._replace(n_values=twice), kind, n_trees, bound) + votes
