"""Records that are stamped with what no clock showed, on real Kafka: nothing else may suffer by them."""

import asyncio
import json

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.broker.harness import (
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

pytestmark = pytest.mark.broker

N = 400
YEAR_9000 = 221_845_392_000_000
AHEAD = 58 * 60_000  # Kafka 4 takes by itself what is less than an hour ahead
# topic, place of the record, how far it is ahead (ms)
CASES = [
    *((role, place, YEAR_9000) for role in ("features", "labels") for place in (0, N // 2 - 1, N - 1)),
    ("features", N // 2, 3_600_000 + AHEAD),  # the harness's stamps are an hour old
    ("labels", N // 4, 3_600_000 + AHEAD),
]


async def _create(broker: str, topics: list[str]) -> None:
    """Topics of brokers that take any timestamp."""
    admin = AIOKafkaAdminClient(bootstrap_servers=broker)
    await admin.start()
    try:
        anything = {"message.timestamp.after.max.ms": str(2**63 - 1), "retention.ms": "-1"}
        await admin.create_topics([NewTopic(name, len(CASES), 1, topic_configs=anything) for name in topics])
    finally:
        await admin.close()


def test_one_timestamp_far_ahead_harms_no_other_record(broker, tmp_path, topic_name):
    """A partition a case; the worker is killed in the middle, where some of these records are the last ones."""
    # Of a model for all, the first partition alone tells metrics.
    fields = {"challengers": {}, "join": {"max_labels": 100, "max_wait": "30s"}}
    path, spec = stream_file(tmp_path, topic_name, partitions=len(CASES), learning="partition", **fields)
    asyncio.run(_create(broker, [spec.topics.features, spec.topics.labels]))
    create_topics(spec, broker)
    sent = []
    for partition, (role, place, ahead) in enumerate(CASES):
        records = dict(zip(("features", "labels"), instances(N, seed=partition), strict=True))
        records[role][place] = records[role][place]._replace(time=records[role][place].time + ahead)
        sent.append(records)
    for first, last in ((0, N // 2), (N // 2, N)):
        for partition, records in enumerate(sent):
            send(broker, spec.topics.features, records["features"][first:last], partition=partition)
            send(broker, spec.topics.labels, records["labels"][first:last], partition=partition)
        with Worker(path, broker, tmp_path) as worker:
            for k in range(len(CASES)):
                wait_for_state(broker, spec, last, last, k, worker)
            if last < N:
                worker.kill()
            else:
                assert worker.stop() == 0
    assert "more than a minute ahead of the records around them: 1" in worker.output
    for k, (role, place, _) in enumerate(CASES):
        learner = wait_for_state(broker, spec, N, N, k)
        check_against_oracle(broker, spec, learner)
        assert learner.pending.counts["joined"] == N, (role, place)
        assert learner.clocks[role].leaps == [0, place < N - 3], (role, place)
        records = [json.loads(record.value) for record in read(broker, spec.topics.metrics, learner.partition)]
        told = [record for record in records if "model" in record][-1]["counters"]
        assert (told["joined"], told["ignored_leaps"]) == (N, place < N - 3)
        made = [p["label_offset"] for p in predictions(broker, spec, learner.partition)]
        # 5 instances wait when the next comes, in a half that is a backlog: so it is whatever is ignored, but for a
        # record at an end, whose followers nobody knew.
        usual = [max(0, i - 5) if i < N // 2 else max(N // 2, i - 5) for i in range(N)]
        others = [i for i in range(N) if abs(i - place) > 10 and i % (N // 2) > 10]
        assert [made[i] for i in others] == [usual[i] for i in others], (role, place)
