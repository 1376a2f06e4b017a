"""A worker on real Kafka: end to end, killed, stopped, shared with another, fed with bad records."""

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from riparian.app.kafka.topics.lag import lag
from tests.broker.clients import Sent, send
from tests.broker.harness import PATIENCE, instances
from tests.processes import until

pytestmark = pytest.mark.broker


def test_a_backlog_is_predicted_and_learned_in_the_order_of_its_timestamps(stream):
    """By a worker that is started as users start it."""
    s = stream()
    s.give(instances(3000, delay=5))
    learner = s.run(3000, forked=False)
    s.check(learner)
    # A label comes 5 ms after its features, features 1 ms apart: 5 instances wait when the sixth comes.
    assert [p["label_offset"] for p in s.predictions()] == [max(0, i - 5) for i in range(3000)]
    assert learner.roles["champion"].metrics.metrics()["accuracy"] > 0.8
    records = [json.loads(r.value) for r in s.read("metrics")]
    assert {r["model"] for r in records if "model" in r} == {"champion", "nb", "last"}
    last = [r for r in records if r.get("model") == "champion"][-1]
    assert last["overall"]["accuracy"] == learner.roles["champion"].metrics.metrics()["accuracy"]
    whole = [r for r in records if r.get("kind") == "partition"][-1]
    assert (whole["instances"], whole["labels"], whole["learned"], whole["waiting"]) == (3000, 3000, 3000, 0)
    assert whole["lag"] == {"features": 0, "labels": 0}
    assert whole.get("latency_p50", 0.0) <= whole.get("latency_p99", 0.0)  # none where nothing was predicted since


