"""Each field of a record with whatever it may hold, wherever it stands: taken, or refused for the reasons of the slow
reading of `tests/fuzz/reference.py`. Alone, and in blocks that the kernel walks."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from riparian.app.stream_file.spec import Spec, build
from riparian.topics.codecs import JsonCodec
from tests.fuzz.blocks import scattered
from tests.fuzz.records import Record, compare, known_of
from tests.fuzz.reference import Reference
from tests.topics.decoding import raw

MAX_BYTES = 5000
TASKS: dict[str, dict[str, Any]] = {
    "learned": {"task": "classification", "max_class_bytes": 8},
    "closed": {"task": "classification", "classes": ["UP", 1, True]},
    "regression": {"task": "regression"},
}
TYPES: dict[str, dict[str, Any]] = {"n": {"type": "numeric"}, "b": {"type": "boolean"}, "c": {"type": "nominal"}}
GOOD = {"id": b"i7", "t": b"2024-05-01", "y": b"1", "n": b"0.5", "b": b"true", "c": b"red"}
FIELDS = [("learned", topic, name) for topic in ("features", "labels") for name in ("id", "t")]
FIELDS += [("learned", "features", name) for name in TYPES]
FIELDS += [(task, topic, "y") for task in TASKS for topic in ("features", "labels")]

_LONG = (*("é" * n for n in (1024, 1025)), *("x" * n for n in (8, 9, 129, 1024, 1025)), "é" * 4, "é" * 5, '"' * 5)
HEADERS: tuple[bytes | None, ...] = (
    *(None, b"", b" ", b"\0", b"\xff", b"u\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc3"),
    *(text.encode() for text in _LONG),
    *(b"x" * 39 + "é".encode(), b"x" * 37 + "😀".encode() * 9, b"x" * 39 + b"\xff", b"x" * (MAX_BYTES + 1)),
    *(b"true", b" false\r\n", b"null", b"\tnull", b"True", b"true\0", b"\x0btrue", "\ufefftrue".encode(), b"falsetrue"),
    *(b"0", b"-0", b"-0.0", b"1.0", b" 2 ", b"01", b"+1", b".5", b"1.", b"1_0", b"0x1", b"NaN", b"-Infinity", b'"1"'),
    *(b"1e999", b"-1e999", b" 1e999 ", b"1e999x", b"1e999 true", b"true1e999", b"[1e999", b"1e-999", "١".encode()),
    *(b"9" * n for n in (25, 309, 400, 4300, 4301)),
    b"-" + b"9" * 4300,
    *(b"9" * 400 + end for end in (b"#", b"true", b"]", b".", b"e", b".5", b"e5", b"\0", b"\xff", "é".encode())),
    *(b"[]", b"{}", b"[1]", b'"\\ud800"', b"99999999999.5", b"253402300800000", b"-253402300800000", b"9999-12-31"),
    *(b"2024-05-09T23:37:20.368547Z", b"1969-12-31T23:59:59.999999", b"0001-01-01", b"9999-12-31T23:59:59.999999Z"),
    *(b"2024-05-01T12:00:00+25:00", b"0001-01-01T00:00:00+01:00", b"2024-05-01 ", b"20240501", b"1e11", b" 1e11"),
)
KEYS: tuple[bytes | None, ...] = (*HEADERS, b"k" * 16_384, b"k" * 16_385, b"\xff" * 16_385)
# In a value: what a header may hold that is JSON, or nearly so, and its texts in quotes.
VALUES = (
    *(text for text in HEADERS if text is not None and not text[:1].isalpha() and 0 < len(text) < MAX_BYTES - 200),
    *(b'"' + text + b'"' for text in HEADERS if text is not None and len(text) < MAX_BYTES - 200),
    *(json.dumps(text).encode() for text in (*_LONG[2:], "\0", "\x1f", '"')),
    *(b'"\\ud800"', b'"\\ud83d\\ude00"', b'"\\u0000"', b'"\x01"', b'"\\x"', b'{"id":1}', b'[{"y":1}]', b"true"),
    *(b"tru", b"nulll", b"18446744073709551616", b"9007199254740993", b"9007199254740992.0", b"1E2", b"1e22", b"1e-7"),
)


def spec(task: str, place: str) -> Spec:
    """place : before each field's name; None as the id's path is the key."""
    of = {"n": place + "n", "b": place + "b", "c": place + "c"}
    features = {name: {**kind, "from": of[name]} for name, kind in TYPES.items()}
    at = {"id": "@key" if place == "" and task == "closed" else place + "id", "time": place + "t", "y": place + "y"}
    record = {**at, "x": "", "max_bytes": MAX_BYTES}
    return build(
        {"name": "s", "champion": "last-label", **TASKS[task], "features": features, "record": record, "label": at}
    )


def written(fields: Sequence[tuple[str, bytes | None]], place: str, key: bytes | None = b"k7") -> Record:
    if place:
        return key, b"{}", list(fields)
    return key, b"{" + b",".join(b'"%b":%b' % (name.encode(), text or b"null") for name, text in fields) + b"}", []


def usual(place: str) -> list[tuple[str, bytes | None]]:
    """The fields of a good record."""
    plain = place or "0"
    return [
        (name, text if plain != "0" or name not in ("id", "t", "c") else b'"%b"' % text) for name, text in GOOD.items()
    ]


def check(spec: Spec, codec: JsonCodec, topic: str, records: list[Record], sliced: bool = False) -> None:
    """That the codec makes of the records what the reference does."""
    mapping = codec.mapping
    vocabularies, classes = spec.vocabularies(), spec.class_vocabulary()
    known = {f.name: known_of(v) for f, v in zip(mapping.features, vocabularies, strict=True) if v is not None}
    reference = Reference(mapping, known if classes is None else {**known, "class": known_of(classes)})
    keys, values, headers = ([record[i] for record in records] for i in range(3))
    if sliced:
        keys, values = scattered(keys), scattered(values)  # type: ignore
    batch = raw(values, headers, keys)
    if topic == "features":
        found: Any = codec.decode_features(batch, vocabularies, classes)
        expected = [reference.feature(*record) for record in records]
    else:
        found = codec.decode_labels(batch, classes)
        expected = [reference.label(*record) for record in records]
    compare(found, expected, records, reference, mapping, vocabularies, classes)


def check_all(spec: Spec, topic: str, good: Record, odd: list[Record]) -> None:
    codec = JsonCodec(spec.mapping())
    for record in odd:
        check(spec, codec, topic, [record])
    among = [good] * 30 + [one for record in odd for one in (record, good)]
    for sliced in (False, True):
        check(spec, codec, topic, among, sliced)
    assert codec.readers[topic == "labels"]._blocks._programs  # the kernel has taken some


@pytest.mark.parametrize("place", ["", "@header:"], ids=["value", "header"])
@pytest.mark.parametrize(("task", "topic", "name"), FIELDS)
def test_a_field_is_refused_for_the_reasons_of_the_reference(place: str, task: str, topic: str, name: str) -> None:
    rest = [(other, text) for other, text in usual(place) if other != name]
    good = dict(usual(place))[name]
    odd: list[Record] = [written(rest, place)]
    for text in HEADERS if place else VALUES:
        odd += [written([*rest, (name, text)], place), written([(name, good), *rest, (name, text)], place)]
        odd.append(written([(name, text), *rest, (name, good)], place))  # the last one of a header counts
    check_all(spec(task, place), topic, written(usual(place), place), odd)


@pytest.mark.parametrize("task", ["closed", "learned"], ids=["the-id", "not-the-id"])
@pytest.mark.parametrize("topic", ["features", "labels"])
def test_a_key_is_refused_for_the_reasons_of_the_reference(task: str, topic: str) -> None:
    good, *odd = [written(usual(""), "", key) for key in (b"k7", *KEYS)]
    check_all(spec(task, ""), topic, good, odd)
    # With a fault of the value besides.
    odd = [written([("n", b'"1"'), ("y", b"[]")], "", key) for key in KEYS]
    check_all(spec(task, ""), topic, good, odd)
