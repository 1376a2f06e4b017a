"""A large state: a Hoeffding tree grown from a stream, of which single leaves can be made to learn.

50 numeric features and 20 classes, so that a leaf has 40 kB, and as many leaves as make the size asked for. Labels come
inside the features: one topic, and nothing waits.
"""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import yaml
from aiokafka.structs import TopicPartition
from numpy.typing import NDArray

from benchmarks.processes import MeasureError
from benchmarks.workload import MAX_BATCH_BYTES, producing
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import read_to_end
from riparian.app.partition.learner import PartitionLearner
from riparian.app.state import checkpoint
from riparian.app.state.log import StateLog
from riparian.app.stream_file.spec import Spec, load
from riparian.topics.names import changelog_topic

STREAM = "state"
N_FEATURES, N_CLASSES = 50, 20
LEAF_BYTES = 5 * 8 * N_FEATURES * N_CLASSES
NOISE = 0.5  # so that every leaf sees every class: else half of the state would be zeros

Floats = NDArray[np.float64]

_X: Any = msgspec.defstruct("X", [(f"f{j}", float) for j in range(N_FEATURES)], gc=False)


class _Record(msgspec.Struct, gc=False):
    id: str
    x: Any
    y: str


def stream_file(folder: Path, n_leaves: int, name: str = STREAM, **settings: Any) -> tuple[Path, Spec]:
    """The stream whose tree grows to `n_leaves`, or another over the same records; `settings` of its checkpoints."""
    path = folder / f"{name}.yaml"
    content = {
        "name": name,
        "task": "classification",
        "topics": {"features": f"{STREAM}.features", "labels": None},
        "features": {f"f{j}": "numeric" for j in range(N_FEATURES)},
        "classes": [f"c{k}" for k in range(N_CLASSES)],
        # Splits whenever it may: how good the tree is does not matter here.
        "champion": {
            "model": "hoeffding-tree",
            "grace_period": 20,
            "delta": 1.0,
            "tie_threshold": 1.0,
            "max_nodes": 2 * n_leaves,
        },
        "checkpoint": settings,
        "predictions": {"probabilities": False},
    }
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path, load(path)


def instances(n: int, rng: np.random.Generator) -> tuple[Floats, NDArray[np.int64]]:
    """x : (n, N_FEATURES), six digits; y : (n,), a concept on two of the features, and noise."""
    x = (0.999999 * rng.random((n, N_FEATURES))).round(6)  # below 1
    y = (np.floor(5 * x[:, 0]) * 4 + np.floor(4 * x[:, 1])).astype(np.int64)
    return x, np.where(rng.random(n) < NOISE, rng.integers(0, N_CLASSES, n), y)


class Source:
    """Publishes instances to the topic, in batches."""

    def __init__(self, broker: str, topic: str) -> None:
        self.broker, self.topic = broker, topic
        self.n = 0
        self._encode = msgspec.json.Encoder().encode

    def records(self, x: Floats, y: NDArray[np.int64]) -> list[tuple[bytes, bytes]]:
        ids = [f"{i:09d}" for i in range(self.n, self.n + len(y))]
        self.n += len(y)
        rows = map(_X, *x.T.tolist())
        return [
            (id_.encode(), self._encode(_Record(id_, row, f"c{k}")))
            for id_, row, k in zip(ids, rows, y.tolist(), strict=True)
        ]

    async def send(self, producer: Any, records: Iterable[tuple[bytes, bytes]]) -> None:
        """Returns when the broker has them."""
        futures = []
        batch = producer.create_batch()
        for key, value in records:
            if batch.append(key=key, value=value, timestamp=int(time.time() * 1000)) is None:
                futures.append(await producer.send_batch(batch, self.topic, partition=0))
                batch = producer.create_batch()
                batch.append(key=key, value=value, timestamp=int(time.time() * 1000))
        futures.append(await producer.send_batch(batch, self.topic, partition=0))
        for future in futures:
            await future

    async def publish(self, n: int, seed: int, chunk: int = 10_000) -> None:
        rng = np.random.default_rng(seed)
        async with producing(
            self.broker, max_batch_size=MAX_BATCH_BYTES, max_request_size=4 * MAX_BATCH_BYTES
        ) as producer:
            for size in (min(chunk, n - at) for at in range(0, n, chunk)):
                await self.send(producer, self.records(*instances(size, rng)))


async def stored(broker: str, spec: Spec) -> PartitionLearner:
    """The learner as the changelog has it."""
    state = StateLog(0)
    await read_to_end(Connection(broker), {TopicPartition(changelog_topic(spec.name), 0): 0}, state.take)
    if state.manifest is None:
        raise MeasureError("there is no state")
    learner = PartitionLearner(spec, 0)
    learner.restore(checkpoint.decode(state.manifest, state.chunks))
    return learner


def blocks_of(learner: PartitionLearner, x: Floats) -> NDArray[np.int64]:
    """(n,) the row of `stats` that each instance's leaf has: the order of the leaves in the state."""
    tree = learner.roles["champion"].model.state()
    test, first, block = tree.links[:, 0], tree.links[:, 1], tree.links[:, 7]
    node = np.zeros(len(x), np.int64)
    while (inner := test[node] >= 0).any():
        at = node[inner]
        node[inner] = first[at] + (x[inner, test[at]] > tree.test[at])
    return block[node].astype(np.int64)


class Leaves:
    """Instances by leaf, to have chosen leaves learn."""

    def __init__(self, learner: PartitionLearner, rng: np.random.Generator) -> None:
        tree = learner.roles["champion"].model.state()
        self.n = len(tree.stats)
        self.rng = rng
        self.x, self.y = instances(60 * self.n, rng)
        blocks = blocks_of(learner, self.x)
        order = np.argsort(blocks, kind="stable")
        self.reached, starts = np.unique(blocks[order], return_index=True)
        self._members = np.split(order, starts[1:])

    def choose(self, pattern: str, n: int) -> NDArray[np.int64]:
        """Rows of n instances, each of another leaf."""
        n = min(n, len(self.reached))
        if pattern == "contiguous":
            first = int(self.rng.integers(0, len(self.reached) - n + 1))
            chosen: Sequence[int] = range(first, first + n)
        else:
            chosen = self.rng.choice(len(self.reached), n, replace=False).tolist()
        return np.array([self.rng.choice(self._members[i]) for i in chosen], np.int64)
