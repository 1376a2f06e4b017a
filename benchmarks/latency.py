"""From features to prediction as a client sees it, at a steady rate in real time.

One process sends the features of each instance when it is due, its label a little later, and reads the predictions
with a consumer of its own: one clock. From `BATCHED` instances a second on, what is due in a tick goes as one record
batch, as from a producer that lingers: one by one, a Python program would not keep the rate. The time runs from just
before the record is given to the producer to the moment when the consumer hands the prediction out. The floor is the
same client with a bare echo (benchmarks/floors.py) in the place of the worker: what Kafka, two producers, two consumers
and the client's own event loop take by themselves. benchmarks/live.py sends to many partitions.
"""

import asyncio
import gc
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import numpy as np
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

from benchmarks.processes import Child, MeasureError, Sampler, Worker
from benchmarks.workload import MAX_BATCH_BYTES, Instances, create, delete, instances, producing, stream_file

LABEL_SECONDS = 0.5  # from an instance's features to its label
WARM_INSTANCES = 200  # sent before, and not counted
TICK_SECONDS = 0.001
PATIENCE_SECONDS = 120.0
BATCHED = 10_000
PERCENTILES = (50, 90, 99, 99.9)


class _Id(msgspec.Struct):
    id: str


class Client:
    """Sends instances and takes the time until their answers.

    Parameters
    ----------
    labels : str or None
        Topic of the labels; None where nobody wants them.
    records : callable
        What is sent to `features`, of made instances.
    partitions : int
        Of each topic: an instance goes to one by its id.
    tick : float
        Seconds after which the client looks again at what is due.
    """

    def __init__(
        self,
        broker: str,
        features: str,
        labels: str | None,
        answers: str,
        records: Callable[[Instances], list[bytes]] = lambda made: made.features,
        partitions: int = 1,
        tick: float = TICK_SECONDS,
    ) -> None:
        self.broker, self.features, self.labels, self.answers = broker, features, labels, answers
        self.records, self.partitions, self.tick = records, partitions, tick
        self.sent: dict[str, float] = {}
        self.took: dict[str, float] = {}

    async def run(self, rate: int, seconds: float) -> dict[str, Any]:
        """Percentiles in ms over `seconds` at `rate` instances a second, and when these began and ended."""
        tps = [TopicPartition(self.answers, p) for p in range(self.partitions)]
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.broker,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
        )
        await consumer.start()
        try:
            consumer.assign(tps)
            await consumer.seek_to_beginning(*tps)
            async with producing(self.broker, max_batch_size=MAX_BATCH_BYTES) as producer:
                reader = asyncio.create_task(self._read(consumer))
                try:
                    await self._send(producer, 0, WARM_INSTANCES, 100)
                    await self._until(WARM_INSTANCES)
                    self.took.clear()
                    gc.collect()
                    gc.freeze()
                    began, cpu = time.time(), time.process_time()
                    late = await self._send(producer, WARM_INSTANCES, n := int(rate * seconds), rate)
                    share = (time.process_time() - cpu) / (time.time() - began)
                    await self._until(n)
                    ended = time.time()
                finally:
                    gc.unfreeze()
                    reader.cancel()
        finally:
            await consumer.stop()
        ms = 1000.0 * np.array(list(self.took.values()))
        return {
            "rate": rate,
            "n": len(ms),
            **{f"p{p}": float(np.percentile(ms, p)) for p in PERCENTILES},
            "max": float(ms.max()),
            "client_late_p99": late,
            "client_cpu_share": share,
            "began": began,
            "ended": ended,
        }

    async def _read(self, consumer: Any) -> None:
        decode = msgspec.json.Decoder(_Id).decode
        while True:
            fetched = await consumer.getmany(timeout_ms=1000)
            now = time.perf_counter()
            for records in fetched.values():
                for record in records:
                    id_ = decode(record.value).id
                    self.took[id_] = now - self.sent[id_]

    async def _send(self, producer: Any, first: int, n: int, rate: int) -> float:
        """Each record when it is due; the 99th percentile of how late (ms) the client was itself."""
        made = instances(first, n)
        records = self.records(made)
        waiting: deque[tuple[float, slice]] = deque()
        late: list[float] = []
        begun = time.perf_counter()
        at = 0
        step = 1 if rate < BATCHED else n
        while at < n or waiting:
            now = time.perf_counter()
            while at < (due := min(n, int((now - begun) * rate) + 1)):
                chunk = slice(at, min(due, at + step))
                sent = time.perf_counter()
                late += [sent - (begun + i / rate) for i in range(chunk.start, chunk.stop)]
                self.sent.update(dict.fromkeys(map(bytes.decode, made.keys[chunk]), sent))
                await self._post(producer, self.features, made.keys[chunk], records[chunk])
                waiting.append((begun + chunk.start / rate + LABEL_SECONDS, chunk))
                at = chunk.stop
            while waiting and waiting[0][0] <= now:
                _, chunk = waiting.popleft()
                if self.labels is not None:
                    await self._post(producer, self.labels, made.keys[chunk], made.labels[chunk])
            await asyncio.sleep(self.tick)
        return float(1000.0 * np.percentile(late, 99))

    async def _post(self, producer: Any, topic: str, keys: list[bytes], values: list[bytes]) -> None:
        """One record, or several as one batch or more, which go to the first partition."""
        if len(keys) == 1:
            await producer.send(topic, values[0], key=keys[0], partition=crc32(keys[0]) % self.partitions)
            return
        batch = producer.create_batch()
        for key, value in zip(keys, values, strict=True):
            if batch.append(key=key, value=value, timestamp=None) is None:
                await producer.send_batch(batch, topic, partition=0)
                batch = producer.create_batch()
                batch.append(key=key, value=value, timestamp=None)
        await producer.send_batch(batch, topic, partition=0)

    async def _until(self, n: int) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(self.took) < n:
            if time.monotonic() > deadline:
                raise MeasureError(
                    f"{len(self.took):,} of {n:,} instances were answered within {PATIENCE_SECONDS:.0f} s"
                )
            await asyncio.sleep(0.01)


