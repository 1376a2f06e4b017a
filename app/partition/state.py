"""What a partition has learned and where it stands: models, pending store, vocabularies, metrics; and all of it as
plain values and arrays, of which `app.partition.restoring` makes it again.

A snapshot is taken between steps, at exactly the next offset of each input log.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.arrays import over
from riparian.app.partition.drift.events import Drift
from riparian.app.partition.join.pending import PendingStore, Unlabelled
from riparian.app.partition.keys.past import Past
from riparian.app.partition.lineup.lineup import Lineup
from riparian.app.partition.lineup.model_slot import ModelSlot
from riparian.app.partition.lineup.promotion import Places, Promotion
from riparian.app.partition.predictions.decision_policy import DecisionPolicy
from riparian.app.partition.predictions.intervals import Intervals
from riparian.app.partition.predictions.serving import Serving, Servings
from riparian.app.partition.records import clock
from riparian.app.partition.records.clock import Clock
from riparian.app.partition.records.inputs import Mark, mark
from riparian.app.partition.records.partition_group import Piece, empty_piece
from riparian.app.partition.shared.shared_lineup import SharedLineup
from riparian.app.partition.shared.sharing import Sharing
from riparian.app.stream_file.lineup import RUNS
from riparian.app.stream_file.sections.keys import past_width
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import Schema
from riparian.topics.names import AS_IT_COMES, BY_TIME, INPUTS, LEARNED, state_field
from riparian.topics.places import index_of, offset_of
from riparian.topics.records import MULTI_INSTANCE

# of a snapshot's meta: how it was learned, not what; and what states of before do not have
SETTINGS = ("settings", "room", "origin", "marks", "auto", "stamps", "leaps", RUNS)


class Snapshot(NamedTuple):
    """A learner's state at the next offsets of its input logs.

    meta : msgpack-able
    arrays : name -> array
    frozen : arrays that are new and will not change (of what waits, and is known of keys)
    kept : names of frozen arrays of earlier snapshots that still belong to the state
    common : names of arrays that other partitions of the worker hold, too
    """

    meta: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    frozen: Mapping[str, NDArray[Any]] = {}
    kept: Sequence[str] = ()
    common: Collection[str] = ()


def present(spec: Spec) -> list[int] | None:
    """The columns of the features that records have; None: all."""
    recorded = spec.recorded
    found = [j for j, name in enumerate(spec.features) if name in recorded]
    return found if len(found) < len(spec.features) else None


def unlabelled_of(spec: Spec) -> Unlabelled | None:
    """When labels are learned, as a stream file says it."""
    given, classes = spec.join.unlabelled, spec.class_vocabulary()
    if given is None:
        return None
    assumed = np.nan if given.is_ is None or classes is None else float(classes.find(given.is_))
    return Unlabelled(int(given.after * 1000), assumed)


class PartitionState:
    """Models, pending store, vocabularies and metrics of one partition.

    Parameters
    ----------
    spec : Spec
        The stream file.
    partition : int
        Added to the stream file's seed, so that partitions differ.
    """

    def __init__(self, spec: Spec, partition: int = 0) -> None:
        self.partition = partition
        self.files = [spec.digests()]  # of the files that it has gone on with, as it began with the first
        self._begin(spec)

    def _begin(self, spec: Spec) -> None:
        """Know nothing yet, by this stream file."""
        partition = self.partition
        self.codec = spec.make_codec()
        self._present, self._columns = present(spec), (spec.features, spec.gone)
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
        self.last_taken: dict[str, tuple[Any, ...]] = {}  # role of an input topic -> its last record taken, or the mark
        self.aside: dict[str, int] = {}  # where a log stands that the stream file has switched off
        values, classes = spec.vocabularies(), spec.class_vocabulary()
        self.past = Past(spec)
        self.pending = PendingStore(
            len(values),
            dict.fromkeys(spec.models(), 1 if classes is None else max(2, classes.capacity)),
            horizon=spec.join.horizon,
            max_pending=spec.most_waiting,
            max_labels=spec.join.max_labels,
            max_bytes=spec.join.max_pending_bytes,
            bags=spec.task == MULTI_INSTANCE,
            remembers=spec.topics.labels is not None,
            made=self.past.columns,
            past_width=past_width(spec),
            unlabelled=unlabelled_of(spec),
            corrects=spec.label.on_repeat == "correct",
        )
        # Values and classes as they came in this partition: those of the models, unless partitions share these.
        self.decoding = values, classes
        self.sharing: Sharing | None = None
        if spec.shares:
            lineup = SharedLineup(spec)
            self.lineup: Lineup = lineup
            self.sharing = Sharing(spec, partition, self.pending, self.decoding, lineup)
            self.vocabularies, self.classes = self.sharing.vocabularies, self.sharing.classes
        else:
            self.lineup = Lineup(spec, spec.seed + partition, self.pending, values, classes)
            self.vocabularies, self.classes = values, classes
        if self.sharing is None:
            self.lineup.steering.forgets = lambda key, hashed: self.past.forget(key, hashed, self.pending)
        self._n_outputs = self.schema.n_outputs
        self.deciding = DecisionPolicy(spec, self.classes)
        self.deciding.fit(self._n_outputs)
        self.servings = Servings(spec, self.pending, self.deciding, self._settle)
        if self.sharing is None:
            self.lineup.join(self.servings)
        else:
            for name, role in self.roles.items():
                self.servings.add(name, role.key, role.memos.names, self._n_outputs)
        self.intervals = Intervals(spec, self._n_outputs, self.pending)
        self.drift = Drift(spec, partition, self.lineup, self.decoding[0], self.classes)
        self.promotion = Promotion(spec.name, partition, Places(self.bits, self.places, self.clocks))
        self.promotion.models = self.lineup.learners()
        self._commands: list[Piece] = []  # that take effect before the next instance that is predicted
        self._held = empty_piece()  # of what all partitions share: a command, and what is behind it, likewise
        self.spoke: Serving | None = None  # of the champion at the last prediction, where a rule has promoted since

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
    def tells(self) -> bool:
        """Whether what is known of the models is told by this partition. Of a model that all learn, by the first."""
        return self.sharing is None or self.partition == 0

    def _settle(self, spec: Spec) -> None:
        """What this stream file says besides its models holds from here on."""
        if (spec.features, spec.gone) != self._columns:
            self._columns = spec.features, spec.gone
            self.codec, self._present = spec.make_codec(), present(spec)
            if new := len(self.decoding[0]) - self.pending.n_features:
                self.pending.widen(new)
        self.past.settle(spec)
        join = spec.join
        bounds = join.horizon, spec.most_waiting, join.max_labels, join.max_pending_bytes
        self.pending.bound(*bounds, unlabelled_of(spec))
        self.drift.settle(spec)
        self.intervals.settle(spec)

    @property
    def offsets(self) -> dict[str, int]:
        """Role of each input log -> Kafka's offset of the record that holds the next instance."""
        return {role: offset_of(place, self.bits[role]) for role, place in self.places.items()}

    def warm_up(self) -> None:
        """Compile the kernels, or load them from the cache, before the first record."""
        self.lineup.warm_up()
        for name, role in self.roles.items():
            self.servings[name].warm_up(role)
        clock.warm_up()
        self.pending.warm_up()
        self.past.warm_up()
        self.drift.warm_up()
        self.codec.warm_up()
        self.intervals.warm_up()

    def fit_schema(self) -> None:
        """Have room for the classes that the models have room for."""
        n_outputs = self.schema.n_outputs
        self.deciding.fit(n_outputs)
        if n_outputs == self._n_outputs:
            return
        self._n_outputs = n_outputs
        for serving in self.servings.values():
            serving.resize(n_outputs)
            self.pending.resize(dict.fromkeys((serving.name, *serving.kept_names), n_outputs))
        self.intervals.resize(n_outputs)
        self.pending.resize(dict.fromkeys(self.intervals.names, n_outputs))

    def snapshot(self) -> Snapshot:
        """Everything that is known at these offsets, whole. Its arrays are live: use them before the next step."""
        waiting = over("pending/", self.pending.state()) | over("keys/", self.past.state())
        return Snapshot(self._meta(), self._arrays() | waiting)

    def checkpoint(self) -> Snapshot:
        """As `snapshot`, with what changed since the last call of what waits and of keys, instead of all of it."""
        changed, touched = self.pending.checkpoint(), self.past.checkpoint()
        waiting = {"instances": self.pending.n_waiting, "labels": self.pending.n_labels_waiting}
        kept = [*(f"pending/{field}" for field in changed.kept), *(f"keys/{field}" for field in touched.kept)]
        frozen = over("pending/", changed.arrays) | over("keys/", touched.arrays)
        return Snapshot({**self._meta(), "waiting": waiting}, self._arrays(), frozen, kept)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Live arrays of all but the pending store."""
        arrays = self.lineup.state() | over("drift/", self.drift.state()) | self.intervals.state()
        for serving in self.servings.values():
            arrays |= serving.state()
        values = msgspec.msgpack.encode([None if v is None else v.state() for v in self.decoding[0]])
        arrays["vocabularies"] = np.frombuffer(values, dtype=np.uint8)
        return arrays

    def _meta(self) -> dict[str, Any]:
        """Whatever is no array: places, clocks, classes, what the models are and what the stream file said."""
        marks = {"marks": {role: list(found) for role, found in self.marks().items()}} if self.last_taken else {}
        of_models = self.lineup.meta(self.promotion.n_events, self.files)
        return {
            "models": of_models.pop("models"),
            "classes": None if self.decoding[1] is None else self.decoding[1].state(),
            **{state_field(role, "offset"): offset for role, offset in self.offsets.items()},
            **{
                state_field(role, "index"): index_of(self.places[role], bits)
                for role, bits in self.bits.items()
                if bits
            },
            **{state_field(role, "time"): clock.time for role, clock in self.clocks.items()},
            "stamps": {role: list(clock.stamps) for role, clock in self.clocks.items()},
            "leaps": {role: clock.leaps for role, clock in self.clocks.items()},
            **self.aside,
            "n_instances": self.n_instances,
            "n_labels": self.n_labels,
            "origin": self.origin,
            **marks,
            **of_models,
            **self.promotion.state(self.lineup.comparing.proposed()),
            **({} if self.spoke is None else {"spoke": self.spoke.name}),
        }

    def marks(self) -> dict[str, Mark]:
        """Role of an input topic -> mark of the last record taken. Hashed here and not in the step."""
        self.last_taken = {
            role: last if isinstance(last, Mark) else mark(*last) for role, last in self.last_taken.items()
        }
        return dict(self.last_taken)  # type: ignore[arg-type]

    def comparable(self) -> Snapshot:
        """The snapshot, without arrays whose bytes may differ though equal folds made them."""
        snapshot = self.snapshot()
        left_out = self.lineup.incomparable()
        return snapshot._replace(
            arrays={name: array for name, array in snapshot.arrays.items() if name not in left_out}
        )

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
