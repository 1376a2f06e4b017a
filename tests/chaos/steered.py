"""Commands to the stream of a campaign, drawn from its seed, and what must have become of them.

Each is sent to all partitions, or to the first where all learn one model. Some come twice, some cannot be done, some
are no commands. A twin that knows names only says what each partition had to answer.
"""

import asyncio
import copy
import random
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaProducer

from riparian.app.partition.learner import PartitionLearner
from riparian.app.stream_file.columns import plain
from riparian.app.stream_file.spec import Spec
from riparian.topics import commands, training_log
from riparian.topics.commands import APPLIED, PROPOSED, REFUSED, Command, EventRecord
from riparian.topics.names import CHAMPION
from tests.broker.clients import read
from tests.broker.harness import predictions

PAUSE_SECONDS = (0.0, 1.2)  # between two commands
TWICE, NO_COMMAND = 0.1, 0.05  # shares of the records
AMISS = 0.15  # of the commands, about, that can hardly be done
GARBAGE = (b"{oops", b'{"id": "1", "command": "promote"}', b"")
LEARNERS: dict[str, dict[str, Any]] = {
    "last-label": {},
    "majority-class": {},
    "naive-bayes": {},
    "hoeffding-tree": {"grace_period": 50},
}
NAMES = (CHAMPION, "nb", "last", "a", "b", "c", *LEARNERS)
WHAT = (
    *(commands.PROMOTE,) * 4,
    *(commands.DEMOTE,) * 2,
    *(commands.ADD,) * 4,
    *(commands.DROP,) * 2,
    *(commands.FREEZE,) * 2,
    *(commands.THAW,) * 3,
    *(commands.RESET,) * 2,
    *(commands.APPLY,) * 3,
    commands.PAUSE,
    *(commands.RESUME,) * 2,
    commands.CHECKPOINT,
)
FILES = (commands.APPLY,) * len(WHAT)  # for every other command a file
# What a file that is applied says besides its models.
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"drift": {"detectors": {"adwin": {"delta": 0.01}, "ddm": {}}, "features": "all", "on_drift": "replace"}},
    {"drift": {"detectors": {}}, "metrics": {"window": 100}},
    {"drift": {"distributions": {"window": 500}, "on_drift": "reset"}},
    {"metrics": {"fading": 0.99}, "join": {"horizon": "1h", "max_pending": 200_000}},
    {"promotion": {"mode": "automatic", "at_least": 500}},
    {"promotion": {"mode": "propose"}},
)


