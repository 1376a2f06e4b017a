"""How well a model of a stream predicts: its scores, how well calibrated it is, the accuracy that is expected before
labels come, and what its decisions cost. Pure.

A label is held against what was predicted when its instance came, whichever model of the role that was: scores go on
where another one takes over. What scales the probabilities, or decides by them, learns from this partition's own
predictions; the scores are those of whatever the model learns from.
"""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.arrays import over, under
from riparian.app.partition.deciding import Deciding, Decision, decided_name
from riparian.app.partition.pending import EMPTY, PendingStore
from riparian.app.partition.reasons import Ahead, Reasons
from riparian.app.partition.running_model import RunningModel
from riparian.app.partition.sharing import LearnedRows
from riparian.app.stream_file.spec import Spec
from riparian.app.stream_file.spec_parts import ALERTS, AUTOMATIC
from riparian.models.contract import Floats, Program, Schema
from riparian.models.evaluation.auroc import areas
from riparian.models.evaluation.estimation import Estimation
from riparian.models.evaluation.prequential import Prequential
from riparian.models.predictions.calibration import SAID_WIDTH, Calibration
from riparian.models.predictions.decision import DECIDED_WIDTH
from riparian.models.restoring import restore
from riparian.topics.names import CHAMPION
from riparian.topics.records import REGRESSION, VALUES

SAID = "/said"
NOT_SCALED = np.zeros((0, SAID_WIDTH))


def said_name(role: str) -> str:
    """Where the pending store keeps how the probabilities of a model were scaled."""
    return f"{role}{SAID}"


