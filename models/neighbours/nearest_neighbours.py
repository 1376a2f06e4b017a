"""Nearest neighbours with a short-term and a long-term memory, as a learner."""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import LARGEST_TARGET, PREDICT, Floats, Learner, Program, Schema
from riparian.models.explanation.description import as_node
from riparian.models.kernels.kernel import kernel
from riparian.models.layout import StateLayout
from riparian.models.neighbours.adaptation import learn
from riparian.models.neighbours.entries import NEAREST_NEIGHBOURS
from riparian.models.neighbours.memory import (
    BY_BOTH,
    BY_LONG,
    BY_SHORT,
    LARGEST_WEIGHT,
    LONG,
    SHORT,
    NeighbourSettings,
    measure,
    merge,
    room_for_memories,
    scale_rows,
    scratch_for,
    search,
    standardised,
    valid,
    value_of,
    vote,
    who_predicts,
)
from riparian.models.observers.gaussians import check_growth

PARTS = ("short", "long")


class NeighboursState(NamedTuple):
    """Everything that the learner knows: the rows of the short-term memory, oldest first, then of the long-term one.

    x : (rows, d) float64, NaN where a value is missing. y, w : (rows,) float64.
    losses : (rows of the short-term memory, 3) float64, of the predictions by it, by the other and by both.
    sums : (rows / minimum, rounded up) float64, of the windows that are tried (models.neighbours.memory).
    scales : (3, d + 1), used : (2, d + 1) float64, as there.
    sizes : (2,) int64, rows of each memory. learned : (1,) int64, labels.
    """

    x: Floats
    y: Floats
    w: Floats
    losses: Floats
    sums: Floats
    scales: Floats
    used: Floats
    sizes: NDArray[np.int64]
    learned: NDArray[np.int64]


