"""Two prefixes at once on one stream: two consumer groups, one state, and the outputs of one owner at a time."""

import asyncio
import json

import pytest
from click.testing import CliRunner

from app.cli import cli
from app.kafka.admin import admin_client
from app.kafka.connection import Connection
from tests.broker.harness import (
    Worker,
    check_against_oracle,
    create_topics,
    instances,
    send,
    stream_file,
    wait_for_state,
)
from topics.names import changelog_topic

pytestmark = pytest.mark.broker


async def _there(broker: str) -> tuple[set[str], set[str]]:
    """Consumer groups and topics."""
    async with admin_client(Connection(broker)) as client:
        return {group for group, *_ in await client.list_consumer_groups()}, set(await client.list_topics())


def test_workers_of_two_prefixes_fence_each_other(broker, tmp_path, topic_name):
    for folder in ("plain", "prefixed"):
        (tmp_path / folder).mkdir()
    path, spec = stream_file(tmp_path / "plain", topic_name)
    other, prefixed = stream_file(tmp_path / "prefixed", topic_name, kafka={"prefix": "team-a."})
    assert (prefixed.group, prefixed.kafka.settings) == (f"team-a.{spec.group}", {"client.id": "team-a.riparian"})
    create_topics(spec, broker)
    features, labels = instances(1500)
    with Worker(path, broker, tmp_path, name="plain") as one, Worker(other, broker, tmp_path, name="prefixed") as two:
        for worker in (one, two):
            worker.wait_for("Worker ready")
        for start in range(0, 1500, 300):
            send(broker, spec.topics.features, features[start : start + 300])
            send(broker, spec.topics.labels, labels[start : start + 300])
            learner = wait_for_state(broker, spec, start + 300, start + 300)
        for worker in (one, two):
            assert worker.stop() == 0, worker.output
            assert "partition 0: checkpoint" in worker.output  # it has owned the partition
    check_against_oracle(broker, spec, learner)
    assert learner.pending.counts["joined"] == 1500
    groups, topics = asyncio.run(_there(broker))
    assert {spec.group, prefixed.group} <= groups
    assert [name for name in topics if name.endswith(changelog_topic(spec.name))] == [changelog_topic(spec.name)]
    shown = CliRunner().invoke(cli, ["lag", str(other), "--broker", broker, "--json"])
    assert json.loads(shown.output)["group"] == prefixed.group
