"""What a leaf observes: class-conditional statistics of every feature, and the naive Bayes score they give.

One *block* is one row of `stats`: all statistics of a leaf (or of a whole naive Bayes model) side by side, so that a
leaf that learns nothing keeps its bytes. Within a block, feature after feature, with one number a class each:

- numeric: n (weight), mean, M2 (sum of squared deviations), min, max: 5 rows of n_classes (weighted Welford);
- nominal with V values: the weight of the class, then of each value: 1 + V rows of n_classes.

Where a learner asks for histograms (n_bins > 0), a numeric feature has other numbers, and there is no cache:
models.observers.histogram_blocks.

`cache` has a row for each block with the numbers that naive Bayes needs, side by side (models.observers.likelihood). It
is scratch, never state: each number in it is a pure function of the statistics, so it can be dropped at any time
(`fresh[block] = 0`) and results are the same bits. Laplace's estimate (n_vc + 1) / (n_c + V') takes for V' the number
of values that the learner has seen, not the block: capacity plays no part, so growing it changes nothing.

The numbers follow MOA's observers: variance M2 / (n - 1), and a class that a block has not seen yet has likelihood 0,
as has a value beside a mean without variance. Weights count as repetitions. A missing value (NaN, also infinities) is
left out. Deviations: Laplace's estimate knows the learner's values (MOA: the highest code of the class so far), and
products of 200 likelihoods do not underflow, as MOA's do.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats, Schema
from riparian.models.kernels.elementary import exp, log, logs
from riparian.models.kernels.kernel import kernel
from riparian.models.observers.likelihood import BEYOND, count_plus, known_weight, precision

Offsets = NDArray[np.uint64]

N_LOGS = 4096
LOGS = logs(np.arange(N_LOGS))
LEAST_VARIANCE = 1e-300  # least variance; below it 1 / variance overflows


class BlockLayout(NamedTuple):
    """Where each feature's numbers are in a block.

    n_values : (d,) int32, 0 for numeric.
    offset, cached : (d,) uint64, columns in `stats` and `cache`.
    code : (d,) uint64, place of a feature's value 0 in `SeenValues.values`.
    bins : (1,) int64, keys of a histogram, or 0.
    """

    n_values: NDArray[np.int32]
    offset: Offsets
    cached: Offsets
    code: Offsets
    bins: NDArray[np.int64]


class SeenValues(NamedTuple):
    """What a learner has seen of each nominal feature.

    values : uint8, 1 where a value was learned.
    n_seen : (d,) int64, how many were.
    """

    values: NDArray[np.uint8]
    n_seen: NDArray[np.int64]


class Cache(NamedTuple):
    """What naive Bayes computes from blocks, and needs at each prediction (models.observers.likelihood).

    rows : (n_blocks, cache width) float64.
    fresh : (n_blocks,) uint8, 0 where the row is out of date.
    """

    rows: Floats
    fresh: NDArray[np.uint8]


@lru_cache(100)
def lay_out(schema: Schema, n_bins: int = 0) -> tuple[BlockLayout, int, int]:
    """The layout of a schema, the width of a block and that of a row of the cache, in float64. Kept, since a forest
    begins trees all the time: do not write to it."""
    k = schema.n_outputs
    n_values = np.array(schema.n_values, dtype=np.int32)
    numeric = n_values == 0
    stats = np.where(numeric, _numeric(n_bins, k), (1 + n_values) * k)
    cache = np.where(numeric, 2, 1 + n_values) * k
    starts = [np.concatenate(([first], first + np.cumsum(widths))) for first, widths in ((0, stats), (k, cache))]
    codes = np.concatenate(([0], np.cumsum(n_values)))
    offset, cached, code = (np.ascontiguousarray(s[:-1], dtype=np.uint64) for s in (*starts, codes))
    layout = BlockLayout(n_values, offset, cached, code, np.array([n_bins], np.int64))
    return layout, int(starts[0][-1]), 0 if n_bins else int(starts[1][-1]) + BEYOND


def _numeric(n_bins: int, n_classes: int) -> int:
    """Numbers of a numeric feature."""
    return n_classes + 1 + n_bins * (1 + n_classes) if n_bins else 5 * n_classes


def know_nothing(schema: Schema) -> SeenValues:
    return SeenValues(np.zeros(sum(schema.n_values), np.uint8), np.zeros(schema.n_features, np.int64))


def transfer(stats: Floats, known: SeenValues, old: Schema, new: Schema, n_bins: int = 0) -> tuple[Floats, SeenValues]:
    """Copy statistics into blocks of a larger schema; zero where that has more classes or values."""
    before, after = lay_out(old, n_bins)[0], lay_out(new, n_bins)
    moved = np.zeros((len(stats), after[1]))
    learned = know_nothing(new)
    learned.n_seen[:] = known.n_seen
    k, wider = old.n_outputs, new.n_outputs
    for f, n in enumerate(old.n_values):
        start, begin = int(before.offset[f]), int(after[0].offset[f])
        if n == 0 and n_bins:
            keys, first = start + k, begin + wider
            moved[:, begin : begin + k] = stats[:, start:keys]
            moved[:, first : first + 1 + n_bins] = stats[:, keys : keys + 1 + n_bins]
            start, begin = keys + 1 + n_bins, first + 1 + n_bins
            rows = wide = n_bins
        else:
            rows = 5 if n == 0 else 1 + n
            wide = 5 if n == 0 else 1 + new.n_values[f]
        source = stats[:, start : start + rows * k].reshape(-1, rows, k)
        moved[:, begin : begin + wide * wider].reshape(-1, wide, wider)[:, :rows, :k] = source
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


@kernel(inline=True)
def log_plus(count, more):
    """log(count + more), from a table where both are whole and small: most weights are 1."""
    total = count + more
    if total < N_LOGS:
        whole = np.uint64(total)
        if np.float64(whole) == total:
            return LOGS[whole]
    return log(total)


@kernel(inline=True)
def observe(block, cached, fresh, known, layout, n_classes, x, r, c, w, class_weight):
    """Learn row `r` of x, of class `c` and weight `w` > 0, into a block whose cache row is `cached`.

    fresh : whether `cached` is up to date; then it is kept so. class_weight : the new weight of c. Returns whether a
    nominal value was new to the learner: then all caches are out of date. Mutates block, cached, known. O(d).
    """
    # Unsigned offsets: a signed index costs a test for "from the end", and they are sums here.
    k = np.uint64(n_classes)
    c = np.uint64(c)
    new = False
    if fresh:
        cached[c] = known_weight(class_weight)
    for f in range(len(layout.n_values)):
        n_values = layout.n_values[f]
        value = x[r, f]
        i = layout.offset[f] + c
        j = layout.cached[f] + c
        if n_values > 0:
            if value >= 0.0 and value < n_values:
                step = np.uint64(value) * k + k
                if block[i + step] == 0.0:
                    code = layout.code[f] + np.uint64(value)
                    if known.values[code] == 0:
                        known.values[code] = 1
                        known.n_seen[f] += 1
                        new = True
                block[i] += w
                block[i + step] += w
                if fresh:
                    cached[j] = count_plus(block[i], known.n_seen[f])
                    cached[j + step] = count_plus(block[i + step], 1.0)
            continue
        if value - value != 0.0:  # NaN or infinite
            continue
        least = i + k + k + k
        before = block[i]
        n = before + w
        m2 = 0.0
        moved = value
        if before == 0.0:
            block[least] = value
            block[least + k] = value
        else:
            mean = block[i + k]
            step = w * (value - mean)
            moved = mean + step / n
            m2 = block[i + k + k] + step * (value - moved)
            if value < block[least]:
                block[least] = value
            if value > block[least + k]:
                block[least + k] = value
        block[i] = n
        block[i + k] = moved
        block[i + k + k] = m2
        if fresh:
            cached[j] = moved
            cached[j + k] = precision(n, m2)
    return new


@kernel(inline=True)
def write_joint(joint, best, out, r):
    """out[r, :] = probabilities of the classes from log scores whose highest is joint[best]."""
    total = 0.0
    for c in range(out.shape[1]):
        p = 1.0
        if c != best:
            p = exp(joint[c] - joint[best]) if joint[c] > -math.inf else 0.0
        out[r, c] = p
        total += p
    for c in range(out.shape[1]):
        out[r, c] /= total


@kernel(inline=True)
def write_weights(class_weights, out, r):
    """out[r, :] = shares of the classes of what they weigh, all 0 where there is no weight."""
    total = 0.0
    for c in range(out.shape[1]):
        total += class_weights[c]
    for c in range(out.shape[1]):
        out[r, c] = class_weights[c] / total if total > 0.0 else 0.0


@kernel(inline=True)
def heaviest(class_weights):
    """The class with the highest weight, ties to the lowest; -1 where all are 0."""
    best = -1
    most = 0.0
    for c in range(len(class_weights)):
        if class_weights[c] > most:
            most = class_weights[c]
            best = c
    return best
