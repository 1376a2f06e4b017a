"""`riparian init --from-topic` on a real Kafka: what it writes fits the topics, and a worker's decoder reads them."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from app.cli import cli
from app.errors import DataError, TopicError
from app.stream_file.spec import load
from tests.broker.harness import Sent, create_topics, instances, read, send, stream_file
from topics.records import RawBatch

pytestmark = pytest.mark.broker
NOW = 1_700_000_000_000  # ms


def run(*arguments: object) -> Any:
    return CliRunner().invoke(cli, list(map(str, arguments)))


def test_topics_of_features_and_labels(broker: str, tmp_path: Path, topic_name: str) -> None:
    _, spec = stream_file(tmp_path, topic_name, partitions=2)
    create_topics(spec, broker)
    features, labels = instances(3000)
    assert spec.topics.labels is not None
    for k in range(2):
        send(broker, spec.topics.features, features[k::2], partition=k)
        send(broker, spec.topics.labels, labels[k::2], partition=k)
    send(broker, spec.topics.features, [features[0]._replace(value=b"not json")], partition=0)
    out = tmp_path / "drafted.yaml"
    found = run("init", "--from-topic", spec.topics.features, "--broker", broker, "--out", out)
    assert found.exit_code == 0, found.exception
    drafted = load(out)
    assert (drafted.name, drafted.partitions) == (topic_name, 2)
    assert drafted.topics == spec.topics
    assert {name: f.type for name, f in drafted.features.items()} == {name: f.type for name, f in spec.features.items()}
    assert "(1 more hold no JSON object)" in out.read_text()
    checked = run("check", out, "--broker", broker)
    assert checked.exit_code == 0, checked.exception
    records = read(broker, spec.topics.features, 0)
    batch = RawBatch.of(records)
    codec = drafted.make_codec()
    decoded = codec.decode_features(batch, drafted.vocabularies(), drafted.class_vocabulary())
    assert len(decoded.ids) == len(records) - 1


def test_labels_inside_the_records(broker: str, tmp_path: Path, topic_name: str) -> None:
    records = [
        Sent(
            json.dumps({"order": {"total": i / 4, "land": "defr"[i % 2 :][:2]}, "y": i % 2}).encode(),
            NOW + i,
            b"%d" % i,
        )
        for i in range(200)
    ]
    _, spec = stream_file(tmp_path, topic_name)
    create_topics(spec, broker)
    send(broker, spec.topics.features, records)
    out = tmp_path / "drafted.yaml"
    found = run("init", "--from-topic", spec.topics.features, "--labels", spec.topics.labels, "--broker", broker)
    assert isinstance(found.exception, DataError)
    assert f"topic {spec.topics.labels} holds no JSON object: it is empty" in str(found.exception)
    _, orders = stream_file(tmp_path, f"{topic_name}-2", topics={"features": f"{topic_name}-orders", "labels": None})
    create_topics(orders, broker)
    other = orders.topics.features
    send(broker, other, records)
    found = run("init", "--from-topic", other, "--broker", broker, "--out", out)
    assert found.exit_code == 0, found.exception
    drafted = load(out)
    assert (drafted.topics.labels, drafted.record.id, drafted.record.x) == (None, ("@key",), ("order",))
    assert run("check", out, "--broker", broker).exit_code == 0


def test_a_topic_that_is_not_there_is_not_made(broker: str, topic_name: str) -> None:
    for _ in range(2):
        found = run("init", "--from-topic", topic_name, "--broker", broker)
        assert isinstance(found.exception, TopicError)
        assert f"has no topic {topic_name}" in str(found.exception)
