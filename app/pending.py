"""The pending store: instances that wait for their labels, and labels that wait for their features.

Waiting instances live in a slab, rows of one array, with the predictions that were made for them beside the row.
`join` turns the merged order of a batch into a program over rows: predict row r, learn row r with label y.

What happens when (each is counted):

- A label finds its instance waiting: the instance is learned and leaves. *joined*
- A label comes before its features: it waits too; the features, when they come, are predicted and then learned.
  Of several labels for one id, the first waits, the others are dropped. *repeated_labels*
- An id comes again while it waits: the repeat is predicted (every record gets a prediction), and the first stays
  waiting for the label. *repeated_ids*
- An instance waits longer than the horizon, in stream time: it leaves unlearned. *expired*
- More than `max_pending` instances wait: the oldest leaves unlearned. *evicted*
- A label waits longer than the horizon, or is pushed out by `max_labels`: *unmatched*. A label whose instance has
  been learned already, or has left, ends here as well.

Stream time is the largest effective timestamp seen so far, so everything above depends on the order of the records
alone, never on the clock or on how they were cut into batches.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.contract import LEARN, PREDICT, Floats, Program

NO_LABEL = (np.nan, 0)
COUNTERS = ("joined", "expired", "evicted", "unmatched", "repeated_ids", "repeated_labels")


class Joined(NamedTuple):
    """A program, and what the caller needs to report about it.

    predicted : (n_f,) int32, the row of each feature record. waited : (m,) float64, for each LEARN the seconds between
    features and label in stream time (0 where the label came first or inside the record).
    """

    program: Program
    predicted: NDArray[np.int32]
    waited: Floats


class PendingCut(NamedTuple):
    """What a checkpoint writes. arrays : new or changed. kept : names of earlier ones that are as they were."""

    arrays: dict[str, NDArray[Any]]
    kept: list[str]


class PendingStore:
    """Waiting instances and waiting labels of one partition.

    Parameters
    ----------
    n_features : int
    outputs : dict of str to int
        Width of the prediction of each model.
    horizon : float
        Seconds that an instance or a label may wait, in stream time.
    max_pending, max_labels : int
        Bounds on waiting instances and labels.
    """

    def __init__(
        self, n_features: int, outputs: dict[str, int], *, horizon: float, max_pending: int, max_labels: int
    ) -> None:
        self.horizon_ms = int(horizon * 1000)
        self.max_pending = max_pending
        self.max_labels = max_labels
        self.slab = np.zeros((0, n_features))
        self.out = {name: np.zeros((0, width)) for name, width in outputs.items()}
        self.clock = 0  # stream time, ms
        self.counts = dict.fromkeys(COUNTERS, 0)
        self._arrived: list[int] = []  # stream time by row
        self._rows: OrderedDict[str, int] = OrderedDict()  # waiting id -> row, oldest first
        self._early: OrderedDict[str, tuple[float, int]] = OrderedDict()  # waiting label: id -> (y, stream time)
        self._free: list[int] = []
        self._freed: list[int] = []  # rows that the current program still uses

    @property
    def n_waiting(self) -> int:
        return len(self._rows)

    @property
    def n_labels_waiting(self) -> int:
        return len(self._early)

    @property
    def n_bytes(self) -> int:
        """Bytes of the arrays (the ids and their index come on top)."""
        return self.slab.nbytes + sum(out.nbytes for out in self.out.values())

    def resize(self, outputs: dict[str, int]) -> None:
        """Widen the predictions; what stands there stays."""
        for name, width in outputs.items():
            old = self.out[name]
            if width > old.shape[1]:
                self.out[name] = np.zeros((len(old), width))
                self.out[name][:, : old.shape[1]] = old

    def _take(self, n: int) -> list[int]:
        """n free rows, ascending where they are fresh; the slab grows by doubling."""
        if len(self._free) < n:
            old = len(self.slab)
            new = max(2 * old, old + n, 1024)
            self.slab = _grown(self.slab, new)
            self.out = {name: _grown(out, new) for name, out in self.out.items()}
            self._arrived.extend([0] * (new - old))
            self._free = list(range(new - 1, old - 1, -1)) + self._free
        rows = self._free[len(self._free) - n :]
        del self._free[len(self._free) - n :]
        rows.reverse()
        return rows

    def join(
        self,
        ids: list[str],
        x: Floats,
        times: list[int],
        inline: list[float] | None,
        label_ids: list[str],
        label_y: list[float],
        label_times: list[int],
        labels_before: NDArray[np.int64],
    ) -> Joined:
        """Put a batch into the store, in its merged order, and return the program to run.

        The rows of the program stay valid until `release`.

        Parameters
        ----------
        ids, x, times : features in order; x : (n, d) float64; times in effective ms.
        inline : labels that came inside the feature records (NaN where none), or None.
        label_ids, label_y, label_times : labels in order.
        labels_before : (n,) int64, for each feature how many of the labels come before it.
        """
        n = len(ids)
        taken = self._take(n)
        predicted = np.array(taken, dtype=np.int32)
        self.slab[predicted] = x
        rows, early, arrived, freed, counts = self._rows, self._early, self._arrived, self._freed, self.counts
        ops: list[int] = []  # the row of a PREDICT, ~row of a LEARN
        ys: list[float] = []
        waited: list[int] = []
        clock = self.clock
        n_joined = 0
        # The instance that has waited longest decides when the next check is due. It may have left since: the check
        # then finds the new oldest one. So a joined label costs no bookkeeping here.
        deadline = self._deadline()
        for event in _merged(n, len(label_ids), labels_before):
            if event >= 0:
                now, row, id_ = times[event], taken[event], ids[event]
                if now > clock:
                    clock = now
                if clock > deadline:
                    deadline = self._expire(clock)
                ops.append(row)
                arrived[row] = clock
                y = inline[event] if inline is not None else np.nan
                if y != y and early:
                    y, _ = early.pop(id_, NO_LABEL)
                if y == y:
                    ops.append(~row)
                    ys.append(y)
                    waited.append(0)
                    freed.append(row)
                    n_joined += 1
                elif id_ in rows:
                    freed.append(row)
                    counts["repeated_ids"] += 1
                else:
                    while len(rows) >= self.max_pending:  # more than one where the bound was lowered
                        freed.append(rows.popitem(last=False)[1])
                        counts["evicted"] += 1
                    rows[id_] = row
            else:
                now, id_ = label_times[~event], label_ids[~event]
                if now > clock:
                    clock = now
                if clock > deadline:
                    deadline = self._expire(clock)
                waiting = rows.pop(id_, None)
                if waiting is not None:
                    ops.append(~waiting)
                    ys.append(label_y[~event])
                    waited.append(clock - arrived[waiting])
                    freed.append(waiting)
                    n_joined += 1
                elif id_ in early:
                    counts["repeated_labels"] += 1
                else:
                    while len(early) >= self.max_labels:
                        early.popitem(last=False)
                        counts["unmatched"] += 1
                    early[id_] = (label_y[~event], clock)
        self.clock = clock
        counts["joined"] += n_joined
        return Joined(_program(ops, ys), predicted, np.array(waited, dtype=np.float64) / 1000.0)

    def release(self) -> None:
        """Give back the rows that the last program was the last to use."""
        self._free.extend(self._freed)
        self._freed.clear()

    def _deadline(self) -> int:
        """Stream time up to which nothing can expire."""
        oldest = self.clock
        if self._rows:
            oldest = min(oldest, self._arrived[next(iter(self._rows.values()))])
        if self._early:
            oldest = min(oldest, next(iter(self._early.values()))[1])
        return oldest + self.horizon_ms

    def _expire(self, clock: int) -> int:
        """Drop what has waited longer than the horizon at stream time `clock`; the next deadline."""
        self.clock = clock
        limit = clock - self.horizon_ms
        rows, early = self._rows, self._early
        while rows:
            id_, row = next(iter(rows.items()))
            if self._arrived[row] >= limit:
                break
            del rows[id_]
            self._freed.append(row)
            self.counts["expired"] += 1
        while early:
            id_, (_, since) = next(iter(early.items()))
            if since >= limit:
                break
            del early[id_]
            self.counts["unmatched"] += 1
        return self._deadline()

    def state(self) -> dict[str, NDArray[Any]]:
        """Copies of everything that waits, in order of arrival: independent of rows and of batch cuts."""
        rows = np.fromiter(self._rows.values(), dtype=np.int64, count=len(self._rows))
        arrays: dict[str, NDArray[Any]] = {
            "x": self.slab[rows],
            "arrived": np.array([self._arrived[row] for row in rows.tolist()], dtype=np.int64),
            "clock": np.array([self.clock], dtype=np.int64),
            "counts": np.array([self.counts[name] for name in COUNTERS], dtype=np.int64),
            "label_y": np.array([y for y, _ in self._early.values()], dtype=np.float64),
            "label_since": np.array([since for _, since in self._early.values()], dtype=np.int64),
        }
        arrays["ids"], arrays["id_ends"] = _pack(list(self._rows))
        arrays["label_ids"], arrays["label_id_ends"] = _pack(list(self._early))
        for name, out in self.out.items():
            arrays[f"out/{name}"] = out[rows]
        return arrays

    def cut(self) -> PendingCut:
        return PendingCut(self.state(), [])

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over copies of what `state` gave, into an empty store."""
        ids = _unpack(arrays["ids"], arrays["id_ends"])
        self.clock = int(arrays["clock"][0])
        self.counts = dict(zip(COUNTERS, (int(count) for count in arrays["counts"]), strict=True))
        rows = self._take(len(ids))
        index = np.array(rows, dtype=np.int64)
        self.slab[index] = arrays["x"]
        for row, since in zip(rows, arrays["arrived"].tolist(), strict=True):
            self._arrived[row] = since
        for name, out in self.out.items():
            saved = arrays[f"out/{name}"]
            out[index, : saved.shape[1]] = saved
        self._rows = OrderedDict(zip(ids, rows, strict=True))
        waiting = zip(arrays["label_y"].tolist(), arrays["label_since"].tolist(), strict=True)
        label_ids = _unpack(arrays["label_ids"], arrays["label_id_ends"])
        self._early = OrderedDict(zip(label_ids, waiting, strict=True))


