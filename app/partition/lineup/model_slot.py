"""One model of a stream: how it runs and is scored, what is done when its errors rise, and when a command asks. Pure.

A new model is made as one that has run from the beginning was, and is then given room for whatever is known by now. It
is not told of features that came since: to it an instance is as it was.

Detectors see the errors of a whole program at once, after the model has run it. What is done about a drift must
nevertheless happen at one place in the order of records, wherever that order was divided into programs.

- `reset`: a new model takes over right after the label at which the drift was found. It runs the rest of the program
  again, over the predictions that the old model wrote. Only the detectors (5 KB) are copied beforehand to make this
  possible: the old model is thrown away with what it learned from the rest, and the new one begins with nothing.
- `replace`: a fresh model is put on trial beside the old one (background_learner.py). Trials begin and end only at
  labels whose number, among all labels learned, is a multiple of `PACE`, and programs are run in pieces that end at
  these labels. A count of labels does not depend on how batches were divided.

A model is only reset or put on trial where its errors are known to have risen. A new model is never judged by its
predecessor's predictions: its detectors skip the labels of instances that were predicted before it took over. The
arrival number of an instance tells which these are (app/partition/join/pending.py).
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.app.errors import SpecError
from riparian.app.partition.arrays import EMPTY, over, shifted_name, under
from riparian.app.partition.drift.detection import ABSOLUTE, MISTAKES, SEEN, Detection, Finding, Signal, errors
from riparian.app.partition.lineup.background_learner import DROPPED, REPLACED, BackgroundLearner
from riparian.app.partition.lineup.learned_rows import InstanceRows
from riparian.app.partition.lineup.memos import Memos
from riparian.app.partition.predictions.decision_policy import Stakes, decided_name
from riparian.app.partition.predictions.reasons import Reasons, pieces
from riparian.app.stream_file.lineup import place_of
from riparian.app.stream_file.sections.models import NOTHING, REPLACE, RESET
from riparian.app.stream_file.sections.promotion import PACE
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import LEARN, PREDICT, Bags, Floats, Learner, Program, Schema
from riparian.models.evaluation.costs import Paid
from riparian.models.evaluation.prequential import Prequential
from riparian.models.kernels.cache import one_part
from riparian.models.registry import create, memo_names, memo_places
from riparian.models.restoring import check_shapes, named, restore
from riparian.topics.records import ANOMALY, VALUES

ERROR = "error"  # the name of the signal of a model's errors
ALERT, STARTED = "alert", "replace-started"
PAID = "paid/"  # what names begin with, among its metrics, of the sums of costs
REACTIONS = (RESET, REPLACED, DROPPED)  # that are counted


def at_arrival(program: Program) -> Program:
    """Of a program, its predictions, and each instance learned right after its own."""
    row = np.repeat(program.row[program.op == PREDICT], 2)
    op = np.tile(np.array([PREDICT, LEARN], np.int8), len(row) // 2)
    return Program(op, row, np.full(len(row), np.nan), np.ones(len(row)))


class ModelSlot:
    """The champion or a challenger.

    Parameters
    ----------
    name : str
        Under which its predictions stand beside instances, and its arrays in a state.
    spec : Spec
    schema : Schema
        That every model of this role is made with before it is resized: the arrays of a new model are then laid out
        like those of one that has run from the beginning.
    rows : InstanceRows
        What it learns from, with what was predicted for it.
    seed : int

    Attributes
    ----------
    model : Learner
        The one that predicts now.
    key : str
        Its name when it began, unless another had that: a promotion leaves it as it is.
    seed : int
        Of its model: part of it, as what a forest draws follows from it. A model that goes on keeps its own.
    columns : list of int, optional
        Which of the stream's features its models know, where there have come more since; None: all.
    memos : Memos
        What the model keeps beside instances.
    metrics : Prequential
        Scores of all predictions of the role, whichever of its models made them.
    action : str
        What is done when its errors rise.
    signal : Signal
        The errors of `model`, and the detectors that watch them: none where the stream file says `drift: none`.
    trial : BackgroundLearner, optional
        A fresh model beside `model`.
    frozen : bool
        Whether it predicts only: its errors are watched, and nothing is done about them.
    reactions : (3,) int64
        How often each of REACTIONS happened.
    """

    def __init__(self, name: str, spec: Spec, schema: Schema, rows: InstanceRows, seed: int) -> None:
        self.name = self.key = name
        self.learner_name, self._parameters = spec.models()[name]
        self.schema = self._first = schema
        self.columns: list[int] | None = None
        self._own = np.zeros((0, 0))  # rows of the slab as its models know them, each written before it is read
        self._rows = rows
        self.seed = seed
        self._task, self._at_arrival = spec.task, spec.task == ANOMALY
        try:
            self.model = self._made(schema)
        except ValueError as error:  # raised by what an import path names
            raise SpecError(f"{place_of(name)}: {error}") from None
        self._check_probabilities(spec)
        self._had: Mapping[str, Any] | None = None  # parameters by which its state was made, where it has one
        self.memos = Memos(memo_names(self.learner_name, spec.task, self._parameters), rows)
        self.metrics = self._scores(spec)
        self.action = spec.on_drift()[name]
        self.signal = self._new_signal(spec)
        self.reactions = np.zeros(len(REACTIONS), np.int64)
        self.trial: BackgroundLearner | None = None
        self.frozen = False
        self._detectors = spec.drift.detectors
        self._trial_window, self._trial_patience = spec.drift.window, spec.drift.patience
        self._asked: int | None = None  # the detector that asked for a trial which has not begun
        self._findings: list[Finding] = []  # of the program that is being run
        self._reasons: Reasons | None = None  # that are asked for meanwhile

    @property
    def labelled(self) -> Floats:
        """(capacity, n_outputs) float64: what was predicted for each row of what it learns from."""
        return self._rows.out[self.name]

    @property
    def slab(self) -> Floats | Bags:
        """The features of these rows."""
        return self._rows.slab

    @property
    def scored(self) -> Floats:
        """Predictions that labels are compared with: shifted, where that is asked for."""
        return self._rows.out.get(shifted_name(self.name), self.labelled)

    @property
    def labelled_named(self) -> Floats | None:
        """The class that each of these named, as `Serving.named` has it; None where nothing was ever decided."""
        return self._rows.out.get(decided_name(self.name))

    @property
    def kept(self) -> list[Floats]:
        """What the model keeps beside each instance for its label: `model.n_memos` arrays like `labelled`."""
        return [self._rows.out[name] for name in self.kept_names]

    @property
    def kept_names(self) -> list[str]:
        """Where these stand."""
        return self.memos.of(self.name)

    @property
    def watched(self) -> bool:
        """Whether anything watches the errors."""
        return bool(self.signal.detectors)

    def warm_up(self, stakes: Stakes) -> None:
        """Compile the kernels, or load them from the cache, before the first record."""
        with one_part():
            self.model.warm_up()
        self.score(EMPTY, stakes)
        if self.watched:
            self.signal.warm_up()

    def _check_probabilities(self, spec: Spec) -> None:
        """SpecError where the stream file goes by probabilities that a model of another library does not have."""
        asked = {"decision": spec.decision, "predictions.calibrated": spec.predictions.calibrated}
        needed = next((place for place, value in asked.items() if value), None)
        if needed is not None and getattr(self.model, "names_only", bool)():
            raise SpecError(
                f"{place_of(self.name)}: expected a model with probabilities, by which {needed} goes, found "
                f"{self._parameters['import_path']}, which only names a class; choose one with predict_proba "
                f"(predict_proba_one of River), or remove {needed}"
            )

    def _made(self, schema: Schema) -> Learner:
        return create(self.learner_name, self.known(schema), seed=self.seed, **self._parameters)

    def _fresh(self) -> Learner:
        """A new model with room for all values and classes known now, in the place of the one that there is."""
        model = self._made(self._first)
        if self.schema != self._first:
            model.resize(self.known(self.schema))
        model.inherit(self.model)
        return model

    def known(self, schema: Schema) -> Schema:
        """Of a schema, what the models of this role know."""
        if self.columns is None:
            return schema
        return schema._replace(n_values=tuple(schema.n_values[j] for j in self.columns))

    def columns_of(self, x: Floats) -> Floats:
        """Of (n, d) rows, the features that the models of this role know."""
        return x if self.columns is None else np.ascontiguousarray(x[:, self.columns])

    def _scores(self, spec: Spec) -> Prequential:
        """What scores the predictions, as this stream file says, and has seen none."""
        window, fading = spec.metrics.window, spec.metrics.fading
        return Prequential(spec.task, self.schema.n_outputs, window=window, fading=fading, alerts=spec.has_alerts)

    def _new_signal(self, spec: Spec) -> Signal:
        kind = ABSOLUTE if spec.task in VALUES else MISTAKES
        return Signal(spec.drift.detectors, kind, seed=self.seed)

    def widen(self, first: Schema, schema: Schema) -> None:
        """Features were appended, which the models of this role do not know: to them an instance is as it was."""
        if self.columns is None:
            self.columns = list(range(self.schema.n_features))
        self._first, self.schema = first, schema

    def resize(self, schema: Schema) -> None:
        """Make room for values and classes seen since."""
        self.schema = schema
        self.model.resize(self.known(schema))
        self.metrics.resize(schema.n_outputs)
        if self.trial is not None:
            self.trial.model.resize(self.known(schema))

    # -- a program ---------------------------------------------------------------------------------------------

    def run(self, program: Program, reasons: Reasons | None = None) -> list[Finding]:
        """Predict and learn, watch the errors, and answer a drift as the stream file says.

        program : the last one of what it learns from. reasons : takes why it predicted what, where that is asked for.
        Returns what was found, in order.
        """
        self._findings, self._reasons, at, n = [], reasons, 0, len(program.op)
        if self.frozen:
            predict = program.op == PREDICT
            only = Program(*(column[predict] for column in program))
            self.model.run_with(only, self._slab(only), self.labelled, self.kept)
            self._ask_why(program)
            if self.watched:
                self._note_all(self._watch(program, 0))
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

    def score(self, program: Program, stakes: Stakes) -> None:
        """Score each label of a program that was run by the prediction that was made for its instance."""
        self.metrics.score(program, self.scored, self.labelled_named, stakes.priced(self.slab))

    def price_anew(self) -> None:
        """Mistakes cost something else from here on: what was paid is another sum."""
        self.metrics.paid = Paid(self.metrics.window, self.metrics.fading)

    def _run_model(self, piece: Program, start: int = 0) -> None:
        """Operations of the program from `start` on. What learns from features alone does so right after each
        prediction; labels only score."""
        if self._at_arrival:
            piece = at_arrival(piece)
        else:
            self.memos.forget(self.name, piece, start)
        for part in self._parts(piece):
            self.model.run_with(part, self._slab(part), self.labelled, self.kept)
            self._ask_why(part)

    def _slab(self, program: Program) -> Floats | Bags:
        """What the models run a program over."""
        slab = self._rows.slab
        if self.columns is None or isinstance(slab, Bags):
            return slab
        if self._own.shape != (len(slab), len(self.columns)):
            self._own = np.zeros((len(slab), len(self.columns)))
        self._own[program.row] = slab[program.row[:, None], self.columns]
        return self._own

    def _parts(self, piece: Program) -> Iterable[Program]:
        """Where reasons are asked for, pieces that predict last, after each of which the model is asked."""
        return [piece] if self._reasons is None else pieces(piece)

    def _ask_why(self, part: Program) -> None:
        """After these operations of a program, about what was predicted in them."""
        if self._reasons is not None:
            self._reasons.ask(self.model, self._slab(part), part, self.labelled, self.columns)

    def _run_piece(self, program: Program, start: int, stop: int) -> None:
        """Operations start to stop, of which no one is the place of a reset, and none but the last of a trial."""
        piece = program if stop - start == len(program.op) else program.part(start, stop)
        if self.trial is None:
            self._run_model(piece, start)
        else:
            self.memos.forget(self.name, piece, start)
            for part in self._parts(piece):
                self.trial.run(self.model, part, self._slab(part), self.labelled, self.kept)
                self._ask_why(part)
        self._note_all(self._watch(piece, start))

    def _run_to_reset(self, program: Program, start: int) -> int:
        """Run the operations from `start` to the first reset, or to the end. Returns where to go on."""
        rest, detectors = program.part(start), self.signal.copy()
        if start and self._reasons is not None:
            self._reasons.begin_at(start)
        self._run_model(rest, start)
        found = self._watch(rest, start)
        end = next((place + 1 for place, one in found if one.rose and one.is_drift), None)
        if end is None:
            self._note_all(found)
            return len(program.op)
        if end < len(program.op):  # the detectors have seen labels that are not this model's any more
            self.signal.restore(detectors)
            found = self._watch(program.part(start, end), start)
        self._note_all(found)
        self._count(RESET)
        self._hand_over(self._fresh(), program, end)
        return end

    def _watch(self, piece: Program, start: int) -> list[tuple[int, Detection]]:
        """Show the detectors the errors of the piece that begins at `start`; what they find, each with its place."""
        places, values = errors(self.signal.kind, piece, self.labelled)
        if start:
            places += start
        if self.memos.since is not None:
            own = self._rows.arrivals()[places] >= self.memos.since
            places, values = places[own], values[own]
        return [(int(places[one.i]), one) for one in self.signal.update(values)]

    def _note_all(self, found: list[tuple[int, Detection]]) -> None:
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

    def _note(self, place: int, found: Detection, action: str | None) -> None:
        self._findings.append(Finding(place, self.name, ERROR, self.signal.stamp, found, action))

    def _count(self, reaction: str) -> None:
        self.reactions[REACTIONS.index(reaction)] += 1

    def _hand_over(self, model: Learner, program: Program, at: int) -> None:
        """`model` takes over at operation `at`: its errors are a series of their own."""
        self.model = model
        self.signal.forget()
        self.memos.since = self._rows.taken_over(program, at)

    # -- trials ------------------------------------------------------------------------------------------------

    def _places_of_trials(self, program: Program) -> list[int]:
        """The ends of the pieces after which a trial may begin or end."""
        learns = np.flatnonzero(program.op == LEARN)
        n_before = self._rows.counts["joined"] - len(learns)
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
        self._note(at - 1, Detection(0, detector, "", int(self.signal.totals[SEEN]), older, fresh), verdict)
        if verdict == REPLACED:
            self._hand_over(trial.model, program, at)

    def _on_trial(self, model: Learner, by: int) -> BackgroundLearner:
        return BackgroundLearner(model, self.signal.kind, self._trial_window, self._trial_patience, by)

    def _end_trial(self) -> None:
        self.trial = self._asked = None

    # -- commands, between two programs ------------------------------------------------------------------------

    def freeze(self) -> None:
        """Predict, and learn no more."""
        self.frozen = True
        self._end_trial()

    def reset(self) -> None:
        """A new model takes over, which knows all features; the scores go on, as at a drift."""
        self._end_trial()
        self.columns = None
        self.model = self._fresh()
        self.signal.forget()
        self.memos.since = self._rows.next_arrival
        for name in self.kept_names:
            self._rows.forget(name)

    def react(self, action: str) -> None:
        """Do this when errors rise, from here on."""
        if action != self.action:
            self.action = action
            self._end_trial()

    def settle(self, spec: Spec) -> None:
        """Go on as this stream file says of metrics and of drift."""
        window, fading = spec.metrics.window, spec.metrics.fading
        if (window, fading) != (self.metrics.window, self.metrics.fading):
            self.metrics.settle(window, fading)
        self._trial_window, self._trial_patience = spec.drift.window, spec.drift.patience
        if self.trial is not None:
            self.trial.bound(self._trial_window, self._trial_patience)
        if spec.drift.detectors == self._detectors:
            return
        # A state without detectors knows no `reactions`, and of the pending store no `since`, so they must not matter
        # from here on.
        self._end_trial()
        if self.memos.since is not None:
            for name in self.kept_names:
                self._rows.forget(name, self.memos.since)
            if not (self._detectors and spec.drift.detectors):
                self.memos.since = self._rows.lasting(self.memos.since)
        self.reactions[:] = 0
        self._detectors, self.signal = spec.drift.detectors, self._new_signal(spec)

    def adjusted(self, parameters: dict[str, Any]) -> tuple[Learner, Learner | None]:
        """The model, and the one on trial, with other parameters that their states go on with."""
        model, trial = self._adjusted(self.model, parameters), None
        if self.trial is not None:
            trial = self._adjusted(self.trial.model, parameters)
            trial.inherit(model)
        return model, trial

    def _adjusted(self, model: Learner, parameters: dict[str, Any]) -> Learner:
        made = create(self.learner_name, self.known(self.schema), seed=self.seed, **parameters)
        state = {name: array.copy() for name, array in model.state()._asdict().items()}
        restore(made, made.adapted(model.parameters(), state), self.name)
        return made

    def adjust(self, parameters: dict[str, Any], model: Learner, trial: Learner | None) -> list[str] | None:
        """Go on with these parameters, and the models that `adjusted` made with them. Returns which of its memos are
        new; None where they are those of before."""
        places = memo_places(self.learner_name, self._task, self._parameters, parameters)
        fresh = None
        if list(places.values()) != list(range(len(self.memos.names))):
            fresh = self.memos.exchange(places)
        self._parameters, self.model = parameters, model
        if self.trial is not None and trial is not None:
            self.trial.model = trial
        return fresh

    # -- state -------------------------------------------------------------------------------------------------

    @property
    def incomparable(self) -> set[str]:
        """Names of arrays in a state whose bytes may differ though equal folds made them."""
        places = (f"models/{self.name}", f"drift/trials/{self.name}/model")
        return {f"{place}/{field}" for place in places for field in self.model.incomparable}

    def state(self) -> dict[str, NDArray[Any]]:
        """Live arrays of what it has learned, by their names in a state, without what watches it."""
        model, metrics = self.model.state()._asdict(), self.metrics.state()._asdict()
        paid = self.metrics.paid.state()._asdict() if self.metrics.paid.has_begun else {}
        metrics |= over(PAID, paid)
        return over(f"models/{self.name}/", model) | over(f"metrics/{self.name}/", metrics)

    def begin_with(
        self, arrays: Mapping[str, NDArray[Any]], source: str, schema: Schema, parameters: Mapping[str, Any]
    ) -> None:
        """Take over the model of a state, where the role was called `source`, and the model had room for `schema`.
        parameters : that it had."""
        self._had = parameters
        self.model = self._restored(under(arrays, f"models/{source}/"), schema)

    def _restored(self, state: Mapping[str, NDArray[Any]], schema: Schema) -> Learner:
        model = self._made(schema)
        restore(model, state if self._had is None else model.adapted(self._had, state), self.name)
        model.resize(self.known(self.schema))
        return model

    def restore(
        self, arrays: Mapping[str, NDArray[Any]], source: str, schema: Schema, parameters: Mapping[str, Any]
    ) -> None:
        """Take over arrays of `state()`, as in `begin_with`."""
        self.begin_with(arrays, source, schema, parameters)
        metrics = under(arrays, f"metrics/{source}/")
        restore(self.metrics, metrics, f"the metrics of {self.name}")
        if paid := under(metrics, PAID):
            restore(self.metrics.paid, paid, f"the costs of {self.name}")
        self.metrics.resize(self.schema.n_outputs)

    def state_of_watching(self) -> dict[str, NDArray[Any]]:
        """Live arrays of what watches the errors, without the trial."""
        since = self.memos.since
        n_old = 0 if since is None else self._rows.n_before(since)
        if not n_old:
            self.memos.since = None
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
            self.memos.since = self._rows.arrival(n_old)
        if self.action != REPLACE:
            return
        self._asked = None if asked < 0 else asked
        if trial:
            self.trial = self._on_trial(self._restored(under(trial, "model/"), schema), 0)
            self.trial.model.inherit(self.model)
            self.trial.restore(trial)
