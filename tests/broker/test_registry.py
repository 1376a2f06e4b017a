"""Formats of a real schema registry: the same predictions as of the same rows in JSON, whatever happens to both."""

import asyncio
import io
import json
import re
import shutil
import signal
import ssl
import threading
import urllib.request
from collections.abc import Callable
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import fastavro
import numpy as np
import pytest
import yaml
from google.protobuf import json_format

from riparian.app.errors import RegistryError
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup, RecordedOrder
from riparian.app.registry.client import Registry
from riparian.app.registry.stream_schemas import begin, look_up
from riparian.app.state.audit.proof import differing_parts
from riparian.app.stream_file.spec import build
from riparian.topics.formats.protobuf.types import MessageTypes, class_of, head_of
from riparian.topics.names import HEADER_OFFSET, HEADER_REASON, HEADER_SOURCE, HEADER_TOPIC
from riparian.topics.records import RawBatch
from riparian.topics.schemas import PROTOBUF, RegisteredSchema
from tests.broker.clients import Sent, make_topics, send
from tests.broker.harness import PATIENCE, Stream, instances, riparian, stored, stream_file
from tests.broker.secured import certificate, certificates
from tests.processes import until as until_true

pytestmark = pytest.mark.broker

NOBODY = b"\0\x7f\xff\xff\xff"  # an id that no schema has


def record(name, **fields):
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


NUMBER, TEXT = ["null", "double"], ["null", "string"]


class Wire(NamedTuple):
    """A format on the wire. first, second : schemas of features, the second one in another order, of other types and
    with a field more; wrong : one in which a feature is a text. short : why a record that ends too early is rejected.
    encode : a schema's text and a value -> the bytes behind the id."""

    kind: str
    first: str
    second: str
    label: str
    wrong: str
    short: str
    encode: Callable[[str, Any], bytes]


def to_avro(text, value):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(text)), value)
    return out.getvalue()


def to_protobuf(text, value):
    messages = MessageTypes(RegisteredSchema(PROTOBUF, text))
    places = messages.places("com.shop.Label" if "message Label" in text else "com.shop.Order")
    made = json_format.ParseDict(value, class_of(messages.at(places))())
    return head_of(places) + made.SerializeToString()


def of(**fields):
    return {"type": "object", "properties": {n: {"type": t} if isinstance(t, str) else t for n, t in fields.items()}}


WIRES = {
    "avro": Wire(
        "AVRO",
        *map(json.dumps, (
            record("com.shop.Order", id="string", x=record("X", a="double", b="double", c="string")),
            record("com.shop.Order", new=TEXT, x=record("X", c=TEXT, d="long", b=NUMBER, a=NUMBER), id="string"),
            record("com.shop.Label", id="string", y={"type": "enum", "name": "Y", "symbols": ["no", "yes"]}),
            record("R", id="string", x=record("X", a="string", b="double")),
        )),
        "malformed", to_avro,
    ),
    "json-schema": Wire(
        "JSON",
        *map(json.dumps, (
            {"title": "com.shop.Order", **of(id="string", x=of(a="number", b="number", c="string"))},
            {"title": "com.shop.Order", **of(id="string", x={"oneOf": [{"type": "null"}, {"$ref": "#/definitions/X"}]}),
             "definitions": {"X": of(c="string", d="integer", b={"type": ["null", "number"]}, a={})}},
            {"title": "com.shop.Label", **of(id="string", y={"enum": ["no", "yes"]})},
            of(id="string", x=of(a="string", b="number")),
        )),
        "not-json", lambda text, value: json.dumps(value).encode(),
    ),
    "protobuf": Wire(
        "PROTOBUF",
        "syntax = 'proto3'; package com.shop; message Order { string id = 1; X x = 2; "
        "message X { double a = 1; double b = 2; string c = 3; } }",
        "syntax = 'proto3'; package com.shop; message New {} message Order { optional string new = 4; X x = 2; "
        "string id = 1; } message X { string c = 3; int64 d = 4; optional double b = 2; optional double a = 1; }",
        "syntax = 'proto3'; package com.shop; message Label { string id = 1; Y y = 2; } enum Y { no = 0; yes = 1; }",
        "syntax = 'proto3'; package com.shop; message Order { string id = 1; X x = 2; "
        "message X { string a = 1; double b = 2; } }",
        "malformed", to_protobuf,
    ),
}  # fmt: skip


