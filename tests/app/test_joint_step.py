"""Steps of all partitions at once: the fold of the log that they write, to the bit, whatever was taken at once."""

import asyncio
import json
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from aiokafka.errors import KafkaError

from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.outcome import Outcome
from riparian.app.partition.records.partition_group import EVERYTHING
from riparian.app.partition.shared.replica import FollowedLearning, Replica
from riparian.app.partition.shared.sharing import records
from riparian.app.stream_file.spec import Spec
from riparian.app.worker.shared import joint_step
from riparian.app.worker.shared.joint_step import _Course, step_together
from riparian.app.worker.shared.replica import ReplicaOfWorker
from riparian.topics.names import CHAMPION, FEATURES, LABELS
from riparian.topics.records import RawBatch
from riparian.topics.training_log import LearnedRecord, read, write
from tests.app.shared_world import RULE, World, replayed, rows, said, stream
from tests.broker.harness import engine_of, stream_file

MATURED: dict[str, Any] = {
    "predictions": {"calibrated": "matured", "challengers": True},
    "join": {"unlabelled": {"after": "1s"}},
}
GOOD: dict[str, dict[str, Any]] = {
    "plain": {"predictions": {"coverage": 0.9, "calibrated": True, "challengers": True}},
    "promotion": {
        "control": True,
        "promotion": RULE,
        "predictions": {"coverage": 0.9},
        "champion": "majority-class",
        "challengers": {"nb": "naive-bayes"},
    },
    "replace": {
        "drift": {"detectors": {"hddm-a": {"drift_confidence": 0.2}}, "on_drift": "replace", "features": ["a"]}
    },
    "forest": {"champion": {"model": "adaptive-random-forest", "n_models": 3}, "challengers": {}},
    "matured": {"classes": list("pqrs"), **MATURED},
    "unlabelled": {"classes": list("pqrs"), "join": {"unlabelled": {"after": "1s", "is": "p"}}},
}


class Together(World):
    """A worker that has all partitions."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.replica = Replica(spec)
        for p in range(spec.partitions):
            learner = PartitionLearner(spec, p, FollowedLearning)
            learner.learning.wait_for(self.replica)
            assert learner.learning.join()
            self.replica.hold_back(learner.learning, None)
            self.replace(p, learner)

    def _release(self, p: int) -> Any:
        merge, taken = self._merges[p], self._taken[p]
        for role, found in self.raw[p].items():
            fresh, start = found[taken[role] :], taken[role]
            offsets = list(range(start, len(found)))
            merge.buffers[role].add(
                RawBatch(offsets, [t for t, _ in fresh], [None] * len(fresh), [v for _, v in fresh])
            )
            taken[role] = len(found)
        return merge.release(EVERYTHING)

    def _sent(self, p: int, outcome: Outcome) -> None:
        self.outcomes[p].append(outcome)
        self.sent[p] += self.learners[p].encode(outcome)

    def alone(self, p: int) -> None:
        """A partition takes a step, and appends what it joined, as where a worker has some of them."""
        learner = self.learners[p]
        outcome = learner.step(self._release(p))
        self._sent(p, outcome)
        places = {role: learner.places[role] for role in (FEATURES, LABELS)}
        made = [write(one) for joint in outcome.joint for one in records(joint, p, places, 7)]
        if made:
            offsets = list(range(len(self.log), len(self.log) + len(made)))
            self.replica.add(RawBatch(offsets, [0] * len(made), [None] * len(made), made))
            self.replica.advance()
            self.log += made

    def together(self) -> None:
        releases = [self._release(p) for p in range(len(self.learners))]
        began = perf_counter()
        with self.replica.lock:
            taken = step_together(self.learners, releases, self.replica, len(self.log), 0)
        # Nothing is counted in two partitions, or twice in one.
        rounded = 1e-6
        assert sum(taken.seconds) <= perf_counter() - began + rounded
        for one, seconds in zip(taken.outcomes, taken.seconds, strict=True):
            assert one.decode_seconds + one.kernel_seconds <= seconds + rounded
        self.log += taken.log
        for p, outcome in enumerate(taken.outcomes):
            self._sent(p, outcome)


def lived(spec: Spec, n: int = 900, seed: int = 0) -> Together:
    world, rng, given = Together(spec), np.random.default_rng(seed), rows(n, seed)
    at = 0
    while at < n:
        chunk = int(rng.choice([3, 40, 300]))
        world.come(given[at : at + chunk], late=int(rng.choice([5, 300])))
        at += chunk
        if rng.random() < 0.3:
            world.raw[0][FEATURES].append((1000 + 10 * world.n_given, b"{"))
            world.raw[1][LABELS].append((1000 + 10 * world.n_given, b"{"))
        if rng.random() < 0.7:
            world.together()
        else:
            for p in rng.permutation(spec.partitions):
                world.alone(int(p))
    world.together()
    world.together()
    return world


@pytest.mark.parametrize(("name", "seed"), [(name, i % 2) for i, name in enumerate(GOOD)])
def test_it_is_the_fold_of_the_log(name: str, seed: int) -> None:
    spec = stream(**GOOD[name])
    world = lived(spec, n=1500 if spec.promotion else 900, seed=seed)
    if spec.promotion:  # within a joint step, in which instances of other partitions have been predicted before
        assert world.learners[0].roles[CHAMPION].learner_name == "naive-bayes"
    assert any(one.rejected[FEATURES] for one in world.outcomes[0])
    for p, learner in enumerate(world.learners):
        with learner.learning.still():
            pass
        again, sent = replayed(world, p, [30, 7, 80, 200], {1, 2})
        assert list(map(said, map(json.loads, sent))) == list(map(said, map(json.loads, world.sent[p])))
        assert again.digest() == learner.digest()
        assert again.logs.state() == learner.logs.state()
        assert len({json.loads(value)["learned_offset"] for value in world.sent[p]}) >= 10
    told = [one for outcome in world.outcomes[0] for one in outcome.drifts]
    assert bool(told) or name == "forest"


def test_turns_are_longer_where_the_models_know_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn of a partition has 16 features, or an eighth of what was learned, and no more than 64."""
    world = Together(stream())
    for name, value in {"USUAL_TURN": 16, "MOST_TURN": 64, "LONG_SHARE": 8, "KNOWN_SHARE": 1}.items():
        monkeypatch.setattr(joint_step, name, value)
    world.come(rows(1500), late=1)
    world.together()
    taken = [json.loads(value)["learned_offset"] for value in world.sent[0]]
    lengths = np.unique(taken, return_counts=True)[1].tolist()
    assert 16 in lengths
    assert lengths[-3:-1] == [64, 64]
    assert lengths[2:-1] == sorted(lengths[2:-1])
    with world.learners[0].learning.still():
        pass
    again, sent = replayed(world, 0, [30, 7, 80, 200], {1, 2})
    assert list(map(said, map(json.loads, sent))) == list(map(said, map(json.loads, world.sent[0])))
    assert again.digest() == world.learners[0].digest()


