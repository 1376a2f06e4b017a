"""Fields of a stream's records that stand in headers of the Kafka record, whatever the format of its value.

A path of one name that begins with `@header:` names a header. The last header of a name counts; one that is not there,
or has no value, is a missing field. Ids, nominal values and classes are the text of a header (UTF-8), a time is a
number or ISO 8601, and what has to be a number or a boolean is written as in JSON.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from riparian.topics import records as r
from riparian.topics.decoding.envelopes import CLOUDEVENTS
from riparian.topics.names import HEADER_TRACE, HEADER_TRACE_STATE
from riparian.topics.records import HEADER, Headers, Mapping, Path, RawBatch, Rows
from riparian.topics.vocabulary import JSON_NUMBER

# position in the batch -> (reason, detail); the first reason found stays.
Bad = dict[int, tuple[str, str]]

# Version, trace, parent and flags; later versions may have more.
_TRACE = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-[ -~]*)?")
MOST_TRACE_BYTES = 512  # largest of each of a trace's two headers, bytes
_JSON_NUMBER = re.compile(JSON_NUMBER.encode())
_BLANKS = b" \t\r\n"  # as JSON has them
_TRUTHS = (b"true", b"false", b"null")
_float = msgspec.json.Decoder(float).decode
_boolean = msgspec.json.Decoder(bool | None).decode
_any_number = msgspec.json.Decoder(int | float).decode

# What a header has to hold: TEXT for ids, nominal values and classes.
TEXT, TIME, NUMBER, BOOLEAN = "a text", "a time", "a number", "true or false"


class HeaderSelection(NamedTuple):
    """Of which records the headers are read."""

    features: bool
    labels: bool


def header_of(path: Path | None) -> str | None:
    """The name of the header that a path leads to; None where it leads into the value."""
    return path[0][len(HEADER) :] if path and path[0].startswith(HEADER) else None


def wanted(mapping: Mapping) -> HeaderSelection:
    """Whose headers a stream's mapping names."""

    def any_of(*paths: Path | None) -> bool:
        return any(header_of(path) is not None for path in paths)

    features = any_of(mapping.id, mapping.time, mapping.y, *(feature.path for feature in mapping.features))
    labels = any_of(mapping.label_id, mapping.label_time, mapping.label_y)
    return HeaderSelection(features or mapping.envelope == CLOUDEVENTS, labels or mapping.label_envelope == CLOUDEVENTS)


def inside(mapping: Mapping) -> Mapping:
    """The part of a mapping that stands in the values of records: all that a format has to know."""

    def kept(path: Path | None) -> Path | None:
        return None if header_of(path) is not None else path

    return replace(
        mapping,
        features=tuple(feature for feature in mapping.features if header_of(feature.path) is None),
        id=kept(mapping.id),
        time=kept(mapping.time),
        y=kept(mapping.y),
        label_id=kept(mapping.label_id),
        label_time=kept(mapping.label_time),
        label_y=kept(mapping.label_y) or (),
    )


def trace(headers: Headers) -> list[tuple[str, bytes | None]]:
    """The trace context (W3C) of a record, as its prediction carries it on: one that is none, or too large, is left
    out."""
    found = dict(headers) if headers else {}  # the last of a name counts, and most records have none
    parent, state = found.get(HEADER_TRACE), found.get(HEADER_TRACE_STATE)
    if parent is None or len(parent) > MOST_TRACE_BYTES or _TRACE.fullmatch(parent) is None:
        return []
    if state is None or len(state) > MOST_TRACE_BYTES or not state.decode("latin-1").isascii():
        return [(HEADER_TRACE, parent)]
    return [(HEADER_TRACE, parent), (HEADER_TRACE_STATE, state)]


def column(batch: RawBatch, name: str, kind: str, bad: Bad, most: int, reason: str | None = None) -> list[Any]:
    """What a header holds in each record of a batch, None where it is missing or refused.

    Parameters
    ----------
    kind : TEXT, TIME, NUMBER or BOOLEAN
    bad : where refused records go, unless they are there already.
    most : largest value in bytes.
    reason : of all that is refused but for what is no text, or too large. None: of its kind.
    """
    if batch.headers is None:
        if not len(batch):
            return []
        raise ValueError(f"the batch has no headers, and the stream asks for the header {name}")
    read = _READ[kind]
    found: list[Any] = [dict(headers).get(name) for headers in batch.headers]  # the last of a name counts
    for i, value in enumerate(found):
        if value is None:
            continue
        if len(value) > most:
            found[i], why = None, (r.TOO_LARGE, f"{len(value)} bytes, at most {most}")
        else:
            try:
                found[i] = read(value)
                continue
            except UnicodeDecodeError:
                found[i], why = None, (r.NOT_UTF8, "bytes that are not text")
            except (msgspec.DecodeError, ValueError) as error:
                huge = is_beyond(error)
                detail = "a number beyond float64" if huge else f"{value[:40].decode(errors='ignore')!r}"
                found[i], why = (
                    None,
                    (
                        reason or (r.NOT_FINITE if huge else r.WRONG_TYPE),
                        f"expected {kind}, found {detail}",
                    ),
                )
        bad.setdefault(i, (why[0], f"{HEADER}{name}: {why[1]}"))
    return found


