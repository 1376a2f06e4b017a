"""`riparian init --from-topic` on a real Kafka: what it writes fits the topics, and a worker's decoder reads them."""

import json
import math
import random
from typing import Any

import pytest

from riparian.app.stream_file.spec import load
from riparian.topics.records import RawBatch
from tests.broker.clients import Sent, send
from tests.broker.harness import Stream, here, instances
from tests.processes import until

pytestmark = pytest.mark.broker
NOW = 1_700_000_000_000  # ms


def test_topics_of_features_and_labels(stream: Any) -> None:
    s = stream(partitions=2)
    features, labels = instances(3000)
    for k in range(2):
        s.give((features[k::2], labels[k::2]), partition=k)
    send(s.broker, s.spec.topics.features, [features[0]._replace(value=b"not json")], partition=0)
    out = s.folder / "drafted.yaml"
    here("init", "--from-topic", s.spec.topics.features, "--broker", s.broker, "--out", out)
    drafted = load(out)
    assert (drafted.name, drafted.partitions) == (s.name, 2)
    assert drafted.topics == s.spec.topics
    types = [{name: f.type for name, f in one.features.items()} for one in (drafted, s.spec)]
    assert types[0] == types[1]
    assert "(1 more hold no JSON object)" in out.read_text()
    here("check", out, "--broker", s.broker)
    records = s.read("features")
    batch = RawBatch.of(records)
    decoded = drafted.make_codec().decode_features(batch, drafted.vocabularies(), drafted.class_vocabulary())
    assert len(decoded.ids) == len(records) - 1


def test_labels_inside_the_records_and_topics_that_are_not_there(stream: Any) -> None:
    made = [{"order": {"total": i / 4, "land": "defr"[i % 2 :][:2]}, "y": i % 2} for i in range(200)]
    records = [Sent(json.dumps(one).encode(), NOW + i, b"%d" % i) for i, one in enumerate(made)]
    s = stream()
    topic, to = s.spec.topics.features, ("--broker", s.broker)
    send(s.broker, topic, records)
    said = here("init", "--from-topic", topic, "--labels", s.spec.topics.labels, *to, code=2)
    assert f"topic {s.spec.topics.labels} holds no JSON object: it is empty" in said
    orders = Stream(s.broker, s.folder, f"{s.name}-2", topics={"features": f"{s.name}-orders", "labels": None})
    send(s.broker, orders.spec.topics.features, records)
    out = s.folder / "drafted.yaml"
    here("init", "--from-topic", orders.spec.topics.features, *to, "--out", out)
    drafted = load(out)
    assert (drafted.topics.labels, drafted.record.id, drafted.record.x) == (None, ("@key",), ("order",))
    here("check", out, *to)
    for _ in range(2):  # it is not made
        assert f"has no topic {s.name}" in here("init", "--from-topic", s.name, *to, code=2)


