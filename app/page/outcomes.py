"""The last predictions of a stream and what came of them, in bounded memory: which were alerts, which were right, which
frauds were missed. Pure: records go in (app/page/tail.py), rows come out, for *Alerts*, *Quality* and *Keys*.
"""

import math
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from riparian.app.state.audit.finding import ModelPrediction
from riparian.app.stream_file.spec import Spec
from riparian.models.evaluation.costs import MOST as MOST_COST
from riparian.models.evaluation.costs import OTHERWISE
from riparian.topics.records import ANOMALY, REGRESSION, Text, Whole
from riparian.topics.vocabulary import canonical

MOST = 100_000  # predictions of a stream, all partitions together
MOST_ALERTS = 2_000  # of these, alerts that are kept whole
MOST_EARLY = 20_000  # labels that came before their predictions were read
MOST_CLASSES = 1_000
BEHIND_MS = 600_000  # by which labels are older than their predictions where records of the past are predicted
NONE, OTHERS = -1, -2  # codes: nothing was named; a class beyond MOST_CLASSES
WAITING, RIGHT, WRONG, NO_LABEL = "waiting", "right", "wrong", "no label"  # what came of an alert
NEWEST = "newest"  # all predictions, alerts or not
MISSED, PASSED = "missed", "passed"  # and of what was none
ROW = np.dtype(
    [
        ("time", "i8"), ("partition", "i4"), ("position", "i8"), ("index", "i4"), ("y", "f8"), ("score", "f8"),
        ("sure", "f8"), ("alert", "?"), ("label", "f8"), ("label_time", "i8"),
    ]
)  # fmt: skip
Rows = Any  # an array of ROW; typed as an array, each of its operators makes mypy try all that NumPy overloads


class KeptPrediction(ModelPrediction, kw_only=True):
    """A prediction, as far as the page keeps it. Anybody may have written it."""

    id: Text
    offset: Whole
    index: Whole | None = None
    reasons: dict[Text, float] | None = None
    features: dict[Text, Any] | None = None


class KeptAlert(NamedTuple):
    """reasons : what features added. features : those over the past of keys. source : offset of the feature record, and
    which instance of it."""

    reasons: Mapping[str, float] | None
    features: Mapping[str, Any] | None
    source: tuple[int, int]


def alert_class(spec: Spec) -> str | None:
    """The class whose naming is an alert: that of `decision`, or with costs the one whose mistakes cost most: an
    amount more than a number, and of several the first. Of anomalies "1", as their labels have it. None where nothing
    is decided."""
    if spec.decision is None:
        return None
    if spec.task == ANOMALY:
        return "1"
    if spec.decision.costs is None:
        return spec.decision.class_
    costs = {
        true: [MOST_COST if isinstance(cost, str) else cost for cost in row.values()]
        for true, row in spec.decision.costs.items()
    }
    return max(costs, key=lambda true: max(costs[true], default=0.0), default=None)


def prices(spec: Spec, classes: Sequence[str]) -> tuple[float, float] | None:
    """What a missed one and a false alert cost, where `decision.costs` says it and there are two classes; a mistake
    that it does not name costs 1. None where an amount is a cost, which stands in records. classes : canonical
    texts."""
    about, given = alert_class(spec), spec.prices
    if given is None or about is None or about not in classes or len(classes) != 2:
        return None
    other = next(text for text in classes if text != about)
    missed, false = given.get(about, {}).get(other, OTHERWISE), given.get(other, {}).get(about, OTHERWISE)
    return None if isinstance(missed, str) or isinstance(false, str) else (missed, false)


def meaning(spec: Spec) -> tuple[Any, ...]:
    """What rows follow from: where it changes in the stream file, they are made anew."""
    return spec.decision, spec.join.unlabelled, spec.label, spec.classes


