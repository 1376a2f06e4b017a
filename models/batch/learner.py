"""Batch learners on a stream: the newest labels are a window, and a model of it is made now and again.

A fit is made of the window as it stands at some label, by another process, and takes the model's place at a later one:
`lag` labels on, whatever it took. So the stream does not wait unless the fit takes longer than the `lag` labels do, and
what is predicted depends on the labels alone. A fit in hand is not state but follows from it: the window keeps the rows
that it is made of, and whoever takes over has it made again.

A model is due after as many labels as the one before had, and after `refit_every` at most: at first 32, 64, 128, …, so
that a stream does not wait for `refit_every` of them; and so again after a drift, where a learner looks out for one
(`drift_delta`): what is older than the change leaves the window for good.
"""

import logging
import time
from collections.abc import Mapping
from concurrent.futures import Future, wait
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.batch.fit import Job, fit, seed_of
from riparian.models.batch.forest import FITTED, ROWS, FittedForest
from riparian.models.batch.predict import FIELDS, nothing, predict, room_for
from riparian.models.batch.process import PROCESSES, FitError
from riparian.models.contract import PREDICT, Floats, Learner, Program, Schema
from riparian.models.drift.adwin import CLOCK, MIN_SIDE, TOTAL, WIDTH, AdwinState, adwin_update, empty, forget
from riparian.models.drift.contract import DRIFT
from riparian.models.drift.scaling import bring, new_scale
from riparian.models.entry import CLASSIFICATION
from riparian.models.joined import copied, grown, joined, prefixed
from riparian.models.kernels.kernel import kernel
from riparian.models.layout import Paths, StateLayout

log = logging.getLogger(__name__)

# Numbers in LabelRing.at. Labels are counted from 0; those of weight 0 are none.
LEARNED, SINCE = 0, 1  # labels learned; the first one that counts (after a drift: of what is now)
NEXT = 2  # labels learned when the next fit is due
FIRST, END = 3, 4  # labels that the fit in hand is made of
READY = 5  # labels learned when it takes the model's place; 0 where none is in hand
FITS, FAILED, DRIFTS = 6, 7, 8  # since the stream began: fits, those that the library refused, drifts
N_AT = 9

STREAM = ("window", "refit_every", "lag", "drift_delta")  # parameters that every batch learner has

LEAST = 32  # labels that a model is made of


class LabelRing(NamedTuple):
    """A ring of the newest labels, and what is known without a model. Label i lies in row i modulo the length.

    x : (length, d) float64.
    y, w : (length,) float64.
    at : (9,) int64, the numbers named above.
    totals : (n_outputs,) float64, weight of each class learned; for a regression (2,), weight and weighted sum.
    """

    x: Floats
    y: Floats
    w: Floats
    at: NDArray[np.int64]
    totals: Floats


class ErrorDetector(NamedTuple):
    """ADWIN over the errors of the model.

    adwin : its arrays.
    scale : of models.drift.scaling; (3,) zeros where errors are not watched, or are 0 and 1.
    value, scaled : (1,) float64.
    level : (1,) int8, rubbish.
    """

    adwin: AdwinState
    scale: Floats
    value: Floats
    scaled: Floats
    level: NDArray[np.int8]


BatchState = joined(
    "BatchState",
    prefixed("labels_", LabelRing),
    prefixed("model_", FittedForest),
    prefixed("errors_", AdwinState),
    ("errors_spread",),  # ErrorDetector.scale
)


