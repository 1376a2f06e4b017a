"""Arrow batches on a real broker: replayed, learned, killed in the middle of a batch, audited, rolled back, retried."""

import asyncio
import json

import pyarrow as pa

from riparian.app.replay import publish
from riparian.topics.names import HEADER_INDEX, HEADER_OFFSET, HEADER_REASON
from riparian.topics.records import Rows
from tests.broker.crashing import EXIT_CODE
from tests.broker.harness import PATIENCE, instances, state_log
from tests.topics.arrow_records import stream as written

FEATURES = {"id": pa.string(), "a": pa.float64(), "b": pa.float64(), "c": pa.dictionary(pa.int8(), pa.string())}
LABELS = {"id": pa.string(), "y": pa.string()}
CODEC = {"features": "arrow", "labels": "arrow"}


def packed(sent, kinds, n):
    """JSON records as batches of n rows, at the time of their last one."""
    found = []
    for at in range(0, len(sent), n):
        rows = [json.loads(one.value) for one in sent[at : at + n]]
        rows = [row | row.pop("x", {}) for row in rows]
        batch = pa.RecordBatch.from_arrays([pa.array([r[k] for r in rows], t) for k, t in kinds.items()], list(kinds))
        found.append(sent[at : at + n][-1]._replace(value=written(batch), key=None))
    return found


