"""Envelopes in JSON: the typed record inside of Debezium's, Kafka Connect's and CloudEvents' JSON.

Beside a `schema`, Connect writes decimals as base64 bytes whose scale stands in the schema, and times in units that do.
A schema is looked into once, and the records that come with it are decoded by a plan: the types of the fields that are
mapped, and what is made of their values.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from riparian.topics import records as r
from riparian.topics.decoding import headers
from riparian.topics.decoding.columns import Bad
from riparian.topics.decoding.envelopes import CLOUDEVENTS, DEBEZIUM, OP, ROW, SPECVERSION, Ignored, judged
from riparian.topics.decoding.paths import Index, dotted
from riparian.topics.decoding.times import UNITS, in_unit, is_no_moment
from riparian.topics.formats.json.layout import Layout, MappedField
from riparian.topics.records import Path, RawBatch
from riparian.topics.vocabulary import UNAVAILABLE

Decode = Callable[[bytes], Any]
# Decodes values; what cannot be decoded is the `empty` given, with an entry in `bad`.
DecodeAll = Callable[[Sequence[bytes | None], Decode, Any, Bad], list[Any]]

ID = str | int | None
NUMBER = float | None
BOOLEAN = bool | None
SCALAR = str | int | float | bool | None
TIME = str | float | None  # not int, of which the decoder takes those beyond float64

_raw = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

MOST_PLANS = 64
MOST_SCHEMA_BYTES = 65_536  # largest schema that is kept, bytes
MOST_PLACES = 1000
MOST_BITS = 14_000  # bits of a whole number: one of more than 4,300 digits has no text

_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_VARIABLE = "io.debezium.data.VariableScaleDecimal"


class _Variable(msgspec.Struct):
    """A decimal that brings its scale along."""

    value: bytes
    scale: int = 0


class Conversion(NamedTuple):
    """What is made of the values at a path. name : of the logical type. scale : of decimals."""

    path: Path
    name: str
    scale: int


class EnvelopePlan(NamedTuple):
    decode: Decode
    conversions: tuple[Conversion, ...]


class Connect:
    """`{"schema", "payload"}`, and Debezium's changes with or without it.

    Parameters
    ----------
    envelope : "debezium" or "connect"
    leaves : of the record inside. layout : of these.
    reasons : path -> the reason for a value that is not what it has to be.
    """

    def __init__(self, envelope: str, leaves: Sequence[MappedField], layout: Layout, reasons: dict[Path, str]) -> None:
        self._debezium = envelope == DEBEZIUM
        self._leaves, self.layout, self._reasons = list(leaves), layout, reasons
        self._types = {leaf.path: leaf.type for leaf in leaves}
        self._by_conversions: dict[tuple[Conversion, ...], EnvelopePlan] = {}
        self._by_schema: dict[bytes, EnvelopePlan] = {}
        self._schema, self._plan = b"", self._made(())
        self.empty = self._wrapped(layout)()
        self._only_schema: Decode = msgspec.json.Decoder(
            msgspec.defstruct("OnlySchema", [("schema", msgspec.Raw, msgspec.Raw())], gc=False)
        ).decode

    def _wrapped(self, layout: Layout) -> Any:
        fields: list[tuple[str, Any, Any]] = [
            ("payload", layout.type | None | msgspec.UnsetType, msgspec.UNSET),
            ("schema", msgspec.Raw, msgspec.Raw()),
        ]
        # Debezium's record may stand at the top itself.
        bases = (layout.type,) if self._debezium else None
        return msgspec.defstruct("Wrapped", fields, bases=bases, gc=False, eq=False)

    # -- plans -------------------------------------------------------------------------------------------------

    def _made(self, conversions: tuple[Conversion, ...]) -> EnvelopePlan:
        plan = self._by_conversions.get(conversions)
        if plan is None:
            layout = self.layout
            if conversions:
                names = {conversion.path: conversion.name for conversion in conversions}
                layout = Layout(
                    [MappedField(p, _type(kind, names[p]) if p in names else kind) for p, kind in self._leaves]
                )
            plan = EnvelopePlan(msgspec.json.Decoder(self._wrapped(layout)).decode, conversions)
            if len(self._by_conversions) >= MOST_PLANS:
                self._by_conversions.clear()
            self._by_conversions[conversions] = plan
        return plan

    def _of_schema(self, schema: bytes) -> EnvelopePlan:
        plan = self._by_schema.get(schema)
        if plan is None:
            try:
                described = msgspec.json.decode(schema) if schema else None
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                described = None
            found = (_conversion(described, path, kind) for path, kind in self._leaves)
            plan = self._made(tuple(one for one in found if one is not None))
            if len(schema) <= MOST_SCHEMA_BYTES:
                if len(self._by_schema) >= MOST_PLANS:
                    self._by_schema.clear()
                self._by_schema[schema] = plan
        return plan

    # -- decoding ----------------------------------------------------------------------------------------------

    def decode(self, batch: RawBatch, decode_all: DecodeAll, bad: Bad) -> list[Any]:
        values, plan = batch.values, self._plan
        wrapped = decode_all(values, plan.decode, self.empty, bad)
        plans = [plan] * len(values)
        known, schemas = self._schema, [bytes(one.schema) for one in wrapped]
        if bad or set(schemas) != {known}:
            for i, schema in enumerate(schemas):
                if i in bad:
                    if bad[i][0] in (r.TOMBSTONE, r.TOO_DEEP, r.TOO_LARGE) or not values[i]:
                        continue
                    try:
                        schema = bytes(self._only_schema(values[i] or b"").schema)
                    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                        continue
                if self._debezium and i in bad and (whole := with_row(values[i] or b"")) is not None:
                    again: Bad = {}
                    plans[i] = self._of_schema(schema)
                    (one,) = decode_all([whole], plans[i].decode, self.empty, again)
                    if not again:
                        bad.pop(i)
                        wrapped[i] = one
                    continue
                if schema != known:
                    plans[i] = self._plan = self._of_schema(schema)
                    self._schema = schema
                if plans[i] is not plan:
                    again = {}
                    bad.pop(i, None)
                    (wrapped[i],) = decode_all([values[i]], plans[i].decode, self.empty, again)
                    if again:
                        bad[i] = again[0]
        records = [self._inside(i, one, bad) for i, one in enumerate(wrapped)]
        for own in {id(used): used for used in plans}.values():
            if own.conversions:
                self._convert(own, [i for i, used in enumerate(plans) if used is own], records, bad)
        if self._debezium:
            self._judge(records, bad)
        return records

    def _inside(self, i: int, wrapped: Any, bad: Bad) -> Any:
        found = wrapped.payload
        if found is msgspec.UNSET:
            if self._debezium:
                return wrapped
            bad.setdefault(i, (r.WRONG_ENVELOPE, "payload: expected a schema and a payload, found no payload"))
        elif found is not None:
            return found
        else:
            bad.setdefault(i, Ignored(r.TOMBSTONE, "the payload is null"))
        return self.layout.empty

    def _judge(self, records: list[Any], bad: Bad) -> None:
        op, row = self.layout.attribute(OP), self.layout.attribute(ROW[DEBEZIUM])
        for i, record in enumerate(records):
            found = getattr(record, op)
            if (found == "c" or found == "r" or found == "u") and getattr(record, row) is not None:
                continue
            why = judged(None if found is None else str(found), getattr(record, row) is not None)
            if why is not None:
                bad.setdefault(i, why)
                records[i] = self.layout.empty

    def _convert(self, plan: EnvelopePlan, chosen: list[int], records: list[Any], bad: Bad) -> None:
        for path, name, scale in plan.conversions:
            parents = self.layout.objects([records[i] for i in chosen], path[:-1])
            attribute, kind = self.layout.attribute(path), self._types[path]
            for i, parent in zip(chosen, parents, strict=True):
                value = getattr(parent, attribute)
                if value is None or i in bad:
                    continue
                made = None
                try:
                    made = _converted(value, kind, name, scale)
                except OverflowError:
                    bad[i] = self._reasons.get(path, r.NOT_FINITE), f"{dotted(path)}: a number beyond float64"
                except ValueError as error:
                    bad[i] = self._reasons.get(path, r.WRONG_TYPE), f"{dotted(path)}: {error}"
                setattr(parent, attribute, made)


def with_row(value: bytes) -> bytes | None:
    """A change of MongoDB's, in which the row is a JSON text, with the row itself; None of any other."""
    try:
        outer = _raw(value)
        inner = _raw(outer["payload"]) if "payload" in outer else outer
        row = msgspec.json.decode(inner.get("after", b"null"))
        if not isinstance(row, str) or not isinstance(msgspec.json.decode(row), dict):
            return None
        inner["after"] = msgspec.Raw(row.encode())
        if inner is not outer:
            outer["payload"] = msgspec.Raw(msgspec.json.encode(inner))
        return msgspec.json.encode(outer)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None


