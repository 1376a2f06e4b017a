"""Topics of which each record is a label of one class (`label.is`), since it is there.

The slow twin reads the same records by `label.y`, with the class written into each.
"""

import json
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.written import rows_of_arrays
from riparian.app.replay import Schedule, Timeline
from riparian.app.stream_file.spec import Spec, build
from riparian.topics.codecs import CODECS
from riparian.topics.formats.json.codec import JsonCodec
from riparian.topics.records import RawBatch, Rows
from riparian.topics.schemas import JSON, PROTOBUF, RegisteredSchema, Schemas
from tests.topics import test_avro as avro
from tests.topics.arrow_records import raw as arrow_raw
from tests.topics.arrow_records import stream as arrow_stream

CLICKS = [{"imp": f"i{k}", "at": 1_700_000_000_000 + k, "page": [1, {"y": None}]} for k in range(40)]
ROW = {"op": "c", "before": None}
WRAPPED = {
    None: lambda one: one,
    "debezium": lambda one: {**ROW, "after": one},
    "connect": lambda one: {"schema": None, "payload": one},
    "cloudevents": lambda one: {"specversion": "1.0", "id": "e", "source": "/", "type": "t", "data": one},
}
ODD: list[bytes | None] = [
    None, b"", b"null", b"[]", b"{}", b"no json", b'{"imp":null}', b'{"imp":1.5}', b'{"imp":"i","at":"soon"}',
    b'{"op":"d","before":{"imp":"i"},"after":null}', b'{"imp":"' + b"x" * 2000 + b'"}', b"\xff", b'{"imp":"\xff"}',
]  # fmt: skip


def spec_of(is_: Any = "clicked", *, twin: bool = False, **label: Any) -> Spec:
    """With `twin`: the stream that reads the class by a field."""
    said = {"id": "imp", "time": "at", **label}
    return build(
        {
            "name": "ads",
            "task": "classification",
            "classes": ["no", is_],
            "features": {"a": "numeric"},
            "champion": "majority-class",
            "label": said | ({"y": "is"} if twin else {"is": is_}),
            "join": {"unlabelled": {"is": "no", "after": "10m"}},
        }
    )


def batch(values: list[Any], *headers: tuple[str, bytes]) -> RawBatch:
    n = len(values)
    about = [list(headers)] * n
    return RawBatch(list(range(n)), [5 * i for i in range(n)], [b"k%d" % i for i in range(n)], values, about)


def told(codec: Any, spec: Spec, values: Any) -> list[str]:
    """What is decoded, to the bit, and why the rest is rejected."""
    classes = spec.class_vocabulary()
    found = codec.decode_labels(values if isinstance(values, RawBatch) else batch(values), classes)
    y = [float(one).hex() for one in found.y]
    assert classes is not None
    return [repr(one) for one in (found.position, list(found.ids), y, found.times, found.rejected, classes.values)]


def written(one: dict[str, Any], is_: Any = "clicked") -> dict[str, Any]:
    return {**one, "is": is_}


@pytest.mark.parametrize("is_", ["clicked", 1, True, 0.5])
@pytest.mark.parametrize("envelope", WRAPPED)
@pytest.mark.parametrize("id_", ["imp", "@key"])
def test_json_is_read_as_if_each_record_said_the_class(envelope: str | None, id_: str, is_: Any) -> None:
    wrap, fields = WRAPPED[envelope], {"envelope": envelope, "id": id_}
    plain, twin = spec_of(is_, **fields), spec_of(is_, twin=True, **fields)
    values = [json.dumps(wrap(one)).encode() for one in CLICKS]
    said = [json.dumps(wrap(written(one, is_))).encode() for one in CLICKS]
    found = told(JsonCodec(plain.mapping()), plain, [*values, *ODD])
    if id_ == "@key":  # with no field but the time, objects are labels that have no label by the twin
        found, expected = (told(JsonCodec(one.mapping()), one, v) for one, v in ((plain, values), (twin, said)))
        assert found == expected
        return
    with_odd = told(JsonCodec(twin.mapping()), twin, [*said, *ODD])
    assert found == with_odd
    for one in (values[:1], values[:1] * 3, ODD, []):
        JsonCodec(plain.mapping()).decode_labels(batch(list(one)), plain.class_vocabulary())
    singly = [told(JsonCodec(plain.mapping()), plain, [one])[2] for one in values]
    assert "".join(singly).count("0x1.0000000000000p+0") == len(values)


