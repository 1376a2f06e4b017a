"""The learner of one partition: everything between a released batch and its outcome, pure (no Kafka, no asyncio).

A fold over the one order of its input logs: predict each instance when its features come, learn it when its label
comes, score the prediction that was really made. The worker and the offline evaluation both call `apply`, so they
agree to the last bit.

Here is what follows from the partition's own records: their order, decoding, the join, and all of it as a state. Its
models, and what stands beside them, are `app.partition.learning`.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from riparian.app.errors import StateError
from riparian.app.partition.arrays import over, under
from riparian.app.partition.changes import ARITHMETIC, LEARNING, next_origin, reconcile
from riparian.app.partition.join.ids import Hashes, Ints
from riparian.app.partition.join.label_delays import LabelDelays, alone, apart
from riparian.app.partition.join.pending import PendingStore
from riparian.app.partition.join.series import Follow
from riparian.app.partition.joint_work import FEW, JointWork
from riparian.app.partition.keys.past import AHEAD_MS, Past, moments_of
from riparian.app.partition.learning import JoinedBatch, Learning, OwnLearning, Ran, Stages, unlabelled_of
from riparian.app.partition.lineup.lineup import Lineup, ModelsOfState
from riparian.app.partition.lineup.model_commands import FILES
from riparian.app.partition.lineup.model_slot import ModelSlot
from riparian.app.partition.outcome import Figures, MovedLabel, Outcome, dead_letters, together
from riparian.app.partition.predictions.joint_encoding import Unencoded
from riparian.app.partition.predictions.prediction_columns import columns_of
from riparian.app.partition.predictions.reasons import keys_of
from riparian.app.partition.records import clock
from riparian.app.partition.records.clock import LEAPS
from riparian.app.partition.records.decoder import MOST_TEXTS, PartitionDecoder
from riparian.app.partition.records.inputs import Mark
from riparian.app.partition.records.joint_decoding import Undecoded
from riparian.app.partition.records.log_positions import LogPositions
from riparian.app.partition.records.partition_group import Piece, RecordQueue, Release
from riparian.app.partition.shared.sharing import SharedLearning
from riparian.app.partition.state import GO_BACK, Snapshot, digest, reading
from riparian.app.stream_file.lineup import RUNS
from riparian.app.stream_file.sections.keys import past_width
from riparian.app.stream_file.sections.learning import PARTITION, SHARED
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import Floats, Schema
from riparian.models.evaluation.prequential import MOST_CLASSES, Prequential
from riparian.models.opinion_pool.opinion_pool import OpinionPool
from riparian.topics.codecs import Codec
from riparian.topics.names import CHAMPION, FEATURES, LABELS
from riparian.topics.places import index_of
from riparian.topics.prediction_columns import PredictionColumns
from riparian.topics.records import MULTI_INSTANCE, Features, Labels
from riparian.topics.records import VALUES as UNDECIDED
from riparian.topics.slices import chained

LABELS_OF_ANOMALIES = ["0", "1"]  # as other labels' texts are; figures of the alerts are those of the second
# Scores of a partition by its own labels, also where all partitions learn one model.
OWN = {"calibration_error", "threshold", "coverage", "interval_width", "set_size"}

KINDS: Mapping[str, type[Learning]] = {PARTITION: OwnLearning, SHARED: SharedLearning}  # `learning` -> whose models


def kind_of(meta: Mapping[str, Any]) -> type[Learning]:
    """How the partition has had models whose state it is."""
    return KINDS[(meta.get("settings") or {}).get(LEARNING, PARTITION)]


def early_labels(learners: Iterable["PartitionLearner"]) -> str | None:
    """A sentence where labels of one class come much earlier than those of another, or alone, and nothing has them
    wait. The stream's own labels cannot."""
    found = [one for one in learners if one.spec.label.of is None and one.decoder.classes is not None]
    waiting = [one for one in found if one.spec.join.unlabelled is None]
    delays = [(one.delays, [] if one.decoder.classes is None else one.decoder.classes.texts) for one in waiting]
    without = sum(one.n_without - one.n_without_before for one in waiting)
    return apart(delays, waiting[0].spec.join.horizon) or alone(delays, without) if waiting else None


