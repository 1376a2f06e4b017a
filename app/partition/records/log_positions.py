"""Where a partition stands in its input logs, by role: the next place, the time, and the last record taken. Pure."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from riparian.app.errors import StateError
from riparian.app.partition.records.clock import Clock
from riparian.app.partition.records.inputs import Mark, mark
from riparian.app.partition.records.partition_group import Ints, Piece, RecordQueue, Release
from riparian.app.stream_file.spec import Spec
from riparian.topics.codecs import Codec
from riparian.topics.names import BY_TIME, CONTROL, FEATURES, INPUTS, state_field
from riparian.topics.places import index_of, offset_of, place_of
from riparian.topics.records import Packed

MOST_PLACES = 2**62


class LogPositions:
    """Of one partition.

    Parameters
    ----------
    besides : mapping of str to str
        Role of a log that is no input topic of the stream file -> the rule by which its records are ordered.

    Attributes
    ----------
    rules : dict
        Role of each log -> its rule; that of the labels also where they come inside the feature records.
    bits : dict
        Role -> bits of the index in its places.
    places : dict
        Role -> its next place.
    clocks : dict
        Role -> Clock
    """

    def __init__(self, spec: Spec, partition: int, codec: Codec, besides: Mapping[str, str]) -> None:
        self._partition = partition
        self.rules = dict.fromkeys(INPUTS, BY_TIME) | {log.role: log.rule for log in spec.inputs} | dict(besides)
        self._read = {*besides, *(log.role for log in spec.inputs)}
        self.bits = {role: codec.index_bits.of(role) for role in self.rules}
        self.places = dict.fromkeys(self.rules, 0)
        self.clocks = {role: Clock() for role in self.rules}
        self.last_taken: dict[str, tuple[Any, ...]] = {}  # role of an input topic -> its last record taken, or the mark
        self._aside: dict[str, int] = {}  # where a log stands that the stream file has switched off

    @property
    def offsets(self) -> dict[str, int]:
        """Role of each input log -> Kafka's offset of the record that holds the next instance."""
        return {role: offset_of(place, self.bits[role]) for role, place in self.places.items()}

    def queues(self, codec: Codec) -> dict[str, RecordQueue]:
        """Role of each input log -> where its next records wait for the merge."""
        return {
            role: RecordQueue(
                self.places[role],
                self.clocks[role].time,
                self.clocks[role].stamps,
                rule,
                self.bits[role],
                partial(codec.unpack, role) if self.bits[role] else None,
            )
            for role, rule in self.rules.items()
            if role in self._read
        }

    def take(self, role: str, piece: Piece) -> None:
        """Records of a log were applied."""
        if len(piece.offsets):
            self.places[role] = piece.end
            raw, value = piece.raw, piece.raw.values[-1]
            value = value.value if isinstance(value, Packed) else value
            offset = offset_of(int(raw.offsets[-1]), self.bits[role])
            self.last_taken[role] = offset, int(raw.timestamps[-1]), raw.keys[-1], value

    def next_places(self, release: Release) -> dict[str, Ints]:
        """Role of every other log than the features' -> its next place when each feature record is predicted.

        That of the labels says which version of the model made a prediction.
        """
        n, pieces, found = len(release.pieces[FEATURES].offsets), release.pieces, {}
        for role in self.rules:
            if role == FEATURES:
                continue
            piece = pieces.get(role) if n else None
            if piece is not None and role in release.before and len(piece.offsets):
                places = np.empty(len(piece.offsets) + 1, np.int64)
                places[0], places[1:] = self.places[role], piece.after()
                found[role] = places.take(release.before[role])
            else:
                places = found[role] = np.empty(n, np.int64)
                places[:] = self.places[role]
        return found

    # -- state -------------------------------------------------------------------------------------------------

    def marks(self) -> dict[str, Mark]:
        """Role of an input topic -> mark of the last record taken. Hashed here and not in the step."""
        self.last_taken = {
            role: last if isinstance(last, Mark) else mark(*last) for role, last in self.last_taken.items()
        }
        return dict(self.last_taken)  # type: ignore[arg-type]

    def state(self) -> dict[str, Any]:
        """All of it as plain values."""
        marks = {"marks": {role: list(found) for role, found in self.marks().items()}} if self.last_taken else {}
        return {
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
            **marks,
        }

    @staticmethod
    def joined(own: Mapping[str, Any], other: Mapping[str, Any], roles: Iterable[str] = INPUTS) -> dict[str, Any]:
        """Of two states, that of `own` in these logs and that of `other` in the rest."""
        fields = [state_field(role, what) for role in roles for what in ("offset", "index", "time")]
        found = {field: own[field] for field in fields if field in own}
        for name in ("stamps", "leaps", "marks"):
            apart = {role: value for role, value in other.get(name, {}).items() if role not in roles}
            found[name] = apart | {role: value for role, value in own.get(name, {}).items() if role in roles}
        return found

    def restore(self, meta: Mapping[str, Any]) -> None:
        """Stand where a state does, of which `state` gave a part."""
        self.go_on_at(meta, self.rules)
        self.last_taken = {role: Mark(*found) for role, found in meta.get("marks", {}).items()}
        field = state_field(CONTROL, "offset")
        self._aside = {field: int(meta[field])} if CONTROL not in self.rules and field in meta else {}

    def go_on_at(self, meta: Mapping[str, Any], roles: Iterable[str] = INPUTS) -> None:
        """Stand in these logs where a state does."""
        stamps, leaps = meta.get("stamps", {}), meta.get("leaps", {})  # states of before have none
        for role in roles:
            time = meta[state_field(role, "time")] if role in INPUTS else meta.get(state_field(role, "time"), 0)
            self.places[role] = self.place_in(meta, role)
            self.clocks[role] = Clock(int(time), stamps.get(role, ()), leaps.get(role, (0, 0)))
        self.last_taken = {role: Mark(*found) for role, found in meta.get("marks", {}).items() if role in roles}

    def place_in(self, meta: Mapping[str, Any], role: str) -> int:
        """The next place of a log, as the meta of a state has it; 0 where it does not know the log."""
        offset, index = (int(meta.get(state_field(role, what), 0)) for what in ("offset", "index"))
        if index and not self.bits[role]:
            raise StateError(
                f"the state of partition {self._partition} stands within the record at offset {offset:,} of the "
                f"{role}, which held several instances, and by the stream file a record is one: restore codec in it "
                "until the worker is beyond that record"
            )
        found: int = place_of(offset, index, self.bits[role])
        if found >= MOST_PLACES:
            raise ValueError(f"no topic has the offset {offset}")
        return found
