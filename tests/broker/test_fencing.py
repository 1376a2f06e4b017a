"""Only the last owner of a partition can write for it: what Kafka refuses, and what a stopped worker finds."""

import asyncio
import signal
import threading
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from aiokafka.errors import ProducerFenced
from aiokafka.structs import TopicPartition

from app.kafka.connection import Connection
from app.kafka.outputs import Outputs, fenced_producer
from app.state.changelog import ensure_changelog
from tests.broker.harness import (
    PATIENCE,
    Worker,
    check_against_oracle,
    create_topics,
    instances,
    predictions,
    read,
    send,
    stream_file,
    wait_for_state,
)
from topics.names import changelog_topic

pytestmark = pytest.mark.broker


def test_an_older_owner_s_sends_are_refused_in_every_topic(broker, tmp_path, topic_name):
    _, spec = stream_file(tmp_path, topic_name, partitions=2)
    create_topics(spec, broker)
    topics = [changelog_topic(spec.name), spec.topics.predictions, spec.topics.metrics, spec.topics.deadletters]

    async def own(partition: int) -> Outputs:
        producer = await fenced_producer(
            Connection(broker), spec.name, [TopicPartition(topic, partition) for topic in topics]
        )
        return Outputs(producer, partition, dict.fromkeys(topics, 0))

    async def run() -> None:
        await ensure_changelog(spec, Connection(broker))
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
        assert [record.value for record in read(broker, topic, 0)] == [b"first", b"second", b"batch"]
        assert [record.value for record in read(broker, topic, 1)] == [b"other partition"]


def _last_loaded(output: str) -> str:
    """When a worker last loaded the partition: log lines begin with the time."""
    return max((line for line in output.splitlines() if "partition 0: checkpoint" in line), default="")


def test_a_worker_that_was_stopped_until_its_partition_moved_corrupts_nothing(broker, tmp_path, topic_name):
    path, spec = stream_file(tmp_path, topic_name)
    create_topics(spec, broker)
    n, stops = 6000, 2
    features, labels = instances(n, delay=20)
    with Worker(path, broker, tmp_path, name="first") as first, Worker(path, broker, tmp_path, name="second") as second:
        workers = [first, second]
        for worker in workers:
            while "Worker ready" not in worker.output:
                assert worker.process.poll() is None, worker.output
                time.sleep(0.1)

        def wait_until(condition: Callable[[], bool]) -> None:
            deadline = time.monotonic() + PATIENCE
            while not condition():
                assert time.monotonic() < deadline, [w.output[-3000:] for w in workers]
                time.sleep(0.2)

        def n_predicted() -> int:
            return len(predictions(broker, spec))

        def owner() -> Worker:
            return max(workers, key=lambda w: _last_loaded(w.output))

        # One has the partition, the other stands by. Stop the owner in the middle of its work, again and again.
        for a, b in pairwise(range(0, n + 1, n // stops)):
            senders = [
                threading.Thread(target=send, args=(broker, topic, records[a:b]), kwargs={"pause": 0.2, "chunk": 50})
                for topic, records in ((spec.topics.features, features), (spec.topics.labels, labels))
            ]
            for sender in senders:
                sender.start()
            wait_until(lambda a=a: n_predicted() > a)
            stopped = owner()
            stopped.process.send_signal(signal.SIGSTOP)
            at = n_predicted()
            wait_until(lambda stopped=stopped: owner() is not stopped)
            wait_until(lambda at=at: n_predicted() > at)
            stopped.process.send_signal(signal.SIGCONT)
            for sender in senders:
                sender.join()
        learner = wait_for_state(broker, spec, n, n)
        assert [w.stop() for w in workers] == [0, 0]
    oracle = check_against_oracle(broker, spec, learner)
    assert oracle.pending.counts["joined"] == n