@pytest.fixture(params=list(WIRES))
def codec(request):
    return request.param


def register(registry, subject, text, kind, references=()):
    body = json.dumps({"schema": text, "schemaType": kind, "references": references}).encode()
    url = f"{registry.url}/subjects/{subject}/versions"
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["id"]


def encoded(sent, number, wire, text):
    """JSON records as those of a format."""
    made = []
    for one in sent:
        value = json.loads(one.value)
        if "x" in value and text == wire.second:
            value |= {"new": None, "x": {**value["x"], "d": 7}}
        made.append(one._replace(value=b"\0" + number.to_bytes(4, "big") + wire.encode(text, value)))
    return made


@pytest.fixture
def registered(stream, registry):
    """Makes a stream of a codec, whose schemas are in the registry."""

    def make(codec, name="", **fields):
        names = {"features": "com.shop.Order", "labels": "com.shop.Label"}  # of messages; of other formats for nobody
        settings = {"url": registry.url, "max_wait": "300ms", "records": names}
        broker, folder, topic = stream.args
        return Stream(broker, folder, topic + name, codec=codec, registry=settings, **fields)

    return make


def until(condition, worker):
    until_true(lambda: worker.process.poll() is not None or condition())
    assert condition(), worker.output[-3000:]


def letters(s):
    return [(one[HEADER_TOPIC], int(one[HEADER_OFFSET]), one[HEADER_REASON]) for one in s.letters()]


