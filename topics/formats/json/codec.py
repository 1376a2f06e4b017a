"""JSON objects, one per record, as the mapping lays them out. Fields that are not mapped are ignored.

A bag's features are those of each object in the list at `mapping.x`; everything else is of the record.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import numpy as np

from riparian.topics import records as r
from riparian.topics.decoding.columns import Bad, ColumnDecoder, no_record
from riparian.topics.decoding.envelopes import CLOUDEVENTS, DEBEZIUM, OP, ROW, SPECVERSION, Ignored, ignores_tombstones
from riparian.topics.decoding.headers import inside, number
from riparian.topics.decoding.paths import Index, dotted
from riparian.topics.formats.common import slots as s
from riparian.topics.formats.common.blocks import Blocks, ColumnReader, Shape
from riparian.topics.formats.common.json_rows import Renderer
from riparian.topics.formats.common.json_text import (
    SHALLOW_BYTES,
    is_utf8,
    read_object,
    too_deep,
    with_shorter_integers,
)
from riparian.topics.formats.common.slots import IN_TEXT, Slot, of_features, of_labels
from riparian.topics.formats.json.envelopes import BOOLEAN, ID, NUMBER, SCALAR, TIME, CloudEvents, Connect, with_row
from riparian.topics.formats.json.layout import OBJECT, Layout, MappedField
from riparian.topics.formats.json.predictions import JsonPredictionWriter, place_reader
from riparian.topics.records import Feature, Floats, Mapping, Path, RawBatch
from riparian.topics.vocabulary import MISSING, UNTOLD

# What a slot holds -> what the decoder accepts.
_TYPES = {s.ID: ID, s.TIME: TIME, s.SCALAR: SCALAR, s.NUMBER: NUMBER, s.TARGET: NUMBER, s.FLAG: BOOLEAN}
_WHERE = re.compile(r" - at `\$(?:\.|(?=\[))(.*)`$", re.DOTALL)

# What the decoder calls a type -> a word for it.
_WORDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_EXPECTED = re.compile(r"Expected `([a-z |]+)`, got `([a-z]+)`")

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UNTOLD = [f'"{text}"'.encode() for text in UNTOLD]
_NO_NUMBER = re.compile(rb"[:\[,]\s*-?(?:NaN|Infinity)\s*[,\]}]")
# Reads one JSON value, and takes nothing from it.
_SKIP = msgspec.json.Decoder(msgspec.Raw).decode
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw]).decode


class _ObjectFeatures(NamedTuple):
    """Numeric and boolean features of one object. columns : among all of these. take : object -> tuple of their values
    (one: the value)."""

    parent: Path
    columns: list[int]
    take: Callable[[Any], Any]


def _plain(value: bytes) -> bytes:
    """The record without byte order marks, and without what stands for a value that Debezium did not get: a number or
    a flag is expected there."""
    value = value.lstrip(_BYTE_ORDER_MARK)  # its bytes, which begin no JSON; the value is UTF-8
    for text in _UNTOLD:
        value = value.replace(text, b"null")
    return value


def _decoded(value: bytes, decode: Callable[[bytes], Any]) -> Any:
    """What `decode` makes of a value. Integers of more digits than it reads are too long, and of no wrong type."""
    try:
        return decode(value)
    except msgspec.ValidationError as error:
        if not str(error).startswith("Integer value out of range"):
            raise
    return decode(with_shorter_integers(value))


def _worded(message: str) -> str:
    """What the decoder says of a wrong type, in words."""
    found = _EXPECTED.fullmatch(message)
    if found is None:
        return message
    kinds = [kind for kind in found[1].split(" | ") if kind != "null" and not (kind == "int" and "float" in found[1])]
    *first, last = [_WORDS.get(kind, kind) for kind in kinds]
    cure = f"; {IN_TEXT}" if (kinds, found[2]) == (["float"], "str") else ""
    return f"expected {', '.join(first)}{' or ' if first else ''}{last}, found {_WORDS.get(found[2], found[2])}{cure}"


def _text_for_number(value: bytes, where: str) -> str | None:
    """The text that stands in a record where a number is expected, if it is no number itself."""
    try:
        found = msgspec.json.decode(value)
    except msgspec.DecodeError:
        return None
    for name in where.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    if not isinstance(found, str) or found in MISSING:
        return None
    try:
        number(found.encode())
    except ValueError:
        return found[:40]
    return None


def _leaves(slots: Sequence[Slot], instance: Layout | None = None) -> list[MappedField]:
    """The fields of these slots; that of an object is there with what lies in it. instance : of a bag."""
    bag: Any = None if instance is None else list[instance.type] | None  # type: ignore[name-defined]
    types = {**_TYPES, s.BAG: bag}
    return [MappedField(slot.path, types[slot.kind]) for slot in slots if slot.kind != s.OBJECT]


class _JsonReader(ColumnReader):
    """What features and labels have in common: bytes to structs."""

    few = 24
    layout: Layout

    def __init__(
        self,
        mapping: Mapping,
        features: Sequence[Feature],
        slots: Sequence[Slot],
        envelope: str | None,
        inside: Layout | None = None,
    ) -> None:
        shape, leaves = Shape(slots), _leaves(slots, inside)
        reasons = {slot.path: slot.reason for slot in slots if slot.reason != r.WRONG_TYPE}
        asked = {DEBEZIUM: OP, CLOUDEVENTS: SPECVERSION}.get(envelope or "")
        if asked is not None and asked not in [leaf.path for leaf in leaves]:
            leaves.append(MappedField(asked, str | None))
        row = ROW.get(envelope or "", ())
        if row and not any(leaf.path[: len(row)] == row for leaf in leaves):
            leaves.append(MappedField(row, OBJECT))
        blocks = None if envelope or inside else partial(self._make, shape)
        super().__init__(mapping, features, shape, blocks, Layout(leaves), inside)
        self.reasons = {dotted(path): reason for path, reason in reasons.items()}
        self._ignores_tombstones = ignores_tombstones(envelope)
        self._envelope: Connect | CloudEvents | None = None
        if envelope == CLOUDEVENTS:
            self._envelope = CloudEvents(leaves, self.layout, reasons, mapping.max_bytes)
        elif envelope is not None:
            self._envelope = Connect(envelope, leaves, self.layout, reasons)

    def _make(self, shape: Shape) -> Blocks:
        from riparian.topics.formats.json.block import JsonBlockReader  # numba, which takes a while to import

        return JsonBlockReader(shape, self._is_good)

    def _is_good(self, value: bytes) -> bool:
        bad = Bad()
        self._decode_one(0, value, self.layout.decode, self.layout.empty, bad)
        return not bad

    def decode(self, batch: RawBatch, bad: Bad) -> Any:
        """The struct of each record; an empty one, and an entry in `bad`, where there is none. Or a block of them."""
        if self._envelope is None:
            block = self._block(batch.values, bad)
            return self._read_left(batch.listed().values, bad) if block is None else block
        batch = batch.listed()
        records = self._envelope.decode(batch, self._decode_all, bad)
        if self._ignores_tombstones and None in batch.values:
            for i, value in enumerate(batch.values):
                if value is None:
                    bad[i] = Ignored(*bad[i])
        return records

    def _read_left(self, values: list[Any], bad: Bad) -> list[Any]:
        return self._decode_all(values, self.layout.decode, self.layout.empty, bad)

    def _decode_all(
        self, values: Sequence[bytes | None], decode: Callable[[bytes], Any], empty: Any, bad: Bad
    ) -> list[Any]:
        """What `decode` makes of each value; `empty`, and an entry in `bad`, where it cannot."""
        try:
            # len(None) is a TypeError: a tombstone takes the other way as well.
            largest = max(map(len, values), default=0)  # type: ignore[arg-type]
            if largest <= self.max_bytes and (largest <= SHALLOW_BYTES or not any(map(too_deep, values))):  # type: ignore[arg-type]
                records = list(map(decode, values))  # type: ignore[arg-type]
                # The decoder does not look at the bytes of texts that it skips.
                if not all(map(bytes.isascii, values)):  # type: ignore[arg-type]
                    for i, value in enumerate(values):
                        if not is_utf8(value):  # type: ignore[arg-type]
                            records[i] = self._decode_one(i, value, decode, empty, bad)
                return records
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError):
            pass
        return [self._decode_one(i, value, decode, empty, bad) for i, value in enumerate(values)]

    def _decode_one(self, i: int, value: Any, decode: Callable[[bytes], Any], empty: Any, bad: Bad) -> Any:
        refused = no_record(value, self.max_bytes)
        if refused is not None:
            bad[i] = refused
        elif too_deep(value):
            bad[i] = r.TOO_DEEP, "nested more than 200 levels"
        elif not is_utf8(value):
            bad[i] = r.NOT_UTF8, "bytes that are not text"
        else:
            try:
                try:
                    return _decoded(value, decode)
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    plain = _plain(value)
                    if plain != value:
                        return self._decode_one(i, plain, decode, empty, bad)
                    bad[i] = self._explain(value, error)
            except RecursionError:  # the stack was nearly used up before: not the record's fault, but no reason to stop
                bad[i] = r.TOO_DEEP, "nested too deeply for the stack that is left"
        return empty

    def _explain(self, value: bytes, error: Exception) -> tuple[str, str]:
        """Reason and detail of a record that the typed decoder refuses. Broken JSON comes before wrong types, which
        the decoder may meet first."""
        if isinstance(error, msgspec.ValidationError):
            try:
                _SKIP(value)
            except msgspec.DecodeError as broken:
                error = broken
        message = str(error)
        if not isinstance(error, msgspec.ValidationError):
            if _NO_NUMBER.search(value):
                message += "; JSON has no NaN and no Infinity: write null for a number that is missing"
            return r.NOT_JSON, message[:200]
        at = _WHERE.search(message)
        if at is None:
            return r.WRONG_TYPE, _worded(message)[:200]
        where, detail = at[1], _worded(message[: at.start()])
        if detail.endswith(IN_TEXT) and (text := _text_for_number(value, where)) is not None:
            detail = f"expected a number, found {text!r}"
        detail = f"{where}: {detail}"
        if self._ignores_tombstones:
            where = where.removeprefix("payload.")
        if where in self.reasons:
            return self.reasons[where], detail[:200]
        return (r.NOT_FINITE if message.startswith("Number out of range") else r.WRONG_TYPE), detail[:200]


class _FeatureReader(_JsonReader):
    def __init__(self, mapping: Mapping) -> None:
        slots, inside_bag = of_features(mapping)
        instance = None if inside_bag is None else Layout(_leaves(inside_bag))
        super().__init__(mapping, mapping.features, slots, mapping.envelope, instance)
        self._parts = self._by_object([feature for feature in mapping.features if not feature.is_scalar])

    def _by_object(self, features: Sequence[Feature]) -> list[_ObjectFeatures]:
        columns: dict[Path, list[int]] = {}
        for i, feature in enumerate(features):
            columns.setdefault(feature.path[:-1], []).append(i)
        parts = []
        for parent, indices in columns.items():
            names = [self.inside.attribute(features[i].path) for i in indices]
            # The whole object as a tuple takes 0.12 µs for ten fields, picking them takes 0.27 µs.
            whole = names == self.inside.attributes(parent) and len(names) > 1
            parts.append(_ObjectFeatures(parent, indices, msgspec.structs.astuple if whole else attrgetter(*names)))
        return parts

    def _narrow(self, instances: list[Any]) -> Floats:
        n, m = len(instances), len(self._in_x)
        x: Floats | None = None
        for part in self._parts:
            objects = self.inside.objects(instances, part.parent)
            width = len(part.columns)
            values: Any = map(part.take, objects)
            if width > 1:
                values = chain.from_iterable(values)
            # None becomes NaN, true and false become 1 and 0.
            found = np.fromiter(values, np.float64, count=n * width).reshape(n, width)
            if width == m:
                return found
            x = np.empty((n, m)) if x is None else x
            x[:, part.columns] = found
        return np.zeros((n, 0)) if x is None else x


class _LabelReader(_JsonReader):
    def __init__(self, mapping: Mapping) -> None:
        super().__init__(mapping, (), of_labels(mapping), mapping.label_envelope)

    def is_null(self, batch: RawBatch, i: int, path: Path) -> bool:
        """Whether a field is null; of an event whose attributes stand in headers the value is the row."""
        value: Any = batch.values[i]
        value = value.lstrip(_BYTE_ORDER_MARK)
        if self._ignores_tombstones:
            value = with_row(value) or value
            value = _below(value, "payload") or value
        return _holds_null(value, path) or (isinstance(self._envelope, CloudEvents) and _holds_null(value, path[1:]))


def _holds_null(value: bytes | None, path: Path) -> bool:
    """Whether there is null at a path into a JSON value, and not nothing."""
    for name in path:
        value = None if value is None else _below(value, name)
    return value == b"null"


def _below(value: bytes, name: str) -> bytes | None:
    """The JSON of a field, or of an item; None where there is none."""
    try:
        if isinstance(name, Index):
            return bytes(_ITEMS(value)[name.number])
        return bytes(_FIELDS(value)[name])
    except (msgspec.MsgspecError, LookupError, RecursionError, UnicodeDecodeError):
        return None


class JsonCodec(ColumnDecoder):
    """The codec of JSON: see `topics.codecs.Codec`."""

    def __init__(self, mapping: Mapping) -> None:
        values = inside(mapping)
        self.readers = _FeatureReader(values), _LabelReader(values)
        super().__init__(mapping, *self.readers)
        self._writer = JsonPredictionWriter()
        self.encode_predictions = self._writer.write
        self.read_place = place_reader(mapping.further)

    def warm_up(self) -> None:
        for reader in self.readers:
            reader.warm_up()
        self._writer.warm_up()

    def writer(self, labels_inside: bool = False) -> Renderer:
        return Renderer(inside(self.mapping), labels_inside)

    read_prediction = staticmethod(read_object)
