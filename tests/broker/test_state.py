"""State on real Kafka: exported while a worker runs, imported into another stream, gone on with to the same bits."""

import asyncio
import json
import subprocess
import sys
import threading

import pytest
from aiokafka import AIOKafkaProducer

from app.errors import StateError
from app.kafka.connection import Connection
from app.partition.learner import PartitionLearner
from app.partition.merge import EVERYTHING, Merge, Script
from app.state import changelog, checkpoint, portable
from app.state.audit import audit
from tests.broker.harness import (
    PATIENCE,
    ROOT,
    Worker,
    _raw,
    check_against_oracle,
    create_topics,
    instances,
    predictions,
    read,
    send,
    stored,
    stream_file,
    wait_for_state,
)
from topics.names import INPUTS, changelog_topic

pytestmark = pytest.mark.broker


def riparian(broker, *arguments, code=0):
    """Run a command; its output, and what it says on stderr."""
    command = [sys.executable, "-m", "app.cli", *map(str, arguments), "--broker", broker]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


def fold(broker, spec, sent, n_features, n_labels):
    """The state after the first records of both topics, in the order that predictions recorded."""
    learner = PartitionLearner(spec)
    order = [(p["offset"], p["label_offset"]) for p in sent]
    merge = Merge(script=Script.of(INPUTS, order))
    merge.buffers["features"].add(_raw(read(broker, spec.topics.features)[:n_features]))
    merge.buffers["labels"].add(_raw(read(broker, spec.topics.labels)[:n_labels]))
    while merge.n_waiting:
        learner.step(merge.release(EVERYTHING))
    return learner


def append(broker, topic, key, value):
    """Append a record to a changelog, as nobody should."""

    async def run():
        producer = AIOKafkaProducer(bootstrap_servers=broker)
        await producer.start()
        try:
            await producer.send_and_wait(topic, value, key=key, partition=0)
        finally:
            await producer.stop()

    asyncio.run(run())


def test_export_while_a_worker_runs_and_import_into_another_stream(broker, tmp_path, topic_name):
    path, spec = stream_file(tmp_path, topic_name, checkpoint={"every": "100ms"})
    create_topics(spec, broker)
    n = 4000
    features, labels = instances(n, delay=40)

    def sending(part):
        topics = ((spec.topics.features, features), (spec.topics.labels, labels))
        threads = [
            threading.Thread(target=send, args=(broker, topic, records[part]), kwargs={"pause": 0.1, "chunk": 50})
            for topic, records in topics
        ]
        for thread in threads:
            thread.start()
        return threads

    file = tmp_path / "state.bin"
    exports = []
    with Worker(path, broker, tmp_path) as worker:
        for k in range(3):
            threads = sending(slice(1000 * k, 1000 * (k + 1)))
            try:
                wait_for_state(broker, spec, 1000 * k + 300, 1000 * k + 100, worker=worker)
                exports.append(json.loads(riparian(broker, "export", path, file, "--json")))
            finally:
                for thread in threads:
                    thread.join()
        assert "sound" in riparian(broker, "state", "verify", path)
        assert "has 1 worker" in riparian(broker, "import", path, file, "--replace", code=2)
        for thread in sending(slice(3000, n)):
            thread.join()
        learner = wait_for_state(broker, spec, n, n, worker=worker)
        assert worker.stop() == 0
    check_against_oracle(broker, spec, learner)
    # Each export is the state at its offsets, to the bit.
    assert len({found["sequence"] for found in exports}) == 3
    exported = portable.unpack(file.read_bytes(), "state.bin")
    at, label_at = exported.manifest.meta["feature_offset"], exported.manifest.meta["label_offset"]
    assert (at, label_at) == (exports[-1]["offset"], exports[-1]["label_offset"])
    assert 2300 <= at <= 3000
    sent = predictions(broker, spec)
    assert portable.restore(spec, exported).digest() == fold(broker, spec, sent[:at], at, label_at).digest()

    # Another stream over the same topics goes on from there.
    inputs = {"features": spec.topics.features, "labels": spec.topics.labels}
    other_path, other = stream_file(tmp_path, f"{topic_name}-b", topics=inputs)
    create_topics(other, broker)
    shown = json.loads(riparian(broker, "import", other_path, file, "--json"))
    assert (shown["offset"], shown["label_offset"]) == (at, label_at)
    assert stored(broker, other).digest() == portable.restore(other, exported).digest()
    with Worker(other_path, broker, tmp_path, name="other") as worker:
        moved = wait_for_state(broker, other, n, n, worker=worker)
        assert worker.stop() == 0
    new = predictions(broker, other)
    assert [p["offset"] for p in new] == list(range(at, n))
    assert moved.digest() == fold(broker, other, sent[:at] + new, n, n).digest()
    assert moved.pending.counts["joined"] == n
    with pytest.raises(StateError, match=f"the state was imported, .*--from {shown['sequence']}"):
        asyncio.run(audit(other, Connection(broker), 0))
    report = asyncio.run(audit(other, Connection(broker), 0, start=shown["sequence"]))
    assert report.holds
    assert (report.n_predictions, report.checkpoints[-1].digest) == (n - at, moved.digest())

    # And the first stream goes back to it, and forward along its own predictions, none sent again.
    refused = riparian(broker, "import", path, file, code=2)
    assert "has a state already: give --replace" in refused
    riparian(broker, "import", path, file, "--replace")
    assert stored(broker, spec).offsets["features"] == at
    with Worker(path, broker, tmp_path, name="again") as worker:
        again = wait_for_state(broker, spec, n, n, worker=worker)
        assert worker.stop() == 0
    assert again.digest() == learner.digest()
    check_against_oracle(broker, spec, again)


