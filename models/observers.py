"""What a leaf observes: class-conditional statistics of every feature, and the naive Bayes score they give.

One *block* is one row of `stats`: all statistics of a leaf (or of a whole naive Bayes model) side by side, so that a
leaf that learns nothing keeps its bytes. Within a block, feature after feature, with one number a class each:

- numeric: n (weight), mean, M2 (sum of squared deviations), min, max: 5 rows of n_classes (weighted Welford);
- nominal with V values: the weight of the class, then of each value: 1 + V rows of n_classes.

`cache` has a row for each block with the logarithms that naive Bayes needs, so that a prediction takes none. It is
scratch, never state: each number in it is a pure function of the statistics, so it can be dropped at any time
(`fresh[block] = 0`) and results are the same bits. Row: log weight of each class, then of each feature

- numeric: mean, a, b with log density = b - a (x - mean)^2, where a = 1 / (2 variance), b = log(a / pi) / 2;
- nominal: log(n_c + V'), then log(n_vc + 1) of each value, V' being the number of values the learner has seen
  (Laplace's estimate). V' is the learner's, not the block's: capacity plays no part, so growing it changes nothing.

The numbers follow MOA's observers: variance M2 / (n - 1), and a class that a block has not seen yet has likelihood 0,
as has a value beside a mean without variance. Weights count as repetitions. Features are independent given the
class; a missing value (NaN, also infinities) is left out. Sums of logarithms do not underflow where MOA's products do.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.contract import Floats, Schema
from models.kernel import kernel

Ints = NDArray[np.int32]

LOG_PI = math.log(math.pi)
LEAST_VARIANCE = 1e-300  # below it 1 / variance overflows


class Layout(NamedTuple):
    """Where each feature's numbers are in a block.

    n_values : (d,) int32, 0 for numeric. offset, cached : (d,) int32, columns in `stats` and `cache`.
    code : (d,) int32, place of a feature's value 0 in `Known.values`.
    """

    n_values: Ints
    offset: Ints
    cached: Ints
    code: Ints


class Known(NamedTuple):
    """What a learner has seen of each nominal feature. values : uint8, 1 where a value was learned; count : (d,) int64."""

    values: NDArray[np.uint8]
    count: NDArray[np.int64]


class Cache(NamedTuple):
    """rows : (n_blocks, cache width) float64; fresh : (n_blocks,) uint8, 0 where the row is out of date."""

    rows: Floats
    fresh: NDArray[np.uint8]


def lay_out(schema: Schema) -> tuple[Layout, int, int]:
    """The layout of a schema, the width of a block and that of a row of the cache, in float64."""
    k = schema.n_outputs
    n_values = np.array(schema.n_values, dtype=np.int32)
    numeric = n_values == 0
    stats = np.where(numeric, 5, 1 + n_values) * k
    cache = np.where(numeric, 3, 1 + n_values) * k
    starts = [np.concatenate(([first], first + np.cumsum(widths))) for first, widths in ((0, stats), (k, cache))]
    codes = np.concatenate(([0], np.cumsum(n_values)))
    layout = Layout(n_values, *(np.ascontiguousarray(s[:-1], dtype=np.int32) for s in (*starts, codes)))
    return layout, int(starts[0][-1]), int(starts[1][-1])


def know_nothing(schema: Schema) -> Known:
    return Known(np.zeros(sum(schema.n_values), np.uint8), np.zeros(schema.n_features, np.int64))


def transfer(stats: Floats, known: Known, old: Schema, new: Schema) -> tuple[Floats, Known]:
    """The same statistics in blocks of a larger schema; zero where that has more classes or values."""
    before, after = lay_out(old)[0], lay_out(new)
    moved = np.zeros((len(stats), after[1]))
    learned = know_nothing(new)
    learned.count[:] = known.count
    for f, n in enumerate(old.n_values):
        rows = 5 if n == 0 else 1 + n
        wide = 5 if n == 0 else 1 + new.n_values[f]
        source = stats[:, before.offset[f] : before.offset[f] + rows * old.n_outputs]
        target = moved[:, after[0].offset[f] : after[0].offset[f] + wide * new.n_outputs]
        target.reshape(-1, wide, new.n_outputs)[:, :rows, : old.n_outputs] = source.reshape(-1, rows, old.n_outputs)
        learned.values[after[0].code[f] : after[0].code[f] + n] = known.values[before.code[f] : before.code[f] + n]
    return moved, learned


def check_growth(old: Schema, new: Schema) -> None:
    """ValueError unless `new` has the same features as `old`, and room for as much."""
    if len(new.n_values) != len(old.n_values) or new.task != old.task:
        raise ValueError(
            f"resize keeps the task and the number of features: expected {old.task} with {len(old.n_values)} features, "
            f"found {new.task} with {len(new.n_values)}; create a new learner instead"
        )
    if new.n_outputs < old.n_outputs:
        raise ValueError(
            f"n_outputs cannot shrink from {old.n_outputs} to {new.n_outputs}: create a new learner instead"
        )
    for f, (before, after) in enumerate(zip(old.n_values, new.n_values, strict=True)):
        if after < before or (before == 0) != (after == 0):
            raise ValueError(
                f"n_values[{f}] cannot change from {before} to {after}: nominal capacities only grow, numeric stays 0"
            )


@kernel
def observe(stats, known, cache, layout, block, n_classes, x, r, c, w, class_weight):
    """Learn row `r` of `x` with class `c` and weight `w` > 0 into a block; class_weight is the class's new weight.

    Mutates stats[block], known, cache. O(d), with two logarithms a nominal feature, one a numeric one.
    """
    for f in range(len(layout.n_values)):
        n_values = layout.n_values[f]
        value = x[r, f]
        if n_values > 0 and value >= 0.0 and value < n_values:
            code = layout.code[f] + int(value)
            if known.values[code] == 0:
                known.values[code] = 1
                known.count[f] += 1
                cache.fresh[:] = 0
    fresh = cache.fresh[block] == 1
    if fresh:
        cache.rows[block, c] = math.log(class_weight)
    for f in range(len(layout.n_values)):
        n_values = layout.n_values[f]
        value = x[r, f]
        i = layout.offset[f] + c
        j = layout.cached[f] + c
        if n_values > 0:
            if not (value >= 0.0 and value < n_values):
                continue
            step = (1 + int(value)) * n_classes
            stats[block, i] += w
            stats[block, i + step] += w
            if fresh:
                cache.rows[block, j] = math.log(stats[block, i] + known.count[f])
                cache.rows[block, j + step] = math.log(stats[block, i + step] + 1.0)
            continue
        if value - value != 0.0:  # NaN or infinite
            continue
        if stats[block, i] == 0.0:
            stats[block, i] = w
            stats[block, i + n_classes] = value
            stats[block, i + 3 * n_classes] = value
            stats[block, i + 4 * n_classes] = value
        else:
            stats[block, i] += w
            mean = stats[block, i + n_classes]
            moved = mean + w * (value - mean) / stats[block, i]
            stats[block, i + n_classes] = moved
            stats[block, i + 2 * n_classes] += w * (value - mean) * (value - moved)
            stats[block, i + 3 * n_classes] = min(stats[block, i + 3 * n_classes], value)
            stats[block, i + 4 * n_classes] = max(stats[block, i + 4 * n_classes], value)
        if fresh:
            _cache_density(stats, cache.rows, block, i, j, n_classes)


@kernel
def _cache_density(stats, rows, block, i, j, n_classes):
    """The cache of one numeric feature and class: i, j are the columns of its first numbers."""
    n = stats[block, i]
    m2 = stats[block, i + 2 * n_classes]
    rows[block, j] = stats[block, i + n_classes]
    if n == 0.0:  # the class is unseen: likelihood 0
        rows[block, j + n_classes] = 0.0
        rows[block, j + 2 * n_classes] = -math.inf
    elif n > 1.0 and m2 / (n - 1.0) > LEAST_VARIANCE:
        a = 0.5 * (n - 1.0) / m2
        rows[block, j + n_classes] = a
        rows[block, j + 2 * n_classes] = 0.5 * (math.log(a) - LOG_PI)
    else:  # no variance: 1 at the mean, 0 elsewhere
        rows[block, j + n_classes] = -1.0
        rows[block, j + 2 * n_classes] = 0.0


@kernel
def refresh(stats, known, cache, layout, block, class_weights, row):
    """Compute the whole cache of a block. class_weights[row, :] are the weights of the classes."""
    n_classes = class_weights.shape[1]
    rows = cache.rows
    for c in range(n_classes):
        weight = class_weights[row, c]
        rows[block, c] = math.log(weight) if weight > 0.0 else -math.inf
    for f in range(len(layout.n_values)):
        for c in range(n_classes):
            i = layout.offset[f] + c
            j = layout.cached[f] + c
            if layout.n_values[f] == 0:
                _cache_density(stats, rows, block, i, j, n_classes)
                continue
            n = stats[block, i]
            rows[block, j] = math.log(n + known.count[f]) if n > 0.0 else math.inf
            for v in range(1, layout.n_values[f] + 1):
                rows[block, j + v * n_classes] = math.log(stats[block, i + v * n_classes] + 1.0)
    cache.fresh[block] = 1


@kernel
def score(stats, known, cache, layout, block, class_weights, row, x, r, joint):
    """Naive Bayes: joint[c] = log P(c) + sum of log P(x_f | c), up to a constant. The likeliest class, ties to the
    lowest; -1 where every class has likelihood 0. Mutates cache and joint. O(d n_classes), no logarithm once fresh.
    """
    if cache.fresh[block] == 0:
        refresh(stats, known, cache, layout, block, class_weights, row)
    n_classes = class_weights.shape[1]
    rows = cache.rows
    for c in range(n_classes):
        joint[c] = rows[block, c]
    for f in range(len(layout.n_values)):
        value = x[r, f]
        j = layout.cached[f]
        n_values = layout.n_values[f]
        if n_values > 0:
            if value >= 0.0 and value < n_values:
                step = (1 + int(value)) * n_classes
                for c in range(n_classes):
                    joint[c] += rows[block, j + step + c] - rows[block, j + c]
        elif value - value == 0.0:
            for c in range(n_classes):
                distance = value - rows[block, j + c]
                a = rows[block, j + n_classes + c]
                term = rows[block, j + 2 * n_classes + c] - a * distance * distance
                if a < 0.0:
                    term = 0.0 if distance == 0.0 else -math.inf
                joint[c] += term
    best = -1
    most = -math.inf
    for c in range(n_classes):
        if joint[c] > most:
            most = joint[c]
            best = c
    return best


@kernel
def write_joint(joint, best, out, r):
    """out[r, :] = probabilities of the classes from log scores whose highest is joint[best]."""
    total = 0.0
    for c in range(len(joint)):
        p = math.exp(joint[c] - joint[best]) if joint[c] > -math.inf else 0.0
        out[r, c] = p
        total += p
    for c in range(len(joint)):
        out[r, c] /= total


@kernel
def write_weights(class_weights, row, out, r):
    """out[r, :] = shares of the classes, all 0 where there is no weight."""
    total = 0.0
    for c in range(class_weights.shape[1]):
        total += class_weights[row, c]
    for c in range(class_weights.shape[1]):
        out[r, c] = class_weights[row, c] / total if total > 0.0 else 0.0


@kernel
def heaviest(class_weights, row):
    """The class with the highest weight, ties to the lowest; -1 where all are 0."""
    best = -1
    most = 0.0
    for c in range(class_weights.shape[1]):
        if class_weights[row, c] > most:
            most = class_weights[row, c]
            best = c
    return best
