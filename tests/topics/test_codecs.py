"""What JsonCodec reads: batches against single records, every reason. tests/fuzz holds it against a reference."""

import json
import math
from typing import Any

import numpy as np
import pytest

from riparian.topics import records as r
from riparian.topics.codecs import JsonCodec
from riparian.topics.decoding.paths import parse
from riparian.topics.formats.common.json_text import with_shorter_integers
from riparian.topics.records import Feature, Features, Labels, Mapping
from riparian.topics.vocabulary import Vocabulary
from tests.topics.decoding import raw

FEATURES = (
    Feature("a", "numeric", ("x", "a")),
    Feature("b", "numeric", ("x", "b")),
    Feature("c", "nominal", ("x", "c")),
    Feature("age", "numeric", ("customer", "age")),
    Feature("kind", "nominal", ("customer", "of", "kind")),
    Feature("new", "boolean", ("customer", "new")),
)
MIXED = Mapping("classification", FEATURES, time=("ts",), label_time=("ts",))
FLAT = Mapping("regression", (Feature("a", "numeric", ("a",)), Feature("b", "numeric", ("b",))), x=(), id=None)
NUMERIC = Mapping("classification", tuple(Feature(n, "numeric", ("x", n)) for n in "abc"))


def vocabularies(mapping: Mapping, limit: int = 3, declared: dict[str, list[Any]] | None = None) -> list[Any]:
    new: list[Vocabulary | None] = []
    for feature in mapping.features:
        if feature.type == "numeric":
            new.append(None)
        elif feature.type == "boolean":
            new.append(Vocabulary(2, [False, True]))
        else:
            new.append(Vocabulary(limit, (declared or {}).get(feature.name)))
    return new


def features(value: Any, mapping: Mapping = MIXED, **options: Any) -> Features:
    """Decode one record."""
    encoded = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    classes = Vocabulary(3) if mapping.task == "classification" else None
    return JsonCodec(mapping).decode_features(raw([encoded], keys=[b"k"]), vocabularies(mapping, **options), classes)


def labels(value: Any, mapping: Mapping = MIXED) -> Labels:
    encoded = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    classes = Vocabulary(3) if mapping.task == "classification" else None
    return JsonCodec(mapping).decode_labels(raw([encoded]), classes)


def test_a_record_becomes_a_row() -> None:
    found = features(
        {
            "id": 7,
            "ts": 1_700_000_000,
            "x": {"a": 1, "b": None, "c": "red", "other": [1, {"z": 2}]},
            "customer": {"age": 41.5, "of": {"kind": True}, "new": False},
            "y": "UP",
        }
    )
    assert found.position is None
    assert found.ids == ["7"]
    assert np.array_equal(found.x, [[1.0, np.nan, 0.0, 41.5, 0.0, 0.0]], equal_nan=True)
    assert found.x.dtype == np.float64
    assert found.x.flags.c_contiguous
    assert found.y == [0.0]
    assert found.times == [1.7e12]
    assert found.rejected == []


@pytest.mark.parametrize(
    ("value", "shorter"),
    [
        (b"[%b]", b"[%s]"),
        (b"[-%b,%b]", b"[-%t,%s]"),
        (b'["%b",%b]', b'["%b",%s]'),
        (b'["\\"%b",%b]', b'["\\"%b",%s]'),
        (b"[%b.5,1.%b,%be5,1e%b,1e-%b,1E+%b]", b"[%b.5,1.%b,%be5,1e%b,1e-%b,1E+%b]"),
        (b'["%b', b'["%b'),
    ],
)
def test_only_integers_are_cut(value: bytes, shorter: bytes) -> None:
    long = b"9" * 4301
    wanted = shorter.replace(b"%b", long).replace(b"%s", long[:4300]).replace(b"%t", long[:4299])
    assert with_shorter_integers(value.replace(b"%b", long)) == wanted


def test_an_empty_batch() -> None:
    for mapping in (MIXED, FLAT, NUMERIC):
        found = JsonCodec(mapping).decode_features(raw([]), vocabularies(mapping), Vocabulary(2))
        assert found.x.shape == (0, len(mapping.features))
        assert (found.position, found.ids, found.y, found.rejected) == (None, [], None, [])
        assert JsonCodec(mapping).decode_labels(raw([]), Vocabulary(2)).ids == []


def test_what_is_absent_is_missing() -> None:
    found = features({"id": "1", "x": {}})
    assert np.isnan(found.x).all()
    assert found.y is None
    assert found.times == [None]
    assert features({"id": "1", "x": {}, "customer": {"of": None}}).rejected == []
    # A stream that names no time has none.
    assert features({"id": "1", "x": {"a": 1}}, NUMERIC).times is None