def test_show_and_verify_and_what_they_say_of_damage(broker, tmp_path, topic_name):
    path, spec = stream_file(tmp_path, topic_name)
    create_topics(spec, broker)
    assert "has no state in partition 0 yet" in riparian(broker, "state", "show", path, code=2)
    assert "has no state in partition 0 yet" in riparian(broker, "export", path, tmp_path / "f", code=2)
    features, labels = instances(400)
    send(broker, spec.topics.features, features)
    send(broker, spec.topics.labels, labels[:300])
    with Worker(path, broker, tmp_path) as worker:
        wait_for_state(broker, spec, 400, 300, worker=worker)
        assert worker.stop() == 0
    (entry,) = json.loads(riparian(broker, "state", "show", path, "--json"))["partitions"]
    records = read(broker, changelog_topic(spec.name))
    assert entry["changelog"]["records"] == len(records)
    assert entry["changelog"]["bytes"] == sum(len(r.key) + len(r.value or b"") for r in records)
    assert entry["live"]["bytes"] <= entry["changelog"]["bytes"]
    assert (entry["offset"], entry["label_offset"], entry["waiting"]["instances"]) == (400, 300, 100)
    shown = riparian(broker, "state", "show", path)
    for word in ("next feature offset 400", "models/champion", "pending", "hoeffding-tree", "records"):
        assert word in shown
    (found,) = json.loads(riparian(broker, "state", "verify", path, "--json"))["partitions"]
    assert found["sound"]
    assert found["chunks"] - len(found["orphaned"]) >= entry["live"]["records"] - 1  # and those of older checkpoints

    file = tmp_path / "state.bin"
    riparian(broker, "export", path, file)
    log = asyncio.run(changelog.read(Connection(broker), changelog_topic(spec.name), 0))
    manifest = checkpoint.decode_manifest(log.items[checkpoint.manifest_key(0)])
    array = "models/champion/links"
    key = checkpoint.chunk_key(0, manifest.arrays[array][2][0])
    for value, said in ((b"\x01altered", "altered"), (None, "missing")):
        append(broker, changelog_topic(spec.name), key, value)
        assert "damaged in partition 0" in riparian(broker, "state", "verify", path, code=2)
        refused = riparian(broker, "export", path, tmp_path / "other", code=2)
        assert array in refused
        assert said in refused
    assert not (tmp_path / "other").exists()
    # What was exported mends it.
    riparian(broker, "import", path, file, "--replace")
    assert "sound" in riparian(broker, "state", "verify", path)
    assert stored(broker, spec).offsets["features"] == 400


