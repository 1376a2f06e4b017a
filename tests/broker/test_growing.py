"""Topics that get more partitions while workers run: the stream goes on with as many."""

from collections.abc import Sequence
from typing import Any

import pytest
from aiokafka.admin import NewPartitions

from riparian.app.kafka.topics.partitioner import partitions_of
from tests.broker.harness import Sent, Stream, administer, instances, send

pytestmark = pytest.mark.broker


def grow(s: Stream, n: int, *topics: str) -> None:
    for topic in topics or (s.spec.topics.features, str(s.spec.topics.labels)):
        administer(s.broker, lambda client, topic=topic: client.create_partitions({topic: NewPartitions(n)}))


def by_key(s: Stream, topic: str, records: Sequence[Sent], n: int) -> list[int]:
    """Send records to the partitions of their keys; how many came to each of four."""
    where = partitions_of([r.key for r in records], n)  # type: ignore[misc]
    for p in range(n):
        send(s.broker, topic, [r for r, at in zip(records, where, strict=True) if at == p], partition=p)
    return [int((where == p).sum()) for p in range(4)]


@pytest.mark.parametrize("kind", ["shared", "partition"])
def test_a_stream_goes_on_with_the_partitions_that_its_topics_get(stream: Any, kind: str) -> None:
    """The file says 2 all the time. Labels of 200 records come when their keys go elsewhere."""
    s = stream(partitions=2, learning=kind)
    features, labels = instances(1200)
    of_features, of_labels = s.spec.topics.features, str(s.spec.topics.labels)
    with s.worker() as worker:
        before = by_key(s, of_features, features[:600], 2)
        known = by_key(s, of_labels, labels[:400], 2)
        for p in range(2):
            s.reach(before[p], known[p], worker=worker, partition=p)
        grow(s, 4, of_features)
        worker.wait_for("partitions 2 and 3 of ")  # are not read: the stream has 2, and it has them, too, as soon as
        grow(s, 4, of_labels)
        after = by_key(s, of_features, features[600:], 4)
        later = by_key(s, of_labels, labels[400:], 4)
        worker.wait_for("it goes on with 4")
        total = [a + b for a, b in zip(before, after, strict=True)]
        moved = partitions_of([one.key for one in labels[400:600]], 4)  # type: ignore[misc]
        for p in range(4):
            handed = int((moved == p + 2).sum())
            s.predicted(total[p], worker, partition=p)
            s.reach(total[p], known[p] + later[p] + handed, worker=worker, partition=p)
        assert worker.stop() == 0, worker.output[-3000:]
    assert "Traceback" not in worker.output
    s.spec = s.spec.with_partitions(4)
    for p in range(4):
        report = s.holds(p, **({"start": 1} if kind == "partition" and p > 1 else {}))
        assert report.n_predictions == total[p]
    assert sum(s.stored(p).pending.counts["joined"] for p in range(4)) == 1200
    for p in (2, 3):
        assert any(s.predictions(p)[0]["p"].values())  # the models of the others
    assert "4 partitions" in s.riparian("check")
