"""Records against the reference: the same ones taken, with the same values, and the same ones refused."""

import json
import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from riparian.app.stream_file.spec import Spec, build
from riparian.topics.decoding.headers import header_of
from riparian.topics.decoding.paths import Index
from riparian.topics.names import HEADER_SOURCE, HEADER_UNREAD
from riparian.topics.records import Mapping, Path
from riparian.topics.vocabulary import Vocabulary
from tests.fuzz import letters, mutate
from tests.fuzz.decoded import Record, RecordTarget, batch_of, decode, read, write
from tests.fuzz.mutate import Random, pick
from tests.fuzz.reference import Known, Reference, Row

_MIXED = {
    "a": "numeric",
    "b": "numeric",
    "c": {"type": "nominal", "max_values": 6},
    "d": {"type": "nominal", "values": ["red", 1, 2.5, True, "é"]},
    "age": {"type": "numeric", "from": "customer.age"},
    "kind": {"type": "nominal", "from": "customer.of.kind", "max_values": 3},
    "new": {"type": "boolean", "from": "customer.new"},
}
_NUMERIC = dict.fromkeys("abcdefgh", "numeric")

# Every form that records can have: where things stand, of which type they are, and the task.
STREAMS: dict[str, dict[str, Any]] = {
    "numbers": {"task": "classification", "features": _NUMERIC},
    "mixed": {"task": "classification", "features": _MIXED, "record": {"time": "ts"}, "label": {"time": "ts"}},
    "flat": {
        "task": "regression",
        "features": {"a": "numeric", "b": "boolean", "c": "nominal"},
        "record": {"x": "", "id": "@key", "y": None},
        "label": {"id": "@key", "y": "value"},
    },
    "regression": {"task": "regression", "features": _NUMERIC, "record": {"time": "at.ms"}, "label": {"time": "t"}},
    "closed": {
        "task": "classification",
        "features": {"a": "numeric", "c": {"type": "nominal", "values": ["u", "v", 3]}},
        "classes": ["UP", "DOWN", 1, False],
        "record": {"id": "meta.id", "x": "payload.x", "y": "payload.y", "time": "meta.time", "max_bytes": 400},
        "label": {"id": "meta.id", "y": "payload.y", "time": "meta.time"},
    },
    "learned": {
        "task": "classification",
        "features": {"c": {"type": "nominal", "max_values": 2}, "e": "boolean"},
        "max_classes": 3,
        "max_class_bytes": 8,
        "record": {"x": "", "y": ["the.class"]},
        "label": {"y": ["the.class"]},
    },
    "inside": {
        "task": "classification",
        "topics": {"labels": None},
        "features": {"total": "numeric", "n": {"type": "boolean", "from": "customer.new"}},
        "classes": [False, True],
        "record": {"id": "@key", "time": "created_at", "x": "payload", "y": "outcome.fraud"},
    },
    "arrays": {
        "task": "classification",
        "features": {
            "a": {"type": "numeric", "from": "x[0].a"},
            "b": {"type": "nominal", "max_values": 4, "from": "x[2].b"},
            "c": {"type": "boolean", "from": "x[2].c[1][0]"},
            "d": {"type": "numeric", "from": ["a[0]"]},
        },
        "classes": ["UP", "DOWN"],
        "record": {"id": "ids[1]", "time": "x[2].t", "y": "ids[3]"},
        "label": {"id": "[0]", "y": "[2].y"},
    },
    "headers": {
        "task": "classification",
        "features": {
            "a": "numeric",
            "n": {"type": "numeric", "from": "@header:n"},
            "b": {"type": "boolean", "from": "@header:b"},
            "c": {"type": "nominal", "max_values": 5, "from": "@header:c"},
        },
        "max_classes": 4,
        "record": {"id": "@header:ce_id", "time": "@header:ce_time", "y": "@header:y", "max_bytes": 1100},
        "label": {"id": "@header:ce_id", "time": "@header:ce_time"},
    },
    "all-in-headers": {
        "task": "regression",
        "features": {
            "a": "numeric",
            "n": {"type": "numeric", "from": "@header:n"},
            "b": {"type": "boolean", "from": "@header:b"},
        },
        "record": {"x": "", "id": "@key", "time": "@header:ce_time", "y": "@header:y"},
        "label": {"id": "@header:ce_id", "time": "@header:ce_time", "y": "@header:y"},
    },
    "bags": {
        "task": "multi-instance",
        "features": {
            "a": "numeric",
            "c": {"type": "nominal", "max_values": 3},
            "n": {"type": "numeric", "from": "at.n"},
        },
        "classes": ["no", "yes"],
        "record": {"x": "bag", "time": "ts", "max_instances": 4},
        "label": {"id": "@key"},
    },
    "bags-of-numbers": {
        "task": "multi-instance",
        "features": _NUMERIC,
        "classes": [0, 1],
        "record": {"x": "a.b", "y": None},
    },
}
_HEADER_VALUES = (
    *(
        b"",
        b"7",
        b"-0",
        b"1.5e3",
        b" 2 ",
        b"true",
        b"false",
        b"null",
        b"1e999",
        b"NaN",
        b"0x1",
        b'"u"',
        b"\xff",
        b"[1]",
    ),
    *("é".encode(), b"u", b"red", b"UP", b"2024-05-01", b"1700000000", b"x" * 1025, b"1_0", b"\xc0\x80", b"9" * 401),
    *(b"x" * 39 + "é".encode() * 9, "é".encode() * 40, b"9" * 400 + b"#", b"-1e999x", b"\ttrue\r\n", b"false\0"),
)
# Integers beyond float64, of a text that is too long, and of more digits than Python or the decoder reads.
_LONG_NUMBERS = (*(b"9" * n for n in (309, 1024, 1025, 4300, 4301, 9000)), b"-" + b"9" * 4300, b"9" * 4301 + b".5")
_TEXTS = ("u", "v", "red", "é", "1", "true", "2.5", "new one", "")
_IDS = (*("7", 7, -0, "a", 10**20, "é" * 1024, "é" * 1025), "x" * 1024)
_CLASSES = ("UP", "DOWN", "no", "yes", 0, 1, 1.0, True, False, "a long class", 'qu"ote', "\u2028\0")
_TIMES = (
    *(1_700_000_000, 1_700_000_000_123, 0, 1e11, 99_999_999_999.75),
    *("2024-05-01T12:00:00Z", "2024-05-01", "2024-05-09T23:37:20.368547Z"),
)