class BatchLearner(Learner):
    """Base of the batch learners. Memory: window + lag labels, and the model; a tree has less than two nodes a label.

    Subclasses name an entry of models.batch.entries, which holds their parameters: those below and the method's own.
    A fit that the library refuses (XGBoost does not take all that a window can hold) is counted, and the model stays.

    Parameters
    ----------
    schema : Schema
        Task "classification" or "regression".
    window : int
        Newest labels that a model is made of.
    refit_every : int
        Labels learned until the next one is made (sooner at first).
    lag : int or None
        Labels from a fit's beginning to its place, at most `refit_every`, which is the default. 0: the stream waits.
    drift_delta : float
        Confidence of ADWIN over the model's errors; what is older than a rise leaves the window. 0: not watched.
    """

    name: ClassVar[str]
    layout: ClassVar[StateLayout] = StateLayout(
        rows={
            "labels_x labels_y labels_w": "labels", "model_root model_weight model_group": "trees",
            "model_column model_threshold model_left model_right model_missing model_cover": "nodes",
            "model_values": "leaves *", "model_base model_classes": "fitted",
            "model_feature model_code model_centre": "columns", "errors_spread": "*",
        },
        places={
            "model_column": "columns", "model_feature": "features", "model_root": "nodes", "model_group": "fitted",
            "model_classes": "outputs",
        },
        paths=(Paths("model_column", ("model_left", "model_right"), leaves="leaves"),),
    )  # fmt: skip
    n_waits: int = 0

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        self.method = dict(self._parameters)  # the method's own
        self.window, self.refit_every, self.lag, self.drift_delta = (self.method.pop(name) for name in STREAM)
        self._classes = schema.task == CLASSIFICATION
        self._lag = self.refit_every if self.lag is None else self.lag
        self._nominal = np.array(schema.n_values) > 0
        d, totals = schema.n_features, schema.n_outputs if self._classes else 2
        self._labels = LabelRing(np.zeros((0, d)), np.zeros(0), np.zeros(0), np.zeros(N_AT, np.int64), np.zeros(totals))
        self._labels.at[NEXT] = min(LEAST, self.refit_every)
        scale = new_scale() if self.drift_delta > 0.0 and not self._classes else np.zeros(3)
        self._watch = ErrorDetector(empty(), scale, np.zeros(1), np.zeros(1), np.zeros(1, np.int8))
        self._fit: Future[FittedForest] | None = None
        self._take(nothing())

    def _take(self, model: FittedForest) -> None:
        self._model, self._room = model, room_for(model)
        self._joint = np.zeros(self.schema.n_outputs)

    def run(self, program: Program, slab: Floats, out: Floats) -> None:
        i, at = 0, self._labels.at
        while i < len(program.op):
            i = _run(
                i, program.op, program.row, program.y, program.w, slab, out,
                self._labels, self._model, self._room, self._joint, self._watch,
                self.window + self._lag, self.drift_delta, self._classes,
            )  # fmt: skip
            if _is_due(at):
                self._turn()
            elif i < len(program.op):
                self._grow()

    def _grow(self) -> None:
        """Twice the room for labels, up to what a fit in hand can need."""
        labels = self._labels
        length = min(max(2 * len(labels.y), LEAST), self.window + self._lag)
        n = len(labels.y)
        assert labels.at[LEARNED] == n  # it is full for the first time, so label i lies in row i
        x, y, w = (np.zeros((length, *old.shape[1:])) for old in labels[:3])
        x[:n], y[:n], w[:n] = labels.x, labels.y, labels.w
        self._labels = LabelRing(x, y, w, labels.at, labels.totals)

    def _turn(self) -> None:
        """A fit has its place here, or begins here, or both."""
        at = self._labels.at
        if at[READY] and at[LEARNED] >= at[READY]:
            self._swap()
        if not at[READY] and at[LEARNED] >= at[NEXT]:
            known = int(at[LEARNED] - at[SINCE])
            step = min(self.refit_every, known)
            at[FIRST], at[END] = at[LEARNED] - min(self.window, known), at[LEARNED]
            at[READY], at[NEXT] = at[LEARNED] + min(self._lag, step), at[LEARNED] + step
            at[FITS] += 1
            self._fit = self._begin()
            if at[READY] == at[LEARNED]:
                self._swap()

    def _begin(self) -> "Future[FittedForest]":
        """Have the fit in hand made."""
        return PROCESSES.submit(self._job())

    def _job(self) -> Job:
        labels, at = self._labels, self._labels.at
        rows = np.arange(at[FIRST], at[END]) % len(labels.y)
        seed = seed_of(self.seed, int(at[FITS]))
        x, y, w = (column[rows] for column in labels[:3])
        return Job(self.name, self.schema.task, self.method, seed, x, y, w, self._nominal)

    def _swap(self) -> None:
        """The fit in hand becomes the model."""
        assert self._fit is not None
        at = self._labels.at
        if not self._fit.done():
            self.n_waits += 1
            if self._lag and self.n_waits.bit_count() == 1:  # the first, second, fourth, …
                log.info(  # in a backlog it is as it should be
                    "%s waits at label %d for the fit begun at label %d (%d waits so far): raise refit_every or lag, "
                    "or make it cheaper", self.name, at[LEARNED], at[END], self.n_waits,
                )  # fmt: skip
            begun = time.monotonic()
            wait([self._fit])
            self.wait_seconds += time.monotonic() - begun
        at[READY] = 0
        try:
            self._take(self._fit.result())
        except FitError as error:
            at[FAILED] += 1
            log.warning("%s keeps the model that it has, the fit at label %d failed: %s", self.name, at[END], error)
        self._fit = None

    def fit(self, x: Any, y: Any, w: Any = None) -> None:
        """Learn, and make a model of the newest labels there and then."""
        self.learn_many(x, y, w)
        at = self._labels.at
        known = int(at[LEARNED] - at[SINCE])
        if not known:
            return
        at[FIRST], at[END], at[READY] = at[LEARNED] - min(self.window, known), at[LEARNED], 0
        at[NEXT] = at[LEARNED] + min(self.refit_every, known)
        at[FITS] += 1
        self._fit = None
        self._take(fit(self._job()))

    def resize(self, schema: Schema) -> None:
        if self._classes:
            self._labels = self._labels._replace(totals=grown(self._labels.totals, schema.n_outputs))
        self.schema = schema
        self._joint = np.zeros(schema.n_outputs)

    def state(self) -> Any:
        return BatchState(*self._labels, *self._model, *self._watch.adwin, self._watch.scale)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._labels = copied(state, self._labels, "labels_")
        scale = np.array(state["errors_spread"], dtype=np.float64)
        if scale.shape == self._watch.scale.shape:  # otherwise older, on another scale: ADWIN begins anew
            self._watch = self._watch._replace(adwin=copied(state, self._watch.adwin, "errors_"), scale=scale)
        model = {field: np.array(state[f"model_{field}"], dtype=dtype, order="C") for field, dtype in FIELDS.items()}
        self._take(FittedForest(**model))
        self._fit = self._begin() if self._labels.at[READY] else None

    def describe(self) -> list[dict[str, Any]]:
        """The model, then each tree, root first. Trees: "share" is the weight in the vote, or "stage" (and "class") of
        boosting. The value of an inner node is the mean of its leaves' by the weight that came by."""
        from riparian.models.batch.description import described

        return described(self._model, self._labels.totals, self._classes, self.schema.n_outputs)

    def size(self) -> dict[str, int]:
        from riparian.models.batch.description import depth

        n_leaves = len(self._model.values)
        return {"n_nodes": len(self._model.column), "n_leaves": n_leaves, "depth": depth(self._model)}

    @property
    def n_rows(self) -> int:
        """Labels that the model was made of; 0 while there is none."""
        return int(self._model.kind[ROWS]) if self._model.kind[FITTED] else 0


