"""More than a worker can hold: large records in small batches, and batches that are far larger than they look."""

import asyncio
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from app.cli import cli
from app.kafka.ports import free_port
from app.kafka.unpacking import PIECE_BYTES
from app.worker.backpressure import POLL_PIECES
from tests.broker.harness import (
    PATIENCE,
    Sent,
    Worker,
    create_topics,
    instances,
    predictions,
    read,
    send,
    stream_file,
    wait_for_state,
)

pytestmark = pytest.mark.broker

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


def figures(port: int) -> dict[tuple[str, str], float]:
    """Metrics by name and by topic or reason."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as page:
        families = text_string_to_metric_families(page.read().decode())
        return {
            (s.name, s.labels.get("topic", s.labels.get("reason", ""))): s.value for f in families for s in f.samples
        }


def test_large_records_in_small_batches_are_held_within_the_bound(broker: str, tmp_path: Path, topic_name: str) -> None:
    """500 instances of 200 kB, in two batches of 50 MB, of which Kafka keeps 50 kB each."""
    bound = 8_000_000
    path, spec = stream_file(tmp_path, topic_name, join={"max_wait": "30s", "max_buffered_bytes": bound})
    create_topics(spec, broker)
    assert spec.topics.labels is not None
    features, labels = instances(500)
    padded = [r._replace(value=(r.value or b"")[:-1] + PAD) for r in features]
    batches = [padded[i : i + 250] for i in range(0, 500, 250)]
    asyncio.run(send_batches(broker, spec.topics.features, batches, "gzip"))
    send(broker, spec.topics.labels, labels)
    assert len(read(broker, spec.topics.labels)) == 500
    port = free_port()
    seen: list[float] = []
    with Worker(path, broker, tmp_path, web_port=port) as worker:
        deadline = time.monotonic() + PATIENCE
        joined = 0.0
        while joined < 500 and time.monotonic() < deadline:
            try:
                found = figures(port)
            except OSError:
                continue
            joined = found.get(("riparian_joined_instances_total", ""), 0.0)
            seen.append(sum(v for (name, _), v in found.items() if name == "riparian_buffered_bytes"))
        learner = wait_for_state(broker, spec, 500, 500, worker=worker)
        assert worker.stop() == 0, worker.output[-3000:]
        assert worker.output.count("Joined group") == 1
    assert learner.pending.counts["joined"] == 500
    # The bound, and what one poll can bring.
    assert 0 < max(seen) <= bound + POLL_PIECES * 1.3 * PIECE_BYTES
    assert [p["id"] for p in predictions(broker, spec)] == [r.key.decode() for r in features if r.key]


@pytest.mark.parametrize("role", ["features", "labels"])
def test_a_bomb_is_a_dead_letter_and_the_stream_goes_on(
    broker: str, tmp_path: Path, topic_name: str, role: str
) -> None:
    path, spec = stream_file(tmp_path, topic_name)
    create_topics(spec, broker)
    assert spec.topics.labels is not None
    data: dict[str, Any] = dict(zip(("features", "labels"), instances(200), strict=True))
    topics = {"features": spec.topics.features, "labels": spec.topics.labels}
    for name, topic in topics.items():
        send(broker, topic, data[name][:100])
    bomb = [Sent(bytes(10_000_000), data[role][100].time, b"bomb")] * 30  # 300 MB, of which Kafka keeps 10 kB
    asyncio.run(send_batches(broker, topics[role], [bomb], "zstd"))
    for name, topic in topics.items():
        send(broker, topic, data[name][100:])
    n = {name: 200 + 30 * (name == role) for name in topics}
    port = free_port()
    with Worker(path, broker, tmp_path, web_port=port) as worker:
        learner = wait_for_state(broker, spec, n["features"], n["labels"], worker=worker)
        counted = figures(port)
        assert worker.stop() == 0, worker.output[-3000:]
        assert worker.output.count("Joined group") == 1
    assert learner.pending.counts["joined"] == 200
    assert counted["riparian_rejected_records_total", "unreadable-batch"] == 1
    (letter,) = read(broker, spec.topics.deadletters)
    headers = {name: value.decode() for name, value in letter.headers}
    assert (letter.key, letter.value) == (None, None)
    assert (headers["riparian-topic"], headers["riparian-offset"]) == (topics[role], "129")
    assert headers["riparian-detail"] == (
        "the batch of offsets 100 to 129: more than 268,435,456 bytes when decompressed"
    )
    audited = CliRunner().invoke(cli, ["audit", str(path), "--broker", broker])
    assert audited.exit_code == 0, audited.output
