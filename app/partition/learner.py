"""The learner of one partition: everything between a released batch and its outcome, pure (no Kafka, no asyncio).

A fold over the merged order of two topics: predict each instance when its features come, learn it when its label
comes, score the prediction that was really made. The worker and the offline evaluation both call `apply`, so they
agree to the last bit. State is cut between steps, at exactly `feature_offset` and `label_offset`.
"""

import hashlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from app.errors import RiparianError, SpecError, StateError
from app.partition.drift import Drift, under
from app.partition.inputs import Mark, mark
from app.partition.merge import Ints, Piece, Release
from app.partition.pending import PendingStore
from app.state.changes import DETECTORS, next_origin, reconcile, settings
from app.stream_file.spec import Spec, place_of
from app.stream_file.spec_parts import AUTO
from models.contract import Floats, Learner, Program, Schema
from models.prequential import Prequential
from models.registry import create
from topics.codecs import CODECS
from topics.names import FEATURES, LABELS
from topics.records import MULTI_INSTANCE, DriftRecord, Features, Labels, Rejected


class Refused(NamedTuple):
    """A record that was rejected: where it stands in its topic, and why."""

    offset: int
    key: bytes | None
    value: bytes | None
    reason: str
    detail: str


class Outcome(NamedTuple):
    """What one step produced, in the order of the feature records.

    ids : of the n predicted instances. keys : their Kafka keys. offsets, label_offsets : (n,) int64, the source offset
    and the next label offset at that moment. p : model -> (n, k) predictions. waited : (m,) float64 seconds between
    features and label. feature_times : (n,) int64 effective ms. refused_*: dead letters of each topic. drifts : in the
    order in which they were found; the first `n_settled` of them before, or at, the last prediction.
    """

    ids: list[str]
    keys: list[bytes | None]
    offsets: Ints
    label_offsets: Ints
    p: dict[str, Floats]
    waited: Floats
    feature_times: Ints
    n_labels: int
    refused_features: list[Refused]
    refused_labels: list[Refused]
    decode_seconds: float
    kernel_seconds: float
    drifts: Sequence[DriftRecord] = ()
    n_settled: int = 0


class Figures(NamedTuple):
    """How a partition is doing, at `offset` and `label_offset`.

    overall, recent : role of a model -> its prequential metrics over the whole stream, and over the window or fading.
    sizes : role -> n_nodes, n_leaves, depth, n_bytes. counts : of the pending store, since the stream began.
    """

    offset: int
    label_offset: int
    n_instances: int
    n_labels: int
    n_waiting: int
    n_labels_waiting: int
    counts: dict[str, int]
    n_bytes: dict[str, int]
    overall: dict[str, dict[str, float]]
    recent: dict[str, dict[str, float]]
    sizes: dict[str, dict[str, int]]


SETTINGS = ("settings", "room", "origin", "marks", "auto")  # of a cut's meta: how it was learned, not what


