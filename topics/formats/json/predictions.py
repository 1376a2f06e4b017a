"""Prediction records as JSON.

Classification: `{"id", "y", "p": {class: probability}, "model", "offset", "label_offset"}`, and behind these the next
offset of each further input log that the stream has. y is the likeliest class in the JSON form in which it was declared
or first seen, the earlier one of equals, or the class that costs or a threshold decide for; y and p are null while the
model knows nothing. A class that is not listed in p has probability 0. A record of more than `MAX_BYTES` (hundreds of
long classes, and challengers) is written with p, and the set of classes, null everywhere. Regression has no p, and a
null y where the model has no value. Where they are asked for, the ends of an interval stand under "lower" and "upper",
or a set of classes, in their JSON forms, under "set"; null where there is none. What features added to it, where that
is asked for, stands under "reasons": `{feature: number}`, the largest first. Where it is decided which scores of
anomalies are alerts, that of the champion stands under "alert", true or false; null while it is not. Features over
the past of keys, where they are asked for, stand under "features": `{feature: number}`, without those that are missing.
Challengers, where they are asked for, stand under "challengers": `{name: {"y", "p"}}`, with an "alert" of their own
where the champion has one. Floats are written in the shortest form that reads back to the same bits.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import repeat
from typing import Any

import msgspec
import numpy as np

from riparian.topics.formats.common.predictions import MAX_BYTES, alerts, besides, opinions, plain
from riparian.topics.names import CHAMPION
from riparian.topics.prediction_columns import PredictionColumns
from riparian.topics.records import Floats, Place, place_type
from riparian.topics.reports import reader
from riparian.topics.slices import of_texts
from riparian.topics.vocabulary import Vocabulary

FEW = 96  # predictions; fewer are sooner written one by one


class _Prediction(msgspec.Struct, gc=False, eq=False):
    id: str
    y: Any
    p: Any
    model: str
    offset: int
    label_offset: int
    challengers: Any = msgspec.UNSET


@cache
def _prediction_type(further: tuple[str, ...]) -> type[msgspec.Struct]:
    """The struct of a prediction with these fields before the challengers."""
    if not further:
        return _Prediction
    required = [(name, Any) for name in (*_Prediction.__struct_fields__[:-1], *further)]
    optional = [("challengers", Any, msgspec.UNSET)]
    return msgspec.defstruct("Prediction", [*required, *optional], gc=False, eq=False)


class _Challenger(msgspec.Struct, gc=False, eq=False):
    y: Any
    p: Any = msgspec.UNSET
    alert: Any = msgspec.UNSET


def struct_of(names: Sequence[str]) -> Any:
    """A callable that makes an object of these JSON fields from values in the same order.

    A struct type where the encoder can take the names as they are; a dict, at three times the price, for a class that
    is called `a"b`.
    """
    fields = [(f"f{i}", Any) for i in range(len(names))]
    rename = {f"f{i}": name for i, name in enumerate(names)}
    try:
        return msgspec.defstruct("Named", fields, rename=rename, gc=False, eq=False)
    except ValueError:
        return lambda *values: dict(zip(names, values, strict=True))


class JsonPredictionWriter:
    """Writes predictions; keeps the struct type for the classes it saw last."""

    def __init__(self) -> None:
        self.few = FEW
        self._encode = msgspec.json.Encoder().encode
        self._structs: dict[str, tuple[tuple[str, ...], Any]] = {}

    def write(self, given: PredictionColumns) -> Sequence[bytes]:
        """One record an id, as in `Codec`. given.offsets, label_offsets, and the values of further : n ints (or arrays
        of them)."""
        ids, p, classes, model, probabilities = given.ids, given.p, given.classes, given.model, given.probabilities
        challengers, regions, reasons = given.challengers, given.regions, given.reasons
        features = given.features
        at = {"offset": given.offsets, "label_offset": given.label_offsets, **(given.further or {})}
        decided = given.decided or {}
        if len(ids) >= self.few and not challengers and regions is None and reasons is None and features is None:
            mine = decided.get(CHAMPION)
            at_once: Sequence[bytes] | None = self._at_once(ids, p, classes, model, probabilities, at, mine)
            if at_once is not None:
                return at_once
        y, shares = self._outputs(p, classes, probabilities, decided.get(CHAMPION))
        more = besides(given, () if classes is None else classes.values)
        columns: list[Iterable[Any]] = [ids, y, shares, repeat(model), *map(plain, (*at.values(), *more.values()))]
        if challengers:
            parts = [
                map(
                    _Challenger,
                    *self._outputs(output, classes, probabilities, decided.get(role)),
                    alerts(output, decided.get(role)) if given.has_alerts else repeat(msgspec.UNSET),
                )
                for role, output in challengers.items()
            ]
            columns.append(map(self._struct("challengers", tuple(challengers)), *parts))
        written = list(map(self._encode, map(_prediction_type((*(given.further or ()), *more)), *columns)))
        if (
            (probabilities or regions is not None)
            and classes is not None
            and max(map(len, written), default=0) > MAX_BYTES
        ):
            written = [self._shortened(value) for value in written]
        return written

    def _at_once(
        self,
        ids: Sequence[str],
        p: Floats,
        classes: Vocabulary | None,
        model: str,
        probabilities: bool,
        places: Mapping[str, Sequence[int]],
        decided: Floats | None = None,
    ) -> Any:
        """The records in one buffer; None where they are not usual."""
        from riparian.topics.formats.json import writing as kernel  # numba, which takes a while to import

        k = -1 if classes is None else min(p.shape[1], len(classes.values))
        texts = [b'{"id":"', b'","y":', b"null"]
        names: list[bytes] = []
        if classes is not None:
            texts += map(self._encode, classes.values[:k])
            names = [self._encode(text) + b":" for text in classes.texts[:k]]
        texts += [b',"p":{', *(b"," * (i > 0) + name for i, name in enumerate(names)), b"}", b',"p":null']
        before = b',"model":' + self._encode(model)
        for name in places:
            texts.append(before + b"," + self._encode(name) + b":")
            before = b""
        texts.append(b"}")
        if classes is None:
            texts += [b',"alert":null}', b',"alert":false}', b',"alert":true}']
        if sum(map(len, texts)) > MAX_BYTES // 8:
            return None
        shares = classes is not None and probabilities
        return kernel.written(of_texts(ids), p, k, shares, kernel.frame(texts), list(places.values()), decided)

    def warm_up(self) -> None:
        """Compile the kernel, or load it from the cache."""
        self._at_once(["a"], np.zeros((1, 1)), None, "", False, {"offset": [0], "label_offset": [0]})

    def _shortened(self, value: bytes) -> bytes:
        """A record that Kafka might refuse, without its probabilities and its set."""
        if len(value) <= MAX_BYTES:
            return value
        record = msgspec.json.decode(value)
        for part in (record, *record.get("challengers", {}).values()):
            part |= dict.fromkeys({"p", "set"} & part.keys())
        return self._encode(record)

    def _struct(self, role: str, names: tuple[str, ...]) -> Any:
        """The struct type of these names, made anew only when they change."""
        known = self._structs.get(role)
        if known is None or known[0] != names:
            known = self._structs[role] = names, struct_of(names)
        return known[1]

    def _outputs(
        self, out: Floats, classes: Vocabulary | None, probabilities: bool, decided: Floats | None = None
    ) -> tuple[Iterable[Any], Iterable[Any]]:
        """The y and the p of each row. NaN is written as null by the encoder."""
        if classes is None:
            return out[:, 0].tolist(), repeat(msgspec.UNSET)
        shares: Any = None
        if probabilities:
            shares = lambda out: map(self._struct("p", tuple(classes.texts[: out.shape[1]])), *out.T.tolist())  # noqa: E731
        return opinions(out, classes.values, shares, None, msgspec.UNSET, decided)


def place_reader(further: Sequence[str] = ()) -> Callable[[bytes | None], Place]:
    """What reads where a prediction record stands: ValueError where it is no prediction."""
    read: Callable[[bytes | None], Place] = reader(place_type(further))
    return read