class NearestNeighbours(Learner):
    """The nearest remembered rows vote, each by its weight over its distance.

    The short-term memory holds the newest rows. Of windows of all its rows, half of them, a quarter and so on it keeps
    the one of the least interleaved test-train error. Rows that leave go on in the long-term memory, unless rows that
    stay contradict them: of another class, next to one whose own neighbours agree with it. Each label cleans that
    memory in the same way. Predictions come from either memory or both, whichever was right most often over the rows
    of the short-term one.

    Distances are Euclidean, of numbers over their running deviation. A nominal value that differs, and one that is
    missing on one side only, count as one deviation. Numbers beyond 1e100 count as missing. Of
    equal distances the newer row of the short-term memory counts, then that of the later place in the long-term one,
    where the last row takes the place of one that goes. A label outside 0 .. n_outputs - 1, a target beyond 1e100 and
    a weight that is not positive and finite teach nothing.

    Memory is bounded by window and long. A full short-term memory gives up its oldest quarter. Of a full long-term
    memory the rows of each class become half as many; where each class has one row, the older half of the rows goes.
    One label may compare each row with each other, which window and long bound by 10,000 rows.

    Notes
    -----
    Where the paper draws (k-means++), the seeds are the rows farthest from each other, and one round of k-means
    follows. Windows begin at each row whose number is a multiple of `minimum`, and the longest stands for each half
    that fits into it; so errors are exact and take one pass. The paper has one bound for both memories. For targets: a
    prediction is the mean, its loss the absolute error in deviations of the targets, 1 at most. A row contradicts
    another that is nearer than its farthest neighbour and differs by more than any of its neighbours.

    References
    ----------
    V. Losing, B. Hammer and H. Wersing: KNN classifier with self adjusting memory for heterogeneous concept drift. ICDM
    2016.

    Examples
    --------
    >>> learner = NearestNeighbours(Schema((0, 0), 2, "classification"), window=200)
    >>> x = np.random.default_rng(1).random((500, 2))
    >>> learner.learn_many(x, (x[:, 1] > 0.5).astype(float))
    >>> int(learner.predict_many([[0.3, 0.9]]).argmax())
    1
    """

    entry = NEAREST_NEIGHBOURS
    layout: ClassVar[StateLayout] = StateLayout(
        rows={"x y w": "rows", "losses": "short", "sums": "*"}, counts={"sizes": "rows", ("sizes", 0): "short"}
    )

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        p, d = self._parameters, schema.n_features
        self._settings = NeighbourSettings(
            p["k"], p["window"], p["long"], min(p["minimum"], p["window"] // 4), schema.task == "classification",
            (np.array(schema.n_values) > 0).astype(np.uint8),
        )  # fmt: skip
        self._memories = room_for_memories(d, self._settings)
        self._scratch = scratch_for(d, self._settings)

    def run(self, program: Program, slab: Floats, out: Floats) -> None:
        _run(*program, slab, out, self._memories, self._settings, self._scratch)

    def resize(self, schema: Schema) -> None:
        check_growth(self.schema, schema)
        self.schema = schema

    def _places(self) -> NDArray[np.int64]:
        """Of all rows, in the arrays."""
        _, short, long = self._memories.counts.tolist()
        window = self._settings.window
        return np.concatenate([np.arange(short), np.arange(window, window + long)])

    def state(self) -> NeighboursState:
        memories, places = self._memories, self._places()
        learned, short, long = memories.counts.tolist()
        return NeighboursState(
            np.ascontiguousarray(memories.raw[:, places].T),
            memories.y[places],
            memories.w[places],
            memories.losses[:short],
            memories.sums[: -(-short // self._settings.minimum)],
            memories.scales,
            memories.used,
            np.array([short, long]),
            np.array([learned]),
        )

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        given, memories = NeighboursState(**state), self._memories
        short, long = given.sizes.tolist()
        if not (short <= self._settings.window and long <= self._settings.long):
            raise ValueError(f"its memories have {short} and {long} rows, more than window and long allow")
        if len(given.sums) != -(-short // self._settings.minimum) or not self._are_labels(given.y):
            raise ValueError("its sums are not those of its rows, or it has labels that teach nothing")
        memories.counts[:] = given.learned[0], short, long
        places = self._places()
        memories.raw[:, places] = given.x.T
        memories.y[places], memories.w[places] = given.y, given.w
        memories.losses[:short] = given.losses
        memories.sums[: len(given.sums)] = given.sums
        memories.scales[:], memories.used[:] = given.scales, given.used
        _look_again(memories, self._settings)

    def _are_labels(self, y: Floats) -> bool:
        if self._settings.classes:
            return bool(((y >= 0.0) & (y < self.schema.n_outputs) & (y == np.floor(y))).all())
        return bool((np.abs(y) <= LARGEST_TARGET).all())

    def describe(self) -> list[dict[str, Any]]:
        """A root, and below it the "short" and the "long" memory. "weight" is that of the rows, "value" class shares or
        the mean target; "error" of a memory the mean loss of its predictions."""
        places = self._places()
        n_short = int(self._memories.counts[SHORT])
        parts = [places, places[:n_short], places[n_short:]]
        nodes = [self._describe(i, rows) for i, rows in enumerate(parts)]
        for name, node, total in zip(PARTS, nodes[1:], self._memories.totals.tolist(), strict=False):
            node |= {"parent": 0, "depth": 1, "part": name, "error": total / max(1, n_short)}
        return nodes

    def _describe(self, i: int, rows: NDArray[np.int64]) -> dict[str, Any]:
        y, w = self._memories.y[rows], self._memories.w[rows]
        weight = float(w.sum())
        if self._settings.classes:
            value = (np.bincount(y.astype(np.int64), w, self.schema.n_outputs) / max(weight, 1e-300)).tolist()
        else:
            value = [float(y[0] + np.average(y - y[0], weights=w)) if len(y) else 0.0]
        return as_node(i, None, 0, weight, value)


@kernel
def _run(op, row, label, weight, x, out, memories, settings, scratch):
    """Mutates out, memories, scratch. O(d rows) an operation, and from time to time O(d rows^2) of a label."""
    asked = -1  # row whose distances stand in scratch, of the memories that predict
    for i in range(len(op)):
        r, y, w = row[i], label[i], weight[i]
        teaches = w > 0.0 and w < np.inf and ((y >= 0.0 and y < out.shape[1]) if settings.classes else _is_target(y))
        if op[i] != PREDICT and not teaches:
            continue
        for f in range(len(scratch.query)):
            scratch.query[f] = standardised(valid(x[r, f]), memories.used, f, settings.nominal)
        if op[i] == PREDICT:
            _predict(out, r, memories, settings, scratch)
            asked = r
        else:
            learn(x, r, y, min(w, LARGEST_WEIGHT), asked == r, memories, settings, scratch)
            asked = -1


@kernel(inline=True)
def _is_target(y):
    return abs(y) <= LARGEST_TARGET


@kernel
def _predict(out, r, memories, settings, scratch):
    """Write the prediction of scratch.query. Mutates out, scratch. O(d rows)."""
    for c in range(out.shape[1]):
        out[r, c] = 0.0 if settings.classes else np.nan
    by, n_short, n_long, window = who_predicts(memories), 0, 0, settings.window
    best, place = scratch.best, scratch.place
    if by != BY_LONG:
        n = memories.counts[SHORT]
        measure(memories.scaled, settings.nominal, scratch.query, 0, n, scratch.distance)
        n_short = search(scratch.distance, 0, n, -1, best[BY_SHORT], place[BY_SHORT], 0)
    if by != BY_SHORT:
        stop = window + memories.counts[LONG]
        measure(memories.scaled, settings.nominal, scratch.query, window, stop, scratch.distance)
        n_long = search(scratch.distance, window, stop, -1, best[BY_LONG], place[BY_LONG], 0)
    n = merge(best, place, n_short, n_long) if by == BY_BOTH else n_short + n_long
    if n == 0:
        return
    if not settings.classes:
        out[r, 0] = value_of(best[by], place[by], n, memories.y, memories.w)
        return
    total = 0.0
    for i in range(n):
        total += vote(best[by], place[by], i, memories.w)
    if total > 0.0:
        for i in range(n):
            out[r, int(memories.y[place[by, i]])] += vote(best[by], place[by], i, memories.w)
        for c in range(out.shape[1]):
            out[r, c] /= total


@kernel
def _look_again(memories, settings):
    """What follows from a state. Mutates memories. O(d rows)."""
    counts = memories.counts
    scale_rows(memories, settings.nominal, 0, counts[SHORT])
    scale_rows(memories, settings.nominal, settings.window, settings.window + counts[LONG])
    for j in range(3):
        memories.totals[j] = 0.0
        for i in range(counts[SHORT]):
            memories.totals[j] += memories.losses[i, j]
