"""Candidates for a change of a leaf, ranked by the penalised loss, and the test of the best one.

Sections 3.1 to 3.3 of the paper: a candidate gives each of its leaves j the step v_j = -G_j / (lambda + H_j) (equation
13), and is worth sum_j G_j v_j + (lambda + H_j) v_j^2 / 2 + gamma (number of leaves) (equations 5 and 10), which is
-sum_j G_j^2 / 2 (lambda + H_j) + gamma (number of leaves). "No split" is a candidate that adds no leaf and pays no
gamma. The best one is tested: is the mean change of the loss, without the penalties, below 0?

The variance of that change comes from the sums of g^2, gh and h^2 over all children at once (equation 18 is that of one
child): E[L^2] - E[L]^2 with L = g a + h b, a = v_j and b = v_j^2 / 2 for an instance that goes to child j. Paired, L is
the change of the split less that of "no split", whose step is v: a = v_j - v, b = (v_j^2 - v^2) / 2.

The change of a tree with several outputs is a sum over them; its standard deviation is at most the sum of theirs,
which the test takes for it: sums of g_c g_d for all pairs would be needed otherwise.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats
from riparian.models.gradient.bins import GG, GH, HH, MOMENTS, WEIGHT, G, H
from riparian.models.gradient.significance import p_value
from riparian.models.kernels.kernel import kernel

# Below this share of the leaf's weight a branch has none: sums of fractional weights have rounding errors.
NO_WEIGHT = 1e-9

# Rows of SplitSearch.children while candidates are ranked.
WHOLE, PART = 2, 3
LEAST_DIVISOR = 1e-12


class SplitCandidate(NamedTuple):
    """A test of a leaf.

    feature : -1 for "no split".
    cell : the last bin that goes left, or the value that does.
    threshold : the same as a value.
    worth : penalised change of the loss, lower is better.
    """

    feature: int
    cell: int
    threshold: float
    worth: float


class SplitSearch(NamedTuple):
    """Scratch.

    children : (m, cell) float64, sums of a candidate's children, m >= 4.
    steps : (m, q) float64, their v_j.
    codes : (m,) int32, the value that each stands for (-1: none).
    """

    children: Floats
    steps: Floats
    codes: NDArray[np.int32]


# A row is passed as array and number: a slice counts references, and these run for every candidate.


@kernel(inline=True)
def _lambda(growth, weight):
    """What is added to the sum of Hessians of a leaf that saw so much weight."""
    return growth.penalty * weight if growth.on_mean else growth.penalty


@kernel(inline=True)
def _worth(sums, j, n_outputs, growth):
    """-sum_k G^2 / 2 (lambda + H) of row j: what a leaf with these sums is worth after its best step, without gamma."""
    result = 0.0
    penalty = _lambda(growth, sums[j, WEIGHT])
    for k in range(n_outputs):
        g = sums[j, k * MOMENTS + G]
        result -= g * g / (penalty + max(sums[j, k * MOMENTS + H], LEAST_DIVISOR))
    return 0.5 * result


@kernel(inline=True)
def _clear(sums, j, n_outputs):
    sums[j, WEIGHT] = 0.0
    for k in range(n_outputs):
        sums[j, k * MOMENTS + G] = 0.0
        sums[j, k * MOMENTS + H] = 0.0


@kernel(inline=True)
def _add(sums, j, block, i, n_outputs):
    """Add weight, G and H of the cell at place i to row j: all that ranking needs."""
    sums[j, WEIGHT] += block[i]
    for k in range(n_outputs):
        at = k * MOMENTS
        sums[j, at + G] += block[i + at + G]
        sums[j, at + H] += block[i + at + H]


@kernel(inline=True)
def _divide(sums, block, missing, n_outputs, growth):
    """Worth of dividing the sums of a feature, row WHOLE, into row PART and the rest. Rows 0 and 1 are scratch. Missing
    values go with the heavier one. Infinity where one has no weight."""
    weight = sums[PART, WEIGHT]
    rest = sums[WHOLE, WEIGHT] - weight
    if not min(weight, rest) > NO_WEIGHT * sums[WHOLE, WEIGHT]:
        return np.inf
    sums[0, WEIGHT] = weight
    sums[1, WEIGHT] = rest
    for k in range(n_outputs):
        for i in (k * MOMENTS + G, k * MOMENTS + H):
            sums[0, i] = sums[PART, i]
            sums[1, i] = sums[WHOLE, i] - sums[PART, i]
    if block[missing] > 0.0:
        _add(sums, 0 if weight >= rest else 1, block, missing, n_outputs)
    return _worth(sums, 0, n_outputs, growth) + _worth(sums, 1, n_outputs, growth)


@kernel
def best_candidate(block, totals, leaf, bins, layout, growth, chosen, splits_allowed, search):
    """The candidate of least worth for a leaf, "no split" or a test of one of the `chosen` features.

    The first one of equals. totals : of all leaves; block : what this one observed. Mutates search.
    O(d (n_bins or values) q).
    """
    size = layout.size[0]
    n_outputs = (size - 1) // MOMENTS
    sums = search.children
    feature = -1
    cell = -1
    least = _worth(totals, np.int64(leaf), n_outputs, growth)
    if not splits_allowed:
        return SplitCandidate(feature, cell, 0.0, least)
    for f in chosen:
        start = layout.offset[f]
        missing = start + layout.n_cells[f] * size
        numeric = layout.n_values[f] == 0
        n = bins.n_edges[f] + 1 if numeric else layout.n_cells[f]
        if n < 2:
            continue
        _clear(sums, WHOLE, n_outputs)
        for c in range(n):
            if block[start + c * size] > 0.0:
                _add(sums, WHOLE, block, start + c * size, n_outputs)
        if not numeric and growth.multiway:
            n_children = 0
            heaviest = -1
            for c in range(n):
                if block[start + c * size] > 0.0:
                    n_children += 1
                    if heaviest < 0 or block[start + c * size] > block[start + heaviest * size]:
                        heaviest = c
            if n_children < 2:
                continue
            worth = n_children * growth.node_cost
            for c in range(n):
                i = start + c * size
                if block[i] > 0.0:
                    _clear(sums, 0, n_outputs)
                    _add(sums, 0, block, i, n_outputs)
                    if c == heaviest:
                        _add(sums, 0, block, missing, n_outputs)
                    worth += _worth(sums, 0, n_outputs, growth)
            if worth < least:
                least = worth
                feature = f
                cell = -1
            continue
        _clear(sums, PART, n_outputs)
        for c in range(n - 1 if numeric else n):
            if not block[start + c * size] > 0.0:
                continue  # the same division as the one before, or none
            if not numeric:
                _clear(sums, PART, n_outputs)
            _add(sums, PART, block, start + c * size, n_outputs)
            worth = _divide(sums, block, missing, n_outputs, growth) + 2.0 * growth.node_cost
            if worth < least:
                least = worth
                feature = f
                cell = c
    threshold = 0.0
    if feature >= 0 and cell >= 0:
        threshold = bins.edges[feature, cell] if layout.n_values[feature] == 0 else float(cell)
    return SplitCandidate(feature, cell, threshold, least)


@kernel
def children_of(best, block, bins, layout, growth, search):
    """All sums of a split's children into search.children, and the values that they stand for into search.codes.

    Returns how many there are, and which one missing values go to. Mutates search. O((n_bins or values) q).
    """
    size = layout.size[0]
    f = best.feature
    start = layout.offset[f]
    numeric = layout.n_values[f] == 0
    many = not numeric and growth.multiway
    n = bins.n_edges[f] + 1 if numeric else layout.n_cells[f]
    sums = search.children
    n_children = 0
    if not many:
        n_children = 2
        sums[:2, :] = 0.0
        search.codes[:2] = -1
    for c in range(n):
        i = start + c * size
        if many:
            if not block[i] > 0.0:
                continue
            j = n_children
            sums[j, :] = 0.0
            search.codes[j] = c
            n_children += 1
        elif numeric:
            j = 0 if c <= best.cell else 1
        else:
            j = 0 if c == best.cell else 1
        for m in range(size):
            sums[j, m] += block[i + m]
    default = 0
    for j in range(1, n_children):
        if sums[j, WEIGHT] > sums[default, WEIGHT]:
            default = j
    missing = start + layout.n_cells[f] * size
    for m in range(size):
        sums[default, m] += block[missing + m]
    return n_children, default


@kernel
def is_better(search, n_children, total, growth, paired):
    """Whether the change to search.children lowers the loss by the test; their steps into search.steps.

    total : the sums of the leaf. Mutates search. O(n_children q).
    """
    sums, steps = search.children, search.steps
    n_outputs = steps.shape[1]
    n = total[WEIGHT]
    if not n > 1.0:
        return False
    mean = 0.0
    deviation = 0.0
    for k in range(n_outputs):
        at = k * MOMENTS
        without = -total[at + G] / (_lambda(growth, n) + max(total[at + H], LEAST_DIVISOR)) if paired else 0.0
        first = 0.0
        second = 0.0
        for j in range(n_children):
            step = -sums[j, at + G] / (_lambda(growth, sums[j, WEIGHT]) + max(sums[j, at + H], LEAST_DIVISOR))
            steps[j, k] = step
            a = step - without
            b = 0.5 * (step * step - without * without)
            g, h = sums[j, at + G], sums[j, at + H]
            first += a * g + b * h
            second += a * a * sums[j, at + GG] + 2.0 * a * b * sums[j, at + GH] + b * b * sums[j, at + HH]
        mean += first / n
        deviation += math.sqrt(max(second / n - (first / n) * (first / n), 0.0))
    if not mean < 0.0:
        return False
    variance = deviation * deviation * (n / (n - 1.0))
    return not variance > 0.0 or p_value(n * mean * mean / variance, n - 1.0) < growth.delta
