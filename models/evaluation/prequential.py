"""Prequential evaluation: every label scores the prediction that was really made before it was learned.

Gama, Sebastião, Rodrigues: On evaluating stream learning algorithms. Machine Learning 90, 2013; kappa temporal after
Žliobaitė et al.: Evaluation methods and decision theory for classification of streaming data with temporal
dependence. Machine Learning 98, 2015.

A `Prequential` is a fold over the scored labels in their order, held in arrays like a learner: constant time a label,
the same bits however the labels were cut into programs. The recent past is either a sliding window or fades:

- The window is a ring of what each label contributed. Its sums are taken when they are read, from the oldest label to
  the newest, so that nothing is ever subtracted and no rounding error can build up.
- Fading multiplies the past by a factor at every label. Instead of touching K x K counts, the *unit* of a new label
  grows by the inverse factor, and everything is scaled back before the unit overflows (amortised constant time).

Conventions
-----------
- A prediction of all zeros (nothing was known yet) is wrong. Its log loss is that of the uniform distribution over the
  classes known then, that is, the labels seen so far and the one that has just come.
- What a prediction names is the likeliest class, unless it is declared to be another one. Ties go to the lowest class.
  Log loss clips probabilities at 1e-15 and is in nats.
- Kappa temporal compares with repeating the previous label, the one scored just before, as in the paper: with late
  labels that baseline knows more than the model did. (The learner `last-label` repeats what had arrived.)
- Macro F1 is the mean over the classes that occur, as label or as prediction. Balanced accuracy is the mean recall of
  the classes that occur as label (Brodersen et al.: The balanced accuracy and its posterior distribution. ICPR 2010).
- A metric that is undefined is absent from the result: all of them before the first label; kappa when labels and
  predictions are one and the same class; kappa temporal when the baseline makes no mistake; R² of a constant target.
- What has faded below NEGLIGIBLE of all weight did not occur: a class that has not come for long has no recall, and
  where next to all weight repeats the label before, kappa temporal is undefined. They would be quotients of remnants.
- A label of weight 0 is not scored, nor one of NaN, which is none, nor one whose row of predictions is NaN: it was
  never predicted.
- AUROC is the chance that a label of a class had a greater score than one of another class, ties counted half
  (`models.evaluation.auroc`). Of anomalies the score is what was predicted. Of two classes it is that of the second
  known, by its probability; of more the mean over the classes in the window, each against the rest, of the first
  `MOST_CLASSES` known. It is exact, and of the window alone, since the whole past, and one that fades, would need all
  scores.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import PREDICT, Floats, Program
from riparian.models.entry import ANOMALY, VALUES
from riparian.models.evaluation import auroc
from riparian.models.evaluation.costs import UNDECIDED, Paid, Priced, likeliest
from riparian.models.joined import grown
from riparian.models.kernels.elementary import log
from riparian.models.kernels.kernel import kernel
from riparian.models.layout import StateLayout
from riparian.models.statistic import WindowStatistic

# columns of a row of sums: classification, then regression
WEIGHT = 0
HITS, LOSS = 1, 2  # of the repeated previous label; log loss
ABSOLUTE, SQUARED, MEAN, SPREAD = 1, 2, 3, 4  # errors; mean and summed squared deviation of the labels
N_SUMS = 5

# columns of the ring; of anomalies R_ALERT, a column of their confusion
R_LABEL, R_PREDICTION, R_WEIGHT, R_HIT, R_LOSS = 0, 1, 2, 3, 4
R_ALERT = R_HIT
N_RING = 5

UNIT_LIMIT = 1e100
SMALLEST = 1e-15
NEGLIGIBLE = 1e-6  # share of all weight that has not faded
MOST_CLASSES = 20  # the first known, of which there are figures of their own


class PrequentialState(NamedTuple):
    """Everything a `Prequential` knows; K = n_outputs.

    n : (1,) int64, labels scored.
    previous : (1,) float64, the last of them (NaN before the first).
    seen : (K,) uint8, 1 for classes that occurred as a label.
    sums : (5,) float64 over the whole stream.
    confusion : (K, K + 1) float64 over the whole stream, weight by label and by prediction, where column 0 is "no
        prediction" and column 1 + k is class k. For a regression, confusion is (0, 1); for anomalies, too, unless it is
        decided which are alerts: then (2, 3), where class 1 are these, and column 0 is "not decided".
    recent_sums, recent_confusion : the same, faded, in units of `unit` : (1,) float64 (zero without fading).
    ring : (window, 5) float64, the last labels: label n in row n % window (no rows with fading).
    probabilities : (window, min(K, n_ranked)) float64, those predicted for them, in the same rows; of a label of which
        nothing was known, even ones of the classes seen by then. In 64 bits, since some learners are very sure: 32 bits
        make ties of 1e-50 and 1e-60. Column 0 is NaN where they were not kept, by a version of before. No columns
        without classes.
    """

    n: NDArray[np.int64]
    previous: Floats
    seen: NDArray[np.uint8]
    sums: Floats
    confusion: Floats
    recent_sums: Floats
    recent_confusion: Floats
    unit: Floats
    ring: Floats
    probabilities: Floats


class _Ranks(NamedTuple):
    """AUROC of each class over the window after n labels, and `auroc` of all, as far as there are."""

    n: int
    areas: dict[int, float]
    mean: dict[str, float]


class Prequential(WindowStatistic):
    """Metrics of one model over a stream.

    Parameters
    ----------
    task : str
        "regression", "anomaly" (labels are 1, or 0), or one with classes.
    n_outputs : int
        Capacity of class codes; 1 for a regression.
    window : int
        Labels in the sliding window. Memory is 40 bytes a label, and of classes 8 for each, of 20 at most.
    fading : float, optional
        Factor in (0, 1) by which the past fades at each label (0.999: half after 693 labels). Replaces the window.
    alerts : bool
        Of anomalies: whether it is decided which are alerts, and so what `score` is given.

    Attributes
    ----------
    n_ranked : int
        The first classes known, of which there is an AUROC.
    paid : Paid
        What its predictions cost, where `score` is told the prices: a state of its own.

    Examples
    --------
    >>> evaluation = Prequential("classification", 2)
    >>> program = Program(np.ones(4, np.int8), np.arange(4, dtype=np.int32), np.array([0.0, 1, 1, 0]), np.ones(4))
    >>> evaluation.score(program, np.array([[0.0, 0.0], [0.5, 0.5], [0.2, 0.8], [0.9, 0.1]]))
    >>> evaluation.metrics()["accuracy"]
    0.5
    """

    _state: PrequentialState
    n_ranked: ClassVar[int] = MOST_CLASSES
    rings = ("ring", "probabilities")
    faded = ("recent_sums", "recent_confusion")
    layout: ClassVar[StateLayout] = StateLayout(
        rows={
            "seen": "*",
            "confusion recent_confusion": "kinds and_none",
            "ring": "labels =",
            "probabilities": "labels *",
        }
    )

    def __init__(
        self, task: str, n_outputs: int, *, window: int = 1000, fading: float | None = None, alerts: bool = False
    ) -> None:
        if window < 1:
            raise ValueError(f"window is {window}: give at least 1 label")
        if fading is not None and not 0.0 < fading < 1.0:
            raise ValueError(f"fading is {fading}: give a factor between 0 and 1, such as 0.999")
        self.task = task
        self.n_outputs = n_outputs
        self.window = window
        self.fading = fading
        self.alerts = alerts
        self.paid = Paid(window, fading)
        n_classes = n_outputs if task not in VALUES else 0
        shape = (2, 3) if alerts else (n_classes, n_classes + 1)
        n_rows = window if fading is None else 0
        self._state = PrequentialState(
            n=np.zeros(1, np.int64),
            previous=np.full(1, np.nan),
            seen=np.zeros(n_classes, np.uint8),
            sums=np.zeros(N_SUMS),
            confusion=np.zeros(shape),
            recent_sums=np.zeros(N_SUMS),
            recent_confusion=np.zeros(shape),
            unit=np.ones(1),
            ring=np.zeros((n_rows, N_RING)),
            probabilities=np.zeros((n_rows, min(n_classes, self.n_ranked))),
        )
        self._known: _Ranks | None = None

    def score(self, program: Program, out: Floats, decided: Floats | None = None, priced: Priced | None = None) -> None:
        """Score every LEARN of `program`, in order, against what PREDICT wrote into `out` for its row.

        Parameters
        ----------
        program : Program
            As the model ran it. Label codes must stay below `n_outputs`.
        out : (capacity, n_outputs) float64
            The model's predictions; NaN where it made none.
        decided : (capacity, m) float64, optional
            The code of the class that each prediction named, in column 0 (`models.predictions.decision`). NaN: the
            likeliest, or of anomalies not decided.
        priced : Priced, optional
            Of classes, what mistakes cost.

        Raises
        ------
        ValueError
            Where `out` or a label does not fit `n_outputs`; nothing has been scored then.
        """
        if out.shape[1] != self.n_outputs:
            raise ValueError(f"predictions have {out.shape[1]} columns, not {self.n_outputs}: call resize first")
        decay = 0.0 if self.fading is None else self.fading
        named = UNDECIDED if decided is None else decided
        if self.task in VALUES:
            _score_values(program.op, program.row, program.y, program.w, out, named, decay, *self._state)
            return
        if _score_classes(program.op, program.row, program.y, program.w, out, named, decay, *self._state) < 0:
            raise ValueError(f"a label code is not below {self.n_outputs}: call resize first")
        if priced is not None:
            self.paid.run(program, out, priced, named)

    def metrics(self) -> dict[str, float]:
        """Metrics over the whole stream: n, and what the task has of accuracy, kappa, kappa_temporal, log_loss,
        f1_macro, balanced_accuracy, mae, rmse, r2. With prices, cost. Of anomalies, n alone."""
        found = self._summarise(int(self._state.n[0]), self._state.sums, self._state.confusion)
        return found | self.paid.metrics()

    def windowed(self) -> dict[str, float]:
        """The metrics over the sliding window, or faded; `n` is the number of labels in the window (faded: of all).
        With auroc, of a window of classes, or of anomalies."""
        n, ring = int(self._state.n[0]), self._state.ring
        if self.fading is None:
            n = int(np.count_nonzero(ring[:, R_WEIGHT]))
        found = self._summarise(n, *self._recent_sums(), self._negligible)
        return found | self._ranks().mean | self.paid.metrics(recent=True)

    def confusion(self) -> Floats:
        """(K, K) float64: weight by label (row) and prediction (column) over the whole stream."""
        return self._state.confusion[:, 1:].copy()

    def by_class(self) -> dict[int, dict[str, float]]:
        """Class code -> `n` (weight of its labels), `recall`, `precision` and `f1` over the whole stream, of the
        classes that occurred as label or as prediction; what is undefined is absent. Of anomalies 1 alone, alerts."""
        return self._of_classes(self._state.confusion)

    def counts(self, recent: bool = False) -> Floats:
        """(K, K + 1) float64: weight by label and by prediction, where column 0 is "no prediction" and column 1 + k is
        class k, over the whole stream, or the sliding window or fading past (then in units of its own)."""
        return self._recent_sums()[1] if recent else self._state.confusion

    def recent_by_class(self) -> dict[int, dict[str, float]]:
        """The metrics by class over the sliding window, or faded; of a window with `auroc` against the rest."""
        unit = 1.0 if self.fading is None else self._state.unit[0]
        found = self._of_classes(self._recent_sums()[1] / unit, self._negligible)
        areas = self._ranks().areas if self.task not in VALUES else {}
        return {k: one | ({"auroc": areas[k]} if k in areas else {}) for k, one in found.items()}

    @property
    def _negligible(self) -> float:
        """The share of all weight up to which a recent weight is none."""
        return 0.0 if self.fading is None else NEGLIGIBLE

    def _of_classes(self, confusion: Floats, negligible: float = 0.0) -> dict[int, dict[str, float]]:
        return {k: one for k, one in _of_classes(confusion, negligible).items() if k == 1 or self.task != ANOMALY}

    def _ranks(self) -> _Ranks:
        """Of the window as it stands. Sorting takes longer than all other measures, so they are kept until the next
        label."""
        n, ranks = int(self._state.n[0]), self._known
        if ranks is None or ranks.n != n:
            self._known = ranks = self._rank(n)
        return ranks

    def _rank(self, n: int) -> _Ranks:
        ring, scores = self._state.ring, self._state.probabilities
        if self.task == ANOMALY:
            scores = ring[:, R_PREDICTION, None] * [-1.0, 1.0]
        if not scores.size:  # of a regression, or with fading
            return _Ranks(n, {}, {})
        there = (ring[:, R_WEIGHT] != 0.0) & ~np.isnan(scores[:, 0])
        y = ring[there, R_LABEL].astype(np.int64)
        areas = auroc.areas(y, scores[there], ring[there, R_WEIGHT])
        area = auroc.mean(areas, len(np.unique(y)))
        return _Ranks(n, areas, {} if area is None else {"auroc": area})

    def _recent_sums(self) -> tuple[Floats, Floats]:
        """Sums and confusion over the sliding window, or faded."""
        if self.fading is not None:
            return self._state.recent_sums, self._state.recent_confusion
        sums, confusion = np.zeros_like(self._state.sums), np.zeros_like(self._state.confusion)
        if self.task not in VALUES:
            _sum_class_ring(int(self._state.n[0]), self._state.ring, sums, confusion)
        else:
            _sum_value_ring(int(self._state.n[0]), self._state.ring, sums, confusion)
        return sums, confusion

    def resize(self, n_outputs: int) -> None:
        """Raise the capacity of class codes; nothing scored so far changes."""
        if self.task in VALUES or n_outputs == self.n_outputs:
            return
        state = self._state
        self._state = state._replace(
            seen=grown(state.seen, n_outputs),
            confusion=grown(state.confusion, n_outputs, n_outputs + 1),
            recent_confusion=grown(state.recent_confusion, n_outputs, n_outputs + 1),
            probabilities=grown(state.probabilities, len(state.ring), min(n_outputs, self.n_ranked)),
        )
        self.n_outputs = n_outputs

    def settle(self, window: int, fading: float | None) -> None:
        """Go on with another window, or fading."""
        super().settle(window, fading)
        self.paid.settle(window, fading)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take over copies of the arrays of an earlier `state()._asdict()`; windows as `WindowStatistic` does. Alerts
        are counted from when it is declared which are some, labels ranked from when probabilities were kept."""
        known, nothing = {"probabilities": self._unknown(state), **state}, np.zeros_like(self._state.confusion)
        anew = self.task == ANOMALY and known["confusion"].shape != nothing.shape
        super().restore(known | (dict.fromkeys(("confusion", "recent_confusion"), nothing) if anew else {}))
        if anew:
            self._state.ring[:, R_ALERT] = 0.0
        if self.fading is None:
            self._state.unit[:] = 1.0
        self._known = None
        if self.task not in VALUES:
            self.n_outputs = len(self._state.seen)

    def _unknown(self, state: Mapping[str, NDArray[Any]]) -> Floats:
        """The probabilities of a state without them."""
        p = np.zeros((len(state["ring"]), min(len(state["seen"]), self.n_ranked)))
        p[state["ring"][:, R_WEIGHT] != 0.0] = np.nan
        return p

    @property
    def n_bytes(self) -> int:
        """Bytes of the arrays of `state()`, and of what was paid."""
        return super().n_bytes + self.paid.n_bytes

    def _summarise(self, n: int, sums: Floats, confusion: Floats, negligible: float = 0.0) -> dict[str, float]:
        result: dict[str, float] = {"n": n}
        if sums[WEIGHT] > 0.0 and self.task != ANOMALY:
            result |= _class_metrics(sums, confusion, negligible) if self.task not in VALUES else _value_metrics(sums)
        return result


