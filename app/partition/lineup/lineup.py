"""The models of a stream, and all that follows from one log of labelled instances: who is the champion, how well each
predicts, what detectors find, what is on trial, which comparison the rule goes by, and what commands have asked. Pure.

The log is the partition's own program (`learning: partition`), or what all partitions have joined (`SharedLineup`).
What stands beside these models under their names, in a partition, follows them (`LineupFollower`).
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.arrays import over, under
from riparian.app.partition.changes import DECISION, room_of, settings
from riparian.app.partition.drift.detection import Finding
from riparian.app.partition.lineup.comparing import Comparing, PromotionDecision
from riparian.app.partition.lineup.learned_rows import InstanceRows
from riparian.app.partition.lineup.model_commands import Change, LineupFollower, ModelCommands
from riparian.app.partition.lineup.model_slot import PAID, ModelSlot
from riparian.app.partition.predictions.decision_policy import Stakes
from riparian.app.stream_file.sections.decision import same_losses
from riparian.app.stream_file.sections.models import AUTO
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import Schema
from riparian.models.registry import memo_places
from riparian.topics.commands import APPLIED, PROMOTE, PROPOSED, Command
from riparian.topics.records import REGRESSION
from riparian.topics.vocabulary import Scalar, Vocabulary

RULE = "promotion"  # who asked, in its events
Values = Sequence[Sequence[Scalar] | None]


class ModelsOfState(NamedTuple):
    """A state, as models go on with it.

    meta, arrays : the state's. takes : role of a model -> role that it had there; None: it begins. seeds : by role
    there. known : values of the features, as the state has them.
    """

    meta: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]
    takes: Mapping[str, str | None]
    seeds: Mapping[str, int]
    known: Values


class Due(msgspec.Struct, omit_defaults=True):
    """An event that waits for the next prediction, of the rule or of a command. models : role -> learner, from there
    on. The rest as in `EventRecord`."""

    event: str
    model: str | None
    sentence: str
    models: dict[str, str]
    command: str = PROMOTE
    by: str = RULE
    id: str | None = None
    asked: int = 0
    control_offset: int | None = None


class Decided(NamedTuple):
    """What the rule has decided.

    place : of the label in the program, after which it is so. names : of all models, before -> from there on; none
    where a challenger is only proposed. due : its event
    """

    place: int
    names: dict[str, str]
    due: Due


class Lineup:
    """Models that learn one log.

    Parameters
    ----------
    spec : Spec
    seed : int
        Of models that begin.
    rows : InstanceRows
        What they learn from.
    vocabularies, classes : that they know, which grow

    Attributes
    ----------
    spec : Spec
        The stream with the models and settings of now.
    roles : dict
        Name -> role. Others take its place where models come or go.
    room : Schema, optional
        That there was before.
    schema : Schema
        That the models have room for.
    stakes : Stakes
        What labels count and mistakes cost.
    followers : list of LineupFollower
    place : int, optional
        The next one of the log, where all partitions share it.
    next_command : int
        Of the control topic, where commands come by that log.
    """

    place: int | None = None
    next_command = 0

    def __init__(
        self,
        spec: Spec,
        seed: int,
        rows: InstanceRows,
        vocabularies: list[Vocabulary | None],
        classes: Vocabulary | None,
    ) -> None:
        self.spec, self.settings, self.usual_seed, self.rows = spec, settings(spec), seed, rows
        self.vocabularies, self.classes = vocabularies, classes
        self.room: Schema | None = None
        self._fitted: tuple[Any, ...] = ()  # for which values, room and stakes there was room last
        self.schema = self.first = self._needed()
        self.stakes = self._stakes()
        self.stakes.fit(self.schema.n_outputs)
        self.followers: list[LineupFollower] = []
        self.roles = {name: self.make_role(name, spec) for name in spec.models()}
        self.comparing = Comparing(spec, self.roles, self.stakes)
        self.steering = ModelCommands(self)

    def _stakes(self) -> Stakes:
        spec = self.spec
        return Stakes(self.classes, spec.class_weights, spec.prices, spec.target, spec.features)

    @property
    def seed(self) -> int:
        """Of models that begin."""
        return self.usual_seed

    def make_role(self, name: str, spec: Spec) -> ModelSlot:
        """A model that begins. spec : the stream with this model."""
        role = ModelSlot(name, spec, self.first, self.rows, self.seed)
        if self.schema != self.first:
            role.resize(self.schema)
        return role

    def key_of(self, name: str) -> str:
        """Of a model that begins now."""
        return name

    def obey(self, command: Command, offset: int) -> Due:
        """Do what a command asks; its event. offset : of its record in the control topic."""
        event, sentence = self.steering.answer(command)
        return Due(
            *(event, command.model, sentence, self.learners(), command.command, command.by, command.id),
            asked=command.asked,
            control_offset=offset,
        )

    def learners(self) -> dict[str, str]:
        """Role -> its learner, the champion first."""
        return {name: role.learner_name for name, role in self.roles.items()}

    @property
    def may_wait(self) -> bool:
        """Whether to learn may be to wait, for the process that fits a model."""
        return any(role.model.n_waits is not None for role in self.roles.values())

    def warm_up(self) -> None:
        """Compile the kernels, or load them from the cache, before the first record."""
        for role in self.roles.values():
            role.warm_up(self.stakes)
        self.comparing.warm_up()

    # -- changes -----------------------------------------------------------------------------------------------

    def change(self, change: Change) -> None:
        """Have all that follow do this, too."""
        for follower in self.followers:
            change(follower)

    def join(self, follower: LineupFollower) -> None:
        """This one follows from here on, and knows nothing yet."""
        for name, role in self.roles.items():
            follower.add(name, role.key, role.memos.names, self.schema.n_outputs)
        self.followers.append(follower)

    def line_up(self, roles: dict[str, ModelSlot]) -> None:
        """These are the models from here on. Others may look at those of before meanwhile."""
        self.roles = roles
        self.comparing.line_up(roles)

    def settle(self, spec: Spec) -> None:
        """What this stream file says besides its models holds from here on (`Spec.running`, and its features)."""
        self._widen(spec)
        self.spec, self.settings = spec, settings(spec)
        self.stakes.settle(spec)
        for role in self.roles.values():
            role.settle(spec)
        self.comparing.settle(spec)
        self.change(lambda follower: follower.settle(spec))

    def vocabularies_of(self, spec: Spec) -> list[Vocabulary | None]:
        """New ones, of all columns."""
        return spec.vocabularies()

    def _widen(self, spec: Spec) -> None:
        """Records have the features of this stream file from here on. Those that are new get columns, which no model
        knows yet."""
        new = self.vocabularies_of(spec)[len(self.vocabularies) :]
        if not new:
            return
        self.vocabularies += new  # in place: others look at them
        room = tuple(0 if v is None else v.capacity for v in new)
        self.first = self.first._replace(n_values=self.first.n_values + room)
        if self.room is not None:
            self.room = self.room._replace(n_values=self.room.n_values + room)
        self.schema = self.room_now()
        for role in self.roles.values():
            role.widen(self.first, self.schema)

    def _needed(self) -> Schema:
        """The room that values and classes known now need."""
        n_values = tuple(0 if v is None else v.capacity for v in self.vocabularies)
        return Schema(n_values, 1 if self.classes is None else max(2, self.classes.capacity), self.spec.task)

    def room_now(self) -> Schema:
        """The shape that models need now: no less than there ever was, nor than a fresh state has."""
        found = self._needed()
        for there in (self.first, self.room):
            if there is not None:
                n_values = tuple(map(max, found.n_values, there.n_values))
                found = found._replace(n_values=n_values, n_outputs=max(found.n_outputs, there.n_outputs))
        return found

    def fit_schema(self) -> None:
        """Give the models room for values and classes seen since."""
        known = [len(v) for v in (*self.vocabularies, self.classes) if v is not None], self.room, self.stakes
        if known == self._fitted:
            return
        self._fitted = known
        schema = self.room_now()
        self.stakes.fit(schema.n_outputs)
        if schema != self.schema:
            self.schema = schema
            for role in self.roles.values():
                role.resize(schema)

    def price_anew(self) -> None:
        """Mistakes cost something else from here on."""
        for role in self.roles.values():
            role.price_anew()

    # -- the rule ----------------------------------------------------------------------------------------------

    def carry_out(
        self, decisions: Sequence[PromotionDecision], findings: Sequence[Finding]
    ) -> tuple[list[Finding], list[Decided]]:
        """Promote and propose. Returns what was found in the program, by the names that models had then, and what was
        decided.

        A challenger that is promoted after a label is the champion from the next instance on. All models run the whole
        program whoever that is, so only names change.
        """
        found, decided = list(findings), list[Decided]()
        if not decisions:
            return found, decided
        lined, places = [list(self.roles)], list[int]()
        for one in decisions:
            name, said, names = one.role.name, self._sentence(one), dict[str, str]()
            if one.promoted:
                before = {role: role.name for role in self.roles.values()}
                said = f"{self.steering.promote(name)}: {said}"
                names = {before[role]: role.name for role in before}
                found = [f if f.place <= one.place or f.role is None else f._replace(role=names[f.role]) for f in found]
                lined.append(list(self.roles))
                places.append(one.place)
            due = Due(APPLIED if one.promoted else PROPOSED, name, said, self.learners())
            decided.append(Decided(one.place, names, due))
        if places:  # events of one label come in the order of the roles, as they are then; features come last

            def rank(finding: Finding) -> int:
                roles = lined[sum(place < finding.place for place in places)]
                return len(roles) if finding.role is None else roles.index(finding.role)

            found.sort(key=rank)
        return found, decided

    def _sentence(self, one: PromotionDecision) -> str:
        what, times, unit = (
            ("mean absolute error", 1.0, "") if self.spec.task == REGRESSION else ("errors", 100.0, " points")
        )
        if self.comparing.by_cost:
            what, times, unit = "mean cost", 1.0, ""
        low, mean, high = (f"{times * x:.4g}" for x in (one.by.low, one.by.difference, one.by.high))
        return (
            f"{one.role.name} ({one.role.learner_name}) has {mean}{unit} less {what} than the champion over the last "
            f"{one.by.n:,} labels, with an interval from {low} to {high}"
        )

    # -- state -------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        """Live arrays, by their names in a state, without those of detectors."""
        arrays: dict[str, NDArray[Any]] = {}
        for role in self.roles.values():
            arrays |= role.state()
        return arrays | over("compared/", self.comparing.state())

    def meta(self, n_events: int, files: list[list[str]]) -> dict[str, Any]:
        """Whatever is no array. n_events : of the partition whose state it is. files : that it has gone on with."""
        usual = self.usual_seed
        seeds = {name: role.seed for name, role in self.roles.items() if role.seed != usual}
        return {
            "models": {name: [role.learner_name, role.model.parameters()] for name, role in self.roles.items()},
            "settings": self.settings,
            "room": [list(self.schema.n_values), self.schema.n_outputs],
            **({"auto": self.spec.champion.parameters} if self.spec.champion.model == AUTO else {}),
            **({"seeds": seeds} if seeds else {}),  # of models that another partition, or stream file, has begun
            **self.steering.state(n_events),
        }

    def incomparable(self) -> set[str]:
        """Names of arrays in a state whose bytes may differ though equal folds made them."""
        return set().union(*(role.incomparable for role in self.roles.values()))

    def digest(self) -> str:
        """A hash of what follows from the log alone: equal where the same part of it was learned. Without the
        probabilities and costs that scores keep, which begin where a state of before is read: at other places of the
        log in partitions that shall share a replica."""
        digest = hashlib.blake2b(f"{self.place} {self.schema}".encode(), digest_size=16)
        arrays, left_out = self.state(), self.incomparable()
        for role in self.roles.values():
            if role.trial is not None:
                arrays |= over(f"drift/trials/{role.name}/", role.trial.state())
            arrays |= {f"{role.name}/{name}": array for name, array in role.state_of_watching().items()}
        begun = tuple(f"metrics/{name}/{part}" for name in self.roles for part in ("probabilities", PAID))
        for name in sorted(name for name in arrays.keys() - left_out if not name.startswith(begun)):
            digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
            digest.update(np.ascontiguousarray(arrays[name]).tobytes())
        return digest.hexdigest()

    def restore_models(self, state: ModelsOfState) -> Schema:
        """Go on with models, once their values and classes are known. Returns the room that the arrays have."""
        meta, arrays, takes, seeds, known = state
        was = self._make_room(meta, known)
        self.steering.restore_columns(meta, takes)
        for name, source in takes.items():
            if source is not None:
                self.roles[name].seed = seeds[source]
                self.roles[name].restore(arrays, source, was, meta["models"][source][1])
        self._restore_keys(takes, meta.get("keys") or {})
        for name, source in takes.items():
            self._restore_memos(self.roles[name], source, meta)
        return was

    def _make_room(self, meta: Mapping[str, Any], known: Values) -> Schema:
        """The arrays of a state have the room that they had then; where the bounds were lowered since, that stays."""
        self.room = room_of(meta, known, self.first)
        was = self.room or self.room_now()
        self.fit_schema()
        return was

    def begin_with(self, state: ModelsOfState) -> None:
        """Restore models of another state, with the models alone."""
        meta, arrays, takes, seeds, known = state
        was = self._make_room(meta, known)
        for name, source in takes.items():
            if source is not None:
                self.roles[name].seed = seeds[source]
                self.roles[name].begin_with(arrays, source, was, meta["models"][source][1])

    def _restore_keys(self, takes: Mapping[str, str | None], keys: Mapping[str, str]) -> None:
        """Models go on under their keys. One that is new, or goes on with what another has learned, gets a free one."""
        taken = set[str]()
        for name, source in sorted(takes.items(), key=lambda one: one[1] is None):
            role = self.roles[name]
            role.key = name if source is None else keys.get(source, source)
            while role.key in taken:
                role.key += "+"
            taken.add(role.key)

    def _restore_memos(self, role: ModelSlot, source: str | None, meta: Mapping[str, Any]) -> None:
        """Since when the model predicts, or members that came while it ran, and those that the stream file brings."""
        since = meta.get("since") or {}
        role.memos.since = int(since[source]) if source in since else None
        if source is not None:
            places = memo_places(role.learner_name, self.spec.task, meta["models"][source][1], role.model.parameters())
            begun, stay = (meta.get("begun") or {}).get(source) or {}, [n for n, at in places.items() if at is not None]
            role.memos.begun = {name: int(begun[name]) for name in stay if name in begun}
            role.memos.begin([name for name in places if name not in stay])

    def restore_comparing(self, state: ModelsOfState, proposed: list[str]) -> None:
        """Go on with the comparisons of a state, where losses are what they were."""
        was, now = (state.meta.get("settings") or {}).get(DECISION) or {}, self.settings.get(DECISION) or {}
        if was.get("costs") != now.get("costs"):
            self.price_anew()
        if same_losses(was, now):
            self.comparing.restore(under(state.arrays, "compared/"), proposed, state.takes)
