"""What each feature adds to a prediction: its Shapley value, of any learner.

A feature that is left out of a prediction is missing in it (removal-based explanations: Covert, Lundberg and Lee:
Explaining by removing. JMLR 22, 2021), of a bag in all its instances. Taken in one after the other, in the order of a
permutation, each feature changes the prediction; its Shapley value is the mean of these changes over all permutations.
A few permutations estimate it without bias (Štrumbelj and Kononenko: Explaining prediction models and individual
predictions with feature contributions. KAIS 41, 2014). Here they are `PERMUTATIONS`, each second one the reverse of the
one before (Mitchell, Cooper, Frank and Holmes: Sampling permutations for Shapley value estimation. JMLR 23, 2022).
Whatever they are, the changes add up to the prediction less that of an instance without values. Where there are no more
sets of features than the permutations would ask for, all are asked about, and values are exact.

Permutations are drawn by a key of the instance (models/kernels/draws.py), and learners predict a row the same in any
company (models/contract.py): so the same model gives the same bits, whatever is asked about together. Changes nothing.
"""

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import PREDICT, Bags, Floats, Learner, Program
from riparian.models.kernels.draws import uniform_at
from riparian.models.kernels.kernel import kernel

PERMUTATIONS = 10
ROUNDING = 1e-12  # share of all that is added, below which it is nothing
MOST_CELLS = 1 << 17  # values of made-up instances, or of their predictions, that are there at once

Masks = NDArray[np.bool_]


def n_asked(d: int) -> int:
    """Predictions that are made of an instance with d features to show what they add."""
    return min(1 << min(d, 62), 2 + PERMUTATIONS * max(d - 1, 0))


def is_exact(d: int) -> bool:
    """Whether all sets of d features are asked about."""
    return n_asked(d) == 1 << min(d, 62)


