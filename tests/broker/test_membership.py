"""Workers with an instance id: one that starts again, two of one id, and one that never comes back."""

import asyncio
import json
import time

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from app.kafka.ports import free_port
from tests.broker.harness import (
    PATIENCE,
    Worker,
    check_against_oracle,
    create_topics,
    instances,
    read,
    send,
    stream_file,
    wait_for_state,
)
from tests.broker.test_rekey import _make

pytestmark = pytest.mark.broker

LONG = 60.0  # a session that no test waits for


async def _members(broker: str, group: str) -> list[str]:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker)
    await admin.start()
    try:
        (answer,) = await admin.describe_consumer_groups([group])
        return [member[0] for member in answer.groups[0][5]]
    finally:
        await admin.close()


def _wait(done, *workers: Worker) -> None:
    deadline = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < deadline, "\n".join(worker.output for worker in workers)
        time.sleep(0.2)


def _share(broker, spec, first, last, rows, worker, partition=0):
    """Send rows first to last, and wait until they are learned."""
    features, labels = rows
    send(broker, spec.topics.features, features[first:last], partition=partition)
    send(broker, spec.topics.labels, labels[first:last], partition=partition)
    return wait_for_state(broker, spec, last, last, partition, worker)


def test_a_killed_worker_comes_back_to_its_place_without_a_rebalance(broker, tmp_path, topic_name):
    """Elsewhere (another folder, another port): the session of the killed one would last a minute."""
    path, spec = stream_file(tmp_path, topic_name)
    create_topics(spec, broker)
    rows = instances(900)
    named = {"session_timeout": LONG, "options": ("--instance-id", "place-0")}
    with Worker(path, broker, tmp_path, name="first", web_port=free_port(), **named) as worker:
        _share(broker, spec, 0, 300, rows, worker)
        (before,) = asyncio.run(_members(broker, spec.group))
        worker.kill()
    began = time.monotonic()
    with Worker(path, broker, tmp_path, name="second", web_port=free_port(), **named) as worker:
        _share(broker, spec, 300, 600, rows, worker)
        if time.monotonic() - began < LONG:  # else the machine was so busy that it shows nothing
            (after,) = asyncio.run(_members(broker, spec.group))
            assert before != after
            assert "instance id place-0" in worker.output
        assert worker.stop() == 0, worker.output
    # Stopped, too, it keeps its place.
    assert len(asyncio.run(_members(broker, spec.group))) == 1
    options = (*named["options"], "--log-format", "json")
    with Worker(path, broker, tmp_path, name="third", session_timeout=LONG, options=options) as worker:
        learner = _share(broker, spec, 600, 900, rows, worker)
        assert worker.stop() == 0, worker.output
        lines = [json.loads(line) for line in worker.output.splitlines()]  # Faust's, too
    assert {"riparian", "app.worker.engine", "faust.tables.recovery"} <= {line["logger"] for line in lines}
    check_against_oracle(broker, spec, learner)


@pytest.mark.parametrize("rekey", [False, True])
def test_of_two_workers_of_one_id_the_later_goes_on_and_the_other_says_why_it_ends(broker, tmp_path, topic_name, rekey):
    sources = {"rekey": {"features": f"{topic_name}-source"}} if rekey else {}
    path, spec = stream_file(tmp_path, topic_name, **sources)
    if rekey:
        asyncio.run(_make(broker, {f"{topic_name}-source": 1}))
    create_topics(spec, broker)
    features, labels = instances(900)
    into = f"{topic_name}-source" if rekey else spec.topics.features
    named = {"session_timeout": LONG, "options": ("--instance-id", "place-0")}
    with Worker(path, broker, tmp_path, name="earlier", **named) as earlier:
        send(broker, into, features[:300])
        send(broker, spec.topics.labels, labels[:300])
        wait_for_state(broker, spec, 300, 300, worker=earlier)
        with Worker(path, broker, tmp_path, name="later", **named) as later:
            assert earlier.process.wait(PATIENCE) == 2, earlier.output
            last = earlier.output.strip().splitlines()[-1]
            assert last.startswith(f"riparian: another worker has joined the group {spec.group}"), earlier.output
            assert "instance id place-0" in last
            assert "Traceback" not in earlier.output
            send(broker, into, features[300:])
            send(broker, spec.topics.labels, labels[300:])
            n = _written(broker, spec, rekey)
            learner = wait_for_state(broker, spec, n, 900, worker=later)
            assert later.stop() == 0, later.output
    check_against_oracle(broker, spec, learner)
    assert learner.pending.counts["joined"] == 900


def _written(broker, spec, rekey):
    """Offset that the features end at: copies have markers of transactions between them."""
    if not rekey:
        return 900
    _wait(lambda: len(read(broker, spec.topics.features)) == 900)
    return read(broker, spec.topics.features)[-1].offset + 1


def test_the_partitions_of_an_id_that_never_comes_back_go_to_the_others(broker, tmp_path, topic_name):
    path, spec = stream_file(tmp_path, topic_name, partitions=2)
    create_topics(spec, broker)
    rows = [instances(600, seed=p) for p in range(2)]
    with (
        Worker(path, broker, tmp_path, name="stays", options=("--instance-id", "place-0")) as stays,
        Worker(path, broker, tmp_path, name="goes", options=("--instance-id", "place-1")) as goes,
    ):
        _wait(lambda: all("partition" in w.output and "checkpoint" in w.output for w in (stays, goes)), stays, goes)
        for p in range(2):
            _share(broker, spec, 0, 300, rows[p], stays, p)
        goes.kill()
        learners = [_share(broker, spec, 300, 600, rows[p], stays, p) for p in range(2)]
        _wait(lambda: len(asyncio.run(_members(broker, spec.group))) == 1, stays)
        assert stays.stop() == 0, stays.output
    for learner in learners:
        check_against_oracle(broker, spec, learner)
