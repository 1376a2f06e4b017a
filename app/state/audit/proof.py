"""Audits a partition: folds its retained records again, and compares the result with what was sent and stored. Pure.

The predictions topic records the order in which the input logs were applied (`RecordedOrder`). Folded again in that
order, the records must give every prediction that was sent, once and in order, and at the offsets of every later
checkpoint its state, to the last bit.

A prediction is compared as it is encoded. Only whether a class of probability 0 is listed may differ: that depends on
the classes that were known at the end of the batch with which it was encoded.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.outcome import Outcome
from riparian.app.partition.records.partition_group import Ints, RecordedOrder, Release
from riparian.app.partition.state import SETTINGS
from riparian.topics.names import FEATURES, LABELS
from riparian.topics.places import index_of, offset_of, place_of

LISTED = 1000  # differences of a kind that are listed; all are counted

DIFFERENT = "different"  # result where the fold gives something else than what was sent
MISSING = "missing"  # the fold predicts a record, and nothing was sent
REPEATED = "repeated"  # sent before
OUT_OF_ORDER = "out-of-order"  # sent once, but not in its place
UNFOUNDED = "unfounded"  # sent for an offset that holds no record, or one that cannot be read
UNREADABLE = "unreadable"  # no prediction at all
KINDS = (DIFFERENT, MISSING, REPEATED, OUT_OF_ORDER, UNFOUNDED, UNREADABLE)


class Difference(NamedTuple):
    """One prediction that differs.

    kind : one of KINDS
    offset, label_offset : source offset, and the next label by the fold (where it has none: as sent)
    feature_index, label_index : which instance of these records, where they hold several
    position : where it stands in the predictions topic
    sent, made : the record's fields, and what the fold gives
    """

    kind: str
    offset: int | None = None
    label_offset: int | None = None
    position: int | None = None
    sent: Any = None
    made: Any = None
    feature_index: int | None = None
    label_index: int | None = None

    def plain(self) -> dict[str, Any]:
        """JSON-serialisable, without what it does not have."""
        return {name: value for name, value in self._asdict().items() if value is not None}


class SentRecords(NamedTuple):
    """Records of the predictions topic, in its order.

    positions : their offsets in it
    keys, values : as they stand there
    """

    positions: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]

    def part(self, start: int, stop: int | None = None) -> "SentRecords":
        """Records start to stop."""
        return SentRecords(self.positions[start:stop], self.keys[start:stop], self.values[start:stop])


class Proof:
    """A fold, and the predictions that it is compared with.

    Parameters
    ----------
    learner : PartitionLearner
        Of the stream file, where the proof begins: fresh, or restored from a checkpoint.
    features_end : int
        End of the features topic: no prediction can be of a record behind it.
    on_step : callable, optional
        Given the outcome of each step.
    """

    def __init__(
        self,
        learner: PartitionLearner,
        features_end: int,
        on_step: Callable[[Outcome], None] | None = None,
    ) -> None:
        self.learner = learner
        self._on_step = on_step
        self.buffers = learner.buffers()
        self.counts: Counter[str] = Counter()
        self.listed: dict[str, list[Difference]] = {kind: [] for kind in KINDS}
        self.first: Difference | None = None  # the one with the lowest source offset
        self.n_compared = 0
        self._bits = learner.codec.index_bits
        self._features_end = place_of(features_end, 0, self._bits.features)
        self._begun = False
        self._last = learner.places[FEATURES] - 1  # the largest place that was expected so far
        self._script = RecordedOrder()
        self._sent = SentRecords([], [], [])  # as many as `_script` has
        self._astray: set[int] = set()  # places whose only prediction was out of order
        self._place, self._plain = learner.codec.read_place, learner.codec.read_prediction

    @property
    def holds(self) -> bool:
        """Whether no prediction so far differed."""
        return not self.counts.total()

    # -- what was sent -----------------------------------------------------------------------------------------

    def expect(self, sent: SentRecords) -> None:
        """Take the next records of the predictions topic, when the records of those before have been folded.

        If their offsets do not ascend, as few records as possible are left out, and the others are the script to
        follow.
        """
        self.settle()
        sent = self._split(sent)
        places: list[tuple[int, ...]] = []
        kept: list[int] = []
        for i, value in enumerate(sent.values):
            try:
                place = self._place(value).places(self._bits)
            except ValueError:
                self._note(Difference(UNREADABLE, position=sent.positions[i], sent=_text(value)))
                continue
            if not self._begun and place[0] < self.learner.places[FEATURES]:
                continue  # the first predictions after a checkpoint may be of records before it
            self._begun = True
            kept.append(i)
            places.append(place)
        at = np.array(kept, np.int64)
        script = RecordedOrder.of(list(self.learner.rules), places)
        offsets = script.offsets
        fits = np.flatnonzero((offsets > self._last) & (offsets < self._features_end))
        fits = fits[longest_ascent(offsets[fits], strict=True)]
        follow = np.zeros(len(at), bool)
        follow[fits] = True
        expected = set(offsets[fits].tolist())
        for i in np.flatnonzero(~follow).tolist():
            self._set_aside(sent, int(at[i]), int(offsets[i]), int(script.next_offsets[LABELS][i]), expected)
        self._script = RecordedOrder(
            offsets[fits], {role: possible(found[fits]) for role, found in script.next_offsets.items()}
        )
        rows = at[fits].tolist()
        self._sent = sent
        if len(rows) < len(sent.values):
            self._sent = SentRecords(
                [sent.positions[i] for i in rows], [sent.keys[i] for i in rows], [sent.values[i] for i in rows]
            )
        if len(rows):
            self._last = int(self._script.offsets[-1])

    def _split(self, sent: SentRecords) -> SentRecords:
        """The predictions of records, each by itself; as they are where they cannot be read."""
        codec, found = self.learner.codec, SentRecords([], [], [])
        if codec.join_predictions is None:
            return sent
        for position, _, value in zip(*sent, strict=True):
            try:
                values = codec.split_predictions(value)
            except ValueError:
                values = [value]
            found.positions.extend([position] * len(values))
            found.keys.extend([None] * len(values))
            found.values.extend(values)
        return found

    def _keys(self, outcome: Outcome) -> list[bytes | None]:
        """Of the predictions: none where several share a record."""
        return list(outcome.keys) if self.learner.codec.join_predictions is None else [None] * len(outcome.ids)

    def _set_aside(self, sent: SentRecords, i: int, offset: int, label_offset: int, expected: set[int]) -> None:
        kind = REPEATED
        if offset >= self._features_end:
            kind = UNFOUNDED
        elif offset > self._last and offset not in expected and offset not in self._astray:
            kind = OUT_OF_ORDER
            self._astray.add(offset)
        elif self.counts[MISSING]:
            at = self._difference(MISSING, offset, label_offset)
            same = [one for one in self.listed[MISSING] if one[:2] == at[:2] and one.feature_index == at.feature_index]
            for one in same:
                kind = OUT_OF_ORDER  # it was late
                self.listed[MISSING].remove(one)
                self.counts[MISSING] -= 1
                self.first = None if self.first == one else self.first
        self._note(self._difference(kind, offset, label_offset, sent.positions[i], self._plain(sent.values[i])))

    def script(self, before: int | None = None) -> RecordedOrder:
        """The order to follow for the expected predictions that were not folded yet, of records below `before`."""
        return self._script.part(0, None if before is None else int(np.searchsorted(self._script.offsets, before)))

    def settle(self, before: int | None = None) -> None:
        """All records (below `before`) were folded: a prediction that is still expected was sent without a record."""
        stop = len(self.script(before).offsets)
        for i, offset in enumerate(self._script.offsets[:stop].tolist()):
            self._note(self._unfounded(offset, self._sent, i))
        self._drop(stop)

    def _unfounded(self, place: int, sent: SentRecords, i: int) -> Difference:
        label_place = self._place(sent.values[i]).places(self._bits)[1]
        return self._difference(UNFOUNDED, place, label_place, sent.positions[i], self._plain(sent.values[i]))

    def _difference(
        self, kind: str, place: int, label_place: int, position: int | None = None, sent: Any = None, made: Any = None
    ) -> Difference:
        """Of a prediction, by its places."""
        (bits, label_bits), at = self._bits, (place, label_place)
        offset, label_offset = map(offset_of, at, self._bits)
        index, label_index = map(index_of, at, self._bits)
        found = Difference(kind, offset, label_offset, position, sent, made)
        return found._replace(feature_index=index if bits else None, label_index=label_index if label_bits else None)

    def _drop(self, n: int) -> None:
        self._script = self._script.part(n)
        self._sent = self._sent.part(n)

    # -- the fold ----------------------------------------------------------------------------------------------

    def step(self, release: Release) -> None:
        """Fold a release, and compare what it predicts with what was sent for its records."""
        outcome = self.learner.step(release)
        if self._on_step is not None:
            self._on_step(outcome)
        taken = release.pieces[FEATURES].offsets
        if not len(taken):
            return
        n = int(np.searchsorted(self._script.offsets, taken[-1], side="right"))
        offsets, sent = self._script.offsets[:n], self._sent.part(0, n)
        self._drop(n)
        made = self.learner.encode(outcome)
        self.n_compared += n
        if np.array_equal(offsets, outcome.offsets):
            if sent.values != made or sent.keys != self._keys(outcome):
                for i in range(n):
                    self._compare(sent, i, outcome, i, made)
            return
        rows = {offset: row for row, offset in enumerate(outcome.offsets.tolist())}
        for i, offset in enumerate(offsets.tolist()):
            row = rows.pop(offset, None)
            if row is not None:
                self._compare(sent, i, outcome, row, made)
                continue
            self._note(self._unfounded(offset, sent, i))
        for offset, row in rows.items():
            if offset not in self._astray:
                label_offset = int(outcome.next_offsets[LABELS][row])
                self._note(self._difference(MISSING, offset, label_offset, made=self._plain(made[row])))
        self._astray -= rows.keys()

    def _compare(self, sent: SentRecords, i: int, outcome: Outcome, row: int, made: Sequence[bytes]) -> None:
        key = self._keys(outcome)[row]
        if sent.values[i] == made[row] and sent.keys[i] == key:
            return
        was, is_ = self._plain(sent.values[i]), self._plain(made[row])
        if sent.keys[i] != key:
            was, is_ = {"key": _text(sent.keys[i]), **was}, {"key": _text(key), **is_}
        elif _listed_classes(was) == _listed_classes(is_):
            return
        offset, label_offset = int(outcome.offsets[row]), int(outcome.next_offsets[LABELS][row])
        self._note(self._difference(DIFFERENT, offset, label_offset, sent.positions[i], was, is_))

    def _note(self, found: Difference) -> None:
        self.counts[found.kind] += 1
        if len(self.listed[found.kind]) < LISTED:
            self.listed[found.kind].append(found)
        if self.first is None or (
            found.offset is not None
            and (
                self.first.offset is None
                or (found.offset, found.feature_index or 0) < (self.first.offset, self.first.feature_index or 0)
            )
        ):
            self.first = found


def differing_parts(learner: PartitionLearner, other: PartitionLearner) -> list[str]:
    """Names of the parts of the state in which two learners of one stream file differ."""
    (meta, arrays, *_), (other_meta, other_arrays, *_) = learner.comparable(), other.comparable()
    differ = [name for name in meta if name not in SETTINGS and meta[name] != other_meta.get(name)]
    for name in sorted({*arrays, *other_arrays}):
        one, two = arrays.get(name), other_arrays.get(name)
        # By their bytes: NaN is equal to NaN here, and 0.0 is not -0.0.
        if one is None or two is None or (one.dtype, one.shape, one.tobytes()) != (two.dtype, two.shape, two.tobytes()):
            differ.append(name)
    return differ


def longest_ascent(values: Ints, *, strict: bool) -> Ints:
    """Indices of a longest ascending subsequence, the first of several. O(n log n)."""
    steps = np.diff(values)
    if (steps > 0).all() if strict else (steps >= 0).all():
        return np.arange(len(values))
    find = bisect_left if strict else bisect_right
    tails: list[int] = []  # the lowest value that an ascent of this length can end with ...
    ends: list[int] = []  # ... and where it stands
    before: list[int] = []
    for i, value in enumerate(values.tolist()):
        at = find(tails, value)
        before.append(ends[at - 1] if at else -1)
        if at == len(tails):
            tails.append(value)
            ends.append(i)
        elif value < tails[at]:
            tails[at], ends[at] = value, i
    chosen, i = [], ends[-1]
    while i >= 0:
        chosen.append(i)
        i = before[i]
    return np.array(chosen[::-1], np.int64)


def possible(next_offsets: Ints) -> Ints:
    """Next offsets of a log without decreases: where they run backwards, as few as possible are taken for wrong."""
    kept = longest_ascent(next_offsets, strict=False)
    if len(kept) == len(next_offsets):
        return next_offsets
    lowest = np.full(len(next_offsets), np.iinfo(np.int64).min)
    lowest[kept] = next_offsets[kept]
    return np.maximum.accumulate(lowest)


def _listed_classes(prediction: dict[str, Any]) -> dict[str, Any]:
    """A prediction without the classes of probability 0, which may be listed or not."""
    found = {**prediction}
    if isinstance(found.get("p"), dict):
        found["p"] = {name: value for name, value in found["p"].items() if value != 0}
    if isinstance(found.get("challengers"), dict):
        found["challengers"] = {
            role: _listed_classes(part) if isinstance(part, dict) else part
            for role, part in found["challengers"].items()
        }
    return found


def _text(data: bytes | None) -> str | None:
    return None if data is None else data[:200].decode("utf-8", "backslashreplace")
