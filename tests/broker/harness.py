"""What the tests on real Kafka share: a worker process, records in and out, and the in-memory oracle.

The oracle folds the retained topics in the order that the predictions record, in this process, and must come to the
same predictions and to the same state, to the bit, as the workers did.
"""

import asyncio
import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import yaml
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import ConsumerRecord, TopicPartition

from app.kafka.admin import ensure_topics
from app.kafka.connection import Connection
from app.partition.learner import PartitionLearner
from app.partition.merge import EVERYTHING, Buffer, Merge, Script
from app.state import checkpoint
from app.state.log import StateLog
from app.stream_file.spec import Spec, load
from tests.processes import PATIENCE, until
from topics.names import CONTROL, INPUTS, LEARNED, changelog_topic, place_field
from topics.records import DriftRecord, RawBatch, place_type

ROOT = Path(__file__).resolve().parents[2]


class Worker:
    """`riparian worker` as a process of its own; killed at the end of the test whatever happens.

    web_port : None for the one that it takes by itself. entry : the module that stands for `riparian`, and arguments
    that come before `worker`. n_files : how many it may have open. options : more options of `worker`.
    """

    def __init__(
        self,
        stream: Path,
        broker: str,
        folder: Path,
        *,
        web_port: int | None = 0,
        name: str = "w",
        entry: Sequence[str] = ("app.cli",),
        session_timeout: float = 6.0,
        n_files: int | None = None,
        options: Sequence[object] = (),
    ) -> None:
        self.log = folder / f"{name}-{time.monotonic_ns()}.log"
        command = [sys.executable, "-m", *entry, "worker", str(stream), "--broker", broker]
        command += [] if web_port is None else ["--web-port", str(web_port)]
        command += ["--data-dir", str(folder / f"data-{time.monotonic_ns()}")]
        command += ["--session-timeout", str(session_timeout), "--log-level", "info", *map(str, options)]

        def limit() -> None:
            if n_files is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (n_files, n_files))

        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=ROOT, preexec_fn=limit)

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, text: str) -> None:
        """Wait until the output holds `text`."""
        until(lambda: text in self.output or self.process.poll() is not None)
        assert text in self.output, self.output[-3000:]


def stream_file(folder: Path, name: str, **fields: Any) -> tuple[Path, Spec]:
    """Write a stream file of a small classification stream, with `fields` put over it."""
    content: dict[str, Any] = {
        "name": name,
        "task": "classification",
        "features": {"a": "numeric", "b": "numeric", "c": {"type": "nominal"}},
        "champion": {"model": "hoeffding-tree", "grace_period": 50},
        "challengers": {"nb": "naive-bayes", "last": "last-label"},
        "checkpoint": {"every": "300ms"},
        "metrics": {"every": "1s"},
        "join": {"max_wait": "30s"},
    }
    content.update(fields)
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(content))
    return path, load(path)


class Sent(NamedTuple):
    """A record to send. time : Kafka timestamp in ms."""

    value: bytes | None
    time: int
    key: bytes | None = None


def instances(n: int, start: int = 0, *, seed: int = 0, delay: int = 5) -> tuple[list[Sent], list[Sent]]:
    """n features and their labels: a concept on three features, stamps 1 ms apart, labels `delay` ms later."""
    rng = np.random.default_rng([seed, start])
    now = int(time.time() * 1000) - 3_600_000 + start
    features, labels = [], []
    for i in range(n):
        a, b, c = rng.random(), rng.random(), "xyz"[rng.integers(3)]
        y = (a > 0.5) != (c == "x" and b > 0.3)
        id_ = f"{start + i:07d}"
        record = {"id": id_, "x": {"a": round(a, 4), "b": round(b, 4), "c": c}}
        features.append(Sent(json.dumps(record).encode(), now + i, id_.encode()))
        label = json.dumps({"id": id_, "y": "yes" if y else "no"}).encode()
        labels.append(Sent(label, now + i + delay, id_.encode()))
    return features, labels


async def _send(
    broker: str, topic: str, partition: int, records: Iterable[Sent], pause: float, chunk: int, compression: str | None
) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=broker, enable_idempotence=True, max_request_size=8_000_000, compression_type=compression
    )
    await producer.start()
    try:
        records = list(records)
        for at in range(0, len(records), chunk):
            for r in records[at : at + chunk]:
                last = await producer.send(topic, r.value, key=r.key, partition=partition, timestamp_ms=r.time)
            await last
            await asyncio.sleep(pause)
    finally:
        await producer.stop()


def send(
    broker: str,
    topic: str,
    records: Sequence[Sent],
    *,
    partition: int = 0,
    pause: float = 0.0,
    chunk: int = 1000,
    compression: str | None = None,
) -> None:
    """Append records to one partition, in order; with a pause (seconds) after every chunk. compression : of batches."""
    if records:
        asyncio.run(_send(broker, topic, partition, records, pause, chunk, compression))


def create_topics(spec: Spec, broker: str) -> None:
    asyncio.run(ensure_topics(spec, Connection(broker)))


