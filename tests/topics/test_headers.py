"""Fields in headers: the same values, and the same reasons, as the text of the header would give by a slow reading."""

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.written import rows_of_arrays
from riparian.app.errors import SpecError
from riparian.app.replay import Schedule, Timeline
from riparian.app.stream_file.spec import build
from riparian.topics import records as r
from riparian.topics.codecs import JsonCodec
from riparian.topics.headers import Wanted, trace
from riparian.topics.records import RawBatch
from riparian.topics.times import milliseconds

STREAM = {
    "name": "s",
    "task": "classification",
    "features": {
        "a": "numeric",
        "n": {"type": "numeric", "from": "@header:n"},
        "b": {"type": "boolean", "from": "@header:b.1"},
        "c": {"type": "nominal", "max_values": 3, "from": "@header:c"},
        "d": "nominal",
    },
    "record": {"id": "@header:ce_id", "time": "@header:at", "y": "@header:y"},
    "label": {"id": "@header:ce_id", "y": "@header:y", "time": "@header:at"},
    "champion": "hoeffding-tree",
}
VALUE = b'{"x": {"a": 1.5, "d": "u"}}'
NUMBER = re.compile(r"\s*-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?\s*", re.ASCII)


def raw(headers, values=None):
    n = len(headers)
    return RawBatch(list(range(n)), [0] * n, [None] * n, values or [VALUE] * n, headers)


def decoded(headers, stream=STREAM, values=None):
    spec = build(stream, "s")
    known, classes = spec.vocabularies(), spec.class_vocabulary()
    return spec.make_codec().decode_features(raw(headers, values), known, classes), known, classes


GOOD = [("ce_id", b"i"), ("n", b"2"), ("b.1", b"true"), ("c", b"red"), ("at", b"2024-05-01"), ("y", b"up")]


def test_fields_of_headers_stand_beside_those_of_the_value():
    found, known, classes = decoded([GOOD, [("ce_id", b"j")], [*GOOD, ("n", b"-1e-3"), ("ce_id", b"last")]])
    assert found.rejected == []
    assert found.ids == ["i", "j", "last"]
    assert found.times == [1714521600000.0, None, 1714521600000.0]
    np.testing.assert_array_equal(
        found.x, [[1.5, 2, 1, 0, 0], [1.5, np.nan, np.nan, np.nan, 0], [1.5, -0.001, 1, 0, 0]]
    )
    assert known[3].texts == ["red"]
    assert found.y[0] == found.y[2] == 0.0
    assert np.isnan(found.y[1])
    assert classes.texts == ["up"]


def test_labels_come_from_headers_too():
    spec = build(STREAM, "s")
    classes = spec.class_vocabulary()
    batch = raw([GOOD, [("ce_id", b"j")], [("y", b"down")]], [b"{}"] * 3)
    found = spec.make_codec().decode_labels(batch, classes)
    assert (found.ids, found.y, found.times) == (["i"], [0.0], [1714521600000.0])
    assert [(bad.position, bad.reason) for bad in found.rejected] == [(1, r.WRONG_LABEL), (2, r.MISSING_ID)]
    assert classes.texts == ["up"]
    regression = build({**STREAM, "task": "regression", "champion": "fimt-dd"}, "s").make_codec()
    texts = (b"1", b"1e400", b"up", b" -2.5 ", b"NaN")
    found = regression.decode_labels(raw([[("ce_id", b"i"), ("y", y)] for y in texts], [b"{}"] * 5))
    assert found.y == [1.0, -2.5]
    assert [bad.reason for bad in found.rejected] == [r.WRONG_LABEL] * 3


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("ce_id", b"", r.MISSING_ID),
        ("ce_id", None, r.MISSING_ID),
        ("ce_id", b"\xff", r.NOT_UTF8),
        ("ce_id", b"x" * 1025, r.TOO_LONG),
        ("ce_id", b"x" * 300_000, r.TOO_LARGE),
        ("n", b"one", r.WRONG_TYPE),
        ("n", b"", r.WRONG_TYPE),
        ("n", b"01", r.WRONG_TYPE),
        ("n", b"0x1", r.WRONG_TYPE),
        ("n", b"1_000", r.WRONG_TYPE),
        ("n", b"NaN", r.WRONG_TYPE),
        ("n", b'"1"', r.WRONG_TYPE),
        ("n", "١".encode(), r.WRONG_TYPE),
        ("n", b"\xff", r.NOT_UTF8),
        ("n", b"1e400", r.NOT_FINITE),
        ("n", b"9" * 400, r.NOT_FINITE),
        ("b.1", b"1", r.WRONG_TYPE),
        ("n", b"x" * 39 + "é".encode(), r.WRONG_TYPE),
        ("b.1", b"True", r.WRONG_TYPE),
        ("b.1", b"x" * 39 + "é".encode(), r.WRONG_TYPE),
        ("b.1", b"x" * 37 + "😀".encode() * 9, r.WRONG_TYPE),
        ("b.1", b"1e999", r.NOT_FINITE),
        ("b.1", b"1e999x", r.WRONG_TYPE),
        ("b.1", b"1e999 true", r.WRONG_TYPE),
        ("b.1", b"9" * 400, r.NOT_FINITE),
        ("b.1", b"9" * 400 + b"#", r.WRONG_TYPE),
        ("b.1", b"9" * 200 + b"true" + b"9" * 200, r.WRONG_TYPE),
        ("at", b"yesterday", r.WRONG_TIME),
        ("at", b"1e400", r.WRONG_TIME),
        ("at", b"", r.WRONG_TIME),
        ("at", b"9" * 5000, r.WRONG_TIME),
        ("c", b"x" * 1025, r.TOO_LONG),
        ("y", b"x" * 129, r.TOO_LONG),
    ],
)
def test_a_header_that_cannot_be_used_refuses_its_record_and_leaves_no_trace(name, value, reason):
    about = [(other, given) for other, given in GOOD if other != name] + [(name, value)]
    found, known, classes = decoded([about])
    assert [bad.reason for bad in found.rejected] == [reason]
    assert f"@header:{name}" in found.rejected[0].detail or name in ("c", "y")
    assert found.ids == []
    assert (known[3].texts, known[4].texts, classes.texts) == ([], [], [])


