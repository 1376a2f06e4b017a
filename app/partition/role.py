"""One model of a stream: what is done when its errors rise, and when a command asks. Pure.

How it runs, and how it is scored, say running_model.py and scored_model.py.

Detectors see the errors of a whole program at once, after the model has run it. What is done about a drift must
nevertheless happen at one place in the order of records, wherever that order was divided into programs.

- `reset`: a new model takes over right after the label at which the drift was found. It runs the rest of the program
  again, over the predictions that the old model wrote. Only the detectors (5 KB) are copied beforehand to make this
  possible: the old model is thrown away with what it learned from the rest, and the new one begins with nothing.
- `replace`: a fresh model is put on trial beside the old one (trial.py). Trials begin and end only at labels whose
  number, among all labels learned, is a multiple of `PACE`, and programs are run in pieces that end at these labels. A
  count of labels does not depend on how batches were divided.

A model is only reset or put on trial where its errors are known to have risen. A new model is never judged by its
predecessor's predictions: its detectors skip the labels of instances that were predicted before it took over. The
arrival number of an instance tells which these are (app/partition/pending.py).
"""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.arrays import under
from riparian.app.partition.deciding import Deciding
from riparian.app.partition.pending import PendingStore
from riparian.app.partition.scored_model import ScoredModel
from riparian.app.partition.sharing import LearnedRows
from riparian.app.partition.trial import DROPPED, REPLACED, Trial
from riparian.app.partition.watch import ABSOLUTE, MISTAKES, SEEN, Finding, Found, Signal, errors
from riparian.app.stream_file.spec import Spec
from riparian.app.stream_file.spec_parts import NOTHING, PACE, REPLACE, RESET
from riparian.models.contract import LEARN, PREDICT, Learner, Program, Schema
from riparian.models.restoring import check_shapes, named
from riparian.topics.records import VALUES

ERROR = "error"  # the name of the signal of a model's errors
ALERT, STARTED = "alert", "replace-started"
REACTIONS = (RESET, REPLACED, DROPPED)  # that are counted


