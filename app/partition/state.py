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

from riparian.app.partition import clock
from riparian.app.partition.arrays import over
from riparian.app.partition.changes import settings
from riparian.app.partition.clock import Clock
from riparian.app.partition.comparing import Comparing
from riparian.app.partition.deciding import DECIDED, Deciding
from riparian.app.partition.drift import Drift
from riparian.app.partition.inputs import Mark, mark
from riparian.app.partition.intervals import Intervals
from riparian.app.partition.keys.past import Past
from riparian.app.partition.merge import Piece, empty_piece
from riparian.app.partition.pending import PendingStore
from riparian.app.partition.promotion import Promotion
from riparian.app.partition.role import Role
from riparian.app.partition.serving import SAID, Serving, Servings
from riparian.app.partition.sharing import LearnedRows, Sharing
from riparian.app.partition.steering import Steering
from riparian.app.stream_file.lineup import RUNS
from riparian.app.stream_file.sections.keys import past_width
from riparian.app.stream_file.sections.models import AUTO
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import Schema
from riparian.topics.names import AS_IT_COMES, BY_TIME, INPUTS, LEARNED, state_field
from riparian.topics.places import index_of, offset_of
from riparian.topics.records import MULTI_INSTANCE
from riparian.topics.vocabulary import Vocabulary

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


