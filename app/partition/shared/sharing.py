"""A partition's side of the models that all partitions of a stream learn (`learning: shared`). Pure.

What a partition joins with labels goes to one log, `NAME.learned`, which the models of all partitions learn in its
order (`SharedLineup`): at one place of it they are equal to the bit. The log is an input log like any other:
predictions name its next place, and a record takes effect right before the next instance.

Codes of values and classes go by first sight, which differs between partitions. An instance is predicted with the codes
of the models; a value that no model has seen is missing to it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.arrays import over, renamed, under
from riparian.app.partition.join.ids import Ints
from riparian.app.partition.join.segments import PendingCheckpoint
from riparian.app.partition.keys.past import LabelPast
from riparian.app.partition.keys.plan import bounds_of
from riparian.app.partition.learning import JoinedBatch, Learning, Parts, Ran
from riparian.app.partition.lineup.lineup import Decided, Lineup, Values
from riparian.app.partition.outcome import DeadLetter, Joint, Outcome, by_topic, stacked
from riparian.app.partition.predictions.decision_policy import decided_name
from riparian.app.partition.predictions.joint_prediction import Unpredicted
from riparian.app.partition.predictions.serving import Serving
from riparian.app.partition.records.partition_group import Piece, Release, empty_piece
from riparian.app.partition.shared import listing
from riparian.app.partition.shared.listing import list_values
from riparian.app.partition.shared.shared_lineup import (
    KEYS,
    STATE,
    VALUES,
    Forgotten,
    Learned,
    News,
    Obeyed,
    SharedLineup,
    known_codes,
    open_vocabularies,
    opened,
    terms_of,
)
from riparian.app.stream_file.columns import hash_of
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import LEARN, PREDICT, Floats, Program
from riparian.topics.names import AS_IT_COMES, CHAMPION, CONTROL, FEATURES, LEARNED
from riparian.topics.records import DriftRecord
from riparian.topics.training_log import MOST_ROWS, VERSION, LearnedKeys, LearnedRecord
from riparian.topics.vocabulary import Scalar, Vocabulary

AT = ".learned"  # in the pending store, beside each instance; no model is called so
# Where the stream file says nothing: turns of one partition of each worker at a time, of so many records together, in
# order of their times, each when the models have learned what those before joined. Half of the records of others that
# the models lack then are made up for by half that they have learned too early. Shorter ones as long as the models know
# little, and up to four times as long where a turn is a small share of what they know: it waits for a round trip.
# `benchmarks/shared_learning.py`.
USUAL_SPAN, MOST_SPAN, LEAST_STEP = 256, 1024, 8
SHORT_SHARE, LONG_SHARE = 8, 64
BACKLOG_SHARE, KNOWN_SHARE = 100, 16  # a step of a long backlog: a hundredth of it, and a share of what is known
LIVE_BEHIND, PARTITION_BEHIND = 256, 16  # instances that they may lack live: more than 50 ms, or .5 s, bring mostly
MOST_BYTES = 500_000  # of a record, if it is not a single instance


class SharedLearning(Learning):
    """A partition's side of them, which learns the log for itself."""

    rules: ClassVar[Mapping[str, str]] = {LEARNED: AS_IT_COMES}
    names = (AT,)
    led = ("models/", "metrics/", "compared/", "drift/signals", "drift/trials/", VALUES, KEYS)
    whole = False
    label_keys = KEYS
    lineup: SharedLineup

    def _begin(self, spec: Spec) -> tuple[Lineup, list[Vocabulary | None], Vocabulary | None]:
        self._held = empty_piece()  # of the log: a command, and what is behind it, that wait for an instance
        self._file = spec
        self._joins_by(spec)
        self._max_behind, self._n_partitions = spec.learning.max_behind, spec.partitions
        self.copies = spec.partitions if spec.labels_everywhere and self._max_behind is None else 1
        self._coded: tuple[tuple[int, int], Floats] = (0, 0), np.zeros(0)  # the models' codes of classes here
        self._compared: tuple[list[tuple[int, int]], bool] = [], False  # sizes of vocabularies, and `_has_others`
        self._written = dict[str, NDArray[Any]]()  # of aggregates of labels, what this partition's state has
        self._pending.keep(self.names, 2)
        self.count_width()
        return SharedLineup(spec), open_vocabularies(spec), opened(spec.class_vocabulary())

    def warm_up(self) -> None:
        super().warm_up()
        listing.warm_up()

    def _joins_by(self, spec: Spec) -> None:
        """What is joined has the features of this stream file from here on."""
        self._terms, self._features = terms_of(spec), hash_of(spec.features.items())
        self._bounds = bounds_of(spec)

    def _settle(self, spec: Spec) -> None:
        """Columns come before the next prediction. Its record is read as those before it: which records are rejected
        after the last prediction is nothing that predictions record."""
        self.vocabularies += open_vocabularies(spec)[len(self.vocabularies) :]
        self._joins_by(spec)
        self._file = spec
        super()._settle(spec)

    @staticmethod
    def usual_seed(seed: int, partition: int) -> int:
        return seed

    @staticmethod
    def known(meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> tuple[NDArray[Any], Any]:
        return arrays[VALUES], meta[STATE]["classes"]

    def _join(self) -> None:
        for name, role in self.roles.items():
            self.servings.add(name, role.key, role.memos.names, self._n_outputs)

    @property
    def reports_models(self) -> bool:  # type: ignore[override]
        """Whether this is the first partition, which tells what is known of the models."""
        return self.partition == 0

    @property
    def learned_place(self) -> int:  # type: ignore[override]
        return self.logs.places[LEARNED] if self.reports_models else 0

    @property
    def label_past(self) -> LabelPast:  # type: ignore[override]
        return self.lineup.keys

    def key_bytes(self) -> int:
        return super().key_bytes() + self.lineup.keys.n_bytes

    def key_state(self) -> dict[str, NDArray[Any]]:
        return super().key_state() | over(KEYS, self.lineup.keys.state())

    def key_checkpoint(self) -> PendingCheckpoint:
        arrays, kept = super().key_checkpoint()
        self.lineup.keys.checkpoint()
        before, self._written = self._written, over(KEYS, self.lineup.keys.written)
        for name, array in self._written.items():
            if before.get(name) is array:
                kept.append(name)
            else:
                arrays[name] = array
        return PendingCheckpoint(arrays, kept)

    def _begin_keys(self, arrays: Mapping[str, NDArray[Any]], kind: type[Learning]) -> None:
        super()._begin_keys(arrays, kind)
        self.lineup.keys.begin_with(self.lineup.spec, under(arrays, kind.label_keys), kind.whole)
        self.lineup.keys.hash_as(under(arrays, "keys/"))

    # -- learning ----------------------------------------------------------------------------------------------

    def parts(self, release: Release) -> Parts:
        """With what all partitions have joined, each record right before the next instance.

        Predictions record how much of it there was, and not which labels came in between. These are nothing to the
        models, but a command changes who is scored by them: it waits for the next instance that is predicted, and what
        is behind it waits, too.
        """
        release, piece, come = release.without(LEARNED)
        come = come + len(self._held.offsets)
        piece, self._held = self._held.with_next(piece), empty_piece()
        return (yield from self._take(release, piece, come, []))

    def _take(self, release: Release, piece: Piece, come: NDArray[np.int64], letters: list[DeadLetter]) -> Parts:
        """A release, and records of the log, of which so many come before each feature. letters : as `_catch_up` takes
        them."""
        waits, each, n = self.lineup.waiting(piece), come, len(come)
        if waits and n:
            accepted = self.decoder.predicted(release.pieces[FEATURES])
            predicted = np.maximum.accumulate(np.where(accepted, np.arange(n), -1))
            come = np.where(predicted < 0, 0, come[predicted])
        cuts = np.flatnonzero(np.diff(come, prepend=0)).tolist()
        stops, at, outcomes = [0, *come[cuts].tolist()], 0, list[Outcome]()
        parts = list(zip(release.parts(cuts), stops, [0, *cuts], strict=True))
        for part, stop, i in parts[0 if parts[0][0].n or not cuts else 1 :]:
            drifts, at = self._follow(piece.part(at, stop), letters), stop
            one, *rest = [part] if self.decoder.reads(self._file) else self._cut(release.parts([i])[1])
            outcomes.append(after(drifts, (yield one)))
            self.decoder.settle(self._file)
            if rest:
                left = self._take(rest[0], piece.part(at), each[i + 1 :] - at, letters)
                return outcomes + (yield from left)
        stop = next((i for i in waits if i >= at), None)
        drifts = self._follow(piece.part(at, stop), letters)
        self._held = empty_piece() if stop is None else piece.part(stop)
        last = outcomes[-1]
        outcomes[-1] = last._replace(drifts=[*last.drifts, *drifts], rejected=last.rejected | self.of_log(letters))
        return outcomes

    def _cut(self, release: Release) -> list[Release]:
        """The first feature, which is predicted and read as those before it, and what is read by another stream file
        from there on, if anything is."""
        changes = len(release.pieces[FEATURES].offsets) > 1 and not self.decoder.reads(self._file)
        return release.parts([1]) if changes else [release]

    def obey_all(self) -> None:
        held, self._held = self._held, empty_piece()
        self._follow(held, [])
        self.decoder.settle(self._file)

    def of_log(self, letters: Sequence[DeadLetter]) -> dict[str, list[DeadLetter]]:
        """Role of an input log -> its dead letters, of those that came by the log of all partitions."""
        return by_topic(letters) if self.reports_models else {}

    def _follow(self, piece: Piece, letters: list[DeadLetter]) -> list[DriftRecord]:
        """Have the models learn records of the log, and come to their place."""
        self.lineup.follow(piece)
        news, self.lineup.news = self.lineup.news, []
        return self._catch_up(news, letters)

    def _catch_up(self, news: Sequence[News], letters: list[DeadLetter]) -> list[DriftRecord]:
        """Come to the place of the models, right before an instance is predicted; the events of drift that this
        partition tells. news : what has happened on the way. letters : takes records that are none, and commands."""
        drifts = list[DriftRecord]()
        for one in news:
            if isinstance(one, DeadLetter):
                letters.append(one)
            elif isinstance(one, Forgotten):
                self._past.forget(one.key, one.hashed, self._pending)
            elif isinstance(one, Obeyed):
                self.promotion.due += [] if one.due is None else [one.due]
            elif isinstance(one, Learned):
                self._note_promotions(one.decided)
                drifts += self.drift.events_of_all(one.findings, one.times) if self.reports_models else []
            else:
                one(self.servings)
        self.come_to_the_models()
        self.promotion.models = self.lineup.learners()
        self.stand()
        self.fit_schema()
        return drifts

    def stand(self) -> None:
        """Come to the place of the models, where nothing has happened on the way."""
        self.logs.places[LEARNED] = self.lineup.place
        if self.lineup.last is not None:
            self.logs.last_taken[LEARNED] = self.lineup.last

    def _note_promotions(self, decided: Sequence[Decided]) -> None:
        """The rule has promoted others: until the next prediction labels are held against the champion of before."""
        before = CHAMPION
        for one in decided:
            before = one.names.get(before, before)
            self.promotion.due.append(one.due)
        champion = self.servings[CHAMPION]
        if self.servings[before] is not champion:
            self.spoke = self.spoke or self.servings[before]
        if self.spoke is champion:
            self.spoke = None

    def come_to_the_models(self) -> None:
        theirs = (*self.lineup.vocabularies, self.lineup.classes)
        for known, other in zip((*self.vocabularies, self.classes), theirs, strict=True):
            if known is not None and other is not None and len(other) > len(known):
                known.limit = max(known.limit, len(other))
                for value in other.values[len(known) :]:
                    known.code(value)

    def _restore_log(
        self, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], known: Values
    ) -> tuple[Values, list[Scalar] | None]:
        found = self.lineup.restore_log(meta, arrays)
        self._written = over(KEYS, self.lineup.keys.written)
        self.lineup.place, self.lineup.last = self.logs.places[LEARNED], self.logs.last_taken.get(LEARNED)
        self.come_to_the_models()
        self.count_width()
        return found

    def count_width(self) -> None:
        """Let what waits be counted by the classes that came here: the models' depend on other partitions."""
        classes = self.decoder.classes
        self._pending.count_width(1 if classes is None else max(2, classes.capacity))

    fit = count_width

    # -- predicting --------------------------------------------------------------------------------------------

    def run(self, batch: JoinedBatch, asked: Unpredicted | None = None) -> Ran:
        """Predict by the models as they are; what was joined they learn when it comes by the log."""
        joined, x = batch.joined, self.translated(batch.features.x) if asked is None else asked.x
        if asked is not None and asked.done:
            self.predicted(joined.predicted)
        else:
            self.predict(x, joined.predicted)
        scored = self.calibrate(joined.program, joined.instead)
        ran = self.ran(scored, x, joined.predicted, batch.draws)
        return ran._replace(joint=self.joint(joined.program))

    def predict(self, x: Floats, rows: NDArray[np.int32]) -> None:
        """Predict, by the models as they are, what waits in these rows of the pending store. x : (n, d), in the models'
        codes."""
        roles = self.roles if len(rows) else {}  # else the models may be learning, for another partition
        for name, role in roles.items():
            self.servings[name].predict(role, x, rows)
        self.predicted(rows)

    @property
    def scales(self) -> bool:
        """Whether what the models predict is scaled or shifted, as the log then has it."""
        given = self.servings.values()
        return any(one.shift is not None or (one.calibration is not None and one.calibration.scales) for one in given)

    def calibrate(self, program: Program, instead: Floats) -> Program:
        """Scale or shift what was predicted by a program, or a part of one, before the log gets it (`joint`). instead :
        what its labels correct. Returns the program as it is `scored`."""
        scored, instead = self.scored(program), self.instead(program, instead)
        for serving in self.servings.values():
            serving.calibrate(scored, instead)
        return scored

    def ran(self, scored: Program, x: Floats, rows: NDArray[np.int32], draws: NDArray[np.uint64] | None) -> Ran:
        """What came of a program, or a part of one, as it is `scored`, whose predictions are as they stay. x, rows : of
        these, as `predict` takes them."""
        for name, serving in self.servings.items():
            serving.decide(scored)
            serving.reasons = None
            if draws is not None and len(rows):
                serving.explain(self.roles[name], x, rows, draws)
            serving.estimate(scored)
        return Ran(scored, self._champions(scored), [], [], [])

    def _champions(self, scored: Program) -> list[tuple[int, Serving]]:
        """A label is held against who was the champion at the last prediction before it: of a promotion in the log of
        all partitions only the next prediction records that it was before it."""
        champion, spoke = self.servings[CHAMPION], self.spoke
        if spoke is None:
            return [(0, champion)]
        predicted = np.flatnonzero(scored.op == PREDICT)
        self.spoke = None if len(predicted) else spoke
        return [(0, spoke), (int(predicted[0]) if len(predicted) else len(scored.op), champion)]

    def translated(self, x: Floats) -> Floats:
        """(n, d) rows with the models' codes."""
        found: Floats = np.array(x)
        for j, (mine, models) in enumerate(zip(self.decoder.values, self.vocabularies, strict=True)):
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
        known = self.decoder.classes
        if known is None or self.classes is None:
            return program
        op, row, y, w = program
        at = (op == LEARN).nonzero()[0]
        if not len(at):
            return program
        code = self._code(y[at], row[at])
        new, y = np.isnan(code), y.copy()
        y[at] = code
        if new.any():
            w = w.copy()
            y[at[new]] = w[at[new]] = 0.0
        return Program(op, row, y, w)

    def instead(self, program: Program, instead: Floats) -> Floats:
        """What the labels of a program correct, with the models' codes of classes."""
        at = (~np.isnan(instead)).nonzero()[0]
        if self.classes is None or not len(at):
            return instead
        found = instead.copy()
        found[at] = self._code(found[at], program.row[at])
        return found

    def _code(self, y: Floats, row: NDArray[np.int32]) -> Floats:
        """The models' codes of labels of these rows; NaN of a class that the model had never seen when it predicted."""
        code = self._codes(y)
        return np.where(code < self._pending.out[AT][row, 1], code, np.nan)

    def _codes(self, y: Floats) -> Floats:
        """The models' codes of labels; NaN of a class that they do not know."""
        assert self.decoder.classes is not None
        assert self.classes is not None
        mine, theirs = self.decoder.classes.texts, self.classes.codes
        if self._coded[0] != (len(mine), len(theirs)):
            codes = np.array([theirs.get(text, np.nan) for text in mine])
            self._coded = (len(mine), len(theirs)), codes
        return self._coded[1][y.astype(np.int64)]

    # -- what was joined ---------------------------------------------------------------------------------------

    def joint(self, program: Program) -> list[Joint]:
        """The instances that a program of the pending store learns, for the log."""
        learns = (program.op == LEARN).nonzero()[0]
        rows, n = program.row[learns], len(learns)
        first = self._pending.counts["joined"] - n
        return [self.joined_rows(rows, self.features_of(rows), program.y[learns], first)] if n else []

    def features_of(self, rows: NDArray[np.int32]) -> Floats:
        """(n, d) of instances in these rows."""
        found: Floats = self._pending.slab[rows]  # type: ignore[index, assignment]
        return found

    def joined_rows(self, rows: NDArray[np.int32], x: Floats, y: Floats, first: int) -> Joint:
        """Instances in these rows, for the log. x, y : their features and labels. first : number of the first of them
        among all that the partition has joined."""
        vocabularies = [*self.decoder.values, self.decoder.classes]
        keyed = self._pending.past[rows] if self._bounds else None
        at, out = self._learned_before(rows), self._outputs(rows)
        return Joint(first, x, y, at, vocabularies, out, self._terms, keyed, self._bounds, self._features)

    def _learned_before(self, rows: NDArray[np.int32]) -> NDArray[np.int64]:
        """How many instances the models had learned when they predicted these rows."""
        return np.array(self._pending.out[AT][rows, 0], np.int64)

    def _outputs(self, rows: NDArray[np.int32]) -> dict[str, Floats]:
        """What was predicted, decided and kept for these rows, by its name in the log."""
        out, keys = dict[str, Floats](), {one.name: one.key for one in self.servings.values()}
        for one in self.servings.values():
            out[one.key] = one.predictions[rows]
            for name in (*one.kept_names, decided_name(one.name)):
                if name in self._pending.out:
                    out[renamed(name, keys)] = self._pending.out[name][rows]
        return out

    def teach(self, rows: NDArray[np.int32], x: Floats, y: Floats, translated: Callable[[], Floats], time: int) -> int:
        """Have the models learn instances in these rows, the next ones of this partition, to the bit as they will from
        the log. Returns how many records they are there.

        x, y : their features and labels. translated : gives the features in the models' codes, once these have met the
        values. time : of the partition, ms.
        """
        lineup, out, listed = self.lineup, self._outputs(rows), list[list[list[Scalar] | None]]()
        if self._has_others():
            *values, classes = list_values(np.column_stack((x, y)), [*self.decoder.values, self.decoder.classes])
            listed = [[classes, *values]]
        lineup.prepare(self._terms, listed, ((key, one.shape[1]) for key, one in out.items()))
        own = lineup.widened(translated())
        codes, w = (y, np.ones(len(y))) if self.classes is None else known_codes(self._codes(y))
        lineup.numbers[self.partition] = lineup.numbers.get(self.partition, 0) + len(y)
        lineup.fold(own, codes, w, self._learned_before(rows), [(len(y), out)], [time])
        return -(-len(y) // most_rows(x.shape[1], out))

    def _has_others(self) -> bool:
        """Whether the partition has come to know values or classes that the models do not."""
        lineup, mine = self.lineup, (*self.decoder.values, self.decoder.classes)
        both = [(a, b) for a, b in zip(mine, (*lineup.vocabularies[: len(mine) - 1], lineup.classes), strict=True)]
        pairs = [(a, b) for a, b in both if a is not None and b is not None]
        known = [(len(a), len(b)) for a, b in pairs]
        if known != self._compared[0]:
            self._compared = known, any(text not in b.codes for a, b in pairs for text in a.texts)
        return self._compared[1]

    def reached(self) -> dict[str, int]:
        return {**self.logs.places, CONTROL: self.lineup.next_command}

    # -- how far the models have come --------------------------------------------------------------------------

    @property
    def most_at_once(self) -> int:  # type: ignore[override]
        """How many records of one log may be taken at once: a third of the bound that the stream file gives, or the
        worker's share, by its partitions, of the turns that workers take at the same time. A long backlog is taken in
        longer steps, as far as the models know much: else a stream that gets more than short steps can take would fall
        behind for ever."""
        if self._max_behind is not None:
            return min(Learning.most_at_once, self._max_behind // 3)
        known = self.lineup.n // (KNOWN_SHARE * self._n_partitions)
        return max(self.turn, min(Learning.most_at_once, self.backlog // BACKLOG_SHARE, known))

    @property
    def n_beside(self) -> int:
        """How many partitions follow the same replica, this one included."""
        return 1

    @property
    def turn(self) -> int:  # type: ignore[override]
        if self._max_behind is not None:
            return self.most_at_once
        known = self.lineup.n
        span = max(USUAL_SPAN, min(MOST_SPAN, known // LONG_SHARE))
        return max(LEAST_STEP, min(span * self.n_beside // self._n_partitions, known // SHORT_SHARE))

    def lags(self, n_waiting: int, n_records: int) -> bool:
        """Whether the models lack too much of what the worker's partitions have joined. Each feature and each label of
        a step may join one more. n_waiting, n_records : features that are there, and records of all logs."""
        if self._max_behind is not None:
            return self.behind_all > self._max_behind - min(2 * self.most_at_once, n_records)
        if n_waiting >= LEAST_STEP and n_waiting >= self.turn:  # live there is less
            return self.behind_all > 0
        return self.behind_all > max(LIVE_BEHIND, PARTITION_BEHIND * self._n_partitions)

    @property
    def behind_all(self) -> int:
        """As `behind`, of all partitions of the worker, with all that their steps in hand may join."""
        return self.behind

    @property
    def learned(self) -> int:
        return self.lineup.numbers.get(self.partition, 0)


def after(drifts: list[DriftRecord], outcome: Outcome) -> Outcome:
    """An outcome, with events that come before all that is in it."""
    if not drifts:
        return outcome
    n_settled = len(drifts) + outcome.n_settled if outcome.ids else 0
    return outcome._replace(drifts=[*drifts, *outcome.drifts], n_settled=n_settled)


def together(joined: Sequence[Joint]) -> list[Joint]:
    """Consecutive instances as one piece, or several where other models predicted, or features came."""
    return [_together(list(same)) for _, same in groupby(joined, key=lambda one: (tuple(one.out), one.features))]


def _together(joined: Sequence[Joint]) -> Joint:
    if len(joined) < 2:
        return joined[0]
    first = joined[0]
    x, y, at = (np.concatenate([one[i] for one in joined]) for i in (1, 2, 3))
    out = {name: stacked([one.out[name] for one in joined]) for name in first.out}
    keys = None if first.keys is None else np.concatenate([one.keys for one in joined])  # type: ignore[misc]
    return first._replace(x=x, y=y, at=at, out=out, keys=keys)


def order_of(rules: Iterable[str], offsets: Ints, next_offsets: Mapping[str, Ints]) -> Ints:
    """(n, k) places that a record of the log names of predictions. rules : roles of the partition's logs. next_offsets
    : as `Outcome` has them."""
    return np.column_stack([offsets, *(next_offsets[role] for role in rules if role != FEATURES)])


def most_rows(width: int, out: Mapping[str, Floats]) -> int:
    """Of a record of the log. width : of the features, and of keys. out : as `Joint` has it."""
    width += 2 + sum(column.shape[1] for column in out.values())
    return max(1, min(MOST_ROWS, MOST_BYTES // (8 * width)))


def records(
    joint: Joint,
    partition: int,
    places: Mapping[str, int],
    time: int,
    start: int = 0,
    order: list[int] | None = None,
) -> list[LearnedRecord]:
    """The records of the log for what was joined, from number `start` on.

    places, time : the partition's, after all that was joined. order : of its predictions since the record before, where
    these are sent later (`topics.training_log.LearnedRecord`).
    """
    found, both = list[LearnedRecord](), np.column_stack((joint.x, joint.y))
    *values, classes = list_values(both, joint.vocabularies)
    x, y = both[:, :-1], both[:, -1]
    most = most_rows(joint.x.shape[1] + (0 if joint.keys is None else joint.keys.shape[1]), joint.out)
    for i in range(max(0, start - joint.first), len(joint.y), most):
        part = slice(i, min(i + most, len(joint.y)))
        out = {n: (one.shape[1], np.ascontiguousarray(one[part]).tobytes()) for n, one in joint.out.items()}
        columns = (x[part].tobytes(), y[part].tobytes(), joint.at[part].tobytes())
        record = LearnedRecord(
            *(VERSION, partition, joint.first + i, dict(places), time, *columns, values, classes, out),
            terms=joint.terms,
            keys=None if joint.keys is None else LearnedKeys(list(joint.bounds), joint.keys[part].tobytes()),
            features=joint.features,
            order=None if found else order,
        )
        found.append(record)
    return found