def test_a_worker_that_is_killed_within_a_batch_goes_on_there(stream):
    # Labels come in other batches than features; a step takes 8,192 rows at most, so checkpoints stand within.
    batches, rows = 2, 10_000
    n = batches * rows
    saved = {"every": "100ms", "share": 0.9, "keep": 8, "keep_every": "1s"}
    s = stream(codec=CODEC, record={"x": ""}, checkpoint=saved)
    features, labels = instances(n, delay=400)
    s.give((packed(features, FEATURES, rows), packed(labels, LABELS, rows // 4)))
    armed = s.folder / "armed"
    armed.touch()
    for point in ("between predictions", "after the predictions", "after the manifest"):
        entry = ("tests.broker.crashing", point, str(armed))
        with s.worker(name=point.replace(" ", "-"), entry=entry, place="w") as worker:
            assert worker.process.wait(PATIENCE) == EXIT_CODE, worker.output[-3000:]
        places = [(one["offset"], one["index"]) for one in s.predictions()]
        if point != "after the manifest":
            assert 0 < len(places) < n
            assert places[-1][1] < rows - 1  # in the middle of a batch
    learner = s.run(batches, 4 * batches, name="last")
    assert (learner.n_instances, learner.n_labels) == (n, n)
    sent = s.predictions()
    assert [(one["offset"], one["index"]) for one in sent][: len(places)] == places
    assert [one["id"] for one in sent] == [f"{i:07d}" for i in range(n)]
    s.check(s.stored())

    # An audit from the beginning, and a rollback to a checkpoint within a batch.
    s.riparian("audit")
    report = json.loads(s.riparian("lag", "--json"))
    assert [row["end"] - row["processed"] for row in report["partitions"]] == [0, 0]
    within = [one for one in manifests(s) if one.meta["feature_index"] or one.meta["label_index"]]
    assert within
    s.riparian("rollback", "--partition", 0, "--to", within[-1].sequence)
    s.check(s.run(batches, 4 * batches, name="back"))
    assert len(s.read("predictions")) == n
    audited(s, n)


def audited(s, n):
    tested = json.loads(s.riparian("backtest", "--partition", 0, "--json"))
    (part,) = tested["models"][0]["partitions"]
    assert (part["recorded"], part["instances"]) == (n, n)
    (found,) = json.loads(s.riparian("audit", "--partition", 0, "--json"))["partitions"]
    assert found["holds"], found
    assert found["predictions"] == n


def manifests(s):
    """The older checkpoints that the changelog keeps."""
    log = state_log(s.broker, s.spec)
    return [one for one in map(log.past_manifest, log.manifest.past) if one is not None] if log.manifest else []


def test_predictions_in_batches_and_letters_of_rows(stream):
    s = stream(codec="arrow", record={"x": ""})
    features, labels = instances(3000, delay=40)
    bad = json.loads(features[17].value)
    features[17] = features[17]._replace(value=json.dumps({**bad, "id": None}).encode())
    made = packed(features, FEATURES, 500)
    renamed = written(pa.record_batch({"id": ["a", "b"], "A": [1.0, 2.0], "b": [0.0, 1.0], "c": ["x", "y"]}))
    made += [made[-1]._replace(value=b"hostile"), made[-1]._replace(value=renamed)]
    s.give((made, packed(labels, LABELS, 700)))
    s.run(8, 5)
    records = s.read("predictions")
    assert 0 < len(records) < 100
    rows = [row for one in records for row in pa.ipc.open_stream(one.value).read_all().to_pylist()]
    assert [(one["offset"], one["index"]) for one in rows] == [(i // 500, i % 500) for i in range(3000) if i != 17]
    assert {one["y"] for one in rows} == {None, "yes", "no"}
    assert [(h[HEADER_OFFSET], h[HEADER_INDEX], h[HEADER_REASON]) for h in s.letters()] == [
        ("0", "17", "missing-id"), ("6", "0", "malformed"), ("7", "0", "unusable-schema"),
    ]  # fmt: skip
    audited(s, 2999)

    # A retry sends what a stream file rejects no more: here the batch whose column had another name.
    shown = s.riparian("deadletters show", "--limit", 5)
    assert f"{s.spec.topics.features}[0] at 0, instance 17" in shown
    looser = s.path.read_text().replace("  a: numeric\n", "  a: {type: numeric, from: A}\n", 1)
    for text, n in ((s.path.read_text(), 8), (looser, 9)):
        s.path.write_text(text)
        s.riparian("deadletters retry")
        assert len(s.read("features")) == n
    assert s.read("features")[-1].value == renamed


def test_a_replay_writes_batches(stream):
    features = {  # two of them are items of a list, of which Arrow has a column
        "a": {"type": "numeric", "from": "in.v[0]"},
        "b": {"type": "numeric", "from": "in.v[1]"},
        "c": {"type": "nominal", "from": "words[0]"},
    }
    s = stream(topics_made=False, codec="arrow", record={"x": ""}, partitions=2, features=features)
    n = 5000
    columns = [
        [str(i % 7 / 8) for i in range(n)],
        [str(i % 5) for i in range(n)],
        [f'"{"xy"[i % 2]}"' for i in range(n)],
    ]
    rows = Rows(0, [f"i{i}" for i in range(n)], columns, ['"yes"' if i % 7 > 3 else '"no"' for i in range(n)])
    blocks = [rows.part(at, at + 2000) for at in range(0, n, 2000)]
    done = asyncio.run(publish(s.spec, blocks, s.connection, n=n, batch_rows=300, label_delay=0.5))
    assert (done.features, done.labels) == (n, n)
    batches = [one for k in range(2) for one in s.read("features", k)]
    assert 16 < len(batches) < 30
    tables = [pa.ipc.open_stream(one.value).read_all() for one in batches]
    assert max(table.num_rows for table in tables) == 300
    for table in tables:
        for row in table.to_pylist():
            i = int(row["id"][1:])
            assert (row["in"], row["words"]) == ({"v": [i % 7 / 8, i % 5]}, ["xy"[i % 2]])
    assert "all of them in the same partition" in s.riparian("check")
    with s.worker() as worker:
        learned = 0
        for k in range(2):
            n_features, n_labels = (len(s.read(role, k)) for role in ("features", "labels"))
            learned += s.reach(n_features, n_labels, worker, k).pending.counts["joined"]
        assert learned == n
        assert worker.stop() == 0
