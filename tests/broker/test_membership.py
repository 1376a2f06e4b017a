"""Workers in their group: instance ids that start again, that two have, that never come back; and one that joins while
the partitions that stay with the others go on."""

import json
import signal
import time

import pytest
from aiokafka.structs import TopicPartition

from riparian.app.kafka.topics.lag import lag
from riparian.app.worker.exposition import metric_names as names
from tests.broker.clients import administer, make_topics, send, wait_on
from tests.broker.harness import Page, instances, wait_for_records
from tests.broker.test_admin import commit
from tests.processes import until

pytestmark = pytest.mark.broker

LONG = 60.0  # a session, and so a rebalance, that no test waits for


def described(s):
    """The group as the broker describes it."""
    (answer,) = administer(s.broker, lambda client: client.describe_consumer_groups([s.spec.group]))
    return answer.groups[0]


def members(s):
    return [member[0] for member in described(s)[5]]


def learn(s, first, last, rows, worker, partition=0):
    """Send rows first to last, and wait until they are learned."""
    s.give(rows, first, last, partition=partition)
    return s.reach(last, worker=worker, partition=partition)


def test_lag_monitors_see_what_an_owner_could_not_commit(stream):
    """Nothing comes any more, and who left amid a rebalance, where Kafka takes no offsets, had done all."""
    s = stream()
    s.give(instances(100))
    s.run(100)
    wait_on(commit(s.broker, s.spec.group, {TopicPartition(s.spec.topics.features, 0): 50}))
    with s.worker() as worker:
        until(lambda: [row.committed for row in wait_on(lag(s.spec, s.connection)).rows] == [100, 100])
        assert worker.stop() == 0, worker.output


def test_a_killed_worker_comes_back_to_its_place_without_a_rebalance(stream):
    """Elsewhere (another folder, another port): the session of the killed one would last a minute."""
    s = stream()
    rows = instances(900)
    named = {"session_timeout": LONG, "place": "place-0"}
    with s.worker(name="first", web_port=Page().port, **named) as worker:
        learn(s, 0, 300, rows, worker)
        (before,) = members(s)
        worker.kill()
    began = time.monotonic()
    with s.worker(name="second", web_port=Page().port, **named) as worker:
        learn(s, 300, 600, rows, worker)
        if time.monotonic() - began < LONG:  # else the machine was so busy that it shows nothing
            (after,) = members(s)
            assert before != after
            assert "instance id place-0" in worker.output
        assert worker.stop() == 0, worker.output
    # Stopped, too, it keeps its place.
    assert len(members(s)) == 1
    with s.worker(name="third", **named, options=("--log-format", "json")) as worker:
        learner = learn(s, 600, 900, rows, worker)
        assert worker.stop() == 0, worker.output
        lines = [json.loads(line) for line in worker.output.splitlines()]  # Faust's, too
    assert {"riparian", "riparian.app.worker.assignment", "faust.tables.recovery"} <= {line["logger"] for line in lines}
    s.check(learner)


@pytest.mark.parametrize("rekey", [False, True])
def test_of_two_workers_of_one_id_the_later_goes_on_and_the_other_says_why_it_ends(stream, topic_name, rekey):
    source = f"{topic_name}-source"
    s = stream(topics_made=False, **({"rekey": {"features": source}} if rekey else {}))
    if rekey:
        make_topics(s.broker, {source: 1})
    s.create_topics()
    features, labels = instances(900)
    into = source if rekey else s.spec.topics.features

    def come(start, stop):
        send(s.broker, into, features[start:stop])
        send(s.broker, s.spec.topics.labels, labels[start:stop])

    named = {"session_timeout": LONG, "place": "place-0"}
    with s.worker(name="earlier", **named) as earlier:
        come(0, 300)
        s.reach(300, worker=earlier)
        with s.worker(name="later", **named) as later:
            said = earlier.sentence()
            assert said.startswith(f"riparian: another worker has joined the group {s.spec.group}"), said
            assert "instance id place-0" in said
            come(300, 900)
            # Copies have markers of transactions between them.
            n = wait_for_records(s.broker, s.spec.topics.features, 900, later)[-1].offset + 1
            learner = s.reach(n, 900, later)
            assert later.stop() == 0, later.output
    s.check(learner)
    assert learner.pending.counts["joined"] == 900


def test_the_partitions_of_an_id_that_never_comes_back_go_to_the_others(stream):
    s = stream(partitions=2)
    rows = [instances(600, seed=p) for p in range(2)]
    with s.worker(name="stays", place="place-0") as stays, s.worker(name="goes", place="place-1") as goes:
        until(lambda: all("partition" in w.output and "checkpoint" in w.output for w in (stays, goes)))
        for p in range(2):
            learn(s, 0, 300, rows[p], stays, p)
        goes.kill()
        for p in range(2):
            learn(s, 300, 600, rows[p], stays, p)
        until(lambda: len(members(s)) == 1)
        assert stays.stop() == 0, stays.output
    for p in range(2):  # what the other one has learned since, and told of, is in the last states alone
        s.check(s.stored(p))


def test_partitions_that_stay_go_on_while_another_worker_joins(stream):
    """Before, while and after the group agrees."""
    s = stream(partitions=6)
    rows = [instances(600, seed=p) for p in range(6)]
    pages = [Page() for _ in range(3)]
    first, second, third = [
        lambda page=page: s.worker(web_port=page.port, session_timeout=LONG, name=f"w{page.port}") for page in pages
    ]

    def share(a: int, b: int, partitions) -> None:
        for p in partitions:
            s.give(rows[p], a, b, partition=p)

    with first() as stays, second() as sleeps:
        for page in pages[:2]:
            page.wait_for_partitions(3)
        share(0, 200, range(6))
        for p in range(6):
            s.reach(200, worker=stays, partition=p)
        loaded = [page.value(names.LOADED) for page in pages[:2]]
        had = [set(map(int, page.health()["partitions"])) for page in pages[:2]]

        # One member does not answer, so the group cannot agree on who has what.
        sleeps.process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        with third() as joins:
            until(lambda: pages[0].health()["status"] == "recovering")
            share(200, 400, had[0])
            for p in had[0]:
                s.predicted(400, stays, joins, partition=p)
            if time.monotonic() - began < LONG:  # else the machine was so busy that it shows nothing
                assert described(s)[2] == "PreparingRebalance"
            sleeps.process.send_signal(signal.SIGCONT)
            for page in pages:
                page.wait_for_partitions(2)
            share(200, 400, had[1])
            share(400, 600, range(6))
            for p in range(6):
                s.reach(600, worker=joins, partition=p)
            # What stayed was not loaded again, whatever it learned in the meantime.
            assert [page.value(names.LOADED) for page in pages] == [*loaded, 2]
            have = [set(map(int, page.health()["partitions"])) for page in pages[:2]]
            assert all(now < before for now, before in zip(have, had, strict=True))
            assert [worker.stop() for worker in (stays, sleeps, joins)] == [0, 0, 0]
    for p in range(6):  # what the others have joined since is in the last states alone
        assert s.check(s.reach(600, partition=p)).pending.counts["joined"] == 600
