"""Fields in headers, beside those of the value. tests/fuzz holds them against a reference, as does test_reasons."""

import re

import numpy as np
import pytest

from benchmarks.written import rows_of_arrays
from riparian.app.errors import SpecError
from riparian.app.replay import Schedule, Timeline
from riparian.app.stream_file.spec import build
from riparian.topics import records as r
from riparian.topics.codecs import JsonCodec
from riparian.topics.decoding.headers import HeaderSelection, trace
from riparian.topics.records import RawBatch
from tests.topics.decoding import raw

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


def decoded(headers, stream=STREAM, values=None):
    spec = build(stream, "s")
    known, classes = spec.vocabularies(), spec.class_vocabulary()
    batch = raw(values or [VALUE] * len(headers), headers)
    return spec.make_codec().decode_features(batch, known, classes), known, classes


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
    batch = raw([b"{}"] * 3, [GOOD, [("ce_id", b"j")], [("y", b"down")]])
    found = spec.make_codec().decode_labels(batch, classes)
    assert (found.ids, found.y, found.times) == (["i"], [0.0], [1714521600000.0])
    assert [(bad.position, bad.reason) for bad in found.rejected] == [(1, r.WRONG_LABEL), (2, r.MISSING_ID)]
    assert classes.texts == ["up"]
    assert np.isnan(spec.make_codec().decode_labels(raw([b"{}"], [[("ce_id", b"j"), ("y", None)]]), classes).y).all()
    regression = build({**STREAM, "task": "regression", "champion": "fimt-dd"}, "s").make_codec()
    texts = (b"1", b"1e400", b"up", b" -2.5 ", b"NaN")
    found = regression.decode_labels(raw([b"{}"] * 5, [[("ce_id", b"i"), ("y", y)] for y in texts]))
    assert found.y == [1.0, -2.5]
    assert [bad.reason for bad in found.rejected] == [r.WRONG_LABEL] * 3


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("ce_id", b"", r.MISSING_ID),
        ("n", b"one", r.WRONG_TYPE),
        ("b.1", b"\xff", r.NOT_UTF8),
        ("at", b"", r.WRONG_TIME),
    ],
)
def test_a_header_that_cannot_be_used_is_named(name, value, reason):
    """For which reasons: test_reasons."""
    found, *_ = decoded([[(other, given) for other, given in GOOD if other != name] + [(name, value)]])
    assert [bad.reason for bad in found.rejected] == [reason]
    assert f"@header:{name}" in found.rejected[0].detail


def test_the_first_reason_is_the_value_s():
    found, *_ = decoded([GOOD, [], []], values=[b"[]", b"", None])
    assert [bad.reason for bad in found.rejected] == [r.WRONG_TYPE, r.EMPTY, r.TOMBSTONE]


def test_only_streams_that_name_headers_want_them():
    plain = {"name": "s", "task": "classification", "features": {"a": "numeric"}}
    assert build(plain, "s").make_codec().headers == (False, False)
    assert build(plain, "s").header_topics() == []
    spec = build({**plain, "label": {"time": "@header:at"}}, "s")
    assert spec.make_codec().headers == HeaderSelection(False, True)
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
