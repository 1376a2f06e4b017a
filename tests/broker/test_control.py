"""Commands on real Kafka: applied once, at one place, by whoever works on the partition, however often it is killed."""

import asyncio
import json
import re
import threading
import time
from contextlib import contextmanager
from itertools import count

import pytest

from riparian.app.errors import StateError
from riparian.app.kafka import command_client
from riparian.app.partition.lineup.model_commands import KNOWN
from riparian.app.state.transfer import versions
from riparian.topics import commands
from riparian.topics.names import HEADER_REASON, HEADER_TOPIC
from tests.broker.clients import Sent, send
from tests.broker.harness import PATIENCE, instances
from tests.processes import until

pytestmark = pytest.mark.broker

N = 1500
AT = [400, 650, 1050]  # instances after which a worker is killed


def events(s, partition=0):
    return [commands.read_event(record.value) for record in s.read("events", partition)]


def asked(name, n=1, **arguments):
    """n records of one command."""
    return [Sent(commands.write(command_client.command(name, "me", **arguments)), int(time.time() * 1000))] * n


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


def test_commands_through_kills_are_applied_once_and_answered_once(stream):
    s = stream(
        control=True,
        features={"a": "numeric", "c": {"type": "nominal"}},
        predictions={"challengers": True},
        drift={"on_drift": "reset"},
    )
    topics = s.spec.topics
    FILE["settings"] = s.spec.running()
    features, labels = instances(N, delay=40)
    at = 0
    for stop, step in zip(AT, STEPS, strict=True):
        with s.worker(place="w") as worker:
            send(s.broker, topics.features, features[at:stop], pause=0.01, chunk=50)
            send(s.broker, topics.labels, labels[at : stop - 40])
            s.predicted(at + 11, worker)
            send(s.broker, topics.control, step())
            worker.kill()
        send(s.broker, topics.labels, labels[stop - 40 : stop])
        at = stop
    with s.worker(place="w") as worker:
        send(s.broker, topics.labels, labels[at:])
        while len(events(s)) < 5 and at < N:  # a command waits for an instance that comes after it was read
            send(s.broker, topics.features, features[at : at + 10])
            at += 10
            s.predicted(at, worker)
        send(s.broker, topics.features, features[at:])
        learner = s.reach(N, worker=worker)
        assert worker.stop() == 0, worker.output
    told = events(s)
    assert [(one.number, one.command, one.event) for one in told] == [
        (0, "promote", "applied"),
        (1, "add", "applied"),
        (2, "promote", "refused"),
        (3, "demote", "applied"),
        (4, "apply", "applied"),
    ]
    sent = s.predictions()
    for event in told:  # each names the first prediction that it holds for
        first = next(one for one in sent if one["offset"] == event.offset)
        before = max((one for one in sent if one["offset"] < event.offset), key=lambda one: one["offset"], default=None)
        assert (first["control_offset"], first["label_offset"]) > (event.control_offset, -1)
        last = max(one.number for one in told if one.offset == event.offset)  # a worker may have been slow to fetch
        assert first["model"] == told[last].models["champion"]
        assert before is None or before["control_offset"] <= event.control_offset
    assert len({one["offset"] for one in sent}) == len(sent) == N
    assert [(one[HEADER_TOPIC], one[HEADER_REASON]) for one in s.letters()] == [(topics.control, "wrong-command")]
    assert told[-1].sentence == "dropped: second; added: wide; features added: b; features dropped: c"
    # Who was there knows what it knew, and who is new knows all.
    known = {name: role.columns for name, role in learner.roles.items()}
    assert known == {"champion": [0, 1], "last": [0, 1], "nb": [0, 1], "wide": None}
    s.holds()


def test_every_partition_answers_whichever_worker_has_it(stream):
    s = stream(control=True, partitions=2, learning="partition")
    features, labels = instances(6000)
    with s.worker(name="one") as one, s.worker(name="other") as other:
        for partition in range(2):
            s.give((features, labels), 0, 500, partition=partition)
        for partition in range(2):
            s.predicted(500, one, other, partition=partition)

        async def ask(what, seconds=PATIENCE):
            return await command_client.ask(s.spec, s.connection, what, seconds)

        # Nothing comes: no answer in time.
        late = command_client.command("freeze", "me", model="champion")
        assert asyncio.run(ask(late, 0.5)) == {}
        further = iter(range(1000, len(features)))

        def answered():
            """It answers before the next prediction, and a worker may have been slow to fetch it."""
            at = next(further)
            for partition in range(2):
                send(s.broker, s.spec.topics.features, features[at : at + 1], partition=partition)
            return all([one.id for one in events(s, p)] == [late.id] for p in range(2))

        until(answered)

        async def both(at, what):
            asking = asyncio.create_task(ask(what))
            await asyncio.sleep(0)
            while not asking.done():
                await asyncio.sleep(0.1)
                for partition in range(2):
                    await asyncio.to_thread(
                        send, s.broker, s.spec.topics.features, features[at : at + 5], partition=partition
                    )
                at += 5
            return await asking

        answers = asyncio.run(both(550, command_client.command("promote", "me", model="nb")))
        assert {partition: one.event for partition, one in answers.items()} == {0: "applied", 1: "applied"}
        assert all(one.models["champion"] == "naive-bayes" for one in answers.values())
        # So it is with a feature that goes.
        file = {**FILE, "settings": s.spec.running()}
        answers = asyncio.run(both(700, command_client.command("apply", "me", **file)))
        assert {one.sentence.partition("; features ")[2] for one in answers.values()} == {"dropped: c"}
        assert one.stop() == other.stop() == 0