class Part(NamedTuple):
    """Of a batch: features start to stop, and operations at to end of its program."""

    start: int
    stop: int
    at: int
    end: int


class PartitionLearner:
    """Predicts, learns and scores what a partition's merge releases.

    Parameters
    ----------
    spec : Spec
        The stream file.
    partition : int
        Added to the stream file's seed, so that partitions with models of their own differ.
    shared : type
        By what the partition learns models of all partitions, where the stream file asks for these.

    Attributes
    ----------
    delays : LabelDelays
        Of labels that came since this was made.
    n_without_before : int
        Records that had left without a label when this was made.
    files : list
        Digests of the files that it has gone on with, as it began with the first.
    origin : list of int, optional
        Where the state last ceased to be a fold of all records before by this stream file: feature offset, label
        offset, and how often that happened. None where it never did.
    grown : tuple of int, optional
        Where the partition was added to a stream that had begun: to how many others, and until when, in ms, labels come
        of instances that wait in these.
    """

    def __init__(self, spec: Spec, partition: int = 0, shared: type[SharedLearning] = SharedLearning) -> None:
        self.partition, self._kinds = partition, {**KINDS, SHARED: shared}
        self.files = [spec.digests()]
        self._begin(spec)

    def _begin(self, spec: Spec) -> None:
        """Know nothing yet, by this stream file."""
        kind = self._kinds[spec.learning.kind]
        self.decoder = decoder = PartitionDecoder(spec, self.partition)
        self.logs = logs = LogPositions(spec, self.partition, decoder.codec, kind.rules)
        self.rules, self.bits, self.places, self.clocks = logs.rules, logs.bits, logs.places, logs.clocks
        self.n_instances = self.n_labels = 0
        self.n_met = 0  # of these labels, since the state was loaded, those that met their instance
        self.delays, self.n_without_before = LabelDelays(), 0
        self.origin: list[int] | None = None
        self.grown: tuple[int, int] | None = None
        self.past = Past(spec, kind.whole)
        self.pending = PendingStore(
            len(decoder.values),
            dict.fromkeys(spec.models(), 1 if decoder.classes is None else max(2, decoder.classes.capacity)),
            horizon=spec.join.horizon,
            max_pending=spec.most_waiting,
            max_labels=spec.join.max_labels,
            max_bytes=spec.join.max_pending_bytes,
            bags=spec.task == MULTI_INSTANCE,
            remembers=spec.remembers,
            made=self.past.columns,
            past_width=past_width(spec),
            unlabelled=unlabelled_of(spec),
            corrects=spec.label.on_repeat == "correct",
            ahead_ms=None if spec.label.ahead is None else int(spec.label.ahead * 1000),
        )
        self.learning = learning = kind(spec, self.partition, self.pending, self.past, decoder, logs)
        self.vocabularies, self.classes = learning.vocabularies, learning.classes
        self.servings, self.intervals, self.segments = learning.servings, learning.intervals, learning.segments
        self.drift, self.promotion = learning.drift, learning.promotion

    @property
    def lineup(self) -> Lineup:
        """The models, of one log of labelled instances."""
        return self.learning.lineup

    @property
    def spec(self) -> Spec:
        """The stream with the models and settings of now."""
        return self.lineup.spec

    @property
    def roles(self) -> dict[str, ModelSlot]:
        """Name of a model -> it."""
        return self.lineup.roles

    @property
    def schema(self) -> Schema:
        """What the models have room for."""
        return self.lineup.schema

    @property
    def codec(self) -> Codec:
        """Of the records of now."""
        return self.decoder.codec

    @property
    def offsets(self) -> dict[str, int]:
        """Role of each input log -> Kafka's offset of the record that holds the next instance."""
        return self.logs.offsets

    @property
    def n_without(self) -> int:
        """Records that have left without a label since the stream began."""
        return self.pending.counts["expired"] + self.pending.counts["evicted"]

    def warm_up(self) -> None:
        """Compile the kernels, or load them from the cache, before the first record."""
        self.learning.warm_up()
        clock.warm_up()
        self.pending.warm_up()
        self.past.warm_up()
        self.codec.warm_up()

    def buffers(self) -> dict[str, RecordQueue]:
        """Role of each input log -> where its next records wait for the merge."""
        return self.logs.queues(self.codec)

    # -- a step ------------------------------------------------------------------------------------------------

    def step(self, release: Release) -> Outcome:
        """Decode and apply a release of the merge."""
        stages = self.stages(release)
        while True:
            try:
                next(stages)
            except StopIteration as end:
                outcome: Outcome = end.value
                return outcome

    def stages(self, release: Release, decoding: JointWork[Undecoded] | None = None) -> Stages[Outcome]:
        """As `step`, in stages: decoding, joining, the models, the outcome. Take no other step before they have ended.
        decoding : with others that take theirs at the same time."""
        with closing(self.learning.parts(release)) as parts:
            part = next(parts)
            while True:
                undecoded = None if decoding is None else decoding.wait(Undecoded.of(self.decoder, part))
                if undecoded is not None:
                    yield 0.0
                started = time.perf_counter()
                found = None if decoding is None or undecoded is None else decoding.do(undecoded).found
                features, labels = found or self._decoded_in_order(part)
                share = 0.0 if undecoded is None else undecoded.seconds
                seconds = time.perf_counter() - started + share
                yield share
                batch = self._joined(features, labels, part, seconds)
                asked = self.learning.ask(batch)
                yield 0.0
                started = time.perf_counter()
                ran = self.learning.run(batch, asked)
                share = 0.0 if asked is None else asked.seconds
                seconds = time.perf_counter() - started + share
                yield share
                outcome = self.finish(batch._replace(started=time.perf_counter() - seconds), ran)
                try:
                    part = parts.send(outcome)
                except StopIteration as end:
                    return together(end.value)

    def apply(self, features: Features, labels: Labels, release: Release) -> Outcome:
        """Predict, join and learn a decoded batch.

        Parameters
        ----------
        features, labels : decoded records of `release`; rejected ones are left out of their columns.
        release : the same records as they stand in their topics: offsets, times, interleaving.
        """
        batch = self._joined(features, labels, release, 0.0)
        return self.finish(batch, self.learning.run(batch))

    def join(self, release: Release) -> JoinedBatch:
        """Decode a release, and join it: nothing of it is predicted or learned yet."""
        started = time.perf_counter()
        features, labels = self._decoded_in_order(release)
        return self._joined(features, labels, release, time.perf_counter() - started)

    def _decoded_in_order(self, release: Release) -> tuple[Features, Labels]:
        classes = self.decoder.classes
        known = None if classes is None else classes.state()
        features, labels = self._decoded(release)
        if (
            classes is not None
            and len(classes) > len(known or ())
            and features.y is not None
            and LABELS in release.before
            and release.before[LABELS].any()
        ):
            # Codes of classes go by first sight in the merged order, but here new ones came from both topics, one
            # decoded after the other. It is rare, so it may be slow.
            classes.restore(known or [])
            for run in release.runs():
                self._decoded(run)
            features, labels = self._decoded(release)
        return features, labels

    def _decoded(self, release: Release) -> tuple[Features, Labels]:
        return self.decoder.features(release.pieces[FEATURES].raw), self.decoder.labels(release.piece(LABELS).raw)

    def _joined(self, features: Features, labels: Labels, release: Release, decode_seconds: float) -> JoinedBatch:
        """Rejected records of `release` are left out of the columns of features and labels."""
        f_piece, l_piece = release.pieces[FEATURES], release.piece(LABELS)
        offsets, keys, stamps = f_piece.offsets, f_piece.raw.keys, f_piece.stamps
        headers = f_piece.raw.headers
        labels_before = release.before.get(LABELS)
        if labels_before is None:
            labels_before = np.zeros(len(offsets), np.int64)
        next_offsets = self.logs.next_places(release)
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
        self.learning.fit()
        self.decoder.note_seen(features)
        hashes = self.past.hashes(features, self.decoder.keys)
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
            self._follow(features, times, stamps, hashes),
        )
        moved = self._moved(labels, label_times, l_piece)
        if self.decoder.classes is not None and joined.came:
            self.delays.note(joined.events, joined.waited, self.pending.now)
        features = self.past.observe(features, joined, self.pending, times, stamps, hashes, self.learning.label_past)
        draws = None if self.spec.predictions.reasons is None else keys_of(features.ids)
        return JoinedBatch(
            release, features, labels, joined, keys, headers, offsets, next_offsets, times, stamps, draws, moved,
            decode_seconds, time.perf_counter(),
        )  # fmt: skip

    def finish(self, batch: JoinedBatch, ran: Ran, part: Part | None = None) -> Outcome:
        """What came of a batch that was predicted and learned. part : None: of all of it."""
        release, features, labels, joined = batch.release, batch.features, batch.labels, batch.joined
        i, stop, at, end = part or (0, len(features.ids), 0, len(joined.program.op))
        whole, last = stop - i == len(features.ids), stop == len(features.ids) and end == len(joined.program.op)
        program, predicted = joined.program, joined.predicted
        if not (whole and end - at == len(program.op)):
            program, predicted = program.part(at, end), predicted[i:stop]
        ids, keys, headers, x, sizes = features.ids, batch.keys, batch.headers, features.x, features.sizes
        offsets, times, stamps, next_offsets = batch.offsets, batch.times, batch.stamps, batch.next_offsets
        if not whole:
            ids, keys, headers = ids[i:stop], keys[i:stop], None if headers is None else headers[i:stop]
            x, sizes = x[i:stop], None
            offsets, times, stamps = offsets[i:stop], times[i:stop], stamps[i:stop]
            next_offsets = {role: found[i:stop] for role, found in next_offsets.items()}
        served = self.servings.values()
        said = {one: one.predictions.take(predicted, axis=0) for one in served}
        named = {one: one.named[predicted, :1] for one in served if one.decision is not None}
        # The first records of a topic come before its time.
        known = times if len(times) and times[0] else np.where(times, times, stamps)
        self.intervals.run(ran.scored, ran.champions)
        self.segments.run(ran.scored, ran.champions, known)
        self.promotion.begin(self.servings)
        findings, decided = self.lineup.carry_out(ran.decisions, ran.findings)
        self.promotion.note(decided, program)
        findings += self.drift.watch_features(program, x, sizes)
        predictions = self.promotion.predictions(said)
        findings += self.drift.watch_distributions(program, x, predictions[CHAMPION])
        drifts, n_settled = self.drift.events_of(program, findings, offsets, next_offsets[LABELS], known)
        f_piece, l_piece = release.pieces[FEATURES], release.piece(LABELS)
        rejected = (features.rejected, labels.rejected) if last else ([], [])
        if last:
            for log, piece in release.pieces.items():
                self.logs.take(log, piece)
            self.n_instances += len(features.ids)
            self.n_labels += len(labels.ids)
            self.n_met = self.pending.n_met
        return Outcome(
            ids=ids,
            keys=keys,
            offsets=offsets,
            next_offsets=next_offsets,
            p=self._withheld(predictions),
            waited=joined.waited if last else joined.waited[:0],
            feature_times=np.maximum(times, stamps),
            n_labels=len(labels.ids) if last else 0,
            rejected={FEATURES: dead_letters(rejected[0], f_piece), LABELS: dead_letters(rejected[1], l_piece)},
            decode_seconds=batch.decode_seconds if last else 0.0,
            kernel_seconds=time.perf_counter() - batch.started if last else 0.0,
            drifts=drifts,
            n_settled=n_settled,
            headers=headers,
            ignored=[one.reason for one in (*rejected[0], *rejected[1]) if one.ignored],
            lineups=self.promotion.lineups,
            events=self.promotion.take_events(offsets, next_offsets[LABELS], known, self.learning.reports_models),
            decided=self.promotion.predictions(named) if named else {},
            regions=self.intervals.regions(predicted, self.lineup.steering.paused),
            reasons=self._reasons(stop - i),
            joint=ran.joint,
            made=x[:, self.past.columns] if self.past.columns else None,
            moved=batch.moved if last else [],
        )

    def _follow(self, features: Features, times: Ints, stamps: Ints, hashes: Mapping[str, Hashes]) -> Follow | None:
        """What the records are to those of their key that wait, where the label is to come from the stream itself."""
        label, ahead = self.spec.label, self.pending.ahead_ms
        if label.of is None or ahead is None:
            return None
        y = features.x[:, list(self.spec.features).index(label.of)]
        if label.above is not None:
            y = np.where(np.isnan(y), np.nan, y > label.above)
        keys = np.ones((len(y), 2), np.uint64) if label.by is None else hashes[label.by]
        return Follow(moments_of(times, stamps, max(AHEAD_MS, 3 * ahead))[1], keys, np.array(y, np.float64))

    def _moved(self, labels: Labels, times: NDArray[np.int64], piece: Piece) -> list[MovedLabel]:
        """Labels of a batch that still wait, and whose instances may wait where their keys went before."""
        if self.grown is None or self.spec.labels_everywhere or self.bits[LABELS]:
            return []
        if not len(times) or times[0] > self.grown[1]:
            return []
        raw, found = piece.raw, np.flatnonzero(self.pending.early(labels.ids) & (times <= self.grown[1]))
        places = found if labels.position is None else np.array(labels.position, np.int64)[found]
        ids = [labels.ids[i].encode("utf-8", "surrogatepass") for i in found.tolist()]
        of_copies = LABELS in self.spec.copied  # which lie by their ids
        return [
            MovedLabel(
                *(by, raw.keys[i], raw.values[i], int(raw.timestamps[i])),
                headers=() if raw.headers is None else raw.headers[i],
            )
            for i, id_ in zip(places.tolist(), ids, strict=True)
            if (by := id_ if of_copies else raw.keys[i]) is not None
        ]

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

    # -- what is told ------------------------------------------------------------------------------------------

    def encode(self, outcome: Outcome, start: int = 0) -> Sequence[bytes]:
        """The prediction records of an outcome, from number `start` on, as the stream file asks for them."""
        if not outcome.ids:
            return []
        parts = [self.codec.encode_predictions(part) for part in self._columns(outcome, start)]
        return chained(parts)[0]  # type: ignore[no-any-return]

    def unencoded(self, outcome: Outcome) -> Unencoded | None:
        """All of an outcome, to be encoded with others; None where more is told than what one model predicted, or
        nothing, or of many."""
        if not 0 < len(outcome.ids) <= FEW:
            return None
        told, classes = outcome.lineups, [] if self.classes is None else self.classes.values
        besides = outcome.regions is not None or outcome.reasons is not None or outcome.made is not None
        if besides or outcome.decided or len(told) != 1 or len(told[0].roles) != 1 or len(classes) > MOST_TEXTS:
            return None
        plain = self.codec.join_predictions is None and not any(self.bits.values())
        # As bytes, which tell 1, 1.0 and "1" apart: a class is written in the form in which it came first.
        names = msgspec.msgpack.encode(classes)
        like = id(self.spec), told[0], outcome.p[CHAMPION].shape[1], names
        return Unencoded(self.encode, outcome, like) if plain else None

    def _columns(self, outcome: Outcome, start: int) -> list[PredictionColumns]:
        return columns_of(self.spec, self.classes, self.bits, outcome, start)

    def pack(self, outcome: Outcome, start: int, room: int) -> list[bytes] | None:
        """Encode it as records of many predictions, of at most `room` bytes each. None where they cannot be made so."""
        made = [self.codec.pack_predictions(room, part) for part in self._columns(outcome, start)]
        return None if None in made else [one for records in made for one in records or ()]

    @property
    def n_bytes(self) -> dict[str, int]:
        """Bytes of state by part: each model, the pending store, and what watches for drift, with models on trial."""
        return {**self.learning.n_bytes(), "pending": self.pending.n_bytes}

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
            learned_offset=self.learning.learned_place,
            scored_until=self.pending.scored_until,
            segments=self.segments.figures(),
            members={
                name: role.model.weights if isinstance(role.model, OpinionPool) else {} for name, role in roles.items()
            },
        )

    def reported(self) -> Figures:
        """`figures` without what another partition tells of the models that all of them learn."""
        found = self.figures()
        if self.learning.reports_models:
            return found
        overall, recent = ({role: _own(of) for role, of in one.items()} for one in (found.overall, found.recent))
        return found._replace(overall=overall, recent=recent, sizes={}, compared={}, by_class={}, members={})

    def _by_class(self, name: str, metrics: Prequential) -> dict[str, dict[str, float]]:
        found, texts = metrics.recent_by_class(), LABELS_OF_ANOMALIES
        if name == CHAMPION:
            coverage = self.intervals.recent_by_class()
            found = {k: one | ({"coverage": coverage[k]} if k in coverage else {}) for k, one in found.items()}
        if self.classes is not None:
            texts = self.classes.texts
        return {texts[k]: one for k, one in found.items() if k < min(MOST_CLASSES, len(texts))}

    # -- state -------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Everything that is known at these offsets, whole. Its arrays are live: use them before the next step."""
        waiting = over("pending/", self.pending.state()) | self.learning.key_state()
        return Snapshot(self._meta(), self._arrays() | waiting)

    def checkpoint(self) -> Snapshot:
        """As `snapshot`, with what changed since the last call of what waits and of keys, instead of all of it."""
        changed, touched, arrays = self.pending.checkpoint(), self.learning.key_checkpoint(), self._arrays()
        waiting = {"instances": self.pending.n_waiting, "labels": self.pending.n_labels_waiting}
        kept = [*(f"pending/{field}" for field in changed.kept), *touched.kept]
        frozen = over("pending/", changed.arrays) | touched.arrays
        common = {name for name in arrays if name.startswith(self.learning.held)}
        return Snapshot({**self._meta(), "waiting": waiting}, arrays, frozen, kept, common)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Live arrays of all but the pending store."""
        values = msgspec.msgpack.encode([None if v is None else v.state() for v in self.decoder.values])
        return self.learning.state() | {"vocabularies": np.frombuffer(values, dtype=np.uint8)}

    def _meta(self) -> dict[str, Any]:
        """Whatever is no array: places, clocks, classes, what the models are and what the stream file said."""
        of_models = self.learning.meta(self.files)
        return {
            "models": of_models.pop("models"),
            "classes": None if self.decoder.classes is None else self.decoder.classes.state(),
            **self.logs.state(),
            "n_instances": self.n_instances,
            "n_labels": self.n_labels,
            "origin": self.origin,
            **({} if self.grown is None else {"grown": list(self.grown)}),
            **of_models,
        }

    def marks(self) -> dict[str, Mark]:
        """Role of an input topic -> mark of the last record taken."""
        return self.logs.marks()

    def comparable(self) -> Snapshot:
        """The snapshot, without arrays whose bytes may differ though equal folds made them."""
        snapshot, left_out = self.snapshot(), self.lineup.incomparable()
        return snapshot._replace(arrays={name: a for name, a in snapshot.arrays.items() if name not in left_out})

    def digest(self, without: tuple[str, ...] = ()) -> str:
        """A hash of all that was learned: equal for equal folds, however they were divided into batches.

        without : what the names of arrays begin with that are left out.
        """
        return digest(self.comparable(), without)

    def restore(self, snapshot: Snapshot, topics: Mapping[str, str] | None = None) -> list[str]:
        """Take the state of `snapshot` into a fresh learner. Returns sentences on what the stream file changed since.

        Parameters
        ----------
        topics : mapping of str to str, optional
            The stream's `input_topics`, where the state must have been made with these.

        Raises
        ------
        StateError
            The stream file has changed in a way that the state does not survive (`app.partition.changes`), or the state
            holds what no version of this program has written.
        """
        with reading(f"the state of partition {self.partition}", GO_BACK):
            return self._restore(snapshot.meta, snapshot.arrays, topics)

    def _restore(
        self, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], topics: Mapping[str, str] | None
    ) -> list[str]:
        file, spec = self.spec, self.spec.adopting(meta)
        if spec is not self.spec:
            self._begin(spec)
        known = msgspec.msgpack.decode(arrays["vocabularies"].tobytes())
        changes = reconcile(file, meta, known, topics)
        if changes.refused:
            said = "; also, ".join(changes.refused)
            raise StateError(
                f"the state of partition {self.partition} does not fit the stream {self.spec.name}: {said}"
            )
        self.decoder.restore(known, meta["classes"])
        self.logs.restore(meta)
        seeds = self._seeds(meta, self.partition)
        self.learning.restore(ModelsOfState(meta, arrays, changes.takes, seeds, known))
        self.past.restore(under(arrays, "keys/"))
        self.n_without_before = self.n_without
        ran = [list(one) for one in (file.runs_by(meta) or {"files": []})["files"]]
        self.files = ran if file.digests() in ran else [*ran[:1], *ran[1:][-FILES:], file.digests()]
        self.n_instances, self.n_labels = int(meta["n_instances"]), int(meta["n_labels"])
        self.origin = next_origin(meta) if changes.found else meta.get("origin")
        self.grown = tuple(map(int, meta["grown"])) if "grown" in meta else None  # type: ignore[assignment]
        notes = [note for note in (changes.steered, changes.kept) if note]
        return [*notes, *(change.sentence for change in changes.found)]

    def _seeds(self, meta: Mapping[str, Any], partition: int) -> dict[str, int]:
        """Of the models of a state, by role there; early states do not say them. partition : whose state it is."""
        said, known = (meta.get("settings") or {}).get("seed", self.spec.seed), meta.get("seeds") or {}
        usual = kind_of(meta).usual_seed(int(said), partition)
        return dict.fromkeys(meta["models"], usual) | {name: int(seed) for name, seed in known.items()}

    def begin_with(self, snapshot: Snapshot, partition: int) -> list[str]:
        """A fresh learner begins with the models of `snapshot`, of either kind of learning, with the values and classes
        that they know, and with the past of keys: nothing waits, and nothing is scored yet. Returns the roles of the
        models that the state does not have, which begin anew. partition : whose state it is.

        Raises
        ------
        StateError
            The models do not fit the stream file, or the state holds what no version of this program has written.
        """
        with reading("the state"):
            return self._begin_with(snapshot.meta, snapshot.arrays, partition)

    def _begin_with(self, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], partition: int) -> list[str]:
        left = meta.get("steering") or {}
        if "features" in left:
            raise StateError("commands have changed its features, so its models do not have those of a stream file")
        # Which models there are the stream file says, whatever commands and promotions have left.
        meta = {name: value for name, value in meta.items() if name not in ("steering", RUNS)}
        spec = self.spec.adopting(meta)
        if spec is not self.spec:
            self._begin(spec)
        packed, meta["classes"] = kind_of(meta).known(meta, arrays)
        known = msgspec.msgpack.decode(packed.tobytes())
        then = meta.get("settings") or {}
        now = {place: value for place, value in self.lineup.settings.items() if place in (LEARNING, ARITHMETIC)}
        same_kind = {place: value for place, value in then.items() if place != LEARNING} | now
        changes = reconcile(self.spec, meta | {"settings": same_kind}, known)
        if changes.refused:
            raise StateError("; also, ".join(changes.refused))
        state = ModelsOfState(meta, arrays, changes.takes, self._seeds(meta, partition), known)
        self.learning.begin_with(kind_of(meta), state)
        self.origin = next_origin(self._meta())
        return [name for name, source in changes.takes.items() if source is None]

    def begin_beside(self, snapshot: Snapshot, partition: int) -> None:
        """A fresh learner, of a partition that was added, begins with what another one has: where all partitions learn
        one log, as if it had folded that alone; else with the models. partition : whose state it is.

        Raises
        ------
        StateError
            As `restore`, or as `begin_with`.
        """
        led = self.learning.led
        if not led:
            self.begin_with(snapshot, partition)
            return
        with reading("the state"):
            fresh = PartitionLearner(self.spec.adopting(snapshot.meta), self.partition).snapshot()
            arrays = {name: array for name, array in snapshot.arrays.items() if name.startswith(led)}
            arrays |= {name: array for name, array in fresh.arrays.items() if not name.startswith(led)}
            own = {name: fresh.meta[name] for name in ("classes", "n_instances", "n_labels", "origin")}
            meta = {**snapshot.meta, **own, **LogPositions.joined(fresh.meta, snapshot.meta)}
            meta = {name: value for name, value in meta.items() if name not in ("spoke", "grown")}
            self._restore(meta, arrays, None)
            self.drift.begin_anew(self.spec)

    def go_on_at(self, meta: Mapping[str, Any]) -> None:
        """Stand in the topics of features and labels where a state does that has learned them up to there."""
        self.logs.go_on_at(meta)
        self.origin = next_origin(self._meta())


def _own(scores: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in scores.items() if name in OWN}