def fields(seed: int) -> dict[str, Any]:
    """Of the stream file. Every other pair of seeds has a rule that promotes, too."""
    rule = {"promotion": {"mode": "automatic", "at_least": 500}} if seed // 2 % 2 else {}
    return {"control": True, "drift": {"on_drift": ("reset", "replace")[seed // 4 % 2]}, **rule}


MORE: dict[str, Any] = {"d": {"type": "numeric"}, "e": {"type": "nominal"}, "f": {"type": "boolean"}}
# Keys, and features over their past, where all partitions learn one model: labels count in all of them.
KEYS: dict[str, dict[str, Any]] = {
    "card": {"from": "card", "max": 50},
    "letter": {"from": "x.c", "max": 50, "idle": "20s"},
    "record": {"from": "@key", "max": 200},
}
STAYS = ("a", "seen")  # by `a` some records are wrong (`load.POISON`); predictions.features asks for one at least
PASTS: dict[str, Any] = {
    "seen": {"count": "record"},
    "last": {"last": "b", "by": "record"},
    "yes": {"share": "yes", "by": "card", "half_life": "10s", "smooth": 2},
    "no": {"share": "no", "by": "card"},
    "of_letter": {"share": "yes", "by": "letter", "half_life": "2s"},
}


def of_keys(features: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The keys over whose past some of these features are."""
    asked = {one.get(field) for one in features.values() if isinstance(one, dict) for field in ("by", "count")}
    return {name: one for name, one in KEYS.items() if name in asked}


def keyed() -> dict[str, Any]:
    """Of the stream file, where such features come and go."""
    features = {"a": "numeric", "b": "numeric", "c": "nominal", "seen": PASTS["seen"], "yes": PASTS["yes"]}
    predictions = {"features": True}
    return {"classes": ["no", "yes"], "features": features, "keys": of_keys(features), "predictions": predictions}


class Commands:
    """A thread that sends commands until `finish`.

    Attributes
    ----------
    n : records so far, in each partition
    sent : place in the topic, and command, of those that must be answered
    poison : offsets of the records that are no commands

    features : whether half of the commands are files, which add and drop features
    """

    def __init__(self, spec: Spec, broker: str, seed: int, features: bool = False) -> None:
        assert spec.topics.control is not None
        self._topic, self._partitions, self._broker = spec.topics.control, spec.commanded, broker
        self._rng = random.Random(f"{seed}/commands")
        self._learners: dict[str, dict[str, Any]] = {**LEARNERS, **dict(spec.models().values())}
        self._features = plain(spec.features)
        self._what, self._share_of_features = (WHAT + FILES, 0.9) if features else (WHAT, 0.6)
        self._twin = Twin(spec)  # what there is, as far as no rule promotes: so that most commands can be done
        self.n = 0
        self.sent: list[tuple[int, Command]] = []
        self.poison: set[int] = set()
        self._finishing = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="commands", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Send a last one, and return when everything is acknowledged."""
        self._finishing.set()
        self._thread.join()
        if self._error is not None:
            raise RuntimeError("the commands could not be sent") from self._error

    def _work(self) -> None:
        try:
            asyncio.run(self._send())
        except BaseException as error:
            self._error = error

    async def _send(self) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=self._broker, enable_idempotence=True, request_timeout_ms=120_000)
        await producer.start()
        try:
            while True:
                last = self._finishing.is_set()
                value = self._next(commands.CHECKPOINT if last else None)
                for partition in self._partitions:
                    await producer.send_and_wait(self._topic, value, partition=partition)
                if last:
                    return
                await asyncio.sleep(self._rng.uniform(*PAUSE_SECONDS))
        finally:
            await producer.stop()

    def _next(self, what: str | None) -> bytes:
        rng, place = self._rng, self.n
        self.n += 1
        draw = rng.random()
        if what is None and draw < NO_COMMAND:
            self.poison.add(place)
            return rng.choice(GARBAGE)
        if what is None and draw < NO_COMMAND + TWICE and self.sent:
            return commands.write(rng.choice(self.sent[-20:])[1])
        what = what or rng.choice(self._what)
        there = self._twin.models
        names = NAMES if rng.random() < AMISS else tuple(self._twin.frozen) if what == commands.THAW else tuple(there)
        names = tuple(set(NAMES) - set(there)) if what == commands.ADD and names != NAMES else names
        name = rng.choice(sorted(set(names) - {CHAMPION} if rng.random() > AMISS else names) or NAMES)
        more: dict[str, Any] = {"model": name} if what in commands.OF_A_MODEL else {}
        if what == commands.ADD:
            learner = rng.choice(list(self._learners))
            more["definition"] = {"model": learner, **self._learners[learner]}
        elif what == commands.APPLY:
            more = self._file(there[CHAMPION] if rng.random() > AMISS else rng.choice(list(self._learners)))
        asked = Command(id=f"{place}", command=what, by="chaos", asked=int(time.time() * 1000), **more)  # type: ignore[arg-type]
        self.sent.append((place, asked))
        self._twin.does(asked)
        return commands.write(asked)

    def _file(self, champion: str) -> dict[str, Any]:
        """A stream file with this champion; workers go on with the one that they were started with."""
        rng = self._rng
        names = rng.sample([name for name in NAMES if name != CHAMPION], rng.randrange(4))
        learners = {name: rng.choice(list(self._learners)) for name in names}
        running = {"drift": {}, "metrics": {}, "join": {}, "promotion": None}
        return {
            "champion": {"model": champion, **self._learners[champion]},
            "challengers": {name: {"model": learner, **self._learners[learner]} for name, learner in learners.items()},
            "file": f"{self.n}",
            "settings": {**running, **rng.choice(SETTINGS)},
            **(self._some() if rng.random() < self._share_of_features else {}),
        }

    def _some(self) -> dict[str, Any]:
        """Features that go, come and come back, and their keys; those that the stream began without, too."""
        rng, every = self._rng, {**self._features, **MORE, **(PASTS if "seen" in self._features else {})}
        stays = [name for name in STAYS if name in every]
        others = [name for name in every if name not in stays]
        names = {*stays, *rng.sample(others, rng.randrange(len(others)))}
        names |= {"b"} if "last" in names else set()
        features = {name: one for name, one in every.items() if name in names}
        return {"features": features, **({"keys": of_keys(features)} if "seen" in every else {})}


def events(broker: str, spec: Spec, partition: int) -> list[EventRecord]:
    """What a partition has answered, and what its rule has told."""
    assert spec.topics.events is not None
    return [commands.read_event(record.value) for record in read(broker, spec.topics.events, partition)]


def answered(broker: str, spec: Spec, asked: Commands) -> bool:
    """Whether the last command has its answer in every partition."""
    last = asked.sent[-1][1].id
    return all(any(one.id == last for one in events(broker, spec, p)) for p in spec.commanded)


class Twin:
    """Which models there are, by their names alone."""

    def __init__(self, spec: Spec) -> None:
        self.models = {name: learner for name, (learner, _) in spec.models().items()}
        self.frozen: set[str] = set()
        self.paused = False
        self._called: str | None = None
        self._before: str | None = None

    def does(self, command: Command) -> bool:
        """Whether a command can be done; then it is."""
        what, name, learner = command.command, command.model, (command.definition or {}).get("model")
        if what == commands.APPLY:
            wanted = {name: one["model"] for name, one in (command.challengers or {}).items()}
            return self._apply({CHAMPION: (command.champion or {})["model"], **wanted})
        known, frozen = name in self.models, name in self.frozen
        possible = {
            commands.PROMOTE: known and name != CHAMPION,
            commands.DEMOTE: self._before in self.models,
            commands.FREEZE: known and not frozen,
            commands.THAW: frozen,
            commands.RESET: known,
            commands.ADD: not known,
            commands.DROP: known and name != CHAMPION,
            commands.CHECKPOINT: True,
            commands.PAUSE: not self.paused,
            commands.RESUME: self.paused,
        }[what]
        if not possible:
            return False
        if what == commands.DEMOTE:
            what, name = commands.PROMOTE, self._before
        name, self.paused = name or "", what == commands.PAUSE or (self.paused and what != commands.RESUME)
        if what == commands.PROMOTE:
            self._promote(name)
        elif what == commands.FREEZE:
            self.frozen.add(name)
        elif what == commands.THAW:
            self.frozen.remove(name)
        elif what == commands.ADD:
            self.models[name] = learner or ""
        elif what == commands.DROP:
            del self.models[name]
            self.frozen.discard(name)
            self._before = None if self._before == name else self._before
        return True

    def _apply(self, wanted: dict[str, str]) -> bool:
        if wanted[CHAMPION] != self.models[CHAMPION]:
            return False
        for name in [name for name, learner in self.models.items() if wanted.get(name) != learner]:
            self.frozen.discard(name)
            self._before = None if self._before == name else self._before
        self.models = wanted
        return True

    def _promote(self, name: str) -> None:
        wanted = self._called or self.models[CHAMPION]
        taken = {*self.models} - {name}
        old = next(one for one in (wanted, *(f"{wanted}-{i}" for i in range(2, 99))) if one not in taken)
        names = {CHAMPION: old, name: CHAMPION}
        self.models = {names.get(one, one): learner for one, learner in self.models.items()}
        self.frozen = {names.get(one, one) for one in self.frozen}
        self._called, self._before = name, old


def check(
    broker: str, spec: Spec, partition: int, asked: Commands, learner: PartitionLearner
) -> tuple[Counter[str], list[str]]:
    """How many commands a partition has applied and refused, and sentences on what is wrong with the answers."""
    told = events(broker, spec, partition if partition in spec.commanded else 0)
    said = []
    if partition not in spec.commanded and (own := events(broker, spec, partition)):
        said.append(f"events: {len(own)} that the first partition tells")
    if [one.number for one in told] != list(range(len(told))):
        said.append(f"events: their numbers are {[one.number for one in told]}")
    wanted = [(command.id, place) for place, command in asked.sent]
    found = [(one.id, one.control_offset) for one in told if one.id is not None]
    if found != wanted:
        said.append(f"answers: {_first_difference(found, wanted)}")
        return Counter(), said
    counts = Counter(one.event for one in told if one.id is not None)
    twin, by_id = Twin(spec), {command.id: command for _, command in asked.sent}
    # From the prediction of this offset on, or from those on that have learned so much of the log of all partitions.
    paused, places = [(-1, False)], _places_in_the_log(broker, spec)
    field = "learned_offset" if spec.shares else "offset"
    for one in told:
        command = by_id.get(one.id or "", Command(id="rule", command="promote", model=one.model))
        done = one.event != PROPOSED and twin.does(command)
        expected = PROPOSED if one.event == PROPOSED else APPLIED if done else REFUSED
        if (one.event, one.models) != (expected, twin.models):
            said.append(f"answer {one.number}, to {command}: {one}, not {expected} with {twin.models}")
            return counts, said
        if one.control_offset is not None:
            paused.append((places[one.control_offset] + 1 if spec.shares else one.offset, twin.paused))
    lineup = {name: role.learner_name for name, role in learner.roles.items()}
    frozen = {name for name, role in learner.roles.items() if role.frozen}
    if (lineup, frozen) not in [(twin.models, twin.frozen), *_untold(twin)]:
        said.append(f"models: {lineup}, frozen {frozen}, not {twin.models}, frozen {twin.frozen}")
    sent = predictions(broker, spec, partition)
    starts = [start for start, _ in paused]
    loud = [
        one for one in sent if paused[bisect_right(starts, one[field]) - 1][1] and (one["y"], one["p"]) != (None,) * 2
    ]
    if loud:
        said.append(f"predictions: {len(loud)} told while paused, first {loud[0]}")
    return counts, said + (_places(told, sent, spec.shares) if partition in spec.commanded else [])


def _untold(twin: Twin) -> list[tuple[dict[str, str], set[str]]]:
    """What there may be besides: a promotion by the rule is told with the next prediction, and labels may come after
    the last one."""
    found = []
    for name in twin.models:
        after = copy.deepcopy(twin)
        if after.does(Command(id="rule", command="promote", model=name)):
            found.append((after.models, after.frozen))
    return found


def _places_in_the_log(broker: str, spec: Spec) -> dict[int, int]:
    """Place of a command in the control topic -> where it stands first in the log that all partitions learn."""
    if spec.topics.learned is None:
        return {}
    found = [(training_log.read(record.value), record.offset) for record in read(broker, spec.topics.learned)]
    return {one.offset: at for one, at in reversed(found) if isinstance(one, training_log.LearnedCommand)}


def _places(told: Sequence[EventRecord], sent: Sequence[dict[str, Any]], shares: bool) -> list[str]:
    """Each event names the first prediction that it holds for. shares : whether predictions record the log of all
    partitions in place of the commands."""
    number = {one["offset"]: i for i, one in enumerate(sent)}
    said = []
    for event in told:
        i = number.get(event.offset)
        first = None if i is None else sent[i]
        before = sent[i - 1] if i else {"control_offset": 0, "label_offset": -1}
        holds = first is not None and first["label_offset"] == event.label_offset
        if first is not None and shares:
            holds &= i == 0 or before["learned_offset"] < first["learned_offset"]
        elif first is not None and event.control_offset is not None:
            holds &= before["control_offset"] <= event.control_offset < first["control_offset"]
        elif first is not None:
            holds &= before["label_offset"] < event.label_offset
        last = max((one.number for one in told if one.offset == event.offset), default=event.number)
        if first is not None and event.number == last:
            holds &= first["model"] == event.models[CHAMPION]
        if not holds:
            said.append(f"event {event.number}: {event} is told with {first}, after {before}")
    return said


def _first_difference(found: Sequence[Any], wanted: Sequence[Any]) -> str:
    at = next((i for i, (a, b) in enumerate(zip(found, wanted, strict=False)) if a != b), min(len(found), len(wanted)))
    return (
        f"{len(found)} of {len(wanted)} commands; number {at} is {found[at : at + 1] or 'missing'}, and "
        f"{wanted[at : at + 1] or 'none'} was sent"
    )
