"""Features over the past of keys, inside the fold: each instance gets them right before it is predicted.

They stand in the slab beside the instance's own, so what was predicted with is what is learned. A record changes what
is known of its keys once it is predicted, unless its id waits already; a label when it is learned. Where all partitions
learn one model (`learning: shared`) a partition knows its own records, and what labels change is known to the model's
replicas (`LabelPast`): they learn it in the order of the log, and a prediction reads it as of its place there.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.arrays import over, under
from riparian.app.partition.join.ids import Hashes, Ints, packed, words_of, write_hashes
from riparian.app.partition.join.pending import Joined, PendingStore
from riparian.app.partition.join.segments import PendingCheckpoint
from riparian.app.partition.keys.fold import CORRECTION, LABEL, LARGEST, NOTHING, OBSERVE, READ, Events
from riparian.app.partition.keys.plan import UNCOUNTED, Plan, kept_of, plan, ratios
from riparian.app.partition.keys.rows import KeyRows
from riparian.app.partition.records.clock import LATEST_MS
from riparian.app.stream_file.sections.keys import labelled_keys, past_width
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import PREDICT, Floats, Program
from riparian.topics.records import Features
from riparian.topics.slices import Coded, Texts
from riparian.topics.vocabulary import MISSING

KINDS = np.array([OBSERVE, LABEL, LABEL, NOTHING, CORRECTION, CORRECTION], np.int8)  # by operation (maturity.py)
AHEAD_MS = 86_400_000  # time by which a record may be beyond stream time and count, ms


class KeyTables:
    """What is known of keys, by their name in the stream file.

    Parameters
    ----------
    spec : Spec
    plans : mapping of str to Plan

    Attributes
    ----------
    now : int
        Stream time, ms.
    """

    def __init__(self, spec: Spec, plans: Mapping[str, Plan]) -> None:
        self._stream, self._secret = spec.name, secret(spec.name)
        self.now = 0
        self._known = {name: KeyRows(one) for name, one in plans.items()}
        self._width = len(spec.features)

    def __bool__(self) -> bool:
        return bool(self._known)

    @property
    def n_bytes(self) -> int:
        return sum(rows.n_bytes for rows in self._known.values())

    def warm_up(self) -> None:
        """Compile the kernels, or load them from the cache."""
        zero, one = np.zeros(1, np.int64), np.ones(1, np.int64)
        event, x = Events(np.zeros(1, np.int8), zero, zero, zero, np.zeros(1)), np.zeros((1, self._width))
        for rows in self._known.values():
            hashes = [hashes_of(self._secret, texts) for texts in (["a"], Texts(b"a" + bytes(16), zero, one))]
            twin = KeyRows(rows.plan)
            twin.fold(event, hashes[0], np.zeros((1, self._width)), x, x.copy())
            KeyRows(rows.plan).restore(twin.checkpoint().arrays)

    def hash_as(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Make the hashes of a state. arrays : what a partition knows of keys there."""
        self._secret = arrays.get("secret", self._secret).copy()

    def check_hashes(self) -> None:
        """ValueError where the state has other hashes than the stream's name makes."""
        if (self._secret != secret(self._stream)).any():
            raise ValueError(
                "the state began in a stream of another name, of which its hashes of keys are made: begin a stream of "
                "a new name"
            )

    def follow(self, spec: Spec, plans: Mapping[str, Plan]) -> None:
        """What this stream file says of the keys holds from here on: keys and aggregates that are new begin empty."""
        self._width = len(spec.features)
        known, self._known = self._known, {name: KeyRows(one) for name, one in plans.items()}
        for name in known.keys() & plans.keys():
            self._known[name] = known[name]
            self._known[name].settle(plans[name])
        if not self:
            self.now = 0  # a state has none

    def drop(self, name: str, words: NDArray[np.uint64]) -> bool:
        """Forget a key, (2,); whether anything was known of it. ValueError where the state has other hashes."""
        self.check_hashes()
        return name in self._known and self._known[name].forget(words)

    def knows(self, name: str, hashed: NDArray[np.uint64]) -> bool:
        """Whether anything is known of a key, (2,)."""
        return name in self._known and self._known[name].row_of(hashed) >= 0

    def values(self, name: str, hashed: NDArray[np.uint64], time: int) -> Floats:
        """What a record of this time, ms, would find of a key, (2,): (m,) of the features over the past of keys, NaN of
        those that it does not change. Nothing changes."""
        found: Floats = np.full((1, self._width), np.nan)
        if name in self._known:
            self._known[name].read(np.array([time]), hashed.reshape(1, 2), found, found.copy())
        return found.reshape(-1)

    def state(self) -> dict[str, NDArray[Any]]:
        """Copies of all that is known, as of equal folds: however they were cut."""
        found = self._numbers()
        for name, rows in self._known.items():
            found |= over(f"{name}/", rows.state())
        return found

    def _numbers(self) -> dict[str, NDArray[Any]]:
        return {"now": np.array([self.now]), "secret": self._secret} if self else {}

    def checkpoint(self) -> PendingCheckpoint:
        """What changed since the last call. Call it between steps."""
        arrays, kept = self._numbers(), list[str]()
        for name, rows in self._known.items():
            changed = rows.checkpoint()
            arrays |= over(f"{name}/", changed.arrays)
            kept += [f"{name}/{field}" for field in changed.kept]
        return PendingCheckpoint(arrays, kept)

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `state` gave, or what all checkpoints together came to."""
        if "now" in arrays:
            self.now = int(arrays["now"][0])
        self.hash_as(arrays)
        for name, rows in self._known.items():
            rows.restore(under(arrays, f"{name}/"))

    def begin_with(self, spec: Spec, arrays: Mapping[str, NDArray[Any]], whole: bool) -> None:
        """Restore arrays of which nothing is written yet: in another stream, where earlier checkpoints are none. whole
        : whether `arrays` have what records and labels change in one row."""
        plans = {name: plan(spec, name) if whole else known.plan for name, known in self._known.items()}
        twin = KeyTables(spec, plans)
        twin.restore(arrays)
        state = twin.state()
        for name, known in self._known.items():
            old, new = kept_of(plans[name], known.plan)
            sums = state[f"{name}/sums"]
            state[f"{name}/sums"] = np.tile(known.plan.blank, (len(sums), 1))
            state[f"{name}/sums"][:, new] = sums[:, old]
            state[f"{name}/shares"] = state[f"{name}/shares"][: len(known.plan.labels)]
        KeyTables.restore(self, state)
        self.hash_as(arrays)


class LabelPast(KeyTables):
    """Aggregates of labels by key, of whichever partition, in the order of the log that all partitions learn.

    A key is touched by its labels, and not by records.

    Attributes
    ----------
    written : dict of str to array
        All of it as the last checkpoint had it, whichever partition's that was. An array stays the same object until
        it is changed, so each partition sees what its own last one did not have.
    """

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec, self._plans(spec))
        self.written: dict[str, NDArray[Any]] = {}

    def _plans(self, spec: Spec) -> dict[str, Plan]:
        self._names = labelled_keys(spec.features)
        plans = {name: plan(spec, name, True) for name in self._names if name in spec.keys}
        return {name: one for name, one in plans.items() if len(one.labels)}

    def settle(self, spec: Spec) -> None:
        """What this stream file says of the keys, but for the bounds of those that are known, holds from here on."""
        plans, known = self._plans(spec), self._known
        for name in plans.keys() & known.keys():
            plans[name] = plans[name]._replace(most=known[name].plan.most, idle=known[name].plan.idle)
        self.follow(spec, plans)

    @property
    def n_bytes(self) -> int:
        return super().n_bytes + sum(array.nbytes for array in self.written.values())

    def fold(self, names: Sequence[str], bounds: Sequence[tuple[int, int]], rows: Ints, now: Ints, y: Floats) -> None:
        """Learn labels.

        names, bounds : of each key that their instances have, from here on. rows : (n, 1 + 2 k) of these
        (`topics.training_log.LearnedKeys`). now : (n,) stream time of their
        partitions, ms. y : (n,) codes of classes, below 0 of one that counts nothing, or targets.
        """
        n = len(rows)
        now = np.maximum.accumulate(np.concatenate(([self.now], now)))
        events = Events(np.full(n, LABEL, np.int8), np.zeros(n, np.int64), rows[:, 0].copy(), now[1:], y)
        nothing = np.zeros((0, 0))
        for i, (name, (most, idle)) in enumerate(zip(names, bounds, strict=True)):
            if (known := self._known.get(name)) is not None:
                if (most, idle) != UNCOUNTED:
                    known.settle(known.plan._replace(most=most, idle=idle))
                known.fold(events, _hashes(rows, 1 + 2 * i), nothing, nothing, nothing)
        self.now = int(now[-1])

    def read(self, times: Ints, hashes: Mapping[str, Hashes], before: Floats, after: Floats) -> None:
        """Read the aggregates of the keys of records, which changes nothing. times : (n,) ms, of the records. hashes
        : of each key, (n, 2). before, after : as of `app.partition.keys.fold.fold`."""
        for name, known in self._known.items():
            known.read(times, hashes[name], before, after)

    def _numbers(self) -> dict[str, NDArray[Any]]:
        bounds = [[one.plan.most, one.plan.idle] for one in self._known.values()]
        return super()._numbers() | ({"bounds": np.array(bounds, np.int64)} if self else {})

    def checkpoint(self) -> PendingCheckpoint:
        changed = super().checkpoint()
        self.written = {name: self.written[name] for name in changed.kept} | changed.arrays
        return changed

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super().restore(arrays)
        self.written = dict(arrays)
        for known, (most, idle) in zip(self._known.values(), arrays["bounds"].tolist() if self else (), strict=True):
            known.settle(known.plan._replace(most=most, idle=idle))


class Past(KeyTables):
    """What a partition knows of the keys of its records.

    Parameters
    ----------
    spec : Spec
    whole : bool
        Whether what labels tell of a key stands in its row, too, or is known apart (`LabelPast`).

    Attributes
    ----------
    origin : int
        Milliseconds that are added to the fold's times, where those do not begin in 1970.
    columns : list of int
        Of x, which this writes.
    """

    origin = 0

    def __init__(self, spec: Spec, whole: bool = True) -> None:
        self._whole = whole
        super().__init__(spec, self._plans(spec))
        self._follows = spec.label.by

    def _plans(self, spec: Spec) -> dict[str, Plan]:
        self._names, self._labelled = list(spec.keys), labelled_keys(spec.features)
        self.columns = [j for j, one in enumerate(spec.features.values()) if one.past is not None]
        self._ratios = ratios(spec)
        plans = {name: plan(spec, name, None if self._whole else False) for name in spec.keys}
        return {name: one for name, one in plans.items() if len(one.records) or len(one.labels)}

    def __bool__(self) -> bool:
        return bool(self._names)

    def hashes(self, features: Features, names: Sequence[str]) -> dict[str, Hashes]:
        """Of each key of these records, (n, 2); 0 of one that is missing. names : of the keys that were read."""
        if not (self._names or self._labelled):
            return {}
        read = dict(zip(names, features.keys, strict=True))
        missing = np.zeros((len(features.ids), 2), np.uint64)
        every = dict.fromkeys((*self._names, *self._labelled))
        return {name: hashes_of(self._secret, read[name]) if name in read else missing for name in every}

    def settle(self, spec: Spec, pending: PendingStore) -> None:
        """What this stream file says of the keys holds from here on."""
        before = self._labelled
        self.follow(spec, self._plans(spec))
        at = {name: 1 + 2 * i for i, name in enumerate(before)}
        kept = [(0, 0)] * bool(before)  # columns of `pending.past`: what stays, where it stood and where it will
        kept += [(at[name] + k, 1 + 2 * i + k) for i, name in enumerate(self._labelled) if name in at for k in (0, 1)]
        pending.make(self.columns, past_width(spec), [old for old, _ in kept], [new for _, new in kept])

    def observe(
        self,
        features: Features,
        joined: Joined,
        pending: PendingStore,
        times: Ints,
        stamps: Ints,
        hashes: Mapping[str, Hashes],
        labels: LabelPast | None = None,
    ) -> Features:
        """Go through a program that was just made, write the features to the slab, and return them.

        times, stamps : (n,) int64 ms, of the records: stream time and their own. hashes : of their keys. labels :
        aggregates of all partitions' labels, where these share what they learn.
        """
        program, n = joined.events, len(features.ids)
        if not self and self._labelled:  # a row may hold what waited in it before
            pending.past[joined.predicted] = 0
        if not self or not len(program.op):
            return features
        known, own = moments_of(times, stamps, AHEAD_MS)
        own = own + self.origin
        beside = {name: 1 + 2 * i for i, name in enumerate(self._labelled)}  # columns of `PendingStore.past`
        if beside:
            pending.past[joined.predicted, 0] = own
            for name, at in beside.items():
                pending.past[joined.predicted, at : at + 2] = hashes[name].view(np.int64)
        x, shape = features.x.copy(), (n, len(self.columns))
        before, after = np.full(shape, np.nan), np.full(shape, np.nan)
        now = np.concatenate(([self.now], known + self.origin))
        for name, rows in self._known.items():
            column = beside.get(name) if self._whole and len(rows.plan.labels) else None
            events = self._events(program, joined.repeated, own, now, None if column is None else pending.past)
            found = hashes[name] if column is None else _hashes(pending.past[program.row], column)
            rows.fold(events, np.ascontiguousarray(found), x, before, after)
        if labels is not None and n:
            labels.read(own, hashes, before, after)
        self.now = int(now[-1])
        for ratio in self._ratios:
            after[:, ratio.out] = _divided(_column(ratio.above, x, after), _column(ratio.below, x, before))
        x[:, self.columns] = after
        pending.fill(joined.predicted, self.columns, after)
        return features._replace(x=x)

    def _events(self, program: Program, repeated: NDArray[np.bool_], own: Ints, now: Ints, past: Ints | None) -> Events:
        """past : of waiting instances, where labels count."""
        if past is None:
            kind = np.where(repeated, READ, OBSERVE).astype(np.int8)
            return Events(kind, np.arange(len(own)), own, now[1:], np.zeros(len(own)))
        predicts = program.op == PREDICT
        at = np.cumsum(predicts) - 1
        kind = KINDS[program.op]
        kind[np.flatnonzero(predicts)[repeated]] = READ
        return Events(kind, at, past[program.row, 0], now[at + 1], program.y)

    def forget(self, name: str, hashed: str, pending: PendingStore) -> bool:
        """Drop what is known of a key, also what labels that come would tell of it; whether anything was. hashed : as
        `hashes_of` makes it, in hexadecimal. ValueError where the state has other hashes."""
        words = words_of_hash(hashed)
        known = self.drop(name, words)
        if name == self._follows:
            known |= pending.forget_series(words)
        if name in self._labelled:
            known |= pending.strike_out(1 + 2 * self._labelled.index(name), words.view(np.int64))
        return known


def moments_of(times: Ints, stamps: Ints, reach: int) -> tuple[Ints, Ints]:
    """Stream time at each record, and the record's own time, ms. times : 0 of the first records of a topic, which come
    before its time. reach : how far beyond stream time a record may be, ms; else it has stream time."""
    stamps = stamps.clip(0, LATEST_MS)
    known = np.where(times, times, stamps)
    return known, np.where(stamps <= known + reach, stamps, known)


def _hashes(rows: Ints, at: int) -> Hashes:
    """(n, 2), those in columns `at` on."""
    return np.ascontiguousarray(rows[:, at : at + 2]).view(np.uint64)


def words_of_hash(hashed: str) -> NDArray[np.uint64]:
    """(2,), of one in hexadecimal."""
    return np.frombuffer(bytes.fromhex(hashed), "<u8").astype(np.uint64)


def hashes_of(key: Hashes, texts: Sequence[str | None]) -> Hashes:
    """(n, 2), 0 of a key that is missing. key : (4,), of a stream (`secret`)."""
    if isinstance(texts, Coded):
        few: Hashes = hashes_of(key, texts.values)[texts.codes]
        return few
    text, ends = packed(texts if isinstance(texts, Texts) else ["" if t in MISSING else str(t) for t in texts])
    found = np.empty((len(ends), 2), np.uint64)
    write_hashes(key, text, words_of(text), ends, found)
    found[np.diff(ends, prepend=0) == 0] = 0
    return found


def secret(name: str) -> Hashes:
    """The key of the hash, of a stream's name: everybody who folds a stream makes the same hashes."""
    digest = hashlib.blake2b(name.encode(), digest_size=32, person=b"riparian keys").digest()
    return np.frombuffer(digest, "<u8").astype(np.uint64)


def _column(at: int, x: Floats, made: Floats) -> Floats:
    column = made[:, at] if at >= 0 else x[:, -2 - at]
    return np.where(np.abs(column) <= LARGEST, column, np.nan) if at < 0 else column


def _divided(above: Floats, below: Floats) -> Floats:
    with np.errstate(all="ignore"):
        found = above / below
    return np.where((below != 0.0) & (np.abs(found) <= LARGEST), found, np.nan)