class Cut(NamedTuple):
    """A learner's state at two offsets. `meta` is msgpack-able.

    arrays : name -> array. frozen : arrays that are new and will not change (of the pending store). kept : names of
    frozen arrays of earlier cuts that still belong to the state.
    """

    meta: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    frozen: Mapping[str, NDArray[Any]] = {}
    kept: Sequence[str] = ()


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
        self.codec = CODECS[spec.codec](spec.mapping())
        self.vocabularies = spec.vocabularies()
        self.classes = spec.class_vocabulary()
        self.feature_offset = 0
        self.label_offset = 0
        self.feature_time = 0
        self.label_time = 0
        self.n_instances = 0
        self.n_labels = 0
        # Where the state last ceased to be a fold of all records before by this stream file: feature offset, label
        # offset, and how often that happened. None where it never did.
        self.origin: list[int] | None = None
        self._settings = settings(spec)
        self._room: Schema | None = None
        self._last: dict[str, tuple[Any, ...]] = {}  # role of an input topic -> its last record taken, or the mark
        self.schema = self._schema()
        self.models: dict[str, Learner] = {}
        self.model_names: dict[str, str] = {}
        for role, (name, parameters) in spec.models().items():
            try:
                self.models[role] = create(name, self.schema, seed=spec.seed + partition, **parameters)
            except ValueError as error:  # of what an import path names
                raise SpecError(f"{place_of(role)}: {error}") from None
            self.model_names[role] = name
        self._first = self.schema
        window, fading = spec.metrics.window, spec.metrics.fading
        self.metrics = {
            role: Prequential(spec.task, self.schema.n_outputs, window=window, fading=fading) for role in self.models
        }
        self.pending = PendingStore(
            self.schema.n_features,
            dict.fromkeys(self.models, self.schema.n_outputs),
            horizon=spec.join.horizon,
            max_pending=spec.join.max_pending,
            max_labels=spec.join.max_labels,
            max_bytes=spec.join.max_pending_bytes,
            bags=spec.task == MULTI_INSTANCE,
        )
        self.drift = Drift(spec, partition, self._fresh, self.pending)

    def warm_up(self) -> None:
        """Compile the kernels, or load them from the cache, before the first record."""
        for model in self.models.values():
            model.warm_up()
        self.pending.warm_up()
        self.drift.warm_up()
        nothing = Program(np.zeros(0, np.int8), np.zeros(0, np.int32), np.zeros(0), np.zeros(0))
        for role, metrics in self.metrics.items():
            metrics.score(nothing, self.pending.out[role])
            metrics.metrics()
            metrics.windowed()

    def _fresh(self, role: str) -> Learner:
        """A new model for a role, grown as those did that were there from the beginning: its arrays are as theirs."""
        name, parameters = self.spec.models()[role]
        model = create(name, self._first, seed=self.spec.seed + self.partition, **parameters)
        if self.schema != self._first:
            model.resize(self.schema)
        return model

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
        if schema == self.schema:
            return
        self.schema = schema
        for role, model in self.models.items():
            model.resize(schema)
            self.metrics[role].resize(schema.n_outputs)
        self.drift.resize(lambda model: model.resize(schema))
        self.pending.resize(dict.fromkeys(self.models, schema.n_outputs))

    def step(self, release: Release) -> Outcome:
        """Decode and apply a release of the merge."""
        started = time.perf_counter()
        known = None if self.classes is None else self.classes.state()
        features = self.codec.decode_features(release.features.raw, self.vocabularies, self.classes)
        labels = self.codec.decode_labels(release.labels.raw, self.classes)
        if (
            known is not None
            and len(self.classes or ()) > len(known)
            and features.y is not None
            and release.labels_before.any()
        ):
            # Codes of classes go by first sight in the merged order, but here new ones came from both topics, one
            # decoded after the other. It is rare, so it may be slow: take the batch apart.
            self.classes.restore(known)  # type: ignore[union-attr]
            return _together([self.step(part) for part in _runs(release)])
        return self.apply(features, labels, release, time.perf_counter() - started)

    def apply(self, features: Features, labels: Labels, release: Release, decode_seconds: float = 0.0) -> Outcome:
        """Predict, join and learn a decoded batch.

        Parameters
        ----------
        features, labels : decoded records of `release`; rejected ones are left out of their columns.
        release : the same records as they stand in their topics: offsets, times, interleaving.
        """
        f_piece, l_piece, labels_before = release
        # The next label offset when each feature record is predicted: which version of the model made it.
        versions = np.concatenate(([self.label_offset], l_piece.offsets + 1))[labels_before]
        offsets, times, keys = f_piece.offsets, f_piece.times, f_piece.raw.keys
        label_times = l_piece.times
        if features.position is not None:
            kept = np.array(features.position, dtype=np.int64)
            offsets, times, versions, labels_before = offsets[kept], times[kept], versions[kept], labels_before[kept]
            keys = [keys[i] for i in features.position]
        if labels.position is not None:
            kept = np.array(labels.position, dtype=np.int64)
            label_times = label_times[kept]
            labels_before = np.searchsorted(kept, labels_before, side="left").astype(np.int64)
        self._fit_schema()
        next_arrival = self.pending.next_arrival
        joined = self.pending.join(
            features.ids,
            features.x,
            times.tolist(),
            features.y,
            labels.ids,
            labels.y,
            label_times.tolist(),
            labels_before,
            features.sizes,
        )
        started = time.perf_counter()
        p = {}
        program, slab = joined.program, self.pending.slab
        self.drift.begin(program, next_arrival)
        for role, model in self.models.items():
            out = self.pending.out[role]
            self.models[role] = self.drift.run(role, model, slab, out)
            self.metrics[role].score(program, out)
            p[role] = out[joined.predicted]
        drifts, n_settled = self.drift.finish(features.x, offsets, versions, times, features.sizes)
        kernel_seconds = time.perf_counter() - started
        if len(f_piece.offsets):
            self.feature_offset = int(f_piece.offsets[-1]) + 1
            self.feature_time = int(f_piece.times[-1])
            self._last[FEATURES] = _last(f_piece)
        if len(l_piece.offsets):
            self.label_offset = int(l_piece.offsets[-1]) + 1
            self.label_time = int(l_piece.times[-1])
            self._last[LABELS] = _last(l_piece)
        self.n_instances += len(features.ids)
        self.n_labels += len(labels.ids)
        return Outcome(
            ids=features.ids,
            keys=keys,
            offsets=offsets,
            label_offsets=versions,
            p=p,
            waited=joined.waited,
            feature_times=times,
            n_labels=len(labels.ids),
            refused_features=_refused(features.rejected, f_piece.offsets, f_piece.raw),
            refused_labels=_refused(labels.rejected, l_piece.offsets, l_piece.raw),
            decode_seconds=decode_seconds,
            kernel_seconds=kernel_seconds,
            drifts=drifts,
            n_settled=n_settled,
        )

    @property
    def n_bytes(self) -> dict[str, int]:
        """Bytes of state by part: each model, the pending store, and what watches for drift, with models on trial."""
        parts = {role: model.n_bytes for role, model in self.models.items()}
        return {**parts, "pending": self.pending.n_bytes, "drift": self.drift.n_bytes}

    def figures(self) -> Figures:
        """Metrics and sizes as they stand. Call it between steps."""
        return Figures(
            offset=self.feature_offset,
            label_offset=self.label_offset,
            n_instances=self.n_instances,
            n_labels=self.n_labels,
            n_waiting=self.pending.n_waiting,
            n_labels_waiting=self.pending.n_labels_waiting,
            counts=dict(self.pending.counts),
            n_bytes=self.n_bytes,
            overall={role: metrics.metrics() for role, metrics in self.metrics.items()},
            recent={role: metrics.windowed() for role, metrics in self.metrics.items()},
            sizes={role: {**model.size(), "n_bytes": model.n_bytes} for role, model in self.models.items()},
        )

    def cut(self) -> Cut:
        """Everything that is known at the two offsets, whole. Its arrays are live: use them before the next step."""
        arrays = self._arrays()
        for field, array in self.pending.state().items():
            arrays[f"pending/{field}"] = array
        return Cut(self._meta(), arrays)

    def checkpoint(self) -> Cut:
        """As `cut`, with what the pending store changed since the last call instead of all that waits."""
        changed = self.pending.cut()
        frozen = {f"pending/{field}": array for field, array in changed.arrays.items()}
        waiting = {"instances": self.pending.n_waiting, "labels": self.pending.n_labels_waiting}
        kept = [f"pending/{field}" for field in changed.kept]
        return Cut({**self._meta(), "waiting": waiting}, self._arrays(), frozen, kept)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Live arrays of all but the pending store."""
        arrays: dict[str, NDArray[Any]] = {}
        for role, model in self.models.items():
            for field, array in model.state()._asdict().items():
                arrays[f"models/{role}/{field}"] = array
            for field, array in self.metrics[role].state()._asdict().items():
                arrays[f"metrics/{role}/{field}"] = array
        for field, array in self.drift.state().items():
            arrays[f"drift/{field}"] = array
        values = msgspec.msgpack.encode([None if v is None else v.state() for v in self.vocabularies])
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
            "models": {role: [name, self.models[role].parameters()] for role, name in self.model_names.items()},
            "classes": None if self.classes is None else self.classes.state(),
            "feature_offset": self.feature_offset,
            "label_offset": self.label_offset,
            "feature_time": self.feature_time,
            "label_time": self.label_time,
            "n_instances": self.n_instances,
            "n_labels": self.n_labels,
            "settings": self._settings,
            "room": [list(self.schema.n_values), self.schema.n_outputs],
            "origin": self.origin,
            **marks,
            **auto,
        }

    def restore(self, cut: Cut, topics: Sequence[str] = ()) -> list[str]:
        """Take over the state of `cut`, into a fresh learner; sentences on what is not as the stream file was then.

        Parameters
        ----------
        topics : sequence of str, optional
            Names of the features and labels topics, where the state must have been made with these.

        Raises
        ------
        StateError
            The stream file has changed in a way that the state does not survive (`app.state.changes`), or the state
            holds what no version of this program has written.
        """
        try:
            return self._restore(cut, topics)
        except RiparianError:
            raise
        except Exception as error:  # bytes that somebody else wrote: whatever they make of a model, it is a sentence
            raise StateError(
                f"the state of partition {self.partition} cannot be used: it holds what this program does not write "
                f"({type(error).__name__}: {str(error).strip().partition(chr(10))[0]}); go back to an older checkpoint "
                "(riparian rollback)"
            ) from error

    def _restore(self, cut: Cut, topics: Sequence[str]) -> list[str]:
        meta, arrays, *_ = cut
        spec = self.spec.adopting(meta)
        if spec.models() != self.spec.models():
            self.__init__(spec, self.partition)  # type: ignore[misc]
        known = msgspec.msgpack.decode(arrays["vocabularies"].tobytes())
        changes = reconcile(self.spec, meta, known, topics)
        if changes.refused:
            said = "; also, ".join(changes.refused)
            raise StateError(
                f"the state of partition {self.partition} does not fit the stream {self.spec.name}: {said}"
            )
        for vocabulary, state in zip(self.vocabularies, known, strict=True):
            if vocabulary is not None:
                vocabulary.restore(state)
        if self.classes is not None:
            self.classes.restore(meta["classes"])
        # The arrays have the room that they had then; where the bounds were lowered since, that stays.
        self._room = Schema(tuple(meta["room"][0]), meta["room"][1], self.spec.task) if "room" in meta else None
        was = self._room or self._schema()
        self._fit_schema()
        for role, source in changes.takes.items():
            if source is not None:
                self.models[role] = self._restored(role, was, under(arrays, f"models/{source}/"))
                self.metrics[role].restore(under(arrays, f"metrics/{source}/"))
                self.metrics[role].resize(self.schema.n_outputs)
        self.pending.restore(under(arrays, "pending/"), changes.takes)
        same = (meta.get("settings") or {}).get(DETECTORS) == self._settings[DETECTORS]
        self.drift.restore(
            under(arrays, "drift/"), changes.takes, same, lambda role, state: self._restored(role, was, state)
        )
        for field in ("feature_offset", "label_offset", "feature_time", "label_time", "n_instances", "n_labels"):
            setattr(self, field, int(meta[field]))
        self.origin = next_origin(meta) if changes.found else meta.get("origin")
        self._last = {role: Mark(*found) for role, found in meta.get("marks", {}).items()}  # formats before had none
        return [change.sentence for change in changes.found]

    def _restored(self, role: str, schema: Schema, state: Mapping[str, NDArray[Any]]) -> Learner:
        """A model of a role from its arrays, which have room for `schema`."""
        name, parameters = self.spec.models()[role]
        model = create(name, schema, seed=self.spec.seed + self.partition, **parameters)
        try:
            model.restore(state)
        except ValueError as error:
            raise StateError(f"the state of partition {self.partition} cannot be used: {role}: {error}") from None
        model.resize(self.schema)
        return model

    def comparable(self) -> Cut:
        """The cut, without arrays whose bytes may differ though equal folds made them."""
        cut = self.cut()
        left_out = {f"models/{role}/{field}" for role, model in self.models.items() for field in model.incomparable}
        trials = {f"drift/trials/{role}/model/{field}" for role, m in self.models.items() for field in m.incomparable}
        left_out |= trials
        return cut._replace(arrays={name: array for name, array in cut.arrays.items() if name not in left_out})

    def digest(self) -> str:
        """A hash of all that was learned: equal for equal folds, however they were cut into batches."""
        meta, arrays, *_ = self.comparable()
        meta = {name: value for name, value in meta.items() if name not in SETTINGS}
        digest = hashlib.blake2b(msgspec.msgpack.encode(meta, order="sorted"), digest_size=16)
        for name in sorted(arrays):
            array = np.ascontiguousarray(arrays[name])
            digest.update(f"{name} {array.dtype} {array.shape}".encode())
            digest.update(array.tobytes())
        return digest.hexdigest()


def _last(piece: Piece) -> tuple[int, int, bytes | None, bytes | None]:
    offsets, timestamps, keys, values = piece.raw
    return int(offsets[-1]), int(timestamps[-1]), keys[-1], values[-1]


def _runs(release: Release) -> list[Release]:
    """The release as runs of features, each with the labels that follow it: nothing within one needs interleaving."""
    features, labels, before = release
    starts = [0, *(np.flatnonzero(np.diff(before)) + 1).tolist()]
    cuts = [(0, 0, 0, int(before[0]))] if before[0] else []
    for start, stop in zip(starts, [*starts[1:], len(before)], strict=True):
        until = int(before[stop]) if stop < len(before) else len(labels.offsets)
        cuts.append((start, stop, int(before[start]), until))
    return [
        Release(features.part(f, f_stop), labels.part(l, l_stop), np.zeros(f_stop - f, np.int64))
        for f, f_stop, l, l_stop in cuts
    ]


def _together(outcomes: list[Outcome]) -> Outcome:
    """Consecutive outcomes as one."""
    width = {role: max(outcome.p[role].shape[1] for outcome in outcomes) for role in outcomes[0].p}
    last = max((i for i, o in enumerate(outcomes) if o.ids), default=0)  # that predicts anything
    wide = [{role: np.pad(p, ((0, 0), (0, width[role] - p.shape[1]))) for role, p in o.p.items()} for o in outcomes]
    return Outcome(
        ids=[id_ for o in outcomes for id_ in o.ids],
        keys=[key for o in outcomes for key in o.keys],
        offsets=np.concatenate([o.offsets for o in outcomes]),
        label_offsets=np.concatenate([o.label_offsets for o in outcomes]),
        p={role: np.concatenate([p[role] for p in wide]) for role in width},
        waited=np.concatenate([o.waited for o in outcomes]),
        feature_times=np.concatenate([o.feature_times for o in outcomes]),
        n_labels=sum(o.n_labels for o in outcomes),
        refused_features=[r for o in outcomes for r in o.refused_features],
        refused_labels=[r for o in outcomes for r in o.refused_labels],
        decode_seconds=sum(o.decode_seconds for o in outcomes),
        kernel_seconds=sum(o.kernel_seconds for o in outcomes),
        drifts=[drift for o in outcomes for drift in o.drifts],
        n_settled=sum(len(o.drifts) for o in outcomes[:last]) + outcomes[last].n_settled,
    )


def _refused(rejected: list[Rejected], offsets: Ints, raw: Any) -> list[Refused]:
    return [
        Refused(int(offsets[r.position]), raw.keys[r.position], raw.values[r.position], r.reason, r.detail)
        for r in rejected
    ]
