"""The rule of promotion through kills: checkpoints in segments, a tail that is followed, commands in between.

A run is driven as a worker drives it: steps of any size, checkpoints by the encoder, kills at any place. What it sent
is compared with a fold of the whole order that its predictions recorded.
"""

import json
from typing import Any

import numpy as np
import pytest

from app.partition.learner import PartitionLearner
from app.partition.merge import EVERYTHING, Merge, Script
from app.state import checkpoint
from app.stream_file.spec import Spec
from tests.app.test_promotion import records, stream
from topics.names import CONTROL, FEATURES, LABELS
from topics.records import RawBatch

N = 3000
RULE = {"mode": "automatic", "at_least": 250, "confidence": 0.6}
REGRESSION = {"task": "regression", "champion": "mean", "challengers": {"tree": "fimt-dd", "last": "mean"}}
Asked = list[tuple[int, dict[str, Any]]]  # a feature after which it comes, and a command
# Fields of the stream file, turns of the concept, commands; how many events of the rule there must be at least.
CASES: dict[str, tuple[dict[str, Any], tuple[int, ...], Asked, int]] = {
    "there and back": ({}, (1500,), [], 2),
    "proposed": ({"promotion": {**RULE, "mode": "propose"}}, (1500,), [], 1),
    "regression": (REGRESSION, (), [], 1),
    "regression, put back and begun anew": (
        REGRESSION,
        (),
        [
            (900, {"command": "demote"}),
            (1700, {"command": "promote", "model": "last"}),
            (1701, {"command": "checkpoint"}),
            (2300, {"command": "reset", "model": "champion"}),
        ],
        2,
    ),
    "begun anew": (
        {"drift": {"detectors": {"adwin": {"delta": 0.01}}, "on_drift": "reset"}},
        (1500,),
        [
            (600, {"command": "reset", "model": "tree"}),
            (1000, {"command": "reset", "model": "champion"}),
            (1800, {"command": "freeze", "model": "champion"}),
            (2000, {"command": "demote"}),
        ],
        1,
    ),
}


def part(raw: RawBatch, start: int, stop: int) -> RawBatch:
    return RawBatch(*(column[start:stop] for column in (raw.offsets, raw.timestamps, raw.keys, raw.values)))


class Topics:
    """What lies in Kafka: the inputs, the changelog, and what was sent."""

    def __init__(self, spec: Spec, data: dict[str, RawBatch], asked: Asked) -> None:
        self.spec, self.data = spec, data
        self.asked = [(at, json.dumps({"id": str(i), **one}).encode()) for i, (at, one) in enumerate(asked)]
        self.manifest: checkpoint.Manifest | None = None
        self.chunks: dict[bytes, bytes] = {}
        self.places: list[tuple[int, ...]] = []
        self.predictions: list[dict[str, Any]] = []
        self.events: list[Any] = []
        self.drifts: list[Any] = []

    def worker(self, limit: int, of: int | None = None) -> tuple[PartitionLearner, checkpoint.Encoder, Merge]:
        """As one that starts. of : how many of the commands it has seen; None: all, and nothing of the changelog."""
        learner, manifest, arrays = PartitionLearner(self.spec), self.manifest if of is not None else None, None
        if manifest is not None:
            cut = checkpoint.decode(manifest, self.chunks)
            learner.restore(cut)
            assert learner.origin is None
            arrays = cut.arrays
        encoder = checkpoint.Encoder("s", 0, last=manifest, arrays=arrays)
        tail = [place for place in self.places if place[0] >= learner.places[FEATURES]]
        merge = Merge(learner.buffers(), Script.of(list(learner.rules), tail) if tail else None, limit=limit)
        for role in (FEATURES, LABELS):
            merge.buffers[role].add(part(self.data[role], merge.buffers[role].next_offset, N))
        for i in range(merge.buffers[CONTROL].next_offset, len(self.asked) if of is None else of):
            self.give(merge, i)
        return learner, encoder, merge

    def give(self, merge: Merge, i: int) -> None:
        merge.buffers[CONTROL].add(RawBatch([i], [1], [None], [self.asked[i][1]]))

    def take(self, learner: PartitionLearner, outcome: Any) -> None:
        """Send what was not sent; what was is the same once more."""
        for value in learner.encode(outcome):
            made = json.loads(value)
            place = (made["offset"], made["label_offset"], made["control_offset"])
            if self.places and place[0] <= self.places[-1][0]:
                assert made == self.predictions[self.places.index(place)]
            else:
                self.places.append(place)
                self.predictions.append(made)
        for topic, made_of in ((self.events, outcome.events), (self.drifts, outcome.drifts)):
            for event in made_of:
                if event.number < len(topic):
                    assert event == topic[event.number]
                else:
                    assert event.number == len(topic)
                    topic.append(event)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("case", CASES)
def test_what_the_rule_decides_is_the_same_through_kills(case: str, seed: int) -> None:
    changes, turns, asked, least = CASES[case]
    rng = np.random.default_rng([seed, 5])
    classes = {} if "task" in changes else {"classes": ["down", "up"]}  # learned ones are listed once they are known
    spec = stream(**{"promotion": RULE, **classes, **changes})
    features, labels = records(N, seed, turns, values="task" in changes)
    topics = Topics(spec, {FEATURES: features, LABELS: labels}, asked)
    n_given = n_kills = n_cuts = 0
    learner, encoder, merge = topics.worker(int(rng.integers(1, 90)), n_given)
    while merge.n_waiting:
        while n_given < len(asked) and asked[n_given][0] <= learner.places[FEATURES]:
            topics.give(merge, n_given)
            n_given += 1
        topics.take(learner, learner.step(merge.release(EVERYTHING)))
        draw = rng.random()
        if draw < 0.15:
            encoder.take(learner.checkpoint())
            made = encoder.encode(sequence=n_cuts + 1, created_ms=0, outputs={}, written=topics.chunks)
            topics.manifest, n_cuts = made.manifest, n_cuts + 1
            topics.chunks |= made.new
        elif draw < 0.22:
            n_kills += 1
            learner, encoder, merge = topics.worker(int(rng.integers(1, 90)), n_given)
    assert min(n_kills, n_cuts) >= 2
    assert n_given == len(asked)
    told = len(topics.events), len(topics.predictions), len(topics.drifts)
    whole, _, merge = topics.worker(100_000)
    while merge.n_waiting:
        topics.take(whole, whole.step(merge.release(EVERYTHING)))
    assert told == (len(topics.events), len(topics.predictions), len(topics.drifts))
    assert whole.digest() == learner.digest()
    assert whole.figures().compared == learner.figures().compared
    by_rule = [event for event in topics.events if event.by == "promotion"]
    assert len(by_rule) >= least
    assert len(topics.events) - len(by_rule) == len(asked)
