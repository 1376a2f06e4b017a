"""What a partition has learned and where it stands: models, pending store, vocabularies, metrics; and all of it as
plain values and arrays, of which it can be made again.

A snapshot is taken between steps, at exactly the next offset of each input log.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from app.errors import RiparianError, StateError
from app.partition.arrays import over, under
from app.partition.changes import (
    DECISION,
    DETECTORS,
    DISTRIBUTIONS,
    LEARNING,
    next_origin,
    reconcile,
    room_of,
    settings,
)
from app.partition.clock import Clock
from app.partition.comparing import Comparing
from app.partition.deciding import DECIDED, Deciding, decided_name
from app.partition.drift import Drift
from app.partition.inputs import Mark, mark
from app.partition.intervals import Intervals
from app.partition.merge import Piece, empty_piece
from app.partition.pending import PendingStore, Source
from app.partition.promotion import Promotion
from app.partition.role import Role
from app.partition.scored_model import SAID, said_name
from app.partition.sharing import STATE as SHARED
from app.partition.sharing import VALUES, Sharing
from app.partition.steering import FILES, Steering
from app.stream_file.decision_spec import same_costs, same_target
from app.stream_file.lineup import RUNS
from app.stream_file.spec import Spec
from app.stream_file.spec_parts import AUTO
from models.contract import Schema
from models.registry import kept_on
from models.restoring import DamagedError
from topics.names import (
    AS_IT_COMES,
    BY_TIME,
    CONTROL,
    INPUTS,
    LEARNED,
    state_field,
)
from topics.places import index_of, offset_of, place_of
from topics.records import MULTI_INSTANCE
from topics.vocabulary import Vocabulary

MOST_PLACES = 2**62
# of a snapshot's meta: how it was learned, not what; and what states of before do not have
SETTINGS = ("settings", "room", "origin", "marks", "auto", "stamps", "leaps", RUNS)


class Snapshot(NamedTuple):
    """A learner's state at the next offsets of its input logs.

    meta : msgpack-able
    arrays : name -> array
    frozen : arrays that are new and will not change (of the pending store)
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
    return [j for j, name in enumerate(spec.features) if name not in spec.gone] if spec.gone else None


def usual_seed(seed: int, partition: int, shares: bool) -> int:
    """Of the models of a partition: one for all partitions where they learn one model."""
    return seed if shares else seed + partition


