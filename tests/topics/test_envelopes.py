"""Rows inside of Debezium's, Kafka Connect's and CloudEvents' records: what is an instance, and what its values are."""

import base64
import json
import re
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.written import rows_of_arrays
from riparian.app.errors import SpecError
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup
from riparian.app.replay import Schedule, Timeline
from riparian.app.stream_file.spec import build
from riparian.topics import records as r
from riparian.topics.records import RawBatch
from tests.topics.decoding import raw

STREAM = {
    "name": "s",
    "task": "classification",
    "features": {"a": "numeric", "c": {"type": "nominal", "max_values": 50}},
    "record": {"x": "", "y": None, "envelope": "debezium", "time": "@envelope:ts_ms"},
    "champion": "naive-bayes",
}
DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE = "io.debezium.data.VariableScaleDecimal"


def decoded(values, stream=STREAM, headers=None, **record):
    spec = build({**stream, "record": {**stream["record"], **record}}, "s")
    texts = [v if v is None or isinstance(v, bytes) else json.dumps(v).encode() for v in values]
    known, batch = spec.vocabularies(), raw(texts, headers)
    found = spec.make_codec().decode_features(batch, known, spec.class_vocabulary())
    # One by one it is the same.
    codec, again = spec.make_codec(), spec.vocabularies()
    for i in range(len(texts)):
        one = codec.decode_features(batch.part(i, i + 1), again, spec.class_vocabulary())
        refused = {bad.position: bad[1:] for bad in found.rejected}
        assert [bad[1:] for bad in one.rejected] == ([refused[i]] if i in refused else [])
        if i not in refused:
            at = i if found.position is None else found.position.index(i)
            assert one.ids == [found.ids[at]]
            assert one.times == (None if found.times is None else [found.times[at]])
            np.testing.assert_array_equal(one.x[0], found.x[at])
    return found


def why(found):
    return [(bad.position, bad.reason, bad.ignored) for bad in found.rejected]


def change(op, after, **more):
    return {"before": None, "after": after, "op": op, "source": {"ts_ms": 1, "name": "db"}, "ts_ms": 1.7e12, **more}


ROW = {"id": 7, "a": 1.5, "c": "u", "other": [1]}


WRAPPED = [
    lambda one: one,
    lambda one: {"schema": None, "payload": one},
    lambda one: {"payload": one, "schema": {"type": "struct", "fields": []}},
]


@pytest.mark.parametrize("wrap", WRAPPED)
def test_created_read_and_updated_rows_are_instances_and_nothing_else(wrap):
    changes = [change(op, ROW) for op in "cru"]
    others = [change("d", None, before=ROW), None, change("t", None), change("m", None), {"payload": None}]
    wrong = [change("c", None), change("x", ROW), {"op": 1, "after": ROW}, change("c", {"a": "x", "id": 1}), {}]
    found = decoded([wrap(one) if one else None for one in [*changes, *others[:4]]] + [others[4], *map(wrap, wrong)])
    assert found.ids == ["7"] * 3
    assert found.times == [1.7e12] * 3
    np.testing.assert_array_equal(found.x, [[1.5, 0]] * 3)
    assert why(found) == [
        (3, r.DELETE, True), (4, r.TOMBSTONE, True), (5, r.NO_ROW, True), (6, r.NO_ROW, True), (7, r.TOMBSTONE, True),
        (8, r.WRONG_ENVELOPE, False), (9, r.WRONG_ENVELOPE, False), (10, r.WRONG_TYPE, False),
        (11, r.WRONG_TYPE, False), (12, r.WRONG_ENVELOPE, False),
    ]  # fmt: skip


def test_without_an_envelope_a_tombstone_is_a_dead_letter():
    assert why(decoded([None], envelope=None, time=None)) == [(0, r.TOMBSTONE, False)]
    assert why(decoded([None], headers=[[]], envelope="cloudevents", time=None)) == [(0, r.TOMBSTONE, False)]


def test_connect_has_a_payload():
    values = [{"schema": None, "payload": ROW}, {"payload": None}, None, ROW, {"schema": {}}, {"payload": [1]}, b"{"]
    found = decoded(values, envelope="connect", time=None)
    assert found.ids == ["7"]
    assert why(found) == [
        (1, r.TOMBSTONE, True), (2, r.TOMBSTONE, True), (3, r.WRONG_ENVELOPE, False), (4, r.WRONG_ENVELOPE, False),
        (5, r.WRONG_TYPE, False), (6, r.NOT_JSON, False),
    ]  # fmt: skip