def test_the_rejected_are_left_out_by_position() -> None:
    codec, classes = JsonCodec(NUMERIC), Vocabulary(5)
    values = [b'{"id":"a","x":{"a":1},"y":"u"}', b"{", b'{"id":"c","x":{"b":2}}', None]
    found = codec.decode_features(raw(values), [None] * 3, classes)
    assert found.position == [0, 2]
    assert found.ids == ["a", "c"]
    assert np.array_equal(found.x, [[1, np.nan, np.nan], [np.nan, 2, np.nan]], equal_nan=True)
    assert found.y is not None
    assert found.y[0] == 0.0
    assert math.isnan(found.y[1])
    assert [(bad.position, bad.reason) for bad in found.rejected] == [(1, "not-json"), (3, "tombstone")]


DEEP = b"[" * 100_000 + b"]" * 100_000
GOOD = {"id": "1", "x": {"a": 1}}
FEATURE_FAULTS: list[tuple[Any, str, str]] = [
    (None, r.TOMBSTONE, ""),
    (b"", r.EMPTY, ""),
    (b'{"id":"1","x":{"a":1},"z":"' + b"z" * 262_144 + b'"}', r.TOO_LARGE, "max_bytes is 262144"),
    (DEEP, r.TOO_DEEP, ""),
    (b'{"id":"1","x":{"a":1},"z":' + DEEP + b"}", r.TOO_DEEP, ""),
    (b'{"id":"1","x":{"z":' + b'{"z":' * 300 + b"1" + b"}" * 300 + b"}}", r.TOO_DEEP, ""),
    (b"\xff\xfe\x00", r.NOT_UTF8, ""),
    ('{"id":"1"}'.encode("utf-16"), r.NOT_UTF8, ""),
    (b"hello", r.NOT_JSON, ""),
    (b'{"id":"1","x":{"a":1}', r.NOT_JSON, ""),
    (b'{"id":"1","x":{"a":NaN}}', r.NOT_JSON, ""),
    (b'{"id":"1","x":{"a":1}}{}', r.NOT_JSON, ""),
    (b'{"id":"\\ud800","x":{"a":1}}', r.NOT_JSON, ""),
    ([GOOD], r.WRONG_TYPE, "object"),
    (5, r.WRONG_TYPE, "object"),
    ({**GOOD, "x": [1]}, r.WRONG_TYPE, "x:"),
    ({**GOOD, "x": {"a": "1"}}, r.WRONG_TYPE, "x.a:"),
    ({**GOOD, "x": {"c": [1]}}, r.WRONG_TYPE, "x.c:"),
    ({**GOOD, "customer": {"new": 1}}, r.WRONG_TYPE, "customer.new:"),
    ({**GOOD, "customer": 5}, r.WRONG_TYPE, "customer:"),
    ({**GOOD, "id": 1.5}, r.WRONG_TYPE, "id:"),
    (b'{"id":' + b"9" * 5000 + b',"x":{"a":1}}', r.TOO_LONG, "id:"),
    (b'{"id":"1","x":{"a":1e999}}', r.NOT_FINITE, "x.a:"),
    (b'{"id":"1","x":{"a":' + b"9" * 400 + b"}}", r.NOT_FINITE, "x.a:"),
    (b'{"id":"1","x":{"c":1e999}}', r.NOT_FINITE, "x.c:"),
    ({"x": {"a": 1}}, r.MISSING_ID, "missing"),
    ({**GOOD, "id": None}, r.MISSING_ID, "missing"),
    ({**GOOD, "id": ""}, r.MISSING_ID, "empty"),
    ({"id": "1"}, r.MISSING_X, "x:"),
    ({**GOOD, "ts": "yesterday"}, r.WRONG_TIME, "ts: expected ISO 8601"),
    ({**GOOD, "ts": 1e18}, r.WRONG_TIME, "ts:"),
    (b'{"id":"1","x":{"a":1},"ts":1e999}', r.WRONG_TIME, "ts:"),
    ({**GOOD, "y": ["UP"]}, r.WRONG_LABEL, "y:"),
    (b'{"id":"1","x":{"a":1},"y":1e999}', r.WRONG_LABEL, "y:"),
    ({**GOOD, "id": "i" * 1025}, r.TOO_LONG, "1025"),
    ({**GOOD, "x": {"c": "v" * 1025}}, r.TOO_LONG, "c:"),
    ({**GOOD, "y": "v" * 1025}, r.TOO_LONG, "y:"),
]


