"""Topics as Riparian creates them, and the commands by which somebody else does."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from app.cli import cli
from app.errors import SpecError
from app.kafka.acls import CREATE, needed
from app.kafka.creating import planned
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


def test_more_replicas_than_there_are_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="min_insync_replicas: expected at most replication, 1, found 2"):
        stream_file(tmp_path, "orders", min_insync_replicas=2)


def test_who_creates_no_topics_needs_no_right_to(tmp_path: Path) -> None:
    _, spec = stream_file(tmp_path, "orders")
    _, never = stream_file(tmp_path, "orders", create_topics="never")
    assert CREATE in {right.operation for right in needed(spec, "worker")}
    assert CREATE not in {right.operation for right in needed(never, "worker")}
