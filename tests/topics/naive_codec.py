"""The decoder written straight from docs/stream-file.md, a record at a time, with the standard library: an oracle.

A record is judged by all its faults at once, so for a record that has several the oracle names every reason that
would do.
"""

import json
import math
from datetime import UTC, datetime
from typing import Any

from topics import records as r
from topics.records import Mapping, Path

MISSING = object()


class Naive:
    """Decodes features and labels of one stream; vocabularies are lists of canonical texts."""

    def __init__(self, mapping: Mapping, limits: dict[str, int], declared: dict[str, list[Any]]) -> None:
        self.mapping = mapping
        self.limits = limits
        self.closed = set(declared)
        self.texts: dict[str, list[str]] = {name: [] for name in [f.name for f in mapping.features] + ["class"]}
        for name, values in declared.items():
            self.texts[name] = [text_of(value) for value in values]

    def feature(self, key: bytes | None, value: bytes | None) -> tuple[set[str], Any]:
        """The reasons to reject a feature record, or none and (id, x, y, time)."""
        m = self.mapping
        found, reasons = self._parse(value)
        if reasons:
            return reasons, None
        wanted: list[tuple[str, str]] = []
        if key is not None and len(key) > 16_384:
            reasons.add(r.TOO_LARGE)
        i = self._id(found, key, m.id, reasons)
        t = self._time(found, m.time, reasons)
        if m.task == r.MULTI_INSTANCE:
            rows = [self._row(o, reasons, wanted) for o in self._instances(found, reasons)]
        else:
            if m.x and any(f.path[: len(m.x)] == m.x for f in m.features):
                self._object(found, m.x, reasons)
            rows = [self._row(found, reasons, wanted)]
        y: Any = None if m.y is None else self._label(found, m.y, reasons, wanted)
        self._admit(wanted, reasons)
        if reasons:
            return reasons, None
        rows = [[self._code(*v) if isinstance(v, tuple) else v for v in row] for row in rows]
        x = rows if m.task == r.MULTI_INSTANCE else rows[0]
        return reasons, (i, x, self._code(*y) if isinstance(y, tuple) else math.nan if y is None else y, t)

    def _instances(self, found: Any, reasons: set[str]) -> list[Any]:
        v = self._at(found, self.mapping.x, reasons)
        if v is None:
            reasons.add(r.MISSING_X)
        elif not isinstance(v, list):
            _mistyped(v, reasons)
        elif not v:
            reasons.add(r.EMPTY_BAG)
        else:
            if len(v) > self.mapping.max_instances:
                reasons.add(r.TOO_MANY_INSTANCES)
            for o in v:
                if not isinstance(o, dict):
                    _mistyped(o, reasons)
            return [o for o in v if isinstance(o, dict)]
        return []

    def _row(self, found: Any, reasons: set[str], wanted: list[tuple[str, str]]) -> list[Any]:
        x: list[Any] = []
        for feature in self.mapping.features:
            v = self._at(found, feature.path, reasons)
            if v is None:
                x.append(math.nan)
            elif feature.type == r.NUMERIC:
                x.append(self._number(v, r.NOT_FINITE, r.WRONG_TYPE, reasons))
            elif feature.type == r.BOOLEAN:
                if not isinstance(v, bool):
                    _mistyped(v, reasons)
                x.append(float(v) if isinstance(v, bool) else math.nan)
            elif isinstance(v, str | int) or (isinstance(v, float) and not _infinite(v)):
                wanted.append((feature.name, text_of(v)))
                x.append((feature.name, text_of(v)))
            else:
                reasons.add(r.NOT_FINITE if isinstance(v, float) else r.WRONG_TYPE)
        return x

    def label(self, key: bytes | None, value: bytes | None) -> tuple[set[str], Any]:
        """The reasons to reject a label record, or none and (id, y, time)."""
        m = self.mapping
        found, reasons = self._parse(value)
        if reasons:
            return reasons, None
        wanted: list[tuple[str, str]] = []
        i = self._id(found, key, m.label_id, reasons)
        t = self._time(found, m.label_time, reasons)
        y = self._label(found, m.label_y, reasons, wanted)
        if y is None:
            reasons.add(r.WRONG_LABEL)
        self._admit(wanted, reasons)
        if reasons:
            return reasons, None
        return reasons, (i, self._code(*y) if isinstance(y, tuple) else y, t)

    def _parse(self, value: bytes | None) -> tuple[Any, set[str]]:
        if value is None:
            return None, {r.TOMBSTONE}
        if not value:
            return None, {r.EMPTY}
        if len(value) > self.mapping.max_bytes:
            return None, {r.TOO_LARGE}
        try:
            text = value.decode()
        except UnicodeDecodeError:
            return None, {r.NOT_UTF8}

        def refuse(name: str) -> None:
            raise ValueError(name)

        try:
            found = json.loads(text, parse_constant=refuse)
        except ValueError:
            return None, {r.NOT_JSON}
        return found, (set() if isinstance(found, dict) else {r.WRONG_TYPE})

    def _at(self, found: Any, path: Path, reasons: set[str]) -> Any:
        for name in path[:-1]:
            found = found.get(name)
            if found is None:
                return None
            if not isinstance(found, dict):
                _mistyped(found, reasons)
                return None
        return found.get(path[-1])

    def _object(self, found: Any, path: Path, reasons: set[str]) -> None:
        v = self._at(found, path, reasons)
        if v is None:
            reasons.add(r.MISSING_X)
        elif not isinstance(v, dict):
            _mistyped(v, reasons)

    def _id(self, found: Any, key: bytes | None, path: Path | None, reasons: set[str]) -> str:
        if path is None:
            try:
                v: Any = None if key is None else key.decode()
            except UnicodeDecodeError:
                reasons.add(r.NOT_UTF8)
                return ""
        else:
            v = self._at(found, path, reasons)
        if v is None or v == "":
            reasons.add(r.MISSING_ID)
        elif isinstance(v, bool) or not isinstance(v, str | int):
            _mistyped(v, reasons)
        elif len(str(v)) > 1024:
            reasons.add(r.TOO_LONG)
        return str(v)

    def _time(self, found: Any, path: Path | None, reasons: set[str]) -> float | None:
        v = None if path is None else self._at(found, path, reasons)
        if v is None:
            return None
        if isinstance(v, str):
            try:
                moment = datetime.fromisoformat(v)
            except ValueError:
                reasons.add(r.WRONG_TIME)
                return None
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=UTC)
            return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000
        if isinstance(v, bool) or not isinstance(v, int | float):
            reasons.add(r.WRONG_TIME)
            return None
        ms = v * 1000 if abs(v) < 1e11 else v
        if abs(ms) >= 253402300800000:
            reasons.add(r.WRONG_TIME)
            return None
        return float(ms)

    def _number(self, v: Any, infinite: str, wrong: str, reasons: set[str]) -> float:
        if isinstance(v, bool) or not isinstance(v, int | float):
            reasons.add(wrong)
        elif _infinite(v):
            reasons.add(infinite)
        else:
            return float(v)
        return math.nan

    def _label(self, found: Any, path: Path, reasons: set[str], wanted: list[tuple[str, str]]) -> Any:
        v = self._at(found, path, reasons)
        if v is None:
            return None
        if self.mapping.task == r.REGRESSION:
            return self._number(v, r.WRONG_LABEL, r.WRONG_LABEL, reasons)
        if not isinstance(v, str | int | float) or (isinstance(v, float) and _infinite(v)):
            reasons.add(r.WRONG_LABEL)
            return None
        wanted.append(("class", text_of(v)))
        return "class", text_of(v)

    def _admit(self, wanted: list[tuple[str, str]], reasons: set[str]) -> None:
        new = dict.fromkeys(self.texts, 0)
        for name, text in dict.fromkeys(wanted):
            if text in self.texts[name]:
                continue
            new[name] += 1
            if name in self.closed:
                reasons.add(r.UNKNOWN_VALUE)
            elif len(self.texts[name]) + new[name] > self.limits[name]:
                reasons.add(r.NOMINAL_OVERFLOW)
            elif len(text) > 1024 or (name == "class" and len(json.dumps(text, ensure_ascii=False).encode()) - 2 > 128):
                reasons.add(r.TOO_LONG)

    def _code(self, name: str, text: str) -> float:
        if text not in self.texts[name]:
            self.texts[name].append(text)
        return float(self.texts[name].index(text))


def _mistyped(v: Any, reasons: set[str]) -> None:
    """A number that is too large for its place and not wanted there at all is either."""
    reasons.add(r.WRONG_TYPE)
    if isinstance(v, int | float) and _infinite(v):
        reasons.add(r.NOT_FINITE)


def _infinite(v: Any) -> bool:
    if isinstance(v, str):
        return False
    try:
        return math.isinf(float(v))
    except OverflowError:
        return True


def text_of(v: Any) -> str:
    """The text that stands for a value: 1, 1.0 and "1" are "1"; true and "true" are "true"."""
    if isinstance(v, bool | str):
        return str(v).lower() if isinstance(v, bool) else v
    if isinstance(v, float) and v == int(v) and abs(v) < 2**53:
        return str(int(v))
    return str(v)