def _grown(array: NDArray[Any], n: int) -> NDArray[Any]:
    grown = np.zeros((n, *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown


def _merged(n: int, m: int, labels_before: NDArray[np.int64]) -> list[int]:
    """The merged order: i for feature i, ~j for label j."""
    order = np.empty(n + m, dtype=np.int64)
    is_label = np.ones(n + m, dtype=bool)
    position = np.arange(n) + labels_before
    is_label[position] = False
    order[position] = np.arange(n)
    order[is_label] = ~np.arange(m)
    merged: list[int] = order.tolist()
    return merged


def _program(ops: list[int], ys: list[float]) -> Program:
    rows = np.array(ops, dtype=np.int32)
    learn = rows < 0
    y = np.full(len(ops), np.nan)
    y[learn] = ys
    op = np.where(learn, np.int8(LEARN), np.int8(PREDICT))
    return Program(op, np.where(learn, ~rows, rows), y, np.ones(len(ops)))


def _pack(ids: list[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Strings as one array of UTF-8 bytes and the end of each."""
    encoded = [id_.encode("utf-8", "surrogatepass") for id_ in ids]
    ends = np.cumsum(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)), dtype=np.int64)
    return np.frombuffer(b"".join(encoded), dtype=np.uint8).copy(), ends


def _unpack(data: NDArray[np.uint8], ends: NDArray[np.int64]) -> list[str]:
    raw, start, ids = data.tobytes(), 0, []
    for end in ends.tolist():
        ids.append(raw[start:end].decode("utf-8", "surrogatepass"))
        start = end
    return ids