def _class_metrics(sums: Floats, confusion: Floats, negligible: float) -> dict[str, float]:
    weight = float(sums[WEIGHT])
    labels, hits = confusion.sum(axis=1), np.diagonal(confusion, 1)
    predictions = confusion[:, 1:].sum(axis=0)
    accuracy = float(hits.sum()) / weight
    chance = float((labels * predictions).sum()) / (weight * weight)
    repetition = float(sums[HITS]) / weight
    result = {"accuracy": accuracy}
    if chance < 1.0 - negligible:
        result["kappa"] = (accuracy - chance) / (1.0 - chance)
    if repetition < 1.0 - negligible:
        result["kappa_temporal"] = (accuracy - repetition) / (1.0 - repetition)
    result["log_loss"] = float(sums[LOSS]) / weight
    occurring, labelled = labels + predictions > negligible * weight, labels > negligible * weight
    result["f1_macro"] = float(np.mean(2.0 * hits[occurring] / (labels[occurring] + predictions[occurring])))
    result["balanced_accuracy"] = float(np.mean(hits[labelled] / labels[labelled]))
    return result


def _of_classes(confusion: Floats, negligible: float) -> dict[int, dict[str, float]]:
    """See `Prequential.by_class`."""
    least = negligible * float(confusion.sum())
    hits, labels, predictions = np.diagonal(confusion, 1), confusion.sum(axis=1), confusion[:, 1:].sum(axis=0)
    found = {}
    for k in np.flatnonzero(labels + predictions > least).tolist():
        totals = {"recall": labels[k], "precision": predictions[k]}
        known = {name: float(hits[k] / total) for name, total in totals.items() if total > least}
        found[k] = {"n": float(labels[k]), **known, "f1": float(2.0 * hits[k] / (labels[k] + predictions[k]))}
    return found