def test_back_to_an_older_checkpoint_with_its_offsets_or_only_its_models(broker, tmp_path, topic_name):
    fields = {"checkpoint": {"every": "200ms", "keep": 3, "keep_every": "0s"}}
    pool = {"model": "opinion-pool", "members": {"last": "last-label", "most": "majority-class"}}
    path, spec = stream_file(tmp_path, topic_name, **fields, challengers={"nb": "naive-bayes", "pool": pool})
    create_topics(spec, broker)
    n = 3000
    features, labels = instances(n, delay=2)
    with Worker(path, broker, tmp_path) as worker:
        for at in range(0, n, 500):
            send(broker, spec.topics.features, features[at : at + 500])
            send(broker, spec.topics.labels, labels[at : at + 500])
            learner = wait_for_state(broker, spec, at + 500, at + 500, worker=worker)
        assert "has 1 worker" in riparian(broker, "rollback", path, "--to", "1", code=2)
        assert worker.stop() == 0
    _, *older = json.loads(riparian(broker, "rollback", path, "--json"))["versions"]
    assert len(older) >= 3
    assert "goes back to one of them" in riparian(broker, "rollback", path)
    assert "has no checkpoint 99,999: the changelog holds" in riparian(
        broker, "rollback", path, "--to", "99999", code=2
    )
    chosen = next(row for row in older if row["offset"] < n)

    # The models alone: everything else goes on where it was, and what the models learned since is forgotten.
    riparian(broker, "rollback", path, "--to", chosen["sequence"], "--models-only")
    forgetful = stored(broker, spec)
    assert (forgetful.offsets["features"], forgetful.offsets["labels"]) == (n, n)
    assert forgetful.pending.counts == learner.pending.counts
    assert forgetful.roles["champion"].metrics.metrics() == learner.roles["champion"].metrics.metrics()
    assert [node["weight"] for node in forgetful.roles["nb"].model.describe()] < [
        node["weight"] for node in learner.roles["nb"].model.describe()
    ]

    assert forgetful.origin == [n, n, 1]
    with pytest.raises(
        StateError, match=rf"does not follow from its records from the beginning on: .*at offset {n:,} .*rolled back"
    ):
        asyncio.run(audit(spec, Connection(broker), 0))

    # Back from that, with the offsets: learned again, to the same bits, and nothing is sent again.
    riparian(broker, "rollback", path, "--to", chosen["sequence"])
    assert stored(broker, spec).offsets["features"] == chosen["offset"]
    with Worker(path, broker, tmp_path, name="again") as worker:
        again = wait_for_state(broker, spec, n, n, worker=worker)
        assert worker.stop() == 0
    assert again.digest() == learner.digest()
    check_against_oracle(broker, spec, again)
    report = asyncio.run(audit(spec, Connection(broker), 0))
    assert report.holds
    assert {one.offset for one in report.checkpoints} >= {chosen["offset"], n}

    # The last checkpoint damaged: an older one is whole, and is enough.
    log = asyncio.run(changelog.read(Connection(broker), changelog_topic(spec.name), 0))
    manifest = checkpoint.decode_manifest(log.items[checkpoint.manifest_key(0)])
    key = checkpoint.chunk_key(0, manifest.arrays["metrics/champion/sums"][2][0])
    append(broker, changelog_topic(spec.name), key, b"\x00altered")
    assert "damaged in partition 0" in riparian(broker, "state", "verify", path, code=2)
    with Worker(path, broker, tmp_path, name="refusing") as worker:
        assert worker.process.wait(60) == 2
        assert "riparian rollback" in worker.output
    left = json.loads(riparian(broker, "rollback", path, "--json"))["versions"]
    assert manifest.sequence not in [row["sequence"] for row in left]
    riparian(broker, "rollback", path, "--to", left[0]["sequence"])
    with Worker(path, broker, tmp_path, name="mended") as worker:
        mended = wait_for_state(broker, spec, n, n, worker=worker)
        assert worker.stop() == 0
    assert mended.digest() == learner.digest()

    # Members that have changed since do not go back alone.
    pool["members"] = {"last": "last-label", "bayes": "naive-bayes"}
    path, spec = stream_file(tmp_path, topic_name, **fields, challengers={"nb": "naive-bayes", "pool": pool})
    features, labels = instances(100, start=n)
    send(broker, spec.topics.features, features)
    send(broker, spec.topics.labels, labels)
    with Worker(path, broker, tmp_path, name="turned") as worker:
        wait_for_state(broker, spec, n + 100, n + 100, worker=worker)
        assert worker.stop() == 0
    said = riparian(broker, "rollback", path, "--to", left[0]["sequence"], "--models-only", code=2)
    assert f"challengers.pool has other members since checkpoint {left[0]['sequence']:,}, so its models alone" in said


def test_import_refuses_offsets_that_the_topics_do_not_have(broker, tmp_path, topic_name):
    path, spec = stream_file(tmp_path, topic_name)
    create_topics(spec, broker)
    features, labels = instances(200)
    send(broker, spec.topics.features, features)
    send(broker, spec.topics.labels, labels)
    with Worker(path, broker, tmp_path) as worker:
        wait_for_state(broker, spec, 200, 200, worker=worker)
        assert worker.stop() == 0
    file = tmp_path / "state.bin"
    riparian(broker, "export", path, file)
    other_path, other = stream_file(tmp_path, f"{topic_name}-b")
    create_topics(other, broker)
    assert "which ends at 0" in riparian(broker, "import", other_path, file, code=2)
    assert read(broker, changelog_topic(other.name)) == []


def test_a_state_that_is_there_is_signed_through_a_file(broker, tmp_path, topic_name, monkeypatch):
    """As docs/state.md says, and the key changed as docs/security.md says."""
    path, spec = stream_file(tmp_path, topic_name, checkpoint={"every": "100ms"})
    create_topics(spec, broker)
    features, labels = instances(200)
    send(broker, spec.topics.features, features)
    send(broker, spec.topics.labels, labels)
    with Worker(path, broker, tmp_path) as worker:
        wait_for_state(broker, spec, 200, 200, worker=worker)
        assert worker.stop() == 0
    file = tmp_path / "state.bin"
    for secret in ("the first of two secrets", "the other of two secrets"):
        riparian(broker, "export", path, file)  # with the key that it was written with, at first with none
        monkeypatch.setenv("RIPARIAN_STATE_KEY", secret)
        riparian(broker, "import", path, file, "--replace")
    assert "sound" in riparian(broker, "state", "verify", path)
    monkeypatch.setenv("RIPARIAN_STATE_KEY", "the first of two secrets")
    assert "not signed by this" in riparian(broker, "export", path, file, code=2)
