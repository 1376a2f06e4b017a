"""What people write around River today, a program for each client of Kafka: `benchmarks/kafka_peers.py` runs them.

    PYTHON kafka_loops.py confluent|quix|quix-exactly-once|bytewax|faust GROUP BROKER SOURCE TARGET FOLDER
    PYTHON kafka_loops.py quix-two-topics GROUP BROKER FEATURES,LABELS TARGET FOLDER

Each runs in an environment of its own (only River, orjson and its client are there), until it is stopped. A record of
SOURCE, which has one partition, holds an id, ten numbers and the label; the Hoeffding tree predicts it, learns it, and
a prediction goes to TARGET: the id, the class, and how many labels the model has learned (`seen`). Settings are each
library's defaults, but for the first offset and where a line below says so.
"""

import sys
from typing import Any

import orjson
from river import tree


class Model:
    """River's tree, and how many labels it has learned. It lives in this process's memory, as in each library's
    examples; bytewax keeps it in its state."""

    def __init__(self) -> None:
        self.tree = tree.HoeffdingTreeClassifier(delta=1e-3)
        self.seen = 0

    def answer(self, record: dict[str, Any]) -> dict[str, Any]:
        x = record["x"]
        y = self.tree.predict_one(x)
        self.tree.learn_one(x, record["y"])
        self.seen += 1
        return {"id": record["id"], "y": y, "seen": self.seen}


def confluent(group: str, broker: str, source: str, target: str, _folder: str) -> None:
    """A loop over librdkafka: offsets are committed by a timer."""
    from confluent_kafka import Consumer, Producer

    consumer = Consumer({"bootstrap.servers": broker, "group.id": group, "auto.offset.reset": "earliest"})
    producer = Producer({"bootstrap.servers": broker})
    consumer.subscribe([source])
    model = Model()
    while True:
        for message in consumer.consume(500, 0.01):
            if message.error() is None:
                answer = model.answer(orjson.loads(message.value()))
                while True:
                    try:
                        producer.produce(target, orjson.dumps(answer), message.key())
                        break
                    except BufferError:
                        producer.poll(0.1)
        producer.poll(0)


def quix(group: str, broker: str, source: str, target: str, folder: str, guarantee: str = "at-least-once") -> None:
    from quixstreams import Application

    app = Application(
        broker, consumer_group=group, auto_offset_reset="earliest", state_dir=folder, processing_guarantee=guarantee
    )
    model = Model()
    rows = app.dataframe(app.topic(source, value_deserializer="json"))
    rows.apply(model.answer).to_topic(app.topic(target, value_serializer="json"))
    app.run()


def quix_exactly_once(group: str, broker: str, source: str, target: str, folder: str) -> None:
    """Transactions, one a commit interval (five seconds)."""
    quix(group, broker, source, target, folder, "exactly-once")


def quix_two_topics(group: str, broker: str, source: str, target: str, folder: str) -> None:
    """Labels come in a topic of their own, in any number of partitions: instances wait for them in a dict."""
    from quixstreams import Application

    app = Application(broker, consumer_group=group, auto_offset_reset="earliest", state_dir=folder)
    model = Model().tree
    waiting: dict[str, dict[str, float]] = {}

    def predict(record: dict[str, Any]) -> dict[str, Any]:
        waiting[record["id"]] = record["x"]
        return {"id": record["id"], "y": model.predict_one(record["x"])}

    def learn(record: dict[str, Any]) -> None:
        x = waiting.pop(record["id"], None)
        if x is not None:
            model.learn_one(x, record["y"])

    features, labels = (app.topic(name, value_deserializer="json") for name in source.split(","))
    app.dataframe(features).apply(predict).to_topic(app.topic(target, value_serializer="json"))
    app.dataframe(labels).update(learn)
    app.run()


def bytewax(_group: str, broker: str, source: str, target: str, folder: str) -> None:
    """The tree is a state, in a snapshot every ten seconds, as `python -m bytewax.run -r FOLDER` takes them."""
    from datetime import timedelta
    from pathlib import Path

    import bytewax.operators as op
    from bytewax.connectors.kafka import KafkaSinkMessage
    from bytewax.connectors.kafka import operators as kafka
    from bytewax.dataflow import Dataflow
    from bytewax.recovery import RecoveryConfig, init_db_dir
    from bytewax.testing import cluster_main

    def learn(model: Model | None, record: dict[str, Any]) -> tuple[Model, dict[str, Any]]:
        model = model or Model()
        return model, model.answer(record)

    recovery = Path(folder)
    if not list(recovery.glob("*.sqlite3")):
        init_db_dir(recovery, 1)
    flow = Dataflow("peer")
    read = kafka.input("read", flow, brokers=[broker], topics=[source])
    records = op.map("decode", read.oks, lambda message: ("model", orjson.loads(message.value)))
    answers = op.stateful_map("learn", records, learn)
    messages = op.map("encode", answers, lambda pair: KafkaSinkMessage(pair[1]["id"].encode(), orjson.dumps(pair[1])))
    kafka.output("write", messages, brokers=[broker], topic=target)
    cluster_main(flow, [], 0, recovery_config=RecoveryConfig(str(recovery)), epoch_interval=timedelta(seconds=10))


def faust(group: str, broker: str, source: str, target: str, folder: str) -> None:
    """One agent, an event at a time."""
    import faust as library

    app = library.App(
        group,
        broker=f"kafka://{broker}",
        store="memory://",
        datadir=folder,
        topic_partitions=1,
        topic_disable_leader=True,
        web_enabled=False,
    )
    answers = app.topic(target, value_serializer="json")
    model = Model()

    async def answer(stream: Any) -> None:
        async for record in stream:
            await answers.send(key=record["id"], value=model.answer(record))

    app.agent(app.topic(source, value_serializer="json"), name="peer")(answer)
    app.Worker(loglevel="WARNING").execute_from_commandline()


PROGRAMS: dict[str, Any] = {
    "confluent": confluent,
    "quix": quix,
    "quix-exactly-once": quix_exactly_once,
    "quix-two-topics": quix_two_topics,
    "bytewax": bytewax,
    "faust": faust,
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](*sys.argv[2:])