class Outcomes:
    """A ring of the last predictions, and their labels as they come. It may be asked in one thread while another one
    tells it.

    Parameters
    ----------
    spec : Spec
        Of the stream.
    most : int
        Predictions that are kept.

    Attributes
    ----------
    classes : list of str
        Canonical texts of the classes, by their codes; of anomalies "0" and "1".
    about : str, optional
        `alert_class`.
    n : int
        Predictions that were taken, n_labels likewise.
    kept : dict
        Number of a prediction -> KeptAlert, of the last alerts.

    Examples
    --------
    >>> outcomes.take(0, 17, 0, 1_700_000_000_000, {"id": "7", "y": "fraud", "p": {"fraud": 0.4}, "offset": 17})
    >>> outcomes.label(0, "7", "fraud", 1_700_000_360_000)
    >>> outcomes.counts()["right"]
    1
    """

    def __init__(self, spec: Spec, most: int = MOST) -> None:
        self.spec, self.most = spec, most
        self.classes: list[str] = ["0", "1"] if spec.task == ANOMALY else []
        self._codes = {text: code for code, text in enumerate(self.classes)}
        self.about = alert_class(spec)
        if self.about is not None:
            self.code(self.about)
        self.n = self.n_labels = 0
        self.kept: OrderedDict[int, KeptAlert] = OrderedDict()
        self._rows: Rows = np.zeros(most, ROW)
        self._ids: list[str] = [""] * most
        self._lock = threading.RLock()
        self._of: dict[tuple[int, str], int] = {}  # `_key` of partition and id -> number of the newest prediction
        self._early: OrderedDict[tuple[int, str], tuple[float, int]] = OrderedDict()
        self._updates: OrderedDict[tuple[tuple[int, str], int], None] = OrderedDict()  # and offset of the record
        self._clock: dict[int, int] = {}  # partition -> ms of its newest prediction
        unlabelled = spec.join.unlabelled
        self.matures = None if unlabelled is None else int(1000 * unlabelled.after)
        self.assumed = None if unlabelled is None or unlabelled.is_ is None else self.code(canonical(unlabelled.is_))

    def _key(self, partition: int, id_: str) -> tuple[int, str]:
        return 0 if self.spec.labels_everywhere else partition, id_  # then an id is of the stream

    def code(self, text: str) -> float:
        """The code of a class, which it gets when it is seen first."""
        if text not in self._codes:
            if len(self.classes) >= MOST_CLASSES:
                return OTHERS
            self._codes[text] = len(self.classes)
            self.classes.append(text)
        return self._codes[text]

    def _value(self, y: Any) -> float:
        """A class as its code, or a value."""
        if y is None:
            return math.nan
        if self.spec.task == REGRESSION or self.spec.task == ANOMALY:
            return float(y) if isinstance(y, int | float) else math.nan
        return self.code(canonical(y))

    # -- records in --------------------------------------------------------------------------------------------

    def take(self, partition: int, position: int, index: int, time: int, made: Mapping[str, Any]) -> None:
        """A prediction. position, index : of its record in the predictions topic, and which one of that. time : ms, of
        the record. made : its fields, as `Codec.read_prediction` gives them; left out where they are none."""
        try:
            said = msgspec.convert(made, KeptPrediction)
        except ValueError:
            return
        y, score, sure, alert = self._value(said.y), math.nan, math.nan, False
        if self.spec.task == ANOMALY:
            score, alert = y, said.alert is True
        elif isinstance(said.p, dict):
            if said.p and self.about is not None:
                score = float(said.p.get(self.about) or 0.0)
            sure = max((value for value in said.p.values() if value is not None), default=math.nan)
            if said.y is not None:
                sure = float(said.p.get(canonical(said.y)) or 0.0)
        if self.spec.task != ANOMALY and self.about is not None and said.y is not None:
            alert = canonical(said.y) == self.about
        with self._lock:
            key, at = self._key(partition, said.id), self.n % self.most
            label, label_time = self._early.pop(key, (math.nan, 0))
            again = self._waits(key, time) or (key, said.offset) in self._updates
            if again:  # an earlier prediction is the one that a label scores
                label_time = time
            if self.n >= self.most:
                old = self._key(int(self._rows[at]["partition"]), self._ids[at])
                if self._of.get(old) == self.n - self.most:
                    del self._of[old]
                self.kept.pop(self.n - self.most, None)
            self._clock[partition] = max(time, self._clock.get(partition, 0))
            self._rows[at] = time, partition, position, index, y, score, sure, alert, label, label_time
            self._ids[at] = said.id
            if not again:
                self._of[key] = self.n
            if alert:
                self.kept[self.n] = KeptAlert(said.reasons, said.features, (said.offset, said.index or 0))
                if len(self.kept) > MOST_ALERTS:
                    self.kept.popitem(last=False)
            self.n += 1

    def _waits(self, key: tuple[int, str], now: int) -> bool:
        """Whether a prediction is kept whose label has not come, and still may."""
        number = self._of.get(key)
        if number is None:
            return False
        row = self._rows[number % self.most]
        return not row["label_time"] and now - row["time"] <= 1000 * self.spec.join.horizon

    def label(self, partition: int, id_: str, y: Any, time: int, source: int | None = None) -> None:
        """A label. y : by name, or a number; None of one that says that none will come. source : offset of the feature
        record inside which it came. The first one counts, unless `label.on_repeat` is "correct"."""
        with self._lock:
            self.n_labels += 1
            key, value = self._key(partition, id_), self._value(y)
            number = self._of.get(key)
            own = source is not None and not self.spec.remembers  # where none waits, it is that of its own record
            if number is None or (own and not self._waits(key, time)):
                self._early[key] = value, time
                if len(self._early) > MOST_EARLY:
                    self._early.popitem(last=False)
                return
            if source is not None:
                self._updates[key, source] = None
                if len(self._updates) > MOST_EARLY:
                    self._updates.popitem(last=False)
            row = self._rows[number % self.most : number % self.most + 1]
            if not row["label_time"][0] or self.spec.label.on_repeat == "correct":
                row["label"], row["label_time"] = value, time

    # -- rows out ----------------------------------------------------------------------------------------------

    def rows(self, partition: int | None = None) -> tuple[NDArray[np.int64], Rows]:
        """Numbers and rows of what is kept, the oldest first; of one partition or all. `label` is what counts: an
        instance whose label did not come in time has the class as which it is learned."""
        with self._lock:
            numbers = np.arange(max(0, self.n - self.most), self.n)
            rows = self._rows[numbers % self.most]
        if partition is not None:
            kept = rows["partition"] == partition
            numbers, rows = numbers[kept], rows[kept]
        if self.assumed is not None:
            rows["label"] = np.where(self.matured(rows) & (rows["label_time"] == 0), self.assumed, rows["label"])
        return numbers, rows

    def n_alerts(self, partition: int | None = None) -> int:
        """Alerts among what is kept, of one partition or all."""
        with self._lock:
            rows = self._rows[: min(self.n, self.most)]
            return int(np.sum(rows["alert"] & (True if partition is None else rows["partition"] == partition)))

    def is_behind(self) -> bool:
        """Whether `join.unlabelled` waits longer here than in the stream: a prediction is stamped when it was sent, its
        label with the time of the record, which is long past in a replay or a backlog."""
        with self._lock:
            rows = self._rows[: min(self.n, self.most)]
            late = (rows["label_time"] > 0) & (rows["label_time"] < rows["time"] - BEHIND_MS)
            return self.matures is not None and bool(late.any())

    def matured(self, rows: Rows) -> NDArray[np.bool_]:
        """Of which it is known what came of them: those for which `join.unlabelled` waits no more. Without that, all
        that have a label."""
        if self.matures is None:
            return np.asarray(~np.isnan(rows["label"]))
        with self._lock:
            clocks = np.zeros(max([-1, *self._clock]) + 1, np.int64)
            for partition, clock in self._clock.items():
                clocks[partition] = clock
        return np.asarray(rows["time"] + self.matures <= clocks[rows["partition"]])

    def outcome(self, rows: Rows) -> NDArray[Any]:
        """(n,) what came of each of `rows` (their `label` as `rows()` gives it), by the words above."""
        own = math.nan if self.about is None else self._codes[self.about]
        known, is_own = ~np.isnan(rows["label"]), rows["label"] == own
        never = self.spec.task == ANOMALY and not self.spec.has_labels
        null = ~known & (never | (rows["label_time"] > 0))
        found = np.where(null, NO_LABEL, np.full(len(rows), WAITING))
        found = np.where(known & rows["alert"], np.where(is_own, RIGHT, WRONG), found)
        found = np.where(known & ~rows["alert"], np.where(is_own, MISSED, PASSED), found)
        return np.asarray(found)

    def shown(self, number: int, row: Any, outcome: str) -> dict[str, Any]:
        """A prediction for the browser."""
        score, kept = None if math.isnan(row["score"]) else float(row["score"]), self.kept.get(number)
        found: dict[str, Any] = {
            "id": self._ids[number % self.most],
            "partition": int(row["partition"]),
            "position": int(row["position"]),
            "index": int(row["index"]),
            "time": int(row["time"]),
            "y": score if self.spec.task == ANOMALY else self._text(row["y"]),
            "score": score,
            "alert": bool(row["alert"]),
            "outcome": outcome,
            "label": self._text(row["label"]),
            "label_time": int(row["label_time"]) or None,
            "reasons": None if kept is None else kept.reasons,
            "features": None if kept is None else kept.features,
            "source": None if kept is None else kept.source,
        }
        if outcome == WAITING and self.matures is not None and self.assumed is not None:
            found |= {"due": found["time"] + self.matures, "assumed": self._text(self.assumed)}
        return found

    def _text(self, value: float) -> Any:
        if math.isnan(value):
            return None
        if self.spec.task == REGRESSION:
            return float(value)
        return self.classes[int(value)] if 0 <= value < len(self.classes) else None

    def of_id(self, partition: int, id_: str) -> dict[str, Any] | None:
        """The newest prediction of an id; None where it is not kept."""
        with self._lock:
            numbers, rows = self.rows(partition)
            at = np.flatnonzero(numbers == self._of.get(self._key(partition, id_)))
            return self._one(numbers, rows, at)

    def at(self, partition: int, position: int, index: int) -> dict[str, Any] | None:
        """The prediction of a record; None where it is not kept."""
        with self._lock:
            numbers, rows = self.rows(partition)
            return self._one(numbers, rows, np.flatnonzero((rows["position"] == position) & (rows["index"] == index)))

    def _one(self, numbers: NDArray[np.int64], rows: Rows, at: NDArray[np.int64]) -> dict[str, Any] | None:
        """The last of the rows at some places, for the browser."""
        if not len(at):
            return None
        i = int(at[-1])
        return self.shown(int(numbers[i]), rows[i], str(self.outcome(rows[i : i + 1])[0]))

    def alerts(self, only: str | None, partition: int | None, most: int) -> dict[str, Any]:
        """The last alerts, the newest first, or what was missed; and how many there are of each.

        only : one of RIGHT, WRONG, WAITING, MISSED, NEWEST, or None for all alerts.
        """
        with self._lock:
            numbers, rows = self.rows(partition)
            outcome = self.outcome(rows)
            kinds = (RIGHT, WRONG, WAITING, NO_LABEL)
            counts = {kind: int(np.sum(rows["alert"] & (outcome == kind))) for kind in kinds}
            counts |= {
                "alerts": int(rows["alert"].sum()),
                MISSED: int(np.sum(outcome == MISSED)),
                "predictions": len(rows),
            }
            wanted = rows["alert"] if only is None else (outcome == only) | (only == NEWEST)
            if only not in (None, MISSED, NEWEST):
                wanted &= rows["alert"]
            found = np.flatnonzero(wanted)
            order = rows["label_time" if only == MISSED else "time"][found]
            found = found[np.argsort(order, kind="stable")][::-1][:most]
            return {
                "rows": [self.shown(int(numbers[i]), rows[i], str(outcome[i])) for i in found],
                "counts": counts,
                "since": int(rows["time"].min()) if len(rows) else None,
            }