def _type(kind: Any, name: str) -> Any:
    """What the decoder accepts where a schema has a logical type."""
    if name == _VARIABLE:
        return _Variable | None
    if name in UNITS or is_no_moment(name):  # nanoseconds are integers that float64 does not hold
        return str | int | float | None
    if name == _DECIMAL:  # numbers as well: JsonConverter's decimal.format=NUMERIC
        return {NUMBER: bytes | float | None, ID: bytes | int | None}.get(kind, bytes | int | float | None)
    return kind


def _conversion(schema: Any, path: Path, kind: Any) -> Conversion | None:
    """What a schema declares of the field at a path, as far as something is to be made of it."""
    for part in path:
        if not isinstance(schema, dict):
            return None
        if isinstance(part, Index):
            schema = schema.get("items")
            continue
        fields = schema.get("fields")
        named = fields if isinstance(fields, list) else []
        schema = next((field for field in named if isinstance(field, dict) and field.get("field") == part), None)
    if not isinstance(schema, dict) or kind not in (ID, NUMBER, SCALAR, TIME):
        return None
    name = schema.get("name")
    if name == _VARIABLE and schema.get("type") == "struct":
        return Conversion(path, _VARIABLE, 0)
    if name == _DECIMAL and schema.get("type") == "bytes":
        parameters = schema.get("parameters")
        scale = str(parameters.get("scale")) if isinstance(parameters, dict) else ""
        known = re.fullmatch("-?[0-9]{1,4}", scale, re.ASCII) is not None and abs(int(scale)) <= MOST_PLACES
        return Conversion(path, _DECIMAL, int(scale)) if known else None
    if kind == TIME and isinstance(name, str) and (name in UNITS or is_no_moment(name)):
        return Conversion(path, name, 0)
    return None


