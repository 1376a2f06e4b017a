"""A partition's side of the models that all partitions of a stream learn (`learning: shared`). Pure.

What a partition joins with labels goes to one log, `NAME.learned`, which the models of all partitions learn in its
order (`SharedLineup`): at one place of it they are equal to the bit. The log is an input log like any other:
predictions name its next place, and a record takes effect right before the next instance.

Codes of values and classes go by first sight, which differs between partitions. An instance is predicted with the codes
of the models; a value that no model has seen is missing to it.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.join.pending import PendingStore, renamed
from riparian.app.partition.keys.plan import bounds_of
from riparian.app.partition.outcome import Joint, stacked
from riparian.app.partition.predictions.decision_policy import decided_name
from riparian.app.partition.predictions.serving import Serving
from riparian.app.partition.shared.shared_lineup import SharedLineup, opened, places_of, terms_of
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import LEARN, Floats, Program
from riparian.topics.training_log import MOST_ROWS, VERSION, LearnedKeys, LearnedRecord
from riparian.topics.vocabulary import Scalar, Vocabulary, canonical

AT = ".learned"  # in the pending store, beside each instance; no model is called so
MOST_STEP, LEAST_STEP = 8192, 256  # records of one log that are taken at once, where the stream file says nothing
MOST_BYTES = 500_000  # of a record, if it is not a single instance

Own = tuple[list[Vocabulary | None], Vocabulary | None]


class Sharing:
    """What a partition needs besides models and pending store.

    Parameters
    ----------
    spec : Spec
    partition : int
    pending : PendingStore
    own : the values and classes by which records are decoded
    lineup : SharedLineup

    Attributes
    ----------
    lineup : SharedLineup
        The models, which may be beyond the place of the partition. Another one takes its place where it joins that.
    vocabularies, classes : the models' own, as they were at the place of the partition
    """

    def __init__(self, spec: Spec, partition: int, pending: PendingStore, own: Own, lineup: SharedLineup) -> None:
        self.own, self.lineup = own, lineup
        self.vocabularies, self.classes = list(map(opened, spec.vocabularies())), opened(spec.class_vocabulary())
        self._terms, self._bounds = terms_of(spec), bounds_of(spec)
        self._partition, self._pending = partition, pending
        self._max_behind = spec.learning.max_behind
        pending.keep([AT], 2)
        self.names = [AT]  # of arrays in the pending store
        self.count_width()

    def follow(self) -> None:
        """The partition comes to the place of the models: know what they know."""
        theirs = (*self.lineup.vocabularies, self.lineup.classes)
        for known, other in zip((*self.vocabularies, self.classes), theirs, strict=True):
            if known is not None and other is not None and len(other) > len(known):
                known.limit = max(known.limit, len(other))
                for value in other.values[len(known) :]:
                    known.code(value)

    def count_width(self) -> None:
        """Let what waits be counted by the classes that came here: the models' depend on other partitions."""
        classes = self.own[1]
        self._pending.counted_width = 1 if classes is None else max(2, classes.capacity)

    # -- predicting --------------------------------------------------------------------------------------------

    def translated(self, x: Floats) -> Floats:
        """(n, d) rows with the models' codes."""
        found: Floats = np.array(x)
        for j, (mine, models) in enumerate(zip(self.own[0], self.vocabularies, strict=True)):
            if mine is None or models is None or mine.texts == models.texts:
                continue
            table = np.array([models.codes.get(text, np.nan) for text in mine.texts])
            there = np.flatnonzero(~np.isnan(found[:, j]))
            found[there, j] = table[found[there, j].astype(np.int64)]
        return found

    def predicted(self, rows: NDArray[np.int32]) -> None:
        """Note by which version of the models these rows were predicted."""
        self._pending.out[AT][rows] = self.lineup.rows.next_arrival, 0 if self.classes is None else len(self.classes)

    def scored(self, program: Program) -> Program:
        """The program with the models' codes of classes. A class that the model had never seen when it predicted counts
        nothing."""
        known = self.own[1]
        if known is None or self.classes is None:
            return program
        op, row, y, w = program
        at = (op == LEARN).nonzero()[0]
        if not len(at):
            return program
        codes = np.array([self.classes.codes.get(text, np.inf) for text in known.texts])
        code = codes[y[at].astype(np.int64)]
        new = ~(code < self._pending.out[AT][row[at], 1])
        y, w = y.copy(), w.copy()
        y[at], w[at] = np.where(new, 0.0, code), np.where(new, 0.0, w[at])
        return Program(op, row, y, w)

    # -- what was joined ---------------------------------------------------------------------------------------

    def joint(self, program: Program, servings: Sequence[Serving]) -> Joint | None:
        """The instances that a program of the pending store learns, for the log; None where there are none."""
        learns = (program.op == LEARN).nonzero()[0]
        rows, n = program.row[learns], len(learns)
        if not n:
            return None
        x, y = np.array(self._pending.slab[rows]), program.y[learns].copy()  # type: ignore[index]
        known, classes = self.own
        values: list[list[Scalar] | None] = []
        for j, vocabulary in enumerate(known):
            values.append(None if vocabulary is None else _listed(x[:, j], vocabulary))
        listed = None if classes is None else _listed(y, classes)
        at = self._pending.out[AT][rows, 0].astype(np.int64)
        out, keys = dict[str, Floats](), {one.name: one.key for one in servings}
        for one in servings:
            for name in (one.name, *one.kept_names, decided_name(one.name)):
                if name in self._pending.out:
                    out[renamed(name, keys)] = self._pending.out[name][rows]
        keyed = self._pending.past[rows] if self._bounds else None
        first = self._pending.counts["joined"] - n
        return Joint(first, x, y, at, values, listed, out, self._terms, keyed, self._bounds)

    # -- how far the models have come --------------------------------------------------------------------------

    @property
    def step(self) -> int:
        """How many records of one log may be taken at once: a third of the bound that the stream file gives. Else a
        hundredth of what the models know, so that a backlog is not predicted by models that know nothing, and is not
        taken in small steps for ever."""
        if self._max_behind is not None:
            return min(MOST_STEP, self._max_behind // 3)
        return min(MOST_STEP, max(LEAST_STEP, self.lineup.n // 100))

    @property
    def lags(self) -> bool:
        """Whether the next step may predict while `behind` exceeds the bound: each of its features and of its labels
        may join an instance."""
        most = 3 * self.step if self._max_behind is None else self._max_behind
        return self.behind > most - 2 * self.step

    @property
    def joined(self) -> int:
        """Instances that this partition has joined with their labels."""
        return self._pending.counts["joined"]

    @property
    def learned(self) -> int:
        """How many of these the models have learned."""
        return self.lineup.numbers.get(self._partition, 0)

    @property
    def behind(self) -> int:
        """Instances that this partition has joined and the models have not learned yet."""
        return self.joined - self.learned


def together(joined: Sequence[Joint]) -> list[Joint]:
    """Consecutive instances as one piece, or several where other models predicted: their values are listed once."""
    return [_together(list(same)) for _, same in groupby(joined, key=lambda one: tuple(one.out))]


def _together(joined: Sequence[Joint]) -> Joint:
    if len(joined) < 2:
        return joined[0]
    first = joined[0]
    x, y = np.concatenate([one.x for one in joined]), np.concatenate([one.y for one in joined])
    ends = np.cumsum([0, *(len(one.y) for one in joined)]).tolist()
    values: list[list[Scalar] | None] = [None if known is None else [] for known in first.values]
    classes: list[Scalar] | None = None if first.classes is None else []
    numbers: list[dict[str, int]] = [{} for _ in (*values, classes)]  # 1 and true are two values
    for one, start, stop in zip(joined, ends, ends[1:], strict=False):
        columns = [*(x[start:stop, j] for j in range(x.shape[1])), y[start:stop]]
        listings = zip(columns, (*one.values, one.classes), (*values, classes), numbers, strict=True)
        for column, listed, whole, number in listings:
            if listed is None or whole is None:
                continue
            for value in listed:
                if number.setdefault(canonical(value), len(whole)) == len(whole):
                    whole.append(value)
            column[:] = np.array([*(float(number[canonical(value)]) for value in listed), np.nan])[
                places_of(column, len(listed))
            ]
    out = {name: stacked([one.out[name] for one in joined]) for name in first.out}
    at = np.concatenate([one.at for one in joined])
    keys = None if first.keys is None else np.concatenate([one.keys for one in joined])  # type: ignore[misc]
    return Joint(first.first, x, y, at, values, classes, out, first.terms, keys, first.bounds)


def records(joint: Joint, partition: int, places: Mapping[str, int], time: int, start: int = 0) -> list[LearnedRecord]:
    """The records of the log for what was joined, from number `start` on.

    places, time : the partition's, after all that was joined.
    """
    found = []
    width = joint.x.shape[1] + 2 + sum(column.shape[1] for column in joint.out.values())
    width += 0 if joint.keys is None else joint.keys.shape[1]
    most = max(1, min(MOST_ROWS, MOST_BYTES // (8 * width)))
    for i in range(max(0, start - joint.first), len(joint.y), most):
        part = slice(i, min(i + most, len(joint.y)))
        out = {n: (one.shape[1], np.ascontiguousarray(one[part]).tobytes()) for n, one in joint.out.items()}
        columns = (joint.x[part].tobytes(), joint.y[part].tobytes(), joint.at[part].tobytes())
        record = LearnedRecord(
            *(VERSION, partition, joint.first + i, dict(places), time, *columns, joint.values, joint.classes, out),
            terms=joint.terms,
            keys=None if joint.keys is None else LearnedKeys(list(joint.bounds), joint.keys[part].tobytes()),
        )
        found.append(record)
    return found


def _listed(column: Floats, vocabulary: Vocabulary) -> list[Scalar]:
    """Number the codes of a column anew, by those that it has. Mutates it; the values in order of their numbers."""
    there = ~np.isnan(column)
    codes = column[there].astype(np.int64)
    used = np.bincount(codes) > 0
    column[there] = (used.cumsum() - 1)[codes]
    return [vocabulary.values[code] for code in used.nonzero()[0].tolist()]
