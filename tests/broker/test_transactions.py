"""Producers that write features and labels in transactions: what was committed is learned, and nothing else."""

import asyncio

import pytest
from aiokafka import AIOKafkaProducer

from riparian.app.kafka.topics.lag import lag
from tests.broker.clients import Sent, send
from tests.broker.harness import instances
from tests.processes import until

pytestmark = pytest.mark.broker

COMMIT, ABORT = "commit", "abort"


class Writer:
    """A producer with a transactional id."""

    def __init__(self, broker: str, name: str) -> None:
        self.producer = AIOKafkaProducer(
            bootstrap_servers=broker, transactional_id=name, transaction_timeout_ms=300_000
        )

    async def __aenter__(self) -> "Writer":
        await self.producer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.producer.stop()

    async def begin(self) -> None:
        await self.producer.begin_transaction()

    async def write(self, topic: str, records: list[Sent]) -> None:
        for r in records:
            last = await self.producer.send(topic, r.value, key=r.key, partition=0, timestamp_ms=r.time)
        await last

    async def end(self, how: str) -> None:
        await (self.producer.commit_transaction() if how == COMMIT else self.producer.abort_transaction())


async def transactions(broker: str, topic: str, records: list[Sent], name: str) -> None:
    """Committed 0 to 99, aborted 100 to 199, then two transactions record by record in turn, of which the one with the
    odd records of 200 to 299 is aborted; last one without any transaction, and an aborted one that nothing follows."""
    async with Writer(broker, f"{name}-1") as one, Writer(broker, f"{name}-2") as two:
        for start, how in ((0, COMMIT), (100, ABORT)):
            await one.begin()
            await one.write(topic, records[start : start + 100])
            await one.end(how)
        await one.begin()
        await two.begin()
        for i in range(200, 300, 2):
            await one.write(topic, records[i : i + 1])
            await two.write(topic, records[i + 1 : i + 2])
        await two.end(ABORT)
        await one.end(COMMIT)


def kept(records: list[Sent]) -> list[Sent]:
    return records[:100] + records[200:300:2]


def test_what_was_aborted_is_not_learned_and_what_is_open_waits(stream):
    s = stream(join={"max_wait": "300ms"})
    features, labels = instances(500)
    topics = s.spec.topics.features, s.spec.topics.labels
    for topic, records in zip(topics, (features, labels), strict=True):
        asyncio.run(transactions(s.broker, topic, records, f"{topic}-t"))
    n = len(kept(features))
    with s.worker(name="first", place="w") as worker:
        learner = s.reach(301, worker=worker)
        assert learner.n_instances == learner.n_labels == learner.pending.counts["joined"] == n == 150

        async def open_one() -> None:
            """An open transaction holds up what stands behind it in its topic, and nothing else."""
            async with Writer(s.broker, f"{s.name}-open") as writer:
                await writer.begin()
                await writer.write(topics[0], features[300:310])
                await asyncio.to_thread(s.give, (features, labels), 310, 320)
                held = await asyncio.to_thread(s.reach, 301, 314, worker)
                assert (held.n_instances, held.n_labels) == (n, n + 10)
                # What nobody may read yet is no lag, nor are markers, and an aborted record before them.
                await asyncio.to_thread(
                    until, lambda: [row.lag for row in asyncio.run(lag(s.spec, s.connection)).rows] == [0, 0]
                )
                await writer.end(COMMIT)

        asyncio.run(open_one())
        learner = s.reach(324, 314, worker)
        assert learner.n_instances == n + 20
        assert learner.pending.counts["joined"] == n + 10
        worker.kill()
    # A new owner reads on from there, in the same order.
    send(s.broker, topics[1], labels[300:310])
    learner = s.run(324, name="second", place="w")
    assert learner.pending.counts["joined"] == n + 20
    committed = {r.value for r in kept(features) + features[300:320] + kept(labels) + labels[300:320]}
    s.check(learner, *([r for r in s.read(role) if r.value in committed] for role in ("features", "labels")))
    assert len(s.predictions()) == n + 20
    s.riparian("audit")
