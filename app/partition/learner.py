"""The learner of one partition: everything between a released batch and its outcome, pure (no Kafka, no asyncio).

A fold over the one order of its input logs: predict each instance when its features come, learn it when its label
comes, score the prediction that was really made. The worker and the offline evaluation both call `apply`, so they
agree to the last bit. A snapshot is taken between steps, at exactly the next offset of each log.
"""

import hashlib
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from app.errors import RiparianError, StateError
from app.partition.arrays import over, under
from app.partition.changes import DECISION, DETECTORS, DISTRIBUTIONS, next_origin, reconcile, room_of, settings
from app.partition.clock import LEAPS, Clock
from app.partition.comparing import Comparing
from app.partition.deciding import DECIDED, Deciding, decided_name
from app.partition.drift import Drift
from app.partition.inputs import Mark, mark
from app.partition.intervals import Intervals
from app.partition.merge import Buffer, Ints, Piece, Release, empty_piece
from app.partition.outcome import DeadLetter, Figures, Joint, Outcome, dead_letters, together
from app.partition.pending import Joined, PendingStore
from app.partition.promotion import Promotion
from app.partition.reasons import named
from app.partition.role import SAID, Role, kept_names, said_name
from app.partition.sharing import Sharing
from app.partition.steering import Steering
from app.partition.watch import Finding
from app.stream_file.decision_spec import same_costs, same_target
from app.stream_file.spec import Spec
from app.stream_file.spec_parts import AUTO
from models.contract import Floats, Program, Schema
from models.restoring import DamagedError
from topics.codecs import Codec
from topics.commands import EventRecord
from topics.names import (
    AS_IT_COMES,
    BY_TIME,
    CHAMPION,
    CONTROL,
    FEATURES,
    INPUTS,
    LABELS,
    LEARNED,
    place_field,
    state_field,
)
from topics.places import index_of, offset_of, place_of
from topics.records import MULTI_INSTANCE, DriftRecord, Features, Labels, Packed, RawBatch
from topics.slices import chained
from topics.vocabulary import Vocabulary

MOST_PLACES = 2**62
MOST_CLASSES = 20  # of which figures are told
# of a snapshot's meta: how it was learned, not what; and what states of before do not have
SETTINGS = ("settings", "room", "origin", "marks", "auto", "stamps", "leaps")


class Snapshot(NamedTuple):
    """A learner's state at the next offsets of its input logs.

    meta : msgpack-able
    arrays : name -> array
    frozen : arrays that are new and will not change (of the pending store)
    kept : names of frozen arrays of earlier snapshots that still belong to the state
    """

    meta: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    frozen: Mapping[str, NDArray[Any]] = {}
    kept: Sequence[str] = ()


def present(spec: Spec) -> list[int] | None:
    """The columns of the features that records have; None: all."""
    return [j for j, name in enumerate(spec.features) if name not in spec.gone] if spec.gone else None