@pytest.mark.parametrize(("value", "reason", "detail"), FEATURE_FAULTS)
def test_every_fault_of_a_feature_record(value: Any, reason: str, detail: str) -> None:
    found = features(value)
    assert found.ids == []
    assert found.x.shape == (0, 6)
    assert found.position == []
    (bad,) = found.rejected
    assert (bad.position, bad.reason) == (0, reason)
    assert detail in bad.detail
    assert bad.detail
    assert len(bad.detail) <= 300


LABEL_FAULTS: list[tuple[Any, str, str]] = [
    (None, r.TOMBSTONE, ""),
    (b"", r.EMPTY, ""),
    (r.Unread.batch(3, 9, "too large"), r.UNREADABLE_BATCH, "offsets 3 to 9: too large"),
    (b"[", r.NOT_JSON, ""),
    ({"id": "1"}, r.WRONG_LABEL, "missing"),
    ({"id": "1", "x": {"y": None}}, r.WRONG_LABEL, "missing"),
    ({"y": "UP"}, r.MISSING_ID, ""),
    ({"id": "1", "y": "UP", "ts": ""}, r.WRONG_TIME, "ts:"),
    ({"id": "1", "y": "v" * 1025}, r.TOO_LONG, ""),
]


@pytest.mark.parametrize(("value", "reason", "detail"), LABEL_FAULTS)
def test_every_fault_of_a_label_record(value: Any, reason: str, detail: str) -> None:
    found = labels(value)
    assert (found.ids, found.y, found.position) == ([], [], [])
    (bad,) = found.rejected
    assert (bad.position, bad.reason) == (0, reason)
    assert detail in bad.detail


def test_a_label_that_is_null_is_none_and_no_fault() -> None:
    for path, value in [("y", b'"y": null'), ("a.b[1]", b'"a": {"b": [5, null]}, "y": 1e999')]:
        for task, classes in (("classification", Vocabulary(5)), ("regression", None)):
            codec = JsonCodec(Mapping(task, FEATURES, label_y=parse(path)))
            absent = [b'{"id": 2}', b'{"id": 2, "a": {}}', b'{"id": 2, "a": {"b": [5]}}', b'{"id": 2, "a": null}']
            found = codec.decode_labels(raw([b'{"id": 1, ' + value + b"}", *absent]), classes)
            assert (list(found.ids), np.isnan(found.y).tolist()) == (["1"], [True])
            assert [bad.reason for bad in found.rejected] == [r.WRONG_LABEL] * 4


def test_every_reason_is_tested() -> None:
    tested = {reason for _, reason, _ in FEATURE_FAULTS + LABEL_FAULTS} | {r.UNKNOWN_VALUE, r.NOMINAL_OVERFLOW}
    elsewhere = {r.EMPTY_BAG, r.TOO_MANY_INSTANCES, r.WRONG_ENVELOPE}  # test_bags, test_envelopes
    elsewhere |= {r.MALFORMED, r.NO_SCHEMA_ID, r.UNKNOWN_SCHEMA, r.UNUSABLE_SCHEMA}  # test_registered
    elsewhere |= {r.WRONG_COMMAND, r.WRONG_LEARNED}  # test_commands, test_shared_log
    assert tested | elsewhere == set(r.REASONS)


def test_at_the_bound_a_new_value_is_rejected_and_leaves_no_trace() -> None:
    codec, known, classes = JsonCodec(MIXED), vocabularies(MIXED, limit=2), Vocabulary(2)
    values = [
        b'{"id":"1","x":{"c":"red"},"y":"UP"}',
        b'{"id":"2","x":{"c":1},"y":"DOWN"}',
        b'{"id":"3","x":{"c":"blue"},"customer":{"of":{"kind":"first"}},"y":"UP"}',
        b'{"id":"4","x":{"c":"1"},"y":"FLAT"}',
        b'{"id":"5","x":{"c":1.0},"customer":{"of":{"kind":"second"}},"y":"DOWN"}',
    ]
    found = codec.decode_features(raw(values), known, classes)
    assert [(bad.position, bad.reason) for bad in found.rejected] == [(2, "nominal-overflow"), (3, "nominal-overflow")]
    assert "c: 'blue'" in found.rejected[0].detail
    assert found.x[:, 2].tolist() == [0.0, 1.0, 1.0]
    assert found.y == [0.0, 1.0, 1.0]
    assert known[2].values == ["red", 1]
    assert known[4].values == ["second"]
    assert classes.values == ["UP", "DOWN"]