def _time(value: bytes) -> str | int | float:
    return _any_number(value) if _JSON_NUMBER.fullmatch(value) else value.decode()


def is_beyond(error: Exception) -> bool:
    """Whether a number could not be read since float64 does not hold it."""
    return isinstance(error, OverflowError) or str(error).startswith("Number out of range")


def number(value: bytes) -> float | None:
    """A number as JSON writes it, perhaps between blanks; None of `null`. ValueError where it is none."""
    value.decode()
    bare = value.strip(_BLANKS)
    if bare == b"null":
        return None
    if _JSON_NUMBER.fullmatch(bare) is None:
        raise ValueError("not a number as JSON has them")
    return _float(bare)


def _truth(value: bytes) -> bool | None:
    value.decode()
    bare = value.strip(_BLANKS)
    # The decoder calls digits without end a huge number, whatever comes after them.
    if bare not in _TRUTHS and _JSON_NUMBER.fullmatch(bare) is None:
        raise ValueError("neither true nor false")
    truth: bool | None = _boolean(bare)
    return truth


_READ: dict[str, Callable[[bytes], Any]] = {TEXT: bytes.decode, TIME: _time, NUMBER: number, BOOLEAN: _truth}


class HeaderWriter:
    """The headers of the records that a stream reads, for replays: the inverse of `column`.

    Parameters
    ----------
    labels_inside : bool
        Whether labels go into the feature records.
    """

    def __init__(self, mapping: Mapping, labels_inside: bool = False) -> None:
        names = [header_of(feature.path) for feature in mapping.features]
        self._in_value = [i for i, name in enumerate(names) if name is None]
        self._features = [(name, i) for i, name in enumerate(names) if name is not None]
        self._id, self._time = header_of(mapping.id), header_of(mapping.time)
        self._y = header_of(mapping.y) if labels_inside else None
        self._label = tuple(map(header_of, (mapping.label_id, mapping.label_time, mapping.label_y)))
        self.wanted = wanted(mapping)

    def inside(self, rows: Rows) -> Rows:
        """The rows without what goes into headers."""
        if not self._features:
            return rows
        return Rows(rows.first, rows.ids, [rows.features[i] for i in self._in_value], rows.y, rows.sizes)

    def features(self, rows: Rows, times: Sequence[int]) -> list[Headers] | None:
        """The headers of each feature record; None where the stream reads none. times : ms since 1970."""
        if not self.wanted.features:
            return None
        columns: list[tuple[str | None, Sequence[bytes | None]]] = [
            (self._id, list(map(str.encode, rows.ids))),
            (self._time, [b"%d" % time for time in times]),
            (self._y, [None if y is None else _plain(y) for y in rows.y]),
            *((name, list(map(_plain, rows.features[i]))) for name, i in self._features),
        ]
        return _together(columns, len(rows))

    def labels(self, ids: Sequence[str], y: Sequence[str], times: Sequence[int]) -> list[Headers] | None:
        """The headers of each label record. y : JSON texts."""
        if not self.wanted.labels:
            return None
        values = list(map(str.encode, ids)), [b"%d" % time for time in times], list(map(_plain, y))
        return _together(list(zip(self._label, values, strict=True)), len(ids))


def _together(columns: list[tuple[str | None, Sequence[bytes | None]]], n: int) -> list[Headers]:
    """The headers of each record, without those that have no value."""
    named = [(name, values) for name, values in columns if name is not None]
    return [[(name, value) for name, values in named if (value := values[i]) is not None] for i in range(n)]


def _plain(text: str) -> bytes | None:
    """A JSON text as a header holds it: texts without quotes, null not at all."""
    if text == "null":
        return None
    return str(msgspec.json.decode(text)).encode() if text.startswith('"') else text.encode()
