"""Where the worker's time goes, in CPU µs per labelled instance, measured in one process on the records of the topics.

    python -m benchmarks.budget BROKER STREAM.yaml N

The same functions as in the worker run one after the other on one thread, in steps of the worker's size, each with a
clock of this thread's CPU time around it, so that other programs on the machine count little. Reading is measured as
the CPU time of the whole process, since the client spreads it over its loop. What the worker takes beyond the sum is
Faust, the threads' hand-over, sending, metrics and checkpoints. Writes one JSON object to standard output.
"""

import asyncio
import gc
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from aiokafka.structs import TopicPartition

from benchmarks.floors import FETCH_BYTES
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.sending import Outputs, fenced_producer
from riparian.app.kafka.wire_format.unpacking import Unpacking
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup
from riparian.app.stream_file.spec import Spec, load
from riparian.topics.names import FEATURES, LABELS
from riparian.topics.records import RawBatch

ROOM = 1_000_000  # bytes that a batch of predictions may have
STAGES = (
    "fetch and unpack",
    "open records",
    "merge",
    "decode features",
    "decode labels",
    "join",
    "kernels",
    "scoring",
    "rest of the step",
    "encode",
    "append",
    "send",
)


class Stopwatch:
    """CPU seconds of this thread by stage."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            started = time.thread_time()
            try:
                return function(*arguments, **options)
            finally:
                self.seconds[stage] += time.thread_time() - started

        return call


async def fetch(broker: str, spec: Spec, n: int) -> tuple[list[tuple[str, RawBatch]], float]:
    """The first n instances and labels of partition 0 as the worker's transport unpacks them, and the CPU seconds."""
    topics = [topic for topic in (spec.topics.features, spec.topics.labels) if topic is not None]
    consumer = Connection(broker).consumer(
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=FETCH_BYTES,
        value_deserializer=Unpacking(topics),
    )
    await consumer.start()
    found: list[tuple[str, RawBatch]] = []
    counts, codec = dict.fromkeys(topics, 0), spec.make_codec()
    roles = {spec.topics.features: FEATURES, spec.topics.labels: LABELS}
    try:
        consumer.assign([TopicPartition(topic, 0) for topic in topics])
        seconds = 0.0
        while min(counts.values()) < n:
            cpu = time.process_time()
            fetched = await consumer.getmany(timeout_ms=1000)
            seconds += time.process_time() - cpu
            for tp, batches in fetched.items():
                for raw in batches:
                    found.append((tp.topic, raw))
                    counts[tp.topic] += len(codec.unpack(roles[tp.topic], raw))  # instances, not records
                if counts[tp.topic] >= n:
                    consumer.pause(tp)
    finally:
        await consumer.stop()
    # What was read beyond n counts for reading, too: a share, so that it is µs per instance of both topics.
    return found, seconds * n * len(topics) / sum(counts.values())


async def measure(broker: str, spec: Spec, n: int) -> dict[str, Any]:
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)  # as the worker does
    found, fetching = await fetch(broker, spec, n)
    watch = Stopwatch()
    timed, seconds = watch.timed, watch.seconds
    learner = PartitionLearner(spec)
    learner.warm_up()
    learner.codec.decode_features = timed("decode features", learner.codec.decode_features)  # type: ignore[method-assign]
    learner.codec.decode_labels = timed("decode labels", learner.codec.decode_labels)  # type: ignore[method-assign]
    learner.pending.join = timed("join", learner.pending.join)  # type: ignore[method-assign]
    for role in learner.roles.values():
        role.model.run = timed("kernels", role.model.run)  # type: ignore[method-assign]
        role.score = timed("scoring", role.score)  # type: ignore[method-assign]
    step = timed("step", learner.step)
    many = learner.codec.join_predictions is not None
    encode = timed("encode", learner.pack if many else learner.encode)
    unpack = timed("open records", learner.codec.unpack)
    learner.codec.unpack = unpack  # type: ignore[method-assign]
    merge = PartitionGroup(learner.buffers())
    add = {getattr(spec.topics, role): timed("merge", buffer.add) for role, buffer in merge.buffers.items()}
    release = timed("merge", merge.release)
    topic = spec.topics.predictions
    outputs = Outputs(await fenced_producer(Connection(broker), spec.name, [TopicPartition(topic, 0)]), 0, {topic: 0})
    build = timed("append", outputs.build)
    steps = predicted = 0
    sending = 0.0
    try:
        # Full buffers, as through a backlog: records come in as fetched, steps go out at the merge's limit.
        found.reverse()
        while found or merge.n_waiting:
            while found and min(map(len, merge.buffers.values())) < merge.limit:
                topic, raw = found.pop()
                add[topic](raw)
            released = release(None if found else EVERYTHING)
            if not released.n:
                topic, raw = found.pop()
                add[topic](raw)
                continue
            outcome = step(released)
            values = encode(outcome, 0, ROOM) if many else encode(outcome)
            batches = build([None] * len(values) if many else outcome.keys, values)
            started = time.process_time()
            await outputs.send(spec.topics.predictions, batches)
            await outputs.flush()
            sending += time.process_time() - started
            steps += 1
            predicted += len(outcome.ids)
    finally:
        await outputs.stop()
    inside = ("decode features", "decode labels", "join", "kernels", "scoring")
    seconds["merge"] -= seconds["open records"]
    seconds["rest of the step"] = seconds.pop("step") - sum(seconds[stage] for stage in inside)
    seconds["fetch and unpack"], seconds["send"] = fetching, sending
    learned = learner.pending.counts["joined"]
    # Reading was scaled to n instances; the others went over what was predicted.
    scale = {stage: n if stage == "fetch and unpack" else predicted for stage in STAGES}
    us = {stage: 1e6 * seconds[stage] / scale[stage] for stage in STAGES}
    return {"n": predicted, "learned": learned, "steps": steps, "us": us, "sum_us": sum(us.values())}


def main() -> None:
    broker, stream, n = sys.argv[1:]
    print(json.dumps(asyncio.run(measure(broker, load(stream), int(n)))))


if __name__ == "__main__":
    main()
