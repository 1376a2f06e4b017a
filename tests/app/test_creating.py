"""Topics as Riparian creates them, and the commands by which somebody else does."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from riparian.app.cli import cli
from riparian.app.errors import SpecError, TopicError
from riparian.app.kafka.access import strimzi
from riparian.app.kafka.access.acls import CREATE, needed
from riparian.app.kafka.topics.creating import planned
from riparian.app.kafka.topics.topic_warnings import fewer_replicas
from riparian.topics.names import changelog_topic
from tests.broker.harness import stream_file


def test_the_commands_create_what_is_planned(tmp_path: Path) -> None:
    path, spec = stream_file(
        tmp_path, "orders", partitions=2, replication=3, min_insync_replicas=2, retention="1h", topics={"labels": None}
    )
    shown = CliRunner().invoke(cli, ["deploy", "topics", str(path), "--broker", "k:1", "--command-config", "x.p"])
    assert shown.exit_code == 0, shown.output
    lines = shown.output.splitlines()
    assert lines[0] == (
        "kafka-topics.sh --bootstrap-server k:1 --command-config x.p --create --if-not-exists --topic orders.features"
        " --partitions 2 --replication-factor 3 --config cleanup.policy=delete --config retention.ms=3600000"
        " --config message.timestamp.type=CreateTime --config message.timestamp.after.max.ms=60000"
        " --config min.insync.replicas=2"
    )
    assert [line.split("--topic ")[1].split()[0] for line in lines] == [one.name for one in planned(spec)]
    assert planned(spec)[-1].configs["retention.ms"] == "-1"  # the state's
    assert {one.configs["min.insync.replicas"] for one in planned(spec)} == {"2"}


def test_without_a_number_the_brokers_default_holds(tmp_path: Path) -> None:
    _, spec = stream_file(tmp_path, "orders")
    assert all("min.insync.replicas" not in one.configs for one in planned(spec))
    assert {one.new().replication_factor for one in planned(spec)} == {-1}
    assert not any("--replication-factor" in one.command("k:1") for one in planned(spec))
    assert not any("replicas" in one["spec"] for one in strimzi.topics(spec, "c", "v1"))


def test_more_replicas_than_there_are_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="min_insync_replicas: expected at most replication, 1, found 2"):
        stream_file(tmp_path, "orders", min_insync_replicas=2, replication=1)
    _, spec = stream_file(tmp_path, "orders", min_insync_replicas=2)
    there = {"orders.features": [[1]], "orders.predictions": [[1]]}
    with pytest.raises(TopicError, match=r"expected at most the replicas of orders\.predictions, found 2"):
        fewer_replicas(spec, there, [1], "k:1")


def test_topics_with_fewer_replicas_than_the_features_are_told_with_what_gives_them_more(tmp_path: Path) -> None:
    _, spec = stream_file(tmp_path, "orders", partitions=2)
    state = changelog_topic("orders")
    there = {
        "orders.features": [[1, 2, 3], [2, 3, 1]],
        "orders.labels": [[1], [2]],  # not ours
        "orders.predictions": [[3], [1]],
        "orders.metrics": [[1, 2, 3], [3, 1, 2]],
        state: [[2, 1, 3], [2, 3]],
    }
    (said,) = fewer_replicas(spec, there, [1, 2, 3], "k:1")
    assert f"fewer replicas than the features have (3): orders.predictions 1, {state} 2;" in said
    assert "kafka-reassign-partitions.sh --bootstrap-server k:1 --reassignment-json-file FILE --execute" in said
    plan = json.loads(said[said.index("{") : said.rindex("}") + 1])["partitions"]
    found = {(one["topic"], one["partition"]): one["replicas"] for one in plan}
    assert found == {
        ("orders.predictions", 0): [3, 1, 2],
        ("orders.predictions", 1): [1, 2, 3],
        (state, 0): [2, 1, 3],
        (state, 1): [2, 3, 1],
    }
    _, copied = stream_file(
        tmp_path, "orders", rekey={"features": "orders.raw"}, topics={"features": "orders.features"}
    )
    there = {"orders.raw": there["orders.features"], "orders.features": [[1], [2]]}
    assert "orders.features 1;" in fewer_replicas(copied, there, [1, 2, 3], "k:1")[0]
    assert fewer_replicas(copied, {"orders.raw": there["orders.raw"]}, [1, 2, 3], "k:1") == []


def test_who_creates_no_topics_needs_no_right_to(tmp_path: Path) -> None:
    _, spec = stream_file(tmp_path, "orders")
    _, never = stream_file(tmp_path, "orders", create_topics="never")
    assert CREATE in {right.operation for right in needed(spec, "worker")}
    assert CREATE not in {right.operation for right in needed(never, "worker")}