def _value_metrics(sums: Floats) -> dict[str, float]:
    weight = float(sums[WEIGHT])
    result = {"mae": float(sums[ABSOLUTE]) / weight, "rmse": float(np.sqrt(sums[SQUARED] / weight))}
    if sums[SPREAD] > 0.0:
        result["r2"] = 1.0 - float(sums[SQUARED] / sums[SPREAD])
    return result


@kernel
def _add_class(sums, confusion, label, prediction, weight, hit, loss):
    """One label into `sums` and `confusion` (mutated). O(1)."""
    sums[WEIGHT] += weight
    sums[HITS] += weight * hit
    sums[LOSS] += weight * loss
    confusion[label, prediction + 1] += weight


@kernel
def _add_value(sums, label, prediction, weight):
    """One label into `sums` (mutated); mean and spread after West (1979), which does not cancel. O(1)."""
    error = label - prediction
    sums[WEIGHT] += weight
    sums[ABSOLUTE] += weight * abs(error)
    sums[SQUARED] += weight * error * error
    deviation = label - sums[MEAN]
    sums[MEAN] += deviation * (weight / sums[WEIGHT])
    sums[SPREAD] += weight * deviation * (label - sums[MEAN])


@kernel
def _fade(decay, sums, confusion, unit, unscaled):
    """Make the past fade by `decay`: the unit grows, and all is scaled back before it overflows. Mutates `sums`
    (apart from column `unscaled`, a mean), `confusion` and `unit`. Amortised O(1)."""
    unit[0] /= decay
    if unit[0] > UNIT_LIMIT:
        for j in range(len(sums)):
            if j != unscaled:
                sums[j] /= unit[0]
        for a in range(confusion.shape[0]):
            for b in range(confusion.shape[1]):
                confusion[a, b] /= unit[0]
        unit[0] = 1.0


