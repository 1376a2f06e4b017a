"""`riparian audit` on real Kafka: holds for workers that were killed, and names what was altered."""

import asyncio
import json
import subprocess
import sys
import threading

import pytest
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.structs import TopicPartition

from app.kafka.connection import Connection
from app.state.audit import audit
from app.stream_file.spec import load
from tests.broker.harness import (
    PATIENCE,
    ROOT,
    Sent,
    Worker,
    create_topics,
    instances,
    predictions,
    read,
    send,
    stream_file,
    wait_for_state,
)

pytestmark = pytest.mark.broker

N = 6000
POISON = [None, b"{", b'{"id": "0000001", "x": {"a": "high"}}', b"[]"]


def riparian_audit(broker, *arguments, code=0):
    """Run the command: what it prints, or with `code` 2 its sentence."""
    command = [sys.executable, "-m", "app.cli", "audit", *map(str, arguments), "--broker", broker]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr if code == 2 else done.stdout


def audited(broker, spec, start=None, until=None):
    """The same in this process, as the option --json prints it."""
    report = asyncio.run(audit(spec, Connection(broker), 0, start=start, until=until))
    return json.loads(json.dumps(report.plain()))


def delete_before(broker, topic, offset):
    async def run():
        admin = AIOKafkaAdminClient(bootstrap_servers=broker)
        await admin.start()
        try:
            await admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(offset)})
        finally:
            await admin.close()

    asyncio.run(run())


def records():
    """Features and labels: poison in both, labels that come late, before their features, twice, and never."""
    features, labels = instances(N, delay=40)
    late = [label._replace(time=label.time + 700) for label in labels[::9]]
    early = [label._replace(time=label.time - 60) for label in labels[1::9]]
    others = [label for i, label in enumerate(labels) if i % 9 > 1 and i % 50 != 5]
    labels = sorted([*late, *early, *others, *others[::100]], key=lambda label: label.time)
    for i in range(300, 5000, 400):
        features.insert(i, features[i]._replace(value=POISON[i % 3]))
        labels.insert(i, labels[i]._replace(value=POISON[i % 4]))
    return features, labels


HELD_BACK = 600  # last records of each topic, which are sent once the last worker runs


