"""What several partitions decode in one call is to the bit what each would decode for itself."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from riparian.app.partition.joint_work import JointWork
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.outcome import Outcome
from riparian.app.partition.records.decoder import PartitionDecoder
from riparian.app.partition.records.joint_decoding import Undecoded
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup
from riparian.app.stream_file.spec import Spec, build
from riparian.topics.names import FEATURES, LABELS
from riparian.topics.records import RawBatch
from tests.topics.arrow_records import stream as written

FORMS = 1, 1.0, "1"  # of a class: a partition writes it as it came there first
STREAM: dict[str, Any] = {
    "name": "s",
    "task": "classification",
    "partitions": 4,
    "learning": "partition",
    "features": {"a": "numeric", "c": "nominal", "d": {"type": "nominal", "values": ["u", "v"]}},
    "champion": {"model": "hoeffding-tree", "grace_period": 10},
    "record": {"time": "t"},
}
STREAMS: dict[str, dict[str, Any]] = {
    "classes": {},
    "numbers": {"task": "regression", "champion": "fimt-dd"},
    "keys": {
        "features": {**STREAM["features"], "n": {"last": "a", "by": "c"}},
        "keys": {"c": {"max": 5, "from": "@key"}},
    },
}


def usual(value: bytes | None) -> bool:
    return value is not None and len(value) > len(b'{"id":1}')


class Streams:
    """The same records to partitions of two workers: in one they decode together."""

    def __init__(self, spec: Spec, seed: int) -> None:
        self.rng, self.n, n = np.random.default_rng(seed), 0, spec.partitions
        self.task, self.codec = spec.task, spec.codec
        self.workers = [[PartitionLearner(spec, p) for p in range(n)] for _ in range(2)]
        self.merges = [[PartitionGroup(one.buffers()) for one in learners] for learners in self.workers]
        self.decoding = JointWork[Undecoded]()
        self.places = [dict.fromkeys((FEATURES, LABELS), 0) for _ in range(n)]

    def record(self, role: str, number: int) -> bytes | None:
        """Mostly usual; now and then none, or one with a value or a class that is new. One class in all its forms."""
        if self.rng.random() < 0.01:
            return [None, b"", b"{", b'{"id":1}', b"\xff"][self.rng.integers(5)]
        new = f"n{number}" if self.rng.random() < 0.01 else "c"
        if role == LABELS:
            y: Any = FORMS[self.rng.integers(3)] if new == "c" else new
            y = float(number) if self.task == "regression" else y
            return json.dumps({"id": str(number), "y": None if self.rng.random() < 0.02 else y}).encode()
        x = {"a": number / 3, "c": new, "d": "uv"[self.rng.integers(2)]}
        return json.dumps({"id": str(number), "t": number if self.rng.random() < 0.9 else None, "x": x}).encode()

    def come(self, p: int, role: str) -> None:
        at, numbers = self.places[p], range(self.n, self.n + int(self.rng.integers(4)))
        if not numbers:
            return
        self.n += len(numbers) * (role == FEATURES)
        values = [self.record(role, n - (40 if role == LABELS else 0)) for n in numbers]
        if getattr(self.codec, role) == "arrow":
            values = [written(pa.RecordBatch.from_pylist([json.loads(one) for one in values if usual(one)]))]
        offsets = list(range(at[role], at[role] + len(values)))
        at[role] += len(values)
        for merges in self.merges:
            stamps = [1000 + self.n] * len(values)
            merges[p].buffers[role].add(RawBatch(offsets, stamps, [b"k"] * len(values), list(values)))

    def round(self) -> list[tuple[Outcome, Outcome]]:
        alone, beside = ([merge.release(EVERYTHING) for merge in merges] for merges in self.merges)
        going = {
            p: learner.stages(release, self.decoding)
            for p, (learner, release) in enumerate(zip(self.workers[1], beside, strict=True))
        }
        found = dict[int, Outcome]()
        while going:
            for p, stages in list(going.items()):
                try:
                    next(stages)
                except StopIteration as end:
                    found[p] = end.value
                    del going[p]
        return [(self.workers[0][p].step(release), found[p]) for p, release in enumerate(alone)]


@pytest.mark.parametrize("name", STREAMS)
def test_partitions_decode_together_what_each_would_for_itself(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, decode = list[bool](), Undecoded.together

    def noted(group: Any) -> None:
        decode(group)
        calls.append(all(one.found is not None for one in group))

    monkeypatch.setattr(Undecoded, "together", noted)
    streams = Streams(build({**STREAM, **STREAMS[name]}, name), len(name))
    for _ in range(120):
        for p in range(4):
            streams.come(p, FEATURES)
            streams.come(p, LABELS)
        for p, (alone, beside) in enumerate(streams.round()):
            assert beside.rejected == alone.rejected
            assert beside.joint == alone.joint == []
            one, other = (streams.workers[i][p].encode(outcome) for i, outcome in enumerate((alone, beside)))
            assert list(one) == list(other)
    for one, other in zip(*streams.workers, strict=True):
        assert one.digest() == other.digest()
    assert not streams.decoding._waiting
    assert set(calls) == ({True, False} if name in ("classes", "numbers") else set())


@pytest.mark.parametrize("role", [FEATURES, LABELS])
def test_an_error_of_one_partition_s_records_is_that_partition_s_alone(
    role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams, read = Streams(build(STREAM, "s"), 7), getattr(PartitionDecoder, role)

    def ends(self: PartitionDecoder, raw: RawBatch, *args: Any) -> Any:
        found = read(self, raw, *args)
        if b"3" in raw.keys:
            raise MemoryError
        return found

    monkeypatch.setattr(PartitionDecoder, role, ends)
    known = [one.decoder.known() for one in streams.workers[1]]
    going = list[Any]()
    for p, (learner, merge) in enumerate(zip(streams.workers[1], streams.merges[1], strict=True)):
        for log in (FEATURES, LABELS):
            value = json.dumps({"id": "1", "x": {"c": "new"}, "y": "new"}).encode()
            merge.buffers[log].add(RawBatch([0], [1000], [str(p).encode()], [value]))
        going.append(learner.stages(merge.release(EVERYTHING), streams.decoding))
    assert not any(map(next, going))
    assert [one.decoder.known() for one in streams.workers[1]] == known
    for p, stages in enumerate(going):
        if p == 3:
            with pytest.raises(MemoryError):
                list(stages)
        else:
            list(stages)
            assert streams.workers[1][p].decoder.known() != known[p]