def unscaled(number):
    return base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)).decode()


def schema(**fields):
    """The schema of a row: name -> (type, logical name, parameters)."""
    listed = [
        {"field": name, "type": kind, "name": logical, "parameters": parameters, "optional": True}
        for name, (kind, logical, parameters) in fields.items()
    ]
    return {"type": "struct", "fields": listed}


def test_decimals_are_read_by_the_scale_of_their_schema():
    of_a = {"type": "struct", "fields": [{"field": "after", **schema(a=("bytes", DECIMAL, {"scale": "2"}))}]}
    scales = {"a": "-1", "id": "0", "c": "1"}
    of_all = schema(**{name: ("bytes", DECIMAL, {"scale": scale}) for name, scale in scales.items()})
    values = [
        {"schema": of_a, "payload": change("c", {"id": 1, "a": unscaled(152)})},
        {"schema": of_a, "payload": change("c", {"id": 2, "a": unscaled(-1)})},
        {"schema": of_a, "payload": change("c", {"id": 3, "a": 1.25})},  # decimal.format=NUMERIC
        {"schema": of_a, "payload": change("c", {"id": 4, "a": "no base64!"})},
        change("c", {"id": 5, "a": unscaled(152)}),
        {"schema": of_a, "payload": change("c", {"id": 6, "a": None})},
        {"schema": of_a, "payload": change("d", None)},
    ]
    found = decoded(values)
    assert found.ids == ["1", "2", "3", "6"]
    np.testing.assert_array_equal(found.x[:, 0], [1.52, -0.01, 1.25, np.nan])
    assert why(found) == [(3, r.WRONG_TYPE, False), (4, r.WRONG_TYPE, False), (6, r.DELETE, True)]
    assert "after.a" in found.rejected[0].detail
    row = {"id": unscaled(10**20), "a": unscaled(3), "c": unscaled(15)}
    found = decoded([{"schema": of_all, "payload": row}], envelope="connect", time=None)
    assert (found.ids, found.x.tolist()) == ([str(10**20)], [[30.0, 0.0]])
    huge = {"id": "i", "a": unscaled(10**400)}
    scaled = schema(a=("bytes", DECIMAL, {"scale": "2"}))
    found = decoded([{"schema": scaled, "payload": huge}], envelope="connect", time=None)
    assert why(found) == [(0, r.NOT_FINITE, False)]
    found = decoded(
        [{"schema": schema(id=("bytes", DECIMAL, {"scale": "2"})), "payload": {"id": unscaled(100)}}],
        envelope="connect", time=None,
    )  # fmt: skip
    assert why(found) == [(0, r.WRONG_TYPE, False)]


def test_decimals_of_variable_scale_bring_it_along():
    of_a = schema(a=("struct", VARIABLE, None))
    values = [
        {"schema": of_a, "payload": {"id": i, "a": {"scale": scale, "value": unscaled(125)}}}
        for i, scale in enumerate((0, 2, -2, 10**9))
    ]
    found = decoded(values, envelope="connect", time=None)
    assert found.x[:, 0].tolist() == [125.0, 1.25, 12500.0]
    assert why(found) == [(3, r.WRONG_TYPE, False)]


@pytest.mark.parametrize(
    ("logical", "value"),
    [
        ("org.apache.kafka.connect.data.Date", 19_723),
        ("io.debezium.time.Date", 19_723),
        ("org.apache.kafka.connect.data.Timestamp", 1_704_067_200_000),
        ("io.debezium.time.Timestamp", 1_704_067_200_000),
        ("io.debezium.time.MicroTimestamp", 1_704_067_200_000_000),
        ("io.debezium.time.NanoTimestamp", 1_704_067_200_000_000_000),
        ("io.debezium.time.ZonedTimestamp", "2024-01-01T00:00:00Z"),
        (None, 1_704_067_200),
    ],
)
def test_times_are_read_in_the_unit_of_their_schema(logical, value):
    of_time = schema(at=("int64", logical, None))
    found = decoded([{"schema": of_time, "payload": {"id": 1, "at": value}}], envelope="connect", time="at")
    assert found.times == [1_704_067_200_000.0]