def contributions(
    learner: Learner, slab: Floats | Bags, rows: NDArray[np.int32], about: NDArray[np.int64], keys: NDArray[np.uint64]
) -> Floats:
    """What each feature adds to a prediction, by the model as it is now.

    Parameters
    ----------
    slab, rows
        The instances, or bags, n of them.
    about : (n,) int64
        The class whose probability is asked about; 0 of values and scores.
    keys : (n,) uint64
        By which permutations are drawn.

    Returns
    -------
    (n, d + 1)
        A column a feature, and the prediction of an instance without values. All add up to the prediction. NaN where
        the model knows nothing of a value.
    """
    d = learner.schema.n_features
    found = np.zeros((len(rows), d + 1))
    step = max(1, MOST_CELLS // (PERMUTATIONS * d))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        _of_some(learner, slab, rows[part], about[part], keys[part], found[part])
    return found


def _of_some(
    learner: Learner,
    slab: Floats | Bags,
    rows: NDArray[np.int32],
    about: NDArray[np.int64],
    keys: NDArray[np.uint64],
    found: Floats,
) -> None:
    """Compute `contributions` of so many that there is room for their permutations. Mutates found."""
    d, k = learner.schema.n_features, learner.schema.n_outputs
    orders = np.zeros((len(rows), 0 if is_exact(d) else PERMUTATIONS, d), np.int32)
    _permute(keys, orders)
    n = n_asked(d)
    values = np.empty(len(rows) * n)
    largest = int(slab.size[rows].max(initial=1)) if isinstance(slab, Bags) else 1
    step = max(1, MOST_CELLS // max(d * largest, k))
    for start in range(0, len(values), step):
        which = np.arange(start, min(start + step, len(values)))
        known, at = np.empty((len(which), d), np.bool_), which // n
        _leave_out(orders, n, start, known)
        x = _made_up(slab, rows[at], known)
        out = np.zeros((len(which), k))
        program = Program(
            np.full(len(which), PREDICT, np.int8),
            np.arange(len(which), dtype=np.int32),
            np.full(len(which), np.nan),
            np.ones(len(which)),
        )
        learner.run(program, x, out)
        values[which] = out[np.arange(len(which)), about[at]]
    if is_exact(d):
        _weigh(values.reshape(len(rows), n), found)
    else:
        _credit(orders, values.reshape(len(rows), n), found)


def _made_up(slab: Floats | Bags, rows: NDArray[np.int32], known: Masks) -> Floats | Bags:
    """Instances, or bags, in which features are missing that are not known. known : (n, d), of each of the rows."""
    if isinstance(slab, Bags):
        bags = slab.take(rows)
        return bags._replace(x=np.where(known.repeat(bags.size, axis=0), bags.x, np.nan))
    return np.where(known, slab[rows], np.nan)


@kernel
def _permute(keys, orders):
    """Draw permutations, each second one the reverse of the one before. orders : (n, PERMUTATIONS, d) int32, mutated.
    O(n PERMUTATIONS d)."""
    n, m, d = orders.shape
    for i in range(n):
        for p in range(0, m, 2):
            one, other = orders[i, p], orders[i, p + 1]
            for j in range(d):
                one[j] = j
            for j in range(d - 1, 0, -1):
                k = np.int64(uniform_at(keys[i], p * d + j) * (j + 1))
                one[j], one[k] = one[k], one[j]
            for j in range(d):
                other[j] = one[d - 1 - j]


@kernel
def _leave_out(orders, n_asked, start, known):
    """Which features are known in made-up instances. known : (m, d), of those from number `start` on, mutated.

    There are n_asked of each instance. Number s of them is without permutations the set whose bits are those of s; with
    them nothing, everything, and then the first 1 .. d - 1 features of each permutation. O(m d).
    """
    d = known.shape[1]
    for at in range(len(known)):
        i, s = (start + at) // n_asked, (start + at) % n_asked
        for f in range(d):
            known[at, f] = (s >> f) & 1 == 1 if orders.shape[1] == 0 else s == 1
        if orders.shape[1] > 0 and s > 1:
            order = orders[i, (s - 2) // (d - 1)]
            for j in range((s - 2) % (d - 1) + 1):
                known[at, order[j]] = True


@kernel
def _credit(orders, values, found):
    """The mean change by each feature over permutations, and where they begin. values : (n, n_asked). Mutates found,
    (n, d + 1), which is 0. O(n PERMUTATIONS d)."""
    n, m, d = orders.shape
    for i in range(n):
        for p in range(m):
            before = values[i, 0]
            for j in range(d):
                after = values[i, 1] if j == d - 1 else values[i, 2 + p * (d - 1) + j]
                found[i, orders[i, p, j]] += (after - before) / m
                before = after
        found[i, d] = values[i, 0]


@kernel
def _weigh(values, found):
    """Weigh the mean change over all permutations, where `values` has all sets: a set of s features stands before a
    feature in s! (d - 1 - s)! of the d! permutations. O(n 2^d d)."""
    d = found.shape[1] - 1
    for i in range(len(found)):
        for s in range(values.shape[1]):
            size = 0
            for f in range(d):
                size += (s >> f) & 1
            share = 1.0 / d  # 1 / (d binomial(d - 1, size))
            for j in range(size):
                share *= (j + 1.0) / (d - 1.0 - j)
            for f in range(d):
                if (s >> f) & 1 == 0:
                    found[i, f] += share * (values[i, s | (1 << f)] - values[i, s])
        found[i, d] = values[i, 0]


@kernel
def largest(added, columns, places, found):
    """Write the features that moved each prediction most, the largest first, of equal ones the first; NaN behind the
    last one that moved it. O(n most d). What rounding makes, moves nothing.

    added : (n, d + 1), as `contributions` gives it. columns : (d,) int64, the number that each is called by. places :
    (n,) int64, of each row that of `found`. Mutates found : (places, most, 2), the number and what it added.
    """
    d, most = added.shape[1] - 1, found.shape[1]
    for i in range(len(added)):
        reasons = found[places[i]]
        least = 0.0
        for f in range(d + 1):
            least += ROUNDING * abs(added[i, f])
        limit, after = np.inf, -1  # of the last one that was taken
        for j in range(most):
            best, size = -1, least
            for f in range(d):
                here = abs(added[i, f])
                if here > size and (here < limit or (here == limit and f > after)):
                    best, size = f, here
            reasons[j, 0] = np.nan if best < 0 else np.float64(columns[best])
            reasons[j, 1] = np.nan if best < 0 else added[i, best]
            if best >= 0:
                limit, after = size, best
            else:
                limit = 0.0
