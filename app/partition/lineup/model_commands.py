"""Commands to a partition while it runs: which models it has, who of them is the champion, and who learns. Pure.

A command takes effect right before the next instance that is predicted, since predictions record how many commands had
been applied. So between two instances it does not matter where a command came. Each is answered by one event: applied,
or refused with a sentence, and then nothing has changed. A command whose id is known is left out, without an answer.

Who predicts is called `champion`. A model that is promoted takes over that name, with what it has learned, with its
scores, its detectors, and the predictions that it made for the instances that wait. The champion of before goes on as a
challenger: under the name that it had as one, or its learner's, with a number where that is taken.

`promote`, and what stands beside it, may also be called by a rule, between two programs.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from riparian.app.errors import RiparianError
from riparian.app.partition.changes import REFUSED as NEVER
from riparian.app.partition.changes import SEEN, Changes, differing, goes_on, in_part, relearns, same
from riparian.app.partition.lineup.model_slot import ModelSlot
from riparian.app.partition.outcome import DeadLetter
from riparian.app.partition.predictions.decision_policy import Stakes
from riparian.app.partition.records.partition_group import Piece
from riparian.app.stream_file.columns import (
    KEPT,
    Columns,
    changed,
    digest_of,
    known_columns,
    plain,
    plain_keys,
    read,
    read_keys,
)
from riparian.app.stream_file.lineup import check_champion
from riparian.app.stream_file.sections.join import check_forecasts, check_unlabelled
from riparian.app.stream_file.sections.keys import check_keys, labelled_keys
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import Learner, Schema
from riparian.models.entry import without_retired
from riparian.topics import commands
from riparian.topics.commands import APPLIED, REFUSED, Command, WrongCommandError
from riparian.topics.names import CHAMPION

KNOWN = 200  # ids of commands that are remembered
FILES = 50  # stream files that are
MOST_CHALLENGERS = 50
# What of a stream file takes effect while the stream runs: places of `Changes`.
RUNNING = (CHAMPION, "challengers.", "drift", "metrics.", "join.", "promotion.")


class LineupFollower(Protocol):
    """What stands beside models under their names."""

    def add(self, name: str, key: str, memos: Sequence[str], width: int) -> None:
        """A model begins. memos : of what it keeps beside instances. width : of its predictions."""

    def rename(self, names: Mapping[str, str]) -> None:
        """Models get other names. names : of before -> from here on."""

    def drop(self, name: str) -> None:
        """A model goes."""

    def exchange(self, name: str, memos: Sequence[str], fresh: Sequence[str], width: int) -> None:
        """A model keeps these from here on. fresh : those of them that are new."""

    def settle(self, spec: Spec) -> None:
        """What this stream file says besides its models holds from here on."""


Change = Callable[[LineupFollower], None]


class Steered(Protocol):
    """What is asked of a lineup."""

    spec: Spec
    roles: dict[str, ModelSlot]
    schema: Schema
    stakes: Stakes

    def make_role(self, name: str, spec: Spec) -> ModelSlot: ...
    def key_of(self, name: str) -> str: ...
    def change(self, change: Change) -> None: ...
    def line_up(self, roles: dict[str, ModelSlot]) -> None: ...
    def settle(self, spec: Spec) -> None: ...


class CommandRefusedError(RiparianError):
    """A command that cannot be done here, with a sentence; nothing has changed."""


class _Applied(msgspec.Struct):
    """What a file that was applied said besides its models.

    settings : `Spec.running` of it. files : `Spec.running_digest` of the files that it takes the place of
    """

    settings: dict[str, Any]
    files: list[str]


class _State(msgspec.Struct):
    """What commands have left, as a state has it.

    events : number of the next one
    ids : of the last commands
    files : `Spec.models_digest` of the stream files that these models take the place of
    called : the champion's name as a challenger. before : that of the champion before it
    frozen : roles. on_drift : role -> its own reaction
    paused : whether predictions are withheld; left out where they are not
    """

    events: int = 0
    ids: list[str] = []
    files: list[str] = []
    called: str | None = None
    before: str | None = None
    frozen: list[str] = []
    on_drift: dict[str, str | None] = {}
    paused: bool = False


class ModelCommands:
    """Changes a lineup.

    Attributes
    ----------
    paused : bool
        Whether predictions are withheld: what is sent says nothing but where it stands in the order.
    forgets : callable, optional
        Given a key and a hash of it, drops what is known; whether anything was. ValueError where it has other hashes.
    keeps_features : bool
        Whether a command comes from a worker that knew no other features than those that the stream began with.
    """

    forgets: Callable[[str, str], bool] | None = None
    keeps_features = False

    def __init__(self, lineup: Steered) -> None:
        self._lineup = lineup
        self._on_drift = lineup.spec.own_on_drift()
        self._ids: dict[str, None] = {}
        self._files: list[str] = []
        self._called: str | None = None
        self._before: str | None = None
        self._applied: _Applied | None = None
        self._columns: Columns | None = None
        self.paused = False

    # -- commands ----------------------------------------------------------------------------------------------

    def read(self, offset: int, key: bytes | None, value: bytes | None) -> Command | DeadLetter | None:
        """The command of a record of the control topic, a dead letter where it is none; None where one of its id was
        applied, or refused, before."""
        try:
            command = commands.read_command(value)
        except WrongCommandError as error:
            return DeadLetter(offset, key, value, error.reason, str(error))
        return None if command.id in self._ids else command

    def answer(self, command: Command) -> tuple[str, str]:
        """Apply a command, and remember its id. APPLIED or REFUSED, and a sentence."""
        self._ids[command.id] = None
        while len(self._ids) > KNOWN:
            del self._ids[next(iter(self._ids))]
        try:
            return APPLIED, self._do(command)
        except CommandRefusedError as error:
            return REFUSED, str(error)

    def _do(self, command: Command) -> str:
        name = command.model or CHAMPION
        if command.command == commands.ADD:
            return self.add(name, without_retired(command.definition or {}))
        if command.command == commands.APPLY:
            champion = without_retired(command.champion or {})
            challengers = {role: without_retired(one) for role, one in (command.challengers or {}).items()}
            said = champion, challengers, command.file or "", command.settings
            return self.apply(*said, command.features, command.keys)
        if command.command == commands.FORGET:
            return self.forget(command.key or "", command.hash or "")
        if command.command == commands.CHECKPOINT:
            return "a checkpoint is written next"
        of_all = {commands.DEMOTE: self.demote, commands.PAUSE: self.pause, commands.RESUME: self.resume}
        if command.command in of_all:
            return of_all[command.command]()
        does = {
            commands.PROMOTE: self.promote,
            commands.FREEZE: self.freeze,
            commands.THAW: self.thaw,
            commands.RESET: self.reset,
            commands.DROP: self.drop,
        }
        return does[command.command](name)

    def files(self, records: Sequence[Piece]) -> list[Spec]:
        """The stream with the features of each of these commands, where they bring any that it can take."""
        found = []
        for record in records:
            for value in record.raw.values:
                with contextlib.suppress(WrongCommandError, ValueError):
                    command = commands.read_command(value)  # type: ignore[arg-type]
                    if command.features is not None:
                        found.append(self._changed(command.features, command.keys))
        return found

    # -- operations: each does all of it and returns a sentence, or raises RefusedError and does nothing ---------

    def promote(self, name: str) -> str:
        """Make a challenger the champion, and the champion a challenger."""
        if name == CHAMPION:
            raise CommandRefusedError("the champion is the champion already")
        roles, role, old = self._lineup.roles, self._role(name), self._role(CHAMPION)
        try:
            check_champion(role.learner_name, role.model.parameters())
        except ValueError as error:
            raise CommandRefusedError(str(error)) from None
        self._before = _unique(self._called or old.learner_name, {*roles} - {name})
        self._called = name
        names = {CHAMPION: self._before, name: CHAMPION}
        order = [name, *(other for other in roles if other not in (CHAMPION, name))]
        order.insert(list(roles).index(name), CHAMPION)  # in its place
        self._on_drift = {names.get(other, other): own for other, own in self._on_drift.items()}
        for other in (role, old):
            other.name = names[other.name]
        self._lineup.change(lambda follower: follower.rename(names))
        self._line_up({names.get(other, other): roles[other] for other in order})
        return f"{name} ({role.learner_name}) is the champion, and the champion before is the challenger {self._before}"

    @property
    def before(self) -> str | None:
        """The challenger that was champion before the last promotion; None where none is there."""
        return self._before if self._before in self._lineup.roles else None

    def demote(self) -> str:
        """Undo the last promotion."""
        if self.before is None:
            raise CommandRefusedError("no champion of before is there: promote the model that shall be champion")
        return self.promote(self.before)

    def forget(self, key: str, hashed: str) -> str:
        """Drop what is known of one key, also where the stream file has it no more and labels of it may come."""
        spec = self._lineup.spec
        keys = dict.fromkeys((*spec.keys, *labelled_keys(spec.features)))
        if key not in keys or self.forgets is None:
            raise CommandRefusedError(f"there is no key {key}: name one of {', '.join(keys) or 'none'}")
        try:
            was_known = self.forgets(key, hashed)
        except ValueError as error:
            raise CommandRefusedError(str(error)) from None
        return f"{key} {hashed} is forgotten" if was_known else f"nothing is known of {key} {hashed}"

    def pause(self) -> str:
        """Withhold predictions; everything else goes on."""
        if self.paused:
            raise CommandRefusedError("predictions are paused already")
        self.paused = True
        return "predictions say nothing from here on, and all models go on learning"

    def resume(self) -> str:
        """Say again what is predicted."""
        if not self.paused:
            raise CommandRefusedError("predictions are not paused")
        self.paused = False
        return "predictions are told again"

    def freeze(self, name: str) -> str:
        """Let a model predict and not learn."""
        role = self._role(name)
        if role.frozen:
            raise CommandRefusedError(f"{name} is frozen already")
        role.freeze()
        return f"{name} ({role.learner_name}) predicts and learns no more"

    def thaw(self, name: str) -> str:
        """Let a frozen model learn again."""
        role = self._role(name)
        if not role.frozen:
            raise CommandRefusedError(f"{name} is not frozen")
        role.frozen = False
        return f"{name} ({role.learner_name}) learns again"

    def reset(self, name: str) -> str:
        """Put a new model in the place of one."""
        role = self._role(name)
        still = role.model.frozen_parts
        if role.columns is not None and still:
            raise CommandRefusedError(
                f"{name} has frozen members ({', '.join(still)}), which know only the features of before: let them "
                "learn in the stream file, or leave them out of it, and riparian apply it first"
            )
        role.reset()
        return f"{name} ({role.learner_name}) begins anew"

    def add(self, name: str, definition: Mapping[str, Any]) -> str:
        """A new challenger, as a stream file would describe it."""
        lineup = self._lineup
        if name in lineup.roles:
            raise CommandRefusedError(f"there is a model {name} already: drop it first, or choose another name")
        if len(lineup.roles) > MOST_CHALLENGERS:
            raise CommandRefusedError(f"there are {MOST_CHALLENGERS} challengers: drop one first")
        try:
            learner_name, parameters, own = lineup.spec.challenger(name, definition)
            models = {**self._models(), name: (learner_name, parameters)}
            role = lineup.make_role(name, lineup.spec.lined_up(models, {**self._on_drift, name: own}))
        except (ValueError, RiparianError) as error:
            raise CommandRefusedError(str(error).strip().partition("\n")[0]) from None
        self._on_drift[name] = own
        role.key, memos, width = lineup.key_of(name), list(role.memos.names), lineup.schema.n_outputs
        lineup.change(lambda follower: follower.add(name, role.key, memos, width))
        self._line_up({**lineup.roles, name: role})
        return f"{name} ({learner_name}) begins as a challenger"

    def drop(self, name: str) -> str:
        """Remove a challenger, with what it has learned."""
        if name == CHAMPION:
            raise CommandRefusedError("the champion cannot be dropped: promote another model first")
        role = self._role(name)
        self._lineup.change(lambda follower: follower.drop(name))
        del self._on_drift[name]
        self._before = None if self._before == name else self._before
        self._line_up({other: kept for other, kept in self._lineup.roles.items() if other != name})
        return f"the challenger {name} ({role.learner_name}) is dropped"

    def apply(
        self,
        champion: Mapping[str, Any],
        challengers: Mapping[str, Mapping[str, Any]],
        file: str,
        settings: Mapping[str, Any] | None = None,
        features: Mapping[str, Any] | None = None,
        keys: Mapping[str, Any] | None = None,
    ) -> str:
        """Go on by a stream file, whose champion has to be the one that there is.

        Models that are equal, or differ in parameters that their state goes on with, go on; other challengers begin
        anew. champion : nothing for the one that there is. file : `Spec.models_digest` of it, whose models these
        are from here on. settings : `Spec.running` of it; None: nothing but the models. features : with settings, those
        that it names; None: the same. keys : with features, those over whose past some are; None: the same. Models that
        go on know the features that they knew; those that begin know all.
        """
        lineup = self._lineup
        spec, roles = lineup.spec, lineup.roles
        now = self._models()
        if not champion:
            champion = {"model": now[CHAMPION][0], **now[CHAMPION][1], "on_drift": self._on_drift.get(CHAMPION)}
        try:
            new_spec = spec if features is None else self._with_features(features, keys)
            new_spec = new_spec if settings is None else new_spec.run_by(settings)
            wanted = {name: spec.challenger(name, given) for name, given in challengers.items()}
            name, parameters, own_of_champion = spec.challenger("the-champion", champion)
        except ValueError as error:
            raise CommandRefusedError(str(error)) from None
        if settings is not None and (refusal := relearns(spec, new_spec)):
            raise CommandRefusedError(refusal)

        def stays(was: tuple[str, dict[str, Any]], model: tuple[str, dict[str, Any]]) -> bool:
            return goes_on(was, model) or in_part(spec.task, was, model) is not None

        if not stays(now[CHAMPION], (name, parameters)):
            raise CommandRefusedError(
                f"the champion is {now[CHAMPION][0]} with its parameters, and the stream file says {name}: promote it "
                "first, or write the one that there is"
            )
        if len(wanted) > MOST_CHALLENGERS:
            raise CommandRefusedError(f"more than {MOST_CHALLENGERS} challengers")
        models = {CHAMPION: (name, parameters), **{role: one[:2] for role, one in wanted.items()}}
        gone = [role for role in roles if role not in models]
        other = [role for role in models if role in roles and not stays(now[role], models[role])]
        new = [role for role in models if role not in roles]
        free = [role for role in models if role not in (*other, *new) and not same(now[role], models[role])]
        try:
            made = {role: roles[role].adjusted(models[role][1]) for role in free}
        except ValueError as error:
            raise CommandRefusedError(str(error)) from None
        fresh, gone_features = [[*new_spec.present.keys() - spec.present.keys()], [*new_spec.gone - spec.gone]]
        new_keys, gone_keys = new_spec.keys.keys() - spec.keys.keys(), spec.keys.keys() - new_spec.keys.keys()
        told_of = {f"features.{one}" for one in new_spec.made} | {f"keys.{one}" for one in (*new_keys, *gone_keys)}
        changes = [one for one in differing(spec, new_spec) if not {one, one.rpartition(".")[0]} & told_of]
        if features is not None:
            self._keep_columns(spec, new_spec)
        if settings is not None:
            files = [] if self._applied is None else self._applied.files
            files = [*files, *(d for d in (spec.running_digest(), new_spec.running_digest()) if d not in files)]
            self._applied = _Applied(new_spec.running(), [*files[:1], *files[1:][-FILES:]])
            lineup.settle(new_spec)
        for role in free:
            self._adjust(roles[role], models[role][1], *made[role])
        for role in (*gone, *other):
            self.drop(role)
        for role in (*other, *new):
            self.add(role, challengers[role])
        for role, (*_, own) in wanted.items():
            self._on_drift[role] = own
        if settings is not None:
            self._on_drift[CHAMPION] = own_of_champion
        self._line_up({role: self._lineup.roles[role] for role in (CHAMPION, *wanted)}, file)
        parts = {
            role: in_part(spec.task, now[role], models[role]) for role in free if not goes_on(now[role], models[role])
        }
        differ = [f"{role} ({parts[role]})" if role in parts else role for role in free]
        told = {"dropped": gone, "begun anew": other, "added": new, "with other parameters": differ, "changed": changes}
        told |= {"features added": sorted(fresh), "features dropped": sorted(gone_features)}
        told |= {"keys added": sorted(new_keys), "keys dropped": sorted(gone_keys)}
        return "; ".join(f"{what}: {', '.join(names)}" for what, names in told.items() if names) or "nothing is new"

    def _adjust(self, role: ModelSlot, parameters: dict[str, Any], model: Learner, trial: Learner | None) -> None:
        fresh = role.adjust(parameters, model, trial)
        if fresh is not None:
            name, memos, width = role.name, list(role.memos.names), self._lineup.schema.n_outputs
            self._lineup.change(lambda follower: follower.exchange(name, memos, fresh, width))

    def _changed(self, features: Mapping[str, Any], keys: Mapping[str, Any] | None) -> Spec:
        """The stream with these features, of these keys. ValueError where they are none, or cannot change so."""
        spec, known = self._lineup.spec, {} if self._columns is None else read_keys(self._columns.keys)
        given = spec.keys if keys is None else read_keys(keys)
        found: Spec = changed(spec, read(features), given, {**known, **spec.keys})
        if keys is None and found.made.keys() != spec.made.keys():
            raise ValueError("expected keys beside features over a key's past, found none; send both")
        return found

    def _with_features(self, features: Mapping[str, Any], keys: Mapping[str, Any] | None) -> Spec:
        """As `_changed`, the same stream where it has these. ValueError where they cannot change so while it runs."""
        spec = self._lineup.spec
        given, new_spec = read(features), self._changed(features, keys)
        if given.keys() == spec.present.keys() and digest_of(given) == digest_of(spec.present):
            return spec
        amount = self._lineup.stakes.amount  # where partitions learn one model, as the log says: alike in all of them
        if amount in spec.present and amount not in given:
            raise ValueError(f"features: expected {amount}, which decision.costs names, found none; restore it")
        if self.keeps_features:
            raise ValueError(KEPT.format("learning: shared"))
        check_keys(new_spec)
        check_forecasts(new_spec)
        check_unlabelled(new_spec)
        if any(spec.make_codec().index_bits):
            raise ValueError(
                "features do not change where records hold many instances: give new ones to a stream of another name"
            )
        if new_spec.header_topics() != spec.header_topics():
            raise ValueError("a feature stands in a header, and workers read no headers yet; write it into the record")
        return new_spec

    def _keep_columns(self, spec: Spec, new_spec: Spec) -> None:
        """Remember the features of a file that was applied, and which files it takes the place of."""
        if new_spec is spec or (new_spec.features == spec.features and new_spec.gone == spec.gone):
            return
        files = [] if self._columns is None else self._columns.files
        files = [*files, *(d for d in map(digest_of, (spec.present, new_spec.present)) if d not in files)]
        known = {} if self._columns is None else self._columns.keys
        self._columns = Columns(
            plain(new_spec.features),
            sorted(new_spec.gone),
            [*files[:1], *files[1:][-FILES:]],
            keys=known | plain_keys(spec.keys) | plain_keys(new_spec.keys),
        )

    def _role(self, name: str) -> ModelSlot:
        role = self._lineup.roles.get(name)
        if role is None:
            known = ", ".join(self._lineup.roles)
            raise CommandRefusedError(f"there is no model {name}: name one of {known}")
        return role

    def _models(self) -> dict[str, tuple[str, dict[str, Any]]]:
        return {name: (role.learner_name, role.model.parameters()) for name, role in self._lineup.roles.items()}

    def _line_up(self, roles: dict[str, ModelSlot], file: str | None = None) -> None:
        """These are the models from here on, whatever the stream file says that was read."""
        lineup = self._lineup
        for one in (lineup.spec.models_digest(), file):
            if one is not None and one not in self._files:
                self._files = [*self._files[:1], *self._files[1:][-FILES:], one]  # the first is what all began with
        lineup.line_up(roles)
        lineup.spec = lineup.spec.lined_up(self._models(), self._on_drift)
        for name, action in lineup.spec.on_drift().items():
            roles[name].react(action)

    def obeyed(self) -> tuple[Any, ...]:
        """What commands have left, without the files' digests: these may be another worker's."""
        return self._on_drift, self._ids, self._called, self._before, self.paused

    # -- state -------------------------------------------------------------------------------------------------

    def state(self, n_events: int) -> dict[str, Any]:
        """Everything that is known; nothing where nothing was ever asked. n_events : told by whose state it is."""
        frozen = [name for name, role in self._lineup.roles.items() if role.frozen]
        if not (self._ids or n_events or self._files or self._called or frozen):
            return {}
        found = _State(n_events, list(self._ids), list(self._files), self._called, self._before, frozen, self._on_drift)
        state = msgspec.to_builtins(found)
        if self._applied is not None:
            state["applied"] = msgspec.to_builtins(self._applied)
        if self._columns is not None:
            self._columns.knows = {
                name: role.columns for name, role in self._lineup.roles.items() if role.columns is not None
            }
            state["features"] = columns = msgspec.to_builtins(self._columns)
            if not self._columns.keys:
                del columns["keys"]  # as in states of before
        if self.paused:
            state["paused"] = True
        else:
            del state["paused"]
        return {"steering": state}

    def restore_columns(self, meta: Mapping[str, Any], takes: Mapping[str, str | None]) -> None:
        """What `state` gave of the features, before the roles. takes : as in `restore`."""
        left = (meta.get("steering") or {}).get("features")
        if left is None:
            return
        self._columns, spec = msgspec.convert(left, Columns), self._lineup.spec
        self._columns.features = plain(spec.features)
        for name, source in takes.items():
            self._lineup.roles[name].columns = known_columns(self._columns.knows, source, len(spec.features))

    def restore(self, meta: Mapping[str, Any], takes: Mapping[str, str | None]) -> None:
        """Take over what `state` gave, after the roles.

        takes : role of a model -> role that it had in the state.
        """
        if "steering" not in meta:
            return
        found = msgspec.convert(meta["steering"], _State)
        self._ids = dict.fromkeys(found.ids)
        self.paused = found.paused and self._lineup.spec.control  # nobody could resume otherwise
        for name, source in takes.items():
            self._lineup.roles[name].frozen = source in found.frozen
        spec = self._lineup.spec
        if spec.models_digest() in found.files or spec.runs_by(meta) is not None:
            self._files, self._called, self._before = found.files, found.called, found.before
        if "applied" in meta["steering"]:
            applied = msgspec.convert(meta["steering"]["applied"], _Applied)
            if self._lineup.spec.running_digest() in applied.files:
                self._applied = applied


def unsteerable(changes: Changes) -> list[str]:
    """Sentences on what a changed stream file changes that a running stream cannot take."""
    said = []
    for one in changes.found:
        if one.what == SEEN:
            continue
        if one.fate == NEVER:
            said.append(one.sentence)
        elif not one.what.startswith(RUNNING):
            said.append(f"{one.sentence}; this changes at a restart of the workers, not by riparian apply")
    return said


def _unique(name: str, taken: set[str]) -> str:
    """The name, or the first of name-2, name-3, ... that is not taken."""
    found, n = name, 2
    while found in taken:
        found, n = f"{name}-{n}", n + 1
    return found