async def _read(broker: str, topic: str, partition: int) -> list[ConsumerRecord]:
    tp, found = TopicPartition(topic, partition), []
    consumer = AIOKafkaConsumer(bootstrap_servers=broker, enable_auto_commit=False, auto_offset_reset="earliest")
    await consumer.start()
    try:
        if topic not in await consumer.topics():
            return []
        consumer.assign([tp])
        end = (await consumer.end_offsets([tp]))[tp]
        while await consumer.position(tp) < end:
            found += (await consumer.getmany(tp, timeout_ms=500)).get(tp, [])
    finally:
        await consumer.stop()
    return found


def read(broker: str, topic: str, partition: int = 0) -> list[ConsumerRecord]:
    """All records of a partition as it stands now."""
    return asyncio.run(_read(broker, topic, partition))


def predictions(broker: str, spec: Spec, partition: int = 0) -> list[dict[str, Any]]:
    return [json.loads(record.value) for record in read(broker, spec.topics.predictions, partition)]


def drifts(broker: str, spec: Spec, partition: int = 0) -> list[DriftRecord]:
    return [msgspec.json.decode(r.value, type=DriftRecord) for r in read(broker, spec.topics.drift, partition)]


def state_log(broker: str, spec: Spec, partition: int = 0) -> StateLog:
    """The changelog of a partition."""
    log = StateLog(partition)
    for record in read(broker, changelog_topic(spec.name), partition):
        log.append(record.offset, record.key, record.value)
    return log


def stored(broker: str, spec: Spec, partition: int = 0) -> PartitionLearner | None:
    """The learner that the changelog holds."""
    log = state_log(broker, spec, partition)
    if log.manifest is None:
        return None
    learner = PartitionLearner(spec, partition)
    learner.restore(checkpoint.decode(log.manifest, log.chunks))
    return learner


def wait_for_state(
    broker: str, spec: Spec, n_features: int, n_labels: int, partition: int = 0, worker: Worker | None = None
) -> PartitionLearner:
    """Wait until the changelog's manifest stands behind all records; the learner that it holds."""
    deadline = time.monotonic() + PATIENCE
    while True:
        learner = None
        try:
            learner = stored(broker, spec, partition)
        except Exception as error:  # a chunk is on its way
            last: object = error
        else:
            last = learner and (learner.offsets["features"], learner.offsets["labels"])
        if learner is not None and learner.offsets["features"] >= n_features and learner.offsets["labels"] >= n_labels:
            return learner
        if time.monotonic() > deadline or (worker is not None and worker.process.poll() is not None):
            output = worker.output[-3000:] if worker is not None else ""
            raise AssertionError(f"the state stands at {last}, not at {(n_features, n_labels)}\n{output}")
        time.sleep(0.3)


def _raw(records: Sequence[ConsumerRecord]) -> RawBatch:
    return RawBatch.of(records)


def _known(prediction: dict[str, Any]) -> dict[str, Any]:
    """A class may be listed with probability 0 or not at all, depending on what else was in the batch."""
    p = {name: value for name, value in (prediction.get("p") or {}).items() if value}
    return {**prediction, "p": p}


def check_against_oracle(
    broker: str,
    spec: Spec,
    learner: PartitionLearner,
    features: Sequence[ConsumerRecord] | None = None,
    labels: Sequence[ConsumerRecord] | None = None,
) -> PartitionLearner:
    """Fold the retained topics in the recorded order: every prediction and every drift event once, in order, equal to
    the bit, and the state that the workers left equal to that of the fold. Returns the fold's learner.

    features, labels : what the workers saw, where the topics do not hold it any more.
    """
    partition = learner.partition
    held = state_log(broker, spec, partition).manifest
    told = drifts(broker, spec, partition)
    sent = predictions(broker, spec, partition)
    offsets = [p["offset"] for p in sent]
    oracle = PartitionLearner(spec, partition)
    bits = oracle.codec.index_bits
    further = [place_field(role) for role in oracle.rules if role not in INPUTS]
    kind, fields = place_type(further), ("offset", "label_offset", "index", "label_index", *further)
    places = [kind(**{field: p.get(field, 0) for field in fields}).places(bits) for p in sent]
    script = Script.of(list(oracle.rules), places)
    merge = Merge({role: Buffer() for role in INPUTS} | oracle.buffers(), script, limit=777)
    merge.buffers["features"].add(
        _raw(features if features is not None else read(broker, spec.topics.features, partition))
    )
    if spec.topics.labels is not None:
        merge.buffers["labels"].add(_raw(labels if labels is not None else read(broker, spec.topics.labels, partition)))
    if CONTROL in oracle.rules:
        merge.buffers[CONTROL].add(_raw(read(broker, spec.input_topics[CONTROL], partition)))
    if spec.topics.learned is not None:
        merge.buffers[LEARNED].add(_raw(read(broker, spec.topics.learned)), learner.places[LEARNED])
    made: list[dict[str, Any]] = []
    found: list[DriftRecord] = []
    while merge.n_waiting:
        outcome = oracle.step(merge.release(EVERYTHING))
        found += outcome.drifts
        made += [json.loads(value) for value in oracle.encode(outcome)]
    assert offsets == [p["offset"] for p in made], "a prediction is missing, repeated or out of order"
    assert list(map(_known, sent)) == list(map(_known, made))
    # The last ones may stand in the manifest still: they are sent after it.
    told += [record for record in held.events if record.number >= len(told)] if held is not None else []
    assert told == found, "a drift event is missing, repeated or another"
    assert oracle.digest() == learner.digest()
    return oracle