@pytest.mark.parametrize("kind", ["json", "json-schema"])
@pytest.mark.parametrize("envelope", WRAPPED)
@pytest.mark.parametrize("time", [None, "@header:at"])
@pytest.mark.parametrize("id_", ["@key", "@header:who", "@envelope:subject"])
def test_a_row_of_which_nothing_is_read_is_a_label_and_no_other_record_is(
    id_: str, time: str | None, envelope: str | None, kind: str
) -> None:
    if id_.startswith("@envelope") and envelope not in ("debezium", "cloudevents"):
        return
    spec = spec_of(id=id_, time=time, envelope=envelope)
    schemas, head = Schemas(), b"" if kind == "json" else b"\0\0\0\0\1"
    schemas.known[1] = RegisteredSchema(JSON, '{"type": "object"}')
    codec = JsonCodec(spec.mapping()) if kind == "json" else CODECS[kind](spec.mapping(), schemas)
    wrap, who, classes = WRAPPED[envelope], ("who", b"w"), spec.class_vocabulary()
    around = {"subject": "w"} if id_.startswith("@envelope") else {}
    made = list[Any](map(wrap, ({}, {"any": [1, {"y": None}]}, 7, "text", [{}], None)))
    values = [*(head + json.dumps(one | around if around else one).encode() for one in made), None, head + b"[]"]
    found = codec.decode_labels(batch(values, who), classes)
    assert list(found.y) == [1.0, 1.0]
    assert list(found.ids) == (["k0", "k1"] if id_ == "@key" else ["w", "w"])
    assert [one.position for one in found.rejected] == list(range(2, len(values)))
    if envelope == "cloudevents":  # the attributes in headers
        binary = batch([head + b"{}", head + b"7"], ("ce_specversion", b"1.0"), ("ce_subject", b"w"), who)
        found = codec.decode_labels(binary, classes)
        assert (list(found.y), [one.position for one in found.rejected]) == ([1.0], [1])
    if kind == "json":
        sent = codec.writer().labels(["w"], ['"clicked"'], [5])
        assert list(codec.decode_labels(batch(sent, who), classes).y) == [1.0]


def test_a_record_of_nothing_is_a_label_where_the_key_is_its_id() -> None:
    spec = spec_of(id="@key", time=None)
    found = spec.make_codec().decode_labels(batch([b"{}", b'{"any": 1}', None, b"7"]), spec.class_vocabulary())
    assert (list(found.ids), list(found.y)) == (["k0", "k1"], [1.0, 1.0])
    assert [(one.position, one.reason) for one in found.rejected] == [(2, "tombstone"), (3, "wrong-type")]


def test_classes_that_are_learned_are_those_of_records_that_can_be_used() -> None:
    content = {"name": "s", "task": "classification", "features": {"a": "numeric"}, "champion": "majority-class"}
    spec = build({**content, "label": {"id": "imp", "is": "sent"}, "record": {"y": "outcome"}})
    classes = spec.class_vocabulary()
    assert classes is not None
    codec = spec.make_codec()
    assert len(codec.decode_labels(batch(ODD), classes).rejected) == len(ODD) - 1  # a time is not read here
    assert classes.values == ["sent"]
    assert list(codec.decode_labels(batch([b'{"imp":"a"}']), classes).y) == [0.0]