def test_the_first_reason_is_the_value_s():
    found, *_ = decoded([GOOD, [], []], values=[b"[]", b"", None])
    assert [bad.reason for bad in found.rejected] == [r.WRONG_TYPE, r.EMPTY, r.TOMBSTONE]


def naive(headers):
    """Id, n, b, c, time and class of a record with these headers, or None; c and class as texts."""
    known = {}
    for name, value in headers:
        if name in ("ce_id", "n", "b.1", "c", "at", "y"):
            known[name] = value
    try:
        text = {name: None if value is None else value.decode() for name, value in known.items()}
    except UnicodeDecodeError:
        return None
    row = {}
    n, b, at = text.get("n"), text.get("b.1"), text.get("at")
    if not text.get("ce_id"):
        return None
    if n is not None and n.strip(" \t\r\n") != "null":
        if not NUMBER.fullmatch(n) or not np.isfinite(float(n)):
            return None
        row["n"] = float(n)
    if b is not None:
        if b.strip(" \t\r\n") not in ("true", "false", "null"):
            return None
        row["b"] = {"true": 1.0, "false": 0.0, "null": None}[b.strip(" \t\r\n")]
    if at is not None:
        try:
            row["at"] = milliseconds(json.loads(at) if NUMBER.fullmatch(at) and at == at.strip() else at)
        except ValueError:
            return None
    return {"id": text["ce_id"], "c": text.get("c"), "y": text.get("y"), **row}


