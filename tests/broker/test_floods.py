"""More than a worker can hold: large records in small batches, and batches that are far larger than they look."""

import asyncio
from contextlib import suppress

import pytest
from aiokafka import AIOKafkaProducer

from riparian.app.kafka.wire_format.unpacking import PIECE_BYTES
from riparian.app.worker.faust_client.backpressure import POLL_PIECES
from tests.broker.clients import Sent, send
from tests.broker.harness import Page, instances
from tests.processes import until

pytestmark = pytest.mark.broker

SESSION = 10.0  # seconds, in which no worker may be busy for so long that it is put out of its group
PAD = b',"pad":"' + b"x" * 200_000 + b'"}'


async def send_batches(broker: str, topic: str, batches: list[list[Sent]], compression: str) -> None:
    """Each list as one batch of Kafka's, whatever its size."""
    async with AIOKafkaProducer(
        bootstrap_servers=broker, compression_type=compression, max_batch_size=1 << 30, max_request_size=1 << 30
    ) as producer:
        for records in batches:
            batch = producer.create_batch()
            for r in records:
                batch.append(timestamp=r.time, key=r.key, value=r.value)
            await (await producer.send_batch(batch, topic, partition=0))


def test_large_records_in_small_batches_are_held_within_the_bound(stream):
    """400 instances of 200 kB, in two batches of 40 MB, of which Kafka keeps 40 kB each."""
    bound, n = 8_000_000, 400
    s = stream(join={"max_wait": "30s", "max_buffered_bytes": bound})
    features, labels = instances(n)
    padded = [r._replace(value=(r.value or b"")[:-1] + PAD) for r in features]
    asyncio.run(send_batches(s.broker, s.spec.topics.features, [padded[: n // 2], padded[n // 2 :]], "gzip"))
    send(s.broker, s.spec.topics.labels, labels)
    page, seen = Page(), list[float]()

    def joined() -> bool:
        with suppress(OSError):
            seen.append(sum(page.values("riparian_buffered_bytes")))
            return page.values("riparian_joined_instances_total") == [n]
        return worker.process.poll() is not None

    with s.worker(web_port=page.port, session_timeout=SESSION) as worker:
        until(joined)
        learner = s.reach(n, worker=worker)
        assert worker.stop() == 0, worker.output[-3000:]
        assert worker.output.count("Joined group") == 1
    assert learner.pending.counts["joined"] == n
    # The bound, and what one poll can bring.
    assert 0 < max(seen) <= bound + POLL_PIECES * 1.3 * PIECE_BYTES
    assert [p["id"] for p in s.predictions()] == [r.key.decode() for r in features if r.key]


def test_bombs_are_dead_letters_and_the_stream_goes_on(stream):
    """One among the features, and one among the labels."""
    s = stream()
    rows = instances(200)
    s.give(rows, 0, 100)
    topics = (s.spec.topics.features, s.spec.topics.labels)
    for topic in topics:  # 300 MB, of which Kafka keeps 10 kB
        bomb = [Sent(bytes(10_000_000), rows[0][100].time, b"bomb")] * 30
        asyncio.run(send_batches(s.broker, topic, [bomb], "zstd"))
    s.give(rows, 100)
    page = Page()
    with s.worker(web_port=page.port, session_timeout=SESSION) as worker:
        learner = s.reach(230, worker=worker)
        assert page.values("riparian_rejected_records_total", reason="unreadable-batch") == [2]
        assert worker.stop() == 0, worker.output[-3000:]
        assert worker.output.count("Joined group") == 1
    assert learner.pending.counts["joined"] == 200
    assert all((record.key, record.value) == (None, None) for record in s.read("deadletters"))
    letters = s.letters()
    assert sorted((one["riparian-topic"], one["riparian-offset"]) for one in letters) == [(t, "129") for t in topics]
    detail = "the batch of offsets 100 to 129: more than 268,435,456 bytes when decompressed"
    assert {one["riparian-detail"] for one in letters} == {detail}
    s.riparian("audit")