class ScoredModel(RunningModel):
    """A model of a stream, and how well it predicts.

    Parameters
    ----------
    deciding : Deciding, optional
        What the stream file says of costs. The others are those of RunningModel.

    Attributes
    ----------
    metrics : Prequential
        Scores of all predictions of the role, whichever of its models made them.
    estimation : Estimation, optional
        What they are expected to be before the labels come; none of a regression.
    calibration : Calibration, optional
        Of its probabilities, which it scales where the stream file says so; none of a regression.
    decision : Decision, optional
        Which class its predictions name, where that is not the likeliest, or which of its scores are alerts.
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
        super().__init__(name, spec, schema, pending, seed, learned)
        if learned is not None and spec.task not in VALUES:
            # Whatever this stream file says: what was said is what counts, on each replica.
            learned.keep([decided_name(name)], DECIDED_WIDTH)
        window, fading = spec.metrics.window, spec.metrics.fading
        self.metrics = self._scores(spec)
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
        self._may_lead = spec.promotion is not None and spec.promotion.mode == AUTOMATIC

    @property
    def named(self) -> Floats:
        """(capacity, 2) float64: the code of the class named for each row of the pending store, of a model that
        decides, or 1 of an alert, else 0; NaN where nothing was known, or of scores decided."""
        return self._pending.out[decided_name(self.name)]

    @property
    def labelled_named(self) -> Floats | None:
        """The same for each row of what it learns from; None where nothing was ever decided."""
        return self._learned.out.get(decided_name(self.name))

    def warm_up(self) -> None:
        """Compile the kernels, or load them from the cache, before the first record."""
        super().warm_up()
        self.score(EMPTY)
        self.estimate(EMPTY)
        self.calibrate(EMPTY)
        self.decide(EMPTY)
        self.overall()
        self.recent()
        if self._task != REGRESSION:  # without labels nothing is ranked
            areas(np.arange(2), np.eye(2), np.ones(2))

    def _scores(self, spec: Spec) -> Prequential:
        """What scores the predictions, as this stream file says, and has seen none."""
        window, fading = spec.metrics.window, spec.metrics.fading
        return Prequential(spec.task, self.schema.n_outputs, window=window, fading=fading, alerts=spec.has_alerts)

    def resize(self, schema: Schema) -> None:
        """Make room for values and classes seen since."""
        super().resize(schema)
        if self.calibration is not None:
            self.calibration.resize(schema.n_outputs)
        if not self._follows:
            self.metrics.resize(schema.n_outputs)

    def settle(self, spec: Spec) -> None:
        """Go on as this stream file says of metrics."""
        super().settle(spec)
        window, fading = spec.metrics.window, spec.metrics.fading
        if (window, fading) != (self.metrics.window, self.metrics.fading):
            known = self.metrics.state()._asdict()
            self.metrics = self._scores(spec)
            self.metrics.restore(known)
            if self.calibration is not None:
                self.calibration.settle(window, fading)

    def follow(self, leads: Self) -> None:
        """The scores are those of the role that learns, too."""
        super().follow(leads)
        self.metrics = leads.metrics

    # -- reasons -----------------------------------------------------------------------------------------------

    def begin_reasons(self, program: Program, keys: NDArray[np.uint64] | None, ahead: bool = True) -> None:
        """Of a program that will run, of each model that may be the champion at one of its predictions.

        keys : as `app.partition.reasons.keys_of` gives them; None where reasons are not asked for. ahead : whether what
        the predictions name has to be known while it runs.
        """
        self.reasons, asked = None, self._asked_why
        if asked is None or keys is None or not (self.name == CHAMPION or self._may_lead):
            return
        alert = self.decision.alert if asked.of == ALERTS and self.decision is not None else None
        self.reasons = Reasons(program, keys, asked.top, alert, self._ahead_of(program) if ahead else None)

    def _ahead_of(self, program: Program, start: int = 0) -> Ahead | None:
        """What decides, at operation `start` of a program that has run so far."""
        if self.decision is None:
            return None
        scales = self.calibration is not None and self.calibration.scales
        scaled = self._pending.out[said_name(self.name)] if scales else NOT_SCALED
        made = Ahead(program, self.decision, self.calibration if scales else None, self.predictions, self.named, scaled)
        made.follow(program.part(0, start), self.predictions)
        return made

    def explain(self, x: Floats, rows: NDArray[np.int32], keys: NDArray[np.uint64] | None) -> None:
        """Of predictions of instances that wait in these rows, which have been decided: the model has learned nothing
        since. x : as in `predict`."""
        if keys is None:
            self.reasons = None
            return
        n = len(rows)
        program = Program(np.zeros(n, np.int8), np.arange(n, dtype=np.int32), np.full(n, np.nan), np.ones(n))
        self.begin_reasons(program, keys, ahead=False)
        if self.reasons is not None and n:
            named = None if self.decision is None else self.named[rows, 0]
            self.reasons.ask(self.model, x, program, self.predictions[rows], named=named)

    # -- a program that was run --------------------------------------------------------------------------------

    def calibrate(self, program: Program) -> None:
        """Scale the predictions of a program that was run, if asked for, and see how well calibrated they were. Which
        class is the likeliest does not change, nor what is known."""
        if self.calibration is not None:
            said = self._pending.out[said_name(self.name)] if self.calibration.scales else NOT_SCALED
            self.calibration.run(program, self.predictions, said)

    def decide(self, program: Program) -> None:
        """Say which class each prediction of a program names, once its probabilities are as they stay, or whether its
        score is an alert."""
        if self.decision is not None:
            self.decision.run(program, self.predictions, self.named)

    def score(self, program: Program) -> None:
        """Score each label of a program that was run by the prediction that was made for its instance."""
        self.metrics.score(program, self.labelled, self.labelled_named)

    def estimate(self, program: Program) -> None:
        """Take the predictions and labels of a program for the accuracy that is expected."""
        if self.estimation is not None:
            self.estimation.follow(program, self.predictions)

    # -- what is told ------------------------------------------------------------------------------------------

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

    def restore(
        self,
        arrays: Mapping[str, NDArray[Any]],
        source: str,
        schema: Schema,
        parameters: Mapping[str, Any],
        decides: bool = True,
    ) -> None:
        """Take over arrays of `state()`, as in `begin_with`. decides : whether its threshold is about the same as it
        was."""
        self.begin_with(arrays, source, schema, parameters)
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
