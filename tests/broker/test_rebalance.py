"""A worker joins: the partitions that stay with the others go on, before, while and after the group agrees."""

import asyncio
import signal
import time

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from app.kafka.ports import free_port
from app.worker import measures as names
from tests.broker.harness import (
    PATIENCE,
    Worker,
    check_against_oracle,
    create_topics,
    instances,
    predictions,
    send,
    stream_file,
    wait_for_state,
)
from tests.broker.test_metrics_page import Page

pytestmark = pytest.mark.broker

LONG = 60.0  # a session, and so a rebalance, that no test waits for
PARTITIONS = 6
ALL = range(PARTITIONS)


def _state_of(broker: str, group: str) -> str:
    async def ask() -> str:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker)
        await admin.start()
        try:
            (answer,) = await admin.describe_consumer_groups([group])
            return answer.groups[0][2]
        finally:
            await admin.close()

    return asyncio.run(ask())


def _wait(done, *workers: Worker) -> None:
    deadline = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < deadline, "\n".join(worker.output[-3000:] for worker in workers)
        time.sleep(0.1)


def test_partitions_that_stay_go_on_while_another_worker_joins(broker, tmp_path, topic_name):
    path, spec = stream_file(tmp_path, topic_name, partitions=PARTITIONS)
    create_topics(spec, broker)
    rows = [instances(600, seed=p) for p in ALL]
    pages = [Page(free_port()) for _ in range(3)]
    first, second, third = [
        lambda page=page: Worker(path, broker, tmp_path, web_port=page.port, session_timeout=LONG) for page in pages
    ]

    def share(a: int, b: int, partitions) -> None:
        for p in partitions:
            send(broker, spec.topics.features, rows[p][0][a:b], partition=p)
            send(broker, spec.topics.labels, rows[p][1][a:b], partition=p)

    with first() as stays, second() as sleeps:
        for page in pages[:2]:
            page.wait_for_partitions(3)
        share(0, 200, ALL)
        for p in ALL:
            wait_for_state(broker, spec, 200, 200, p, stays)
        loaded = [page.value(names.LOADED) for page in pages[:2]]
        had = [set(map(int, page.health()["partitions"])) for page in pages[:2]]

        # One member does not answer, so the group cannot agree on who has what.
        sleeps.process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        with third() as joins:
            _wait(lambda: pages[0].health()["status"] == "recovering", stays, joins)
            share(200, 400, had[0])
            _wait(lambda: all(len(predictions(broker, spec, p)) == 400 for p in had[0]), stays, joins)
            if time.monotonic() - began < LONG:  # else the machine was so busy that it shows nothing
                assert _state_of(broker, spec.group) == "PreparingRebalance"
            sleeps.process.send_signal(signal.SIGCONT)
            for page in pages:
                page.wait_for_partitions(2)
            share(200, 400, had[1])
            share(400, 600, ALL)
            for p in ALL:
                wait_for_state(broker, spec, 600, 600, p, joins)
            # What stayed was not loaded again, whatever it learned in the meantime.
            assert [page.value(names.LOADED) for page in pages] == [*loaded, 2]
            have = [set(map(int, page.health()["partitions"])) for page in pages[:2]]
            assert all(now < before for now, before in zip(have, had, strict=True))
            assert [worker.stop() for worker in (stays, sleeps, joins)] == [0, 0, 0]
    for p in ALL:  # what the others have joined since is in the last states alone
        learner = wait_for_state(broker, spec, 600, 600, p)
        assert check_against_oracle(broker, spec, learner).pending.counts["joined"] == 600