@cache
def stream(name: str) -> Spec:
    return build({"name": "fuzz", "champion": "last-label", **STREAMS[name]})


def _set(record: dict[str, Any], path: Path, value: Any) -> None:
    """Objects and arrays on the way are made, these by names such as "[0]" first."""
    for name in path[:-1]:
        record = record.setdefault(name, {})
    record[path[-1]] = value


def _with_arrays(rng: Random, value: Any) -> Any:
    """The record with its arrays as such, some too short, some longer than what is mapped."""
    if isinstance(value, list):
        return [_with_arrays(rng, part) for part in value]
    if not isinstance(value, dict):
        return value
    if not any(isinstance(name, Index) for name in value):
        return {name: _with_arrays(rng, part) for name, part in value.items()}
    by_place = {int(name[1:-1]): part for name, part in value.items() if isinstance(name, Index)}
    n = 1 + max(by_place) + int(rng.integers(-1, 2))
    return [_with_arrays(rng, by_place.get(i, pick(rng, (None, 0, "", {}, [])))) for i in range(n)]


def _values(rng: Random, mapping: Mapping, into: dict[str, Any]) -> None:
    for feature in mapping.features:
        if rng.random() < 0.9:
            number: Any = pick(
                rng, (float(rng.normal()), int(rng.integers(-9, 10**12)), None, float(rng.random() * 1e-300))
            )
            text = pick(rng, (*_TEXTS, 1, 2.5, True, None))
            value = {"numeric": number, "boolean": pick(rng, (True, False, None)), "nominal": text}[feature.type]
            _set(into, feature.path, value)


