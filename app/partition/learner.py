"""The learner of one partition: everything between a released batch and its outcome, pure (no Kafka, no asyncio).

A fold over the one order of its input logs: predict each instance when its features come, learn it when its label
comes, score the prediction that was really made. The worker and the offline evaluation both call `apply`, so they
agree to the last bit. What is kept between batches is `app.partition.state`.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.drift.detection import Finding
from riparian.app.partition.join.pending import Joined
from riparian.app.partition.lineup.comparing import PromotionDecision
from riparian.app.partition.lineup.lineup import Decided
from riparian.app.partition.outcome import DeadLetter, Figures, Outcome, by_topic, dead_letters, together
from riparian.app.partition.predictions.prediction_columns import columns_of
from riparian.app.partition.predictions.reasons import keys_of
from riparian.app.partition.records.clock import LEAPS
from riparian.app.partition.records.partition_group import EMPTY, Ints, Piece, RecordQueue, Release, empty_piece
from riparian.app.partition.restoring import RestorableState
from riparian.app.partition.shared.shared_lineup import Forgotten, Learned, News, Obeyed
from riparian.app.partition.shared.sharing import Sharing
from riparian.app.partition.state import present
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import PREDICT, Floats, Program
from riparian.models.evaluation.prequential import MOST_CLASSES, Prequential
from riparian.topics.codecs import Codec
from riparian.topics.commands import EventRecord
from riparian.topics.decoding.paths import dotted
from riparian.topics.names import CHAMPION, CONTROL, FEATURES, LABELS, LEARNED
from riparian.topics.places import index_of, offset_of
from riparian.topics.records import VALUES as UNDECIDED
from riparian.topics.records import DriftRecord, Features, Labels, Packed, RawBatch
from riparian.topics.slices import chained

LABELS_OF_ANOMALIES = ["0", "1"]  # as other labels' texts are; figures of the alerts are those of the second
# Scores of a partition by its own labels, also where all partitions learn one model.
OWN = {"calibration_error", "threshold", "coverage", "interval_width", "set_size"}


class PartitionLearner(RestorableState):
    """Predicts, learns and scores what a partition's merge releases."""

    _unseen: Sequence[int] = ()  # columns of features that no instance has had, of the first `_n_columns`
    _n_columns = 0

    @contextmanager
    def still(self) -> Iterator[list[DriftRecord] | None]:
        """Between two steps: nothing changes what is known meanwhile. Yields events of drift that were found on the way
        there, and None where no checkpoint can be made of what is known."""
        yield []

    @property
    def common(self) -> dict[str, Any] | None:
        """Where copies are kept of the arrays that other partitions of the worker hold, too; None where none do. For
        whoever makes checkpoints, while all is `still`."""
        return None

    def hold(self) -> bool:
        """Whether a step would not wait, for another partition or for the process that fits a model: then call `let_go`
        after it, in the same thread."""
        return all(running.model.n_waits is None for running in self.roles.values())

    def let_go(self) -> None:
        """After a step for which `hold` was true."""

    def leave(self) -> None:
        """Nothing more comes."""

    def never_seen(self) -> list[str]:
        """Features of the stream file that no instance had since the state was loaded."""
        columns = self._present or range(len(self.vocabularies))
        unseen = {*self._unseen, *range(self._n_columns, len(self.vocabularies))}
        mapping = self.spec.mapping()
        named = zip(mapping.features[: mapping.n_columns], columns, strict=True)
        return [dotted(feature.path) for feature, j in named if j in unseen]

    def _note_seen(self, x: Floats) -> None:
        if x.shape[1] > self._n_columns:
            self._unseen = [*self._unseen, *range(self._n_columns, x.shape[1])]
            self._n_columns = x.shape[1]
        if self._unseen and len(x):
            self._unseen = [j for j in self._unseen if np.isnan(x[:, j]).all()]

    def step(self, release: Release) -> Outcome:
        """Decode and apply a release of the merge."""
        if self.sharing is not None:
            return self._shared(release, self.sharing)
        if self._commands or len(release.piece(CONTROL).offsets):
            return self._steered(release)
        return self._step(release)

    def _steered(self, release: Release) -> Outcome:
        """As `step`, with commands, each right before the next instance that is predicted."""
        pieces, before = dict(release.pieces), dict(release.before)
        whole = pieces[FEATURES]
        n, i, at, taken = len(whole.offsets), 0, 0, 0  # at: where the rest begins; taken: commands that have come
        commands, come = pieces.pop(CONTROL, empty_piece()), before.pop(CONTROL, np.zeros(n, np.int64))
        rest, predicted, outcomes = Release(pieces, before), self._predicted(whole), list[Outcome]()
        said: tuple[list[EventRecord], list[DeadLetter]] = [], []  # of the commands before the rest

        def step(part: Release) -> None:
            nonlocal said
            outcome, (events, letters) = self._step(part), said
            rejected = {**outcome.rejected, CONTROL: letters}
            outcomes.append(outcome._replace(events=[*events, *outcome.events], rejected=rejected))
            said = [], []

        while (i := i if self._commands else max(i, int(np.searchsorted(come, taken, side="right")))) < n:
            self._commands, taken = [*self._commands, *commands.part(taken, int(come[i])).singly()], int(come[i])
            if predicted[i]:
                part, rest = rest.parts([i - at])
                step(part)
                at = i
                if self._suits(whole.part(i, i + 1), self.lineup.steering.files(self._commands)):
                    obeyed, self._commands = self._commands, []
                    codec = self.codec
                    said = self.promotion.obey(self.lineup, obeyed, int(whole.offsets[i]))
                    for piece in obeyed:
                        self._take(CONTROL, piece)
                    if self.codec is not codec:
                        predicted[i:] = self._predicted(whole.part(i))
            i += 1
        self._commands += commands.part(taken).singly()
        step(rest)
        return together(outcomes)

    def _shared(self, release: Release, sharing: Sharing) -> Outcome:
        """As `step`, with what all partitions have joined, each record right before the next instance.

        Predictions record how much of it there was, and not which labels came in between. These are nothing to the
        models, but a command changes who is scored by them: it waits for the next instance that is predicted, and what
        is behind it waits, too.
        """
        pieces, before = dict(release.pieces), dict(release.before)
        n = len(pieces[FEATURES].offsets)
        piece, come = pieces.pop(LEARNED, empty_piece()), before.pop(LEARNED, np.zeros(n, np.int64))
        come = come + len(self._held.offsets)
        piece, self._held = self._held.with_next(piece), empty_piece()
        waits = sharing.lineup.waiting(piece)
        if waits and n:
            predicted = np.maximum.accumulate(np.where(self._predicted(pieces[FEATURES]), np.arange(n), -1))
            come = np.where(predicted < 0, 0, come[predicted])
        cuts = np.flatnonzero(np.diff(come, prepend=0)).tolist()
        stops, at, outcomes = [0, *come[cuts].tolist()], 0, list[Outcome]()
        parts = list(zip(Release(pieces, before).parts(cuts), stops, strict=True))
        letters = list[DeadLetter]()
        for part, stop in parts[0 if parts[0][0].n or not cuts else 1 :]:
            drifts, at = self._follow(piece.part(at, stop), sharing, letters), stop
            outcome = self._step(part)
            n_settled = len(drifts) + outcome.n_settled if outcome.ids else 0
            outcomes.append(outcome._replace(drifts=[*drifts, *outcome.drifts], n_settled=n_settled))
        stop = next((i for i in waits if i >= at), None)
        drifts = self._follow(piece.part(at, stop), sharing, letters)
        self._held = empty_piece() if stop is None else piece.part(stop)
        last = outcomes[-1]
        rejected = {**last.rejected, **by_topic(letters)} if self.tells else last.rejected
        outcomes[-1] = last._replace(drifts=[*last.drifts, *drifts], rejected=rejected)
        return together(outcomes)

    def obey_all(self) -> None:
        """Take what waits for the next instance, where none will come: to see that replicas are equal."""
        if self.sharing is not None:
            held, self._held = self._held, empty_piece()
            self._follow(held, self.sharing, [])

    def _follow(self, piece: Piece, sharing: Sharing, letters: list[DeadLetter]) -> list[DriftRecord]:
        """Have the models learn records of the log, and come to their place."""
        lineup = sharing.lineup
        lineup.follow(piece)
        news, lineup.news = lineup.news, []
        return self._catch_up(news, sharing, letters)

    def _catch_up(self, news: Sequence[News], sharing: Sharing, letters: list[DeadLetter]) -> list[DriftRecord]:
        """Come to the place of the models, right before an instance is predicted; the events of drift that this
        partition tells. news : what has happened on the way. letters : takes records that are none, and commands."""
        lineup, drifts = sharing.lineup, list[DriftRecord]()
        for one in news:
            if isinstance(one, DeadLetter):
                letters.append(one)
            elif isinstance(one, Forgotten):
                self.past.forget(one.key, one.hashed, self.pending)
            elif isinstance(one, Obeyed):
                self.promotion.due += [] if one.due is None else [one.due]
            elif isinstance(one, Learned):
                self._note_promotions(one.decided)
                drifts += self.drift.events_of_all(one.findings, one.times) if self.tells else []
            else:
                one(self.servings)
        sharing.follow()
        self.promotion.models = lineup.learners()
        self.places[LEARNED] = lineup.place
        if lineup.last is not None:
            self.last_taken[LEARNED] = lineup.last
        self.fit_schema()
        return drifts

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

    def decode_features(self, raw: RawBatch, of_models: bool = False) -> Features:
        """Feature records, with a column for each feature that there ever was.

        of_models : with codes of what the models know, and not this partition, where partitions share these.
        """
        values, classes = (self.vocabularies, self.classes) if of_models else self.decoding
        if self._present is None:
            return self.codec.decode_features(raw, values, classes)
        found = self.codec.decode_features(raw, [values[j] for j in self._present], classes)
        x = np.full((len(found.x), len(values)), np.nan)
        x[:, self._present] = found.x
        return found._replace(x=x)

    def _predicted(self, piece: Piece) -> NDArray[np.bool_]:
        """Which of the feature records are not rejected. Values and classes stay as they are known."""
        return self._accepted(piece, self.spec, self.codec)

    def _suits(self, piece: Piece, files: Sequence[Spec]) -> bool:
        """Whether none of these stream files, which commands bring, rejects a feature record. A command takes effect
        before an instance that is predicted after it, since that records where it did."""
        return all(bool(self._accepted(piece, spec, spec.make_codec())[0]) for spec in files)

    def _accepted(self, piece: Piece, spec: Spec, codec: Codec) -> NDArray[np.bool_]:
        values, classes = self.decoding
        vocabularies = [v for v in (*values, classes) if v is not None]
        known = [vocabulary.state() for vocabulary in vocabularies]
        columns, there = present(spec), [*values, *spec.vocabularies()[len(values) :]]
        chosen = there if columns is None else [there[j] for j in columns]
        position = codec.decode_features(piece.raw, chosen, classes).position
        for vocabulary, state in zip(vocabularies, known, strict=True):
            vocabulary.restore(state)
        accepted = np.full(len(piece.offsets), position is None)
        if position is not None:
            accepted[position] = True
        return accepted

    def _step(self, release: Release) -> Outcome:
        started = time.perf_counter()
        classes = self.decoding[1]
        known = None if classes is None else classes.state()
        features = self.decode_features(release.pieces[FEATURES].raw)
        labels = self.codec.decode_labels(release.piece(LABELS).raw, classes)
        if (
            known is not None
            and len(classes or ()) > len(known)
            and features.y is not None
            and LABELS in release.before
            and release.before[LABELS].any()
        ):
            # Codes of classes go by first sight in the merged order, but here new ones came from both topics, one
            # decoded after the other. It is rare, so it may be slow: take the batch apart.
            classes.restore(known)  # type: ignore[union-attr]
            return together([self._step(part) for part in release.runs()])
        return self.apply(features, labels, release, time.perf_counter() - started)

    def apply(self, features: Features, labels: Labels, release: Release, decode_seconds: float = 0.0) -> Outcome:
        """Predict, join and learn a decoded batch.

        Parameters
        ----------
        features, labels : decoded records of `release`; rejected ones are left out of their columns.
        release : the same records as they stand in their topics: offsets, times, interleaving.
        """
        f_piece, l_piece = release.pieces[FEATURES], release.piece(LABELS)
        offsets, keys, stamps = f_piece.offsets, f_piece.raw.keys, f_piece.stamps
        headers = f_piece.raw.headers
        labels_before = release.before.get(LABELS)
        if labels_before is None:
            labels_before = np.zeros(len(offsets), np.int64)
        next_offsets = self._next_offsets(release)
        times, label_times = self.clocks[FEATURES].advance(stamps), self.clocks[LABELS].advance(l_piece.stamps)
        if features.position is not None:
            kept = np.array(features.position, dtype=np.int64)
            offsets, times, stamps, labels_before = offsets[kept], times[kept], stamps[kept], labels_before[kept]
            next_offsets = {role: found[kept] for role, found in next_offsets.items()}
            keys = [keys[i] for i in features.position]
            headers = None if headers is None else [headers[i] for i in features.position]
        if labels.position is not None:
            kept = np.array(labels.position, dtype=np.int64)
            label_times = label_times[kept]
            labels_before = np.searchsorted(kept, labels_before, side="left").astype(np.int64)
        if self.sharing is None:
            self.lineup.fit_schema()
            self.fit_schema()
            self.promotion.models = self.lineup.learners()
        else:
            self.sharing.count_width()
        self._note_seen(features.x)
        joined = self.pending.join(
            features.ids,
            features.x,
            times,
            features.y,
            labels.ids,
            labels.y,
            label_times,
            labels_before,
            features.sizes,
        )
        of_labels = None if self.sharing is None else self.sharing.lineup.keys
        features = self.past.observe(features, joined, self.pending, times, stamps, of_labels)
        started = time.perf_counter()
        program, findings = joined.program, list[Finding]()
        learns = len(program.op) > len(joined.predicted)
        joint, decisions, served = None, list[PromotionDecision](), list(self.servings.values())
        draws = None if self.spec.predictions.reasons is None else keys_of(features.ids)
        if self.sharing is not None:
            scored = self._predict(features, joined, self.sharing, draws)
            joint = self.sharing.joint(program, served)
        else:
            scored = program
            weighted = self.lineup.stakes.weighted(program)
            for name, role in self.roles.items():
                serving = self.servings[name]
                findings += role.run(weighted, serving.begin_reasons(weighted, draws))
                serving.calibrate(program)
                serving.decide(program)
                if learns:
                    role.score(program)
                serving.estimate(program)
            if learns:
                decisions = self.lineup.comparing.score(program, self.pending.counts["joined"])
        said = {one: one.predictions.take(joined.predicted, axis=0) for one in served}
        named = {one: one.named[joined.predicted, :1] for one in served if one.decision is not None}
        led = [(one.place + 1, self.servings[one.role.name]) for one in decisions if one.promoted]
        if self.sharing is None:
            self.intervals.run(scored, [(0, self.servings[CHAMPION]), *led])
        else:
            self._run_intervals(scored)
        self.promotion.begin(self.servings)
        findings, decided = self.lineup.carry_out(decisions, findings)
        self.promotion.note(decided, program)
        findings += self.drift.watch_features(program, features.x, features.sizes)
        predictions = self.promotion.predictions(said)
        findings += self.drift.watch_distributions(program, features.x, predictions[CHAMPION])
        known = np.where(times, times, stamps)  # the first records of a topic come before its time
        drifts, n_settled = self.drift.events_of(program, findings, offsets, next_offsets[LABELS], known)
        kernel_seconds = time.perf_counter() - started
        for log, piece in release.pieces.items():
            self._take(log, piece)
        self.n_instances += len(features.ids)
        self.n_labels += len(labels.ids)
        return Outcome(
            ids=features.ids,
            keys=keys,
            offsets=offsets,
            next_offsets=next_offsets,
            p=self._withheld(predictions),
            waited=joined.waited,
            feature_times=np.maximum(times, stamps),
            n_labels=len(labels.ids),
            rejected={
                FEATURES: dead_letters(features.rejected, f_piece),
                LABELS: dead_letters(labels.rejected, l_piece),
            },
            decode_seconds=decode_seconds,
            kernel_seconds=kernel_seconds,
            drifts=drifts,
            n_settled=n_settled,
            headers=headers,
            ignored=[one.reason for one in (*features.rejected, *labels.rejected) if one.ignored],
            lineups=self.promotion.lineups,
            events=self.promotion.tell(offsets, next_offsets[LABELS], known, self.tells),
            decided=self.promotion.predictions(named) if named else {},
            regions=self.intervals.said(joined.predicted, self.lineup.steering.paused),
            reasons=self._reasons(len(features.ids)),
            joint=[] if joint is None else [joint],
            made=features.x[:, self.past.columns] if self.past.columns else None,
        )

    def _withheld(self, p: dict[str, Floats]) -> dict[str, Floats]:
        """What is told of predictions, by role: nothing known, as a codec writes it, where they are paused."""
        if not self.lineup.steering.paused:
            return p
        nothing = np.nan if self.spec.task in UNDECIDED else 0.0
        return {role: np.full_like(made, nothing) for role, made in p.items()}

    def _reasons(self, n: int) -> Floats | None:
        """Of the n predictions of the last program, those of the model that was the champion then."""
        if self.spec.predictions.reasons is None:
            return None
        most = self.spec.predictions.reasons.top
        flat = {
            one: np.full((n, 2 * most), np.nan)
            if one.reasons is None or self.lineup.steering.paused
            else one.reasons.found.reshape(n, 2 * most)
            for one in self.servings.values()
        }
        return self.promotion.predictions(flat)[CHAMPION].reshape(n, most, 2)

    def _predict(
        self, features: Features, joined: Joined, sharing: Sharing, draws: NDArray[np.uint64] | None
    ) -> Program:
        """Predict by the models that all partitions learn. Returns the program, as what the predictions are held
        against has to see it."""
        x = sharing.translated(features.x)
        roles = self.roles if len(joined.predicted) else {}  # else the models may be learning, for another partition
        for name, role in roles.items():
            self.servings[name].predict(role, x, joined.predicted)
        sharing.predicted(joined.predicted)
        scored = sharing.scored(joined.program)
        for name, serving in self.servings.items():
            serving.calibrate(scored)
            serving.decide(scored)
            serving.reasons = None
            if name in roles:
                serving.explain(roles[name], x, joined.predicted, draws)
            serving.estimate(scored)
        return scored

    def _run_intervals(self, scored: Program) -> None:
        """A label is held against who was the champion at the last prediction before it: of a promotion in the log of
        all partitions only the next prediction records that it was before it."""
        champion = self.servings[CHAMPION]
        if self.spoke is None:
            self.intervals.run(scored, [(0, champion)])
            return
        predicted = np.flatnonzero(scored.op == PREDICT)
        first = int(predicted[0]) if len(predicted) else len(scored.op)
        self.intervals.run(scored, [(0, self.spoke), (first, champion)])
        if len(predicted):
            self.spoke = None

    def _next_offsets(self, release: Release) -> dict[str, Ints]:
        """Role of every other input log -> its next place when each feature record is predicted.

        That of the labels says which version of the model made a prediction.
        """
        if not len(release.pieces[FEATURES].offsets):
            return {role: EMPTY for role in self.rules if role != FEATURES}
        found = {}
        for role in self.rules:
            place, piece = self.places[role], release.piece(role)
            if role in release.before and len(piece.offsets):
                places = np.empty(len(piece.offsets) + 1, np.int64)
                places[0], places[1:] = place, piece.after()
                found[role] = places.take(release.before[role])
            elif role != FEATURES:
                found[role] = np.full(len(release.pieces[FEATURES].offsets), place)
        return found

    def _take(self, role: str, piece: Piece) -> None:
        """Records of an input log were applied."""
        if len(piece.offsets):
            self.places[role] = piece.end
            raw, value = piece.raw, piece.raw.values[-1]
            value = value.value if isinstance(value, Packed) else value
            offset = offset_of(int(raw.offsets[-1]), self.bits[role])
            self.last_taken[role] = offset, int(raw.timestamps[-1]), raw.keys[-1], value

    def buffers(self) -> dict[str, RecordQueue]:
        """Role of each input log -> where its next records wait for the merge."""
        return {
            role: RecordQueue(
                self.places[role],
                self.clocks[role].time,
                self.clocks[role].stamps,
                rule,
                self.bits[role],
                partial(self.codec.unpack, role) if self.bits[role] else None,
            )
            for role, rule in self.rules.items()
            if role in (LEARNED, *(log.role for log in self.spec.inputs))
        }

    def encode(self, outcome: Outcome, start: int = 0) -> Sequence[bytes]:
        """The prediction records of an outcome, from number `start` on, as the stream file asks for them."""
        if not outcome.ids:
            return []
        parts = [self.codec.encode_predictions(part) for part in columns_of(self, outcome, start)]
        return chained(parts)[0]  # type: ignore[no-any-return]

    def pack(self, outcome: Outcome, start: int, room: int) -> list[bytes] | None:
        """The same as records of many predictions, of at most `room` bytes each. None where they cannot be made so."""
        made = [self.codec.pack_predictions(room, part) for part in columns_of(self, outcome, start)]
        return None if None in made else [one for records in made for one in records or ()]

    @property
    def n_bytes(self) -> dict[str, int]:
        """Bytes of state by part: each model, the pending store, and what watches for drift, with models on trial."""
        parts = {name: role.model.n_bytes for name, role in self.roles.items()}
        in_common = 0 if self.sharing is None else self.sharing.lineup.keys.n_bytes
        keys = {"keys": self.past.n_bytes + in_common} if self.spec.keys else {}
        return {**parts, "pending": self.pending.n_bytes, "drift": self.drift.n_bytes, **keys}

    def figures(self) -> Figures:
        """Metrics and sizes as they stand. Call it between steps."""
        leaps = (sum(clock.leaps[i] for clock in self.clocks.values()) for i in range(2))
        # Where what commands have changed is not taken over yet, a partition serves others than there are.
        roles = {name: role for name, role in self.roles.items() if name in self.servings}
        overall = {name: self.servings[name].overall(role.metrics) for name, role in roles.items()}
        recent = {name: self.servings[name].recent(role.metrics) for name, role in roles.items()}
        overall[CHAMPION] |= self.intervals.metrics()
        recent[CHAMPION] |= self.intervals.windowed()
        return Figures(
            offset=self.offsets[FEATURES],
            label_offset=self.offsets[LABELS],
            feature_index=index_of(self.places[FEATURES], self.bits[FEATURES]),
            label_index=index_of(self.places[LABELS], self.bits[LABELS]),
            n_instances=self.n_instances,
            n_labels=self.n_labels,
            n_waiting=self.pending.n_waiting,
            n_labels_waiting=self.pending.n_labels_waiting,
            counts=self.pending.counts | dict(zip(LEAPS, leaps, strict=True)),
            n_bytes=self.n_bytes,
            overall=overall,
            recent=recent,
            sizes={name: {**role.model.size(), "n_bytes": role.model.n_bytes} for name, role in roles.items()},
            compared=self.lineup.comparing.figures(),
            estimated={name: one.estimated() for name, one in self.servings.items()},
            by_class={name: self._by_class(name, role.metrics) for name, role in roles.items()},
            distances=self.drift.distances(),
            learned_offset=self.places[LEARNED] if self.sharing is not None and self.tells else 0,
        )

    def told(self) -> Figures:
        """`figures` without what another partition tells of the models that all of them learn."""
        found = self.figures()
        if self.tells:
            return found
        overall, recent = ({role: _own(of) for role, of in one.items()} for one in (found.overall, found.recent))
        return found._replace(overall=overall, recent=recent, sizes={}, compared={}, by_class={})

    def _by_class(self, name: str, metrics: Prequential) -> dict[str, dict[str, float]]:
        found, texts = metrics.recent_by_class(), LABELS_OF_ANOMALIES
        if name == CHAMPION:
            coverage = self.intervals.recent_by_class()
            found = {k: one | ({"coverage": coverage[k]} if k in coverage else {}) for k, one in found.items()}
        if self.classes is not None:
            texts = self.classes.texts
        return {texts[k]: one for k, one in found.items() if k < min(MOST_CLASSES, len(texts))}


def _own(scores: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in scores.items() if name in OWN}
