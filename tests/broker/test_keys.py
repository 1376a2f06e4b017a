"""Features and labels whose clients choose partitions differently: `riparian check` sees it, and says what to do."""

import json
import urllib.request
import zlib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from app.cli import cli
from app.errors import TopicError
from app.kafka.keys import Ids, Keys
from app.kafka.partitioner import partitions_of
from app.kafka.ports import free_port
from tests.broker.harness import PATIENCE, Sent, Worker, create_topics, instances, send, stream_file, wait_for_state

pytestmark = pytest.mark.broker
P = 4


def murmur2(key: bytes) -> int:
    """As Java's client, and most others."""
    return int(partitions_of([key], P)[0])


def crc32(key: bytes) -> int:
    """As librdkafka, unless it is told otherwise."""
    return zlib.crc32(key) % P


def send_by(broker: str, topic: str, records: list[Sent], partitioner: Any, keep_key: bool = True) -> None:
    for k in range(P):
        chosen = [r for r in records if partitioner(r.key) == k]
        send(broker, topic, chosen if keep_key else [r._replace(key=None) for r in chosen], partition=k)


def check(broker: str, path: Path, *arguments: str) -> Any:
    return CliRunner().invoke(cli, ["check", str(path), "--broker", broker, *arguments])


def test_the_same_partitioner_is_said_to_be_right(broker: str, tmp_path: Path, topic_name: str) -> None:
    path, spec = stream_file(tmp_path, topic_name, partitions=P)
    create_topics(spec, broker)
    assert "ids were found" not in check(broker, path).output
    features, labels = instances(3000)
    assert spec.topics.labels is not None
    send_by(broker, spec.topics.features, features, crc32)
    send_by(broker, spec.topics.labels, labels[:2900], crc32)
    found = check(broker, path)
    assert found.exit_code == 0, found.output
    assert f"2,900 ids were found both in {topic_name}.features and {topic_name}.labels, all of them in the same" in (
        found.output
    )
    assert json.loads(check(broker, path, "--json").output)["ids"] == {"both": 2900, "apart": 0}


@pytest.mark.parametrize(
    ("how", "cure"),
    [
        ((crc32, murmur2, True), "S.features is not partitioned by murmur2, as the other one is, so write it with the"),
        ((murmur2, crc32, True), "S.labels is not partitioned by murmur2, as the other one is, so write it with the "
                                 "same partitioner (of librdkafka: partitioner=murmur2_random)"),
        ((murmur2, crc32, False), "records of S.labels have no key, so give both topics the id as their key"),
    ],
)  # fmt: skip
def test_two_partitioners_are_refused_with_the_cure(
    broker: str, tmp_path: Path, topic_name: str, how: Any, cure: str
) -> None:
    path, spec = stream_file(tmp_path, topic_name, partitions=P)
    create_topics(spec, broker)
    features, labels = instances(5000)  # more than a sample
    ours, theirs, keyed = how
    assert spec.topics.labels is not None
    send_by(broker, spec.topics.features, features, ours)
    send_by(broker, spec.topics.labels, labels, theirs, keyed)
    found = check(broker, path)
    assert isinstance(found.exception, TopicError), found.output
    assert "have their label in another partition than their features" in str(found.exception)
    assert cure.replace("S", topic_name, 1) in str(found.exception)
    lines = f"or let workers copy both topics by id: rekey: {{features: {topic_name}.features, labels: {topic_name}.lab"
    assert lines in str(found.exception)
    apart = json.loads(check(broker, path, "--json").stdout.splitlines()[0])["ids"]
    assert 0.65 < apart["apart"] / apart["both"] < 0.85
    assert apart["both"] > 1000


def test_a_rest_of_an_earlier_time_is_told_and_not_refused() -> None:
    of = Keys("f", 1000, 0, 1000)
    few = Ids(900, 3, of, of._replace(topic="l"))
    assert not few.broken
    assert "3 of 900 ids that were found both in f and l have their label in another partition" in few.sentence()
    assert few.sentence().endswith("write both with the id as their key and the same partitioner "
                                   "(of librdkafka: partitioner=murmur2_random)")  # fmt: skip
    assert not Ids(0, 0, of, of).broken


def ratio(port: int) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as page:
        line = next(x for x in page.read().decode().splitlines() if x.startswith("riparian_ids_apart_ratio{"))
    return float(line.rpartition(" ")[2])


SAID = "few labels meet their instances"


def test_a_worker_warns_once_of_features_and_labels_that_never_meet(
    broker: str, tmp_path: Path, topic_name: str
) -> None:
    path, spec = stream_file(tmp_path, topic_name, partitions=P)
    create_topics(spec, broker)
    features, labels = instances(6000)
    assert spec.topics.labels is not None
    port = free_port()
    with Worker(path, broker, tmp_path, web_port=port) as worker:
        send_by(broker, spec.topics.features, features[:3000], murmur2)
        send_by(broker, spec.topics.labels, labels[:3000], crc32)
        worker.wait_for(SAID)
        assert 0.65 < ratio(port) < 0.85
        send_by(broker, spec.topics.features, features[3000:], murmur2)
        send_by(broker, spec.topics.labels, labels[3000:], crc32)
        for k in range(P):
            n = [sum(how(r.key) == k for r in records) for how, records in ((murmur2, features), (crc32, labels))]
            wait_for_state(broker, spec, n[0], n[1], partition=k, worker=worker)
        assert worker.stop() == 0, worker.output[-3000:]
        (line,) = [line for line in worker.output.splitlines() if SAID in line]
    assert "WARNING" in line
    assert "partitioner=murmur2_random" in line


def test_a_worker_does_not_warn_where_few_labels_meet_for_another_reason(
    broker: str, tmp_path: Path, topic_name: str
) -> None:
    """Labels of 1 % of the instances, among labels of another stream's."""
    path, spec = stream_file(tmp_path, topic_name, partitions=P)
    create_topics(spec, broker)
    features, labels = instances(6000)
    others = [r._replace(value=(r.value or b"").replace(b'"id": "', b'"id": "other-')) for r in labels[:4000]]
    assert spec.topics.labels is not None
    port = free_port()
    with Worker(path, broker, tmp_path, web_port=port) as worker:
        send_by(broker, spec.topics.features, features, murmur2)
        send_by(broker, spec.topics.labels, others + labels[::100], murmur2)
        worker.wait_for(SAID)
        assert ratio(port) == 0.0
        assert worker.stop() == 0, worker.output[-3000:]
        assert not [line for line in worker.output.splitlines() if SAID in line and "WARNING" in line]
