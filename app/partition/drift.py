"""What a partition does about drift: which series are watched, what is said of a change, and how a model answers it.
Pure.

Detectors see the errors of a whole program at once, after the model has run it; what a model does about a change must
nevertheless happen at one place of the record order, however that was cut into programs.

- `reset`: the model begins anew right after the label that raised the drift. The rest of the program is then run again
  by the new model, over the predictions that the old one wrote. Nothing is saved for this but the detectors (5 KB):
  what the old model became is not needed any more, and the new one knows nothing.
- `replace`: a fresh model is put on trial beside the old one (trial.py), from the next label on whose number among
  all labels learned is a multiple of `PACE`. Programs of such a model are run in pieces that end at these labels, and
  trials begin and end only there: a count of labels is the same wherever batches are cut.

A model is only reset or put on trial where its errors are known to have risen. Labels of instances that were predicted
before a model took its place say nothing of it: its detectors do not see them. Which these are is known by the number
of an instance's arrival (app/partition/pending.py).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from app.partition.pending import NEVER, PendingStore
from app.partition.trial import DROPPED, REPLACED, Trial
from app.partition.watch import ABSOLUTE, LEVELS, MISTAKES, VALUES, Found, Signal, errors
from app.stream_file.spec import Spec
from app.stream_file.spec_parts import NOTHING, REPLACE, RESET
from models.contract import LEARN, PREDICT, Bags, Floats, Learner, Program
from topics.records import REGRESSION, DriftRecord

PACE = 250  # labels between the places where a trial may begin or end
ALARM = 1000  # values for which a drift counts as recent

ERROR = "error"  # the signal of a model's errors
STARTED = "replace-started"
REACTIONS = (RESET, REPLACED, DROPPED)


_NOTHING = Program(np.zeros(0, np.int8), np.zeros(0, np.int32), np.zeros(0), np.zeros(0))


class Drift:
    """Everything that watches the models and features of a partition.

    Parameters
    ----------
    spec : Spec
    partition : int
    fresh : callable
        Role -> a new model, as it was when the stream began, with room for what is known now.
    pending : PendingStore
        What waits, of the same partition.
    """

    def __init__(self, spec: Spec, partition: int, fresh: Callable[[str], Learner], pending: PendingStore) -> None:
        self.spec = spec
        self.partition = partition
        self.n_events = 0
        self._fresh = fresh
        self._pending = pending
        self.kind = ABSOLUTE if spec.task == REGRESSION else MISTAKES
        detectors, seed = spec.drift.detectors, spec.seed + partition
        self.actions = spec.on_drift()
        roles = self.actions if detectors else ()
        self.models = {role: Signal(detectors, self.kind, seed=seed) for role in roles}
        columns = spec.watched() if detectors else {}
        self.features = {j: (name, Signal(detectors, VALUES, seed=seed)) for name, j in columns.items()}
        self.trials: dict[str, Trial] = {}
        self.reactions = {role: np.zeros(len(REACTIONS), np.int64) for role in self.models}
        self._asked: dict[str, int] = {}  # role -> the detector that asked for a trial
        self._last = np.zeros(3, np.int64)  # offset, label offset and time of the last prediction
        self._since: dict[str, int] = {}  # role -> arrival of the first instance that the present model predicted
        self._program = _NOTHING
        self._first_arrival = self._n_learned = 0  # before the program
        self._numbers: NDArray[np.int64] | None = None  # arrivals of its instances, where they are wanted
        # Of the program in hand: place, order at that place, record (its place in the topics is still to be told).
        self._found: list[tuple[int, int, DriftRecord, Signal, Found | None]] = []

    def warm_up(self) -> None:
        for signal in [*self.models.values(), *(signal for _, signal in self.features.values())][:1]:
            signal.warm_up()
        for _, signal in list(self.features.values())[:1]:
            signal.warm_up()

    # -- models ------------------------------------------------------------------------------------------------

    def begin(self, program: Program, next_arrival: int) -> None:
        """Take the program that the pending store has just made. next_arrival : the store's, before it did."""
        self._program, self._first_arrival, self._numbers = program, next_arrival, None
        self._n_learned = self._pending.counts["joined"] - int(np.count_nonzero(program.op == LEARN))

    def run(self, role: str, model: Learner, slab: Floats | Bags, out: Floats) -> Learner:
        """Run the program and watch the errors; the model to go on with. `out` is as `Learner.run` leaves it."""
        signal, action, program, at = self.models.get(role), self.actions[role], self._program, 0
        if signal is None:
            model.run(program, slab, out)
            return model
        stops = _paced(program, self._n_learned) if action == REPLACE else iter([(len(program.op), False)])
        for stop, paced in stops:
            while at < stop:
                part = program.part(at, stop)
                trial = self.trials.get(role)
                if trial is None:
                    model.run(part, slab, out)
                else:
                    trial.run(model, part, slab, out)
                saved = signal.copy() if action == RESET else None
                found = self._update(role, part, out, at)
                acting = next((place for place, one in found if one.rose and one.level == LEVELS[1]), None)
                if saved is None or acting is None:
                    self._tell(role, found, at)
                    at = stop
                    continue
                if acting + 1 < len(part.op):
                    signal.restore(saved)
                    found = self._update(role, part.part(0, acting + 1), out, at)
                self._tell(role, found, at)
                self._count(role, RESET)
                at += acting + 1
                self._begin_anew(role, at)
                model = self._fresh(role)
            if paced:
                model = self._judge(role, model, stop - 1)
        return model

    def _update(self, role: str, part: Program, out: Floats, at: int) -> list[tuple[int, Found]]:
        """What the detectors find in the labels of a part of the program that begins at `at`, each with its place."""
        places, values = errors(self.kind, part, out)
        if role in self._since:
            own = self._arrivals()[at + places] >= self._since[role]
            places, values = places[own], values[own]
        return [(int(places[one.i]), one) for one in self.models[role].update(values)]

    def _arrivals(self) -> NDArray[np.int64]:
        if self._numbers is None:
            self._numbers = self._pending.arrivals(self._program, self._first_arrival)
        return self._numbers

    def _begin_anew(self, role: str, at: int) -> None:
        """The model of a role is another one from place `at` of the program on."""
        self.models[role].forget()
        later = self._arrivals()[at:][self._program.op[at:] == PREDICT]
        self._since[role] = max(1, min(int(later.min(initial=NEVER)), self._pending.next_arrival))

    def _tell(self, role: str, found: list[tuple[int, Found]], at: int) -> None:
        """Note what was found in a part of the program that begins at `at`, and what is done about it."""
        acted = False
        for place, one in found:
            action, signal = None, self.models[role]
            if one.rose and not acted:
                if self.actions[role] == RESET and one.level == LEVELS[1]:
                    action, acted = RESET, True
                elif self.actions[role] == REPLACE and role not in self.trials and role not in self._asked:
                    action, self._asked[role] = STARTED, list(signal.detectors).index(one.detector)
            if action is None and one.level == LEVELS[1] and self.actions[role] != NOTHING:
                action = "alert"
            self._note(at + place, role, ERROR, signal, one, action)

    def _judge(self, role: str, model: Learner, place: int) -> Learner:
        """At a label where trials may begin and end; the model to go on with."""
        trial, signal = self.trials.get(role), self.models[role]
        if trial is None:
            by = self._asked.pop(role, None)
            if by is not None:
                self.trials[role] = self._trial(self._fresh(role), by)
            return model
        verdict = trial.verdict()
        if verdict is None:
            return model
        self._count(role, verdict)
        del self.trials[role]
        detector = list(signal.detectors)[trial.by]
        older, fresh = trial.means()
        ended = Found(0, detector, "", int(signal.totals[0]), older, fresh)
        self._note(place, role, ERROR, signal, ended, verdict)
        if verdict == DROPPED:
            return model
        self._begin_anew(role, place + 1)
        return trial.model

    def _trial(self, model: Learner, by: int) -> Trial:
        return Trial(model, self.kind, self.spec.drift.window, self.spec.drift.patience, by)

    def _count(self, role: str, reaction: str) -> None:
        self.reactions[role][REACTIONS.index(reaction)] += 1

    def _note(self, place: int, role: str | None, name: str, signal: Signal, found: Found, action: str | None) -> None:
        record = DriftRecord(
            stream=self.spec.name,
            partition=self.partition,
            number=0,
            model=role,
            signal=name,
            detector=found.detector,
            level=found.level or None,
            action=action,
            offset=0,
            label_offset=0,
            time=0,
            n=found.n,
            before=None if np.isnan(found.before) else found.before,
            after=None if np.isnan(found.after) else found.after,
        )
        self._found.append((place, len(self._found), record, signal, found if found.level else None))

    # -- features, and the end of a program --------------------------------------------------------------------

    def finish(
        self,
        x: Floats,
        offsets: NDArray[np.int64],
        label_offsets: NDArray[np.int64],
        times: NDArray[np.int64],
        sizes: NDArray[np.int64] | None = None,
    ) -> tuple[list[DriftRecord], int]:
        """All that was found since the last call, in the order in which it happened, after the features were watched.

        Parameters
        ----------
        x, offsets, label_offsets, times : of the program's n PREDICTs in order: (n, d) float64 and (n,) int64.
        sizes : (n,) int64, how many rows of x each has, where an instance is a bag.

        Returns
        -------
        list of DriftRecord, and how many of them stand before a later prediction, or at one: a reader of the
        predictions knows which labels came before these.
        """
        program = self._program
        predicted = np.flatnonzero(program.op == PREDICT) if self.features or self._found else np.zeros(0, np.int64)
        for j, (name, signal) in self.features.items():
            there = np.flatnonzero(np.isfinite(x[:, j]))
            whose = there if sizes is None else np.repeat(np.arange(len(sizes)), sizes)[there]
            for one in signal.update(np.ascontiguousarray(x[there, j])):
                action = "alert" if one.level == LEVELS[1] and self.spec.drift.on_drift != NOTHING else None
                self._note(int(predicted[whose[one.i]]), None, name, signal, one, action)
        last = self._last
        if len(offsets):
            self._last = np.array([offsets[-1], label_offsets[-1], times[-1]], np.int64)
        if not self._found:
            return [], 0
        noted, self._found = sorted(self._found, key=lambda one: one[:2]), []
        records, settled = [], 0
        for place, _, record, signal, found in noted:
            k = int(np.searchsorted(predicted, place, side="right")) - 1
            at = last if k < 0 else (offsets[k], label_offsets[k], times[k])
            record.offset, record.label_offset, record.time = map(int, at)
            record.number = self.n_events
            self.n_events += 1
            settled += bool(len(predicted)) and place <= int(predicted[-1])
            if found is not None:
                signal.stamp(found, record.time)
            records.append(record)
        return records, settled

    # -- what is reported --------------------------------------------------------------------------------------

    def signals(self) -> Iterator[tuple[str, str, Signal]]:
        """(role, or "" for a feature; "error" or the feature's name; its detectors)."""
        for role, signal in self.models.items():
            yield role, ERROR, signal
        for name, signal in self.features.values():
            yield "", name, signal

    def events(self) -> Iterator[tuple[str, str, str, str, int, int]]:
        """(role, signal, detector, level, events since the stream began, ms of the last one)."""
        for role, name, signal in self.signals():
            for k, detector in enumerate(signal.detectors):
                for i, level in enumerate(LEVELS):
                    yield role, name, detector, level, int(signal.counts[k, i]), int(signal.times[k, i])

    def alarms(self) -> dict[str, bool]:
        """Role ("" for all features) -> whether there was a drift lately; of those that are not to be left alone."""
        found = {role: signal.alarmed(ALARM) for role, signal in self.models.items() if self.actions[role] != NOTHING}
        if self.features and self.spec.drift.on_drift != NOTHING:
            found[""] = any(signal.alarmed(ALARM) for _, signal in self.features.values())
        return found

    @property
    def n_bytes(self) -> int:
        """Bytes of detectors and of models on trial."""
        trials = (array for trial in self.trials.values() for array in trial.state().values())
        return sum(array.nbytes for array in (*self._arrays().values(), *trials))

    # -- state -------------------------------------------------------------------------------------------------

    def resize(self, resized: Callable[[Learner], None]) -> None:
        """Have models on trial get room for values and classes seen since."""
        for trial in self.trials.values():
            resized(trial.model)

    def state(self) -> dict[str, NDArray[Any]]:
        """`signals`, all that watches as one array of bytes (it is many small ones, which all change all the time), and
        the live arrays of models on trial. Nothing where nothing is watched."""
        if not self.models and not self.n_events:
            return {}
        plain = {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in self._arrays().items()}
        state = {"signals": np.frombuffer(msgspec.msgpack.encode(plain), np.uint8)}
        for role, trial in self.trials.items():
            state |= _over(f"trials/{role}/", trial.state())
        return state

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Of everything but the trials."""
        arrays: dict[str, NDArray[Any]] = {"last": self._last, "events": np.array([self.n_events], np.int64)}
        for role, signal in self.models.items():
            arrays |= _over(f"models/{role}/", signal.state())
            n_old = self._pending.n_before(self._since[role]) if role in self._since else 0
            if not n_old:
                self._since.pop(role, None)
            more = np.array([self._asked.get(role, -1), n_old], np.int64)
            arrays |= _over(f"models/{role}/", {"reactions": self.reactions[role], "more": more})
        for j, (_, signal) in self.features.items():
            arrays |= _over(f"features/{j}/", signal.state())
        return arrays

    def restore(
        self,
        arrays: Mapping[str, NDArray[Any]],
        sources: Mapping[str, str | None],
        same: bool,
        model: Callable[[str, Mapping[str, NDArray[Any]]], Learner],
    ) -> None:
        """Take over what `state` gave, after the pending store has been restored.

        Parameters
        ----------
        sources : role of a model -> the role that it had there; None for one that starts afresh.
        same : whether the detectors and their parameters are those of then; others begin anew.
        model : role and arrays -> the model restored.
        """
        if "signals" not in arrays:
            return
        plain = msgspec.msgpack.decode(arrays["signals"].tobytes())
        found = {name: np.frombuffer(data, kind).reshape(shape) for name, (kind, shape, data) in plain.items()}
        arrays = {**arrays, **found}
        self.n_events, self._last = int(arrays["events"][0]), arrays["last"].copy()
        if not same:
            return
        for role, signal in self.models.items():
            source = sources.get(role, role)
            mine = under(arrays, f"models/{source}/")
            if source is None or not mine:
                continue
            signal.restore(mine)
            self.reactions[role] = mine["reactions"].copy()
            asked, n_old = mine["more"].tolist()
            if n_old:
                self._since[role] = self._pending.arrival(n_old)
            if self.actions[role] != REPLACE:
                continue
            if asked >= 0:
                self._asked[role] = asked
            trial = under(arrays, f"trials/{source}/")
            if trial:
                self.trials[role] = self._trial(model(role, under(trial, "model/")), int(trial["numbers"][1]))
                self.trials[role].restore(trial)
        for j, (_, signal) in self.features.items():
            mine = under(arrays, f"features/{j}/")
            if mine:
                signal.restore(mine)


def under(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays whose names begin with `prefix`, by what follows it."""
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}


def _over(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {prefix + name: array for name, array in arrays.items()}


def _paced(program: Program, n_learned: int) -> Iterator[tuple[int, bool]]:
    """The ends of the pieces that `program` is run in, and whether trials may begin and end there."""
    learn = np.flatnonzero(program.op == LEARN)
    ends = learn[-(n_learned + 1) % PACE :: PACE] + 1
    yield from ((int(end), True) for end in ends)
    if not len(ends) or ends[-1] < len(program.op):
        yield len(program.op), False