def readings(n: int) -> list[dict[str, Any]]:
    """Of three sensors, one each five minutes of a daily cycle, some values missing."""
    draws = random.Random(7)
    made = []
    for i in range(n):
        day = math.sin(2 * math.pi * (i // 3 % 288) / 288 + i % 3)
        one: dict[str, Any] = {"sensor": f"hall-{i % 3}", "at": NOW + i // 3 * 300_000}
        one |= {"temperature": round(20 + 6 * day + draws.gauss(0, 0.5), 2), "humidity": round(50 - 9 * day, 1)}
        made.append({name: value for name, value in one.items() if name in ("sensor", "at") or draws.random() > 0.03})
    return made


@pytest.mark.parametrize(("partitions", "keyed"), [(2, True), (2, False)])
def test_one_topic_of_sensors_has_forecasts_after_three_commands(stream: Any, partitions: int, keyed: bool) -> None:
    given = readings(900)
    s = stream(partitions=partitions, topics={"labels": None})
    topic, to = s.spec.topics.features, ("--broker", s.broker)
    for p in range(partitions):
        at = [i for i, one in enumerate(given) if (ord(one["sensor"][-1]) if keyed else i // 3) % partitions == p]
        sent = [
            Sent(json.dumps(given[i]).encode(), given[i]["at"], given[i]["sensor"].encode() if keyed else None)
            for i in at
        ]
        send(s.broker, topic, sent, partition=p)
    out = s.folder / "plant.yaml"
    said = here("init", "--from-topic", topic, *to, "--name", f"{s.name}-plant", "--out", out)
    assert "Its label is temperature as it is 1h later" in said
    assert f"riparian ui --open {out}" in said
    said = here("check", out, *to)
    assert "Traceback" not in said
    plant = Stream(s.broker, s.folder, f"{s.name}-plant", partitions=partitions)
    plant.path = out
    plant.load()
    assert (plant.spec.label.of, plant.spec.label.by, plant.spec.record.id) == ("temperature", "sensor", ("@offset",))
    assert (plant.spec.rekey is not None) == (partitions == 2 and not keyed)

    def told() -> list[dict[str, Any]]:
        return [one for p in range(partitions) for one in plant.predictions(p)]

    with plant.worker() as worker:

        def all_told() -> bool:
            assert worker.process.poll() is None, worker.output
            return len(told()) == len(given)

        until(all_told)
        assert worker.stop() == 0, worker.output
    found = told()
    assert len({one["id"] for one in found}) == len(given)
    known = [one for one in found if one["y"] is not None]
    assert len(known) > 600
    for p in range(partitions):
        plant.check(plant.stored(p))
        assert plant.holds(p).n_predictions == len(plant.predictions(p))
    assert known[-1]["id"] in here("explain", out, "--id", known[-1]["id"], *to)


def test_clicks_that_say_no_more_than_whose_they_are_have_predictions_through_a_kill(stream: Any) -> None:
    s, draws, n = stream(partitions=2), random.Random(1), 1500
    to = ("--broker", s.broker)
    shown, late = list[Sent](), list[Sent]()
    for i in range(n):
        at, slot = NOW + 2000 * i, draws.choice(["top", "foot"])
        one = {"impression": {"id": f"i-{i}"}, "slot": slot, "bid": draws.random()}
        shown.append(Sent(json.dumps(one).encode(), at, b"k"))
        if draws.random() < (0.3 if slot == "top" else 0.05):
            said = {"impression_id": f"i-{i}", "clicked_at": at}
            late.append(Sent(json.dumps(said).encode(), at + draws.randrange(50_000), b"k"))
    late = [*sorted(late, key=lambda one: one.time), Sent(b'{"clicked_at": 1}', NOW + 2000 * n, b"k")]
    s.give((shown, late))
    topics = s.spec.topics
    asked = ("init", "--from-topic", topics.features, "--labels", topics.labels, *to)
    assert "what it says by --is CLASS (its fields are impression_id, clicked_at)" in here(*asked, code=2)
    out = s.folder / "ads.yaml"
    said = here(*asked, "--is", "clicked", "--name", f"{s.name}-ads", "--out", out)
    assert "A record without a label counts as no after 5m, and nothing is learned of it before" in said
    out.write_text(out.read_text().replace("champion: auto", "champion: hoeffding-tree"))
    ads = Stream(s.broker, s.folder, f"{s.name}-ads", partitions=2)
    ads.path = out
    ads.load()
    assert f"each record of {topics.labels} is a label clicked" in here("check", out, *to)
    with ads.worker() as worker:
        ads.predicted(n // 2, worker)
        worker.kill()
    with ads.worker() as worker:
        learner = ads.reach(n, len(late), worker)
        worker.kill()
    ads.check(learner)
    ads.holds()
    assert [one["riparian-reason"] for one in ads.letters()] == ["missing-id"]
    counts = learner.pending.counts
    assert min(counts["joined"] - counts["assumed"], counts["assumed"]) > 100
    assert learner.decoder.classes.texts == ["no", "clicked"]
