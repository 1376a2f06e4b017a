"""Topics that get more partitions while workers run: the stream goes on with as many."""

from collections.abc import Sequence
from typing import Any

import pytest
from aiokafka.admin import NewPartitions

from riparian.app.kafka.topics.partitioner import partitions_of
from tests.broker.harness import Rows, Sent, Stream, administer, instances, send

pytestmark = pytest.mark.broker


def grow(s: Stream, n: int, *topics: str) -> None:
    for topic in topics or (s.spec.topics.features, str(s.spec.topics.labels)):
        administer(s.broker, lambda client, topic=topic: client.create_partitions({topic: NewPartitions(n)}))


def by_key(s: Stream, topic: str, records: Sequence[Sent], n: int) -> list[int]:
    """Send records to the partitions of their keys; how many came to each."""
    where = partitions_of([r.key for r in records], n)
    for p in range(n):
        send(s.broker, topic, [r for r, at in zip(records, where, strict=True) if at == p], partition=p)
    return [int((where == p).sum()) for p in range(n)]


def give(s: Stream, rows: Rows, n: int) -> list[int]:
    by_key(s, str(s.spec.topics.labels), rows[1], n)
    return by_key(s, s.spec.topics.features, rows[0], n)


@pytest.mark.parametrize("kind", ["shared", "partition"])
def test_a_stream_goes_on_with_the_partitions_that_its_topics_get(stream: Any, kind: str) -> None:
    s = stream(partitions=2, learning=kind)
    with s.worker() as worker:
        before = give(s, instances(600), 2)
        for p in range(2):
            s.predicted(before[p], worker, partition=p)
            s.reach(before[p], worker=worker, partition=p)
        grow(s, 4, s.spec.topics.features)
        grow(s, 4, str(s.spec.topics.labels))
        after = give(s, instances(600, 600), 4)
        worker.wait_for("it goes on with 4")
        for p in range(4):
            n = after[p] + (before[p] if p < 2 else 0)
            s.predicted(n, worker, partition=p)
            s.reach(n, worker=worker, partition=p)
        assert worker.stop() == 0, worker.output[-3000:]
    s.spec = s.spec.with_partitions(4)
    for p in range(4):
        report = s.holds(p, **({"start": 1} if kind == "partition" and p > 1 else {}))
        assert report.n_predictions == after[p] + (before[p] if p < 2 else 0)
    for p in (2, 3):
        assert any(s.predictions(p)[0]["p"].values())  # the models of the others
