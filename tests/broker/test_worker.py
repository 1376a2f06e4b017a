"""A worker on real Kafka: end to end, killed, stopped, shared with another, fed with bad records."""

import asyncio
import json
import threading
import time
from collections import Counter

import pytest
from aiokafka import AIOKafkaProducer

from app.kafka.connection import Connection
from app.kafka.lag import lag
from tests.broker.harness import (
    PATIENCE,
    Sent,
    Worker,
    check_against_oracle,
    create_topics,
    instances,
    predictions,
    read,
    send,
    stream_file,
    wait_for_state,
)

pytestmark = pytest.mark.broker


def test_a_backlog_is_predicted_and_learned_in_the_order_of_its_timestamps(broker, tmp_path, topic_name):
    path, spec = stream_file(tmp_path, topic_name)
    create_topics(spec, broker)
    features, labels = instances(3000, delay=5)
    send(broker, spec.topics.features, features)
    send(broker, spec.topics.labels, labels)
    with Worker(path, broker, tmp_path) as worker:
        learner = wait_for_state(broker, spec, 3000, 3000, worker=worker)
        assert worker.stop() == 0
    check_against_oracle(broker, spec, learner)
    # A label comes 5 ms after its features, features 1 ms apart: 5 instances wait when the sixth comes.
    sent = predictions(broker, spec)
    assert [p["label_offset"] for p in sent] == [max(0, i - 5) for i in range(3000)]
    assert learner.roles["champion"].metrics.metrics()["accuracy"] > 0.8
    records = [json.loads(r.value) for r in read(broker, spec.topics.metrics)]
    assert {r["model"] for r in records if "model" in r} == {"champion", "nb", "last"}
    last = [r for r in records if r.get("model") == "champion"][-1]
    assert last["overall"]["accuracy"] == learner.roles["champion"].metrics.metrics()["accuracy"]
    whole = [r for r in records if r.get("kind") == "partition"][-1]
    assert (whole["instances"], whole["labels"], whole["learned"], whole["waiting"]) == (3000, 3000, 3000, 0)
    assert whole["lag"] == {"features": 0, "labels": 0}
    assert whole["latency_p50"] is None or whole["latency_p50"] <= whole["latency_p99"]


