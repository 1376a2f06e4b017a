"""Arrow batches on a real broker: replayed, learned, killed in the middle of a batch, audited, rolled back, retried."""

import asyncio
import json

import pyarrow as pa
from click.testing import CliRunner

from app.cli import cli
from app.kafka.connection import Connection
from app.replay import publish
from tests.broker.crashing import EXIT_CODE
from tests.broker.harness import (
    PATIENCE,
    Worker,
    check_against_oracle,
    create_topics,
    instances,
    predictions,
    read,
    send,
    state_log,
    stored,
    stream_file,
    wait_for_state,
)
from tests.topics.arrow_records import stream as written
from topics.names import HEADER_INDEX, HEADER_OFFSET, HEADER_REASON
from topics.records import Rows

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


def invoke(*arguments):
    return CliRunner().invoke(cli, list(map(str, arguments)), catch_exceptions=False)


def test_a_worker_that_is_killed_within_a_batch_goes_on_there(broker, tmp_path, topic_name):
    # Labels come in other batches than features; a step takes 8,192 rows at most, so checkpoints stand within.
    batches, rows = 5, 20_000
    n = batches * rows
    saved = {"every": "100ms", "share": 0.9, "keep": 8, "keep_every": "1s"}
    path, spec = stream_file(tmp_path, topic_name, codec=CODEC, record={"x": ""}, checkpoint=saved)
    create_topics(spec, broker)
    features, labels = instances(n, delay=400)
    send(broker, spec.topics.features, packed(features, FEATURES, rows))
    send(broker, spec.topics.labels, packed(labels, LABELS, rows // 4))
    armed = tmp_path / "armed"
    armed.touch()
    for point in ("between predictions", "after the predictions", "after the manifest"):
        entry = ("tests.broker.crashing", point, str(armed))
        with Worker(path, broker, tmp_path, name=point.replace(" ", "-"), entry=entry) as worker:
            assert worker.process.wait(PATIENCE) == EXIT_CODE, worker.output[-3000:]
        places = [(one["offset"], one["index"]) for one in predictions(broker, spec)]
        if point != "after the manifest":
            assert 0 < len(places) < n
            assert places[-1][1] < rows - 1  # in the middle of a batch
    with Worker(path, broker, tmp_path, name="last") as worker:
        learner = wait_for_state(broker, spec, batches, 4 * batches, worker=worker)
        assert (learner.n_instances, learner.n_labels) == (n, n)
        assert worker.stop() == 0
    sent = predictions(broker, spec)
    assert [(one["offset"], one["index"]) for one in sent][: len(places)] == places
    assert [one["id"] for one in sent] == [f"{i:07d}" for i in range(n)]
    check_against_oracle(broker, spec, stored(broker, spec))

    # An audit from the beginning, and a rollback to a checkpoint within a batch.
    audited(broker, path, n)
    report = json.loads(invoke("lag", path, "--json", "--broker", broker).output)
    assert [row["end"] - row["processed"] for row in report["partitions"]] == [0, 0]
    within = [one for one in manifests(broker, spec) if one.meta["feature_index"] or one.meta["label_index"]]
    assert within
    again = invoke("rollback", path, "--partition", 0, "--to", within[-1].sequence, "--broker", broker)
    assert again.exit_code == 0, again.output
    with Worker(path, broker, tmp_path, name="back") as worker:
        learner = wait_for_state(broker, spec, batches, 4 * batches, worker=worker)
        assert worker.stop() == 0
    check_against_oracle(broker, spec, learner)
    assert len(read(broker, spec.topics.predictions)) == n
    audited(broker, path, n)


def audited(broker, path, n):
    tested = json.loads(invoke("backtest", path, "--partition", 0, "--json", "--broker", broker).stdout)
    (part,) = tested["models"][0]["partitions"]
    assert (part["recorded"], part["instances"]) == (n, n)
    done = invoke("audit", path, "--partition", 0, "--json", "--broker", broker)
    (found,) = json.loads(done.output)["partitions"]
    assert found["holds"], found
    assert found["predictions"] == n


def manifests(broker, spec):
    """The older checkpoints that the changelog keeps."""
    log = state_log(broker, spec)
    return [one for one in map(log.past_manifest, log.manifest.past) if one is not None] if log.manifest else []


def test_predictions_in_batches_and_letters_of_rows(broker, tmp_path, topic_name):
    path, spec = stream_file(tmp_path, topic_name, codec="arrow", record={"x": ""})
    create_topics(spec, broker)
    features, labels = instances(3000, delay=40)
    bad = json.loads(features[17].value)
    features[17] = features[17]._replace(value=json.dumps({**bad, "id": None}).encode())
    made = packed(features, FEATURES, 500)
    renamed = written(pa.record_batch({"id": ["a", "b"], "A": [1.0, 2.0], "b": [0.0, 1.0], "c": ["x", "y"]}))
    send(broker, spec.topics.features, [*made, made[-1]._replace(value=b"hostile"), made[-1]._replace(value=renamed)])
    send(broker, spec.topics.labels, packed(labels, LABELS, 700))
    with Worker(path, broker, tmp_path) as worker:
        wait_for_state(broker, spec, 8, 5, worker=worker)
        assert worker.stop() == 0
    records = read(broker, spec.topics.predictions)
    assert 0 < len(records) < 100
    rows = [row for one in records for row in pa.ipc.open_stream(one.value).read_all().to_pylist()]
    assert [(one["offset"], one["index"]) for one in rows] == [(i // 500, i % 500) for i in range(3000) if i != 17]
    assert {one["y"] for one in rows} == {None, "yes", "no"}
    told = [dict(one.headers) for one in read(broker, spec.topics.deadletters)]
    assert [(h[HEADER_OFFSET], h[HEADER_INDEX], h[HEADER_REASON]) for h in told] == [
        (b"0", b"17", b"missing-id"), (b"6", b"0", b"malformed"), (b"7", b"0", b"unusable-schema"),
    ]  # fmt: skip
    audited(broker, path, 2999)

    # A retry sends what a stream file rejects no more: here the batch whose column had another name.
    looser = path.with_name("looser.yaml")
    looser.write_text(path.read_text().replace("  a: numeric\n", "  a: {type: numeric, from: A}\n", 1))
    shown = invoke("deadletters", "show", path, "-n", 5, "--broker", broker).output
    assert f"{spec.topics.features}[0] at 0, instance 17" in shown
    for file, n in ((path, 8), (looser, 9)):
        again = invoke("deadletters", "retry", file, "--broker", broker)
        assert again.exit_code == 0, again.output
        assert len(read(broker, spec.topics.features)) == n
    assert read(broker, spec.topics.features)[-1].value == renamed


def test_a_replay_writes_batches(broker, tmp_path, topic_name):
    features = {  # two of them are items of a list, of which Arrow has a column
        "a": {"type": "numeric", "from": "in.v[0]"},
        "b": {"type": "numeric", "from": "in.v[1]"},
        "c": {"type": "nominal", "from": "words[0]"},
    }
    path, spec = stream_file(tmp_path, topic_name, codec="arrow", record={"x": ""}, partitions=2, features=features)
    n = 5000
    columns = [
        [str(i % 7 / 8) for i in range(n)],
        [str(i % 5) for i in range(n)],
        [f'"{"xy"[i % 2]}"' for i in range(n)],
    ]
    rows = Rows(0, [f"i{i}" for i in range(n)], columns, ['"yes"' if i % 7 > 3 else '"no"' for i in range(n)])
    blocks = [rows.part(at, at + 2000) for at in range(0, n, 2000)]
    done = asyncio.run(publish(spec, blocks, Connection(broker), n=n, batch_rows=300, label_delay=0.5))
    assert (done.features, done.labels) == (n, n)
    batches = [one for k in range(2) for one in read(broker, spec.topics.features, k)]
    assert 16 < len(batches) < 30
    tables = [pa.ipc.open_stream(one.value).read_all() for one in batches]
    assert max(table.num_rows for table in tables) == 300
    for table in tables:
        for row in table.to_pylist():
            i = int(row["id"][1:])
            assert (row["in"], row["words"]) == ({"v": [i % 7 / 8, i % 5]}, ["xy"[i % 2]])
    checked = invoke("check", path, "--broker", broker)
    assert "all of them in the same partition" in checked.output, checked.output
    with Worker(path, broker, tmp_path) as worker:
        learned = 0
        for k in range(2):
            sizes = [len(read(broker, topic, k)) for topic in (spec.topics.features, spec.topics.labels)]
            learned += wait_for_state(broker, spec, *sizes, k, worker).pending.counts["joined"]
        assert learned == n
        assert worker.stop() == 0
