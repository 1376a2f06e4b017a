"""What a partition makes of a model's predictions: scaled, decided, explained, and how right they are expected to be
before labels come. Pure.

All of this learns from the partition's own predictions and labels, whichever model of a role made them: it goes on
where another one takes over.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.arrays import EMPTY, kept_names, over, shifted_name, under
from riparian.app.partition.join.pending import PendingStore
from riparian.app.partition.lineup.model_slot import ModelSlot
from riparian.app.partition.predictions.decision_policy import Decision, DecisionPolicy, decided_name
from riparian.app.partition.predictions.reasons import Ahead, Reasons
from riparian.app.stream_file.sections.outputs import ALERTS, MATURED
from riparian.app.stream_file.sections.promotion import AUTOMATIC
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import Bags, Floats, Program
from riparian.models.evaluation.auroc import areas
from riparian.models.evaluation.estimation import Estimation
from riparian.models.evaluation.prequential import Prequential
from riparian.models.predictions.calibration import POWERS_WIDTH, Calibration
from riparian.models.predictions.decision import DECIDED_WIDTH, Threshold
from riparian.models.predictions.prior_shift import PriorShift
from riparian.models.restoring import restore
from riparian.topics.names import CHAMPION
from riparian.topics.records import MULTI_INSTANCE, REGRESSION, VALUES

SCALING = "/said"
NOT_SCALED = np.zeros((0, POWERS_WIDTH))


def scaling_name(role: str) -> str:
    """Where the pending store keeps how the probabilities of a model were scaled."""
    return f"{role}{SCALING}"


def asked_at_once(x: Floats) -> Program:
    """The program that predicts each of these rows, and learns nothing."""
    n = len(x)
    return Program(np.zeros(n, np.int8), np.arange(n, dtype=np.int32), np.full(n, np.nan), np.ones(n))


class Serving:
    """Of one model.

    Parameters
    ----------
    name : str
        Of the role.
    spec : Spec
    n_outputs : int
    pending : PendingStore
        Where its predictions wait beside their instances.
    deciding : DecisionPolicy
        What the stream file says of costs.

    Attributes
    ----------
    key : str
        Of the model in the log that partitions share.
    memos : list of str
        Of what the model keeps beside instances.
    estimation : Estimation, optional
        What its scores are expected to be before the labels come; none of a regression.
    calibration : Calibration, optional
        Of its probabilities, which it scales where the stream file says so; none of a regression.
    shift : PriorShift, optional
        Of its probabilities, where the stream file asks for it: what its model predicted stays as it is.
    decision : Decision, optional
        Which class its predictions name, where that is not the likeliest, or which of its scores are alerts.
    reasons : Reasons, optional
        Of the last program, where they are asked for.
    """

    def __init__(self, name: str, spec: Spec, n_outputs: int, pending: PendingStore, deciding: DecisionPolicy) -> None:
        self.name = self.key = name
        self.memos: list[str] = []
        self._pending = pending
        self._span = window, fading = spec.metrics.window, spec.metrics.fading
        self.estimation = None if spec.task in VALUES else Estimation()
        self.calibration: Calibration | None = None
        self.shift: PriorShift | None = None
        if spec.predictions.calibrated == MATURED:
            self.shift = PriorShift(n_outputs)
            pending.add([shifted_name(name)], n_outputs)
        if spec.task not in VALUES:
            scales = spec.predictions.calibrated is True
            self.calibration = Calibration(n_outputs, scales=scales, window=window, fading=fading)
            if scales:
                pending.add([scaling_name(name)], POWERS_WIDTH)
        self.decision: Decision | None = None
        if deciding.asked is not None:
            self.decision = Decision(deciding)
            pending.add([decided_name(name)], DECIDED_WIDTH)
        self.reasons: Reasons | None = None
        self._asked_why = spec.predictions.reasons
        self._may_lead = spec.promotion is not None and spec.promotion.mode == AUTOMATIC
        self._task = spec.task

    @property
    def predictions(self) -> Floats:
        """(capacity, n_outputs) float64: what was predicted for each row of the pending store, shifted where it is."""
        return self._pending.out[self.name if self.shift is None else shifted_name(self.name)]

    @property
    def kept_names(self) -> list[str]:
        """The arrays that hold what the model keeps beside instances."""
        return kept_names(self.name, self.memos)

    @property
    def named(self) -> Floats:
        """(capacity, 2) float64: the code of the class named for each row of the pending store, of a model that
        decides, or 1 of an alert, else 0; NaN where nothing was known, or of scores decided."""
        return self._pending.out[decided_name(self.name)]

    def warm_up(self, role: ModelSlot) -> None:
        """Compile the kernels, or load them from the cache, before the first record."""
        if self._asked_why is not None:
            zero = np.zeros((1, role.known(role.schema).n_features))
            slab = Bags.of([1], zero) if self._task == MULTI_INSTANCE else zero
            one = asked_at_once(zero)
            Reasons(one, np.zeros(1, np.uint64), 1).ask(role.model, slab, one, np.zeros((1, role.schema.n_outputs)))
        self.estimate(EMPTY)
        self.calibrate(EMPTY)
        self.decide(EMPTY)
        self.overall(role.metrics)
        self.recent(role.metrics)
        if self._task != REGRESSION:  # without labels nothing is ranked
            areas(np.arange(2), np.eye(2), np.ones(2))

    def resize(self, n_outputs: int) -> None:
        """Make room for classes seen since."""
        for one in (self.calibration, self.shift):
            if one is not None:
                one.resize(n_outputs)

    def settle(self, spec: Spec) -> None:
        """Go on as this stream file says of metrics and of reasons."""
        self._asked_why, before = spec.predictions.reasons, self._span
        self._span = spec.metrics.window, spec.metrics.fading
        if self._span != before and self.calibration is not None:
            self.calibration.settle(*self._span)

    # -- predictions -------------------------------------------------------------------------------------------

    def predict(self, role: ModelSlot, x: Floats, rows: NDArray[np.int32]) -> None:
        """Predict instances that wait in these rows of the pending store, and learn nothing. x : (n, d), with the codes
        of the models."""
        self.keep(rows, self.ask(role, x))

    def ask(self, role: ModelSlot, x: Floats) -> list[Floats]:
        """What the model predicts of instances, and what it keeps beside each: arrays of (n, n_outputs)."""
        found = [np.zeros((len(x), self._pending.out[name].shape[1])) for name in (self.name, *self.kept_names)]
        role.model.run_with(asked_at_once(x), role.columns_of(x), found[0], found[1:])
        return found

    def keep(self, rows: NDArray[np.int32], found: Sequence[Floats]) -> None:
        """What `ask` has found of instances that wait in these rows."""
        for name, columns in zip((self.name, *self.kept_names), found, strict=True):
            self._pending.out[name][rows] = columns

    def calibrate(self, program: Program, instead: Floats | None = None) -> None:
        """Scale or shift the predictions of a program that was run, if asked for, and see how well calibrated they
        were. What is known does not change. instead : for each operation the label that it corrects; NaN: none."""
        if self.shift is not None:
            self.shift.run(program, self._pending.out[self.name], self.predictions, instead)
        if self.calibration is not None:
            said = self._pending.out[scaling_name(self.name)] if self.calibration.scales else NOT_SCALED
            self.calibration.run(program, self.predictions, said)

    def decide(self, program: Program) -> None:
        """Say which class each prediction of a program names, once its probabilities are as they stay, or whether its
        score is an alert."""
        if self.decision is not None:
            self.decision.run(program, self.predictions, self.named, self._pending.slab)

    def estimate(self, program: Program) -> None:
        """Take the predictions and labels of a program for the accuracy that is expected."""
        if self.estimation is not None:
            self.estimation.follow(program, self.predictions)

    # -- reasons -----------------------------------------------------------------------------------------------

    def begin_reasons(
        self, program: Program, keys: NDArray[np.uint64] | None, instead: Floats | None = None
    ) -> Reasons | None:
        """Of a program that will run, of each model that may be the champion at one of its predictions.

        keys : as `app.partition.predictions.reasons.keys_of` gives them; None where reasons are not asked for.
        instead : as `calibrate` takes it; None where what the predictions name is known already.
        """
        self.reasons, asked = None, self._asked_why
        if asked is not None and keys is not None and (self.name == CHAMPION or self._may_lead):
            names = self.decision is not None or self.shift is not None
            alert = self.decision.alert if asked.of == ALERTS and self.decision is not None else None
            ahead_of = None
            if names and instead is not None:
                ahead_of = partial(self._ahead_of, program, instead)
            self.reasons = Reasons(program, keys, asked.top, alert, ahead_of)
        return self.reasons

    def _ahead_of(self, program: Program, instead: Floats, start: int) -> Ahead:
        """What decides, at operation `start` of a program that has run so far."""
        scales, out = self.calibration is not None and self.calibration.scales, self._pending.out[self.name]
        beside = self._pending.out[scaling_name(self.name)] if scales else NOT_SCALED
        beside = beside if self.shift is None else self.predictions
        calibration, named = self.calibration if scales else None, out if self.decision is None else self.named
        x = self._pending.slab
        made = Ahead(program, self.decision, calibration, self.shift, out, named, beside, instead, x)
        made.follow(program.part(0, start), out)
        return made

    def explain(self, role: ModelSlot, x: Floats, rows: NDArray[np.int32], keys: NDArray[np.uint64] | None) -> None:
        """Of predictions of instances that wait in these rows, which have been decided: the model has learned nothing
        since. x : as in `predict`."""
        if keys is None:
            return
        program = asked_at_once(x)
        if (reasons := self.begin_reasons(program, keys)) is not None and len(rows):
            named = None if self.decision is None else self.named[rows, 0]
            reasons.ask(role.model, role.columns_of(x), program, self.predictions[rows], role.columns, named)

    # -- what is told ------------------------------------------------------------------------------------------

    def overall(self, metrics: Prequential) -> dict[str, float]:
        """All scores over the whole stream. metrics : of its model."""
        return metrics.metrics() | self.besides(metrics, False)

    def recent(self, metrics: Prequential) -> dict[str, float]:
        """Measures over the window, or fading."""
        return metrics.windowed() | self.besides(metrics, True)

    def besides(self, metrics: Prequential, recent: bool) -> dict[str, float]:
        """Of these, what the predictions alone do not tell: calibration, and what was decided."""
        found: dict[str, float] = {}
        if self.calibration is not None:
            found |= self.calibration.windowed() if recent else self.calibration.metrics()
        if self.decision is not None:
            found |= self.decision.metrics(metrics, recent)
        return found

    def estimated(self) -> dict[str, float]:
        """`accuracy` of the last predictions before their labels come, the `error` of confidence that is
        subtracted, and what is `observed` by the last labels of this partition; without what is not known."""
        if self.estimation is None:
            return {}
        found = {
            "accuracy": self.estimation.accuracy(),
            "error": self.estimation.error(),
            "observed": self.estimation.observed(),
        }
        return {field: value for field, value in found.items() if value is not None}

    # -- state -------------------------------------------------------------------------------------------------

    def _parts(self) -> Iterator[tuple[str, Any, str]]:
        """What has arrays: where they stand in a state, whose they are, and what a sentence calls it."""
        threshold = None if self.decision is None else self.decision.threshold
        for place, part, called in (
            ("estimated", self.estimation, "the estimate"),
            ("calibration", self.calibration, "the calibration"),
            ("shift", self.shift, "the shift"),
            ("decision", threshold, "the threshold"),
        ):
            if part is not None:
                yield place, part, called

    def state(self) -> dict[str, NDArray[Any]]:
        """Live arrays, by their names in a state."""
        arrays: dict[str, NDArray[Any]] = {}
        for place, part, _ in self._parts():
            if part.has_begun:
                arrays |= over(f"{place}/{self.name}/", part.state()._asdict())
        return arrays

    def restore(self, arrays: Mapping[str, NDArray[Any]], source: str, n_outputs: int, decides: bool) -> None:
        """Take over arrays of `state()`, where the role was called `source`. decides : whether its threshold is about
        the same as it was."""
        for place, part, called in self._parts():
            mine = under(arrays, f"{place}/{source}/")  # states of before do not have all
            if mine and (decides or not isinstance(part, Threshold)):
                restore(part, mine, f"{called} of {self.name}")
                if isinstance(part, Calibration | PriorShift):
                    part.resize(n_outputs)


class Servings(dict[str, Serving]):
    """Of all models of a partition, by role; each with its place in the pending store.

    Parameters
    ----------
    spec : Spec
    pending : PendingStore
    deciding : DecisionPolicy
    settled : callable
        Called with a stream file that holds from here on.
    """

    def __init__(
        self, spec: Spec, pending: PendingStore, deciding: DecisionPolicy, settled: Callable[[Spec], None]
    ) -> None:
        super().__init__()
        self._spec, self._pending, self._deciding, self._settled = spec, pending, deciding, settled

    def settle(self, spec: Spec) -> None:
        """Go on as this stream file says."""
        self._spec = spec
        self._settled(spec)
        for serving in self.values():
            serving.settle(spec)

    def add(self, name: str, key: str, memos: Sequence[str], width: int) -> None:
        """A model begins, which has predicted nothing that waits. memos : of what it keeps beside instances."""
        self[name] = Serving(name, self._spec, width, self._pending, self._deciding)
        self[name].key, self[name].memos = key, list(memos)
        self._pending.add([name, *self[name].kept_names], width)

    def rename(self, names: Mapping[str, str]) -> None:
        """Models get other names. names : of before -> from here on."""
        there = {names.get(name, name): serving for name, serving in self.items()}
        self.clear()
        self.update(there)
        for name, serving in there.items():
            serving.name = name
        self._pending.rename(names)

    def drop(self, name: str) -> None:
        """A model goes, and what it predicted."""
        del self[name]
        self._pending.drop(lambda other: other.partition("/")[0] == name)

    def exchange(self, name: str, memos: Sequence[str], fresh: Sequence[str], width: int) -> None:
        """A model keeps these beside instances from here on. fresh : those of them that are new."""
        stay = kept_names(name, memos)
        self._pending.drop({*self[name].kept_names}.difference(stay).__contains__)
        self._pending.add(kept_names(name, fresh), width)
        self[name].memos = list(memos)

    def know(self, roles: Mapping[str, ModelSlot]) -> None:
        """These are the models, of which a state has told the keys and what they keep."""
        for name, role in roles.items():
            self[name].key, self[name].memos = role.key, list(role.memos.names)