def registered(kind: str, spec: Spec, twin: bool) -> tuple[Any, list[bytes]]:
    """A codec of a registry, and the records by its schema."""
    made = [written(one) if twin else one for one in CLICKS]
    if kind == "avro":
        fields = [("imp", "string"), ("at", "long"), *([("is", "string")] if twin else [])]
        content = avro.record(*fields)
        return avro.codec_of(spec, content), [avro.encode(content, one) for one in made]
    schemas = Schemas()
    if kind == "json-schema":
        schemas.known[1] = RegisteredSchema(JSON, '{"type": "object"}')
        return CODECS[kind](spec.mapping(), schemas), [b"\0\0\0\0\1" + json.dumps(one).encode() for one in made]
    text = 'syntax = "proto3"; message R { string imp = 1; int64 at = 2;' + "string is = 3; }" * twin + "}" * (not twin)
    schemas.known[1] = RegisteredSchema(PROTOBUF, text)
    codec = CODECS[kind](spec.mapping(), schemas)
    from tests.topics.test_protobuf import message_of

    message = message_of(text, "R")
    values = [message(**{name: v for name, v in one.items() if name != "page"}).SerializeToString() for one in made]
    return codec, [b"\0\0\0\0\1\0" + value for value in values]


@pytest.mark.parametrize("kind", ["avro", "json-schema", "protobuf"])
def test_formats_of_a_registry_are_read_as_if_each_record_said_the_class(kind: str) -> None:
    found = []
    for twin in (False, True):
        spec = spec_of(twin=twin)
        codec, values = registered(kind, spec, twin)
        found.append(told(codec, spec, [*values, None, b"", values[0][:5], b"\0\0\0\0\1\0\xff\xff"]))
    assert [len(one) for one in found] == [6, 6]
    assert found[0][:4] == found[1][:4]
    where = [re.findall(r"position=(\d+), reason='([\w-]+)'", one[4]) for one in found]
    assert where[0] == where[1]


def test_batches_of_arrow_are_read_as_if_each_row_said_the_class() -> None:
    found = []
    for twin in (False, True):
        spec = spec_of(twin=twin)
        columns = {"imp": [one["imp"] for one in CLICKS], "at": [one["at"] for one in CLICKS]}
        table = pa.table(columns | ({"is": ["clicked"] * len(CLICKS)} if twin else {})).to_batches()[0]
        codec = CODECS["arrow"](spec.mapping(), Schemas())
        found.append(told(codec, spec, arrow_raw([arrow_stream(table), arrow_stream(table)], codec, "labels")))
    assert found[0] == found[1]


@pytest.mark.parametrize("place", ["outcome", "@header:outcome"])
def test_a_replay_sends_other_classes_where_they_stand(place: str) -> None:
    content = {"name": "s", "task": "classification", "features": {"a": "numeric"}, "champion": "majority-class"}
    spec = build({**content, "label": {"id": "imp", "is": "sent"}, "record": {"y": place}})
    rows = Rows(0, ["0", "1", "2"], [["0", "1", "2"]], ['"sent"', '"kept"', None])
    timeline = Timeline(spec, Schedule(1000, 1.0, 5))
    sent, codec, classes = timeline.features(rows), spec.make_codec(), spec.class_vocabulary()
    n = len(sent.values)
    found = codec.decode_features(
        RawBatch(list(range(n)), sent.stamps, sent.keys, sent.values, sent.headers), [], classes
    )
    assert classes is not None
    assert (classes.values, list(np.isnan(found.y))) == (["kept"], [True, False, True])
    assert [json.loads(one)["imp"] for one in timeline.labels(9000, 10).values] == ["0"]


@pytest.mark.parametrize("due", [None, [3000, 2000, 4000]])
def test_a_replay_sends_a_record_for_rows_of_the_class_alone(due: list[int] | None) -> None:
    spec = spec_of()
    (rows,) = rows_of_arrays(spec, np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 0.0, 1.0]))
    rows = Rows(rows.first, rows.ids, rows.features, ['"clicked"', '"no"', '"clicked"'])
    timeline = Timeline(spec, Schedule(1000, 1.0, 5, None if due is None else [1000, 1001, 1002], due))
    assert len(timeline.features(rows).values) == 3
    sent = timeline.labels(9000, 10)
    assert [json.loads(one) for one in sent.values] == [
        {"imp": "0", "at": sent.stamps[0]},
        {"imp": "2", "at": sent.stamps[1]},
    ]
    assert sent.stamps == ([1005, 1007] if due is None else [3000, 4000])