@kernel
def _is_due(at):
    """Whether a fit has its place here, or begins."""
    if at[READY] > 0:
        return at[LEARNED] >= at[READY]
    return at[LEARNED] >= at[NEXT]


@kernel
def _watched(model, labels, watch, room, joint, x, r, y, delta, classes):
    """Take the model's error on a label into ADWIN, before it is learned; whether the errors have risen.

    An error is 0 or 1, of a regression the distance on a scale. Mutates watch, room, joint."""
    predict(model, x, r, labels.totals, room, classes, joint)
    adwin = watch.adwin
    if classes:
        watch.scaled[0] = 0.0 if np.argmax(joint) == y else 1.0
    else:
        watch.value[0] = abs(joint[0] - y)
        if not watch.value[0] < np.inf:
            return False
        if bring(watch.value, watch.scaled, 0, watch.scale, True) == 0:
            forget(*adwin)
            bring(watch.value, watch.scaled, 0, watch.scale, True)
    before = adwin.sums[TOTAL] / max(1, adwin.counts[WIDTH])
    adwin_update(
        watch.scaled, watch.level, delta, CLOCK, MIN_SIDE,
        adwin.counts, adwin.sums, adwin.filled, adwin.totals, adwin.spreads,
    )  # fmt: skip
    return watch.level[0] == DRIFT and adwin.sums[TOTAL] / adwin.counts[WIDTH] > before


@kernel(allocates=True)
def _run(i, op, row, y, w, slab, out, labels, model, room, joint, watch, most, delta, classes):
    """Execute a program from operation i on; where it stopped: after a label at which `_is_due`, or before one that
    there is no room for. most : labels in the ring at most. Mutates out, labels, room, joint, watch. O(d) a label, or
    O(trees depth) where errors are watched."""
    at = labels.at
    while i < len(op):
        r = row[i]
        if op[i] == PREDICT:
            predict(model, slab, r, labels.totals, room, classes, out[r])
            i += 1
            continue
        label, weight = y[i], w[i]
        if classes:
            valid = label >= 0.0 and label < len(labels.totals) and label == np.floor(label)
        else:
            valid = np.isfinite(label)
        if not (valid and weight > 0.0 and weight < np.inf):
            i += 1
            continue
        learned, length = at[LEARNED], len(labels.y)
        if learned >= length and length < most:
            return i
        rose = False
        if delta > 0.0 and model.kind[FITTED] == 1:
            rose = _watched(model, labels, watch, room, joint, slab, r, label, delta, classes)
        place = learned % length
        labels.x[place] = slab[r]
        labels.y[place] = label
        labels.w[place] = weight
        if classes:
            labels.totals[np.int64(label)] += weight
        else:
            labels.totals[0] += weight
            labels.totals[1] += weight * label
        at[LEARNED] += 1
        if rose:
            at[DRIFTS] += 1
            at[SINCE] = max(at[SINCE], at[LEARNED] - max(watch.adwin.counts[WIDTH], LEAST))
            at[NEXT] = min(at[NEXT], at[LEARNED])
        i += 1
        if _is_due(at):
            return i
    return i
