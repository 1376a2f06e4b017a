"""Commands on real Kafka: applied once, at one place, by whoever works on the partition, however often it is killed."""

import asyncio
import json
import re
import subprocess
import sys
import threading
import time

import pytest

from app import control
from app.errors import StateError
from app.kafka.connection import Connection
from app.partition.steering import KNOWN
from app.state.audit import audit
from app.state.transfer import versions
from app.stream_file.spec import Spec
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
    stored,
    stream_file,
    wait_for_state,
)
from tests.processes import until
from topics import commands
from topics.names import HEADER_REASON, HEADER_TOPIC

pytestmark = pytest.mark.broker

N = 3000
AT = [800, 1300, 2100]  # instances after which a worker is killed


def events(broker, spec, partition=0):
    return [commands.read_event(record.value) for record in read(broker, spec.topics.events, partition)]


def asked(name, n=1, **arguments):
    """n records of one command."""
    return [Sent(commands.write(control.command(name, "me", **arguments)), int(time.time() * 1000))] * n


def riparian(*arguments, code=0):
    """Run a command: what it prints, or with `code` 2 its sentence."""
    command = [sys.executable, "-m", "app.cli", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr if code == 2 else done.stdout


LAST = {"model": "last-label"}
STEPS = [
    lambda: [*asked("promote", 2, model="nb"), Sent(b"{", int(time.time() * 1000))],
    lambda: [*asked("add", model="second", definition={"model": "majority-class"}), *asked("promote", model="nb")],
    lambda: [*asked("demote"), *asked("apply", **FILE)],
]
FILE = {  # that has b in the place of c
    "champion": {},
    "challengers": {"last": LAST, "nb": {"model": "naive-bayes"}, "wide": {"model": "hoeffding-tree"}},
    "features": {"a": "numeric", "b": "numeric"},
    "file": "f",
}


def test_commands_through_kills_are_applied_once_and_answered_once(broker, tmp_path, topic_name):
    path, spec = stream_file(
        tmp_path,
        topic_name,
        control=True,
        features={"a": "numeric", "c": {"type": "nominal"}},
        predictions={"challengers": True},
        drift={"on_drift": "reset"},
    )
    FILE["settings"] = spec.running()
    create_topics(spec, broker)
    features, labels = instances(N, delay=40)
    at = 0
    for stop, step in zip(AT, STEPS, strict=True):
        with Worker(path, broker, tmp_path) as worker:
            send(broker, spec.topics.features, features[at:stop], pause=0.01, chunk=50)
            send(broker, spec.topics.labels, labels[at : stop - 40])
            until(lambda: len(predictions(broker, spec)) > at + 10 or worker.process.poll() is not None)  # noqa: B023
            send(broker, spec.topics.control, step())
            worker.kill()
        send(broker, spec.topics.labels, labels[stop - 40 : stop])
        at = stop
    with Worker(path, broker, tmp_path) as worker:
        send(broker, spec.topics.labels, labels[at:])
        while len(events(broker, spec)) < 5 and at < N:  # a command waits for an instance that comes after it was read
            send(broker, spec.topics.features, features[at : at + 20])
            at += 20
            until(lambda: len(predictions(broker, spec)) >= at or worker.process.poll() is not None)  # noqa: B023
        send(broker, spec.topics.features, features[at:])
        learner = wait_for_state(broker, spec, N, N, worker=worker)
        assert worker.stop() == 0, worker.output
    told = events(broker, spec)
    assert [(one.number, one.command, one.event) for one in told] == [
        (0, "promote", "applied"),
        (1, "add", "applied"),
        (2, "promote", "refused"),
        (3, "demote", "applied"),
        (4, "apply", "applied"),
    ]
    sent = predictions(broker, spec)
    for event in told:  # each names the first prediction that it holds for
        first = next(one for one in sent if one["offset"] == event.offset)
        before = max((one for one in sent if one["offset"] < event.offset), key=lambda one: one["offset"], default=None)
        assert (first["control_offset"], first["label_offset"]) > (event.control_offset, -1)
        last = max(one.number for one in told if one.offset == event.offset)  # a worker may have been slow to fetch
        assert first["model"] == told[last].models["champion"]
        assert before is None or before["control_offset"] <= event.control_offset
    assert len({one["offset"] for one in sent}) == len(sent) == N
    letters = [dict(record.headers) for record in read(broker, spec.topics.deadletters)]
    assert [(one[HEADER_TOPIC], one[HEADER_REASON]) for one in letters] == [
        (spec.topics.control.encode(), b"wrong-command")
    ]
    assert told[-1].sentence == "dropped: second; added: wide; features added: b; features dropped: c"
    # Who was there knows what it knew, and who is new knows all.
    known = {name: role.columns for name, role in learner.roles.items()}
    assert known == {"champion": [0, 1], "last": [0, 1], "nb": [0, 1], "wide": None}
    report = asyncio.run(audit(spec, Connection(broker), 0))
    assert report.holds, json.dumps(report.plain())


def test_every_partition_answers_whichever_worker_has_it(broker, tmp_path, topic_name):
    path, spec = stream_file(tmp_path, topic_name, control=True, partitions=2, learning="partition")
    assert isinstance(spec, Spec)
    create_topics(spec, broker)
    features, labels = instances(1000)
    connection = Connection(broker)
    with Worker(path, broker, tmp_path) as one, Worker(path, broker, tmp_path) as other:
        workers = (one, other)
        for partition in range(2):
            send(broker, spec.topics.features, features[:500], partition=partition)
            send(broker, spec.topics.labels, labels[:500], partition=partition)
        until(lambda: all(len(predictions(broker, spec, partition)) == 500 for partition in range(2)))

        async def ask(what, seconds=PATIENCE):
            return await control.ask(spec, connection, what, seconds)

        # Nothing comes: no answer in time.
        late = control.command("freeze", "me", model="champion")
        assert asyncio.run(ask(late, 1.0)) == {}
        for partition in range(2):
            send(broker, spec.topics.features, features[500:550], partition=partition)
        until(lambda: all([one.id for one in events(broker, spec, p)] == [late.id] for p in range(2)))

        async def both(at, what):
            asking = asyncio.create_task(ask(what))
            await asyncio.sleep(0)
            while not asking.done():
                await asyncio.sleep(0.3)
                for partition in range(2):
                    await asyncio.to_thread(
                        send, broker, spec.topics.features, features[at : at + 5], partition=partition
                    )
                at += 5
            return await asking

        answers = asyncio.run(both(550, control.command("promote", "me", model="nb")))
        assert {partition: one.event for partition, one in answers.items()} == {0: "applied", 1: "applied"}
        assert all(one.models["champion"] == "naive-bayes" for one in answers.values())
        # So it is with a feature that goes.
        file = {**FILE, "settings": spec.running()}
        answers = asyncio.run(both(600, control.command("apply", "me", **file)))
        assert {one.sentence.partition("; features ")[2] for one in answers.values()} == {"dropped: c"}
        assert all(worker.stop() == 0 for worker in workers)


def test_a_stream_gets_a_control_topic_at_a_restart(broker, tmp_path, topic_name):
    path, spec = stream_file(tmp_path, topic_name)
    create_topics(spec, broker)
    features, labels = instances(400)
    with Worker(path, broker, tmp_path) as worker:
        send(broker, spec.topics.features, features[:200])
        send(broker, spec.topics.labels, labels[:200])
        wait_for_state(broker, spec, 200, 200, worker=worker)
        assert worker.stop() == 0
    path, spec = stream_file(tmp_path, topic_name, control=True)
    with Worker(path, broker, tmp_path) as worker:
        worker.wait_for("Worker ready")
        send(broker, spec.topics.control, asked("promote", model="nb"))
        send(broker, spec.topics.features, features[200:], pause=0.05, chunk=20)
        send(broker, spec.topics.labels, labels[200:])
        wait_for_state(broker, spec, 400, 400, worker=worker)
        assert worker.stop() == 0, worker.output
    assert [one.event for one in events(broker, spec)] == ["applied"]
    # A restart by the same file goes on with the models that the command has left.
    with Worker(path, broker, tmp_path) as worker:
        worker.wait_for("the models are those that commands have left")
        assert worker.stop() == 0
    # The models of before cannot go back alone: their names belong to others now.
    _, kept = asyncio.run(versions(spec, Connection(broker), 0))
    before = next(one.manifest for one in kept if one.manifest.meta["models"] != kept[0].manifest.meta["models"])
    options = ("--partition", 0, "--to", before.sequence, "--broker", broker)
    assert "commands have changed which models" in riparian("rollback", path, *options, "--models-only", code=2)
    riparian("rollback", path, *options)


def test_old_commands_are_not_taken_again_where_control_was_off_for_a_while(broker, tmp_path, topic_name):
    features, labels = instances(120)
    path, spec = stream_file(tmp_path, topic_name, control=True)
    create_topics(spec, broker)
    n = KNOWN + 20
    for at, control_is_on in ((0, True), (40, False), (80, True)):
        path, spec = stream_file(tmp_path, topic_name, control=control_is_on)
        send(broker, f"{topic_name}.control", asked("checkpoint") + asked("add", model="x", definition=LAST))
        if not at:  # more than are remembered
            send(broker, f"{topic_name}.control", [one for _ in range(n - 2) for one in asked("reset", model="nb")])
        with Worker(path, broker, tmp_path) as worker:
            send(broker, spec.topics.features, features[at : at + 40])
            send(broker, spec.topics.labels, labels[at : at + 40])
            wait_for_state(broker, spec, at + 40, at + 40, worker=worker)
            assert worker.stop() == 0, worker.output
    told = events(broker, spec)
    assert [one.number for one in told] == list(range(n + 4))
    assert [one.control_offset for one in told] == list(range(n + 4))
    assert [one.command for one in told[n:]] == ["checkpoint", "add"] * 2
    assert [one.event for one in told[n:]] == ["applied", "refused"] * 2
    later = [one["control_offset"] for one in predictions(broker, spec) if one["offset"] >= 80]
    assert {*later} <= {n, n + 4}  # those of before, where features were fetched before the commands
    assert later[-1] == n + 4
    with pytest.raises(StateError, match="at offset 80 the stream file was changed") as refused:
        asyncio.run(audit(spec, Connection(broker), 0))
    start = int(re.search(r"with --from (\d+)", str(refused.value))[1])
    report = asyncio.run(audit(spec, Connection(broker), 0, start=start))
    assert report.holds, json.dumps(report.plain())
    assert (report.n_predictions, report.answers.n_compared) == (40, 4)


def test_the_command_line_steers_and_applies_a_changed_file(broker, tmp_path, topic_name):
    plain, _ = stream_file(tmp_path, f"{topic_name}-plain")
    assert "control: expected true" in riparian("promote", plain, "nb", "--broker", broker, code=2)
    pool = {"model": "opinion-pool", "members": {"last": "last-label", "most": "majority-class"}}
    fields = {"control": True, "challengers": {"nb": "naive-bayes", "pool": pool}}
    path, spec = stream_file(tmp_path, topic_name, **fields)
    said = riparian("promote", path, "nb", "--broker", broker, code=2)
    assert f"the topic {topic_name}.control is missing" in said
    create_topics(spec, broker)
    features, labels = instances(60_000)  # more than come while it runs
    done = threading.Event()

    def flow():
        at = 0
        while not done.is_set() and at < len(features):
            send(broker, spec.topics.features, features[at : at + 20])
            send(broker, spec.topics.labels, labels[at : at + 20])
            at += 20
            done.wait(0.1)

    flowing = threading.Thread(target=flow)
    with Worker(path, broker, tmp_path) as worker:
        flowing.start()
        try:
            until(lambda: len(predictions(broker, spec)) > 50 or worker.process.poll() is not None)
            options = ("--broker", broker, "--wait", PATIENCE, "--by", "me")
            assert riparian("promote", path, "nb", *options).startswith("partition 0: applied: nb (naive-bayes) is the")
            refused = json.loads(riparian("promote", path, "nb", *options, "--json", code=1))
            assert refused["silent"] == []
            assert refused["answers"][0]["sentence"].startswith("there is no model nb: name one of champion, hoeffding")
            assert refused["answers"][0]["by"] == "me"
            assert "unknown model" in riparian("add", path, "more", "nobody", *options, code=2)
            assert "applied" in riparian("add", path, "more", "hoeffding-tree:grace_period=20", *options)
            # A file that still has the old champion cannot be applied, nor one that changes what is fixed at the start.
            other, _ = stream_file(tmp_path, topic_name, **fields, predictions={"probabilities": False})
            until(lambda: stored(broker, spec) is not None and "more" in stored(broker, spec).roles)
            said = riparian("apply", other, *options, code=2)
            assert "predictions.probabilities was True, is False; this changes at a restart" in said
            more = {"a": "numeric", "b": "nominal", "c": {"type": "nominal"}, "d": "numeric"}
            other, _ = stream_file(tmp_path, topic_name, **fields, features=more)
            said = riparian("apply", other, *options, code=2)
            assert "the features have changed: d is new; b was numeric, is nominal" in said
            changed = {"features": {"a": "numeric", "c": {"type": "nominal"}, "d": "numeric"}}
            changed |= {"champion": "naive-bayes", "challengers": {"more": "majority-class", "last": "last-label"}}
            members = {"tree": "hoeffding-tree", "last": {"model": "last-label", "frozen": True}}
            changed["challengers"]["pool"] = {**pool, "members": members}
            changed |= {"drift": {"on_drift": "reset"}, "metrics": {"every": "1s", "window": 50}}
            path, spec = stream_file(tmp_path, topic_name, **{**fields, **changed})
            said = riparian("apply", path, *options)
            assert (
                "dropped: hoeffding-tree; begun anew: more; added: last; with other parameters: pool (go on: last; "
                "begin: tree; dropped: most; frozen from here on: last); changed: metrics.window, drift.on_drift; "
                "features added: d; features dropped: b"
            ) in said
        finally:
            done.set()
            flowing.join()
        assert worker.stop() == 0, worker.output
    # The new file is what runs, the one before is told.
    assert "goes on as it is" in riparian("check", path, "--broker", broker)
    older, _ = stream_file(tmp_path, topic_name, **fields)
    said = riparian("check", older, "--broker", broker)
    assert "steered: the models are those that commands have left" in said
    assert "also, an applied file has left metrics.window 50, drift.on_drift reset" in said
    assert "also, an applied file has left the features a, c, d, and the stream file says otherwise" in said
    assert "4 answers to commands: equal" in riparian("audit", older, "--broker", broker)
    # Which the applied file alone is not enough for: its models were not there at the beginning.
    path, _ = stream_file(tmp_path, topic_name, **{**fields, **changed})
    said = riparian("audit", path, "--broker", broker, code=2)
    n = int(re.search(r"with --from (\d+)", said)[1])
    assert "compared: all equal" in riparian("audit", path, "--from", n, "--broker", broker)
    shown = riparian("inspect", path, "--model", "more", "--broker", broker)
    assert "majority-class" in shown