@contextmanager
def flowing(s, begin, partitions=(0,)):
    """Until it is left, instances come in these partitions."""
    rows, stop = instances(6000), threading.Event()

    def flow():
        for at in count(begin, 5):
            for partition in partitions:
                s.give(rows, at, at + 5, partition=partition)
            if stop.wait(0.1):
                return

    thread = threading.Thread(target=flow)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("learning", ["shared", "partition"])
def test_a_checkpoint_that_is_asked_for_is_written_in_all_partitions(stream, learning):
    """Also where one of them answers for all, and the next one is due in an hour."""
    s = stream(control=True, partitions=2, learning=learning, checkpoint={"every": "1h"})
    rows = instances(6000)
    with s.worker() as worker:
        for partition in range(2):
            s.give(rows, 0, 100, partition=partition)
        for partition in range(2):
            s.predicted(100, worker, partition=partition)
        quiet = s.riparian("checkpoint", "--wait", 0.5, code=1)
        assert re.search(r"No checkpoint in 0\.5 s from partition 0 \((it has none|the last one is .* old)\), ", quiet)

        with flowing(s, 100, range(2)):
            said = json.loads(s.riparian("checkpoint", "--wait", PATIENCE, "--json"))
        shown = json.loads(s.riparian("state show", "--json"))
        assert worker.stop() == 0, worker.output
    assert [one["event"] for one in said["answers"]] == ["applied"] * len(s.spec.commanded)
    assert (said["missing"], [one["partition"] for one in said["checkpoints"]]) == ([], [0, 1])
    for asked, found in zip(said["checkpoints"], shown["partitions"], strict=True):
        assert found["sequence"] >= asked["sequence"]
        assert found["offset"] > 100
    for partition in range(2):
        s.holds(partition)


@pytest.mark.parametrize("learning", ["shared", "partition"])
def test_a_silent_partition_neither_hides_the_others_checkpoints_nor_has_apply_refused(stream, learning):
    """What apply has to know of the models of all, the first partition says."""
    fields = {"control": True, "partitions": 2, "learning": learning, "checkpoint": {"every": "24h"}}
    s = stream(**fields)

    def written():
        said = json.loads(s.riparian("checkpoint", "--wait", 3, "--json", code=1))
        assert {one["partition"] for one in said["missing"]} >= {1}
        assert all([*one] == ["partition", "sequence", "age_seconds"] for one in said["missing"])
        assert said["command"] == "checkpoint"
        assert learning == "shared" or 1 in said["silent"]
        return [one["partition"] for one in said["checkpoints"]] == [0]

    with s.worker() as worker:
        for partition in range(2):
            s.give(instances(100), 0, 100, partition=partition)
        for partition in range(2):
            s.predicted(100, worker, partition=partition)
        with flowing(s, 100):
            until(written)
            if learning == "shared":
                assert "applied" in s.riparian("promote", "nb", "--wait", PATIENCE)
                s.change(**fields, champion="naive-bayes", challengers={})
                # The next checkpoint comes in a day: apply says so, and how to have one.
                assert "partition 0 holds the last command" in s.riparian("apply", "--wait", 0.5, code=2)
                until(written)
                until(lambda: "The command was answered" in s.riparian("checkpoint", "--wait", 3, code=1))
                assert "partition 0: applied" in s.riparian("apply", "--wait", PATIENCE)
        assert worker.stop() == 0, worker.output


def test_a_stream_gets_a_control_topic_at_a_restart(stream):
    s = stream()
    features, labels = instances(400)
    s.give((features, labels), 0, 200)
    s.run(200)
    s.change(control=True)
    with s.worker() as worker:
        worker.wait_for("Worker ready")
        send(s.broker, s.spec.topics.control, asked("promote", model="nb"))
        send(s.broker, s.spec.topics.features, features[200:], pause=0.05, chunk=20)
        send(s.broker, s.spec.topics.labels, labels[200:])
        s.reach(400, worker=worker)
        assert worker.stop() == 0, worker.output
    assert [one.event for one in events(s)] == ["applied"]
    # A restart by the same file goes on with the models that the command has left.
    with s.worker() as worker:
        worker.wait_for("the models are those that commands have left")
        assert worker.stop() == 0
    # The models of before cannot go back alone: their names belong to others now.
    _, kept = asyncio.run(versions(s.spec, s.connection, 0))
    before = next(one.manifest for one in kept if one.manifest.meta["models"] != kept[0].manifest.meta["models"])
    options = ("--partition", 0, "--to", before.sequence)
    assert "commands have changed which models" in s.riparian("rollback", *options, "--models-only", code=2)
    s.riparian("rollback", *options)


