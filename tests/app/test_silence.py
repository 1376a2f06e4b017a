"""Few joins are noticed, whatever the reason; a warning needs ids that are in two partitions."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from app.kafka.connection import Connection
from app.kafka.keys import Ids, Keys
from app.stream_file.spec import build
from app.worker import silence
from app.worker.silence import LEAST, Silence, few

KEYS = Keys("f", 1000, 0, 1000)
BROKEN = Ids(900, 680, KEYS, KEYS._replace(topic="l", murmur2=250))
WHOLE = Ids(900, 0, KEYS, KEYS._replace(topic="l"))
NONE_COMMON = Ids(0, 0, KEYS, KEYS._replace(topic="l"))


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


class Learner:
    def __init__(self, partition: int) -> None:
        self.partition, self.n_instances, self.n_labels = partition, 0, 0
        self.pending = SimpleNamespace(counts={"joined": 0, "expired": 0})

    def see(self, instances: int, labels: int, joined: int) -> None:
        self.n_instances += instances
        self.n_labels += labels
        self.pending.counts["joined"] += joined


class World:
    """A worker with two of four partitions. samples : what is found next, of the last records and of all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, partitions: int = 4) -> None:
        spec = build(
            {"name": "s", "task": "classification", "features": {"a": "numeric"}, "partitions": partitions}, "s"
        )
        self.silence = Silence(spec, Connection("h:1"))
        self.learners: list[Any] = [Learner(0), Learner(3)]
        self.samples: list[Ids | None] = []
        self.asked: list[bool] = []

        async def sample(spec: Any, connection: Any, first: bool = True) -> Ids | None:
            self.asked.append(first)
            return self.samples.pop(0)

        monkeypatch.setattr(silence, "sample", sample)
        monkeypatch.setattr(silence, "AGAIN_SECONDS", 0.0)
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
    monkeypatch.setattr(silence, "AGAIN_SECONDS", 600.0)
    world.samples = [WHOLE]
    for _ in range(5):
        world.look(2000, 2000, 0)
    assert world.asked == [False]
    world = World(monkeypatch, partitions=1)
    world.look(2000, 2000, 0)
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
def test_a_horizon_that_is_too_short_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, partitions: int
) -> None:
    world = World(monkeypatch, partitions)
    world.samples = [WHOLE] * 4
    world.look(2000, 2000, 0)  # labels of instances before, while these wait
    assert not caplog.records
    for learner in world.learners:
        learner.pending.counts["expired"] = LEAST
    world.look(2000, 2000, 0)
    world.look(2000, 2000, 0)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().endswith(
        "none was joined, and 2000 instances waited for 7d in vain (join.horizon); labels come later than that, "
        "or have other ids"
    )
    world.look(2000, 2000, 1900)
    world.look(2000, 2000, 0)
    assert len(caplog.records) == 2
