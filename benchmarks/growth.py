"""Topics that get more partitions under load: what it costs the records, their labels and the old partitions' accuracy.

    python -m benchmarks.growth

Two workers; half of the records before the growth, half after it. The labels of the last 200 before it come after it.
Each stream runs twice, with the growth and without; accuracy is that of records after it whose keys stay where they
were.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from signal import SIGTERM
from typing import Any

import numpy as np

from benchmarks.record import write
from riparian.app.errors import TopicError
from riparian.app.kafka.local_broker.broker import LocalBroker
from riparian.app.kafka.topics.lag import lag
from riparian.app.kafka.topics.partitioner import partitions_of
from tests.broker.clients import Sent, send
from tests.broker.harness import Stream, instances
from tests.broker.test_growing import grow
from tests.processes import until
from tests.shared import PROPERTIES

LATE = 200  # labels that come after the growth


def main() -> None:
    figures = []
    with (
        tempfile.TemporaryDirectory(prefix="riparian-bench-") as name,
        LocalBroker(Path(name) / "broker", properties=PROPERTIES) as local,
    ):
        for before, after, n in ((2, 4, 12_000), (8, 64, 24_000)):
            for learning in ("shared", "partition"):
                folder = Path(name) / f"{learning}-{before}"
                folder.mkdir()
                grown = _run(local.bootstrap, folder, learning, before, after, n)
                alone = _run(local.bootstrap, folder, learning, before, before, n)
                stay = _staying(before, after, n)
                figures.append(
                    {
                        "learning": learning, "from": before, "to": after, "records": n, **grown["figures"],
                        "accuracy": round(_accuracy(grown["right"], stay), 4),
                        "accuracy without growth": round(_accuracy(alone["right"], stay), 4),
                        "records of that accuracy": len(stay),
                    }
                )  # fmt: skip
                print(json.dumps(figures[-1]), flush=True)
    write("growth", figures)


def _run(broker: str, folder: Path, learning: str, before: int, after: int, n: int) -> dict[str, Any]:
    """One stream. right : id -> whether it was predicted as its label says."""
    s = Stream(broker, folder, f"growth-{learning}-{before}-{after}", partitions=before, learning=learning)
    features, labels = instances(n)
    half, began = n // 2, time.monotonic()
    topics = s.spec.topics.features, str(s.spec.topics.labels)
    with s.worker(name="one") as one, s.worker(name="other") as other:
        _by_key(s, topics[0], features[:half], before)
        _by_key(s, topics[1], labels[: half - LATE], before)
        until(lambda: _caught_up(s))
        if after > before:
            grow(s, after)
        _by_key(s, topics[0], features[half:], after)
        _by_key(s, topics[1], labels[half - LATE :], after)
        until(lambda: after == before or "it goes on with" in one.output + other.output)
        s.spec = s.spec.with_partitions(after)
        until(lambda: _caught_up(s) and _n_joined(s) >= n, lambda: one.output[-2000:] + other.output[-2000:])
        seconds = time.monotonic() - began
        assert {one.stop(), other.stop()} <= {0, -SIGTERM}, one.output[-2000:] + other.output[-2000:]  # it still begins
    found = [prediction for p in range(after) for prediction in s.predictions(p)]
    ids = [str(prediction["id"]) for prediction in found]
    assert len(ids) == len(set(ids)) == n, f"{len(ids)} predictions of {len(set(ids))} ids, of {n}"
    said = {str(json.loads(label.value or b"")["id"]): json.loads(label.value or b"")["y"] for label in labels}
    right = {id_: one["y"] == said[id_] for id_, one in zip(ids, found, strict=True)}
    joined = _n_joined(s)
    n_held = sum(_holds(s, p, before, learning) for p in range(after))
    assert (joined, n_held) == (n, after)
    counts = {"predictions": len(ids), "labels joined": joined, "audits that hold": n_held, "seconds": round(seconds)}
    return {"figures": counts, "right": right}


def _by_key(s: Stream, topic: str, records: Sequence[Sent], n: int) -> None:
    where = partitions_of([one.key or b"" for one in records], n)
    for p in range(n):
        send(s.broker, topic, [one for one, at in zip(records, where, strict=True) if at == p], partition=p)


def _caught_up(s: Stream) -> bool:
    """Whether the state of each partition stands at the ends of its topics."""
    try:
        return all(
            row.lag == 0 and (row.committed or 0) >= row.end for row in asyncio.run(lag(s.spec, s.connection)).rows
        )
    except TopicError:  # the stream has not as many partitions yet
        return False


def _n_joined(s: Stream) -> int:
    return sum(s.stored(p).pending.counts["joined"] for p in range(s.spec.partitions))


def _holds(s: Stream, partition: int, before: int, learning: str) -> bool:
    """A new partition with models of its own begins at its first checkpoint."""
    start = {"start": 1} if learning == "partition" and partition >= before else {}
    report = s.audit(partition, **start)
    return report is None or bool(report.holds)


def _staying(before: int, after: int, n: int) -> list[str]:
    """Ids of the records after a growth whose keys stay where they were."""
    features, _ = instances(n)
    keys = [one.key or b"" for one in features[n // 2 :]]
    return [key.decode() for key, at in zip(keys, partitions_of(keys, after), strict=True) if at < before]


def _accuracy(right: Mapping[str, bool], ids: Sequence[str]) -> float:
    return float(np.mean([right[id_] for id_ in ids]))


if __name__ == "__main__":
    main()