def test_what_killed_workers_did_holds_and_what_is_altered_is_named(broker, tmp_path, topic_name):
    fields = {
        "checkpoint": {"every": "300ms", "keep": 100, "keep_every": "0s"},
        "predictions": {"challengers": True},
        "join": {"max_wait": "30s", "horizon": "2s", "max_labels": 100},
    }
    path, spec = stream_file(tmp_path, topic_name, **fields)
    create_topics(spec, broker)
    assert "has no state in partition 0 yet" in riparian_audit(broker, path, code=2)
    features, labels = records()
    n = len(features)
    topics = ((spec.topics.features, features), (spec.topics.labels, labels))
    senders = [
        threading.Thread(target=send, args=(broker, topic, rows[:-HELD_BACK]), kwargs={"pause": 0.5, "chunk": 100})
        for topic, rows in topics
    ]
    for sender in senders:
        sender.start()
    for _ in range(2):
        with Worker(path, broker, tmp_path) as worker:
            before = len(predictions(broker, spec))
            wait_for_state(broker, spec, before + 300, before // 2, worker=worker)
            if before:
                assert audited(broker, spec)["holds"]  # while it runs
            worker.kill()
    with Worker(path, broker, tmp_path) as worker:
        for sender in senders:
            sender.join()
        for left in range(HELD_BACK, 0, -100):  # a checkpoint each, however slow the machine is
            for topic, rows in topics:
                send(broker, topic, rows[len(rows) - left : len(rows) - left + 100])
            done = [len(rows) - left + 100 for _, rows in topics]
            learner = wait_for_state(broker, spec, *done, worker=worker)
        worker.kill()
    counts = learner.pending.counts
    assert all(counts[name] for name in ("joined", "expired", "unmatched"))

    sent = predictions(broker, spec)
    (found,) = json.loads(riparian_audit(broker, path, "--json"))["partitions"]
    assert found["holds"]
    assert found["predictions"] == len(sent) == n - 12
    assert found["until"] == {"sequence": 0, "offset": n, "label_offset": len(labels)}
    sequences = [one["sequence"] for one in found["checkpoints"]]
    assert len(sequences) > 5
    assert found["checkpoints"][-1]["digest"] == learner.digest()

    # From one checkpoint to another.
    begin, until = (found["checkpoints"][i] for i in (1, 4))
    part = audited(broker, spec, begin["sequence"], until["sequence"])
    assert part["from"] == {name: begin[name] for name in ("sequence", "offset", "label_offset")}
    assert part["until"] == {name: until[name] for name in ("sequence", "offset", "label_offset")}
    assert part["predictions"] == sum(begin["offset"] <= one["offset"] < until["offset"] for one in sent)
    assert [one["sequence"] for one in part["checkpoints"]] == sequences[2:5]

    # The same stream, with one of its topics altered.
    def other(role, change):
        rows = [Sent(r.value, r.timestamp, r.key) for r in read(broker, getattr(spec.topics, role))]
        change(rows)
        name = f"{topic_name}-{len(list(tmp_path.glob('*.yaml')))}"
        path, altered = stream_file(tmp_path, name, **fields, topics={**spec.topics.model_dump(), role: name})
        path.write_text(path.read_text().replace(f"name: {name}", f"name: {topic_name}", 1))
        create_topics(altered, broker)
        send(broker, name, rows)
        return path, audited(broker, load(path))

    at = 3000
    place = {name: sent[at][name] for name in ("offset", "label_offset")}

    def alter(rows):
        rows[at] = rows[at]._replace(value=json.dumps({**sent[at], "p": {"yes": 0.123}}).encode())
        del rows[at + 100]
        rows.insert(at + 200, rows[at + 150])
        rows[at + 300], rows[at + 301] = rows[at + 301], rows[at + 300]

    path_altered, found = other("predictions", alter)
    assert found["counts"] == {"different": 1, "missing": 1, "repeated": 1, "out-of-order": 1}
    first = found["first"]
    assert {name: first[name] for name in place} == place
    assert (first["kind"], first["position"], first["sent"]["p"]) == ("different", at, {"yes": 0.123})
    assert first["made"]["p"] == sent[at]["p"]
    assert [one["offset"] for one in found["differences"]["missing"]] == [sent[at + 100]["offset"]]
    assert [one["offset"] for one in found["differences"]["repeated"]] == [sent[at + 151]["offset"]]
    assert all(one["equal"] for one in found["checkpoints"])
    said = riparian_audit(broker, path_altered, code=1)
    assert (
        f"different, feature offset {place['offset']:,}, label offset {place['label_offset']:,}, at {at:,} of" in said
    )
    assert "the fold gives: {" in said

    def turn(rows):
        rows[at] = rows[at]._replace(value=rows[at].value.replace(b'"yes"', b'"no!"').replace(b'"no"', b'"yes"'))

    _, found = other("labels", turn)
    assert found["first"]["label_offset"] > at
    assert {one["equal"] for one in found["checkpoints"] if one["label_offset"] <= at} == {True}
    assert {one["equal"] for one in found["checkpoints"] if one["label_offset"] > at} == {False}

    def cut(rows):
        del rows[at:]

    _, found = other("features", cut)
    assert found["first"]["offset"] == min(one["offset"] for one in sent if one["offset"] >= at)
    assert set(found["counts"]) == {"unfounded"}

    # Retention has taken the beginning.
    delete_before(broker, spec.topics.features, begin["offset"] + 1)
    sentence = riparian_audit(broker, path, code=2)
    later = next(one["sequence"] for one in part["checkpoints"] if one["offset"] > begin["offset"])
    assert f"--from {later}" in sentence
    assert "do not reach back to the beginning" in sentence
    assert " compared: all equal" in riparian_audit(broker, path, "--from", later)
