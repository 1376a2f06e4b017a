"""Prediction records as Avro: the fields of the JSON ones, by one schema for every stream.

The places that a prediction was made at come first and stay first, so that they can be read whatever comes behind them.
y is null where a model knows nothing (or has no finite value); p is null then, too, and where it is not asked for, of
regression, and in a record of more than MAX_BYTES. An integer beyond 64 bits is written as text.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from struct import Struct
from typing import Any

from topics.formats import avro_types
from topics.formats.avro_types import MalformedError
from topics.formats.framing import ID_BYTES, head_of
from topics.formats.json_predictions import MAX_BYTES
from topics.formats.predictions import opinions
from topics.formats.registered import written_by
from topics.records import Floats, Place
from topics.schemas import AVRO, Schema, Schemas
from topics.vocabulary import Scalar, Vocabulary

_Y = ["null", "boolean", "long", "double", "string"]
_P = ["null", {"type": "map", "values": "double"}]
_OPINION = {
    "type": "record",
    "name": "Opinion",
    "fields": [{"name": "y", "type": _Y}, {"name": "p", "type": _P, "default": None}],
}
PREDICTION = Schema(
    AVRO,
    json.dumps(
        {
            "type": "record",
            "name": "Prediction",
            "namespace": "riparian",
            "fields": [
                {"name": "offset", "type": "long", "doc": "Of the features, in their topic."},
                {"name": "label_offset", "type": "long", "doc": "Of the next label when it was made."},
                {"name": "id", "type": "string"},
                {"name": "model", "type": "string"},
                {"name": "y", "type": _Y, "doc": "The likeliest class, or the value."},
                {"name": "p", "type": _P, "default": None, "doc": "Probabilities by class."},
                {"name": "challengers", "type": ["null", {"type": "map", "values": _OPINION}], "default": None},
            ],
        }
    ),
)
_NULL = b"\0"
_double = Struct("<d").pack


def whole(n: int) -> bytes:
    """A whole number of 64 bits as Avro writes it."""
    n = (n << 1) ^ (n >> 63)
    if n < 128:
        return n.to_bytes(1, "big")
    made = bytearray()
    while n > 127:
        made.append(n & 127 | 128)
        n >>= 7
    made.append(n)
    return bytes(made)


def text(value: str) -> bytes:
    data = value.encode("utf-8", "surrogatepass")
    return whole(len(data)) + data


def scalar(value: Scalar | None) -> bytes:
    """A value in the union of y."""
    if isinstance(value, bool):
        return b"\2\1" if value else b"\2\0"
    if isinstance(value, int):
        return b"\4" + whole(value) if -(2**63) <= value < 2**63 else b"\x08" + text(str(value))
    if isinstance(value, float):
        return b"\6" + _double(value) if math.isfinite(value) else _NULL
    return _NULL if value is None else b"\x08" + text(value)


class _Shares:
    """Writes the probabilities of the classes as a map."""

    def __init__(self, names: Sequence[str]) -> None:
        self._prefixes = [text(name) for name in names]
        self._prefixes[0] = b"\2" + whole(len(names)) + self._prefixes[0]
        form = "".join(f"{len(prefix)}sd" for prefix in self._prefixes)
        self._pack = Struct(f"<{form}B").pack

    def write(self, p: Floats) -> list[bytes]:
        """(n, k) p -> a record's bytes each."""
        columns: list[Iterable[Any]] = []
        for prefix, column in zip(self._prefixes, p.T.tolist(), strict=True):
            columns += [repeat(prefix), column]
        return list(map(self._pack, *columns, repeat(0)))


class PredictionWriter:
    """Writes predictions by the schema that `schemas.written` names."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._shares: tuple[tuple[str, ...], _Shares] | None = None

    def write(
        self,
        ids: Sequence[str],
        p: Floats,
        classes: Vocabulary | None,
        model: str,
        offsets: Sequence[int],
        label_offsets: Sequence[int],
        *,
        probabilities: bool = True,
        challengers: Mapping[str, Floats] | None = None,
        further: Mapping[str, Sequence[int]] | None = None,
    ) -> list[bytes]:
        """One record an id, as in `Codec`. further : none, since the schema has no fields for other input logs."""
        assert not further
        before, name = written_by(self._schemas, "predictions")[0], text(model)
        y, shares = self._outputs(p, classes, probabilities)
        others: Iterable[bytes] = repeat(_NULL)
        if challengers:
            others = self._challengers(len(ids), challengers, classes, probabilities)
        rows = zip(offsets, label_offsets, ids, y, shares, others, strict=False)
        made = [
            b"".join((before, whole(int(at)), whole(int(label_at)), text(one), name, said, share, more))
            for at, label_at, one, said, share, more in rows
        ]
        if probabilities and classes is not None and max(map(len, made), default=0) > MAX_BYTES:
            large = [i for i, value in enumerate(made) if len(value) > MAX_BYTES]
            args = [ids[i] for i in large], p[large], classes, model
            places = [offsets[i] for i in large], [label_offsets[i] for i in large]
            left = {role: output[large] for role, output in (challengers or {}).items()} or None
            for i, value in zip(large, self.write(*args, *places, probabilities=False, challengers=left), strict=True):
                made[i] = value
        return made

    def _challengers(
        self, n: int, challengers: Mapping[str, Floats], classes: Vocabulary | None, probabilities: bool
    ) -> list[bytes]:
        parts: list[Iterable[bytes]] = [repeat(b"\2" + whole(len(challengers)), n)]
        for role, output in challengers.items():
            parts += [repeat(text(role)), *self._outputs(output, classes, probabilities)]
        return list(map(b"".join, zip(*parts, repeat(_NULL), strict=False)))

    def _outputs(
        self, out: Floats, classes: Vocabulary | None, probabilities: bool
    ) -> tuple[Iterable[bytes], Iterable[bytes]]:
        """The y and the p of each row."""
        if classes is None:
            return list(map(scalar, out[:, 0].tolist())), repeat(_NULL)
        k = min(out.shape[1], len(classes))
        shares = self._named(tuple(classes.texts[:k])).write if probabilities and k else None
        return opinions(out, list(map(scalar, classes.values[:k])), shares, _NULL, _NULL)

    def _named(self, names: tuple[str, ...]) -> _Shares:
        if self._shares is None or self._shares[0] != names:
            self._shares = names, _Shares(names)
        return self._shares[1]


class PredictionReader:
    """Reads predictions back. What is none is a ValueError."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._type = avro_types.parse(PREDICTION)

    def place(self, value: bytes | None) -> Place:
        """Where a prediction record stands."""
        value = value or b""
        found, written = head_of(value), self._schemas.written.get("predictions")
        if found is None or written is None or found.key != written.id:
            self.read(value)  # of another schema, or no prediction at all
        try:
            offset, p = avro_types.long(value, ID_BYTES if found is None else found.start)
            return Place(offset, avro_types.long(value, p)[0])
        except IndexError:
            raise ValueError("it ends too early") from None

    def read(self, value: bytes | None) -> dict[str, Any]:
        """All fields of a prediction record."""
        found = head_of(value or b"")
        if value is None or found is None:
            raise ValueError("it does not begin with the id of a schema")
        try:
            record, p = self._type.value(value, found.start, 0)
        except (IndexError, UnicodeDecodeError, OverflowError, MalformedError) as error:
            raise ValueError(str(error)) from error
        except Exception as error:  # struct.error
            raise ValueError("it ends too early") from error
        if p != len(value):
            raise ValueError("it does not end where a prediction ends")
        if record["challengers"] is None:
            del record["challengers"]
        fields: dict[str, Any] = record
        return fields
