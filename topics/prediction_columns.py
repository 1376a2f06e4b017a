"""What prediction records hold, as columns: what a codec is given to write."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from riparian.topics.names import CHAMPION
from riparian.topics.records import Floats
from riparian.topics.vocabulary import Vocabulary


class PredictionColumns(NamedTuple):
    """n predictions.

    p, challengers : (n, k) class probabilities (k may exceed the known classes), or (n, 1) values; of the others by
        their roles.
    classes : None of values.
    offsets, label_offsets : n next offsets.
    probabilities : whether records have p.
    further : the names in `Mapping.further` -> n next offsets.
    regions : where `Mapping.has_intervals`, (n, 2) lower and upper end of an interval, NaN for none, or (n, k)
        1 for each class in a set, else 0.
    reasons : where `Mapping.has_reasons`, of each prediction features to numbers, the largest first, or None.
    decided : role of a model ("champion" for p) -> (n,) codes of the classes that y names, NaN for the likeliest one.
        Where `Mapping.has_alerts`, 1 for an alert, else 0, NaN where that was not decided; of the champion alone.
    features : where `Mapping.has_key_features`, of each prediction features over the past of keys to numbers, as far
        as they are there.
    """

    ids: Sequence[str]
    p: Floats
    classes: Vocabulary | None
    model: str
    offsets: Sequence[int]
    label_offsets: Sequence[int]
    probabilities: bool = True
    challengers: Mapping[str, Floats] | None = None
    further: Mapping[str, Sequence[int]] | None = None
    regions: Floats | None = None
    reasons: Sequence[Any] | None = None
    decided: Mapping[str, Floats] | None = None
    features: Sequence[dict[str, float]] | None = None

    @property
    def has_alerts(self) -> bool:
        """Whether y is a score, of which it is decided whether it is an alert."""
        return self.classes is None and CHAMPION in (self.decided or {})

    def take(self, rows: list[int]) -> "PredictionColumns":
        """Some of the predictions."""
        return self._replace(
            ids=[self.ids[i] for i in rows],
            p=self.p[rows],
            offsets=[self.offsets[i] for i in rows],
            label_offsets=[self.label_offsets[i] for i in rows],
            challengers={role: output[rows] for role, output in (self.challengers or {}).items()} or None,
            further={role: [found[i] for i in rows] for role, found in (self.further or {}).items()} or None,
            regions=None if self.regions is None else self.regions[rows],
            reasons=None if self.reasons is None else [self.reasons[i] for i in rows],
            decided={role: codes[rows] for role, codes in (self.decided or {}).items()} or None,
            features=None if self.features is None else [self.features[i] for i in rows],
        )