def seeds_of(meta: Mapping[str, Any], partition: int, roles: Mapping[str, Any], now: int) -> dict[str, int]:
    """Of the models of a partition's state, by role. now : what the stream file says; early states do not."""
    said = (meta.get("settings") or {}).get("seed", now)
    usual = usual_seed(int(said), partition, SHARED in meta)
    return dict.fromkeys(roles, usual) | {name: int(seed) for name, seed in (meta.get("seeds") or {}).items()}


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
        self.last_taken: dict[str, tuple[Any, ...]] = {}  # role of an input topic -> its last record taken, or the mark
        self.aside: dict[str, int] = {}  # where a log stands that the stream file has switched off
        self.schema = self._first = self.room_now()
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
        self.drift = Drift(spec, partition, self.roles, self.decoding[0], self.classes)
        self.comparing = Comparing(spec, self.roles)
        self.steering = Steering(self)
        self.promotion = Promotion(self, self.steering)
        self._commands: list[Piece] = []  # that take effect before the next instance that is predicted
        self._held = empty_piece()  # of what all partitions share: a command, and what is behind it, likewise
        self.spoke: Role | None = None  # the champion at the last prediction, where a rule has promoted since

    @property
    def tells(self) -> bool:
        """Whether what is known of the models is told by this partition. Of a model that all learn, by the first."""
        return self.sharing is None or self.partition == 0

    @property
    def decoding(self) -> tuple[list[Vocabulary | None], Vocabulary | None]:
        """Values and classes as they came in this partition: those of the models, unless partitions share these."""
        return (self.vocabularies, self.classes) if self.sharing is None else self.sharing.own

    def make_role(self, name: str, spec: Spec) -> Role:
        """A model that begins. spec : the stream with this model."""
        rows = None if self.sharing is None else self.sharing.rows
        seed = usual_seed(spec.seed, self.partition, self.sharing is not None)
        role = Role(name, spec, self._first, self.pending, seed, rows, self.deciding)
        if self.schema != self._first:
            role.resize(self.schema)
        return role

    def settle(self, spec: Spec) -> None:
        """What this stream file says besides its models holds from here on (`Spec.running`, and its features)."""
        self._widen(spec)
        self.spec, self.settings = spec, settings(spec)
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

    def room_now(self) -> Schema:
        n_values = tuple(0 if v is None else v.capacity for v in self.vocabularies)
        n_outputs = 1 if self.classes is None else max(2, self.classes.capacity)
        if self.room is not None:
            n_values = tuple(map(max, n_values, self.room.n_values))
            n_outputs = max(n_outputs, self.room.n_outputs)
        return Schema(n_values, n_outputs, self.spec.task)

    def fit_schema(self) -> None:
        """Give the models room for values and classes seen since."""
        schema = self.room_now()
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
        since = {name: role.since for name, role in self.roles.items() if role.since}
        return {"since": since} if since else {}

    def _begun(self) -> dict[str, dict[str, dict[str, int]]]:
        """The same of single members of a model."""
        begun = {name: role.begun for name, role in self.roles.items() if role.begun}
        return {"begun": begun} if begun else {}

    def _runs(self) -> dict[str, Any]:
        """What the state goes on by, as `Spec.runs_by` has it."""
        spec = self.spec
        return {RUNS: {"settings": spec.running(), "on_drift": spec.own_on_drift(), "files": self.files}}

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

    def _restore_keys(self, takes: Mapping[str, str | None], keys: Mapping[str, str]) -> None:
        """Models go on under their keys. One that is new, or goes on with what another has learned, gets a free one."""
        taken = set[str]()
        for name, source in sorted(takes.items(), key=lambda one: one[1] is None):
            role = self.roles[name]
            role.key = name if source is None else keys.get(source, source)
            while role.key in taken:
                role.key += "+"
            taken.add(role.key)

    def _restore_begun(self, role: Role, source: str | None, meta: Mapping[str, Any]) -> None:
        """Since when members predict that came while the model ran, and those that the stream file brings."""
        if source is not None:
            places = kept_on(role.learner_name, self.spec.task, meta["models"][source][1], role.model.parameters())
            begun = (meta.get("begun") or {}).get(source) or {}
            role.begun = {name: int(begun[name]) for name, at in places.items() if at is not None and name in begun}
            role.begin([name for name, at in places.items() if at is None])

    def _kept_sources(self, role: Role, source: str | None, models: Mapping[str, Any]) -> dict[str, Source | None]:
        """Name of each array that a model keeps beside instances -> what was `source`'s in the state."""
        if source is None:
            return dict.fromkeys(role.kept_names)
        places = kept_on(role.learner_name, self.spec.task, models[source][1], role.model.parameters())
        found = [
            None if at is None else Source(f"{source}/{name}", f"{source}/{at}", at != i)
            for i, (name, at) in enumerate(places.items())
        ]
        return dict(zip(role.kept_names, found, strict=True))

    def _restore(self, snapshot: Snapshot, topics: Mapping[str, str] | None) -> list[str]:
        """Whatever the state holds that nobody wrote may raise anything here."""
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
        values, classes = self.decoding
        for vocabulary, state in zip(values, known, strict=True):
            if vocabulary is not None:
                vocabulary.restore(state)
        if classes is not None:
            classes.restore(meta["classes"])
        of_models = meta["classes"]
        if self.sharing is not None:
            known, of_models = self.sharing.restore(meta, arrays)
        # The arrays have the room that they had then; where the bounds were lowered since, that stays.
        self.room = room_of(meta | {"classes": of_models}, known, self.spec.task)
        was = self.room or self.room_now()
        self.fit_schema()
        then = meta.get("settings") or {}
        decides = same_target(then.get(DECISION), self.settings.get(DECISION))
        self.steering.restore_columns(meta, changes.takes)
        seeds = seeds_of(meta, self.partition, meta["models"], self.spec.seed)
        for name, source in changes.takes.items():
            if source is not None:
                self.roles[name].seed = seeds[source]
                self.roles[name].restore(arrays, source, was, meta["models"][source][1], decides)
        self._restore_keys(changes.takes, meta.get("keys") or {})
        since = {} if self.sharing is None else meta.get("since") or {}
        for name, source in changes.takes.items():
            self.roles[name].since = int(since[source]) if source in since else None
            self._restore_begun(self.roles[name], source, meta)
        ran = [list(one) for one in (file.runs_by(meta) or {"files": []})["files"]]
        self.files = ran if file.digests() in ran else [*ran[:1], *ran[1:][-FILES:], file.digests()]
        proposed = self.promotion.restore(meta)
        if same_costs(then.get(DECISION), self.settings.get(DECISION)):
            self.comparing.restore(under(arrays, "compared/"), proposed, changes.takes)
        n_classes = None if classes is None else len(classes)
        self.intervals.restore(arrays, self.schema.n_outputs)
        own = [*self.intervals.names, *([] if self.sharing is None else self.sharing.names)]
        sources: dict[str, str | Source | None] = {**changes.takes, **{name: name for name in own}}
        for name, source in changes.takes.items():
            sources |= self._kept_sources(self.roles[name], source, meta["models"])
            for place in (said_name, decided_name):
                sources[place(name)] = None if source is None else place(source)
        self.pending.restore(under(arrays, "pending/"), sources, n_classes)
        same, same_tests = (then.get(what) == self.settings.get(what) for what in (DETECTORS, DISTRIBUTIONS))
        self.drift.restore(under(arrays, "drift/"), changes.takes, same, same_tests, was)
        self.n_instances, self.n_labels = int(meta["n_instances"]), int(meta["n_labels"])
        stamps, leaps = meta.get("stamps", {}), meta.get("leaps", {})  # states of before have none
        for role in self.rules:
            fields = state_field(role, "offset"), state_field(role, "time")
            stood = meta if role in INPUTS else dict.fromkeys(fields, 0) | meta  # a log may be new to the stream
            _, moment = (int(stood[field]) for field in fields)
            self.places[role] = self.place_in(meta, role)
            self.clocks[role] = Clock(moment, stamps.get(role, ()), leaps.get(role, (0, 0)))
        self.spoke = next(
            (self.roles[one] for one, was in changes.takes.items() if was and was == meta.get("spoke")), None
        )
        field = state_field(CONTROL, "offset")
        self.aside = {field: int(meta[field])} if CONTROL not in self.rules and field in meta else {}
        self.steering.restore(meta, changes.takes)
        self.origin = next_origin(meta) if changes.found else meta.get("origin")
        self.last_taken = {
            role: Mark(*found) for role, found in meta.get("marks", {}).items()
        }  # formats before had none
        notes = [note for note in (changes.steered, changes.kept) if note]
        return [*notes, *(change.sentence for change in changes.found)]

    def begin_with(self, snapshot: Snapshot, partition: int) -> list[str]:
        """A fresh learner begins with the models of `snapshot`, of either kind of learning, and with the values and
        classes that they know: nothing waits, and nothing is scored yet. Returns the roles of the models that the state
        does not have, which begin anew. partition : whose state it is.

        Raises
        ------
        StateError
            The models do not fit the stream file, or the state holds what no version of this program has written.
        """
        try:
            return self._begin_with(snapshot.meta, snapshot.arrays, partition)
        except RiparianError:
            raise
        except Exception as error:  # as in `restore`
            raise StateError(f"the state cannot be used: {str(error).strip().partition(chr(10))[0]}") from error

    def _begin_with(self, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], partition: int) -> list[str]:
        left = meta.get("steering") or {}
        if "features" in left:
            raise StateError("commands have changed its features, so its models do not have those of a stream file")
        # Which models there are the stream file says, whatever commands and promotions have left.
        meta = {name: value for name, value in meta.items() if name not in ("steering", RUNS)}
        spec = self.spec.adopting(meta)
        if spec is not self.spec:
            self.__init__(spec, self.partition)  # type: ignore[misc]
        packed = arrays["vocabularies"]
        if SHARED in meta:
            meta["classes"], packed = meta[SHARED]["classes"], arrays[VALUES]
        known = msgspec.msgpack.decode(packed.tobytes())
        then = meta.get("settings") or {}
        now = {place: value for place, value in self.settings.items() if place == LEARNING}
        same_kind = {place: value for place, value in then.items() if place != LEARNING} | now
        changes = reconcile(self.spec, meta | {"settings": same_kind}, known)
        if changes.refused:
            raise StateError("; also, ".join(changes.refused))
        for vocabulary, state in zip(self.vocabularies, known, strict=True):
            if vocabulary is not None:
                vocabulary.restore(state)
        if self.classes is not None:
            self.classes.restore(meta["classes"])
        self.room = room_of(meta, known, self.spec.task)
        was = self.room or self.room_now()
        self.fit_schema()
        seeds = seeds_of(meta, partition, meta["models"], self.spec.seed)
        for name, source in changes.takes.items():
            if source is not None:
                self.roles[name].seed = seeds[source]
                self.roles[name].begin_with(arrays, source, was, meta["models"][source][1])
        self.origin = next_origin(self._meta())
        return [name for name, source in changes.takes.items() if source is None]

    def go_on_at(self, meta: Mapping[str, Any]) -> None:
        """Stand in the topics of features and labels where a state does that has learned them up to there."""
        stamps, leaps = meta.get("stamps", {}), meta.get("leaps", {})
        for role in INPUTS:
            self.places[role] = self.place_in(meta, role)
            self.clocks[role] = Clock(
                int(meta[state_field(role, "time")]), stamps.get(role, ()), leaps.get(role, (0, 0))
            )
        self.last_taken = {role: Mark(*found) for role, found in meta.get("marks", {}).items() if role in INPUTS}
        self.origin = next_origin(self._meta())

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
        """A hash of what all partitions share: equal where they have learned the same part of the log."""
        digest = hashlib.blake2b(f"{self.places.get(LEARNED)} {self.schema}".encode(), digest_size=16)
        arrays = over("compared/", self.comparing.state())
        for role in self.roles.values():
            if role.trial is not None:
                trial = over(f"drift/trials/{role.name}/", role.trial.state())
                arrays |= {name: a for name, a in trial.items() if name not in role.incomparable}
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