TEXTS = st.one_of(
    st.sampled_from(["1", "-0", "1.5e3", "null", "true", "false", " 7 ", "1.", ".5", "+1", "1e999", "Infinity", "u"]),
    st.floats().map(repr),
    st.integers().map(str),
    st.datetimes().map(str),
    st.text(max_size=4),
)
VALUES = st.one_of(st.none(), TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")), st.binary(max_size=3))
RECORDS = st.lists(
    st.lists(st.tuples(st.sampled_from(["ce_id", "n", "b.1", "c", "at", "y", "z", ""]), VALUES), max_size=9),
    max_size=5,
)


@settings(max_examples=100, deadline=None)
@given(RECORDS)
def test_every_header_is_read_as_the_slow_reading_does(records):
    records = [[("ce_id", b"i%d" % i), *about] for i, about in enumerate(records)]
    open_ended = {**STREAM, "features": {**STREAM["features"], "c": {"type": "nominal", "from": "@header:c"}}}
    found, known, classes = decoded(records, open_ended)
    expected = [naive(about) for about in records]
    kept = [i for i, row in enumerate(expected) if row is not None]
    assert [i for i in range(len(records)) if i not in {bad.position for bad in found.rejected}] == kept
    rows = [row for row in expected if row is not None]
    assert found.ids == [row["id"] for row in rows]
    for j, row in enumerate(rows):
        _, n, b, c, _ = found.x[j].tolist()
        assert n == row.get("n") or (n != n and row.get("n") is None)
        assert b == row.get("b") or (b != b and row.get("b") is None)
        assert (known[3].texts[int(c)] if c == c else None) == row["c"]
        y = float("nan") if found.y is None else found.y[j]
        assert (classes.texts[int(y)] if y == y else None) == row["y"]
        assert found.times[j] == row.get("at")


def test_only_streams_that_name_headers_want_them():
    plain = {"name": "s", "task": "classification", "features": {"a": "numeric"}}
    assert build(plain, "s").make_codec().headers == (False, False)
    assert build(plain, "s").header_topics() == []
    spec = build({**plain, "label": {"time": "@header:at"}}, "s")
    assert spec.make_codec().headers == Wanted(False, True)
    assert spec.header_topics() == ["s.labels"]
    assert spec.make_codec().decode_labels(RawBatch([], [], [], [])).ids == []
    with pytest.raises(ValueError, match="the batch has no headers"):
        spec.make_codec().decode_labels(RawBatch([0], [0], [None], [b'{"id":1,"y":"u"}']))
    assert build(STREAM, "s").header_topics() == ["s.features", "s.labels"]


@pytest.mark.parametrize("inside", [False, True])
def test_a_replay_writes_the_headers_that_a_worker_reads(inside):
    stream = {**STREAM, "topics": {"labels": None}} if inside else STREAM
    if inside:
        stream = {name: part for name, part in stream.items() if name != "label"}
    spec = build(stream, "s")
    x = np.array([[0.5, 1.25, 1.0, 2.0, 0.0], [np.nan, np.nan, np.nan, np.nan, np.nan]])
    timeline = Timeline(spec, Schedule(1000, 1.0, 5))
    (rows,) = rows_of_arrays(spec, x, np.array([1.0, 0.0]))
    sent = timeline.features(rows)
    known, classes = spec.vocabularies(), spec.class_vocabulary()
    found = spec.make_codec().decode_features(
        RawBatch([0, 1], sent.stamps, sent.keys, sent.values, sent.headers), known, classes
    )
    assert (found.rejected, found.ids, found.times) == ([], ["0", "1"], [1_000_000.0, 1_001_000.0])
    np.testing.assert_array_equal(found.x, [[0.5, 1.25, 1, 0, 0], [np.nan] * 5])
    if inside:
        assert (found.y, classes.texts) == ([0.0, 1.0], ["1", "0"])
        return
    told = timeline.labels(2000, 10)
    assert told.values == [b"{}", b"{}"]
    labels = spec.make_codec().decode_labels(
        RawBatch([0, 1], told.stamps, told.keys, told.values, told.headers), classes
    )
    assert (labels.ids, labels.y, classes.texts) == (["0", "1"], [0.0, 1.0], ["1", "0"])


def test_mistakes_are_sentences():
    plain = {"name": "s", "task": "classification", "features": {"a": "numeric"}}
    for more, said in (
        ({"record": {"x": "@header:x"}}, 'record.x: expected a path into the record, found "@header:x"'),
        ({"record": {"id": "@header:"}}, 'record.id: expected the name of a header, found "@header:"'),
        ({"record": {"id": ["a", "@header:b"]}}, "record.id: expected the name of a header"),
        ({"record": {"id": "@header:i", "time": "@header:i"}}, "which record.id reads too"),
    ):
        with pytest.raises(SpecError, match=re.escape(said)):
            build({**plain, **more}, "s")
    bags = {
        "name": "s",
        "task": "multi-instance",
        "classes": ["no", "yes"],
        "features": {"a": {"type": "numeric", "from": "@header:a"}},
        "champion": "majority-class",
    }
    with pytest.raises(SpecError, match=r"features\.a: expected a path into each instance of a bag"):
        build(bags, "s")


def test_a_codec_is_told_of_nothing_that_stands_in_headers():
    codec = JsonCodec(build(STREAM, "s").mapping())
    assert codec.writer().mapping.id is None
    assert [feature.name for feature in codec.writer().mapping.features] == ["a", "d"]


PARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("headers", "carried"),
    [
        ([], []),
        ([("traceparent", PARENT)], [("traceparent", PARENT)]),
        (
            [("tracestate", b"a=1"), ("x", b"y"), ("traceparent", PARENT)],
            [("traceparent", PARENT), ("tracestate", b"a=1")],
        ),
        ([("traceparent", b"old"), ("traceparent", PARENT)], [("traceparent", PARENT)]),
        ([("tracestate", b"a=1")], []),
        ([("traceparent", None), ("tracestate", b"a=1")], []),
        ([("traceparent", PARENT + b"\n")], []),
        ([("traceparent", b"ff" + PARENT[2:])], []),
        ([("traceparent", b"00-" + b"0" * 32 + PARENT[35:])], []),
        ([("traceparent", PARENT + b"-" + b"x" * 500)], []),
        ([("traceparent", PARENT), ("tracestate", b"x" * 513)], [("traceparent", PARENT)]),
        ([("traceparent", PARENT), ("tracestate", b"\xff")], [("traceparent", PARENT)]),
        ([("traceparent", b"\xff" * 9)], []),
    ],
)
def test_a_trace_context_is_carried_on_and_nothing_else(headers, carried):
    assert trace(headers) == carried