def measure_worker(broker: str, folder: Path, name: str, rate: int, seconds: float, **fields: Any) -> dict[str, Any]:
    path, spec = stream_file(folder, name, 1, **fields)
    with Worker(path, broker, folder) as worker:
        worker.wait_for_partitions(1)
        client = Client(broker, spec.topics.features, spec.topics.labels, spec.topics.predictions)
        with Sampler(worker.pid) as sampler:
            result = asyncio.run(client.run(rate, seconds))
        result["worker_cpu_share"] = sampler.share()
        result["forced_merges"] = int(worker.metrics()["riparian_forced_merges_total"])
        worker.stop()
    return result


def measure_echo(broker: str, folder: Path, name: str, rate: int, seconds: float) -> dict[str, Any]:
    source, labels, target = f"{name}.features", f"{name}.labels", f"{name}.echo"
    asyncio.run(create(broker, [source, labels, target], 1))
    with Child("benchmarks.floors", "echo", broker, source, target, folder=folder) as child:
        # The labels are sent as well: they are part of the client's load, though nobody reads them.
        result = asyncio.run(Client(broker, source, labels, target).run(rate, seconds))
        child.stop()
    return result


def measure(
    broker: str,
    folder: Path,
    rates: list[int],
    seconds: float,
    rounds: int,
    say: Callable[[str, int | None], Any],
    **fields: Any,
) -> list[dict[str, Any]]:
    """Echo and worker in turn at each rate; the rounds of each with the median of every percentile. `fields` of the
    worker's stream file."""
    results = []
    for rate in rates:
        found: dict[str, list[dict[str, Any]]] = {"echo": [], "worker": []}
        for number in range(rounds):
            measures: dict[str, Callable[..., dict[str, Any]]]
            measures = {"echo": measure_echo, "worker": partial(measure_worker, **fields)}
            for role, function in measures.items():
                done = say(f"{rate:,} instances/s, round {number + 1} of {rounds}: {role}", None)
                name = f"latency-{role}-{rate}-{number}"
                found[role].append(function(broker, folder, name, rate, seconds))
                asyncio.run(delete(broker, name))
                done(1)
        result: dict[str, Any] = {"rate": rate, "seconds": seconds, "rounds": found}
        for role, runs in found.items():
            result[role] = {
                field: float(np.median([run[field] for run in runs]))
                for field in (*(f"p{p}" for p in PERCENTILES), "max", "client_late_p99")
            }
        results.append(result)
    return results
