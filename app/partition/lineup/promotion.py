"""Events of a partition: what became of commands, and what the rule that promotes has decided. Pure.

Each is told before a prediction: that of a command right before it takes effect, that of the rule with the next
prediction, which records how many labels came before it. So is that of a command to models that all partitions learn.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.lineup.lineup import Decided, Due, Lineup
from riparian.app.partition.outcome import DeadLetter, ModelNames
from riparian.app.partition.predictions.serving import Serving
from riparian.app.partition.records.log_positions import LogPositions
from riparian.app.partition.records.partition_group import Piece
from riparian.models.contract import PREDICT, Floats, Program
from riparian.topics.commands import CHECKPOINT, EventRecord
from riparian.topics.names import CHAMPION, FEATURES, LABELS
from riparian.topics.places import index_of, offset_of


class Promotion:
    """Of one partition.

    Attributes
    ----------
    n_events : int
        Number of the next event.
    models : dict
        Role -> its learner, the champion first, as this partition knows them.
    due : list of Due
        That wait for the next prediction.
    asks_checkpoint : bool
        Whether a command for a checkpoint has taken effect, until somebody takes this.
    """

    def __init__(self, stream: str, partition: int, logs: LogPositions) -> None:
        self._stream, self._partition, self._logs = stream, partition, logs
        self.n_events = 0
        self.models: dict[str, str] = {}
        self.due: list[Due] = []
        self.asks_checkpoint = False
        self._starts: list[int] = []  # number of the prediction in the last program that each of these is told with
        self._lined: list[tuple[ModelNames, dict[str, Serving]]] = []

    def obey(self, lineup: Lineup, records: Sequence[Piece], place: int) -> tuple[list[EventRecord], list[DeadLetter]]:
        """Apply commands, pieces of one record each, before the instance at `place` of the features is predicted.

        Returns what is to be said of them, and the records that are no commands.
        """
        events, letters = [], []
        for record in records:
            offset = int(record.offsets[0])
            command = lineup.steering.read(offset, record.raw.keys[0], record.raw.values[0])  # type: ignore[arg-type]
            if isinstance(command, DeadLetter):
                letters.append(command)
            elif command is not None:
                due = lineup.obey(command, offset)
                events.append(self._event(due, place, self._logs.places[LABELS], self._logs.clocks[FEATURES].time))
        return events, letters

    def _event(self, due: Due, place: int, label_place: int, time: int) -> EventRecord:
        """The next event. place : of the first instance that is predicted after it. label_place : the labels' then."""
        bits, label_bits = self._logs.bits[FEATURES], self._logs.bits[LABELS]
        self.n_events += 1
        self.asks_checkpoint |= due.command == CHECKPOINT
        return EventRecord(
            stream=self._stream,
            partition=self._partition,
            number=self.n_events - 1,
            event=due.event,
            command=due.command,
            offset=offset_of(place, bits),
            label_offset=offset_of(label_place, label_bits),
            index=index_of(place, bits),
            label_index=index_of(label_place, label_bits),
            time=time,
            sentence=due.sentence,
            models=due.models,
            id=due.id,
            control_offset=due.control_offset,
            by=due.by,
            asked=due.asked,
            model=due.model,
        )

    def begin(self, servings: Mapping[str, Serving]) -> None:
        """A program is run. servings : those of now."""
        self._starts, self._lined = [0] * len(self.due), []
        self._line_up(0, servings)

    def _line_up(self, start: int, servings: Mapping[str, Serving]) -> None:
        lined = ModelNames(start, self.models[CHAMPION], tuple(self.models))
        self._lined.append((lined, {name: servings[name] for name in self.models}))

    def note(self, decided: Sequence[Decided], program: Program) -> None:
        """What the rule has decided in the program."""
        if not decided:
            return
        predicted = np.flatnonzero(program.op == PREDICT)
        for one in decided:
            start = int(np.searchsorted(predicted, one.place, side="right"))
            if one.names:
                self.models = one.due.models
                self._line_up(start, {one.names[name]: serving for name, serving in self._lined[-1][1].items()})
            self.due.append(one.due)
            self._starts.append(start)

    @property
    def lineups(self) -> list[ModelNames]:
        """From which predictions of the last program on which models were called how."""
        return [lined for lined, _ in self._lined]

    def predictions(self, said: Mapping[Serving, Floats]) -> dict[str, Floats]:
        """Name -> what the model that was called so predicted in the last program; zeros where there was none.

        said : serving -> (n, k).
        """
        if len(self._lined) == 1:
            return {name: said[one] for name, one in self._lined[0][1].items()}
        shape = next(iter(said.values())).shape
        found: dict[str, Floats] = {}
        ends = [*(lined.start for lined, _ in self._lined[1:]), shape[0]]
        for (lined, served), end in zip(self._lined, ends, strict=True):
            for name, one in served.items():
                found.setdefault(name, np.zeros(shape))[lined.start : end] = said[one][lined.start : end]
        return found

    def take_events(
        self, places: NDArray[np.int64], label_places: NDArray[np.int64], times: NDArray[np.int64], reports: bool
    ) -> list[EventRecord]:
        """The events that come before a prediction of the last program, each with its place; the others wait.

        places, label_places, times : (n,) int64, of its predictions. reports : whether this partition sends them;
        another one does otherwise.
        """
        told, waiting = [], []
        for due, start in zip(self.due, self._starts, strict=True):
            if start < len(places):
                told.append(self._event(due, int(places[start]), int(label_places[start]), int(times[start])))
            else:
                waiting.append(due)
        self.due = waiting
        return told if reports else []

    def state(self, proposed: list[str]) -> dict[str, Any]:
        """What is known, with the names of `Comparing.proposed`; nothing where there is nothing."""
        if not self.due and not proposed:
            return {}
        return {"promotion": {"due": [msgspec.to_builtins(due) for due in self.due], "proposed": proposed}}

    def restore(self, meta: Mapping[str, Any]) -> list[str]:
        """Take over what `state` gave, and the number of the next event. Returns the names that were proposed."""
        found = meta.get("promotion", {"due": [], "proposed": []})
        self.n_events = int((meta.get("steering") or {}).get("events", 0))
        self.due = msgspec.convert(found["due"], list[Due])
        return msgspec.convert(found["proposed"], list[str])
