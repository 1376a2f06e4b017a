"""What becomes of a record, read out of docs/reference/records.md: strict, slow, a record at a time.

Written from that page with Python's json module, and without the codec, so that a difference between the two is a
mistake of one of them, or of the page. A record is judged by all its faults at once: where it has several, each of
their reasons will do.
"""

import json
import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from riparian.topics.decoding.paths import Index
from riparian.topics.records import Headers, Mapping, Path

HEADER = "@header:"
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
MAX_KEY = 16_384
MAX_DEPTH = 200
MAX_CHARACTERS = 1024


class Row(NamedTuple):
    """What is in a good record. instances : the values of each of its rows, a number or a text, None where missing
    (one row but for bags; none in labels). y : number or text, None where absent. time : ms, None where absent."""

    id: str
    instances: list[list[float | str | None]]
    y: float | str | None
    time: float | None


class Known(NamedTuple):
    """The values of a nominal feature, or the classes, by their texts in order of first sight.

    closed : none is learned. most : values. longest : bytes of a value's JSON text, None for any.
    """

    texts: list[str]
    closed: bool
    most: int
    longest: int | None = None


class Number(NamedTuple):
    """A number as it was written."""

    literal: str

    @property
    def whole(self) -> bool:
        """Whether it is written as an integer."""
        return re.fullmatch("-?[0-9]+", self.literal) is not None

    @property
    def value(self) -> float:
        return 0.0 if self.literal == "-0" else float(self.literal)  # an integer, and those have one zero


class Object(list[tuple[str, Any]]):
    """The fields of a JSON object in order, repeated ones too."""

    def last(self, name: str) -> Any:
        return next((value for key, value in reversed(self) if key == name), None)


