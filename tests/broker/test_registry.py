"""Avro over a real schema registry: the same predictions as of the same rows in JSON, whatever happens to both."""

import io
import json
import signal
import urllib.request

import fastavro
import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from app.cli import cli
from app.partition.learner import PartitionLearner
from app.partition.merge import EVERYTHING, Merge, Script
from app.state.proof import differing_parts
from app.stream_file.spec import build
from tests.broker.harness import (
    PATIENCE,
    Sent,
    Worker,
    create_topics,
    instances,
    read,
    send,
    stored,
    stream_file,
    wait_for_state,
)
from tests.processes import until as until_true
from topics.names import HEADER_OFFSET, HEADER_REASON, HEADER_TOPIC
from topics.records import RawBatch

pytestmark = pytest.mark.broker

NOBODY = b"\0\x7f\xff\xff\xff"  # an id that no schema has


def record(name, **fields):
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


NUMBER, TEXT = ["null", "double"], ["null", "string"]
FIRST = record("com.shop.Order", id="string", x=record("X", a="double", b="double", c="string"))
# Another order, other types, and a field more.
SECOND = record("com.shop.Order", new=TEXT, x=record("X", c=TEXT, d="long", b=NUMBER, a=NUMBER), id="string")
LABEL = record("com.shop.Label", id="string", y={"type": "enum", "name": "Y", "symbols": ["no", "yes"]})


def register(registry, subject, schema):
    body = json.dumps({"schema": json.dumps(schema)}).encode()
    url = f"{registry.url}/subjects/{subject}/versions"
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["id"]


def as_avro(sent, number, schema, **more):
    """JSON records as Avro ones."""
    parsed, made = fastavro.parse_schema(schema), []
    for one in sent:
        value = json.loads(one.value)
        if "x" in value:
            value |= {"new": None, "x": {**value["x"], "d": 7}}
        out = io.BytesIO(b"\0" + number.to_bytes(4, "big"))
        out.seek(5)
        fastavro.schemaless_writer(out, parsed, value)
        made.append(one._replace(value=out.getvalue()))
    return made


def avro_stream(folder, name, registry, **fields):
    settings = {"url": registry.url, "max_wait": "300ms"}
    return stream_file(folder, name, codec="avro", registry=settings, **fields)


def invoke(*arguments):
    done = CliRunner().invoke(cli, list(map(str, arguments)))
    return done


def until(condition, worker):
    until_true(lambda: worker.process.poll() is not None or condition(), PATIENCE)
    assert condition(), worker.output[-3000:]


def letters(broker, spec):
    found = [dict(one.headers) for one in read(broker, spec.topics.deadletters)]
    return [(h[HEADER_TOPIC].decode(), int(h[HEADER_OFFSET]), h[HEADER_REASON].decode()) for h in found]


