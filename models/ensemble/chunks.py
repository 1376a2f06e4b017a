"""A piece of a program as all members run it: its rows gathered side by side, its labels numbered.

A chunk is small enough that its rows, and a member's votes on them, stay in the cache of a core while that member runs
it. Votes are *planes*, one a member: a row for each row of the chunk, a column an output. The planes are added up at
the end, in the order of the members, whichever thread filled them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import LARGEST_TARGET, PREDICT, Floats, Program
from riparian.models.kernels.draws import PoissonTable, poisson_from, uniform_at
from riparian.models.kernels.kernel import kernel
from riparian.models.observers.gaussians import heaviest
from riparian.models.running_scale import held

# Operations of a chunk: with 256, calls take as long as trees; the more, the rarer a tree is fetched from memory, and
# threads wait for each other. Between these two, what SCRATCH bytes have room for.
LEAST, MOST = 256, 8192
SCRATCH = 8_000_000

# How members vote.
AVERAGE, WEIGHTED, MAJORITY = 0, 1, 2
VOTES = {"average": AVERAGE, "weighted": WEIGHTED, "majority": MAJORITY}

# Columns of a member's quality: of the labels that it saw, the faded weight that it predicted correctly (regression:
# the summed absolute error), the faded weight of all, and the weight of all without fading.
HITS, WEIGHT, SEEN = range(3)
N_QUALITY = 3


class Chunk(NamedTuple):
    """Operations `start` to `stop` of a program, n of them.

    program : as members run it, with rows of `slab`; a label that teaches nothing weighs 0.
    ordinal : (n,) int64, the number of a label that teaches, counted from the ensemble's first one; -1 for other
        operations.
    source : (n_rows,) int32, the rows of the whole slab.
    slab : (n_rows, d) float64, copies of these.
    """

    program: Program
    ordinal: NDArray[np.int64]
    source: NDArray[np.int32]
    slab: Floats

    def after(self, start: int) -> "Chunk":
        """The operations from `start` on, over the same rows."""
        return Chunk(self.program.part(start), self.ordinal[start:], self.source, self.slab)


def length_of_chunks(n_members: int, n_features: int, n_outputs: int) -> int:
    """Operations of a chunk, so that the planes, errors, weights and factors of all members, and the rows, stay within
    SCRATCH bytes."""
    return max(LEAST, min(MOST, SCRATCH // (8 * (n_members * (n_outputs + 3) + n_features + 4))))


class Gatherer:
    """Makes chunks of up to `length` operations; keeps the memory for one."""

    def __init__(self, n_features: int, length: int) -> None:
        self.length = length
        self._op = np.zeros(length, np.int8)
        self._row = np.zeros(length, np.int32)
        self._y = np.zeros(length)
        self._w = np.zeros(length)
        self._ordinal = np.zeros(length, np.int64)
        self._source = np.zeros(length, np.int32)
        self._slab = np.zeros((length, n_features))
        self._place = np.zeros(0, np.int32)

    def gather(self, program: Program, slab: Floats, start: int, n_classes: int, learned: int) -> Chunk:
        """The operations from `start` on. n_classes : 0 for a regression. learned : labels that taught before. Valid
        until the next call."""
        if len(slab) > len(self._place):
            self._place = np.zeros(len(slab), np.int32)
        n = min(self.length, len(program.op) - start)
        n_rows = _gather(
            program.op, program.row, program.y, program.w, slab, start, n, n_classes, learned,
            self._op, self._row, self._y, self._w, self._ordinal, self._source, self._slab, self._place,
        )  # fmt: skip
        return Chunk(
            Program(self._op[:n], self._row[:n], self._y[:n], self._w[:n]),
            self._ordinal[:n],
            self._source[:n_rows],
            self._slab[:n_rows],
        )


@kernel
def _gather(
    op, row, y, w, slab, start, n, n_classes, learned,
    some_op, some_row, some_y, some_w, ordinal, source, some_slab, place,
):  # fmt: skip
    """Fill the arrays of a chunk with operations start .. start + n; returns its number of rows. O(n d).

    place : int32, scratch of any content, a place for each row of the slab. A row's place is right if `source` confirms
    it.
    """
    n_rows = 0
    for i in range(n):
        j = start + i
        r = row[j]
        at = place[r]
        if not (0 <= at < n_rows and source[at] == r):
            at = n_rows
            place[r] = at
            source[at] = r
            for f in range(slab.shape[1]):
                some_slab[at, f] = slab[r, f]
            n_rows += 1
        some_op[i] = op[j]
        some_row[i] = at
        some_y[i] = y[j]
        some_w[i] = w[j]
        ordinal[i] = -1
        if op[j] != PREDICT:
            known = (y[j] >= 0.0 and y[j] < n_classes) if n_classes > 0 else abs(y[j]) <= LARGEST_TARGET
            if known and w[j] > 0.0 and w[j] < np.inf:
                ordinal[i] = learned
                learned += 1
            else:
                some_w[i] = 0.0
    return n_rows


@kernel
def draw_weights(first, last, ordinal, w, below, at, keys, weights):
    """weights[slot, i] = w[i] times a Poisson draw of the slot's, by the label's number: a bootstrap sample, online.
    O(n) a slot.

    Oza and Russell 2001, section 3.2. below, at : the fields of a models.kernels.draws.PoissonTable. keys : (M,).
    Mutates
    weights : (M, length).
    """
    table = PoissonTable(below, at)
    for slot in range(first, last):
        own = weights[slot]
        for i in range(len(ordinal)):
            own[i] = w[i]
            if ordinal[i] >= 0:
                own[i] *= poisson_from(table, uniform_at(keys[slot], ordinal[i]))


@kernel
def weigh(op, row, ordinal, w, errors, vote, regression, fading, quality, votes, factors):
    """Set how much a member's predictions in a chunk count, and keep its quality, both in the order of operations.

    vote : AVERAGE, each member alike; WEIGHTED, by the accuracy until then, (hits + 1) / (weight + 2), or the inverse
    of the mean absolute error (models.running_scale); MAJORITY, each member alike, and 1 for the likeliest class.
    errors : (n,), of each LEARN what the member erred before it (0 or 1, or an absolute error; NaN, which counts for
    nothing, where it knew nothing), or longer. quality : (3,), see above. factors : (length,), by rows, or (0,) of one
    that does not vote. Mutates quality, factors, and with MAJORITY votes. O(n n_outputs).
    """
    # Others' rows lie beside this one, and other threads write them: so not in place.
    hits, weight, seen = quality[HITS], quality[WEIGHT], quality[SEEN]
    for i in range(len(op)):
        if op[i] != PREDICT:
            if ordinal[i] >= 0 and errors[i] == errors[i]:
                hit = errors[i] if regression else 1.0 - errors[i]
                if regression and weight > 0.0:
                    hit = held(hit, hits / weight, weight)
                hits = fading * hits + w[i] * hit
                weight = fading * weight + w[i]
                seen += w[i]
            continue
        if len(factors) == 0:
            continue
        r = row[i]
        factors[r] = 1.0
        if vote == WEIGHTED and regression:
            factors[r] = weight / (hits + 1e-12 * weight) if weight > 0.0 else 0.0
        elif vote == WEIGHTED:
            factors[r] = (hits + 1.0) / (weight + 2.0)
        elif vote == MAJORITY and not regression:
            best = heaviest(votes[r])
            for c in range(votes.shape[1]):
                votes[r, c] = 1.0 if c == best else 0.0
    quality[HITS], quality[WEIGHT], quality[SEEN] = hits, weight, seen


@kernel
def weigh_all(first, last, op, row, ordinal, w, errors, vote, regression, fading, quality, votes, factors):
    """`weigh` of some members, in arrays with a row a member."""
    for m in range(first, last):
        weigh(op, row, ordinal, w, errors[m], vote, regression, fading, quality[m], votes[m], factors[m])


@kernel
def combine(op, row, source, planes, factors, out):
    """out[r, :] of the rows predicted: the planes added in order, each times its factor; then divided by their sum over
    the classes (all 0 where no member votes).

    planes : (M, length, n_outputs). factors : (M, length). Rows of a chunk that are not predicted hold rubbish, and are
    added as well: so the loops run along memory. Mutates planes[0], out. O(rows M n_outputs + n n_outputs).
    """
    n_members, _, k = planes.shape
    votes = planes[0]
    for m in range(n_members):
        factor, plane = factors[m], planes[m]
        for at in range(len(source)):
            for c in range(k):
                weighed = factor[at] * plane[at, c]
                votes[at, c] = weighed if m == 0 else votes[at, c] + weighed
    for i in range(len(op)):
        if op[i] != PREDICT:
            continue
        at = row[i]
        r = source[at]
        total = 0.0
        for c in range(k):
            total += votes[at, c]
        for c in range(k):
            out[r, c] = votes[at, c] / total if total > 0.0 else votes[at, c]


@kernel
def combine_values(op, row, source, planes, factors, median, values, out):
    """Regression: out[r, 0] of the rows predicted, the mean of the members' values by their factors, added in order, or
    their median. A member that knows nothing votes NaN, and is left out; without members that know, NaN.

    planes : (M, length, 1). factors : (M, length). values : (M,), scratch. Mutates values, out. O(n M), the
    median O(n M^2).
    """
    for i in range(len(op)):
        if op[i] == PREDICT:
            out[source[row[i]], 0] = _value_of(planes[:, row[i], 0], factors[:, row[i]], median, values)


@kernel
def _value_of(votes, factors, median, values):
    """See combine_values; votes, factors : (M,)."""
    n = 0
    total = 0.0
    weighed = 0.0
    added = 0.0
    for m in range(len(votes)):
        vote = votes[m]
        if vote != vote:
            continue
        total += factors[m]
        weighed += factors[m] * vote
        added += vote
        at = n
        if median:
            while at > 0 and values[at - 1] > vote:
                values[at] = values[at - 1]
                at -= 1
        values[at] = vote
        n += 1
    if n == 0:
        return np.nan
    if median:
        return 0.5 * (values[(n - 1) // 2] + values[n // 2])
    return weighed / total if total > 0.0 else added / n