class Reference:
    """Reads the records of one stream.

    Parameters
    ----------
    mapping : Mapping
    known : of each feature that is not numeric, by name; the classes as "class". Values of good records are added.
    """

    def __init__(self, mapping: Mapping, known: dict[str, Known]) -> None:
        self.mapping = mapping
        self.known = known

    def feature(self, key: bytes | None, value: bytes | None, headers: Headers = ()) -> tuple[set[str], Row | None]:
        """The reasons to refuse a feature record, or none and what is in it."""
        m, reasons = self.mapping, set[str]()
        record = _parse(value, m.max_bytes, reasons, is_copy=_is_copy(headers))
        if key is not None and len(key) > MAX_KEY:
            reasons.add("too-large")
        if record is None:
            return reasons, None
        bags = m.task == "multi-instance"
        features = {} if bags else {f.path: f.type for f in m.features}
        mapped: dict[Path, str] = {**features, **_places(m.id, m.time, m.y, self._label_type())}
        if bags:
            mapped[m.x] = "bag"
        elif m.x:
            mapped.setdefault(m.x, "object")
        self._check_types(record, (), _in_value(mapped), reasons)
        if reasons - {"too-large"}:
            return reasons, None
        self._take_headers(record, headers, mapped, reasons)
        found = _at(record, m.x)
        rows = found if bags else [record]
        if m.x and found is None:
            reasons.add("missing-x")
        elif bags and not found:
            reasons.add("empty-bag")
        elif bags and len(found) > m.max_instances:
            reasons.add("too-many-instances")
        if "missing-x" in reasons:
            rows = []
        new: dict[str, list[str]] = {}
        instances = [[self._take(_at(row, f.path), f.type, f.name, new, reasons) for f in m.features] for row in rows]
        y = self._take(None if m.y is None else _at(record, m.y), self._label_type(), "class", new, reasons)
        i, time = self._id(record, key, m.id, reasons), self._time(record, m.time, reasons)
        if reasons:
            return reasons, None
        self._learn(new)
        return reasons, Row(i, instances, y, time)

    def label(self, key: bytes | None, value: bytes | None, headers: Headers = ()) -> tuple[set[str], Row | None]:
        """The reasons to refuse a label record, or none and what is in it."""
        m, reasons = self.mapping, set[str]()
        record = _parse(value, m.max_bytes, reasons, isinstance(m.label_y[0], Index), _is_copy(headers))
        if record is None:
            return reasons, None
        mapped = _places(m.label_id, m.label_time, m.label_y, self._label_type())
        self._check_types(record, (), _in_value(mapped), reasons)
        if reasons:
            return reasons, None
        self._take_headers(record, headers, mapped, reasons)
        new: dict[str, list[str]] = {}
        if not _has(record, m.label_y):
            reasons.add("wrong-label")
        y = self._take(_at(record, m.label_y), self._label_type(), "class", new, reasons)
        i, time = self._id(record, key, m.label_id, reasons), self._time(record, m.label_time, reasons)
        if reasons:
            return reasons, None
        self._learn(new)
        return reasons, Row(i, [], y, time)

    def _take_headers(self, record: Object, headers: Headers, mapped: dict[Path, str], reasons: set[str]) -> None:
        """The headers that are mapped, as fields of the record: the last one of each name."""
        for path, kind in mapped.items():
            if path[0].startswith(HEADER):
                record[:] = [(name, value) for name, value in record if name != path[0]]
                given = [value for name, value in headers if name == path[0][len(HEADER) :]]
                value = self._of_header(given[-1], kind, reasons) if given and given[-1] is not None else None
                wrong = set() if value is None else _wrong(value, kind)
                reasons |= wrong
                if given:
                    record.append((path[0], None if wrong else value))

    def _of_header(self, value: bytes, kind: str, reasons: set[str]) -> Any:
        """A header as the JSON value that it stands for."""
        if len(value) > self.mapping.max_bytes:
            reasons.add("too-large")
            return None
        try:
            text = value.decode()
        except UnicodeDecodeError:
            reasons.add("not-utf8")
            return None
        if kind in ("id", "nominal", "class"):
            return text
        bare = text if kind == "time" else text.strip(" \t\r\n")
        if NUMBER.fullmatch(bare):
            return Number(bare)
        if kind == "time":
            return text
        return {"true": True, "false": False, "null": None}.get(bare, text)

    def _label_type(self) -> str:
        return "target" if self.mapping.task == "regression" else "class"

    def _check_types(self, record: Any, here: Path, mapped: dict[Path, str], reasons: set[str]) -> None:
        """Every value at a mapped place has to be of its type, also one that another of the same name comes after."""
        for name, value in _parts(record):
            place = (*here, name)
            kind = mapped.get(place)
            inside = any(len(path) > len(place) and path[: len(place)] == place for path in mapped)
            if value is None or (kind is None and not inside):
                continue
            if kind == "bag":
                if not isinstance(value, list) or isinstance(value, Object):
                    reasons |= _wrong(value, "object")
                    continue
                for instance in value:
                    if isinstance(instance, Object):
                        self._check_types(instance, (), {f.path: f.type for f in self.mapping.features}, reasons)
                    else:
                        reasons |= _wrong(instance, "object")
            elif inside or kind == "object":
                array = any(
                    isinstance(part, Index)
                    for path in mapped
                    for part in path[len(place) : len(place) + 1]
                    if path[: len(place)] == place
                )
                if isinstance(value, list) and isinstance(value, Object) != array:
                    self._check_types(value, place, mapped, reasons)
                else:
                    reasons |= _wrong(value, "object")
            elif kind is not None:
                reasons |= _wrong(value, kind)

    def _id(self, record: Object, key: bytes | None, path: Path | None, reasons: set[str]) -> str:
        if path is None:
            try:
                found = (key or b"").decode()
            except UnicodeDecodeError:
                reasons.add("not-utf8")
                return ""
        else:
            value = _at(record, path)
            found = "" if value is None else text_of(value)
        if not found:
            reasons.add("missing-id")
        if len(found) > MAX_CHARACTERS:
            reasons.add("too-long")
        return found

    def _time(self, record: Object, path: Path | None, reasons: set[str]) -> float | None:
        value = None if path is None else _at(record, path)
        try:
            return None if value is None else _milliseconds(value)
        except (ValueError, OverflowError):
            reasons.add("wrong-time")
            return None

    def _take(self, value: Any, kind: str, name: str, new: dict[str, list[str]], reasons: set[str]) -> Any:
        """A number or a text out of a JSON value; a text that is new goes into `new`."""
        if value is None:
            return None
        if kind in ("numeric", "target"):
            return value.value
        text, known, more = text_of(value), self.known[name], new.setdefault(name, [])
        if text in known.texts or text in more:
            return text
        if len(text) > MAX_CHARACTERS:
            reasons.add("too-long")
        if known.closed:
            reasons.add("unknown-value")
        elif len(known.texts) + len(more) >= known.most:
            reasons.add("nominal-overflow")
        if known.longest is not None and len(json.dumps(text, ensure_ascii=False).encode()) - 2 > known.longest:
            reasons.add("too-long")
        more.append(text)
        return text

    def _learn(self, new: dict[str, list[str]]) -> None:
        for name, texts in new.items():
            self.known[name].texts.extend(texts)