def valid(rng: Random, mapping: Mapping, topic: str) -> dict[str, Any]:
    """A record that is good, or nearly so: values and ids may be too many or too long."""
    record: dict[str, Any] = {}
    features = topic == "features"
    i, y, time = (
        (mapping.id, mapping.y, mapping.time) if features else (mapping.label_id, mapping.label_y, mapping.label_time)
    )
    if i is not None:
        _set(record, i, pick(rng, _IDS))
    if y is not None and (not features or rng.random() < 0.5):
        _set(record, y, float(rng.normal()) if mapping.task == "regression" else pick(rng, _CLASSES))
    if time is not None and rng.random() < 0.9:
        _set(record, time, pick(rng, _TIMES))
    if features and mapping.task == "multi-instance":
        bag: list[dict[str, Any]] = [{} for _ in range(int(rng.integers(6)))]
        for instance in bag:
            _values(rng, mapping, instance)
        _set(record, mapping.x, bag)
    elif features:
        if mapping.x:
            _set(record, mapping.x, {})
        _values(rng, mapping, record)
    record = _with_arrays(rng, record)
    if rng.random() < 0.3 and isinstance(record, dict):
        record["unmapped"] = pick(rng, mutate.SCALARS)
    return record


def _repeat(rng: Random, data: bytes) -> bytes:
    """A field once more, before or after: with another value, or a whole record inside of it."""
    names = [data[m:n] for m, n in _names(data)]
    opened, closed = ([m for m in range(len(data)) if data[m] == bracket] for bracket in b"{}")
    if not names or not opened or not closed:
        return data
    value = json.dumps(pick(rng, (*mutate.SCALARS, {}, [], {"a": 1}, [{"a": "1"}]))).encode()
    if rng.random() < 0.1:
        value = pick(rng, _LONG_NUMBERS)
    field = pick(rng, names) + b":" + value
    if rng.random() < 0.5:
        place = pick(rng, opened) + 1
        return data[:place] + field + b"," + data[place:]
    place = pick(rng, closed)
    return data[:place] + b"," + field + data[place:]


def _names(data: bytes) -> list[tuple[int, int]]:
    found, start = [], data.find(b'"')
    while start >= 0:
        stop = data.find(b'"', start + 1)
        if stop < 0:
            break
        found.append((start, stop + 1))
        start = data.find(b'"', stop + 1)
    return found