def test_nanoseconds_are_rounded_once():
    """As integers they are not what float64 holds."""
    nanoseconds = 1_704_067_200_123_456_901
    of_time = schema(at=("int64", "io.debezium.time.NanoTimestamp", None))
    found = decoded([{"schema": of_time, "payload": {"id": 1, "at": nanoseconds}}], envelope="connect", time="at")
    assert found.times == [nanoseconds / 1_000_000] != [float(nanoseconds) / 1_000_000]


@pytest.mark.parametrize(
    "name", ["io.debezium.time.MicroTime", "org.apache.kafka.connect.data.Time", "io.debezium.time.Year"]
)
def test_a_time_of_day_is_no_time(name):
    """It was taken for seconds, in January 1970."""
    of_time = schema(at=("int64", name, None))
    found = decoded([{"schema": of_time, "payload": {"id": 1, "at": 45_296_000}}], envelope="connect", time="at")
    assert why(found) == [(0, r.WRONG_TIME, False)]


def test_dates_before_the_seventies_are_not_taken_for_seconds():
    of_time = schema(at=("int32", "io.debezium.time.Date", None))
    found = decoded([{"schema": of_time, "payload": {"id": 1, "at": 10}}], envelope="connect", time="at")
    assert found.times == [864_000_000.0]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(-(10**30), 10**30), st.integers(-40, 40), st.booleans()), max_size=5))
def test_every_decimal_is_the_nearest_float(numbers):
    values = []
    for i, (whole, scale, same) in enumerate(numbers):
        scale = 2 if same else scale
        of_a = schema(a=("bytes", DECIMAL, {"scale": str(scale)}))
        values.append({"schema": of_a, "payload": {"id": i, "a": unscaled(whole)}})
        numbers[i] = whole, scale, same
    found = decoded(values, envelope="connect", time=None)
    expected = [float(Decimal(f"{whole}E{-scale}")) for whole, scale, _ in numbers]
    assert found.x[:, 0].tolist() == expected


@pytest.mark.parametrize(("digits", "scale"), [(4000, 0), (7200, 0), (4000, -1000), (300_000, 0)])
def test_decimals_of_more_digits_than_a_text_may_have_are_rejected(digits, scale):
    """As ids, and as values of nominal features: Python makes no text of these, which ended the worker."""
    kind = ("bytes", DECIMAL, {"scale": str(scale)})
    record = {"schema": schema(id=kind, c=kind), "payload": {"id": unscaled(7), "c": unscaled(10**digits)}}
    other = {**record, "payload": {"id": unscaled(10**digits), "c": unscaled(7)}}
    found = decoded([record, other], envelope="connect", time=None)
    assert found.ids == []
    assert {x.reason for x in found.rejected} <= {r.NOT_FINITE, r.TOO_LONG, r.WRONG_TYPE, r.TOO_LARGE}


EVENT = {"specversion": "1.0", "id": "e1", "time": "2024-01-01T00:00:00Z", "source": "/x", "type": "t"}
CLOUD = {**STREAM, "record": {"x": "", "y": None, "envelope": "cloudevents"}}
BINARY = [("ce_specversion", b"1.0"), ("ce_id", b"e2"), ("ce_time", b"2024-01-01T00:00:01Z"), ("ce_source", b"/x")]
DATA = {"a": 2.5, "c": "u"}


def test_events_bring_id_and_time_in_both_modes():
    about = [[("content-type", b"application/cloudevents+json; charset=UTF-8")], [], BINARY, BINARY[:1], BINARY]
    values = [{**EVENT, "data": DATA}, {**EVENT, "data": DATA}, DATA, DATA, b"[]"]
    found = decoded(values, CLOUD, about)
    assert found.ids == ["e1", "e1", "e2"]
    assert found.times == [1_704_067_200_000.0, 1_704_067_200_000.0, 1_704_067_201_000.0]
    np.testing.assert_array_equal(found.x, [[2.5, 0]] * 3)
    assert why(found) == [(3, r.MISSING_ID, False), (4, r.WRONG_TYPE, False)]


def test_what_is_no_event_is_named():
    about = [
        [],
        [],
        [("content-type", b"application/cloudevents-batch+json")],
        [("ce_specversion", b"1.0"), ("ce_id", b"\xff")],
    ]
    found = decoded([DATA, {**EVENT, "data_base64": "AA=="}, [EVENT], DATA], CLOUD, about)
    assert why(found) == [(0, r.WRONG_ENVELOPE, False), (1, r.WRONG_ENVELOPE, False), (2, r.WRONG_ENVELOPE, False),
                          (3, r.NOT_UTF8, False)]  # fmt: skip