def test_rows_with_schemas_are_predicted_as_rows_in_json(codec, registry, registered):
    wire, n = WIRES[codec], 900
    s = registered(codec, predictions={"reasons": 2})
    topics = s.spec.topics
    one, other = (register(registry, f"{topics.features}-value", wire.first, wire.kind) for _ in range(2))
    assert one == other
    answer = register(registry, f"{topics.labels}-value", wire.label, wire.kind)
    # The predictions' schema is registered when it is asked for, and at no other time.
    refused = s.riparian("check", code=2)
    assert f"no schema of predictions under the subject {topics.predictions}-value" in refused
    s.riparian("check", "--register")
    s.riparian("check")

    features, labels = instances(n, delay=40)
    second = register(registry, f"{topics.features}-value", wire.second, wire.kind)
    made = encoded(features[: n // 2], one, wire, wire.first) + encoded(features[n // 2 :], second, wire, wire.second)
    told = encoded(labels, answer, wire, wire.label)
    for records, plain, at in ((made, features, 400), (told, labels, 600)):
        for value in (NOBODY + b"what?", b"\0\0\0", made[0].value[:-3], b""):
            records.insert(at, Sent(value, plain[at].time, b"k"))
            plain.insert(at, Sent(b"{", plain[at].time, b"k"))
    send(s.broker, topics.features, made)
    send(s.broker, topics.labels, told[: n // 3])
    with s.worker(place="w") as worker:
        s.reach(400, n // 4, worker)
        send(s.broker, topics.labels, told[n // 3 :])
        s.predicted(n // 2, worker)
        worker.kill()
    with s.worker(place="w") as worker:
        learner = s.reach(len(made), len(told), worker)
        worker.kill()

    # The same rows in JSON, folded in the recorded order.
    read_prediction = s.spec.make_codec().read_prediction
    sent = [read_prediction(one.value) for one in s.read("predictions")]
    fields = yaml.safe_load(s.path.read_text())
    plain = build({k: v for k, v in fields.items() if k not in ("codec", "registry")}, "s")
    oracle = PartitionLearner(plain)
    offsets, label_offsets = (np.array([p[k] for p in sent], np.int64) for k in ("offset", "label_offset"))
    merge = PartitionGroup(script=RecordedOrder(offsets, {"labels": label_offsets}))
    for role, rows in (("features", features), ("labels", labels)):
        there = s.read(role)
        columns = ([getattr(r, name) for r in there] for name in ("offset", "timestamp", "key"))
        merge.buffers[role].add(RawBatch(*columns, [row.value for row in rows]))
    folded = []
    while merge.n_waiting:
        outcome = oracle.step(merge.release(EVERYTHING))
        folded += map(json.loads, map(bytes, oracle.encode(outcome)))
    assert len(sent) == n
    for one in (*sent, *folded):  # none is null, or left out
        one["reasons"] = one.get("reasons")
    assert sum(one["reasons"] is not None for one in sent) > n // 2
    assert sent == folded
    assert differing_parts(oracle, learner) == []

    reasons = ["unknown-schema", "no-schema-id", wire.short, "empty"][::-1]
    wanted = [(topics.features, 400 + i, reason) for i, reason in enumerate(reasons)]
    wanted += [(topics.labels, 600 + i, reason) for i, reason in enumerate(reasons)]
    assert sorted(letters(s)) == sorted(wanted)
    s.riparian("audit")
    tested = json.loads(s.riparian("backtest", "--json"))
    assert tested["models"][0]["overall"] == learner.figures().overall["champion"]
    s.riparian("check")


SHARED = {"learning": "shared", "partitions": 2, "predictions": {"coverage": 0.9}}


def test_shared_learning_has_a_schema_of_predictions_of_its_own(codec, registry, registered):
    """Which fits behind that of a stream without it: where subjects are named by records, all streams have one."""
    one, other = ({**SHARED, "learning": learning} for learning in ("partition", "shared"))
    kinds = [
        registered({"predictions": codec}, f"-{i}", topics_made=False, topics={"predictions": "told"}, **fields)
        for i, fields in enumerate((one, other))
    ]
    name = f"{kinds[0].name}.told"  # of this test alone
    for s, fields in zip(kinds, (one, other), strict=True):
        names = {"topics": {"predictions": name}, "codec": {"predictions": codec}, **fields}
        s.change(**names, registry=yaml.safe_load(s.path.read_text())["registry"])
    subject, found = f"{name}-value", []
    for s in [*kinds, kinds[0]]:
        if len(found) < 2:
            with pytest.raises(RegistryError, match=f"no schema of predictions under the subject {subject}"):
                asyncio.run(begin(Registry.of(s.spec), s.spec))
        riparian("check", s.path, "--register")
        asyncio.run(begin(Registry.of(s.spec), s.spec))
        found.append(s.spec.schemas.written["predictions"])
        level = json.dumps({"compatibility": "NONE" if codec == "json-schema" else "BACKWARD"}).encode()
        headers = {"Content-Type": "application/json"}
        urllib.request.urlopen(
            urllib.request.Request(f"{registry.url}/config/{subject}", level, headers, method="PUT")
        ).close()
    assert ["learned_offset" in written.schema.text for written in found] == [False, True, False]
    assert found[0] == found[2] != found[1]


def test_rows_with_schemas_are_copied_by_the_ids_in_them(codec, registry, registered, stream):
    """Topics of other partitions than the stream's, without keys; one record's schema is known to nobody."""
    wire, (broker, _, name) = WIRES[codec], stream.args
    given = {"features": f"{name}.orders", "labels": f"{name}.paid"}
    make_topics(broker, dict.fromkeys(given.values(), 3))
    s = registered(codec, partitions=2, rekey=given, champion="last-label")
    first = register(registry, f"{given['features']}-value", wire.first, wire.kind)
    answer = register(registry, f"{given['labels']}-value", wire.label, wire.kind)
    s.riparian("check", "--register")
    features, labels = instances(300)
    made, told = encoded(features, first, wire, wire.first), encoded(labels, answer, wire, wire.label)
    made.insert(70, Sent(NOBODY + b"what?", made[70].time, b"k"))
    for k in range(3):
        send(broker, given["features"], [one._replace(key=None) for one in made[k::3]], partition=k)
        send(broker, given["labels"], [one._replace(key=None) for one in told[2 - k :: 3]], partition=k)
    with s.worker() as worker:

        def joined():
            held = [stored(broker, s.spec, k) for k in range(2)]
            return sum(0 if one is None else one.pending.counts["joined"] for one in held)

        until(lambda: joined() == 300, worker)
        assert worker.stop() == 0, worker.output[-3000:]
    (letter,) = [one for k in range(2) for one in s.letters(k)]
    assert letter[HEADER_REASON] == "unknown-schema"
    assert letter[HEADER_SOURCE] == f"{given['features']}/{70 % 3}/{70 // 3}"


def test_a_registry_that_does_not_answer_loses_nothing(registry, registered):
    """What is known goes on; what is not waits, and is not rejected: of every codec by the same code."""
    wire = WIRES["avro"]
    s = registered("avro", topics={"labels": None})
    topic = s.spec.topics.features
    first = register(registry, f"{topic}-value", wire.first, wire.kind)
    second = register(registry, f"{topic}-value", wire.second, wire.kind)
    s.riparian("check", "--register")
    features, _ = instances(900)
    with s.worker() as worker:
        send(s.broker, topic, encoded(features[:300], first, wire, wire.first))
        s.predicted(300, worker)
        registry.process.send_signal(signal.SIGSTOP)
        try:
            # The worker asked for both at its start and with the first records; a third one it does not know.
            send(s.broker, topic, encoded(features[300:600], first, wire, wire.first))
            send(s.broker, topic, [Sent(NOBODY + b"?", features[600].time, b"k")])
            send(s.broker, topic, encoded(features[600:], second, wire, wire.second))
            s.predicted(600, worker)
            worker.wait_for("has not answered within")
            assert len(s.read("predictions")) == 600
            assert letters(s) == []
        finally:
            registry.process.send_signal(signal.SIGCONT)
        s.predicted(900, worker)
        assert worker.stop() == 0
    assert letters(s) == [(topic, 600, "unknown-schema")]
    assert s.stored().offsets["features"] == 901


def test_a_replay_writes_what_a_worker_reads_and_what_does_not_fit_is_said(codec, registry, registered):
    wire, n = WIRES[codec], 300
    s = registered(codec)
    features = f"{s.spec.topics.features}-value"
    assert f"has no subject {features} yet" in " ".join(s.riparian("check", "--register").split())
    register(registry, features, wire.first, wire.kind)
    register(registry, f"{s.spec.topics.labels}-value", wire.label, wire.kind)
    rows = s.folder / "rows.csv"
    rows.write_text(
        "a,b,c,y\n" + "".join(f"{i % 7}.5,{i % 5},{'uv'[i % 2]},{('no', 'yes')[i % 3 > 1]}\n" for i in range(n))
    )
    s.riparian("replay", rows, "--label", "y")
    send(s.broker, s.spec.topics.features, [Sent(b"{}", 10**12, b"k")])
    s.run(n + 1, n)
    assert len(s.read("predictions")) == n
    assert "no-schema-id" in s.riparian("deadletters list", "--json")
    # Before the first record of a schema that does not fit.
    register(registry, features, wire.wrong, wire.kind)
    assert 'features.a: expected a number at "x.a" of schema' in s.riparian("check", code=2)
    with s.worker() as worker:
        assert worker.process.wait(PATIENCE) == 2
        assert "declare the feature of another type" in worker.output


REFERRING = {
    "avro": (
        json.dumps(record("com.shop.X", a="double", b="double", c="string")),
        json.dumps(record("com.shop.Order", id="string", x="com.shop.X")),
        "com.shop.X",
    ),
    "json-schema": (
        json.dumps({"$id": "http://shop/x.json", **of(a="number", b="number", c={"$ref": "#/$defs/t"}),
                    "$defs": {"t": {"type": "string"}}}),
        json.dumps({"title": "com.shop.Order", **of(id="string", x={"$ref": "http://shop/x.json"})}),
        "http://shop/x.json",
    ),
    "protobuf": (
        "syntax = 'proto3'; package com.shop; message X { double a = 1; double b = 2; string c = 3; }",
        "syntax = 'proto3'; package com.shop; import 'shop/x.proto'; message Order { string id = 1; X x = 2; }",
        "shop/x.proto",
    ),
}  # fmt: skip


def test_what_a_schema_refers_to_is_read_from_the_registry(codec, registry, tmp_path, topic_name):
    """By the id of a record, and as the latest one of a subject that is named after the schema."""
    wire, (below, text, name) = WIRES[codec], REFERRING[codec]
    settings = {"url": registry.url, "subjects": "topic-record-name",
                "records": {"features": "com.shop.Order", "labels": "com.shop.Label"}}  # fmt: skip
    _, spec = stream_file(tmp_path, topic_name, codec=codec, registry=settings)
    register(registry, f"{topic_name}-below", below, wire.kind)
    references = [{"name": name, "subject": f"{topic_name}-below", "version": 1}]
    number = register(registry, spec.subject("features"), text, wire.kind, references)
    assert spec.subject("features") == f"{spec.topics.features}-com.shop.Order"
    register(registry, spec.subject("labels"), wire.label, wire.kind)
    client = Registry.of(spec)
    assert asyncio.run(begin(client, spec, register=True)) == []
    assert asyncio.run(look_up(client, spec, [number, 10**6])) == {10**6}
    assert spec.schemas.known[number].references[0][0] == name
    rows = ['{"id": "i1", "x": {"a": 0.5, "b": 2.0, "c": "u"}}', '{"id": "i2", "x": {"a": 1.5, "b": 3.0, "c": "v"}}']
    plain = encoded([Sent(row.encode(), 0, b"k") for row in rows], number, wire, wire.first)
    batch = RawBatch([0, 1], [0, 0], [b"k"] * 2, [one.value for one in plain])
    found = spec.make_codec().decode_features(batch, spec.vocabularies(), spec.class_vocabulary())
    assert found.ids == ["i1", "i2"]
    assert found.x[:, :2].tolist() == [[0.5, 2.0], [1.5, 3.0]]


@contextmanager
def behind_tls(folder, port):
    """A port of 127.0.0.1 that takes clients with a certificate of `ca` only, and hands on what they send."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=folder / "ca.crt")
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED

    async def pass_on(reader, writer):
        with suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def relay(reader, writer):
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pass_on(reader, far_writer), pass_on(far_reader, writer))

    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(relay, "127.0.0.1", 0, ssl=context))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        server.close()
        loop.close()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl makes the certificates")
def test_a_registry_that_wants_a_client_certificate(stream, registry, tmp_path, topic_name):
    wire = WIRES["avro"]
    certificates(tmp_path)
    certificate(tmp_path, "stranger-client", ca="stranger")
    for kind in ("crt", "key"):
        shutil.copy(tmp_path / f"client.{kind}", tmp_path / f"mine.{kind}")
    with behind_tls(tmp_path, registry.port) as port:
        url = f"https://127.0.0.1:{port}/apis/ccompat/v7"
        files = {"certificate": str(tmp_path / "mine.crt"), "key": str(tmp_path / "mine.key")}
        settings = {"url": url, "ca": str(tmp_path / "ca.crt"), **files}
        s = stream(topics_made=False, codec="avro", registry=settings)
        spec = s.spec
        for topic, text in ((spec.topics.features, wire.first), (spec.topics.labels, wire.label)):
            register(registry, f"{topic}-value", text, wire.kind)
        s.riparian("check", "--register")
        asked = Registry.of(spec)
        assert asyncio.run(asked.latest(f"{spec.topics.predictions}-value")) is not None
        # A certificate of somebody else in its place, and back: files are read at each session.
        for kind in ("crt", "key"):
            shutil.copy(tmp_path / f"stranger-client.{kind}", tmp_path / f"mine.{kind}")
        with pytest.raises(RegistryError, match=re.escape(url)):
            asyncio.run(asked.schemas([1]))
        for kind in ("crt", "key"):
            shutil.copy(tmp_path / f"client.{kind}", tmp_path / f"mine.{kind}")
        number = asyncio.run(asked.latest(f"{spec.topics.features}-value")).id
        assert asyncio.run(asked.schemas([number]))[number].kind == "AVRO"
        alone = {"url": url, "ca": settings["ca"]}
        _, without = stream_file(tmp_path, f"{topic_name}-without", codec="avro", registry=alone)
        with pytest.raises(RegistryError, match=re.escape(url)):
            asyncio.run(Registry.of(without).schemas([number]))


def test_this_registry_gives_no_schemas_by_guid(registered):
    """So a GUID is tried on stand-ins only (tests/app/test_registry.py); its records wait here, and are not taken for
    ones that nobody has a schema of."""
    spec = registered("avro", topics_made=False).spec
    with pytest.raises(RegistryError, match="404"):
        asyncio.run(Registry.of(spec).schemas(["0e3e1f2a-1111-2222-3333-444455556666"]))