def _record(rng: Random, mapping: Mapping, topic: str) -> bytes | None:
    record: Any = valid(rng, mapping, topic)
    for _ in range(int(rng.integers(0, 3))):
        record = mutate.of_value(rng, record)
    style: dict[str, Any] = pick(rng, ({}, {"ensure_ascii": False}, {"separators": (",", ":")}, {"indent": 1}))
    data = json.dumps(record, **style).encode("utf-8", "surrogatepass")
    kind = rng.random()
    if kind < 0.35:
        for _ in range(int(rng.integers(1, 4))):
            data = mutate.of_bytes(rng, data)
    elif kind < 0.5:
        data = _repeat(rng, data)
    elif kind < 0.52:
        depth = int(rng.integers(190, 215))
        data = data[:-1] + b',"deep":' + b'{"":' * (depth // 2) + b"[" * (depth - depth // 2)
        data += b"]" * (depth - depth // 2) + b"}" * (depth // 2) + b"}"
    elif kind < 0.54:
        return None if rng.random() < 0.7 else b""
    return data


def _headers(rng: Random, mapping: Mapping) -> list[tuple[str, bytes | None]]:
    """Those that the stream reads, some twice, and others."""
    of_labels = mapping.label_id, mapping.label_time, mapping.label_y
    paths = (mapping.id, mapping.time, mapping.y, *of_labels, *(feature.path for feature in mapping.features))
    names = list(dict.fromkeys(name for path in paths if (name := header_of(path)) is not None))
    found: list[tuple[str, bytes | None]] = []
    for name in (*names, *([pick(rng, (*names, "", "é", HEADER_SOURCE))] if names else [])):
        value: bytes | None = pick(rng, _HEADER_VALUES) if rng.random() < 0.9 else None
        if name == "ce_id" and rng.random() < 0.8:
            value = b"i%d" % rng.integers(9)
        elif value and rng.random() < 0.1:
            value = mutate.of_bytes(rng, value)
        if rng.random() < 0.9:
            found.append((name, value))
    return found


def _key(rng: Random) -> bytes | None:
    return pick(rng, (None, b"", b"7", b"k", "é".encode(), b"\xff", b"k" * 1025, b"k" * 16_384, b"k" * 16_385, b"\0"))


def _one(rng: Random, mapping: Mapping, topic: str) -> Record:
    key, value, headers = _key(rng), _record(rng, mapping, topic), _headers(rng, mapping)
    if value is None and rng.random() < 0.5:  # as the copy of one that could not be read
        headers.append((HEADER_UNREAD, pick(rng, (None, *_HEADER_VALUES))))
    return key, value, headers


class Records(RecordTarget):
    """A case is a batch of records of one topic, the first of them alone, since values are learned in order."""

    seconds, megabytes, budget = 5.0, 300, 600

    def prepare(self) -> None:
        for name in STREAMS:
            stream(name)

    def make(self, rng: Random) -> bytes:
        name = pick(rng, tuple(STREAMS))
        topic = "features" if stream(name).topics.labels is None else pick(rng, ("features", "features", "labels"))
        mapping = stream(name).mapping()
        return write(name, topic, [_one(rng, mapping, topic) for _ in range(int(rng.integers(1, 12)))])

    def run(self, case: bytes) -> None:
        name, topic, records, _ = read(case)
        self.n_records += len(records)
        spec = stream(name)
        mapping, codec = spec.mapping(), spec.make_codec()
        vocabularies, classes = spec.vocabularies(), spec.class_vocabulary()
        known = {f.name: known_of(v) for f, v in zip(mapping.features, vocabularies, strict=True) if v is not None}
        reference = Reference(mapping, known if classes is None else {**known, "class": known_of(classes)})
        # In two batches: what the first one teaches counts in the second.
        for part in (records[:1], records[1:]):
            batch = batch_of(part)
            found = decode(codec, topic, batch, vocabularies, classes)
            read_one = reference.feature if topic == "features" else reference.label
            expected = [read_one(*record) for record in part]
            letters.check(topic, batch, found.rejected)
            compare(found, expected, part, reference, mapping, vocabularies, classes)


def known_of(vocabulary: Vocabulary) -> Known:
    return Known(list(vocabulary.texts), vocabulary.closed, vocabulary.limit, vocabulary.max_bytes)


def compare(
    found: Any,
    expected: list[tuple[set[str], Row | None]],
    records: Sequence[Any],
    reference: Reference,
    mapping: Mapping,
    vocabularies: Sequence[Vocabulary | None],
    classes: Vocabulary | None,
) -> None:
    refused = {bad.position: bad.reason for bad in found.rejected}
    for i, (reasons, _) in enumerate(expected):
        agreed = refused[i] in reasons if i in refused else not reasons
        assert agreed, f"{refused.get(i, 'taken')}, expected {reasons or 'taken'}: {records[i]!r}"
    kept = [i for i, (reasons, _) in enumerate(expected) if not reasons]
    rows = [row for _, row in expected if row is not None]
    assert (list(range(len(records))) if found.position is None else found.position) == kept
    assert found.ids == [row.id for row in rows]
    for feature, vocabulary in zip(mapping.features, vocabularies, strict=True):
        assert vocabulary is None or vocabulary.texts == reference.known[feature.name].texts, feature.name
    assert classes is None or classes.texts == reference.known["class"].texts
    y = [np.nan] * len(rows) if found.y is None else found.y
    assert _bits(y) == _bits([_code(row.y, classes) for row in rows]), (y, rows)
    times = [None] * len(rows) if found.times is None else found.times
    assert times == [row.time for row in rows]
    if not hasattr(found, "x"):
        return
    instances = [instance for row in rows for instance in row.instances]
    x = [[_code(value, v) for value, v in zip(line, vocabularies, strict=True)] for line in instances]
    assert _bits(found.x.ravel().tolist()) == _bits([value for line in x for value in line]), (found.x, x)
    assert found.x.shape == (len(instances), len(mapping.features))
    if mapping.task == "multi-instance":
        assert found.sizes.tolist() == [len(row.instances) for row in rows]


def _code(value: float | str | None, vocabulary: Vocabulary | None) -> float:
    if value is None:
        return float("nan")
    return value if vocabulary is None else float(vocabulary.texts.index(value))  # type: ignore[arg-type,return-value]


def _bits(values: Sequence[float]) -> list[bytes]:
    """Floats as bytes: every bit counts, but for those of a NaN."""
    return [b"nan" if value != value else struct.pack("<d", value) for value in values]


TARGETS = {"records": Records()}