def test_attributes_can_be_features_and_paths_can_still_say_otherwise():
    features = {"a": "numeric", "c": {"type": "nominal", "from": "@envelope:source"},
                "n": {"type": "numeric", "from": "@envelope:count"}}  # fmt: skip
    stream = {**CLOUD, "features": features}
    about = [[], [*BINARY, ("ce_count", b"3")], [*BINARY, ("ce_count", b"x")]]
    found = decoded([{**EVENT, "count": 2, "data": {"k": 1}}, {"k": 2}, {"k": 3}], stream, about, id="k")
    assert found.ids == ["1", "2"]
    np.testing.assert_array_equal(found.x, [[np.nan, 0, 2], [np.nan, 0, 3]])
    assert why(found) == [(2, r.WRONG_TYPE, False)]


def test_labels_come_in_envelopes_too():
    spec = build({**STREAM, "label": {"envelope": "debezium", "y": "outcome", "time": "@envelope:source.ts_ms"}}, "s")
    values = [change("u", {"id": 7, "outcome": "up"}), change("d", None), None]
    batch = raw([None if v is None else json.dumps(v).encode() for v in values])
    found = spec.make_codec().decode_labels(batch, spec.class_vocabulary())
    assert (found.ids, found.y, found.times) == (["7"], [0.0], [1000.0])
    assert why(found) == [(1, r.DELETE, True), (2, r.TOMBSTONE, True)]


def test_what_is_no_instance_is_counted_and_no_dead_letter():
    spec = build(STREAM, "s")
    values = [change("r", ROW), change("d", None), None, change("x", ROW)]
    texts = [None if v is None else json.dumps(v).encode() for v in values]
    learner, merge = PartitionLearner(spec), PartitionGroup()
    merge.buffers["features"].add(RawBatch([0, 1, 2, 3], [10] * 4, [None] * 4, texts))
    outcome = learner.step(merge.release(EVERYTHING))
    assert outcome.ids == ["7"]
    assert outcome.ignored == ["delete", "tombstone"]
    assert [one.reason for one in outcome.rejected["features"]] == [r.WRONG_ENVELOPE]
    assert learner.offsets["features"] == 4


@pytest.mark.parametrize("envelope", ["debezium", "connect", "cloudevents"])
def test_a_replay_writes_what_a_worker_reads(envelope):
    record = {"envelope": envelope, **({} if envelope == "cloudevents" else {"time": "at"})}
    spec = build({**STREAM, "record": record, "label": {"envelope": envelope}}, "s")
    timeline = Timeline(spec, Schedule(1_700_000_000_000, 1.0, 5))
    (rows,) = rows_of_arrays(spec, np.array([[0.5, 1.0], [np.nan, 0.0]]), np.array([1.0, 0.0]))
    sent, told = timeline.features(rows), None
    known, classes = spec.vocabularies(), spec.class_vocabulary()
    headers = [[], []]
    found = spec.make_codec().decode_features(
        RawBatch([0, 1], sent.stamps, sent.keys, sent.values, sent.headers or headers), known, classes
    )
    assert (found.ids, found.rejected) == (["0", "1"], [])
    assert found.times == [1_700_000_000_000, 1_700_000_000_001]
    np.testing.assert_array_equal(found.x, [[0.5, 0], [np.nan, 1]])
    told = timeline.labels(2e12, 9)
    labels = spec.make_codec().decode_labels(
        RawBatch([0, 1], told.stamps, told.keys, told.values, told.headers or headers), classes
    )
    assert (labels.ids, labels.y) == (["0", "1"], [0.0, 1.0])


def test_mistakes_are_sentences():
    for record, said in (
        ({"envelope": "avro"}, "record.envelope: expected"),
        ({"time": "@envelope:ts_ms"}, 'record.time: expected a path into the row, found "@envelope:ts_ms"'),
        ({"envelope": "connect", "time": "@envelope:ts_ms"}, "record.time: expected a path into the row"),
        ({"envelope": "debezium", "time": "@envelope:"}, "record.time: expected a field of the envelope"),
        ({"envelope": "debezium", "time": "@envelope:after"}, 'of the envelope, found "@envelope:after"'),
        ({"envelope": "debezium", "time": "@envelope:op.ms"}, 'of the envelope, found "@envelope:op.ms"'),
        ({"envelope": "cloudevents", "id": "@envelope:data"}, 'of the envelope, found "@envelope:data"'),
    ):
        with pytest.raises(SpecError, match=re.escape(said)):
            build({**STREAM, "record": record}, "s")


