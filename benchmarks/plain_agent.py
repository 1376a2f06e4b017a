"""A plain Faust application that does the same job one event at a time: what people write without Riparian.

    python -m benchmarks.plain_agent BROKER FEATURES LABELS PREDICTIONS PARTITIONS N DATA_DIR

Faust's own transport and JSON (orjson, where it is installed), one agent per topic, the join by id in a dict, the same
Hoeffding tree by programs of one operation, one prediction sent per event. It keeps no state through a crash, has no
order between the topics, no bounds, no evaluation. At the N-th learned label it writes one JSON object and ends.
"""

import asyncio
import json
import sys
import time
from typing import Any

import faust
import numpy as np

from benchmarks.workload import CLASSES, NAMES
from riparian.models.contract import LEARN, PREDICT, Program, Schema
from riparian.models.registry import create


class Tree:
    """The tree, an instance at a time."""

    def __init__(self) -> None:
        d, k = len(NAMES), len(CLASSES)
        self.learner = create("hoeffding-tree", Schema((0,) * d, k, "classification"))
        self.learner.warm_up()
        self.x, self.out = np.zeros((1, d)), np.zeros((1, k))
        row, weight = np.zeros(1, np.int32), np.ones(1)
        self.prediction = Program(np.full(1, PREDICT, np.int8), row, np.full(1, np.nan), weight)
        self.lesson = Program(np.full(1, LEARN, np.int8), row, np.zeros(1), weight)

    def predict(self, x: list[float]) -> list[float]:
        self.x[0] = x
        self.learner.run(self.prediction, self.x, self.out)
        p: list[float] = self.out[0].tolist()
        return p

    def learn(self, x: list[float], y: str) -> None:
        self.x[0] = x
        self.lesson.y[0] = CLASSES.index(y)
        self.learner.run(self.lesson, self.x, self.out)


def make_app(
    broker: str,
    features: str,
    labels: str,
    predictions: str,
    partitions: int,
    n: int,
    data_dir: str,
    done: asyncio.Event,
) -> tuple[Any, dict[str, Any]]:
    """The app, and where its result will stand once `done` is set."""
    app = faust.App(
        f"plain-{features}-{time.time_ns()}",
        broker=f"kafka://{broker}",
        store="memory://",
        datadir=data_dir,
        topic_partitions=partitions,
        topic_disable_leader=True,
        consumer_auto_offset_reset="earliest",
        web_enabled=False,
        autodiscover=False,
    )
    target = app.topic(predictions, value_serializer="json", partitions=partitions)
    tree = Tree()
    waiting: dict[str, list[float]] = {}
    early: dict[str, str] = {}
    result: dict[str, Any] = {}
    learned, started, cpu = 0, 0.0, 0.0

    def count() -> None:
        nonlocal learned, started, cpu
        learned += 1
        if learned == 1:
            started, cpu = time.perf_counter(), time.process_time()
        if learned == n:
            result.update(
                n=n - 1, seconds=time.perf_counter() - started, cpu_seconds=time.process_time() - cpu, learned=n
            )
            done.set()

    async def predict(stream: Any) -> None:
        async for record in stream:
            id_ = record["id"]
            x = [record["x"][name] for name in NAMES]
            p = tree.predict(x)
            y = CLASSES[p.index(max(p))]
            prediction = {"id": id_, "y": y, "p": dict(zip(CLASSES, p, strict=True)), "model": "hoeffding-tree"}
            await target.send(key=id_, value=prediction)
            label = early.pop(id_, None)
            if label is None:
                waiting[id_] = x
            else:
                tree.learn(x, label)
                count()

    async def learn(stream: Any) -> None:
        async for record in stream:
            x = waiting.pop(record["id"], None)
            if x is None:
                early[record["id"]] = record["y"]
            else:
                tree.learn(x, record["y"])
                count()

    app.agent(app.topic(features, value_serializer="json", partitions=partitions), name="plain.features")(predict)
    app.agent(app.topic(labels, value_serializer="json", partitions=partitions), name="plain.labels")(learn)
    return app, result


async def run(arguments: list[str]) -> dict[str, Any]:
    *names, partitions, n, data_dir = arguments
    broker, features, labels, predictions = names
    done = asyncio.Event()
    app, result = make_app(broker, features, labels, predictions, int(partitions), int(n), data_dir, done)
    await app.start()
    await done.wait()
    await app.stop()
    return result


def main() -> None:
    print(json.dumps(asyncio.run(run(sys.argv[1:]))))


if __name__ == "__main__":
    main()