def usual_seed(seed: int, partition: int, shares: bool) -> int:
    """Of the models of a partition: one for all partitions where they learn one model."""
    return seed if shares else seed + partition


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
        self.settings = settings(spec)
        self.files = [spec.digests()]  # of the files that it has gone on with, as it began with the first
        self.room: Schema | None = None
        self._fitted: tuple[Any, ...] = ()  # for which values, room and stakes there was room last
        self.last_taken: dict[str, tuple[Any, ...]] = {}  # role of an input topic -> its last record taken, or the mark
        self.aside: dict[str, int] = {}  # where a log stands that the stream file has switched off
        self.schema = self._first = self._needed()
        self.past = Past(spec)
        self.pending = PendingStore(
            self.schema.n_features,
            dict.fromkeys(spec.models(), self.schema.n_outputs),
            horizon=spec.join.horizon,
            max_pending=spec.most_waiting,
            max_labels=spec.join.max_labels,
            max_bytes=spec.join.max_pending_bytes,
            bags=spec.task == MULTI_INSTANCE,
            remembers=spec.topics.labels is not None,
            made=self.past.columns,
            past_width=past_width(spec),
        )
        self.sharing: Sharing | None = None
        if spec.shares:
            self.sharing = Sharing(spec, partition, self.pending, (self.vocabularies, self.classes))
            self.vocabularies, self.classes = self.sharing.vocabularies, self.sharing.classes
        self.deciding = Deciding(spec, self.classes)
        self.deciding.fit(self.schema.n_outputs)
        self.roles = {name: self.make_role(name, spec) for name in spec.models()}
        self.servings = Servings(spec, self.pending, self.deciding)
        for name, role in self.roles.items():
            for store in self.stores:
                store.add(name, role.kept_names, self.schema.n_outputs)
        self.intervals = Intervals(spec, self.schema.n_outputs, self.pending)
        self.drift = Drift(spec, partition, self.roles, self.decoding[0], self.classes)
        stakes = self.deciding if self.sharing is None else self.sharing.stakes
        stakes.fit(self.schema.n_outputs)
        self.comparing = Comparing(spec, self.roles, stakes)
        self.steering = Steering(self)
        self.promotion = Promotion(self, self.steering)
        self._commands: list[Piece] = []  # that take effect before the next instance that is predicted
        self._held = empty_piece()  # of what all partitions share: a command, and what is behind it, likewise
        self.spoke: Serving | None = None  # the champion at the last prediction, where a rule has promoted since

    @property
    def tells(self) -> bool:
        """Whether what is known of the models is told by this partition. Of a model that all learn, by the first."""
        return self.sharing is None or self.partition == 0

    @property
    def decoding(self) -> tuple[list[Vocabulary | None], Vocabulary | None]:
        """Values and classes as they came in this partition: those of the models, unless partitions share these."""
        return (self.vocabularies, self.classes) if self.sharing is None else self.sharing.own

    @property
    def stores(self) -> list[Servings | LearnedRows]:
        """Where predictions stand under the names of models."""
        return [self.servings, *([] if self.sharing is None else [self.sharing.rows])]

    def make_role(self, name: str, spec: Spec) -> Role:
        """A model that begins. spec : the stream with this model."""
        rows = None if self.sharing is None else self.sharing.rows
        seed = self.sharing.terms.seed if self.sharing is not None else usual_seed(spec.seed, self.partition, False)
        role = Role(name, spec, self._first, self.pending if rows is None else rows, seed)
        if self.schema != self._first:
            role.resize(self.schema)
        return role

    def settle(self, spec: Spec) -> None:
        """What this stream file says besides its models holds from here on (`Spec.running`, and its features)."""
        self._widen(spec)
        self.spec, self.settings = spec, settings(spec)
        self.past.settle(spec)
        join = spec.join
        self.pending.bound(join.horizon, self.spec.most_waiting, join.max_labels, join.max_pending_bytes)
        for role in self.roles.values():
            role.settle(spec)
        self.servings.settle(spec)
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
        if self.room is not None:
            self.room = self.room._replace(n_values=self.room.n_values + room)
        self.schema = self.room_now()
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

    def warm_up(self) -> None:
        """Compile the kernels, or load them from the cache, before the first record."""
        for name, role in self.roles.items():
            role.warm_up()
            self.servings[name].warm_up(role)
        clock.warm_up()
        self.pending.warm_up()
        self.past.warm_up()
        self.drift.warm_up()
        self.codec.warm_up()
        self.comparing.warm_up()
        self.intervals.warm_up()

    def _needed(self) -> Schema:
        """The room that values and classes known now need."""
        n_values = tuple(0 if v is None else v.capacity for v in self.vocabularies)
        return Schema(n_values, 1 if self.classes is None else max(2, self.classes.capacity), self.spec.task)

    def room_now(self) -> Schema:
        """The same, and no less than there ever was, nor than a fresh state has."""
        found = self._needed()
        for there in (self._first, self.room):
            if there is not None:
                n_values = tuple(map(max, found.n_values, there.n_values))
                found = found._replace(n_values=n_values, n_outputs=max(found.n_outputs, there.n_outputs))
        return found

    def fit_schema(self) -> None:
        """Give the models room for values and classes seen since."""
        sharing = self.sharing
        stakes = None if sharing is None else sharing.stakes
        known = [len(v) for v in (*self.vocabularies, self.classes) if v is not None], self.room, stakes
        if known == self._fitted:
            return
        self._fitted = known
        schema = self.room_now()
        self.deciding.fit(schema.n_outputs)
        if stakes is not None:
            stakes.fit(schema.n_outputs)
        if schema == self.schema:
            return
        self.schema = schema
        for name, role in self.roles.items():
            role.resize(schema)
            self.servings[name].resize(schema.n_outputs)
        self.intervals.resize(schema.n_outputs)
        own = [] if sharing is None else sharing.names
        outputs = [name for name in self.pending.out if not name.endswith((SAID, DECIDED)) and name not in own]
        self.pending.resize(dict.fromkeys(outputs, schema.n_outputs))
        if sharing is not None:
            sharing.rows.resize(schema.n_outputs)

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
        """Live arrays of all but what waits, and is known of keys."""
        arrays: dict[str, NDArray[Any]] = {}
        for name, role in self.roles.items():
            arrays |= role.state() | self.servings[name].state()
        arrays |= over("compared/", self.comparing.state()) | over("drift/", self.drift.state())
        arrays |= self.intervals.state() | ({} if self.sharing is None else self.sharing.state())
        values = msgspec.msgpack.encode([None if v is None else v.state() for v in self.decoding[0]])
        arrays["vocabularies"] = np.frombuffer(values, dtype=np.uint8)
        return arrays

    def _meta(self) -> dict[str, Any]:
        """Whatever is no array: places, clocks, classes, what the models are and what the stream file said."""
        auto = {"auto": self.spec.champion.parameters} if self.spec.champion.model == AUTO else {}
        marks = {"marks": {role: list(found) for role, found in self.marks().items()}} if self.last_taken else {}
        return {
            "models": {name: [role.learner_name, role.model.parameters()] for name, role in self.roles.items()},
            "classes": None if self.decoding[1] is None else self.decoding[1].state(),
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
            **self.aside,
            "n_instances": self.n_instances,
            "n_labels": self.n_labels,
            "settings": self.settings,
            "room": [list(self.schema.n_values), self.schema.n_outputs],
            "origin": self.origin,
            **marks,
            **auto,
            **self.steering.state(),
            **self.promotion.state(self.comparing.proposed()),
            **({} if self.spoke is None else {"spoke": self.spoke.name}),
            **({} if self.sharing is None else self._keys()),
            **({} if self.sharing is None else self._since() | self._begun()),
            **({} if self.sharing is None else self._runs()),
            **self._seeds(),
        }

    def _seeds(self) -> dict[str, dict[str, int]]:
        """Seeds of models that another partition, or another stream file, has begun; nothing where there are none."""
        usual = usual_seed(self.spec.seed, self.partition, self.sharing is not None)
        seeds = {name: role.seed for name, role in self.roles.items() if role.seed != usual}
        return {"seeds": seeds} if seeds else {}

    def _keys(self) -> dict[str, dict[str, str]]:
        """Keys of models that are called otherwise by now; nothing where there are none."""
        keys = {name: role.key for name, role in self.roles.items() if role.key != name}
        return {"keys": keys} if keys else {}

    def _since(self) -> dict[str, dict[str, int]]:
        """Since when models predict that took over from others; nothing where there are none. What waits is in the log
        later, so nothing else tells."""
        since = {name: role.memos.since for name, role in self.roles.items() if role.memos.since}
        return {"since": since} if since else {}

    def _begun(self) -> dict[str, dict[str, dict[str, int]]]:
        """The same of single members of a model."""
        begun = {name: role.memos.begun for name, role in self.roles.items() if role.memos.begun}
        return {"begun": begun} if begun else {}

    def _runs(self) -> dict[str, Any]:
        """What the state goes on by, as `Spec.runs_by` has it."""
        spec = self.spec
        return {RUNS: {"settings": spec.running(), "on_drift": spec.own_on_drift(), "files": self.files}}

    def marks(self) -> dict[str, Mark]:
        """Role of an input topic -> mark of the last record taken. Hashed here and not in the step."""
        self.last_taken = {
            role: last if isinstance(last, Mark) else mark(*last) for role, last in self.last_taken.items()
        }
        return dict(self.last_taken)  # type: ignore[arg-type]

    def comparable(self) -> Snapshot:
        """The snapshot, without arrays whose bytes may differ though equal folds made them."""
        snapshot = self.snapshot()
        left_out = set().union(*(role.incomparable for role in self.roles.values()))
        return snapshot._replace(
            arrays={name: array for name, array in snapshot.arrays.items() if name not in left_out}
        )

    def learned_digest(self) -> str:
        """A hash of what all partitions share: equal where they have learned the same part of the log. Without the
        probabilities that scores keep, which begin where a state of before is read: at other places of the log in
        partitions that shall share a replica."""
        digest = hashlib.blake2b(f"{self.places.get(LEARNED)} {self.schema}".encode(), digest_size=16)
        arrays = over("compared/", self.comparing.state())
        for role in self.roles.values():
            if role.trial is not None:
                trial = over(f"drift/trials/{role.name}/", role.trial.state())
                arrays |= {name: a for name, a in trial.items() if name not in role.incomparable}
            arrays |= {f"{role.name}/{name}": array for name, array in role.state_of_watching().items()}
            arrays |= {name: a for name, a in role.state().items() if name not in role.incomparable}
        for name in sorted(arrays.keys() - {f"metrics/{name}/probabilities" for name in self.roles}):
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
