"""Few joins are noticed, whatever the reason; a warning needs ids that are in two partitions."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from riparian.app.kafka.connection import Connection
from riparian.app.kafka.topics.keys import Ids, IdSample, Keys
from riparian.app.partition.join.label_delays import LabelDelays
from riparian.app.partition.join.meeting import LEAST, absent, few, none, written_otherwise
from riparian.app.stream_file.spec import build
from riparian.app.worker.task import join_watchdog
from riparian.app.worker.task.join_watchdog import JoinWatchdog

KEYS = Keys("f", 1000, 0, 1000)
BROKEN = Ids(900, 680, KEYS, KEYS._replace(topic="l", murmur2=250))
WHOLE = Ids(900, 0, KEYS, KEYS._replace(topic="l"))
NONE_COMMON = Ids(0, 0, KEYS._replace(n=2), KEYS._replace(topic="l"))
OTHERS = Ids(
    0, 0, KEYS, KEYS._replace(topic="l"), examples=("1000", '"1000"'), differ="for quotes or other JSON around them"
)
FAR = Ids(900, 0, KEYS, KEYS._replace(topic="l"), "", 900, 604_800.0, (1_795_717_000, 1_795_717_763_726))


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        ((4000, 4000, 1008), True),  # two partitioners, four partitions
        ((4000, 4000, 2000), True),  # two
        ((100_000, 1000, 1000), False),  # labels of 1 % of the instances
        ((100_000, 0, 0), None),  # no labels yet: they take weeks
        ((100, 50_000, 40), None),  # labels of older instances, or of other streams
        ((5000, 50_000, 4900), False),  # labels of other streams in the same topic
        ((5000, 5200, 5200), False),  # labels of instances before
        ((5000, 4000, 3900), False),
        ((LEAST, LEAST - 1, 0), None),
    ],
)
def test_few_are_few_of_the_rarer_kind(counts: tuple[int, int, int], found: bool | None) -> None:
    assert few(counts) is found
    assert none(counts) is (None if found is None else False)


@pytest.mark.parametrize(("joined", "found"), [(0, True), (9, True), (10, False), (1000, False)])
def test_the_first_labels_that_join_by_chance_do_not_hide_that_none_does(joined: int, found: bool) -> None:
    assert none((1000, 1500, joined)) is found


@pytest.mark.parametrize(
    ("features", "labels", "differ"),
    [
        (["1000", "1001"], ['"1000"', '"1001"'], ("for quotes or other JSON around them", "1000", '"1000"')),
        (["1000"], ['{"schema": {}, "payload": 1000}'], ("for quotes or other JSON around them", "1000", None)),
        (['{"order_id":7}'], ["7"], ("for quotes or other JSON around them", None, "7")),
        (["a1-B"], ["A1-b"], ("for upper and lower case", "a1-B", "A1-b")),
        (["7 "], ["7"], ("for spaces around them", "7 ", "7")),
        (["1000.0"], ["1000"], ("for how the number is written", "1000.0", "1000")),
        (["007"], ["7"], ("for how the number is written", "007", "7")),
        (["1e3"], ["1000"], ("for how the number is written", "1e3", "1000")),
        (["0f8a-11"], ["0f8a11"], ("for hyphens", "0f8a-11", "0f8a11")),
        (['"AB-1"'], ["ab1"], ("for several ways of writing", '"AB-1"', "ab1")),
        (["order-10", "order-11"], ["10", "11"], ("for what they begin with", "order-10", "10")),
        (["order-10", "order-11"], ["x10", "x12"], ("for what they begin with", "order-10", "x10")),
        (["1" * 5000, "nan", "inf", "[" * 5000, "1e999"], ["{", "["], None),
        (["a", "b"], ["c", "d"], None),
    ],
)
def test_two_ways_to_write_an_id(features: list[str], labels: list[str], differ: Any) -> None:
    found = written_otherwise(features, labels)
    if differ is None:
        assert found is None
    else:
        what, ours, theirs = differ
        assert found == (what, ours or features[0], theirs or labels[0])


def test_a_feature_that_no_record_has_names_the_field_that_was_meant() -> None:
    assert absent("amount", 400, ["id", "Amount"], "it is learned as missing") == (
        "amount is in none of the 400 records looked at (did you mean Amount?): it is learned as missing"
    )
    assert "(did you mean amount_eur?)" in absent("x.amount_eu", 400, ["amount_eur", "b"], "")
    assert "did you mean" not in absent("x.amount", 400, ["b"], "")


class Learner:
    def __init__(self, partition: int) -> None:
        self.partition, self.n_instances, self.n_labels = partition, 0, 0
        self.n_met = 0
        self.n_without = self.n_without_before = 0
        self.pending = SimpleNamespace(counts={"expired": 0, "evicted": 0})
        self.absent: list[str] = []
        self.delays, classes = LabelDelays(), SimpleNamespace(texts=["ok", "fraud"])
        self.decoder = SimpleNamespace(classes=classes, never_seen=lambda: self.absent)
        self.spec = SimpleNamespace(
            join=SimpleNamespace(unlabelled=None, horizon=7 * 86_400.0), label=SimpleNamespace(of=None)
        )

    def see(self, instances: int, labels: int, joined: int) -> None:
        self.n_instances += instances
        self.n_labels += labels
        self.n_met += joined


class World:
    """A worker with two of four partitions. samples : what is found next, of the last records and of all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, partitions: int = 4) -> None:
        spec = build(
            {"name": "s", "task": "classification", "features": {"a": "numeric"}, "partitions": partitions}, "s"
        )
        self.silence = JoinWatchdog(spec, Connection("h:1"))
        self.learners: list[Any] = [Learner(0), Learner(3)]
        self.samples: list[Ids | None] = []
        self.asked: list[bool] = []

        async def sample(spec: Any, connection: Any, first: bool = True) -> Ids | None:
            self.asked.append(first)
            return IdSample(self.samples.pop(0), [])

        monkeypatch.setattr(join_watchdog, "sample", sample)
        monkeypatch.setattr(join_watchdog, "AGAIN_SECONDS", 0.0)
        for learner in self.learners:
            self.silence.begin(learner)

    def look(self, *counts: int) -> None:
        for learner in self.learners:
            learner.see(*(n // 2 for n in counts))
        asyncio.run(self.silence.look(self.learners))


def test_it_warns_once_and_is_silent_when_it_was_mended(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    world = World(monkeypatch)
    world.look(400, 400, 100)
    assert world.asked == []
    world.samples = [BROKEN, BROKEN]
    world.look(600, 600, 150)
    world.look(1000, 1000, 250)
    assert world.asked == [False, False]
    assert [r.levelname for r in caplog.records] == ["WARNING"]
    said = caplog.records[0].getMessage()
    assert said.startswith("few labels meet their instances: of the last 1000 instances and 1000 labels, 250 were join")
    assert "partitioner=murmur2_random" in said
    assert world.silence.apart == pytest.approx(680 / 900)
    world.look(1000, 1000, 1000)
    assert world.silence.apart == 0.0
    world.samples = [BROKEN]
    world.look(1000, 1000, 250)
    assert [r.levelname for r in caplog.records] == ["WARNING"] * 2


def test_a_label_that_comes_to_every_partition_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    rekey = {"features": "raw", "labels": "late", "by": "card"}
    features = {"a": "numeric", "n": {"count": "card"}}
    fields = {"partitions": 200, "learning": "partition", "rekey": rekey, "keys": {"card": {"max": 9}}}
    spec = build({"name": "s", "task": "classification", "features": features, **fields})
    world.silence = JoinWatchdog(spec, Connection("h:1"))
    for learner in world.learners:
        world.silence.begin(learner)
    world.look(2000, 200_000, 1000)  # of two of 200 partitions: as many labels as instances are theirs
    world.look(2000, 200_000, 1000)
    assert world.asked == []


@pytest.mark.parametrize("found", [[WHOLE], [NONE_COMMON, WHOLE], [NONE_COMMON, NONE_COMMON], [None, None]])
def test_few_joins_without_ids_apart_warn_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, found: list[Ids | None]
) -> None:
    caplog.set_level(logging.INFO)
    world = World(monkeypatch)
    world.samples = list(found)
    world.look(50_000, 50_000, 500)
    assert world.asked == [False, True][: len(found)]
    assert "WARNING" not in [r.levelname for r in caplog.records]
    assert world.silence.apart == 0.0


def test_ids_are_sampled_now_and_then_only_and_not_of_one_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    monkeypatch.setattr(join_watchdog, "AGAIN_SECONDS", 600.0)
    world.samples = [WHOLE]
    for _ in range(5):
        world.look(2000, 2000, 100)
    assert world.asked == [False]
    world = World(monkeypatch, partitions=1)
    world.look(2000, 2000, 100)
    assert world.asked == []


def test_what_a_loaded_state_has_counted_before_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.look(500, 500, 0)
    loaded = Learner(0)
    loaded.see(100_000, 100_000, 0)
    world.silence.begin(loaded)  # type: ignore[arg-type]
    world.learners[0] = loaded
    world.look(400, 400, 400)
    assert world.asked == []
    world.samples = [WHOLE]
    world.look(100, 100, 0)
    assert world.asked == [False]


@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize(
    ("ids", "expired", "reason"),
    [
        (OTHERS, 0, OTHERS.sentence()),
        (FAR, 2000, FAR.sentence()),
        (WHOLE, 0, "labels come later than join.horizon (7d), belong to instances before, or have other ids"),
        (WHOLE, 2000, "and 2,000 instances waited for 7d in vain: labels come later than join.horizon (7d), belong to "
                      "instances before, or have other ids"),
    ],
)  # fmt: skip
def test_that_next_to_no_label_meets_its_instance_is_told_once_with_what_is_known(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    partitions: int,
    ids: Ids,
    expired: int,
    reason: str,
) -> None:
    world = World(monkeypatch, partitions)
    world.samples = [ids] * 9
    for learner in world.learners:
        learner.pending.counts["expired"] = expired // 2
    world.look(2000, 2000, 4)
    world.look(2000, 2000, 0)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    said = record.getMessage()
    assert said.startswith(
        "labels do not meet their instances: of the last 2,000 instances and 2,000 labels, 4 were joined"
    )
    assert said.endswith(reason)
    assert world.silence.unmet == said
    world.look(2000, 2000, 1900)
    assert world.silence.unmet is None
    world.look(2000, 2000, 0)
    assert len(caplog.records) == 2


def test_that_labels_of_one_class_come_first_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(monkeypatch)
    for learner in world.learners:
        for i in range(20):
            learner.delays.add(np.arange(100.0) % 2, np.array([86_400.0, 60.0] * 50), 86_400_000 * i // 20)
    world.look(10, 10, 10)
    world.look(10, 10, 10)
    (record,) = caplog.records
    assert world.silence.early == record.getMessage()
    assert record.getMessage().startswith("labels of fraud come 1d before those of ok")
    world.learners[0].spec.join.unlabelled = world.learners[1].spec.join.unlabelled = {"after": "1d"}
    world.look(10, 10, 10)
    assert world.silence.early is None


def test_a_sample_has_an_example_of_each_side_and_both_times() -> None:
    assert OTHERS.strange
    assert OTHERS.sentence() == (
        "no id was found both in f and l, among the first and last records: features have ids such as 1000, labels "
        'such as "1000", which are equal but for quotes or other JSON around them: write both in one way'
    )
    assert FAR.strange
    assert FAR.sentence() == (
        "of 900 ids that were found both in f and l, 900 have a label whose time is further from their features' than "
        "join.horizon, 7d, so it is not joined: f stands at 1970-01-21 18:48, l at 2026-11-26 18:29; f may be stamped "
        "in seconds instead of ms"
    )
    clocks = FAR._replace(times=(1_795_026_563_726, 1_795_717_763_726))
    assert clocks.sentence().endswith(
        "f stands at 2026-11-18 18:29, l at 2026-11-26 18:29; raise join.horizon if labels come that late, and else "
        "compare the clocks of both"
    )
    assert not FAR._replace(late=400).strange
    assert not WHOLE.strange
    assert not NONE_COMMON.strange  # too few to say


def test_a_feature_that_no_instance_had_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(monkeypatch)
    world.learners[0].absent, world.learners[1].absent = ["amount", "b"], ["amount"]
    world.look(LEAST - 2, 0, 0)
    assert not caplog.records
    world.look(2, 0, 0)
    world.look(2, 0, 0)
    (record,) = caplog.records
    assert record.getMessage().startswith("amount was missing in each of 1000 instances")
