"""Only the last owner of a partition can write for it: what Kafka refuses, and what a stopped worker finds."""

import asyncio
import json
import signal
from itertools import pairwise

import pytest
from aiokafka.errors import ProducerFenced
from aiokafka.structs import TopicPartition

from riparian.app.kafka.sending import Outputs, fenced_producer
from riparian.app.state.changelog import ensure_changelog
from riparian.topics.names import changelog_topic
from tests.broker.clients import administer, read
from tests.broker.harness import Stream, instances
from tests.processes import until

pytestmark = pytest.mark.broker


def test_an_older_owner_s_sends_are_refused_in_every_topic(stream):
    s = stream(partitions=2)
    topics = [changelog_topic(s.name), *(getattr(s.spec.topics, name) for name in ("predictions", "metrics"))]
    topics.append(s.spec.topics.deadletters)

    async def own(partition: int) -> Outputs:
        where = [TopicPartition(topic, partition) for topic in topics]
        return Outputs(await fenced_producer(s.connection, s.name, where), partition, dict.fromkeys(topics, 0))

    async def run() -> None:
        await ensure_changelog(s.spec, s.connection)
        first, neighbour = await own(0), await own(1)
        for topic in topics:
            await first.write(topic, [(b"k", b"first")])
        second = await own(0)
        for topic in topics:
            # Before the new owner has written anything there: the marker is enough.
            with pytest.raises(ProducerFenced):
                await first.write(topic, [(b"k", b"late")])
            await second.write(topic, [(b"k", b"second")])
            await neighbour.write(topic, [(b"k", b"other partition")])
            await second.send(topic, second.build([b"k"], [b"batch"]))
        await second.flush()

        async def send_late() -> None:
            await first.send(topics[1], first.build([b"k"], [b"late batch"]))
            await first.flush()

        with pytest.raises(ProducerFenced):
            await send_late()
        for outputs in (first, neighbour, second):
            await outputs.stop()

    asyncio.run(run())
    for topic in topics:
        assert [record.value for record in read(s.broker, topic, 0)] == [b"first", b"second", b"batch"]
        assert [record.value for record in read(s.broker, topic, 1)] == [b"other partition"]


def test_a_worker_that_was_stopped_until_its_partition_moved_corrupts_nothing(stream):
    s = stream()
    n, stops = 3000, 2
    rows = instances(n, delay=20)

    def loaded(worker):
        """When a worker last loaded the partition: log lines begin with the time."""
        return max((line for line in worker.output.splitlines() if "partition 0: checkpoint" in line), default="")

    with s.worker(name="first") as first, s.worker(name="second") as second:
        workers = [first, second]
        for worker in workers:
            worker.wait_for("Worker ready")
        # One has the partition, the other stands by. Stop the owner in the middle of its work, again and again.
        for a, b in pairwise(range(0, n + 1, n // stops)):
            with s.giving(rows, a, b, pause=0.1, chunk=50):
                s.predicted(a + 1, *workers)
                stopped = max(workers, key=loaded)
                stopped.process.send_signal(signal.SIGSTOP)
                at = len(s.predictions())
                until(lambda stopped=stopped: max(workers, key=loaded) is not stopped)
                s.predicted(at + 1, *workers)
                stopped.process.send_signal(signal.SIGCONT)
        learner = s.reach(n)
        assert [w.stop() for w in workers] == [0, 0]
    assert s.check(learner).pending.counts["joined"] == n


def test_workers_of_two_prefixes_fence_each_other(stream):
    """Two consumer groups, one state, and the outputs of one owner at a time."""
    s = stream()
    (s.folder / "prefixed").mkdir()
    prefix = {"prefix": "team-a."}
    other = Stream(s.broker, s.folder / "prefixed", s.name, topics_made=False, kafka=prefix)
    assert other.spec.group == f"team-a.{s.spec.group}"
    assert other.spec.kafka.settings == {"client.id": "team-a.riparian"}
    rows = instances(1500)
    with s.worker(name="plain") as one, other.worker(name="prefixed") as two:
        for worker in (one, two):
            worker.wait_for("Worker ready")
        for start in range(0, 1500, 300):
            s.give(rows, start, start + 300)
            learner = s.reach(start + 300)
        for worker in (one, two):
            assert worker.stop() == 0, worker.output
            assert "partition 0: checkpoint" in worker.output  # it has owned the partition
    assert s.check(learner).pending.counts["joined"] == 1500

    async def there(client):
        return {group for group, *_ in await client.list_consumer_groups()}, set(await client.list_topics())

    groups, topics = administer(s.broker, there)
    assert {s.spec.group, other.spec.group} <= groups
    assert [name for name in topics if name.endswith(changelog_topic(s.name))] == [changelog_topic(s.name)]
    assert json.loads(other.riparian("lag", "--json"))["group"] == other.spec.group
