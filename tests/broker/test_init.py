"""`riparian init --from-topic` on a real Kafka: what it writes fits the topics, and a worker's decoder reads them."""

import json
from typing import Any

import pytest

from riparian.app.stream_file.spec import load
from riparian.topics.records import RawBatch
from tests.broker.harness import Sent, Stream, instances, riparian, send

pytestmark = pytest.mark.broker
NOW = 1_700_000_000_000  # ms


def test_topics_of_features_and_labels(stream: Any) -> None:
    s = stream(partitions=2)
    features, labels = instances(3000)
    for k in range(2):
        s.give((features[k::2], labels[k::2]), partition=k)
    send(s.broker, s.spec.topics.features, [features[0]._replace(value=b"not json")], partition=0)
    out = s.folder / "drafted.yaml"
    riparian("init", "--from-topic", s.spec.topics.features, "--broker", s.broker, "--out", out)
    drafted = load(out)
    assert (drafted.name, drafted.partitions) == (s.name, 2)
    assert drafted.topics == s.spec.topics
    types = [{name: f.type for name, f in one.features.items()} for one in (drafted, s.spec)]
    assert types[0] == types[1]
    assert "(1 more hold no JSON object)" in out.read_text()
    riparian("check", out, "--broker", s.broker)
    records = s.read("features")
    batch = RawBatch.of(records)
    decoded = drafted.make_codec().decode_features(batch, drafted.vocabularies(), drafted.class_vocabulary())
    assert len(decoded.ids) == len(records) - 1


def test_labels_inside_the_records_and_topics_that_are_not_there(stream: Any) -> None:
    made = [{"order": {"total": i / 4, "land": "defr"[i % 2 :][:2]}, "y": i % 2} for i in range(200)]
    records = [Sent(json.dumps(one).encode(), NOW + i, b"%d" % i) for i, one in enumerate(made)]
    s = stream()
    topic, to = s.spec.topics.features, ("--broker", s.broker)
    send(s.broker, topic, records)
    said = riparian("init", "--from-topic", topic, "--labels", s.spec.topics.labels, *to, code=2)
    assert f"topic {s.spec.topics.labels} holds no JSON object: it is empty" in said
    orders = Stream(s.broker, s.folder, f"{s.name}-2", topics={"features": f"{s.name}-orders", "labels": None})
    send(s.broker, orders.spec.topics.features, records)
    out = s.folder / "drafted.yaml"
    riparian("init", "--from-topic", orders.spec.topics.features, *to, "--out", out)
    drafted = load(out)
    assert (drafted.topics.labels, drafted.record.id, drafted.record.x) == (None, ("@key",), ("order",))
    riparian("check", out, *to)
    for _ in range(2):  # it is not made
        assert f"has no topic {s.name}" in riparian("init", "--from-topic", s.name, *to, code=2)
