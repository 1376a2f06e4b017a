"""One model of a stream as it runs: what it predicts, how well, and what is done when its errors rise. Pure.

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

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.errors import SpecError
from app.partition.arrays import over, under
from app.partition.deciding import Deciding, Decision, decided_name
from app.partition.pending import EMPTY, PendingStore
from app.partition.reasons import Reasons, pieces
from app.partition.sharing import LearnedRows
from app.partition.trial import DROPPED, REPLACED, Trial
from app.partition.watch import ABSOLUTE, MISTAKES, SEEN, Finding, Found, Signal, errors
from app.stream_file.lineup import place_of
from app.stream_file.spec import Spec
from app.stream_file.spec_parts import NOTHING, PACE, REPLACE, RESET
from models.calibration import SAID_WIDTH, Calibration
from models.contract import LEARN, PREDICT, Bags, Floats, Learner, Program, Schema
from models.decision import DECIDED_WIDTH
from models.estimation import Estimation
from models.prequential import Prequential
from models.registry import adapted, create, kept, kept_on
from models.restoring import Arrays, restore
from topics.names import CHAMPION
from topics.records import ANOMALY, VALUES

ERROR = "error"  # the name of the signal of a model's errors
ALERT, STARTED = "alert", "replace-started"
REACTIONS = (RESET, REPLACED, DROPPED)  # that are counted
SAID = "/said"
TELLING = (  # learners that say what features add to a prediction
    *("hoeffding-tree", "extremely-fast-decision-tree", "hoeffding-adaptive-tree", "fimt-dd"),
    *("hoeffding-regression-tree", "adaptive-random-forest", "streaming-random-patches", "online-bagging"),
    *("leveraging-bagging", "smooth-boost", "online-boosting", "mondrian-forest", "stochastic-gradient-tree"),
    *("shrub-ensemble", "streaming-decision-tree", "streaming-decision-forest", "cart", "bagging", "random-forest"),
    *("adaboost", "gradient-boosting", "xgboost", "opinion-pool"),
)
NOT_SCALED = np.zeros((0, SAID_WIDTH))


def kept_names(role: str, kept: Iterable[object]) -> list[str]:
    """Of the arrays that a model keeps beside instances, in the pending store."""
    return [f"{role}/{one}" for one in kept]


def at_arrival(program: Program) -> Program:
    """Of a program, its predictions, and each instance learned right after its own."""
    row = np.repeat(program.row[program.op == PREDICT], 2)
    op = np.tile(np.array([PREDICT, LEARN], np.int8), len(row) // 2)
    return Program(op, row, np.full(len(row), np.nan), np.ones(len(row)))


def said_name(role: str) -> str:
    """Where the pending store keeps how the probabilities of a model were scaled."""
    return f"{role}{SAID}"


class Role:
    """The champion or a challenger.

    Parameters
    ----------
    name : str
        Under which its predictions stand in the pending store, and its arrays in a state.
    spec : Spec
    schema : Schema
        That every model of this role is made with before it is resized: the arrays of a new model are then laid out
        like those of one that has run from the beginning.
    pending : PendingStore
        Where its programs come from, and where its predictions wait beside their instances.
    seed : int
    learned : LearnedRows, optional
        What it learns from, where that is not what waits here: instances of all partitions.
    deciding : Deciding, optional
        What the stream file says of costs.

    Attributes
    ----------
    model : Learner
        The one that predicts now.
    key : str
        Its name when it began, unless another had that: a promotion leaves it as it is.
    seed : int
        Of its model: part of it, as what a forest draws follows from it. A model that goes on keeps its own.
    metrics : Prequential
        Scores of all predictions of the role, whichever of its models made them.
    estimation : Estimation, optional
        What they are expected to be before the labels come; none of a regression.
    calibration : Calibration, optional
        Of its probabilities, which it scales where the stream file says so; none of a regression.
    decision : Decision, optional
        Which class its predictions name, where that is not the likeliest.
    signal : Signal
        The errors of `model`, and the detectors that watch them: none where the stream file says `drift: none`.
    trial : Trial, optional
        A fresh model beside `model`.
    frozen : bool
        Whether it predicts only: its errors are watched, and nothing is done about them.
    reactions : (3,) int64
        How often each of REACTIONS happened.
    columns : list of int, optional
        Which of the stream's features its models know, where there have come more since; None: all.
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
        self.name = self.key = name
        self.learner_name, self._parameters = spec.models()[name]
        self.action = spec.on_drift()[name]
        self.schema = self._first = schema
        self.columns: list[int] | None = None
        self._own = np.zeros((0, 0))  # rows of the slab as its models know them, each written before it is read
        self._pending = pending
        self._learned = pending if learned is None else learned
        self.seed = seed
        self._task, self._at_arrival = spec.task, spec.task == ANOMALY
        try:
            self.model = self._made(schema)
        except ValueError as error:  # raised by what an import path names
            raise SpecError(f"{place_of(name)}: {error}") from None
        self._had: Mapping[str, Any] | None = None  # parameters by which its state was made, where it has one
        self._kept = kept(self.learner_name, spec.task, self._parameters)
        # Of these, where partitions share what is learned: the first arrival that those predicted which came while it
        # ran. The log may have what others of their name said before.
        self.begun: dict[str, int] = {}
        pending.keep(self.kept_names, schema.n_outputs)
        if learned is not None:
            learned.keep([name, *self.kept_names], schema.n_outputs)
            if spec.task not in VALUES:  # whatever this stream file says: what was said is what counts, on each replica
                learned.keep([decided_name(name)], DECIDED_WIDTH)
        window, fading = spec.metrics.window, spec.metrics.fading
        self.metrics = Prequential(spec.task, schema.n_outputs, window=window, fading=fading)
        self.estimation = None if spec.task in VALUES else Estimation()
        self.calibration: Calibration | None = None
        if spec.task not in VALUES:
            scales = spec.predictions.calibrated
            self.calibration = Calibration(schema.n_outputs, scales=scales, window=window, fading=fading)
            if scales:
                pending.keep([said_name(name)], SAID_WIDTH)
        self.decision: Decision | None = None
        if deciding is not None and deciding.asked is not None:
            self.decision = Decision(deciding)
            pending.keep([decided_name(name)], DECIDED_WIDTH)
        self.signal = self._new_signal(spec)
        self.reactions = np.zeros(len(REACTIONS), np.int64)
        self.trial: Trial | None = None
        self.frozen = False
        self._detectors = spec.drift.detectors
        self._trial_window, self._trial_patience = spec.drift.window, spec.drift.patience
        self._asked: int | None = None  # the detector that asked for a trial which has not begun
        # Arrival number of the first instance that `model` predicted; None: it predicted all that wait.
        self._since: int | None = None
        self._findings: list[Finding] = []  # of the program that is being run
        self._leads: Role | None = None  # whose models these are, where another one learns for it
        self._n_reasons = spec.predictions.reasons or 0
        self.reasons: Reasons | None = None  # of that program, where they are asked for
        if self._n_reasons and name == CHAMPION and not self.model.tells_why and not spec.is_steered:
            raise SpecError(
                f"predictions.reasons: expected a champion that keeps what its nodes have, found {self.learner_name} "
                f"{'with vote: majority' if self._parameters.get('vote') == 'majority' else ''}".rstrip()
                + f", which cannot say them; remove it, or use one of {', '.join(sorted(TELLING))}"
            )

    @property
    def predictions(self) -> Floats:
        """(capacity, n_outputs) float64: what was predicted for each row of the pending store."""
        return self._pending.out[self.name]

    @property
    def labelled(self) -> Floats:
        """The same for each row of what it learns from: the pending store, too, unless partitions share it."""
        return self._learned.out[self.name]

    @property
    def kept(self) -> list[Floats]:
        """What the model keeps beside each instance for its label: `model.n_kept` arrays like `labelled`."""
        return [self._learned.out[name] for name in self.kept_names]

    @property
    def kept_names(self) -> list[str]:
        """Where these stand."""
        return kept_names(self.name, self._kept)

    @property
    def watched(self) -> bool:
        """Whether anything watches the errors."""
        return bool(self.signal.detectors)

    def warm_up(self) -> None:
        """Compile the kernels, or load them from the cache, before the first record."""
        self.model.warm_up()
        if self._n_reasons and self.model.tells_why:
            one, about = np.zeros(1, np.int32), np.full(1, -1 if self._task in VALUES else 0, np.int64)
            self.model.contributions(np.zeros((1, self._known(self.schema).n_features)), one, about)
        self.score(EMPTY)
        self.estimate(EMPTY)
        self.calibrate(EMPTY)
        self.decide(EMPTY)
        self.overall()
        self.recent()
        if self.watched:
            self.signal.warm_up()

    def _made(self, schema: Schema) -> Learner:
        return create(self.learner_name, self._known(schema), seed=self.seed, **self._parameters)

    def _new_signal(self, spec: Spec) -> Signal:
        kind = ABSOLUTE if spec.task in VALUES else MISTAKES
        return Signal(spec.drift.detectors, kind, seed=self.seed)

    def _fresh(self) -> Learner:
        """A new model with room for all values and classes known now, in the place of the one that there is."""
        model = self._made(self._first)
        if self.schema != self._first:
            model.resize(self._known(self.schema))
        model.inherit(self.model)
        return model

    def _known(self, schema: Schema) -> Schema:
        """Of a schema, what the models of this role know."""
        if self.columns is None:
            return schema
        return schema._replace(n_values=tuple(schema.n_values[j] for j in self.columns))

    def widen(self, first: Schema, schema: Schema) -> None:
        """Features were appended, which the models of this role do not know: to them an instance is as it was."""
        if self.columns is None:
            self.columns = list(range(self.schema.n_features))
        self._first, self.schema = first, schema

    def _slab(self, program: Program) -> Floats | Bags:
        """What the models run a program over."""
        slab = self._learned.slab
        if self.columns is None or isinstance(slab, Bags):
            return slab
        if self._own.shape != (len(slab), len(self.columns)):
            self._own = np.zeros((len(slab), len(self.columns)))
        self._own[program.row] = slab[program.row[:, None], self.columns]
        return self._own

    def resize(self, schema: Schema) -> None:
        """Make room for values and classes seen since."""
        self.schema = schema
        if self.calibration is not None:
            self.calibration.resize(schema.n_outputs)
        if self._leads is not None:
            return
        self.model.resize(self._known(schema))
        self.metrics.resize(schema.n_outputs)
        if self.trial is not None:
            self.trial.model.resize(self._known(schema))

    # -- a program ---------------------------------------------------------------------------------------------

    def run(self, program: Program) -> list[Finding]:
        """Predict and learn, watch the errors, and answer a drift as the stream file says.

        program : the one that the pending store has just made. Returns what was found, in order.
        """
        self._findings, at, n = [], 0, len(program.op)
        self.reasons = Reasons(program, self._n_reasons, self._task) if self._n_reasons else None
        if self.frozen:
            predict = program.op == PREDICT
            self._run_as_it_is(Program(*(column[predict] for column in program)))
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

    def calibrate(self, program: Program) -> None:
        """Scale the predictions of a program that was run, if asked for, and see how well calibrated they were. Which
        class is the likeliest does not change, nor what is known."""
        if self.calibration is not None:
            said = self._pending.out[said_name(self.name)] if self.calibration.scales else NOT_SCALED
            self.calibration.run(program, self.predictions, said)

    def decide(self, program: Program) -> None:
        """Say which class each prediction of a program names, once its probabilities are as they stay."""
        if self.decision is not None:
            self.decision.run(program, self.predictions, self.named)

    @property
    def named(self) -> Floats:
        """(capacity, 2) float64: the code of the class named for each row of the pending store, of a model that
        decides; NaN where nothing was known."""
        return self._pending.out[decided_name(self.name)]

    @property
    def labelled_named(self) -> Floats | None:
        """The same for each row of what it learns from; None where nothing was ever decided."""
        return self._learned.out.get(decided_name(self.name))

    def overall(self) -> dict[str, float]:
        """All scores over the whole stream."""
        return self.metrics.metrics() | self.besides(False)

    def recent(self) -> dict[str, float]:
        """The same over the window, or fading."""
        return self.metrics.windowed() | self.besides(True)

    def besides(self, recent: bool) -> dict[str, float]:
        """Of these, what the predictions alone do not tell: calibration, and what decisions cost."""
        found: dict[str, float] = {}
        if self.calibration is not None:
            found |= self.calibration.windowed() if recent else self.calibration.metrics()
        if self.decision is not None:
            found |= self.decision.metrics(self.metrics.counts(recent), recent)
        return found

    def score(self, program: Program) -> None:
        """Score each label of a program that was run by the prediction that was made for its instance."""
        self.metrics.score(program, self.labelled, self.labelled_named)

    def estimate(self, program: Program) -> None:
        """Take the predictions and labels of a program for the accuracy that is expected."""
        if self.estimation is not None:
            self.estimation.follow(program, self.predictions)

    def predict(self, x: Floats, rows: NDArray[np.int32]) -> None:
        """Predict instances that wait in these rows of the pending store, and learn nothing. x : (n, d), they as the
        model knows them."""
        if not len(rows):  # the model may be learning, for another partition
            self.reasons = None
            return
        n, names = len(rows), [self.name, *self.kept_names]
        out, *kept = (np.zeros((n, self._pending.out[name].shape[1])) for name in names)
        program = Program(np.zeros(n, np.int8), np.arange(n, dtype=np.int32), np.full(n, np.nan), np.ones(n))
        self.model.run_with(program, x, out, kept)
        self.reasons = None
        if self._n_reasons and self.name == CHAMPION:  # now: what it learns may come before the next prediction
            self.reasons = Reasons(program, self._n_reasons, self._task)
            self.reasons.ask(self.model, x, program.row, out)
        for name, found in zip(names, (out, *kept), strict=True):
            self._pending.out[name][rows] = found

    def _run_model(self, piece: Program, start: int = 0) -> None:
        """Operations of the program from `start` on. What learns from features alone does so right after each
        prediction; labels only score."""
        if self._at_arrival:
            self._run_as_it_is(at_arrival(piece))
        else:
            self._forget(piece, start)
            self._run_as_it_is(piece)

    def _run_as_it_is(self, piece: Program) -> None:
        for part in self._parts(piece):
            self.model.run_with(part, self._slab(part), self.labelled, self.kept)
            self._ask_why(part)

    def _parts(self, piece: Program) -> Iterable[Program]:
        """Where reasons are asked for, pieces that predict only, after each of which the model is asked."""
        return [piece] if self.reasons is None else pieces(piece)

    def _ask_why(self, part: Program) -> None:
        if self.reasons is not None and part.op[0] == PREDICT:
            self.reasons.ask(self.model, self._slab(part), part.row, self.labelled, self.columns)

    def _forget(self, piece: Program, start: int) -> None:
        """Where a label comes to what another model predicted, or a member of before, what was kept then says nothing
        to this one."""
        if not self._kept or (self._since is None and not self.begun):
            return
        arrivals, learns = self._learned.arrivals()[start : start + len(piece.op)], piece.op == LEARN
        for name, one in zip(self._kept, self.kept, strict=True):
            since = max(self._since or 0, self.begun.get(name, 0))
            one[piece.row[learns & (arrivals < since)]] = np.nan

    def estimated(self) -> dict[str, float]:
        """`accuracy` of the last predictions before their labels come, the `error` of such an estimate, and what is
        `observed` by the last labels of this partition; without what is not known."""
        if self.estimation is None:
            return {}
        found = {
            "accuracy": self.estimation.accuracy(),
            "error": self.estimation.error(),
            "observed": self.estimation.observed(),
        }
        return {field: value for field, value in found.items() if value is not None}

    def _run_piece(self, program: Program, start: int, stop: int) -> None:
        """Operations start to stop, of which no one is the place of a reset, and none but the last of a trial."""
        piece = program.part(start, stop)
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
        places = places + start
        if self._since is not None:
            own = self._learned.arrivals()[places] >= self._since
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
        self._since = self._learned.taken_over(program, at)

    @property
    def since(self) -> int | None:
        """Number of the first instance that the model predicted, where it took over from another one, among those that
        partitions learn together."""
        return self._since

    @since.setter
    def since(self, number: int | None) -> None:
        self._since = number

    # -- commands, between two programs ------------------------------------------------------------------------

    def freeze(self) -> None:
        """Predict, and learn no more."""
        self.frozen = True
        self._end_trial()

    def reset(self) -> None:
        """A new model takes over, which knows all features; the scores go on, as at a drift."""
        if self._leads is not None:  # there it was done
            return
        self._end_trial()
        self.columns = None
        self.model = self._fresh()
        self.signal.forget()
        self._since = self._learned.next_arrival
        for name in self.kept_names:
            self._learned.forget(name)

    def react(self, action: str) -> None:
        """Do this when errors rise, from here on."""
        if action != self.action:
            self.action = action
            self._end_trial()

    def settle(self, spec: Spec) -> None:
        """Go on as this stream file says of metrics and of drift."""
        self._n_reasons = spec.predictions.reasons or 0
        window, fading = spec.metrics.window, spec.metrics.fading
        if (window, fading) != (self.metrics.window, self.metrics.fading):
            known = self.metrics.state()._asdict()
            self.metrics = Prequential(spec.task, self.schema.n_outputs, window=window, fading=fading)
            self.metrics.restore(known)
            if self.calibration is not None:
                self.calibration.settle(window, fading)
        self._trial_window, self._trial_patience = spec.drift.window, spec.drift.patience
        if self._leads is not None:  # there the rest was done
            return
        if self.trial is not None:
            self.trial.bound(self._trial_window, self._trial_patience)
        if spec.drift.detectors == self._detectors:
            return
        # A state without detectors knows no `reactions`, nor `_since` unless partitions share what is learned, so they
        # must not matter from here on.
        self._end_trial()
        if self._learned is self._pending:
            if self._since is not None:
                for name in self.kept_names:
                    self._learned.forget(name, self._since)
            if not (self._detectors and spec.drift.detectors):
                self._since = None
        self.reactions[:] = 0
        self._detectors, self.signal = spec.drift.detectors, self._new_signal(spec)

    def adjusted(self, parameters: dict[str, Any]) -> tuple[Learner, Learner | None]:
        """The model, and the one on trial, with other parameters that their states go on with."""

        def other(model: Learner) -> Learner:
            made = create(self.learner_name, self._known(self.schema), seed=self.seed, **parameters)
            if self._leads is not None:  # it is there with what it knows, and comes from there
                return made
            state = {name: array.copy() for name, array in model.state()._asdict().items()}
            restore(made, adapted(made, model.parameters(), state), self.name)
            return made

        model, trial = other(self.model), None
        if self._leads is None and self.trial is not None:
            trial = other(self.trial.model)
            trial.inherit(model)
        return model, trial

    def adjust(self, parameters: dict[str, Any], model: Learner, trial: Learner | None) -> None:
        """Go on with these parameters, and the models that `adjusted` made with them."""
        places = kept_on(self.learner_name, self._task, self._parameters, parameters)
        if list(places.values()) != list(range(len(self._kept))):
            self._exchange(places)
        self._parameters, self.model = parameters, model
        if self.trial is not None and trial is not None:
            self.trial.model = trial

    def _exchange(self, places: Mapping[str, int | None]) -> None:
        """The model keeps these from here on. places : None where something new is kept."""
        gone = kept_names(self.name, [one for one in self._kept if places.get(one) is None])
        fresh = [one for one, at in places.items() if at is None]
        self._pending.discard(gone)
        self._pending.add(kept_names(self.name, fresh), self.schema.n_outputs)
        if isinstance(self._learned, LearnedRows):
            self._learned.discard(gone)
            self._learned.keep(kept_names(self.name, fresh), self.schema.n_outputs)
        self._kept = list(places)
        self.begin(fresh)

    def begin(self, fresh: Iterable[str]) -> None:
        """Of what the model keeps, these come with the next instance: whatever is older is another member's."""
        if isinstance(self._learned, LearnedRows):
            stay = {one: number for one, number in self.begun.items() if one in self._kept}
            self.begun = stay | dict.fromkeys(fresh, self._learned.next_arrival)

    def _end_trial(self) -> None:
        self.trial = self._asked = None

    def follow(self, leads: "Role") -> None:
        """Whatever depends on what is learned from the log of all partitions is that of a role which learns it. What
        this partition knows of its own predictions stays."""
        self._leads = leads
        self.model, self.metrics, self.signal, self.trial = leads.model, leads.metrics, leads.signal, leads.trial
        self._asked, self._since, self.begun = leads._asked, leads._since, leads.begun
        self.frozen, self.reactions, self.action = leads.frozen, leads.reactions, leads.action

    def give_up(self, leads: "Role | None") -> None:
        """Let go of the models, before anything else than to `follow` a role that will stand where this one does. leads
        : it, where it is there already; its model is looked at meanwhile."""
        self.model, self.trial = self._made(self._first) if leads is None else leads.model, None

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

    # -- state -------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        """Live arrays of model, metrics and estimate, by their names in a state."""
        arrays = self.learned_state()
        if self.estimation is not None and self.estimation.has_begun:
            arrays |= over(f"estimated/{self.name}/", self.estimation.state()._asdict())
        if self.calibration is not None and self.calibration.has_begun:
            arrays |= over(f"calibration/{self.name}/", self.calibration.state()._asdict())
        if self.decision is not None:
            arrays |= over(f"decision/{self.name}/", self.decision.state())
        return arrays

    def learned_state(self) -> dict[str, NDArray[Any]]:
        """Those that depend on what it learned alone."""
        model, metrics = self.model.state()._asdict(), self.metrics.state()._asdict()
        return over(f"models/{self.name}/", model) | over(f"metrics/{self.name}/", metrics)

    def state_of_watching(self) -> dict[str, NDArray[Any]]:
        """Live arrays of what watches the errors, without the trial."""
        n_old = 0 if self._since is None else self._learned.n_before(self._since)
        if not n_old:
            self._since = None
        more = np.array([-1 if self._asked is None else self._asked, n_old], np.int64)
        return self.signal.state() | {"reactions": self.reactions, "more": more}

    @property
    def incomparable(self) -> set[str]:
        """Names of arrays in a state whose bytes may differ though equal folds made them."""
        places = (f"models/{self.name}", f"drift/trials/{self.name}/model")
        return {f"{place}/{field}" for place in places for field in self.model.incomparable}

    def restore(
        self,
        arrays: Mapping[str, NDArray[Any]],
        source: str,
        schema: Schema,
        parameters: Mapping[str, Any],
        decides: bool = True,
    ) -> None:
        """Take over arrays of `state()`, where the role was called `source`, and its model had room for `schema`.
        parameters : that it had. decides : whether its threshold is about the same as it was."""
        self._had = parameters
        self.model = self._restored(under(arrays, f"models/{source}/"), schema)
        restore(self.metrics, under(arrays, f"metrics/{source}/"), f"the metrics of {self.name}")
        self.metrics.resize(self.schema.n_outputs)
        estimated = under(arrays, f"estimated/{source}/")
        if self.estimation is not None and estimated:  # states of before have none
            restore(self.estimation, estimated, f"the estimate of {self.name}")
        calibrated = under(arrays, f"calibration/{source}/")
        if self.calibration is not None and calibrated:  # likewise
            restore(self.calibration, calibrated, f"the calibration of {self.name}")
            self.calibration.resize(self.schema.n_outputs)
        if self.decision is not None and decides:
            self.decision.restore(under(arrays, f"decision/{source}/"), self.name)

    def begin_with(
        self, arrays: Mapping[str, NDArray[Any]], source: str, schema: Schema, parameters: Mapping[str, Any]
    ) -> None:
        """Take over the model alone, as in `restore`."""
        self._had = parameters
        self.model = self._restored(under(arrays, f"models/{source}/"), schema)

    def restore_watching(
        self, arrays: Mapping[str, NDArray[Any]], trial: Mapping[str, NDArray[Any]], schema: Schema
    ) -> None:
        """Take over arrays of `state_of_watching()`, after the pending store has been restored.

        trial : its arrays, none where none was going on. schema : that its model had room for. ValueError where the
        arrays are none that this program writes.
        """
        self.signal.restore_from_outside(arrays, self.name)
        a, last = Arrays(f"the detectors of {self.name}", arrays), len(self.signal.detectors) - 1
        a.counts("reactions", a.take("reactions", self.reactions))
        self.reactions = arrays["reactions"].copy()
        asked, n_old = a.take("more", np.zeros(2, np.int64)).tolist()
        a.within("more", asked, -1, last, "detectors")
        a.counts("more", n_old)
        if n_old:
            self._since = self._learned.arrival(n_old)
        if self.action != REPLACE:
            return
        self._asked = None if asked < 0 else asked
        if trial:
            self.trial = self._on_trial(self._restored(under(trial, "model/"), schema), 0)
            self.trial.model.inherit(self.model)
            self.trial.restore(trial)
            a.within("more", self.trial.by, 0, last, "detectors")

    def _restored(self, state: Mapping[str, NDArray[Any]], schema: Schema) -> Learner:
        model = self._made(schema)
        restore(model, state if self._had is None else adapted(model, self._had, state), self.name)
        model.resize(self._known(self.schema))
        return model