class PartitionLearner:
    """Models, pending store, vocabularies and metrics of one partition.

    Parameters
    ----------
    spec : Spec
        The stream file.
    partition : int
        Added to the stream file's seed, so that partitions differ.
    """

    def __init__(self, spec: Spec, partition: int = 0) -> None:
        self.spec = spec
        self.partition = partition
        self.codec = spec.make_codec()
        self._present = present(spec)
        self.vocabularies = spec.vocabularies()
        self.classes = spec.class_vocabulary()
        # By role of an input log, that of the labels also where they come inside the feature records.
        self.rules = dict.fromkeys(INPUTS, BY_TIME) | {log.role: log.rule for log in spec.inputs}
        if spec.shares:
            self.rules[LEARNED] = AS_IT_COMES
        # Bits of the index in places, and the next place, of each log.
        self.bits = {role: self.codec.index_bits.of(role) for role in self.rules}
        self.places = dict.fromkeys(self.rules, 0)
        self.clocks = {role: Clock() for role in self.rules}
        self.n_instances = 0
        self.n_labels = 0
        # Where the state last ceased to be a fold of all records before by this stream file: feature offset, label
        # offset, and how often that happened. None where it never did.
        self.origin: list[int] | None = None
        self._settings = settings(spec)
        self._room: Schema | None = None
        self._last: dict[str, tuple[Any, ...]] = {}  # role of an input topic -> its last record taken, or the mark
        self._aside: dict[str, int] = {}  # where a log stands that the stream file has switched off
        self.schema = self._first = self._schema()
        self.pending = PendingStore(
            self.schema.n_features,
            dict.fromkeys(spec.models(), self.schema.n_outputs),
            horizon=spec.join.horizon,
            max_pending=spec.most_waiting,
            max_labels=spec.join.max_labels,
            max_bytes=spec.join.max_pending_bytes,
            bags=spec.task == MULTI_INSTANCE,
        )
        self.sharing: Sharing | None = None
        if spec.shares:
            self.sharing = Sharing(spec, partition, self.pending, (self.vocabularies, self.classes))
            self.vocabularies, self.classes = self.sharing.vocabularies, self.sharing.classes
        self.deciding = Deciding(spec, self.classes)
        self.deciding.fit(self.schema.n_outputs)
        self.roles = {name: self.make_role(name, spec) for name in spec.models()}
        self.intervals = Intervals(spec, self.schema.n_outputs, self.pending)
        self.drift = Drift(spec, partition, self.roles, self._decoding[0], self.classes)
        self.comparing = Comparing(spec, self.roles)
        self.steering = Steering(self)
        self.promotion = Promotion(self, self.steering)
        self._commands: list[Piece] = []  # that take effect before the next instance that is predicted

    @property
    def tells(self) -> bool:
        """Whether what is known of the models is told by this partition. Of a model that all learn, by the first."""
        return self.sharing is None or self.partition == 0

    @property
    def _decoding(self) -> tuple[list[Vocabulary | None], Vocabulary | None]:
        """Values and classes as they came in this partition: those of the models, unless partitions share these."""
        return (self.vocabularies, self.classes) if self.sharing is None else self.sharing.own

    def make_role(self, name: str, spec: Spec) -> Role:
        """A model that begins. spec : the stream with this model."""
        # A seed for all partitions where they learn one model.
        seed, rows = (spec.seed + self.partition, None) if self.sharing is None else (spec.seed, self.sharing.rows)
        role = Role(name, spec, self._first, self.pending, seed, rows, self.deciding)
        if self.schema != self._first:
            role.resize(self.schema)
        return role

    def settle(self, spec: Spec) -> None:
        """What this stream file says besides its models holds from here on (`Spec.running`, and its features)."""
        self._widen(spec)
        self.spec, self._settings = spec, settings(spec)
        join = spec.join
        self.pending.bound(join.horizon, self.spec.most_waiting, join.max_labels, join.max_pending_bytes)
        for role in self.roles.values():
            role.settle(spec)
        self.drift.settle(spec)
        self.comparing.settle(spec)
        self.intervals.settle(spec)

    def _widen(self, spec: Spec) -> None:
        """Records have the features of this stream file from here on. Those that are new get columns, which no model
        knows yet."""
        if spec.features == self.spec.features and spec.gone == self.spec.gone:
            return
        n = len(self.vocabularies)
        self.codec, self._present = spec.make_codec(), present(spec)
        new = spec.vocabularies()[n:]
        if not new:
            return
        self.vocabularies += new  # in place: others look at them
        room = tuple(0 if v is None else v.capacity for v in new)
        self._first = self._first._replace(n_values=self._first.n_values + room)
        if self._room is not None:
            self._room = self._room._replace(n_values=self._room.n_values + room)
        self.schema = self._schema()
        for role in self.roles.values():
            role.widen(self._first, self.schema)
        self.pending.widen(len(new))

    def line_up(self, roles: dict[str, Role]) -> None:
        """These are the models from here on. Others may look at those of before meanwhile."""
        self.roles = roles
        self.drift.line_up(roles)
        self.comparing.line_up(roles)

    @property
    def offsets(self) -> dict[str, int]:
        """Role of each input log -> Kafka's offset of the record that holds the next instance."""
        return {role: offset_of(place, self.bits[role]) for role, place in self.places.items()}

    def place_in(self, meta: Mapping[str, Any], role: str) -> int:
        """The next place of an input log, as the meta of a state has it; 0 where it does not know the log."""
        offset, index = (int(meta.get(state_field(role, what), 0)) for what in ("offset", "index"))
        if index and not self.bits[role]:
            raise StateError(
                f"the state of partition {self.partition} stands within the record at offset {offset:,} of the {role}, "
                "which held several instances, and by the stream file a record is one: restore codec in it until the "
                "worker is beyond that record"
            )
        found: int = place_of(offset, index, self.bits[role])
        if found >= MOST_PLACES:
            raise ValueError(f"no topic has the offset {offset}")
        return found

    def warm_up(self) -> None:
        """Compile the kernels, or load them from the cache, before the first record."""
        for role in self.roles.values():
            role.warm_up()
        self.pending.warm_up()
        self.drift.warm_up()
        self.codec.warm_up()
        self.comparing.warm_up()
        self.intervals.warm_up()

    def _schema(self) -> Schema:
        n_values = tuple(0 if v is None else v.capacity for v in self.vocabularies)
        n_outputs = 1 if self.classes is None else max(2, self.classes.capacity)
        if self._room is not None:
            n_values = tuple(map(max, n_values, self._room.n_values))
            n_outputs = max(n_outputs, self._room.n_outputs)
        return Schema(n_values, n_outputs, self.spec.task)

    def _fit_schema(self) -> None:
        """Give the models room for values and classes seen since."""
        schema = self._schema()
        self.deciding.fit(schema.n_outputs)
        if schema == self.schema:
            return
        self.schema = schema
        for role in self.roles.values():
            role.resize(schema)
        self.intervals.resize(schema.n_outputs)
        own = [] if self.sharing is None else self.sharing.names
        outputs = [name for name in self.pending.out if not name.endswith((SAID, DECIDED)) and name not in own]
        self.pending.resize(dict.fromkeys(outputs, schema.n_outputs))
        if self.sharing is not None:
            self.sharing.rows.resize(schema.n_outputs)

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
                if self._suits(whole.part(i, i + 1), self.steering.files(self._commands)):
                    obeyed, self._commands = self._commands, []
                    codec, said = self.codec, self.steering.obey(obeyed, int(whole.offsets[i]))
                    for piece in obeyed:
                        self._take(CONTROL, piece)
                    if self.codec is not codec:
                        predicted[i:] = self._predicted(whole.part(i))
            i += 1
        self._commands += commands.part(taken).singly()
        step(rest)
        return together(outcomes)

    def _shared(self, release: Release, sharing: Sharing) -> Outcome:
        """As `step`, with what all partitions have joined, each record right before the next instance."""
        pieces, before = dict(release.pieces), dict(release.before)
        n = len(pieces[FEATURES].offsets)
        piece, come = pieces.pop(LEARNED, empty_piece()), before.pop(LEARNED, np.zeros(n, np.int64))
        cuts = np.flatnonzero(np.diff(come, prepend=0)).tolist()
        stops, at, outcomes = [0, *come[cuts].tolist()], 0, list[Outcome]()
        parts = list(zip(Release(pieces, before).parts(cuts), stops, strict=True))
        for part, stop in parts[0 if parts[0][0].n or not cuts else 1 :]:
            drifts, at = self._learn(piece.part(at, stop), sharing), stop
            outcome = self._step(part)
            n_settled = len(drifts) + outcome.n_settled if outcome.ids else 0
            outcomes.append(outcome._replace(drifts=[*drifts, *outcome.drifts], n_settled=n_settled))
        drifts = self._learn(piece.part(at), sharing)
        last = outcomes[-1]
        outcomes[-1] = last._replace(drifts=[*last.drifts, *drifts])
        return together(outcomes)

    def _learn(self, piece: Piece, sharing: Sharing) -> list[DriftRecord]:
        """Learn records of the log that the partitions share; the events of drift that this partition tells."""
        records = sharing.decoded(piece)
        if not records:
            return []
        self._take(LEARNED, piece)
        sharing.fit(records)
        self._fit_schema()
        program, findings = sharing.program(records), list[Finding]()
        weighted = self.deciding.weighted(program)
        for role in self.roles.values():
            findings += role.run(weighted)
            role.score(program)
        self.comparing.score(program, sharing.n)
        times = np.repeat(np.array([record.time for record in records], np.int64), sharing.lengths)
        return self.drift.heard(findings, times)

    def decode_features(self, raw: RawBatch, of_models: bool = False) -> Features:
        """Feature records, with a column for each feature that there ever was.

        of_models : with codes of what the models know, and not this partition, where partitions share these.
        """
        values, classes = (self.vocabularies, self.classes) if of_models else self._decoding
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
        values, classes = self._decoding
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
        classes = self._decoding[1]
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
        labels_before = release.before.get(LABELS, np.zeros(len(offsets), np.int64))
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
        self._fit_schema()
        if self.sharing is not None:
            self.sharing.count_width()
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
        started = time.perf_counter()
        program, said, findings = joined.program, dict[Role, Floats](), list[Finding]()
        joint: Joint | None = None
        if self.sharing is not None:
            scored = self._predict(features, joined, self.sharing)
            joint = self.sharing.joint(program)
        else:
            scored = program
            weighted = self.deciding.weighted(program)
            for role in self.roles.values():
                findings += role.run(weighted)
                role.calibrate(program)
                role.decide(program)
                role.score(program)
                role.estimate(program)
        for role in self.roles.values():
            said[role] = role.predictions[joined.predicted]
        named = {role: role.named[joined.predicted, :1] for role in self.roles.values() if role.decision is not None}
        shared = self.sharing is not None
        decisions = [] if shared else self.comparing.score(program, self.pending.counts["joined"])
        led = [(one.place + 1, one.role) for one in decisions if one.promoted]
        self.intervals.run(scored, [(0, self.roles[CHAMPION]), *led])
        findings = self.promotion.carry_out(decisions, program, findings)
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
            p=self.steering.withheld(predictions),
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
            events=self.promotion.tell(offsets, next_offsets[LABELS], known),
            decided=self.promotion.predictions(named) if named else {},
            said=self.intervals.said(joined.predicted, self.steering.paused),
            reasons=self._reasons(len(features.ids)),
            joint=[] if joint is None else [joint],
        )

    def _reasons(self, n: int) -> Floats | None:
        """Of the n predictions of the last program, those of the model that was the champion then."""
        most = self.spec.predictions.reasons
        if most is None:
            return None
        told = {role: role.reasons for role in self.roles.values()}
        flat = {
            role: np.full((n, 2 * most), np.nan)
            if one is None or self.steering.paused
            else one.found.reshape(n, 2 * most)
            for role, one in told.items()
        }
        return self.promotion.predictions(flat)[CHAMPION].reshape(n, most, 2)

    def _predict(self, features: Features, joined: Joined, sharing: Sharing) -> Program:
        """Predict by the models that all partitions learn. Returns the program, as what the predictions are held
        against has to see it."""
        x = sharing.translated(features.x)
        for role in self.roles.values():
            role.predict(x, joined.predicted)
        sharing.predicted(joined.predicted)
        scored = sharing.scored(joined.program)
        for role in self.roles.values():
            role.calibrate(scored)
            role.estimate(scored)
        return scored

    def _next_offsets(self, release: Release) -> dict[str, Ints]:
        """Role of every other input log -> its next place when each feature record is predicted.

        That of the labels says which version of the model made a prediction.
        """
        found = {}
        for role in self.rules:
            if role in release.before:
                after = np.concatenate(([self.places[role]], release.pieces[role].after()))
                found[role] = after[release.before[role]]
            elif role != FEATURES:
                found[role] = np.full(len(release.pieces[FEATURES].offsets), self.places[role])
        return found

    def _take(self, role: str, piece: Piece) -> None:
        """Records of an input log were applied."""
        if len(piece.offsets):
            self.places[role] = int(piece.after()[-1])
            raw, value = piece.raw, piece.raw.values[-1]
            value = value.value if isinstance(value, Packed) else value
            offset = offset_of(int(raw.offsets[-1]), self.bits[role])
            self._last[role] = offset, int(raw.timestamps[-1]), raw.keys[-1], value

    def buffers(self) -> dict[str, Buffer]:
        """Role of each input log -> where its next records wait for the merge."""
        return {
            role: Buffer(
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
        parts = [self.codec.encode_predictions(**part) for part in self._encoding(outcome, start)]
        return chained(parts)[0]  # type: ignore[no-any-return]

    def pack(self, outcome: Outcome, start: int, room: int) -> list[bytes] | None:
        """The same as records of many predictions, of at most `room` bytes each. None where they cannot be made so."""
        made = [self.codec.pack_predictions(room, **part) for part in self._encoding(outcome, start)]
        return None if None in made else [one for records in made for one in records or ()]

    def _encoding(self, outcome: Outcome, start: int) -> list[dict[str, Any]]:
        """The columns of the predictions, for each lineup of models."""
        places = {FEATURES: outcome.offsets[start:]} | {r: found[start:] for r, found in outcome.next_offsets.items()}
        offsets = {role: offset_of(found, self.bits[role]).tolist() for role, found in places.items()}
        further = {
            place_field(role, "index"): index_of(places[role], self.bits[role]).tolist()
            for role in INPUTS
            if any(self.bits.values())
        }
        further |= {place_field(role): found for role, found in offsets.items() if role not in INPUTS}
        found = []
        ends = [one.start for one in outcome.lineups[1:]]
        for lineup, stop in zip(outcome.lineups, [*ends, len(outcome.ids)], strict=True):
            at = slice(max(lineup.start, start), max(stop, start))
            part = slice(at.start - start, at.stop - start)
            roles = [role for role in lineup.roles if role != CHAMPION] if self.spec.predictions.challengers else []
            columns = {
                "ids": outcome.ids[at],
                "p": outcome.p[CHAMPION][at],
                "classes": self.classes,
                "model": lineup.model,
                "offsets": offsets[FEATURES][part],
                "label_offsets": offsets[LABELS][part],
                "probabilities": self.spec.predictions.probabilities,
                "challengers": {role: outcome.p[role][at] for role in roles} or None,
                "further": {name: column[part] for name, column in further.items()} or None,
            }
            if outcome.decided:
                told = (CHAMPION, *roles)
                columns["decided"] = {role: outcome.decided[role][at, 0] for role in told if role in outcome.decided}
            if outcome.said is not None:
                columns["said"] = outcome.said[at]
            if outcome.reasons is not None:
                columns["reasons"] = named(outcome.reasons[at], list(self.spec.features))
            found.append(columns)
        return found

    @property
    def n_bytes(self) -> dict[str, int]:
        """Bytes of state by part: each model, the pending store, and what watches for drift, with models on trial."""
        parts = {name: role.model.n_bytes for name, role in self.roles.items()}
        return {**parts, "pending": self.pending.n_bytes, "drift": self.drift.n_bytes}

    def figures(self) -> Figures:
        """Metrics and sizes as they stand. Call it between steps."""
        leaps = (sum(clock.leaps[i] for clock in self.clocks.values()) for i in range(2))
        overall = {name: role.overall() for name, role in self.roles.items()}
        recent = {name: role.recent() for name, role in self.roles.items()}
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
            sizes={name: {**role.model.size(), "n_bytes": role.model.n_bytes} for name, role in self.roles.items()},
            compared=self.comparing.figures(),
            estimated={name: role.estimated() for name, role in self.roles.items()},
            by_class={name: self._by_class(role) for name, role in self.roles.items()},
            distances=self.drift.distances(),
            behind=0 if self.sharing is None else self.sharing.behind,
        )

    def _by_class(self, role: Role) -> dict[str, dict[str, float]]:
        if self.classes is None:
            return {}
        found, texts = role.metrics.recent_by_class(), self.classes.texts
        return {texts[k]: one for k, one in found.items() if k < min(MOST_CLASSES, len(texts))}

    def snapshot(self) -> Snapshot:
        """Everything that is known at these offsets, whole. Its arrays are live: use them before the next step."""
        return Snapshot(self._meta(), self._arrays() | over("pending/", self.pending.state()))

    def checkpoint(self) -> Snapshot:
        """As `snapshot`, with what the pending store changed since the last call instead of all that waits."""
        changed = self.pending.checkpoint()
        waiting = {"instances": self.pending.n_waiting, "labels": self.pending.n_labels_waiting}
        kept = [f"pending/{field}" for field in changed.kept]
        return Snapshot({**self._meta(), "waiting": waiting}, self._arrays(), over("pending/", changed.arrays), kept)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Live arrays of all but the pending store."""
        arrays: dict[str, NDArray[Any]] = {}
        for role in self.roles.values():
            arrays |= role.state()
        arrays |= over("compared/", self.comparing.state()) | over("drift/", self.drift.state())
        arrays |= self.intervals.state() | ({} if self.sharing is None else self.sharing.state())
        values = msgspec.msgpack.encode([None if v is None else v.state() for v in self._decoding[0]])
        arrays["vocabularies"] = np.frombuffer(values, dtype=np.uint8)
        return arrays

    def marks(self) -> dict[str, Mark]:
        """Role of an input topic -> mark of the last record taken. Hashed here and not in the step."""
        self._last = {role: last if isinstance(last, Mark) else mark(*last) for role, last in self._last.items()}
        return dict(self._last)  # type: ignore[arg-type]

    def _meta(self) -> dict[str, Any]:
        auto = {"auto": self.spec.champion.parameters} if self.spec.champion.model == AUTO else {}
        marks = {"marks": {role: list(found) for role, found in self.marks().items()}} if self._last else {}
        return {
            "models": {name: [role.learner_name, role.model.parameters()] for name, role in self.roles.items()},
            "classes": None if self._decoding[1] is None else self._decoding[1].state(),
            **({} if self.sharing is None else self.sharing.meta()),
            **{state_field(role, "offset"): offset for role, offset in self.offsets.items()},
            **{
                state_field(role, "index"): index_of(self.places[role], bits)
                for role, bits in self.bits.items()
                if bits
            },
            **{state_field(role, "time"): clock.time for role, clock in self.clocks.items()},
            "stamps": {role: list(clock.stamps) for role, clock in self.clocks.items()},
            "leaps": {role: clock.leaps for role, clock in self.clocks.items()},
            **self._aside,
            "n_instances": self.n_instances,
            "n_labels": self.n_labels,
            "settings": self._settings,
            "room": [list(self.schema.n_values), self.schema.n_outputs],
            "origin": self.origin,
            **marks,
            **auto,
            **self.steering.state(),
            **self.promotion.state(self.comparing.proposed()),
        }

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
        try:
            return self._restore(snapshot, topics)
        except RiparianError:
            raise
        except Exception as error:  # bytes that somebody else wrote: whatever they make of a model, it is a sentence
            what = "" if isinstance(error, DamagedError) else f"it holds nonsense, {type(error).__name__}: "
            raise StateError(
                f"the state of partition {self.partition} cannot be used: {what}"
                f"{str(error).strip().partition(chr(10))[0]}; go back to an older checkpoint (riparian rollback)"
            ) from error

    def _restore(self, snapshot: Snapshot, topics: Mapping[str, str] | None) -> list[str]:
        meta, arrays, *_ = snapshot
        file, spec = self.spec, self.spec.adopting(meta)
        if spec is not self.spec:
            self.__init__(spec, self.partition)  # type: ignore[misc]
        known = msgspec.msgpack.decode(arrays["vocabularies"].tobytes())
        changes = reconcile(file, meta, known, topics)
        if changes.refused:
            said = "; also, ".join(changes.refused)
            raise StateError(
                f"the state of partition {self.partition} does not fit the stream {self.spec.name}: {said}"
            )
        values, classes = self._decoding
        for vocabulary, state in zip(values, known, strict=True):
            if vocabulary is not None:
                vocabulary.restore(state)
        if classes is not None:
            classes.restore(meta["classes"])
        of_models = meta["classes"]
        if self.sharing is not None:
            known, of_models = self.sharing.restore(meta, arrays)
        # The arrays have the room that they had then; where the bounds were lowered since, that stays.
        self._room = room_of(meta | {"classes": of_models}, known, self.spec.task)
        was = self._room or self._schema()
        self._fit_schema()
        then = meta.get("settings") or {}
        decides = same_target(then.get(DECISION), self._settings.get(DECISION))
        self.steering.restore_columns(meta, changes.takes)
        for name, source in changes.takes.items():
            if source is not None:
                self.roles[name].restore(arrays, source, was, decides)
        proposed = self.promotion.restore(meta)
        if same_costs(then.get(DECISION), self._settings.get(DECISION)):
            self.comparing.restore(under(arrays, "compared/"), proposed, changes.takes)
        n_classes = None if classes is None else len(classes)
        self.intervals.restore(arrays, self.schema.n_outputs)
        own = [*self.intervals.names, *([] if self.sharing is None else self.sharing.names)]
        sources = dict(changes.takes) | {name: name for name in own}
        for name, source in changes.takes.items():
            n = self.roles[name].model.n_kept
            there = [None] * n if source is None else kept_names(source, n)
            sources |= dict(zip(kept_names(name, n), there, strict=True))
            for place in (said_name, decided_name):
                sources[place(name)] = None if source is None else place(source)
        self.pending.restore(under(arrays, "pending/"), sources, n_classes)
        same, same_tests = (then.get(what) == self._settings.get(what) for what in (DETECTORS, DISTRIBUTIONS))
        self.drift.restore(under(arrays, "drift/"), changes.takes, same, same_tests, was)
        self.n_instances, self.n_labels = int(meta["n_instances"]), int(meta["n_labels"])
        stamps, leaps = meta.get("stamps", {}), meta.get("leaps", {})  # states of before have none
        for role in self.rules:
            fields = state_field(role, "offset"), state_field(role, "time")
            stood = meta if role in INPUTS else dict.fromkeys(fields, 0) | meta  # a log may be new to the stream
            _, moment = (int(stood[field]) for field in fields)
            self.places[role] = self.place_in(meta, role)
            self.clocks[role] = Clock(moment, stamps.get(role, ()), leaps.get(role, (0, 0)))
        field = state_field(CONTROL, "offset")
        self._aside = {field: int(meta[field])} if CONTROL not in self.rules and field in meta else {}
        self.steering.restore(meta, changes.takes)
        self.origin = next_origin(meta) if changes.found else meta.get("origin")
        self._last = {role: Mark(*found) for role, found in meta.get("marks", {}).items()}  # formats before had none
        notes = [note for note in (changes.steered, changes.kept) if note]
        return [*notes, *(change.sentence for change in changes.found)]

    def comparable(self) -> Snapshot:
        """The snapshot, without arrays whose bytes may differ though equal folds made them."""
        snapshot = self.snapshot()
        left_out = set().union(*(role.incomparable for role in self.roles.values()))
        return snapshot._replace(
            arrays={name: array for name, array in snapshot.arrays.items() if name not in left_out}
        )

    def learned_digest(self) -> str:
        """A hash of what all partitions share: equal where they have learned the same part of the log."""
        digest = hashlib.blake2b(f"{self.places.get(LEARNED)} {self.schema}".encode(), digest_size=16)
        arrays = over("compared/", self.comparing.state())
        for role in self.roles.values():
            arrays |= {f"{role.name}/{name}": array for name, array in role.state_of_watching().items()}
            arrays |= {name: a for name, a in role.learned_state().items() if name not in role.incomparable}
        for name in sorted(arrays):
            digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
            digest.update(np.ascontiguousarray(arrays[name]).tobytes())
        return digest.hexdigest()

    def digest(self, without: tuple[str, ...] = ()) -> str:
        """A hash of all that was learned: equal for equal folds, however they were divided into batches.

        without : what the names of arrays begin with that are left out.
        """
        meta, arrays, *_ = self.comparable()
        meta = {name: value for name, value in meta.items() if name not in SETTINGS}
        digest = hashlib.blake2b(msgspec.msgpack.encode(meta, order="sorted"), digest_size=16)
        for name in sorted(name for name in arrays if not name.startswith(without)):
            array = np.ascontiguousarray(arrays[name])
            digest.update(f"{name} {array.dtype} {array.shape}".encode())
            digest.update(array.tobytes())
        return digest.hexdigest()