def test_kill_9_under_live_load_trains_nothing_twice_and_repeats_no_prediction(stream):
    """A tree beside a forest, whose state is many arrays that grow and change a little."""
    forest = {"model": "adaptive-random-forest", "n_models": 3}
    champion = {**forest, "warning_delta": 0.3, "drift_delta": 0.1}
    kept = {"every": "1s", "segments": ["c"]}
    tree = {"model": "hoeffding-tree", "grace_period": 50}
    s = stream(champion=champion, challengers={"tree": tree}, metrics=kept)
    n = 5000
    with s.giving(instances(n, delay=40), pause=0.1, chunk=100):
        for _ in range(2):
            with s.worker() as worker:
                before = len(s.predictions())
                s.reach(min(before + 600, n), before // 2, worker)
                worker.kill()
    with s.worker() as worker:
        learner = s.reach(n, worker=worker)
        worker.kill()
    assert s.check(learner).pending.counts["joined"] == n
    assert sum(one.n for one in learner.figures().segments) > 500


def test_kill_9_where_all_that_waits_lies_in_files(stream, tmp_path):
    """The next worker has it from the changelog; of the files nothing is left. Bits are those of a fold in memory."""
    s = stream(label={"on_repeat": "correct"})
    n, folder = 4000, tmp_path / "data"
    entry = {"entry": ("tests.broker.in_files",), "options": ("--data-dir", folder)}
    with s.giving(instances(n, delay=2000), pause=0.1, chunk=200):
        for _ in range(2):
            with s.worker(**entry) as worker:
                before = len(s.predictions())
                s.reach(min(before + 600, n), 0, worker)
                maps = Path(f"/proc/{worker.process.pid}/maps")
                until(lambda maps=maps: f"{folder}/" in maps.read_text())
                worker.kill()
            assert not [path for path in folder.rglob("*") if path.is_file()]
    with s.worker(**entry) as worker:
        learner = s.reach(n, worker=worker)
        worker.kill()
    assert s.check(learner).pending.counts["joined"] == n
    assert learner.pending.n_waiting == n


def test_two_workers_share_the_partitions_and_hand_them_over(stream):
    s = stream(partitions=2)
    n = 1000
    rows = [instances(2 * n, seed=p) for p in range(2)]
    for p in range(2):
        s.give(rows[p], 0, n, partition=p)
    with s.worker(name="first") as first:
        for p in range(2):
            s.reach(n, worker=first, partition=p)
        with s.worker(name="second") as second:
            for p in range(2):
                s.give(rows[p], n, partition=p, pause=0.05, chunk=100)
            until(lambda: all(f"partition {p}: checkpoint" in first.output + second.output for p in range(2)))
            until(lambda: "checkpoint" in second.output)
            for p in range(2):
                s.reach(2 * n, worker=second, partition=p)
            assert second.stop() == 0
        assert first.process.poll() is None
        assert first.stop() == 0
    for p in range(2):  # what the other one has joined since is in the last states alone
        s.check(s.reach(2 * n, partition=p))


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


async def send_nothing(s):
    """Append a record without key and value, which the client sends only as part of a batch."""
    async with AIOKafkaProducer(bootstrap_servers=s.broker) as producer:
        batch = producer.create_batch()
        batch.append(timestamp=None, key=None, value=None)
        await (await producer.send_batch(batch, s.spec.topics.features, partition=0))


def test_bad_records_go_to_the_dead_letter_topic_and_the_worker_goes_on(stream):
    features = {"a": "numeric", "b": "numeric", "c": {"type": "nominal", "max_values": 3}}
    s = stream(classes=["yes", "no"], record={"time": "at"}, features=features)
    good, labels = instances(1000)
    now = good[-1].time
    bad = [Sent(value, now, b"key") for value in BAD.values()]
    bad_labels = [Sent(value, now + 10, b"key") for value in BAD_LABELS.values()]
    s.give(([*good[:500], *bad, *good[500:]], [*labels, *bad_labels]))
    asyncio.run(send_nothing(s))
    learner = s.run(1001 + len(bad), 1000 + len(bad_labels))
    s.check(learner)
    assert learner.pending.counts["joined"] == 1000
    found = {}
    for record, headers in zip(records := s.read("deadletters"), s.letters(), strict=True):
        if headers["riparian-offset"] == "1013":  # neither key nor value
            assert (record.key, record.value, headers["riparian-reason"]) == (None, None, "tombstone")
            continue
        found[headers["riparian-topic"], headers["riparian-reason"]] = (headers, record.value)
        assert record.key == b"key"
    assert len(records) == len(BAD) + len(BAD_LABELS) + 1
    for topic, sent, first in ((s.spec.topics.features, BAD, 500), (s.spec.topics.labels, BAD_LABELS, 1000)):
        for i, (reason, value) in enumerate(sent.items()):
            headers, original = found[topic, reason]
            assert original == value
            assert (headers["riparian-offset"], headers["riparian-partition"]) == (str(first + i), "0")
            for ours, connect, streams in (
                ("topic", "topic", "topic"),
                ("offset", "offset", "offset"),
                ("reason", "exception.class.name", "exception"),
                ("detail", "exception.message", "message"),
            ):
                told = headers[f"riparian-{ours}"]
                assert headers[f"__connect.errors.{connect}"] == headers[f"__streams.errors.{streams}"] == told


def test_compressed_batches_and_records_larger_than_a_worker_may_write(stream):
    """A dead letter of 2.5 MB, or a prediction with a key of 1 MB, is refused by Kafka, and must not end a worker."""
    s = stream()
    huge_label = Sent(b'{"id": "1", "pad": "' + b"x" * 5_000_000 + b'"}', 0)
    loud = json.dumps({"id": "nobody", "y": "\x01" * 1024}).encode()
    for i, codec in enumerate(("gzip", "snappy", "lz4", "zstd")):
        features, labels = instances(200, start=200 * i)
        now = features[-1].time
        huge = [Sent(b'{"id": "1", "pad": "' + b"x" * 2_500_000 + b'"}', now), Sent(b"{}", now, b"k" * 1_048_480)]
        rows = [*features, *huge], [*labels, huge_label._replace(time=now), Sent(loud, now)]
        s.give(rows, compression=codec)
    learner = s.run(202 * 4)
    s.check(learner)
    assert learner.pending.counts["joined"] == 800
    assert set(learner.classes.values) == {"yes", "no"}
    found = Counter()
    for record, headers in zip(s.read("deadletters"), s.letters(), strict=True):
        size, key_size = headers.get("riparian-size"), headers.get("riparian-key-size")
        found[headers["riparian-topic"], headers["riparian-reason"], size, key_size] += 1
        assert len(record.value) == (900_000 if size else len(record.value))
    assert found == {
        (s.spec.topics.features, "too-large", "2500022", None): 4,
        (s.spec.topics.features, "too-large", None, "1048480"): 4,
        (s.spec.topics.labels, "too-large", "5000022", None): 4,
        (s.spec.topics.labels, "too-long", None, None): 4,
    }


def test_lag_is_of_what_was_processed_and_not_of_the_last_checkpoint(stream):
    s = stream(checkpoint={"every": "1h"}, metrics={"every": "200ms"})
    rows = instances(300)

    def lags():
        """(processed, committed, lag) of features and labels."""
        return [(row.processed, row.committed, row.lag) for row in asyncio.run(lag(s.spec, s.connection)).rows]

    assert lags() == [(None, None, None)] * 2
    with s.worker(place="w") as worker:
        send(s.broker, s.spec.topics.features, rows[0])
        send(s.broker, s.spec.topics.labels, rows[1][:250])
        until(lambda: [row[0] for row in lags()] == [300, 250] or worker.process.poll() is not None)
        assert [row[2] for row in lags()] == [0, 0]
        assert all((committed or 0) == 0 for _, committed, _ in lags())
        worker.kill()
        # What nobody works on lies behind, also to one who looks at the outputs.
        send(s.broker, s.spec.topics.labels, rows[1][250:])
        assert [row[2] for row in lags()] == [0, 50]
    with s.worker(place="w") as worker:
        until(lambda: lags()[1][0] == 300)
        assert worker.stop() == 0
    assert lags() == [(300, 300, 0)] * 2


def test_labels_inside_the_feature_records_need_no_label_topic(stream):
    s = stream(
        topics={"labels": None},
        record={"id": "@key", "x": "", "y": "target"},
        features={"a": {"type": "numeric", "from": "deep.a"}, "flag": "boolean"},
    )
    records = [
        Sent(json.dumps({"deep": {"a": i % 7}, "flag": i % 2 == 0, "target": i % 7 > 3}).encode(), 1000 + i, b"k%d" % i)
        for i in range(2000)
    ]
    send(s.broker, s.spec.topics.features, records)
    learner = s.run(2000, 0)
    s.check(learner)
    assert learner.pending.counts["joined"] == 2000
    sent = s.predictions()
    assert [p["id"] for p in sent[:3]] == ["k0", "k1", "k2"]
    assert sent[-1]["y"] is ((1999 % 7) > 3)


def test_a_session_that_kafka_does_not_allow_is_one_sentence(stream):
    """The client leaves its group for good then, and a worker would wait for ever."""
    s = stream()
    with s.worker(session_timeout=0.9) as worker:
        assert worker.process.wait(PATIENCE) == 2
        assert "--session-timeout: Kafka refuses 0.9 seconds: give what" in worker.output
        assert "Traceback" not in worker.output
    with s.worker(session_timeout=91) as worker:
        assert worker.process.wait(PATIENCE) == 2
        assert "Invalid value for --session-timeout: expected at most 90 seconds" in worker.output
