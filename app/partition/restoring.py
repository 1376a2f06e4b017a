"""A partition's state made again: of a snapshot of its own, or begun with the models of another.

Either is read by the stream file of today, which may differ from that of then as far as `app.partition.changes` allows.
What it holds, and its snapshot, is `app.partition.state`.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from numpy.typing import NDArray

from riparian.app.errors import RiparianError, StateError
from riparian.app.partition.arrays import under
from riparian.app.partition.changes import (
    ARITHMETIC,
    DECISION,
    DETECTORS,
    DISTRIBUTIONS,
    LEARNING,
    next_origin,
    reconcile,
)
from riparian.app.partition.join.pending import Source
from riparian.app.partition.lineup.model_commands import FILES
from riparian.app.partition.lineup.model_slot import ModelSlot
from riparian.app.partition.predictions.decision_policy import decided_name
from riparian.app.partition.predictions.serving import said_name
from riparian.app.partition.records.clock import Clock
from riparian.app.partition.records.inputs import Mark
from riparian.app.partition.shared.shared_lineup import KEYS, VALUES
from riparian.app.partition.shared.shared_lineup import STATE as SHARED
from riparian.app.partition.state import PartitionState, Snapshot
from riparian.app.stream_file.lineup import RUNS
from riparian.app.stream_file.sections.decision import same_target
from riparian.app.stream_file.sections.keys import labelled_keys
from riparian.models.registry import memo_places
from riparian.models.restoring import DamagedError
from riparian.topics.names import CONTROL, INPUTS, LEARNED, state_field
from riparian.topics.places import place_of

MOST_PLACES = 2**62


def seeds_of(meta: Mapping[str, Any], partition: int, roles: Mapping[str, Any], now: int) -> dict[str, int]:
    """Of the models of a partition's state, by role. now : what the stream file says; early states do not."""
    said = (meta.get("settings") or {}).get("seed", now)
    usual = int(said) + (0 if SHARED in meta else partition)
    return dict.fromkeys(roles, usual) | {name: int(seed) for name, seed in (meta.get("seeds") or {}).items()}


class RestorableState(PartitionState):
    """The state of a partition, which takes over what a snapshot holds while it is fresh."""

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

    def _kept_sources(self, role: ModelSlot, source: str | None, models: Mapping[str, Any]) -> dict[str, Source | None]:
        """Name of each array that a model keeps beside instances -> what was `source`'s in the state."""
        if source is None:
            return dict.fromkeys(role.kept_names)
        places = memo_places(role.learner_name, self.spec.task, models[source][1], role.model.parameters())
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
            self._begin(spec)
        lineup, known = self.lineup, msgspec.msgpack.decode(arrays["vocabularies"].tobytes())
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
            known, of_models = self.sharing.lineup.restore_log(meta, arrays)
            self.sharing.follow()
            self.sharing.count_width()
        then, takes = meta.get("settings") or {}, changes.takes
        seeds = seeds_of(meta, self.partition, meta["models"], self.spec.seed)
        was = lineup.restore_models(meta | {"classes": of_models}, arrays, takes, seeds, known)
        self.fit_schema()
        self.servings.know(self.roles)
        decides = same_target(then.get(DECISION), lineup.settings.get(DECISION))
        for name, source in takes.items():
            if source is not None:
                self.servings[name].restore(arrays, source, self.schema.n_outputs, decides)
        ran = [list(one) for one in (file.runs_by(meta) or {"files": []})["files"]]
        self.files = ran if file.digests() in ran else [*ran[:1], *ran[1:][-FILES:], file.digests()]
        lineup.restore_comparing(meta, arrays, self.promotion.restore(meta), takes)
        n_classes = None if classes is None else len(classes)
        self.intervals.restore(arrays, self.schema.n_outputs)
        own = [*self.intervals.names, *([] if self.sharing is None else self.sharing.names)]
        sources: dict[str, str | Source | None] = {**changes.takes, **{name: name for name in own}}
        for name, source in changes.takes.items():
            sources |= self._kept_sources(self.roles[name], source, meta["models"])
            for place in (said_name, decided_name):
                sources[place(name)] = None if source is None else place(source)
        self.pending.restore(under(arrays, "pending/"), sources, n_classes)
        self.past.restore(under(arrays, "keys/"))
        same, same_tests = (then.get(what) == lineup.settings.get(what) for what in (DETECTORS, DISTRIBUTIONS))
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
            (self.servings[one] for one, was in changes.takes.items() if was and was == meta.get("spoke")), None
        )
        field = state_field(CONTROL, "offset")
        self.aside = {field: int(meta[field])} if CONTROL not in self.rules and field in meta else {}
        lineup.steering.restore(meta, changes.takes)
        self.promotion.models = lineup.learners()
        self.origin = next_origin(meta) if changes.found else meta.get("origin")
        self.last_taken = {
            role: Mark(*found) for role, found in meta.get("marks", {}).items()
        }  # formats before had none
        if self.sharing is not None:
            self.sharing.lineup.place, self.sharing.lineup.last = self.places[LEARNED], self.last_taken.get(LEARNED)
        notes = [note for note in (changes.steered, changes.kept) if note]
        return [*notes, *(change.sentence for change in changes.found)]

    def begin_with(self, snapshot: Snapshot, partition: int) -> list[str]:
        """A fresh learner begins with the models of `snapshot`, of either kind of learning, with the values and classes
        that they know, and with the past of keys: nothing waits, and nothing is scored yet. Returns the roles of the
        models that the state does not have, which begin anew. partition : whose state it is.

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
            self._begin(spec)
        lineup = self.lineup
        packed = arrays["vocabularies"]
        if SHARED in meta:
            meta["classes"], packed = meta[SHARED]["classes"], arrays[VALUES]
        known = msgspec.msgpack.decode(packed.tobytes())
        then = meta.get("settings") or {}
        now = {place: value for place, value in lineup.settings.items() if place in (LEARNING, ARITHMETIC)}
        same_kind = {place: value for place, value in then.items() if place != LEARNING} | now
        changes = reconcile(self.spec, meta | {"settings": same_kind}, known)
        if changes.refused:
            raise StateError("; also, ".join(changes.refused))
        for vocabulary, state in zip((*lineup.vocabularies, lineup.classes), (*known, meta["classes"]), strict=True):
            if vocabulary is not None:
                vocabulary.restore(state)
        if self.sharing is not None:
            self.sharing.follow()
        lineup.begin_with(meta, arrays, changes.takes, seeds_of(meta, partition, meta["models"], self.spec.seed), known)
        whole = SHARED not in meta
        if not whole and self.sharing is None and labelled_keys(self.spec):
            raise StateError(
                "aggregates of labels stand apart in it, as where partitions learn one model: write learning: shared"
            )
        self.past.begin_with(self.spec, under(arrays, "keys/"), whole)
        if self.sharing is not None:
            self.sharing.lineup.keys.begin_with(self.spec, under(arrays, "keys/" if whole else KEYS), whole)
        self.fit_schema()
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