def test_a_declared_vocabulary_is_closed() -> None:
    found = features({"id": "1", "x": {"c": "blue"}}, declared={"c": ["red"]})
    assert found.rejected[0].reason == r.UNKNOWN_VALUE
    assert features({"id": "1", "x": {"c": "red"}}, declared={"c": ["red"]}).x[0, 2] == 0.0
    classes = Vocabulary(1, ["UP", "DOWN"])
    found_labels = JsonCodec(MIXED).decode_labels(raw([b'{"id":"1","y":"FLAT"}', b'{"id":"2","y":"DOWN"}']), classes)
    assert found_labels.y == [1.0]
    assert found_labels.rejected[0].reason == r.UNKNOWN_VALUE


def test_a_value_has_one_code_however_json_writes_it() -> None:
    codec, classes = JsonCodec(MIXED), Vocabulary(10)
    forms = [b"1", b"1.0", b'"1"', b"10e-1", b"true", b'"true"', b"0", b"-0", b"-0.0", b"1.5", b'"1.5"', b'"1.0"']
    values = [b'{"id":"1","y":' + form + b"}" for form in forms]
    assert codec.decode_labels(raw(values), classes).y == [0, 0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4]
    assert classes.values == [1, True, 0, 1.5, "1.0"]


def test_records_just_within_the_bounds_are_good() -> None:
    nested = b"[" * 198 + b"]" * 198
    assert features(b'{"id":"1","x":{"a":1},"z":' + nested + b"}").rejected == []
    # Brackets inside a text are no nesting.
    assert features(b'{"id":"1","x":{"a":1},"z":"' + b"[" * 1000 + b'\\""}').rejected == []
    assert features({**GOOD, "id": "i" * 1024}).rejected == []
    assert features(b'{"id":"1","x":{"a":1.7976931348623157e308}}').x[0, 0] == 1.7976931348623157e308
    assert features(b'{"id":"1","x":{"a":' + b"9" * 300 + b"}}").x[0, 0] == 1e300
    small = Mapping("classification", FEATURES, max_bytes=30)
    assert features(b'{"id":"1","x":{"a":1}}'.ljust(30), small).rejected == []
    assert features(b'{"id":"1","x":{"a":1}}'.ljust(31), small).rejected[0].reason == r.TOO_LARGE


def test_the_depth_does_not_depend_on_the_stack() -> None:
    value = b'{"id":"1","x":{"a":1},"z":' + b"[" * 198 + b"]" * 198 + b"}"

    def under(n: int) -> Features:
        return under(n - 1) if n else features(value)

    assert under(300).rejected == []


def test_field_names_that_are_no_identifiers() -> None:
    mapping = Mapping(
        "classification",
        (
            Feature("total amount", "numeric", ("x", "total amount")),
            Feature("größe", "numeric", ("x", "größe")),
            Feature("a.b", "numeric", ("x", "a.b")),
            Feature("class", "nominal", ("x", "class")),
        ),
    )
    found = features({"id": "1", "x": {"total amount": 1, "größe": 2, "a.b": 3, "a": {"b": 4}, "class": "k"}}, mapping)
    assert found.x.tolist() == [[1, 2, 3, 0]]
    bad = features({"id": "1", "x": {"total amount": "1"}}, mapping).rejected[0]
    assert bad.detail.startswith("x.total amount: ")


def test_what_would_make_predictions_too_large_is_rejected() -> None:
    """A prediction repeats the key of its features, and lists every class."""
    codec, classes = JsonCodec(NUMERIC), Vocabulary(100, max_bytes=128)
    batch = raw([b'{"id": "a", "x": {"a": 1}}'] * 3, keys=[None, b"k" * 16_384, b"k" * 16_385])
    found = codec.decode_features(batch, vocabularies(NUMERIC), classes)
    assert [(bad.position, bad.reason) for bad in found.rejected] == [(2, "too-large")]
    assert found.rejected[0].detail == "a key of 16385 bytes, at most 16384"
    texts = ["c" * 128, "c" * 129, "\x01" * 21, "\x01" * 22, "ü" * 64, "ü" * 65, "c" * 2000]
    labels = codec.decode_labels(raw([json.dumps({"id": "a", "y": text}).encode() for text in texts]), classes)
    assert [(bad.position, bad.reason) for bad in labels.rejected] == [(i, "too-long") for i in (1, 3, 5, 6)]
    assert labels.rejected[1].detail == "y: a value of 132 bytes as JSON, at most 128"


def test_text_that_is_not_mapped_is_utf8_too() -> None:
    batch = raw([b'{"id":"a","x":{"a":1},"z":"\xff"}', '{"id":"b","x":{"a":1},"z":"ü"}'.encode(), b'{"id":"\xc3"}'])
    found = JsonCodec(NUMERIC).decode_features(batch, vocabularies(NUMERIC))
    assert found.ids == ["b"]
    assert [bad.reason for bad in found.rejected] == ["not-utf8", "not-utf8"]
