"""Records that are stamped with what no clock showed, on real Kafka: nothing else may suffer by them."""

import json

import pytest

from tests.broker.clients import make_topics
from tests.broker.harness import instances

pytestmark = pytest.mark.broker

N = 200
YEAR_9000 = 221_845_392_000_000
AHEAD = 58 * 60_000  # Kafka 4 takes by itself what is less than an hour ahead
# topic, place of the record, how far it is ahead (ms)
CASES = [
    *((role, place, YEAR_9000) for role in ("features", "labels") for place in (0, N // 2 - 1, N - 1)),
    ("features", N // 2, 3_600_000 + AHEAD),  # the harness's stamps are an hour old
    ("labels", N // 4, 3_600_000 + AHEAD),
]


def test_one_timestamp_far_ahead_harms_no_other_record(stream):
    """A partition a case; the worker is killed in the middle, where some of these records are the last ones."""
    # Of a model for all, the first partition alone tells metrics.
    fields = {"challengers": {}, "join": {"max_labels": 100, "max_wait": "30s"}, "learning": "partition"}
    s = stream(topics_made=False, partitions=len(CASES), **fields)
    topics = dict.fromkeys([s.spec.topics.features, s.spec.topics.labels], len(CASES))
    # As of brokers that take any timestamp.
    make_topics(s.broker, topics, message_timestamp_after_max_ms=str(2**63 - 1), retention_ms="-1")
    s.create_topics()
    sent = []
    for partition, (role, place, ahead) in enumerate(CASES):
        rows = instances(N, seed=partition)
        records = rows[role == "labels"]
        records[place] = records[place]._replace(time=records[place].time + ahead)
        sent.append(rows)
    for first, last in ((0, N // 2), (N // 2, N)):
        for partition, rows in enumerate(sent):
            s.give(rows, first, last, partition=partition)
        with s.worker(place="w") as worker:
            for k in range(len(CASES)):
                s.reach(last, worker=worker, partition=k)
            if last < N:
                worker.kill()
            else:
                assert worker.stop() == 0
    assert "more than a minute ahead of the records around them: 1" in worker.output
    for k, (role, place, _) in enumerate(CASES):
        learner = s.stored(k)
        s.check(learner)
        assert learner.pending.counts["joined"] == N, (role, place)
        assert learner.clocks[role].leaps == [0, place < N - 3], (role, place)
        records = [json.loads(record.value) for record in s.read("metrics", k)]
        told = [record for record in records if "model" in record][-1]["counters"]
        assert (told["joined"], told["ignored_leaps"]) == (N, place < N - 3)
        made = [p["label_offset"] for p in s.predictions(k)]
        # 5 instances wait when the next comes, in a half that is a backlog: so it is whatever is ignored, but for a
        # record at an end, whose followers nobody knew.
        usual = [max(0, i - 5) if i < N // 2 else max(N // 2, i - 5) for i in range(N)]
        others = [i for i in range(N) if abs(i - place) > 10 and i % (N // 2) > 10]
        assert [made[i] for i in others] == [usual[i] for i in others], (role, place)