def test_old_commands_are_not_taken_again_where_control_was_off_for_a_while(stream):
    rows = instances(120)
    s = stream(control=True)
    topic, n = s.spec.topics.control, KNOWN + 20
    for at, control_is_on in ((0, True), (40, False), (80, True)):
        s.change(control=control_is_on)
        send(s.broker, topic, asked("checkpoint") + asked("add", model="x", definition=LAST))
        if not at:  # more than are remembered
            send(s.broker, topic, [one for _ in range(n - 2) for one in asked("reset", model="nb")])
        s.give(rows, at, at + 40)
        s.run(at + 40)
    told = events(s)
    assert [one.number for one in told] == list(range(n + 4))
    assert [one.control_offset for one in told] == list(range(n + 4))
    assert [one.command for one in told[n:]] == ["checkpoint", "add"] * 2
    assert [one.event for one in told[n:]] == ["applied", "refused"] * 2
    later = [one["control_offset"] for one in s.predictions() if one["offset"] >= 80]
    assert {*later} <= {n, n + 4}  # those of before, where features were fetched before the commands
    assert later[-1] == n + 4
    with pytest.raises(StateError, match="at offset 80 the stream file was changed") as refused:
        s.audit()
    report = s.holds(start=int(re.search(r"with --from (\d+)", str(refused.value))[1]))
    assert (report.n_predictions, report.answers.n_compared) == (40, 4)


def test_the_command_line_steers_and_applies_a_changed_file(stream):
    plain = stream(topics_made=False)
    assert "control: expected true" in plain.riparian("promote", "nb", code=2)
    pool = {"model": "opinion-pool", "members": {"last": "last-label", "most": "majority-class"}}
    fields = {"control": True, "challengers": {"nb": "naive-bayes", "pool": pool}}
    s = stream(topics_made=False, **fields)
    assert f"the topic {s.spec.topics.control} is missing" in s.riparian("promote", "nb", code=2)
    s.create_topics()
    done = threading.Event()

    def flow():
        for at in count(0, 20):
            s.give(instances(20, at))
            if done.wait(0.1):
                return

    flowing = threading.Thread(target=flow)
    with s.worker() as worker:
        flowing.start()
        try:
            s.predicted(50, worker)
            options = ("--wait", PATIENCE, "--by", "me")
            assert s.riparian("promote", "nb", *options).startswith("partition 0: applied: nb (naive-bayes) is the")
            refused = json.loads(s.riparian("promote", "nb", *options, "--json", code=1))
            assert refused["silent"] == []
            assert refused["answers"][0]["sentence"].startswith("there is no model nb: name one of champion, hoeffding")
            assert refused["answers"][0]["by"] == "me"
            assert "unknown model" in s.riparian("add", "more", "nobody", *options, code=2)
            assert "applied" in s.riparian("add", "more", "hoeffding-tree:grace_period=20", *options)
            # A file that still has the old champion cannot be applied, nor one that changes what is fixed at the start.
            s.change(**fields, predictions={"probabilities": False})
            said = s.riparian("apply", *options, code=2)
            assert "predictions.probabilities was true, is false; this changes at a restart" in said
            more = {"a": "numeric", "b": "nominal", "c": {"type": "nominal"}, "d": "numeric"}
            s.change(**fields, features=more)
            said = s.riparian("apply", *options, code=2)
            assert "the features have changed: d is new; b was numeric, is nominal" in said
            changed = {"features": {"a": "numeric", "c": {"type": "nominal"}, "d": "numeric"}}
            changed |= {"champion": "naive-bayes", "challengers": {"more": "majority-class", "last": "last-label"}}
            members = {"tree": "hoeffding-tree", "last": {"model": "last-label", "frozen": True}}
            changed["challengers"]["pool"] = {**pool, "members": members}
            changed |= {"drift": {"on_drift": "reset"}, "metrics": {"every": "1s", "window": 50}}
            s.change(**{**fields, **changed})
            said = s.riparian("apply", *options)
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
    assert "goes on as it is" in s.riparian("check")
    s.change(**fields)
    said = s.riparian("check")
    assert "steered: the models are those that commands have left" in said
    assert "also, an applied file has left metrics.window 50, drift.on_drift reset" in said
    assert "also, an applied file has left the features a, c, d, and the stream file says otherwise" in said
    assert "4 answers to commands: equal" in s.riparian("audit")
    # Which the applied file alone is not enough for: its models were not there at the beginning.
    s.change(**{**fields, **changed})
    n = int(re.search(r"with --from (\d+)", s.riparian("audit", code=2))[1])
    assert "compared: all equal" in s.riparian("audit", "--from", n)
    assert "majority-class" in s.riparian("inspect", "--model", "more")