class Role(ScoredModel):
    """The champion or a challenger. Parameters are those of ScoredModel.

    Attributes
    ----------
    action : str
        What is done when its errors rise.
    signal : Signal
        The errors of `model`, and the detectors that watch them: none where the stream file says `drift: none`.
    trial : Trial, optional
        A fresh model beside `model`.
    frozen : bool
        Whether it predicts only: its errors are watched, and nothing is done about them.
    reactions : (3,) int64
        How often each of REACTIONS happened.
    """

    def __init__(
        self,
        name: str,
        spec: Spec,
        schema: Schema,
        pending: PendingStore,
        seed: int,
        learned: LearnedRows | None = None,
        deciding: Deciding | None = None,
    ) -> None:
        super().__init__(name, spec, schema, pending, seed, learned, deciding)
        self.action = spec.on_drift()[name]
        self.signal = self._new_signal(spec)
        self.reactions = np.zeros(len(REACTIONS), np.int64)
        self.trial: Trial | None = None
        self.frozen = False
        self._detectors = spec.drift.detectors
        self._trial_window, self._trial_patience = spec.drift.window, spec.drift.patience
        self._asked: int | None = None  # the detector that asked for a trial which has not begun
        self._findings: list[Finding] = []  # of the program that is being run

    @property
    def watched(self) -> bool:
        """Whether anything watches the errors."""
        return bool(self.signal.detectors)

    def warm_up(self) -> None:
        """Compile the kernels, or load them from the cache, before the first record."""
        super().warm_up()
        if self.watched:
            self.signal.warm_up()

    def _new_signal(self, spec: Spec) -> Signal:
        kind = ABSOLUTE if spec.task in VALUES else MISTAKES
        return Signal(spec.drift.detectors, kind, seed=self.seed)

    def resize(self, schema: Schema) -> None:
        """Make room for values and classes seen since."""
        super().resize(schema)
        if self.trial is not None and not self._follows:
            self.trial.model.resize(self._known(schema))

    # -- a program ---------------------------------------------------------------------------------------------

    def run(self, program: Program, keys: NDArray[np.uint64] | None = None) -> list[Finding]:
        """Predict and learn, watch the errors, and answer a drift as the stream file says.

        program : the one that the pending store has just made. keys : of its predictions, where reasons are asked for.
        Returns what was found, in order.
        """
        self._findings, at, n = [], 0, len(program.op)
        self.begin_reasons(program, keys)
        if self.frozen:
            predict = program.op == PREDICT
            only = Program(*(column[predict] for column in program))
            self.model.run_with(only, self._slab(only), self.labelled, self.kept)
            self._ask_why(program)
            if self.watched:
                self._tell(self._watch(program, 0))
        elif not self.watched:
            self._run_model(program)
        elif self.action == RESET:
            while at < n:
                at = self._run_to_reset(program, at)
        else:
            for end in self._places_of_trials(program) if self.action == REPLACE else ():
                self._run_piece(program, at, end)
                self._begin_or_end_trial(program, end)
                at = end
            if at < n:
                self._run_piece(program, at, n)
        return self._findings

    def _run_piece(self, program: Program, start: int, stop: int) -> None:
        """Operations start to stop, of which no one is the place of a reset, and none but the last of a trial."""
        piece = program if stop - start == len(program.op) else program.part(start, stop)
        if self.trial is None:
            self._run_model(piece, start)
        else:
            self._forget(piece, start)
            for part in self._parts(piece):
                self.trial.run(self.model, part, self._slab(part), self.labelled, self.kept)
                self._ask_why(part)
        self._tell(self._watch(piece, start))

    def _run_to_reset(self, program: Program, start: int) -> int:
        """Run the operations from `start` to the first reset, or to the end. Returns where to go on."""
        rest, detectors = program.part(start), self.signal.copy()
        if start and self.reasons is not None:
            self.reasons.ahead = self._ahead_of(program, start)
        self._run_model(rest, start)
        found = self._watch(rest, start)
        end = next((place + 1 for place, one in found if one.rose and one.is_drift), None)
        if end is None:
            self._tell(found)
            return len(program.op)
        if end < len(program.op):  # the detectors have seen labels that are not this model's any more
            self.signal.restore(detectors)
            found = self._watch(program.part(start, end), start)
        self._tell(found)
        self._count(RESET)
        self._hand_over(self._fresh(), program, end)
        return end

    def _watch(self, piece: Program, start: int) -> list[tuple[int, Found]]:
        """Show the detectors the errors of the piece that begins at `start`; what they find, each with its place."""
        places, values = errors(self.signal.kind, piece, self.labelled)
        if start:
            places += start
        if self.since is not None:
            own = self._learned.arrivals()[places] >= self.since
            places, values = places[own], values[own]
        return [(int(places[one.i]), one) for one in self.signal.update(values)]

    def _tell(self, found: list[tuple[int, Found]]) -> None:
        """Note what detectors found, and what is done about it."""
        acts = not self.frozen
        may_reset = self.action == RESET and acts
        for place, one in found:
            action = ALERT if one.is_drift and self.action != NOTHING else None
            if one.rose and one.is_drift and may_reset:
                action, may_reset = RESET, False
            elif acts and one.rose and self.action == REPLACE and self.trial is None and self._asked is None:
                action, self._asked = STARTED, list(self.signal.detectors).index(one.detector)
            self._note(place, one, action)

    def _note(self, place: int, found: Found, action: str | None) -> None:
        self._findings.append(Finding(place, self.name, ERROR, self.signal, found, action))

    def _count(self, reaction: str) -> None:
        self.reactions[REACTIONS.index(reaction)] += 1

    def _hand_over(self, model: Learner, program: Program, at: int) -> None:
        """`model` takes over at operation `at`: its errors are a series of their own."""
        self.model = model
        self.signal.forget()
        self.since = self._learned.taken_over(program, at)

    # -- trials ------------------------------------------------------------------------------------------------

    def _places_of_trials(self, program: Program) -> list[int]:
        """The ends of the pieces after which a trial may begin or end."""
        learns = np.flatnonzero(program.op == LEARN)
        n_before = self._learned.counts["joined"] - len(learns)
        ends: list[int] = (learns[-(n_before + 1) % PACE :: PACE] + 1).tolist()
        return ends

    def _begin_or_end_trial(self, program: Program, at: int) -> None:
        """Begin the trial that was asked for, or end the one that has come to a verdict, before operation `at`."""
        trial = self.trial
        if trial is None:
            if self._asked is not None:
                self.trial, self._asked = self._on_trial(self._fresh(), self._asked), None
            return
        verdict = trial.verdict()
        if verdict is None:
            return
        self.trial = None
        self._count(verdict)
        detector, (older, fresh) = list(self.signal.detectors)[trial.by], trial.means()
        self._note(at - 1, Found(0, detector, "", int(self.signal.totals[SEEN]), older, fresh), verdict)
        if verdict == REPLACED:
            self._hand_over(trial.model, program, at)

    def _on_trial(self, model: Learner, by: int) -> Trial:
        return Trial(model, self.signal.kind, self._trial_window, self._trial_patience, by)

    def _end_trial(self) -> None:
        self.trial = self._asked = None

    # -- commands, between two programs ------------------------------------------------------------------------

    def freeze(self) -> None:
        """Predict, and learn no more."""
        self.frozen = True
        self._end_trial()

    def reset(self) -> None:
        """A new model takes over, which knows all features; the scores go on, as at a drift."""
        if self._follows:  # there it was done
            return
        self._end_trial()
        self.columns = None
        self.model = self._fresh()
        self.signal.forget()
        self.since = self._learned.next_arrival
        for name in self.kept_names:
            self._learned.forget(name)

    def react(self, action: str) -> None:
        """Do this when errors rise, from here on."""
        if action != self.action:
            self.action = action
            self._end_trial()

    def settle(self, spec: Spec) -> None:
        """Go on as this stream file says of metrics and of drift."""
        super().settle(spec)
        self._trial_window, self._trial_patience = spec.drift.window, spec.drift.patience
        if self._follows:  # there the rest was done
            return
        if self.trial is not None:
            self.trial.bound(self._trial_window, self._trial_patience)
        if spec.drift.detectors == self._detectors:
            return
        # A state without detectors knows no `reactions`, nor `since` unless partitions share what is learned, so they
        # must not matter from here on.
        self._end_trial()
        if self._learned is self._pending:
            if self.since is not None:
                for name in self.kept_names:
                    self._learned.forget(name, self.since)
            if not (self._detectors and spec.drift.detectors):
                self.since = None
        self.reactions[:] = 0
        self._detectors, self.signal = spec.drift.detectors, self._new_signal(spec)

    def adjusted(self, parameters: dict[str, Any]) -> tuple[Learner, Learner | None]:
        """The model, and the one on trial, with other parameters that their states go on with."""
        model, trial = self._adjusted(self.model, parameters), None
        if self.trial is not None and not self._follows:
            trial = self._adjusted(self.trial.model, parameters)
            trial.inherit(model)
        return model, trial

    def adjust(self, parameters: dict[str, Any], model: Learner, trial: Learner | None) -> None:
        """Go on with these parameters, and the models that `adjusted` made with them."""
        self._go_on_with(parameters, model)
        if self.trial is not None and trial is not None:
            self.trial.model = trial

    def follow(self, leads: Self) -> None:
        """Whatever is done about the models is done there, too."""
        super().follow(leads)
        self.signal, self.trial, self._asked = leads.signal, leads.trial, leads._asked
        self.frozen, self.reactions, self.action = leads.frozen, leads.reactions, leads.action

    def give_up(self, leads: Self | None) -> None:
        """Let go of the models, before anything else than to `follow` a role that will stand where this one does. leads
        : it, where it is there already; its model is looked at meanwhile."""
        self.model, self.trial = self._made(self._first) if leads is None else leads.model, None

    # -- state -------------------------------------------------------------------------------------------------

    @property
    def incomparable(self) -> set[str]:
        """Names of arrays in a state whose bytes may differ though equal folds made them."""
        places = (f"models/{self.name}", f"drift/trials/{self.name}/model")
        return {f"{place}/{field}" for place in places for field in self.model.incomparable}

    def state_of_watching(self) -> dict[str, NDArray[Any]]:
        """Live arrays of what watches the errors, without the trial."""
        n_old = 0 if self.since is None else self._learned.n_before(self.since)
        if not n_old:
            self.since = None
        more = np.array([-1 if self._asked is None else self._asked, n_old], np.int64)
        return self.signal.state() | {"reactions": self.reactions, "more": more}

    def restore_watching(
        self, arrays: Mapping[str, NDArray[Any]], trial: Mapping[str, NDArray[Any]], schema: Schema
    ) -> None:
        """Take over arrays of `state_of_watching()`, after the pending store has been restored.

        trial : its arrays, none where none was going on. schema : that its model had room for. ValueError where the
        arrays are none that this program writes.
        """
        self.signal.restore_from_outside(arrays, self.name)
        with named(f"the detectors of {self.name}"):
            check_shapes(arrays, {"reactions": self.reactions, "more": np.zeros(2, np.int64)})
            self.reactions = arrays["reactions"].copy()
            asked, n_old = arrays["more"].tolist()
        if n_old:
            self.since = self._learned.arrival(n_old)
        if self.action != REPLACE:
            return
        self._asked = None if asked < 0 else asked
        if trial:
            self.trial = self._on_trial(self._restored(under(trial, "model/"), schema), 0)
            self.trial.model.inherit(self.model)
            self.trial.restore(trial)
