"""How good the champion's predictions are by the value of a feature (`metrics.segments`). Pure.

As intervals do, it belongs to the stream: each label is held against what the champion of then predicted. Every
partition counts its own labels, also where all learn one model. What is lost by a label, and which value is surely
worse than before, is models/evaluation/segments.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.arrays import EMPTY, over, under
from riparian.app.partition.join.pending import PendingStore
from riparian.app.partition.predictions.serving import Serving
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import PREDICT, Bags, Floats, Program
from riparian.models.evaluation.segments import COSTS, ERRORS, MISSED, MISTAKES, TIME, Loss, SegmentLosses
from riparian.models.restoring import restore
from riparian.topics.records import REGRESSION, SegmentFigures
from riparian.topics.vocabulary import Scalar, Vocabulary

FALSE_NAMES = 0.01  # probability that a stream ever names a value which is not worse
FEW = 200  # labels of the class of a target over which sums fade, as its threshold does
MOST_TEXT = 100  # characters of a value that is told


def loss_of(spec: Spec) -> int:
    """What is lost by a label: MISSED where a target or a rate is kept, COSTS, ERRORS, else MISTAKES."""
    if spec.task == REGRESSION:
        return ERRORS
    if spec.decision is None:
        return MISTAKES
    return MISSED if spec.decision.target is not None else COSTS


class BySegment:
    """Of one partition; nothing where the stream file does not ask for it.

    Parameters
    ----------
    pending : PendingStore
        Whose rows hold the values.
    vocabularies : sequence
        Of the partition, by column; they grow.
    """

    def __init__(
        self, spec: Spec, partition: int, pending: PendingStore, vocabularies: Sequence[Vocabulary | None]
    ) -> None:
        self._pending, self._vocabularies, self._kind = pending, vocabularies, loss_of(spec)
        asked = spec.segmented()
        # Shares that come to one at most, however many partitions there will be.
        error = FALSE_NAMES / max(1, len(asked)) / ((partition + 1) * (partition + 2))
        self._columns = asked
        self._of = {name: SegmentLosses(self._span(spec), error) for name in asked}

    def _span(self, spec: Spec) -> float:
        window = spec.metrics.window if spec.metrics.fading is None else 1.0 / (1.0 - spec.metrics.fading)
        return float(min(window, FEW) if self._kind == MISSED else window)

    def warm_up(self) -> None:
        """Compile the kernel, or load it from the cache."""
        if self._of:
            SegmentLosses(2.0, 0.5).run(EMPTY, np.zeros((0, 1)), 0, np.zeros((0, 1)), Loss(MISTAKES), np.zeros(0))

    def settle(self, spec: Spec) -> None:
        """Go on as this stream file says of metrics."""
        for one in self._of.values():
            one.fade_over(self._span(spec))

    def run(self, program: Program, champions: Sequence[tuple[int, Serving]], times: NDArray[np.int64]) -> None:
        """Take the labels of a program that all models have run.

        champions : each champion in it, with the place of its first operation. times : of its predictions, ms.
        """
        if not self._of or not len(program.op):
            return
        slab, come = self._pending.slab, np.cumsum(program.op == PREDICT)
        assert not isinstance(slab, Bags)
        ends = [*(start for start, _ in champions[1:]), len(program.op)]
        for name, segments in self._of.items():
            known: Floats = np.append(segments.state().totals[TIME], times)
            now = known[come]
            for (start, served), end in zip(champions, ends, strict=True):
                named = None if served.decision is None else served.named
                part, found = program.part(start, end), now[start:end]
                segments.run(part, slab, self._columns[name], served.predictions, self._loss(served), found, named)
            segments.state().totals[TIME] = now[-1]

    def _loss(self, served: Serving) -> Loss:
        decision = served.decision
        if self._kind == MISSED and decision is not None:
            return Loss(MISSED, decision.alert)
        if self._kind == COSTS and decision is not None and decision.costs is not None:
            return Loss(COSTS, -1, decision.costs)
        return Loss(self._kind)

    def figures(self) -> list[SegmentFigures]:
        """Of each feature the values that come most, then the missing one, then all others."""
        return [
            SegmentFigures(
                feature=name,
                n=one.n,
                loss=one.loss,
                n_before=one.n_before,
                loss_before=one.loss_before,
                value=None if one.value is None or np.isnan(one.value) else self._value(name, int(one.value)),
                others=one.value is None,
                since=max(1, one.since) if one.worse else 0,  # rows without times are of 1970
                usual=one.usual,
                rise=one.found,
            )
            for name, segments in self._of.items()
            for one in segments.found()
        ]

    def _value(self, name: str, code: int) -> Scalar:
        known = self._vocabularies[self._columns[name]]
        value = known.values[code] if known is not None and 0 <= code < len(known) else code
        return value[:MOST_TEXT] if isinstance(value, str) else value

    def state(self) -> dict[str, NDArray[Any]]:
        """Live arrays, by their names in a state, of what has begun."""
        arrays: dict[str, NDArray[Any]] = {}
        for name, one in self._of.items():
            if one.has_begun:
                arrays |= over(f"segments/{name}/", one.state()._asdict())
        return arrays

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `state` gave, among the arrays of a state, of the features that are still asked for."""
        for name, one in self._of.items():
            mine = under(arrays, f"segments/{name}/")
            if mine:
                restore(one, mine, f"metrics.segments of {name}")
