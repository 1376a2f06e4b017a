"""Writes predictions in a binary format, by the schema of the registry that they have.

A format has how the value of each field looks (`BinaryWriter.encode`). Which rows have which fields, and what is left
out of a record that Kafka might refuse, is the same for all.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat
from struct import Struct
from typing import Any, ClassVar

import numpy as np

from riparian.topics.formats.common.predictions import MAX_BYTES, alerts, besides, opinions, plain
from riparian.topics.formats.common.registered import written_by
from riparian.topics.names import CHAMPION
from riparian.topics.prediction_columns import PredictionColumns
from riparian.topics.records import Floats
from riparian.topics.schemas import Schemas

BESIDES = ("lower", "upper", "set", "reasons", "alert", "features")  # fields that are there where they are asked for

Encode = Callable[[Any], bytes]
Shares = Callable[[Floats], list[bytes]]


def shares_between(before: Sequence[bytes], after: bytes = b"") -> Shares:
    """Writes the probabilities of classes, (n, k) p -> a record's bytes each. before : what stands before each number.
    after : behind the last one."""
    form = "".join(f"{len(one)}sd" for one in before)
    pack = Struct(f"<{form}{len(after)}s").pack

    def write(p: Floats) -> list[bytes]:
        columns: list[Iterable[Any]] = []
        for one, column in zip(before, p.T.tolist(), strict=True):
            columns += [repeat(one), column]
        return list(map(pack, *columns, repeat(after)))

    return write


class BinaryWriter:
    """Writes predictions by the schema that `schemas.written` names.

    A format has what stands behind the id of the schema (`head`), and for no answer, no probabilities and no
    challengers (`nothing`); and what writes the value of each field by its name in JSON (`encode`), None where nothing
    is said: of y, of each class in "set", and of each pair of a feature and a number in "reasons" and "features", too.
    """

    head = b""
    nothing = b""
    encode: ClassVar[Mapping[str, Encode]]

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._shares: tuple[tuple[str, ...], Shares] | None = None

    def shares(self, names: Sequence[str]) -> Shares:
        """What writes p, of classes with these names."""
        raise NotImplementedError

    def challengers(self, names: Sequence[str], opinions: Sequence[bytes]) -> bytes:
        """Of one record. opinions : what each of them predicts: y, p, and whether its score is an alert."""
        raise NotImplementedError

    def write(self, given: PredictionColumns) -> list[bytes]:
        """One record an id, as in `Codec`. Fields come in the order of the schema."""
        encode, decided = self.encode, given.decided or {}
        has_marks = given.has_alerts or given.features is not None  # of challengers, by the schema
        opinion = partial(self._opinion, given)
        before = written_by(self._schemas, "predictions")[0] + self.head
        places = {"offset": given.offsets, "label_offset": given.label_offsets, **(given.further or {})}
        columns: list[Iterable[bytes]] = [
            repeat(before),
            *(map(encode[name], map(int, found)) for name, found in places.items()),
            map(encode["id"], given.ids),
            repeat(encode["model"](given.model)),
            *opinion(given.p, decided.get(CHAMPION)),
        ]
        if given.challengers:
            each = []
            for role, out in given.challengers.items():
                parts = opinion(out, decided.get(role))
                marks = (map(encode["alert"], alerts(out, decided.get(role))),) if has_marks else ()
                each.append(map(b"".join, zip(*parts, *marks, strict=False)))
            columns.append(map(partial(self.challengers, tuple(given.challengers)), zip(*each, strict=False)))
        else:
            columns.append(repeat(self.nothing))
        columns += (map(encode[name], found) for name, found in _in_order(given).items())
        made = list(map(b"".join, zip(*columns, strict=False)))
        long = given.probabilities or (given.regions is not None and given.regions.any())
        if long and given.classes is not None and max(map(len, made), default=0) > MAX_BYTES:
            large = [i for i, value in enumerate(made) if len(value) > MAX_BYTES]
            few = given.take(large)
            silent = None if few.regions is None else np.zeros_like(few.regions)
            for i, value in zip(large, self.write(few._replace(probabilities=False, regions=silent)), strict=True):
                made[i] = value
        return made

    def _opinion(
        self, given: PredictionColumns, out: Floats, decided: Floats | None
    ) -> tuple[Iterable[bytes], Iterable[bytes]]:
        """The y and the p of each row."""
        classes, answer = given.classes, self.encode["y"]
        if classes is None:
            return map(answer, out[:, 0].tolist()), repeat(self.nothing)
        names = tuple(classes.texts[: out.shape[1]])
        shares = None
        if given.probabilities and names:
            if self._shares is None or self._shares[0] != names:
                self._shares = names, self.shares(names)
            shares = self._shares[1]
        return opinions(out, list(map(answer, classes.values)), shares, self.nothing, self.nothing, decided)


def _in_order(given: PredictionColumns) -> dict[str, Iterable[Any]]:
    """What there is besides, by field: all that stands before the last field that is asked for, as in the schemas."""
    found = besides(given, () if given.classes is None else given.classes.values)
    n = 3 if {"lower", "set"} & found.keys() else 0
    n = next((i for i in range(len(BESIDES), 3, -1) if BESIDES[i - 1] in found), n)
    return {name: plain(found.get(name, repeat(None))) for name in BESIDES[:n]}
