"""A challenger that is better is found out on a real Kafka, whatever happens to the worker."""

import asyncio
import json
import re
from itertools import pairwise

import pytest
from aiokafka.structs import TopicPartition

from riparian.app.kafka.reading import EVERYTHING, read_to_end
from tests.broker.harness import instances
from tests.processes import until

pytestmark = pytest.mark.broker

N = 3000
FIELDS = {"champion": "last-label", "challengers": {"tree": {"model": "hoeffding-tree", "grace_period": 50}}}


def compared(s):
    return json.loads(s.riparian("compare", "--json"))["compared"]


def told(s):
    """The events of the stream's partition, and its predictions."""
    found = {s.spec.topics.events: [], s.spec.topics.predictions: []}
    starts = {TopicPartition(topic, 0): 0 for topic in found}

    def take(tp, records):
        found[tp.topic] += [json.loads(record.value) for record in records]

    asyncio.run(read_to_end(s.connection, starts, take, isolation=EVERYTHING))
    return found[s.spec.topics.events], found[s.spec.topics.predictions]


def test_a_better_challenger_is_found_and_promoted_by_rule_though_the_worker_is_killed(stream):
    """The second worker is killed after the promotion, and has only its outputs to show for it."""
    fields = {**FIELDS, "control": True, "promotion": "automatic"}
    s = stream(**fields, checkpoint={"every": "1h"})
    assert compared(s) == []
    rows = instances(N)
    cuts = [0, N // 4, 2 * N // 3]
    for start, stop in pairwise(cuts):
        s.give(rows, start, stop)
        with s.worker(place="w") as worker:
            until(lambda stop=stop: len(told(s)[1]) >= stop)
            worker.kill()
    events, _ = told(s)
    assert [event["event"] for event in events] == ["applied"]
    s.give(rows, cuts[2])
    s.change(**fields)  # with checkpoints, which say when all labels were learned
    learner = s.run(N, place="w")
    s.check(learner)
    s.holds()
    after, predictions = told(s)
    (event,) = after
    assert [event] == events
    assert (event["model"], event["by"], event["number"]) == ("tree", "promotion", 0)
    assert {one["model"] for one in predictions if one["offset"] < event["offset"]} == {"last-label"}
    assert {one["model"] for one in predictions if one["offset"] >= event["offset"]} == {"hoeffding-tree"}
    assert {role: running.learner_name for role, running in learner.roles.items()} == event["models"]
    (row,) = compared(s)
    assert (row["challenger"], row["verdict"], row["partition"]) == ("last-label", "worse", 0)
    assert row["high"] < 0
    assert row["labels"] <= learner.figures().compared["last-label"]["total_labels"]
    assert re.search(r"Accuracy over the last labels: champion \d", said := s.riparian("compare")), said
    assert "worse" in said