@pytest.mark.parametrize("fields", [{"predictions": {"calibrated": True, "challengers": True}}, MATURED])
def test_the_log_has_the_predictions_that_were_sent(fields: dict[str, Any]) -> None:
    world = Together(stream(classes=list("pqrs"), **fields))
    given = rows(900)
    for start in range(0, len(given), 300):
        world.come(given[start : start + 300], late=400)
        world.together()
    for p, values in enumerate(world.sent):
        told = list(map(json.loads, values))
        sent = {"champion": told, "nb": [one["challengers"]["nb"] for one in told]}
        found = [one for one in map(read, world.log) if isinstance(one, LearnedRecord) and one.partition == p]
        for name, ours in sent.items():
            logged = [row for one in found for row in one.columns()[3][name].tolist()]
            assert len(logged) > 200
            for one, row in zip(ours, logged, strict=False):  # labels come in the order of their features
                assert sorted(p for p in (one["p"] or {}).values() if p > 0) == sorted(p for p in row if p > 0)


def test_the_log_has_the_order_of_predictions_up_to_each_of_its_records() -> None:
    world = Together(stream())
    world.come(rows(500), late=300)
    world.together()
    for p, sent in enumerate(world.sent):
        told = [one for one in map(read, world.log) if isinstance(one, LearnedRecord) and one.partition == p]
        names = ("offset", "label_offset", "learned_offset")
        places = [[json.loads(value)[name] for name in names] for value in sent]
        order = [place for one in told for place in one.predicted()]
        assert order == places[: len(order)]
        assert len(order) > 100
        n = 0
        for one in told:
            n += len(one.predicted())
            assert one.places[FEATURES] == n
            assert places[n - 1][1] <= one.places[LABELS]


def test_a_partition_to_which_nothing_has_come_takes_no_turn() -> None:
    world = Together(stream())
    world.come(rows(40))
    for role in (FEATURES, LABELS):
        world.raw[2][role] = []
    world.together()
    assert [len(sent) for sent in world.sent] == [14, 13, 0]
    world.together()
    assert world.replica.behind == 0


def test_a_worker_that_appends_meanwhile_ends_the_turns_quietly(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The feed goes on beside the step: what comes there is another worker's, which has taken a partition over."""
    world, turn, n = Together(stream()), _Course.turn, 0
    world.come(rows(200))

    def taken_over(course: _Course, usual: int) -> None:
        nonlocal n
        n += 1
        if n == 3:
            world.replica.add(RawBatch([world.replica.fetch_offset], [0], [None], [b"x"]))
        turn(course, usual)

    monkeypatch.setattr(_Course, "turn", taken_over)
    releases = [world._release(p) for p in range(3)]

    async def run() -> None:
        worker = engine_of(stream_file(tmp_path, "overtaken", learning="shared")[1], tmp_path).worker
        replica = ReplicaOfWorker(worker, world.replica, [], lambda: None)
        with pytest.raises(KafkaError, match="another worker has appended"):
            replica.step_together(world.learners, releases, 0, 0)

    asyncio.run(run())
