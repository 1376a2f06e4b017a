"""Writes predictions in a binary format, by the schema of the registry that they have.

A format says how a text, an answer and a map of probabilities look (`BinaryWriter`'s methods). Which rows have which,
and what is left out of a record that Kafka might refuse, is the same for all.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from struct import Struct
from typing import Any

import numpy as np

from riparian.topics.formats.json_predictions import MAX_BYTES
from riparian.topics.formats.predictions import alerts, members, opinions
from riparian.topics.formats.registered import written_by
from riparian.topics.names import CHAMPION
from riparian.topics.prediction_columns import PredictionColumns
from riparian.topics.records import Floats
from riparian.topics.schemas import Schemas
from riparian.topics.vocabulary import Scalar, Vocabulary


class Shares:
    """Writes the probabilities of classes. before : what stands before each number. after : behind the last one."""

    def __init__(self, before: Sequence[bytes], after: bytes = b"") -> None:
        self._before, self._after = before, after
        form = "".join(f"{len(one)}sd" for one in before)
        self._pack = Struct(f"<{form}{len(after)}s").pack

    def write(self, p: Floats) -> list[bytes]:
        """(n, k) p -> a record's bytes each."""
        columns: list[Iterable[Any]] = []
        for one, column in zip(self._before, p.T.tolist(), strict=True):
            columns += [repeat(one), column]
        return list(map(self._pack, *columns, repeat(self._after)))


class BinaryWriter:
    """Writes predictions by the schema that `schemas.written` names. further : `Mapping.further`, of whose logs the
    schema has a place each.

    A format has `nothing`, which stands for no answer, no probabilities and no challengers, and the methods that raise
    NotImplementedError here.
    """

    nothing = b""
    unsaid = b""  # stands for no interval and no set, before reasons

    def __init__(self, schemas: Schemas, further: tuple[str, ...] = ()) -> None:
        self._schemas, self.further = schemas, further
        self._shares: tuple[tuple[str, ...], Shares] | None = None

    def place(self, offset: int, label_offset: int) -> bytes:
        raise NotImplementedError

    def further_place(self, name: str, offset: int) -> bytes:
        """The next offset of a further log, behind `place`."""
        raise NotImplementedError

    def id(self, text: str) -> bytes:
        raise NotImplementedError

    def model(self, name: str) -> bytes:
        raise NotImplementedError

    def answer(self, value: Scalar | None) -> bytes:
        """y."""
        raise NotImplementedError

    def shares(self, names: Sequence[str]) -> Shares:
        """What writes p, of classes with these names."""
        raise NotImplementedError

    def challengers(self, names: Sequence[str], said: Sequence[tuple[bytes, bytes]]) -> bytes:
        """Of one record. said : y and p of each of them."""
        raise NotImplementedError

    def challenger_alert(self, said: bool | None) -> bytes:
        """Whether a challenger's score is an alert, behind its p."""
        raise NotImplementedError

    def interval(self, lower: float, upper: float) -> bytes:
        """NaN where nothing is said."""
        raise NotImplementedError

    def set(self, answers: Sequence[bytes]) -> bytes:
        """Of classes as `answer` writes them; none where nothing is said."""
        raise NotImplementedError

    def reasons(self, found: Mapping[str, float] | None) -> bytes:
        """Name of a feature -> what it added."""
        raise NotImplementedError

    def alert(self, said: bool | None) -> bytes:
        """Whether a score is an alert, behind what else may be said; None where nothing is decided."""
        raise NotImplementedError

    def write(self, columns: PredictionColumns) -> list[bytes]:
        """One record an id, as in `Codec`. columns.further : of the logs of `self.further`, no others."""
        p, classes, probabilities, challengers = columns.p, columns.classes, columns.probabilities, columns.challengers
        further, told = columns.further or {}, columns.decided or {}
        assert tuple(further) == self.further
        before, name = written_by(self._schemas, "predictions")[0], self.model(columns.model)
        says_alerts = classes is None and CHAMPION in told
        y, shares = self._outputs(p, classes, probabilities, told.get(CHAMPION))
        others: Iterable[bytes] = repeat(self.nothing)
        if challengers:
            each = []
            for role, out in challengers.items():
                own, part = self._outputs(out, classes, probabilities, told.get(role))
                if says_alerts:
                    part = map(bytes.__add__, part, map(self.challenger_alert, alerts(out, told.get(role))))
                each.append(zip(own, part, strict=False))
            names = tuple(challengers)
            others = [self.challengers(names, said) for _, *said in zip(columns.ids, *each, strict=False)]
        places = map(self.place, map(int, columns.offsets), map(int, columns.label_offsets))
        for role, found in further.items():
            places = map(bytes.__add__, places, map(self.further_place, repeat(role), map(int, found)))
        more = self._more(columns.said, classes, columns.reasons)
        if says_alerts:
            more = map(self.alert, alerts(p, told[CHAMPION]))
        rows = zip(places, columns.ids, y, shares, others, more, strict=False)
        made = [
            b"".join((before, at, self.id(one), name, answer, share, other, more))
            for at, one, answer, share, other, more in rows
        ]
        long = probabilities or (columns.said is not None and columns.said.any())
        if long and classes is not None and max(map(len, made), default=0) > MAX_BYTES:
            large = [i for i, value in enumerate(made) if len(value) > MAX_BYTES]
            few = columns.take(large)
            silent = None if few.said is None else np.zeros_like(few.said)
            for i, value in zip(large, self.write(few._replace(probabilities=False, said=silent)), strict=True):
                made[i] = value
        return made

    def _outputs(
        self, out: Floats, classes: Vocabulary | None, probabilities: bool, decided: Floats | None = None
    ) -> tuple[Iterable[bytes], Iterable[bytes]]:
        """The y and the p of each row."""
        if classes is None:
            return list(map(self.answer, out[:, 0].tolist())), repeat(self.nothing)
        k = min(out.shape[1], len(classes))
        shares = self._named(tuple(classes.texts[:k])).write if probabilities and k else None
        return opinions(out, list(map(self.answer, classes.values[:k])), shares, self.nothing, self.nothing, decided)

    def _more(self, said: Floats | None, classes: Vocabulary | None, reasons: Sequence[Any] | None) -> Iterable[bytes]:
        """The interval or the set of each row, and its reasons."""
        if reasons is not None:
            before = repeat(self.unsaid) if said is None else self._more(said, classes, None)
            return map(bytes.__add__, before, map(self.reasons, reasons))
        if said is None:
            return repeat(b"")
        if classes is None:
            return map(self.interval, *said.T.tolist())
        return map(self.set, members(said, list(map(self.answer, classes.values))))

    def _named(self, names: tuple[str, ...]) -> Shares:
        if self._shares is None or self._shares[0] != names:
            self._shares = names, self.shares(names)
        return self._shares[1]