@kernel
def _score_classes(
    op, row, y, w, out, decided, decay,
    n, previous, seen, sums, confusion, recent_sums, recent_confusion, unit, ring, probabilities,
):  # fmt: skip
    """Score the labels of a program; mutates the state arrays. Status 0, or -1 (nothing changed) where a label code is
    not below the capacity. O(n_outputs) a label."""
    for i in range(len(op)):
        if op[i] != PREDICT and not np.isnan(y[i]) and not 0.0 <= y[i] < len(seen):
            return -1
    n_seen = 0
    for k in range(len(seen)):
        n_seen += seen[k]
    for i in range(len(op)):
        if op[i] == PREDICT or w[i] <= 0.0 or np.isnan(y[i]) or np.isnan(out[row[i], 0]):
            continue
        r, label, weight = row[i], int(y[i]), w[i]
        if seen[label] == 0:
            seen[label] = 1
            n_seen += 1
        prediction = likeliest(out, r)
        known = prediction >= 0
        if not known:
            loss = log(float(n_seen))
        else:
            loss = -log(max(out[r, label], SMALLEST))
            if len(decided) > 0 and 0.0 <= decided[r, 0] < len(seen):
                prediction = int(decided[r, 0])
        hit = 1.0 if previous[0] == y[i] else 0.0
        previous[0] = y[i]
        _add_class(sums, confusion, label, prediction, weight, hit, loss)
        if decay > 0.0:
            _fade(decay, recent_sums, recent_confusion, unit, -1)
            _add_class(recent_sums, recent_confusion, label, prediction, weight * unit[0], hit, loss)
        else:
            slot = n[0] % len(ring)
            ring[slot, R_LABEL] = label
            ring[slot, R_PREDICTION] = prediction
            ring[slot, R_WEIGHT] = weight
            ring[slot, R_HIT] = hit
            ring[slot, R_LOSS] = loss
            for k in range(probabilities.shape[1]):
                probabilities[slot, k] = out[r, k] if known else seen[k] / n_seen
        n[0] += 1
    return 0


