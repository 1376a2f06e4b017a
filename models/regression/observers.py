"""What a leaf of a regression tree observes: the targets beside the values of every feature, and where to split.

Standard deviation reduction and the search tree of values (E-BST) after Ikonomovska, Gama and Džeroski 2011, section 4;
theirs keeps every distinct value, ours is bounded: models.observers.histogram.

One *block* is one row of `blocks`: all that a leaf knows. First HEAD numbers (models.regression.leaf), then the weights
of its linear model, then feature after feature

- numeric: a histogram whose keys have n, sum, squares: 1 + 4 n_bins numbers;
- nominal with V values: n, sum, squares of each: 3 V numbers,

where n is the weight, and sum and squares are those of y - ORIGIN: near the leaf's mean, so that squares cancel little.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats, Schema
from riparian.models.kernels.kernel import kernel
from riparian.models.observers.histogram import insert

HEAD = 8  # numbers before the weights

# What `divide` fills in: n and mean of the instances for which the test holds, and of the others.
N_TRUE, MEAN_TRUE, N_FALSE, MEAN_FALSE = range(4)


class TargetLayout(NamedTuple):
    """Where each feature's numbers are in a block.

    n_values : (d,) int32, 0 for numeric.
    weight, offset : (d,) int64, columns of its first weight and of its first observation.
    bins : (1,) int64, n_bins.
    """

    n_values: NDArray[np.int32]
    weight: NDArray[np.int64]
    offset: NDArray[np.int64]
    bins: NDArray[np.int64]


def lay_out(schema: Schema, n_bins: int) -> tuple[TargetLayout, int]:
    """The layout of a schema, and the width of a block in float64. The weight of the constant is in column HEAD."""
    n_values = np.array(schema.n_values, dtype=np.int32)
    n_weights = np.maximum(n_values, 1)
    weight = HEAD + 1 + np.cumsum(n_weights) - n_weights
    n_sums = np.where(n_values == 0, 1 + 4 * n_bins, 3 * n_values)
    offset = HEAD + 1 + n_weights.sum() + np.cumsum(n_sums) - n_sums
    width = HEAD + 1 + int(n_weights.sum()) + int(n_sums.sum())
    layout = TargetLayout(n_values, weight.astype(np.int64), offset.astype(np.int64), np.array([n_bins], np.int64))
    return layout, width


def transfer(blocks: Floats, old: Schema, new: Schema, n_bins: int) -> Floats:
    """Copy blocks for a larger schema; zero where that has more values."""
    (before, _), (after, width) = lay_out(old, n_bins), lay_out(new, n_bins)
    moved = np.zeros((len(blocks), width))
    moved[:, : HEAD + 1] = blocks[:, : HEAD + 1]
    for f, n in enumerate(old.n_values):
        for here, there, numbers in (
            (before.weight[f], after.weight[f], max(n, 1)),
            (before.offset[f], after.offset[f], 3 * n or 1 + 4 * n_bins),
        ):
            moved[:, there : there + numbers] = blocks[:, here : here + numbers]
    return moved


@kernel(inline=True)
def first_keys_not_below(block, n_values, offset, x, r, places):
    """places[0, f] : column of the first of a numeric feature's sorted keys that is not below its value in row r; of
    the last key if all are, of the first where there is none. Mutates places. O(d log n_bins), without branches.

    All features take a step before any takes the next, so that what they load is waited for together: 0.40 µs an
    instance of Friedman's stream with one leaf, 0.61 feature by feature; 1.2 and 1.35 with 750 leaves.
    """
    most = 1
    for f in range(len(n_values)):
        places[0, f] = offset[f] + 1
        places[1, f] = 1
        if n_values[f] == 0:
            n = np.int64(block[offset[f]])
            places[1, f] = n
            most = max(most, n)
    while most > 1:
        for f in range(len(n_values)):
            half = places[1, f] >> 1
            low = places[0, f]
            places[0, f] = low + half if block[low + half - 1] < x[r, f] else low
            places[1, f] -= half
        most -= most >> 1


@kernel(inline=True)
def observe(block, n_values, offset, n_bins, places, x, r, dy, w):
    """Learn row r of x with the target ORIGIN + dy and weight w into a block. n_values, offset : of TargetLayout.
    places : (2, d) int64, scratch.

    Missing values (NaN, also infinities) and codes outside the schema are left out. Mutates block. O(d log n_bins).
    """
    sum_of = w * dy
    squares = sum_of * dy
    first_keys_not_below(block, n_values, offset, x, r, places)
    for f in range(len(n_values)):
        value = x[r, f]
        if n_values[f] > 0:
            if not (value >= 0.0 and value < n_values[f]):
                continue
            at = offset[f] + 3 * np.int64(value)
        else:
            if value - value != 0.0:
                continue
            keys = offset[f] + 1
            n = np.int64(block[offset[f]])
            place = np.int64(-1)
            if n > 0:
                place = places[0, f] - keys
                key = block[keys + place]
                if key != value and (n < n_bins or key < value or place == 0):
                    place = np.int64(-1)
            if place < 0:
                place = np.int64(insert(block, offset[f], n_bins, 3, 1, value))
            at = keys + n_bins + 3 * place
        block[at] += w
        block[at + 1] += sum_of
        block[at + 2] += squares


@kernel(inline=True)
def spread(n, total, squares):
    """n times the standard deviation of targets with these sums. A variance that is all rounding is 0."""
    if not n > 0.0:
        return 0.0
    m2 = squares - total * total / n
    return math.sqrt(m2 * n) if m2 > 1e-12 * squares else 0.0


@kernel
def rank_tests(block, layout, seen, min_branch_fraction, merits, values):
    """For every feature its best test: merits[f], the standard deviation reduction times the share of the weight `seen`
    whose value is known, or 0 where no test reduces it; values[f], the threshold or the nominal value.

    Both branches have more than min_branch_fraction of the weight. Ties go to the first. Mutates merits, values.
    O(d (n_bins or V)).
    """
    for f in range(len(layout.n_values)):
        merits[f] = 0.0
        values[f] = 0.0
        n_values = layout.n_values[f]
        n_candidates = n_values if n_values > 0 else int(block[layout.offset[f]])
        keys = layout.offset[f] + 1
        sums = layout.offset[f] if n_values > 0 else keys + layout.bins[0]
        n = 0.0
        total = 0.0
        squares = 0.0
        for i in range(n_candidates):
            n += block[sums + 3 * i]
            total += block[sums + 3 * i + 1]
            squares += block[sums + 3 * i + 2]
        whole = spread(n, total, squares)
        if not whole > 0.0:
            continue
        least = min_branch_fraction * n
        best = whole
        n_true = 0.0
        total_true = 0.0
        squares_true = 0.0
        for i in range(n_candidates):
            if n_values > 0:
                n_true = 0.0
                total_true = 0.0
                squares_true = 0.0
            n_true += block[sums + 3 * i]
            total_true += block[sums + 3 * i + 1]
            squares_true += block[sums + 3 * i + 2]
            if not (n_true > least and n - n_true > least):
                continue
            after = spread(n_true, total_true, squares_true)
            if after >= best:
                continue
            after += spread(n - n_true, total - total_true, squares - squares_true)
            if after < best:
                best = after
                values[f] = float(i) if n_values > 0 else block[keys + i]
        merits[f] = (whole - best) / n * min(1.0, n / seen)


@kernel
def divide(block, layout, f, value, sides):
    """What both branches of a test on feature f saw, means as differences from ORIGIN. Mutates sides. O(n_bins or V).

    Numeric: the test holds up to `value`. Nominal: it holds for `value`.
    """
    n_values = layout.n_values[f]
    n_candidates = n_values if n_values > 0 else int(block[layout.offset[f]])
    keys = layout.offset[f] + 1
    sums = layout.offset[f] if n_values > 0 else keys + layout.bins[0]
    sides[:] = 0.0
    for i in range(n_candidates):
        holds = i == int(value) if n_values > 0 else block[keys + i] <= value
        side = N_TRUE if holds else N_FALSE
        sides[side] += block[sums + 3 * i]
        sides[side + 1] += block[sums + 3 * i + 1]
    for side in (N_TRUE, N_FALSE):
        if sides[side] > 0.0:
            sides[side + 1] /= sides[side]