def test_rows_in_avro_are_predicted_as_rows_in_json(broker, registry, tmp_path, topic_name):
    path, spec = avro_stream(tmp_path, topic_name, registry)
    topics, n = spec.topics, 3000
    create_topics(spec, broker)
    one, other = (register(registry, f"{topics.features}-value", schema) for schema in (FIRST, FIRST))
    assert one == other
    answer = register(registry, f"{topics.labels}-value", LABEL)
    # The predictions' schema is registered when it is asked for, and at no other time.
    refused = invoke("check", path, "--broker", broker)
    assert refused.exit_code != 0
    assert f"no schema of predictions under the subject {topics.predictions}-value" in str(refused.exception)
    assert invoke("check", path, "--register").exit_code == 0
    assert invoke("check", path, "--broker", broker).exit_code == 0

    features, labels = instances(n, delay=40)
    second = register(registry, f"{topics.features}-value", SECOND)
    made = [*as_avro(features[: n // 2], one, FIRST), *as_avro(features[n // 2 :], second, SECOND)]
    told = as_avro(labels, answer, LABEL)
    for records, plain, at in ((made, features, 700), (told, labels, 900)):
        for value in (NOBODY + b"what?", b"\0\0\0", made[0].value[:-3], b""):
            records.insert(at, Sent(value, plain[at].time, b"k"))
            plain.insert(at, Sent(b"{", plain[at].time, b"k"))
    n_features, n_labels = len(made), len(told)
    send(broker, topics.features, made)
    send(broker, topics.labels, told[: n // 3])
    with Worker(path, broker, tmp_path) as worker:
        wait_for_state(broker, spec, 500, n // 4, worker=worker)
        send(broker, topics.labels, told[n // 3 :])
        until(lambda: len(read(broker, topics.predictions)) > n // 2, worker)
        worker.kill()
    with Worker(path, broker, tmp_path) as worker:
        learner = wait_for_state(broker, spec, n_features, n_labels, worker=worker)
        worker.kill()

    # The same rows in JSON, folded in the recorded order.
    read_prediction = spec.make_codec().read_prediction
    sent = [read_prediction(one.value) for one in read(broker, topics.predictions)]
    plain = build({k: v for k, v in yaml.safe_load(path.read_text()).items() if k not in ("codec", "registry")}, "s")
    oracle = PartitionLearner(plain)
    offsets, label_offsets = (np.array([p[k] for p in sent], np.int64) for k in ("offset", "label_offset"))
    merge = Merge(script=Script(offsets, {"labels": label_offsets}))
    for role, topic, rows in (("features", topics.features, features), ("labels", topics.labels, labels)):
        there = read(broker, topic)
        columns = ([getattr(r, name) for r in there] for name in ("offset", "timestamp", "key"))
        merge.buffers[role].add(RawBatch(*columns, [row.value for row in rows]))
    folded = []
    while merge.n_waiting:
        outcome = oracle.step(merge.release(EVERYTHING))
        folded += map(json.loads, oracle.codec.encode_predictions(
            outcome.ids, outcome.p["champion"], oracle.classes, "hoeffding-tree", outcome.offsets.tolist(),
            outcome.next_offsets["labels"].tolist(),
        ))  # fmt: skip
    assert len(sent) == n
    assert sent == folded
    assert differing_parts(oracle, learner) == []

    reasons = ["unknown-schema", "no-schema-id", "malformed", "empty"][::-1]
    wanted = [(topics.features, 700 + i, reason) for i, reason in enumerate(reasons)]
    wanted += [(topics.labels, 900 + i, reason) for i, reason in enumerate(reasons)]
    assert sorted(letters(broker, spec)) == sorted(wanted)
    done = invoke("audit", path, "--broker", broker)
    assert done.exit_code == 0, (done.output, done.exception)
    assert invoke("check", path, "--broker", broker).exit_code == 0


def test_a_registry_that_does_not_answer_loses_nothing(broker, registry, tmp_path, topic_name):
    """What is known goes on; what is not waits, and is not rejected."""
    path, spec = avro_stream(tmp_path, topic_name, registry, topics={"labels": None})
    topics = spec.topics
    create_topics(spec, broker)
    first = register(registry, f"{topics.features}-value", FIRST)
    second = register(registry, f"{topics.features}-value", SECOND)
    assert invoke("check", path, "--register").exit_code == 0
    features, _ = instances(900)
    predicted = lambda: len(read(broker, topics.predictions))  # noqa: E731
    with Worker(path, broker, tmp_path) as worker:
        send(broker, topics.features, as_avro(features[:300], first, FIRST))
        until(lambda: predicted() == 300, worker)
        registry.process.send_signal(signal.SIGSTOP)
        try:
            # The worker asked for both at its start and with the first records; a third one it does not know.
            send(broker, topics.features, as_avro(features[300:600], first, FIRST))
            send(broker, topics.features, [Sent(NOBODY + b"?", features[600].time, b"k")])
            send(broker, topics.features, as_avro(features[600:], second, SECOND))
            until(lambda: predicted() == 600, worker)
            until(lambda: "has not answered within" in worker.output, worker)
            assert predicted() == 600
            assert letters(broker, spec) == []
        finally:
            registry.process.send_signal(signal.SIGCONT)
        until(lambda: predicted() == 900, worker)
        assert worker.stop() == 0
    assert letters(broker, spec) == [(topics.features, 600, "unknown-schema")]
    assert stored(broker, spec).offsets["features"] == 901


def test_what_does_not_fit_is_said_before_the_first_record(broker, registry, tmp_path, topic_name):
    path, spec = avro_stream(tmp_path, topic_name, registry)
    create_topics(spec, broker)
    said = invoke("check", path, "--register", "--broker", broker)
    assert said.exit_code == 0
    assert f"has no subject {spec.topics.features}-value yet" in " ".join(said.output.split())
    register(registry, f"{spec.topics.features}-value", record("R", id="string", x=record("X", a="string", b="double")))
    done = invoke("check", path, "--broker", broker)
    assert 'features.a: expected a number at "x.a" of schema' in str(done.exception)
    with Worker(path, broker, tmp_path) as worker:
        assert worker.process.wait(120) == 2
        assert "declare the feature of another type" in worker.output
