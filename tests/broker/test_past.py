"""Features over a key's past on real Kafka: through kills, the same as in an evaluation and in an audit."""

import asyncio
import json
import random
import threading
from contextlib import suppress

import numpy as np
import pytest

from riparian.app.dataset.files.data import DataFile
from riparian.app.errors import StateError
from riparian.app.evaluation.evaluate import evaluate, spec_for
from riparian.app.page.predictions import explained
from riparian.app.partition.keys.past import hashes_of, secret
from riparian.app.state.checkpoint import decode
from riparian.topics.names import source_of
from tests.broker.clients import Sent, make_topics, send
from tests.broker.harness import Stream, state_log
from tests.processes import until

pytestmark = pytest.mark.broker

FIELDS = {
    "classes": ["ok", "fraud"],
    "keys": {"card": {"max": 60, "idle": "3s"}, "terminal": {"from": "terminal", "max": 1000}},
    "features": {
        "amount": "numeric",
        "card_count": {"count": "card", "half_life": "2s"},
        "card_mean": {"mean": "amount", "by": "card", "half_life": "1h"},
        "times": {"ratio": "amount", "to": "card_mean"},
        "since": {"since": "card"},
        "risk": {"share": "fraud", "by": "terminal", "half_life": "4s"},
    },
    "champion": {"model": "hoeffding-tree", "grace_period": 50},
    "challengers": {},
}
START = 1_700_000_000_000
DELAY = 700  # ms


def payments(n):
    """Rows: amount, card, terminal, time in ms, class."""
    draws, now, rows = random.Random(3), START, []
    for _ in range(n):
        now += draws.choice([0, 1, 5, 40])
        terminal = f"t{draws.randrange(40)}"
        card = f"c{int(draws.paretovariate(0.6)) % 200}"
        fraud = (terminal in ("t1", "t2", "t3")) != (draws.random() < 0.05)
        rows.append((round(draws.lognormvariate(3, 1), 2), card, terminal, now, "fraud" if fraud else "ok"))
    return rows