@kernel
def _add_alert(confusion, label, alert, weight):
    """One label, 1 of an anomaly, into `confusion` (mutated), where alerts are counted. alert : its column. O(1)."""
    if len(confusion) > 0:
        confusion[1 if label == 1.0 else 0, 2 if alert == 2.0 else 1 if alert == 1.0 else 0] += weight


@kernel
def _score_values(
    op, row, y, w, out, decided, decay,
    n, previous, seen, sums, confusion, recent_sums, recent_confusion, unit, ring, probabilities,
):  # fmt: skip
    """Score a regression or anomalies (classes: `_score_classes`). O(1) a label."""
    for i in range(len(op)):
        if op[i] == PREDICT or w[i] <= 0.0 or np.isnan(y[i]) or np.isnan(out[row[i], 0]):
            continue
        prediction, weight, alert = out[row[i], 0], w[i], 0.0
        if len(confusion) > 0 and len(decided) > 0 and decided[row[i], 0] >= 0.0:
            alert = 1.0 + decided[row[i], 0]
        previous[0] = y[i]
        _add_value(sums, y[i], prediction, weight)
        _add_alert(confusion, y[i], alert, weight)
        if decay > 0.0:
            _fade(decay, recent_sums, recent_confusion, unit, MEAN)
            _add_value(recent_sums, y[i], prediction, weight * unit[0])
            _add_alert(recent_confusion, y[i], alert, weight * unit[0])
        else:
            slot = n[0] % len(ring)
            ring[slot, R_LABEL] = y[i]
            ring[slot, R_PREDICTION] = prediction
            ring[slot, R_WEIGHT] = weight
            ring[slot, R_ALERT] = alert
        n[0] += 1


@kernel
def _sum_class_ring(n, ring, sums, confusion):
    """Add the ring's labels, oldest first, to `sums` and `confusion` (mutated). O(window). Rows of weight 0 are empty
    (see `restore`)."""
    for i in range(max(0, n - len(ring)), n):
        slot = i % len(ring)
        if ring[slot, R_WEIGHT] == 0.0:
            continue
        _add_class(
            sums,
            confusion,
            int(ring[slot, R_LABEL]),
            int(ring[slot, R_PREDICTION]),
            ring[slot, R_WEIGHT],
            ring[slot, R_HIT],
            ring[slot, R_LOSS],
        )


@kernel
def _sum_value_ring(n, ring, sums, confusion):
    """Sum up the window of a regression or of anomalies (classes: `_sum_class_ring`)."""
    for i in range(max(0, n - len(ring)), n):
        slot = i % len(ring)
        if ring[slot, R_WEIGHT] == 0.0:
            continue
        _add_value(sums, ring[slot, R_LABEL], ring[slot, R_PREDICTION], ring[slot, R_WEIGHT])
        _add_alert(confusion, ring[slot, R_LABEL], ring[slot, R_ALERT], ring[slot, R_WEIGHT])
