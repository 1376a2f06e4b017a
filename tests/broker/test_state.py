"""State on real Kafka: exported while a worker runs, imported into another stream, gone on with to the same bits."""

import asyncio
import json

import pytest

from riparian.app.errors import StateError
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup, RecordedOrder
from riparian.app.state import changelog, checkpoint, portable
from riparian.topics.names import INPUTS, changelog_topic
from riparian.topics.records import RawBatch
from tests.broker.clients import append, read
from tests.broker.harness import Stream, instances, state_log

pytestmark = pytest.mark.broker


def fold(s, sent, n_features, n_labels):
    """The state after the first records of both topics, in the order that predictions recorded."""
    learner = PartitionLearner(s.spec)
    order = [(p["offset"], p["label_offset"]) for p in sent]
    merge = PartitionGroup(script=RecordedOrder.of(INPUTS, order))
    merge.buffers["features"].add(RawBatch.of(s.read("features")[:n_features]))
    merge.buffers["labels"].add(RawBatch.of(s.read("labels")[:n_labels]))
    while merge.n_waiting:
        learner.step(merge.release(EVERYTHING))
    return learner


def held(s):
    """What the changelog holds, and its manifest."""
    log = asyncio.run(changelog.read(s.connection, changelog_topic(s.name), 0))
    return log, checkpoint.decode_manifest(log.items[checkpoint.manifest_key(0)])


def test_export_while_a_worker_runs_and_import_into_another_stream(stream, tmp_path):
    s = stream(checkpoint={"every": "100ms"})
    n = 4000
    rows = instances(n, delay=40)
    file, exports = tmp_path / "state.bin", []
    with s.worker() as worker:
        for k in range(3):
            with s.giving(rows, 1000 * k, 1000 * (k + 1), pause=0.05, chunk=50):
                s.reach(1000 * k + 300, 1000 * k + 100, worker)
                exports.append(json.loads(s.riparian("export", file, "--json")))
        assert "sound" in s.riparian("state verify")
        assert "has 1 worker" in s.riparian("import", file, "--replace", code=2)
        s.give(rows, 3000)
        learner = s.reach(n, worker=worker)
        assert worker.stop() == 0
    s.check(learner)
    # Each export is the state at its offsets, to the bit.
    assert len({found["sequence"] for found in exports}) == 3
    exported = portable.unpack(file.read_bytes(), "state.bin")
    at, label_at = exported.manifest.meta["feature_offset"], exported.manifest.meta["label_offset"]
    assert (at, label_at) == (exports[-1]["offset"], exports[-1]["label_offset"])
    assert 2300 <= at <= 3000
    sent = s.predictions()
    assert portable.restore(s.spec, exported).digest() == fold(s, sent[:at], at, label_at).digest()

    # Another stream over the same topics goes on from there.
    inputs = {"features": s.spec.topics.features, "labels": s.spec.topics.labels}
    other = Stream(s.broker, tmp_path, f"{s.name}-b", topics=inputs)
    shown = json.loads(other.riparian("import", file, "--json"))
    assert (shown["offset"], shown["label_offset"]) == (at, label_at)
    assert other.stored().digest() == portable.restore(other.spec, exported).digest()
    moved = other.run(n, name="other")
    new = other.predictions()
    assert [p["offset"] for p in new] == list(range(at, n))
    assert moved.digest() == fold(other, sent[:at] + new, n, n).digest()
    assert moved.pending.counts["joined"] == n
    with pytest.raises(StateError, match=f"the state was imported, .*--from {shown['sequence']}"):
        other.audit()
    report = other.holds(start=shown["sequence"])
    assert (report.n_predictions, report.checkpoints[-1].digest) == (n - at, moved.digest())

    # And the first stream goes back to it, and forward along its own predictions, none sent again.
    assert "has a state already: give --replace" in s.riparian("import", file, code=2)
    s.riparian("import", file, "--replace")
    assert s.stored().offsets["features"] == at
    again = s.run(n, beyond=state_log(s.broker, s.spec).position, name="again")
    assert again.digest() == learner.digest()
    s.check(again)