def test_kill_9_under_live_load_trains_nothing_twice_and_repeats_no_prediction(broker, tmp_path, topic_name):
    """A tree beside a forest, whose state is many arrays that grow and change a little."""
    champion = {
        "model": "adaptive-random-forest",
        "n_models": 3,
        "threads": 2,
        "warning_delta": 0.3,
        "drift_delta": 0.1,
    }
    challengers = {"tree": {"model": "hoeffding-tree", "grace_period": 50}, "nb": "naive-bayes"}
    path, spec = stream_file(tmp_path, topic_name, champion=champion, challengers=challengers)
    create_topics(spec, broker)
    n = 12_000
    features, labels = instances(n, delay=40)
    senders = [
        threading.Thread(target=send, args=(broker, topic, records), kwargs={"pause": 0.25, "chunk": 200})
        for topic, records in ((spec.topics.features, features), (spec.topics.labels, labels))
    ]
    for sender in senders:
        sender.start()
    try:
        for _ in range(2):
            with Worker(path, broker, tmp_path) as worker:
                before = len(predictions(broker, spec))
                wait_for_state(broker, spec, min(before + 600, n), before // 2, worker=worker)
                worker.kill()
    finally:
        for sender in senders:
            sender.join()
    with Worker(path, broker, tmp_path) as worker:
        learner = wait_for_state(broker, spec, n, n, worker=worker)
        worker.kill()
    oracle = check_against_oracle(broker, spec, learner)
    assert oracle.pending.counts["joined"] == n


def test_two_workers_share_the_partitions_and_hand_them_over(broker, tmp_path, topic_name):
    path, spec = stream_file(tmp_path, topic_name, partitions=2)
    create_topics(spec, broker)
    n = 2000
    sent = {p: instances(2 * n, seed=p) for p in range(2)}
    for p, (features, labels) in sent.items():
        send(broker, spec.topics.features, features[:n], partition=p)
        send(broker, spec.topics.labels, labels[:n], partition=p)
    with Worker(path, broker, tmp_path, name="first") as first:
        for p in range(2):
            wait_for_state(broker, spec, n, n, p, first)
        with Worker(path, broker, tmp_path, name="second") as second:
            for p, (features, labels) in sent.items():
                send(broker, spec.topics.features, features[n:], partition=p, pause=0.3, chunk=100)
                send(broker, spec.topics.labels, labels[n:], partition=p, pause=0.1, chunk=100)
            deadline = time.monotonic() + PATIENCE
            while "partition 0: checkpoint" not in second.output and "partition 1: checkpoint" not in second.output:
                assert time.monotonic() < deadline, second.output  # it may take longer to start than the first to learn
                time.sleep(0.1)
            for p in range(2):
                wait_for_state(broker, spec, 2 * n, 2 * n, p, second)
            assert second.stop() == 0
        assert first.process.poll() is None
        assert first.stop() == 0
    for p in range(2):  # what the other one has joined since is in the last states alone
        check_against_oracle(broker, spec, wait_for_state(broker, spec, 2 * n, 2 * n, p))


BAD = {
    "tombstone": None,
    "empty": b"",
    "not-json": b"{oops",
    "not-utf8": b'{"id": "\xff"}',
    "wrong-type": b'{"id": "1", "x": {"a": "high"}}',
    "missing-id": b'{"x": {"a": 1}}',
    "missing-x": b'{"id": "1"}',
    "not-finite": b'{"id": "1", "x": {"a": 1e999}}',
    "too-large": b'{"id": "1", "pad": "' + b"x" * 300_000 + b'"}',
    "too-deep": b'{"id": "1", "pad": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "nominal-overflow": b'{"id": "1", "x": {"c": "fourth"}}',
    "too-long": b'{"id": "' + b"i" * 2000 + b'", "x": {}}',
    "wrong-time": b'{"id": "1", "at": "noon", "x": {}}',
}
BAD_LABELS = {
    "wrong-label": b'{"id": "0000001", "y": [1]}',
    "unknown-value": b'{"id": "0000001", "y": "perhaps"}',
    "not-json": b"NaN",
}


def send_nothing(broker, topic):
    """Append a record without key and value, which the client sends only as part of a batch."""

    async def run():
        producer = AIOKafkaProducer(bootstrap_servers=broker)
        await producer.start()
        try:
            batch = producer.create_batch()
            batch.append(timestamp=None, key=None, value=None)
            await (await producer.send_batch(batch, topic, partition=0))
        finally:
            await producer.stop()

    asyncio.run(run())


def test_bad_records_go_to_the_dead_letter_topic_and_the_worker_goes_on(broker, tmp_path, topic_name):
    path, spec = stream_file(
        tmp_path,
        topic_name,
        classes=["yes", "no"],
        record={"time": "at"},
        features={"a": "numeric", "b": "numeric", "c": {"type": "nominal", "max_values": 3}},
    )
    create_topics(spec, broker)
    good, labels = instances(1000)
    now = good[-1].time
    bad = [Sent(value, now, b"key") for value in BAD.values()]
    bad_labels = [Sent(value, now + 10, b"key") for value in BAD_LABELS.values()]
    send(broker, spec.topics.features, [*good[:500], *bad, *good[500:]])
    send(broker, spec.topics.labels, [*labels, *bad_labels])
    send_nothing(broker, spec.topics.features)
    with Worker(path, broker, tmp_path) as worker:
        learner = wait_for_state(broker, spec, 1001 + len(bad), 1000 + len(bad_labels), worker=worker)
        assert worker.stop() == 0
    check_against_oracle(broker, spec, learner)
    assert learner.pending.counts["joined"] == 1000
    letters = read(broker, spec.topics.deadletters)
    found = {}
    for letter in letters:
        headers = {name: value.decode() for name, value in letter.headers}
        if headers["riparian-offset"] == "1013":  # neither key nor value
            assert (letter.key, letter.value, headers["riparian-reason"]) == (None, None, "tombstone")
            continue
        found[headers["riparian-topic"], headers["riparian-reason"]] = (headers, letter.value)
        assert letter.key == b"key"
    assert len(letters) == len(BAD) + len(BAD_LABELS) + 1
    for topic, records, first in (
        (spec.topics.features, BAD, 500),
        (spec.topics.labels, BAD_LABELS, 1000),
    ):
        for i, (reason, value) in enumerate(records.items()):
            headers, original = found[topic, reason]
            assert original == value
            assert headers["riparian-offset"] == str(first + i)
            assert headers["riparian-partition"] == "0"
            for ours, connect, streams in (
                ("topic", "topic", "topic"),
                ("offset", "offset", "offset"),
                ("reason", "exception.class.name", "exception"),
                ("detail", "exception.message", "message"),
            ):
                told = headers[f"riparian-{ours}"]
                assert headers[f"__connect.errors.{connect}"] == headers[f"__streams.errors.{streams}"] == told


def test_compressed_batches_and_records_larger_than_a_worker_may_write(broker, tmp_path, topic_name):
    """A dead letter of 2.5 MB, or a prediction with a key of 1 MB, is refused by Kafka, and must not end a worker."""
    path, spec = stream_file(tmp_path, topic_name)
    create_topics(spec, broker)
    codecs = ("gzip", "snappy", "lz4", "zstd")
    huge_labels = Sent(b'{"id": "1", "pad": "' + b"x" * 5_000_000 + b'"}', 0)
    loud = json.dumps({"id": "nobody", "y": "\x01" * 1024}).encode()
    for i, codec in enumerate(codecs):
        features, labels = instances(200, start=200 * i)
        now = features[-1].time
        huge = [Sent(b'{"id": "1", "pad": "' + b"x" * 2_500_000 + b'"}', now), Sent(b"{}", now, b"k" * 1_048_480)]
        send(broker, spec.topics.features, [*features, *huge], compression=codec)
        send(broker, spec.topics.labels, [*labels, huge_labels._replace(time=now), Sent(loud, now)], compression=codec)
    with Worker(path, broker, tmp_path) as worker:
        learner = wait_for_state(broker, spec, 202 * 4, 202 * 4, worker=worker)
        assert worker.stop() == 0
    check_against_oracle(broker, spec, learner)
    assert learner.pending.counts["joined"] == 800
    assert set(learner.classes.values) == {"yes", "no"}
    found = Counter()
    for letter in read(broker, spec.topics.deadletters):
        headers = {name: value.decode() for name, value in letter.headers}
        size, key_size = headers.get("riparian-size"), headers.get("riparian-key-size")
        found[headers["riparian-topic"], headers["riparian-reason"], size, key_size] += 1
        assert len(letter.value) == (900_000 if size else len(letter.value))
    assert found == {
        (spec.topics.features, "too-large", "2500022", None): 4,
        (spec.topics.features, "too-large", None, "1048480"): 4,
        (spec.topics.labels, "too-large", "5000022", None): 4,
        (spec.topics.labels, "too-long", None, None): 4,
    }


def test_lag_is_of_what_was_processed_and_not_of_the_last_checkpoint(broker, tmp_path, topic_name):
    path, spec = stream_file(tmp_path, topic_name, checkpoint={"every": "1h"}, metrics={"every": "200ms"})
    create_topics(spec, broker)
    features, labels = instances(300)

    def lags():
        """(processed, committed, lag) of features and labels."""
        found = asyncio.run(lag(spec, Connection(broker))).rows
        return [(row.processed, row.committed, row.lag) for row in found]

    assert lags() == [(None, None, None)] * 2
    with Worker(path, broker, tmp_path) as worker:
        send(broker, spec.topics.features, features)
        send(broker, spec.topics.labels, labels[:250])
        deadline = time.monotonic() + PATIENCE
        while [row[0] for row in lags()] != [300, 250]:
            assert worker.process.poll() is None, worker.output
            assert time.monotonic() < deadline, lags()
            time.sleep(0.2)
        assert [row[2] for row in lags()] == [0, 0]
        assert all((committed or 0) == 0 for _, committed, _ in lags())
        worker.kill()
        # What nobody works on lies behind, also to one who looks at the outputs.
        send(broker, spec.topics.labels, labels[250:])
        assert [row[2] for row in lags()] == [0, 50]
    with Worker(path, broker, tmp_path) as worker:
        deadline = time.monotonic() + PATIENCE
        while lags()[1][0] != 300:
            assert time.monotonic() < deadline, lags()
            time.sleep(0.2)
        assert worker.stop() == 0
    assert lags() == [(300, 300, 0)] * 2


def test_labels_inside_the_feature_records_need_no_label_topic(broker, tmp_path, topic_name):
    path, spec = stream_file(
        tmp_path,
        topic_name,
        topics={"labels": None},
        record={"id": "@key", "x": "", "y": "target"},
        features={"a": {"type": "numeric", "from": "deep.a"}, "flag": "boolean"},
    )
    create_topics(spec, broker)
    records = [
        Sent(json.dumps({"deep": {"a": i % 7}, "flag": i % 2 == 0, "target": i % 7 > 3}).encode(), 1000 + i, b"k%d" % i)
        for i in range(2000)
    ]
    send(broker, spec.topics.features, records)
    with Worker(path, broker, tmp_path) as worker:
        learner = wait_for_state(broker, spec, 2000, 0, worker=worker)
        assert worker.stop() == 0
    check_against_oracle(broker, spec, learner)
    assert learner.pending.counts["joined"] == 2000
    sent = predictions(broker, spec)
    assert [p["id"] for p in sent[:3]] == ["k0", "k1", "k2"]
    assert sent[-1]["y"] is ((1999 % 7) > 3)


def test_a_session_that_kafka_does_not_allow_is_one_sentence(broker, tmp_path, topic_name):
    """The client leaves its group for good then, and a worker would wait for ever."""
    path, _ = stream_file(tmp_path, topic_name)
    with Worker(path, broker, tmp_path, options=("--session-timeout", "3")) as worker:
        assert worker.process.wait(PATIENCE) == 2
        assert "--session-timeout: Kafka refuses 3 seconds: give what" in worker.output
        assert "Traceback" not in worker.output
    with Worker(path, broker, tmp_path, options=("--session-timeout", "91")) as worker:
        assert worker.process.wait(PATIENCE) == 2
        assert "Invalid value for --session-timeout: expected at most 90 seconds" in worker.output
