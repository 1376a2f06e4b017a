"""Features and labels whose clients choose partitions differently: `riparian check` sees it, and says what to do."""

import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from app.cli import cli
from app.errors import TopicError
from app.kafka.keys import Ids, Keys
from app.replay import partitions_of
from tests.broker.harness import Sent, create_topics, instances, send, stream_file

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