UNTOLD = "__debezium_unavailable_value"
UNTOLD_BYTES = base64.b64encode(UNTOLD.encode()).decode()
PLAIN = {**STREAM, "record": {"x": "", "y": None}}


@pytest.mark.parametrize("text", [UNTOLD, UNTOLD_BYTES])
@pytest.mark.parametrize("n", [0, 40])
def test_a_value_that_debezium_was_not_told_is_missing(text, n):
    rows = [*({"id": i, "a": i, "c": "u"} for i in range(n)), {"id": 100, "a": 1, "c": text}, {"id": 101, "a": text}]
    for found in (decoded(rows, PLAIN), decoded([change("u", row) for row in rows])):
        assert not found.rejected
        np.testing.assert_array_equal(found.x[n:], [[1.0, np.nan], [np.nan, np.nan]])
    inside = {**PLAIN, "features": {"a": {"type": "numeric", "from": "a[0]"}, "c": {"type": "nominal", "from": "c[0]"}}}
    found = decoded([{"id": 1, "a": [text], "c": [text]}, {"id": 2, "a": [3], "c": ["u"]}], inside)
    np.testing.assert_array_equal(found.x, [[np.nan, np.nan], [3.0, 0.0]])
    decimal = {"type": "bytes", "name": DECIMAL, "parameters": {"scale": "2"}, "field": "a"}
    fields = [{"field": "after", "type": "struct", "fields": [decimal]}]
    wrapped = {"schema": {"type": "struct", "fields": fields}, "payload": change("u", {"id": 1, "a": UNTOLD_BYTES})}
    assert np.isnan(decoded([wrapped]).x).all()


@pytest.mark.parametrize("more", [{}, {"classes": ["d", "u"]}, {"task": "regression"}])
@pytest.mark.parametrize("text", [UNTOLD, UNTOLD_BYTES])
def test_a_label_that_debezium_was_not_told_is_none_and_no_mistake(text, more):
    spec = build({**PLAIN, "champion": "auto", **more}, "s")
    good = 1 if "task" in more else "u"
    values = [json.dumps({"id": i, "y": y}).encode() for i, y in enumerate([text, good, None])]
    values.append(b'{"id": 3}')
    classes = spec.class_vocabulary()
    found = spec.make_codec().decode_labels(raw(values), classes)
    assert why(found) == [(0, r.UNAVAILABLE, True), (3, r.WRONG_LABEL, False)]
    assert (found.ids, np.isnan(found.y).tolist()) == (["1", "2"], [False, True])
    assert classes is None or UNTOLD not in classes.texts


def test_a_value_that_a_state_has_learned_stays_one():
    spec = build(PLAIN, "s")
    (_, known) = spec.vocabularies()
    known.restore(["u", UNTOLD])
    values = [json.dumps({"id": 1, "a": 1, "c": UNTOLD}).encode()]
    found = spec.make_codec().decode_features(raw(values), [None, known], None)
    assert found.x.tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize("wrap", WRAPPED)
def test_a_change_of_mongodb_has_its_row_as_a_text(wrap):
    row = {"_id": {"$oid": "64"}, **ROW, "n": {"$numberLong": "5"}}
    after = [json.dumps(row), "no row", "[1]", json.dumps({"id": 8, "a": "no number"})]
    found = decoded([wrap(change("c", text)) for text in after], id="_id.$oid")
    assert (found.ids, found.x.tolist()) == (["64"], [[1.5, 0.0]])
    assert [(i, reason) for i, reason, _ in why(found)] == [(i, r.WRONG_TYPE) for i in (1, 2, 3)]


def test_a_byte_order_mark_is_ignored_and_nan_is_named():
    good = [json.dumps({"id": i, "a": 1}).encode() for i in range(30)]
    found = decoded([*good, b"\xef\xbb\xbf" + good[0], b'{"id": 31, "a": NaN}'], PLAIN)
    assert found.ids == [*map(str, range(30)), "0"]
    (bad,) = found.rejected
    assert bad.reason == r.NOT_JSON
    assert bad.detail.endswith("JSON has no NaN and no Infinity: write null for a number that is missing")
