"""What the rule has decided is done and told, and what commands ask of models that all partitions learn. Pure.

A challenger that is promoted after a label is the champion from the next instance on. All models run the whole program
whoever that is, so only names change, and which predictions are the champion's. The event is told with the next
prediction, which records how many labels came before it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.comparing import Decision
from riparian.app.partition.outcome import DeadLetter, Lineup
from riparian.app.partition.serving import Serving
from riparian.app.partition.steering import Steered, Steering
from riparian.app.partition.watch import Finding
from riparian.models.contract import PREDICT, Floats, Program
from riparian.topics.commands import APPLIED, PROMOTE, PROPOSED, EventRecord
from riparian.topics.names import CHAMPION, FEATURES, LABELS
from riparian.topics.places import index_of, offset_of
from riparian.topics.records import REGRESSION
from riparian.topics.training_log import LearnedCommand

RULE = "promotion"  # who asked, in its events


class _Due(msgspec.Struct, omit_defaults=True):
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
    """What the rule has decided, as it is told. promoted : whether the challenger is the champion from there on."""

    promoted: bool
    due: _Due


class Promotion:
    """Carries out decisions of the rule in a learner.

    Attributes
    ----------
    lineups : of the last program: from which of its predictions on which models were called how.
    decided : what the rule has decided in it
    """

    def __init__(self, learner: Steered, steering: Steering) -> None:
        self._learner, self._steering = learner, steering
        self.decided: list[Decided] = []
        self._due: list[_Due] = []
        self._starts: list[int] = []  # number of the prediction in the last program that each of these is told with
        self._lined: list[tuple[int, str, dict[str, Serving]]] = []

    def obey(self, record: LearnedCommand) -> list[DeadLetter]:
        """Apply a command to models that all partitions learn, at its place of their log; dead letters, where it is
        none."""
        command = self._steering.read(record.offset, None, record.value)
        if isinstance(command, DeadLetter):
            return [command]
        if command is not None:
            event, said = self._steering.answer(command)
            self._due.append(
                _Due(
                    event,
                    command.model,
                    said,
                    self._models(),
                    command=command.command,
                    by=command.by,
                    id=command.id,
                    asked=command.asked,
                    control_offset=record.offset,
                )
            )
        return []

    def _lined_up(self, start: int) -> tuple[int, str, dict[str, Serving]]:
        """From this prediction on: the champion's learner, and who serves, the champion first."""
        roles, servings = self._learner.roles, self._learner.servings
        return start, roles[CHAMPION].learner_name, {name: servings[name] for name in roles}

    def _models(self) -> dict[str, str]:
        return {role: running.learner_name for role, running in self._learner.roles.items()}

    def carry_out(self, decisions: Sequence[Decision], program: Program, findings: Sequence[Finding]) -> list[Finding]:
        """Promote and propose. Returns what was found in the program, by the names that models had then."""
        learner, found, self.decided = self._learner, list(findings), []
        predicted = np.flatnonzero(program.op == PREDICT) if decisions else np.zeros(0, np.int64)
        self._starts, self._lined = [0] * len(self._due), [self._lined_up(0)]
        for one in decisions:
            start, name = int(np.searchsorted(predicted, one.place, side="right")), one.role.name
            said = self._sentence(one)
            if one.promoted:
                names = {role: role.name for role in learner.roles.values()}
                said = f"{self._steering.promote(name)}: {said}"
                now = {names[role]: role.name for role in names}
                found = [f if f.place <= one.place or f.role is None else f._replace(role=now[f.role]) for f in found]
                self._lined.append(self._lined_up(start))
            due = _Due(APPLIED if one.promoted else PROPOSED, name, said, self._models())
            self.decided.append(Decided(one.promoted, due))
            self._due.append(due)
            self._starts.append(start)
        if len(self._lined) > 1:  # events of one label come in the order of the roles, as they are then
            found.sort(key=lambda f: self._rank(f, [one.place for one in decisions if one.promoted]))
        return found

    def repeat(self, one: Decided) -> None:
        """Do what the rule has decided where another learner learns for this one."""
        if one.promoted:
            self._steering.promote(str(one.due.model))
        self._due.append(one.due)

    def forget(self) -> None:
        """Nobody is told anything of it here."""
        self._due = []

    def _rank(self, finding: Finding, places: Sequence[int]) -> int:
        """Number of the finding's role among those of its place; features come last. places : of promotions."""
        roles = list(self._lined[sum(place < finding.place for place in places)][2])
        return len(roles) if finding.role is None else roles.index(finding.role)

    def _sentence(self, one: Decision) -> str:
        spec = self._learner.spec
        what, times, unit = (
            ("mean absolute error", 1.0, "") if spec.task == REGRESSION else ("errors", 100.0, " points")
        )
        if self._learner.comparing.by_cost:
            what, times, unit = "mean cost", 1.0, ""
        low, mean, high = (f"{times * x:.4g}" for x in (one.by.low, one.by.difference, one.by.high))
        return (
            f"{one.role.name} ({one.role.learner_name}) has {mean}{unit} less {what} than the champion over the last "
            f"{one.by.n:,} labels, with an interval from {low} to {high}"
        )

    @property
    def lineups(self) -> list[Lineup]:
        return [Lineup(start, model, tuple(served)) for start, model, served in self._lined]

    def predictions(self, said: Mapping[Serving, Floats]) -> dict[str, Floats]:
        """Name -> what the model that was called so predicted in the last program; zeros where there was none.

        said : serving -> (n, k).
        """
        if len(self._lined) == 1:
            return {name: said[one] for name, one in self._lined[0][2].items()}
        shape = next(iter(said.values())).shape
        found: dict[str, Floats] = {}
        ends = [*(start for start, *_ in self._lined[1:]), shape[0]]
        for (start, _, served), end in zip(self._lined, ends, strict=True):
            for name, one in served.items():
                found.setdefault(name, np.zeros(shape))[start:end] = said[one][start:end]
        return found

    def tell(
        self, places: NDArray[np.int64], label_places: NDArray[np.int64], times: NDArray[np.int64], tells: bool
    ) -> list[EventRecord]:
        """The events that come before a prediction of the last program, each with its place; the others wait.

        places, label_places, times : (n,) int64, of its predictions. tells : whether this partition tells them; another
        one does otherwise.
        """
        bits, label_bits = self._learner.bits[FEATURES], self._learner.bits[LABELS]
        told, waiting = [], []
        for due, start in zip(self._due, self._starts, strict=True):
            if start >= len(places):
                waiting.append(due)
                continue
            place, label_place = int(places[start]), int(label_places[start])
            event = self._steering.event(due.event, due.command, due.sentence, place)
            told.append(
                msgspec.structs.replace(
                    event,
                    label_offset=offset_of(label_place, label_bits),
                    label_index=index_of(label_place, label_bits),
                    offset=offset_of(place, bits),
                    time=int(times[start]),
                    models=due.models,
                    model=due.model,
                    by=due.by,
                    id=due.id,
                    asked=due.asked,
                    control_offset=due.control_offset,
                )
            )
        self._due = waiting
        return told if tells else []

    def state(self, proposed: list[str]) -> dict[str, Any]:
        """What is known, with the names of `Comparing.proposed`; nothing where there is nothing."""
        if not self._due and not proposed:
            return {}
        return {"promotion": {"due": [msgspec.to_builtins(due) for due in self._due], "proposed": proposed}}

    def restore(self, meta: Mapping[str, Any]) -> list[str]:
        """Take over what `state` gave. Returns the names that were proposed."""
        found = meta.get("promotion", {"due": [], "proposed": []})
        self._due = msgspec.convert(found["due"], list[_Due])
        return msgspec.convert(found["proposed"], list[str])