def test_a_state_is_shown_verified_mended_and_signed_through_a_file(stream, tmp_path, monkeypatch):
    s = stream()
    assert "has no state in partition 0 yet" in s.riparian("state show", code=2)
    assert "has no state in partition 0 yet" in s.riparian("export", tmp_path / "f", code=2)
    features, labels = instances(400)
    s.give((features, labels[:300]))
    s.run(400, 300)
    (entry,) = json.loads(s.riparian("state show", "--json"))["partitions"]
    records = read(s.broker, changelog_topic(s.name))
    assert entry["changelog"]["records"] == len(records)
    assert entry["changelog"]["bytes"] == sum(len(r.key) + len(r.value or b"") for r in records)
    assert entry["live"]["bytes"] <= entry["changelog"]["bytes"]
    assert (entry["offset"], entry["label_offset"], entry["waiting"]["instances"]) == (400, 300, 100)
    shown = s.riparian("state show")
    for word in ("next feature offset 400", "models/champion", "pending", "hoeffding-tree", "records"):
        assert word in shown
    (found,) = json.loads(s.riparian("state verify", "--json"))["partitions"]
    assert found["sound"]
    assert found["chunks"] - len(found["orphaned"]) >= entry["live"]["records"] - 1  # and those of older checkpoints

    file = tmp_path / "state.bin"
    s.riparian("export", file)
    array = "models/champion/links"
    key = checkpoint.chunk_key(0, held(s)[1].arrays[array][2][0])
    for value, said in ((b"\x01altered", "altered"), (None, "missing")):
        append(s.broker, changelog_topic(s.name), key, value)
        assert "damaged in partition 0" in s.riparian("state verify", code=2)
        refused = s.riparian("export", tmp_path / "other", code=2)
        assert array in refused
        assert said in refused
    assert not (tmp_path / "other").exists()
    # What was exported mends it.
    s.riparian("import", file, "--replace")
    assert "sound" in s.riparian("state verify")
    assert s.stored().offsets["features"] == 400

    # No other stream takes it, whose topics do not have these offsets.
    other = Stream(s.broker, tmp_path, f"{s.name}-b")
    assert "which ends at 0" in other.riparian("import", file, code=2)
    assert read(s.broker, changelog_topic(other.name)) == []

    # It is signed as docs/reference/state.md says, and the key changed as docs/run/security.md says.
    for secret in ("the first of two secrets", "the other of two secrets"):
        s.riparian("export", file)  # with the key that it was written with, at first with none
        monkeypatch.setenv("RIPARIAN_STATE_KEY", secret)
        s.riparian("import", file, "--replace")
    assert "sound" in s.riparian("state verify")
    monkeypatch.setenv("RIPARIAN_STATE_KEY", "the first of two secrets")
    assert "not signed by this" in s.riparian("export", file, code=2)
    found = s.riparian("state verify", code=2)
    assert "cannot be read in partition 0: the state was not signed by this RIPARIAN_STATE_KEY" in found
    assert "rollback" not in found
    assert "needed no more" not in found


def test_back_to_an_older_checkpoint_with_its_offsets_or_only_its_models(stream):
    fields = {"checkpoint": {"every": "100ms", "keep": 3, "keep_every": "0s"}}
    pool = {"model": "opinion-pool", "members": {"last": "last-label", "most": "majority-class"}}
    s = stream(**fields, challengers={"nb": "naive-bayes", "pool": pool})
    n = 3000
    rows = instances(n, delay=2)
    with s.worker() as worker:
        for at in range(0, n, 500):
            s.give(rows, at, at + 500)
            learner = s.reach(at + 500, worker=worker)
        assert "has 1 worker" in s.riparian("rollback", "--to", "1", code=2)
        assert worker.stop() == 0
    _, *older = json.loads(s.riparian("rollback", "--json"))["versions"]
    assert len(older) >= 3
    assert "goes back to one of them" in s.riparian("rollback")
    assert "has no checkpoint 99,999: the changelog holds" in s.riparian("rollback", "--to", "99999", code=2)
    chosen = next(row for row in older if row["offset"] < n)

    # The models alone: everything else goes on where it was, and what the models learned since is forgotten.
    s.riparian("rollback", "--to", chosen["sequence"], "--models-only")
    forgetful = s.stored()
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
        s.audit()

    # Back from that, with the offsets: learned again, to the same bits, and nothing is sent again.
    s.riparian("rollback", "--to", chosen["sequence"])
    assert s.stored().offsets["features"] == chosen["offset"]
    again = s.run(n, beyond=state_log(s.broker, s.spec).position, name="again")
    assert again.digest() == learner.digest()
    s.check(again)
    assert {one.offset for one in s.holds().checkpoints} >= {chosen["offset"], n}

    # The last checkpoint damaged: an older one is whole, and is enough.
    _, manifest = held(s)
    key = checkpoint.chunk_key(0, manifest.arrays["metrics/champion/sums"][2][0])
    append(s.broker, changelog_topic(s.name), key, b"\x00altered")
    assert "damaged in partition 0" in s.riparian("state verify", code=2)
    assert "riparian rollback" in s.fails()
    left = json.loads(s.riparian("rollback", "--json"))["versions"]
    assert manifest.sequence not in [row["sequence"] for row in left]
    s.riparian("rollback", "--to", left[0]["sequence"])
    assert s.run(n, beyond=state_log(s.broker, s.spec).position, name="mended").digest() == learner.digest()

    # Members that have changed since do not go back alone.
    pool["members"] = {"last": "last-label", "bayes": "naive-bayes"}
    s.change(**fields, challengers={"nb": "naive-bayes", "pool": pool})
    s.give(instances(100, start=n))
    s.run(n + 100, name="turned")
    said = s.riparian("rollback", "--to", left[0]["sequence"], "--models-only", code=2)
    assert f"challengers.pool has other members since checkpoint {left[0]['sequence']:,}, so its models alone" in said