def _converted(value: Any, kind: Any, name: str, scale: int) -> Any:
    """ValueError, OverflowError where nothing can be made of it."""
    if name in UNITS:
        if isinstance(value, str):
            raise ValueError(f"expected a number, found {value[:40]!r}")
        return in_unit(value, UNITS[name])
    if is_no_moment(name):
        if isinstance(value, str):  # ISO 8601, such as a ZonedTimestamp
            return value
        raise ValueError(f"expected a moment, found a number of the type {name[:80]}")
    if isinstance(value, _Variable):
        value, scale = value.value, value.scale
        if abs(scale) > MOST_PLACES:
            raise ValueError(f"a decimal of {scale} places, at most {MOST_PLACES}")
    if not isinstance(value, bytes):
        return value
    if value == UNAVAILABLE.encode():
        return None
    whole = int.from_bytes(value, "big", signed=True)
    if scale <= 0 and kind != NUMBER:
        whole *= 10**-scale
        if whole.bit_length() > MOST_BITS:
            raise OverflowError
        return whole
    if kind == ID:
        raise ValueError(f"expected a text or an integer, found a decimal of {scale} places")
    return whole / 10**scale if scale > 0 else float(whole * 10**-scale)


class CloudEvents:
    """Events with their data inside (structured mode), or around it in headers (binary mode).

    Parameters
    ----------
    as `Connect`
    max_bytes : int
        Largest header that is read.
    """

    def __init__(self, leaves: Sequence[MappedField], layout: Layout, reasons: dict[Path, str], max_bytes: int) -> None:
        self.layout, self._reasons, self._max_bytes = layout, reasons, max_bytes
        (data,) = ROW[CLOUDEVENTS]
        # An attribute of an event is no object.
        self._attributes = [
            leaf for leaf in leaves if leaf.path[0] != data and leaf.path != SPECVERSION and len(leaf.path) == 1
        ]
        self._row, self._empty_row = layout.decoder((data,))
        self._data, self._version = layout.attribute((data,)), layout.attribute(SPECVERSION)

    def decode(self, batch: RawBatch, decode_all: DecodeAll, bad: Bad) -> list[Any]:
        if batch.headers is None:
            if not len(batch):
                return []
            raise ValueError("the batch has no headers, in which CloudEvents say how they are laid out")
        records: list[Any] = [self.layout.empty] * len(batch)
        structured, binary = list[int](), list[int]()
        for i, about in enumerate(batch.headers):
            known = dict(about)
            kind = (known.get("content-type") or b"").strip().lower()
            if kind.startswith(b"application/cloudevents-batch"):
                bad[i] = r.WRONG_ENVELOPE, "content-type: a batch of events; send one event a record"
            elif kind.startswith(b"application/cloudevents") or "ce_specversion" not in known:
                structured.append(i)
            else:
                binary.append(i)
        self._fill(structured, self.layout.decode, self.layout.empty, batch, decode_all, records, bad)
        for i in structured:
            if i not in bad:
                why = self._why(records[i])
                if why is not None:
                    bad[i], records[i] = (r.WRONG_ENVELOPE, why), self.layout.empty
        self._fill(binary, self._row, self._empty_row, batch, decode_all, records, bad)
        self._from_headers(binary, batch, records, bad)
        return records

    @staticmethod
    def _fill(
        chosen: list[int],
        decode: Decode,
        empty: Any,
        batch: RawBatch,
        decode_all: DecodeAll,
        records: list[Any],
        bad: Bad,
    ) -> None:
        own: Bad = {}
        for i, record in zip(chosen, decode_all([batch.values[i] for i in chosen], decode, empty, own), strict=True):
            records[i] = record
        bad.update({chosen[k]: why for k, why in own.items()})

    def _why(self, event: Any) -> str | None:
        if getattr(event, self._version) is None:
            return "specversion: neither the record nor its headers (ce_specversion) are an event's"
        if getattr(event, self._data) is None:
            return "data: the event has no JSON data (data_base64 is not read)"
        return None

    def _from_headers(self, chosen: list[int], batch: RawBatch, records: list[Any], bad: Bad) -> None:
        for i in chosen:
            event = self.layout.type()
            setattr(event, self._data, records[i])
            records[i] = event
        about = batch.headers or []
        part = RawBatch([], [], [], [], [about[i] for i in chosen])  # nothing but the headers is looked at
        for path, kind in self._attributes:
            own: Bad = {}
            read = {NUMBER: headers.NUMBER, BOOLEAN: headers.BOOLEAN, TIME: headers.TIME}.get(kind, headers.TEXT)
            found = headers.column(part, f"ce_{dotted(path)}", read, own, self._max_bytes, self._reasons.get(path))
            attribute = self.layout.attribute(path)
            for i, value in zip(chosen, found, strict=True):
                setattr(records[i], attribute, value)
            for k, why in own.items():
                bad.setdefault(chosen[k], why)