def text_of(value: Any) -> str:
    """The text under which a nominal value is known: a number that is whole counts as an integer below 2**53."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if value.whole:  # an integer of any length; JSON writes none with zeros before it
        return "0" if value.literal == "-0" else str(value.literal)
    number = value.value
    return str(int(number)) if number == int(number) and abs(number) < 2**53 else repr(number)


def _places(id_path: Path | None, time: Path | None, y: Path | None, label: str) -> dict[Path, str]:
    found = {id_path: "id", time: "time", y: label}
    return {path: kind for path, kind in found.items() if path is not None}


def _in_value(mapped: dict[Path, str]) -> dict[Path, str]:
    return {path: kind for path, kind in mapped.items() if not path[0].startswith(HEADER)}


def _wrong(value: Any, kind: str) -> set[str]:
    """Why a value cannot be of a type; an array or an object never can."""
    own = {"time": "wrong-time", "class": "wrong-label", "target": "wrong-label"}.get(kind)
    number, text, truth = isinstance(value, Number), isinstance(value, str), isinstance(value, bool)
    fits = {
        "numeric": number,
        "target": number,
        "nominal": number or text or truth,
        "class": number or text or truth,
        "boolean": truth,
        "id": text or (number and value.whole),
        "time": text or number,
        "object": False,
    }[kind]
    huge = number and not math.isfinite(value.value)
    if not fits:
        return {own or "wrong-type"} | ({"not-finite"} if huge else set())
    if huge and not (kind in ("id", "nominal", "class") and value.whole):
        return {own or "not-finite"}
    return set()


def _at(record: Any, path: Path) -> Any:
    found: Any = record
    for name in path:
        if isinstance(found, Object):
            found = found.last(name)
        elif found is not None:
            found = dict(_parts(found)).get(name)
    return found


def _has(record: Any, path: Path) -> bool:
    """Whether the field is there, also where it is null."""
    above = _at(record, path[:-1])
    return above is not None and path[-1] in dict(above if isinstance(above, Object) else _parts(above))


def _parts(record: Any) -> list[tuple[str, Any]]:
    """The fields of an object, or the places of an array."""
    if isinstance(record, Object):
        return [(name, value) for name, value in record if not isinstance(name, Index)]
    return [(Index(f"[{i}]"), value) for i, value in enumerate(record)]


def _milliseconds(value: Any) -> float:
    """ms since 1970 of an event time. ValueError, OverflowError where it is none."""
    if isinstance(value, Number):
        time = value.value * 1000 if abs(value.value) < 1e11 else value.value
    else:
        moment = datetime.fromisoformat(value)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        time = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) / 1000  # rounded once
    if not abs(time) < 253_402_300_800_000:  # the year 10000, and as far before 1970
        raise ValueError("beyond the year 9999")
    return time


def _is_copy(headers: Headers) -> bool:
    """Whether the last header of its name says why the record that this one is a copy of could not be read."""
    return dict(headers).get("riparian-unread") is not None


def _parse(value: bytes | None, max_bytes: int, reasons: set[str], array: bool = False, is_copy: bool = False) -> Any:
    """The record, None where it is none. array : it has to be one. is_copy : where it has no value."""
    if not value:
        reasons.add("empty" if value is not None else "unreadable-batch" if is_copy else "tombstone")
        return None
    if len(value) > max_bytes:
        reasons.add("too-large")
        return None
    try:
        text = value.decode()
    except UnicodeDecodeError:
        reasons.add("not-utf8")
        text = value.decode(errors="replace")
    text = text.lstrip("\ufeff")  # byte order marks
    if not text:
        reasons.add("empty")
        return None
    if _depth(text) > MAX_DEPTH:
        reasons.add("too-deep")
        if "}" * MAX_DEPTH not in text and "]" * MAX_DEPTH not in text:
            reasons.add("not-json")
        return None
    try:
        record = json.loads(
            text, parse_int=Number, parse_float=Number, parse_constant=_refuse, object_pairs_hook=_object
        )
    except ValueError:
        reasons.add("not-json")
        return None
    if not _is_text(record):
        reasons.add("not-json")
    if not isinstance(record, list) or isinstance(record, Object) == array:
        reasons.add("wrong-type")
    return None if reasons else record


def _is_text(value: Any) -> bool:
    """Whether all texts in a value are such: half a pair of surrogates (`\\ud800`) is no character."""
    if isinstance(value, Object):
        return all(_is_text(name) and _is_text(part) for name, part in value)
    if isinstance(value, list):
        return all(map(_is_text, value))
    return not isinstance(value, str) or not any("\ud800" <= character <= "\udfff" for character in value)


def _object(pairs: list[tuple[str, Any]]) -> Object:
    return Object(pairs)


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _depth(text: str) -> int:
    """The most brackets that are open at a time, outside of texts."""
    depth = most = 0
    in_text = escaped = False
    for character in text:
        if in_text:
            in_text = escaped or character != '"'
            escaped = not escaped and character == "\\"
        elif character == '"':
            in_text = True
        elif character in "[{":
            depth += 1
            most = max(most, depth)
        elif character in "]}":
            depth -= 1
    return most
