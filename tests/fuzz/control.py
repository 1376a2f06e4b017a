"""Hostile commands: each is answered, or a dead letter, or left out; the state is whole, and the learner goes on.

A case is the records of a control topic, as JSON texts. Each is applied before an instance, between features and labels
that are well formed. Whatever was made of it is restored from the snapshot and must come to the same.
"""

import json
from collections.abc import Iterator
from typing import Any

from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup
from riparian.app.stream_file.spec import build
from riparian.topics import commands
from riparian.topics.names import CONTROL
from riparian.topics.records import REASONS, RawBatch
from tests.fuzz import mutate
from tests.fuzz.mutate import Random, pick
from tests.fuzz.target import Target

_SPEC = build(
    {
        "name": "fuzz",
        "task": "classification",
        "features": {"a": "numeric"},
        "champion": {"model": "hoeffding-tree", "grace_period": 5},
        "challengers": {"nb": "naive-bayes"},
        "control": True,
    },
    "fuzz",
)
_NAMES = ("champion", "nb", "hoeffding-tree", "more", "champion/0", "é", "", "x" * 101)
_LEARNERS = ("naive-bayes", "majority-class", "last-label", "hoeffding-tree", "external", "auto", "nobody")
_MOST_SENTENCE = 2000
_FEATURES, _KINDS = ("a", "a", "b", "c", "x.y", ""), ("numeric", "numeric", "nominal", {"type": "nominal"}, 3)
_N = 12  # instances of a case


def _record(rng: Random, number: int) -> bytes:
    name, learner = pick(rng, _NAMES), pick(rng, _LEARNERS)
    tree, parameters = _SPEC.models()["champion"]
    found: dict[str, Any] = {"id": f"{number // 2 if rng.random() < 0.2 else number}", "by": "me", "asked": number}
    found["command"] = what = pick(rng, (*commands.OF_A_MODEL, "demote", "apply", "checkpoint", "rm"))
    if what in commands.OF_A_MODEL:
        found["model"] = name
    if what == "add":
        found["definition"] = {"model": learner, "on_drift": pick(rng, ("reset", "replace", "alert", 3))}
    if what == "apply":
        found |= {"champion": {"model": tree, **parameters}, "challengers": {name: {"model": learner}}, "file": "f"}
        if rng.random() < 0.6:
            found["settings"] = _SPEC.running() | {"metrics": {"window": int(rng.integers(9))}}
            if rng.random() < 0.6:
                found["features"] = {pick(rng, _FEATURES): pick(rng, _KINDS) for _ in range(int(rng.integers(1, 4)))}
    for _ in range(int(rng.integers(3))):
        found = mutate.of_value(rng, found)
    written = json.dumps(found).encode()
    return mutate.of_bytes(rng, written) if rng.random() < 0.2 else written


class Commands(Target):
    """The control topic."""

    seconds, megabytes, budget = 2.0, 300, 30

    def prepare(self) -> None:
        self.run(json.dumps(['{"id": "1", "command": "promote", "model": "nb"}']).encode())

    def make(self, rng: Random) -> bytes:
        made = [_record(rng, i).decode("utf-8", "replace") for i in range(int(rng.integers(1, _N)))]
        return json.dumps(made).encode()

    def run(self, case: bytes) -> None:
        learner = PartitionLearner(_SPEC)
        merge, values = (
            PartitionGroup(learner.buffers()),
            [text.encode("utf-8", "replace") for text in json.loads(case)],
        )
        ids = set()
        for i in range(max(_N, len(values) + 1)):
            one = {
                "features": json.dumps({"id": str(i), "x": {"a": i / _N}}).encode(),
                "labels": json.dumps({"id": str(i), "y": i % 2 == 0}).encode(),
                **({CONTROL: values[i]} if i < len(values) else {}),
            }
            for role, value in one.items():
                merge.buffers[role].add(RawBatch([i], [1000 + i], [None], [value]))
            outcome = learner.step(merge.release(EVERYTHING))
            letters = outcome.rejected.get(CONTROL, ())
            assert all(letter.reason in REASONS and len(letter.detail) < _MOST_SENTENCE for letter in letters)
            for event in outcome.events:
                assert event.event in ("applied", "refused")
                assert event.id not in ids
                assert 0 < len(event.sentence) < _MOST_SENTENCE, event.sentence
                assert commands.read_event(commands.write(event)) == event
                ids.add(event.id)
            assert len(learner.encode(outcome)) == 1
            assert next(iter(learner.roles)) == "champion"
        assert learner.offsets[CONTROL] == len(values)
        again = PartitionLearner(_SPEC)
        again.restore(learner.snapshot())
        assert again.digest() == learner.digest()

    def shrink(self, case: bytes) -> Iterator[bytes]:
        values = json.loads(case)
        for fewer in mutate.smaller(values):
            yield json.dumps(fewer).encode()
        for i, text in enumerate(values):
            for less in mutate.shorter(text.encode("utf-8", "surrogatepass")):
                yield json.dumps([*values[:i], less.decode("utf-8", "replace"), *values[i + 1 :]]).encode()


TARGETS = {"control": Commands()}