def test_killed_workers_an_evaluation_and_an_audit_make_the_same_features(stream, tmp_path):
    n = 4000
    rows = payments(n)
    s = stream(**FIELDS, predictions={"features": True})
    features = [
        Sent(json.dumps({"id": str(i), "x": {"amount": a, "card": c}, "terminal": t}).encode(), at, b"k")
        for i, (a, c, t, at, _) in enumerate(rows)
    ]
    labels = [Sent(json.dumps({"id": str(i), "y": y}).encode(), at + DELAY, b"k") for i, (*_, at, y) in enumerate(rows)]
    s.give((features, labels))
    for n_sent in (600, 2000):
        with s.worker() as worker:
            s.predicted(n_sent, worker)
            worker.kill()
    with s.worker() as worker:
        learner = s.reach(n, worker=worker)
        worker.kill()
    s.check(learner)
    s.holds()
    assert len(learner.past._known["card"]) <= 60

    file = tmp_path / "payments.csv"
    lines = [f"{a},{c},{t},{at / 1000:.3f},{y}" for a, c, t, at, y in rows]
    file.write_text("\n".join(["amount,card,terminal,at,y", *lines, ""]))
    data = DataFile(file)
    name, parameters = s.spec.models()["champion"]
    options = {"clock": "at", "label_delay": DELAY / 1000}
    spec, goal, rows_of_file = spec_for(data, name, parameters, stream=s.spec, **options)
    made, values = [], []

    def keep(outcome):
        made.extend(outcome.p["champion"].tolist())
        values.extend(outcome.made.tolist())

    evaluate(data, spec, goal, rows_of_file, on_outcome=keep, **options)
    sent = s.predictions()
    names = [name for name, one in spec.features.items() if one.past is not None]
    assert [p["features"] for p in sent] == [
        {name: value for name, value in zip(names, row, strict=True) if value == value} for row in values
    ]
    found = asyncio.run(explained(s.spec, s.connection, str(n - 1)))
    assert {name: found["why"]["features"][name] for name in sent[-1]["features"]} == sent[-1]["features"]
    assert [[(p["p"] or {}).get(one, 0.0) for one in ("ok", "fraud")] for p in sent] == made
    assert learner.roles["champion"].model.size()["n_leaves"] > 2
    # Of terminals with fraud the share tells it, so the model does.
    hits = sum(
        (p["p"]["fraud"] > 0.5) == (y == "fraud") for p, (*_, y) in zip(sent[n // 2 :], rows[n // 2 :], strict=True)
    )
    assert hits > 0.9 * n / 2


def test_topics_are_copied_by_a_key_and_two_workers_make_what_one_would(stream, broker, topic_name):
    n, raw, late = 1500, f"{topic_name}.raw", f"{topic_name}.late"
    rows = payments(n)
    make_topics(broker, {raw: 3, late: 2})
    features = {
        "amount": "numeric",
        "card_count": {"count": "card", "half_life": "2s"},
        "since": {"since": "card"},
        "risk": {"share": "fraud", "by": "card", "half_life": "4s"},
    }
    s = stream(
        **{**FIELDS, "features": features, "keys": {"card": {"from": "card.id", "max": 1000}}},
        partitions=3,
        learning="partition",
        rekey={"features": raw, "labels": late, "by": "card"},
    )
    for i, (a, c, _, at, y) in enumerate(rows):
        rows[i] = (
            Sent(json.dumps({"id": str(i), "x": {"amount": a}, "card": {"id": c}}).encode(), at, b"f%d" % i),
            Sent(json.dumps({"id": str(i), "y": y}).encode(), at + DELAY, b"l%d" % i),
        )

    def give(start, stop):
        for p in range(3):
            send(broker, raw, [row[0] for i, row in enumerate(rows[start:stop]) if i % 3 == p], partition=p)
        for p in range(2):
            send(broker, late, [row[1] for i, row in enumerate(rows[start:stop]) if i % 2 == p], partition=p)

    give(0, n // 2)
    with s.worker(name="first") as first, s.worker(name="second") as second:
        until(lambda: sum(len(s.predictions(p)) for p in range(3)) >= n // 4)
        first.kill()
        give(n // 2, n)
        until(lambda: sum(len(s.predictions(p)) for p in range(3)) == n)
        until(lambda: [len(s.read("labels", p)) for p in range(3)] == [n] * 3)
        ends = [len(s.read("features", p)) for p in range(3)]
        learners = [s.reach(ends[p], n, second, partition=p) for p in range(3)]
        second.kill()
    assert sum(learner.pending.counts["joined"] for learner in learners) == n
    cards = []
    for p, learner in enumerate(learners):
        s.check(learner)
        cards.append({json.loads(r.value)["card"]["id"] for r in s.read("features", p)})
        labels = [source_of(r.headers) for r in s.read("labels", p)]
        assert len(set(labels)) == n
    assert min(map(len, cards)) > 20
    assert sum(map(len, cards)) == len(set.union(*cards))


def test_a_key_is_forgotten_while_a_worker_runs(stream):
    s = stream(**FIELDS, control=True)

    def records(start, stop):
        return [
            Sent(json.dumps({"id": str(i), "x": {"amount": 1.0, "card": f"visa{i % 2}"}}).encode(), START + i, b"k")
            for i in range(start, stop)
        ]

    s.give((records(0, 20), []))
    with s.worker() as worker:
        s.predicted(20, worker)
        assert "No answer from partition 0" in s.riparian("forget", "--key", "card=visa1", "--wait", "0", code=1)
        s.give((records(20, 21), []))
        learner = s.reach(21, 0, worker)
        worker.kill()
    assert len(learner.past._known["card"]) == 1
    (event,) = s.read("events")
    assert "is forgotten" in json.loads(event.value)["sentence"]
    assert b"visa" not in s.read("control")[0].value
    s.check(learner)
    s.holds()
    with pytest.raises(AssertionError, match=r"expected one of keys .card, terminal., found .country.; name one"):
        s.riparian("forget", "--key", "country=x")


def test_partitions_that_share_a_model_know_the_labels_of_all(stream, tmp_path):
    n = 1600
    rows = [(a, c, t, at, y, int(c[1:]) % 2) for a, c, t, at, y in payments(n)]
    fields = {
        **FIELDS,
        "keys": {"card": {"from": "@key", "max": 60, "idle": "3s"}, "terminal": {"from": "terminal", "max": 30}},
        "features": FIELDS["features"] | {"of_card": {"share": "fraud", "by": "card"}},
        "partitions": 2,
        "predictions": {"features": True},
    }
    s = stream(**fields)
    assert s.spec.shares
    features = [
        Sent(json.dumps({"id": str(i), "x": {"amount": a}, "terminal": t}).encode(), at, c.encode())
        for i, (a, c, t, at, *_) in enumerate(rows)
    ]
    labels = [
        Sent(json.dumps({"id": str(i), "y": y}).encode(), at + DELAY, c.encode())
        for i, (_, c, _, at, y, _) in enumerate(rows)
    ]
    counts = [sum(row[-1] == p for row in rows) for p in range(2)]

    def give(start, stop):
        for topic, records in ((s.spec.topics.features, features), (s.spec.topics.labels, labels)):
            for p in range(2):
                chosen = [record for record, row in zip(records, rows, strict=True) if row[-1] == p]
                send(s.broker, topic, chosen[int(start * counts[p]) : int(stop * counts[p])], partition=p)

    def told(share, *workers):
        def there():
            assert all(worker.process.poll() is None for worker in workers)
            return all(len(s.predictions(p)) >= int(share * counts[p]) for p in range(2))

        until(there)

    def settled():
        with suppress(StateError):  # a chunk is on its way
            return all(s.stored(p).lineup.n == n for p in range(2))

    with s.worker(name="first") as first, s.worker(name="second") as second:
        give(0, 0.5)
        told(0.3, first, second)
        first.kill()
        give(0.5, 0.9)
        told(0.6, second)
        with s.worker(name="third") as third:
            told(0.9, second, third)
            second.kill()
            give(0.9, 1)
            told(1, third)
            until(settled)
            assert third.stop() == 0
    learners = [s.check(s.stored(p)) for p in range(2)]
    assert len({learner.lineup.digest() for learner in learners}) == 1
    assert len(learners[0].lineup.keys._known["terminal"]) == 30
    for p in range(2):
        assert s.holds(p).n_predictions == counts[p]
        assert len({one["learned_offset"] for one in s.predictions(p)}) > 2
    found = asyncio.run(explained(s.spec, s.connection, str(n - 1)))
    last = next(one for one in s.predictions(rows[-1][-1]) if one["id"] == str(n - 1))
    assert {name: found["why"]["features"][name] for name in last["features"]} == last["features"]
    assert sum("risk" in one["features"] for p in range(2) for one in s.predictions(p)) > n / 4

    file = tmp_path / "models.state"
    s.riparian("export", file)
    broker, folder, topic = stream.args
    new = Stream(broker, folder, f"{topic}-new", **fields)
    new.riparian("import", file, "--models-only")
    for p in range(2):
        chosen = [record for record, row in zip(features, rows, strict=True) if row[-1] == p]
        send(broker, new.spec.topics.features, chosen[-50:], partition=p)
    with new.worker() as worker:
        until(lambda: [len(new.predictions(p)) for p in range(2)] == [50, 50])
        assert worker.stop() == 0
    assert new.stored(0).lineup.keys.state().keys() == learners[0].lineup.keys.state().keys()
    assert sum("risk" in one["features"] for p in range(2) for one in new.predictions(p)) > 25
    assert all(new.holds(p, start=1).n_predictions == 50 for p in range(2))


@pytest.mark.parametrize(("learning", "many"), [("shared", 2), ("partition", 1)])
def test_aggregates_and_keys_come_and_go_while_workers_are_killed(stream, learning, many):
    """The first file is that of the fold, whatever was applied since. With models of each partition a worker starts by
    a new file only once a checkpoint has it."""
    rows = payments(60_000)
    began = {
        **FIELDS,
        "keys": {"card": {"from": "@key", "max": 60}},
        "features": {name: FIELDS["features"][name] for name in ("amount", "card_count")},
        "partitions": many,
        "learning": learning,
        "predictions": {"features": True},
        "checkpoint": {"every": "500ms"},
        "control": True,
    }
    second = {"keys": {**began["keys"], "terminal": {"from": "terminal", "max": 1000}}, "features": FIELDS["features"]}
    of_card = {"of_card": {"share": "fraud", "by": "card"}, "card_mean": FIELDS["features"]["card_mean"]}
    s = stream(**began)
    done = threading.Event()
    counts = [0] * many

    def flow():
        for start in range(0, len(rows), 20):
            for p in range(many):
                part = [(i, *rows[i]) for i in range(start, start + 20) if int(rows[i][1][1:]) % many == p]
                records = [
                    Sent(json.dumps({"id": str(i), "x": {"amount": a}, "terminal": t}).encode(), at, c.encode())
                    for i, a, c, t, at, _ in part
                ]
                labels = [
                    Sent(json.dumps({"id": str(i), "y": y}).encode(), at + DELAY, c.encode())
                    for i, _, c, _, at, y in part
                ]
                send(s.broker, s.spec.topics.features, records, partition=p)
                send(s.broker, s.spec.topics.labels, labels, partition=p)
                counts[p] += len(part)
            if done.wait(0.2):
                return

    def checkpointed(name):
        s.riparian("checkpoint", *options)

        def there():
            with suppress(StateError):  # a chunk is on its way
                return all(name in s.stored(p).spec.features for p in range(many))

        until(there)

    options = ("--wait", 60)
    flowing = threading.Thread(target=flow)
    with s.worker() as worker:
        flowing.start()
        try:
            s.predicted(100, worker)
            s.change(**began | second)
            told = s.riparian("apply", *options)
            assert "features added: card_mean, risk, since, times; keys added: terminal" in told
            until(lambda: any("risk" in one["features"] for p in range(many) for one in s.predictions(p)))
            if learning == "partition":
                checkpointed("risk")
            worker.kill()
            with s.worker() as worker:
                worker.wait_for("Worker ready")  # it has read the file by then
                s.change(**began | {"features": {**began["features"], **of_card}})
                told = s.riparian("apply", *options)
                assert "features dropped: risk, since, times; keys dropped: terminal" in told
                other = {**of_card, "card_mean": {"mean": "amount", "by": "card"}}
                checkpointed("of_card")  # in which the command sees what the feature is
                s.change(**began | {"features": {**began["features"], **other}})
                assert "give the feature another name" in s.riparian("apply", *options, code=2)
                until(lambda: any("of_card" in one["features"] for p in range(many) for one in s.predictions(p)))
                done.set()
                flowing.join()
                s.change(**began)
                for p in range(many):
                    s.reach(counts[p], worker=worker, partition=p)
                assert worker.stop() == 0
        finally:
            done.set()
            flowing.join()
    for p in range(many):
        assert s.holds(p).n_predictions == counts[p]
        s.check(s.stored(p))
        assert list(s.stored(p).spec.keys) == ["card"]
    names = {name for p in range(many) for one in s.predictions(p) for name in one.get("features", {})}
    assert names == {"card_count", "card_mean", "risk", "since", "times", "of_card"}


def test_two_workers_forget_a_key_of_their_shared_model_and_of_both_partitions(stream):
    rows = payments(500)
    fields = {
        **FIELDS,
        "keys": {"card": {"from": "@key", "max": 60}, "terminal": {"from": "terminal", "max": 100}},
        "partitions": 2,
        "predictions": {"features": True},
        "checkpoint": {"every": "1s"},
        "control": True,
    }
    s = stream(**fields)
    hashed = hashes_of(secret(s.spec.name), ["t1"]).tobytes()

    def of(p, start, stop, without=None):
        return [(i, *rows[i]) for i in range(start, stop) if int(rows[i][1][1:]) % 2 == p and rows[i][2] != without]

    def give(start, stop, without=None):
        for p in range(2):
            records = [
                Sent(json.dumps({"id": str(i), "x": {"amount": a}, "terminal": t}).encode(), at, c.encode())
                for i, a, c, t, at, _ in of(p, start, stop, without)
            ]
            send(s.broker, s.spec.topics.features, records, partition=p)
            sent[p] += len(records)
            s.predicted(sent[p], partition=p)

    def label(start, stop):
        for p in range(2):
            records = [
                Sent(json.dumps({"id": str(i), "y": y}).encode(), at + DELAY, c.encode())
                for i, _, c, _, at, y in of(p, start, stop)
            ]
            send(s.broker, s.spec.topics.labels, records, partition=p)

    def learned(n):
        with suppress(StateError, AssertionError):  # a chunk, or the first of all, is on its way
            return all(s.stored(p).lineup.n == n for p in range(2))

    def where():
        """Which parts of the last checkpoints have the hash."""
        logs = [state_log(s.broker, s.spec, p) for p in range(2)]
        arrays = {(p, n): a for p, log in enumerate(logs) for n, a in decode(log.manifest, log.chunks).arrays.items()}
        return {
            (p, n.split("/rows/")[0])
            for (p, n), array in arrays.items()
            if hashed[:8] in np.asarray(array).tobytes("A")
        }

    sent = [0, 0]
    with s.worker(name="first") as first, s.worker(name="second") as second:
        give(0, 300)
        label(0, 200)
        until(lambda: learned(200))
        assert {(p, "learned/keys/terminal") for p in range(2)} < where()  # and beside instances that wait
        assert "No answer" in s.riparian("forget", "--key", "terminal=t1", "--wait", "0", code=1)
        give(300, 400, without="t1")
        label(200, 300)
        until(lambda: learned(300))
        assert where() == set()
        second.kill()
        give(400, 500)
        learners = [s.reach(sent[p], 0, first, partition=p) for p in range(2)]
        assert first.stop() == 0
    assert len({learner.lineup.digest() for learner in learners}) == 1
    (event,) = [one for p in range(2) for one in s.read("events", p)]
    assert "is forgotten" in json.loads(event.value)["sentence"]
    for p in range(2):
        s.check(learners[p])
        assert s.holds(p).n_predictions == sent[p]
    risks = {int(one["id"]): "risk" in one["features"] for p in range(2) for one in s.predictions(p)}
    assert [{risks[i] for i in range(400, 500) if rows[i][2] == terminal} for terminal in ("t1", "t2")] == [
        {False},
        {True},
    ]
