"""Owners of a partition that die anywhere, one after the other: each record of each output topic stands there once.

All is the workers' own besides Kafka: what was sent last is lost with its owner, or is not. The turns are drawn, as are
the pieces in which records come.
"""

import asyncio
import contextlib
import itertools
import sys
import types
from collections import Counter
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest
from aiokafka.structs import TopicPartition
from faust.types import TP
from hypothesis import example, given, settings
from hypothesis import strategies as st

from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import Bounds
from riparian.app.partition.joint_work import JointWork
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import EVERYTHING, Ends
from riparian.app.state import checkpoint
from riparian.app.state.loading import Loaded
from riparian.app.state.log import StateLog
from riparian.app.stream_file.sections.drift import DriftSpec
from riparian.app.stream_file.spec import Spec
from riparian.app.worker.faust_client.fetches import Fetched
from riparian.app.worker.task import uncommitted_outputs
from riparian.app.worker.task.partition_task import PartitionTask
from riparian.app.worker.task.turns import Life
from riparian.topics.names import FEATURES, HEADER_OFFSET, HEADER_TOPIC, LABELS
from tests.app.test_input_logs import SPEC as SPEC_WITH_COMMANDS
from tests.app.test_input_logs import World, world

NERVOUS = {"detectors": {"hddm-w": {"drift_confidence": 0.2, "warning_confidence": 0.4}}, "on_drift": "reset"}
SPEC = Spec.model_validate({**SPEC_WITH_COMMANDS.model_dump(mode="json", exclude_unset=True), "drift": NERVOUS})


class DeadError(Exception):
    """Here an owner dies."""


class Kafka(dict[str, list[Any]]):
    """Topics of one partition: records with an offset, a value and headers."""

    def append(self, topic: str, value: bytes, headers: Any = ()) -> int:
        records = self.setdefault(topic, [])
        records.append(types.SimpleNamespace(offset=len(records), value=value, headers=headers))
        return len(records) - 1

    async def read_to_end(self, connection: Any, starts: Any, take: Any, **options: Any) -> Any:
        for tp, start in starts.items():
            if records := self.get(tp.topic, [])[start:]:
                take(TopicPartition(*tp), records)
        return {tp: Bounds(0, len(self.get(tp.topic, []))) for tp in starts}


class Sent:
    """Outputs of one owner, who dies when so many more records have come to Kafka."""

    def __init__(self, kafka: Kafka, lives: int) -> None:
        self._kafka, self._lives = kafka, lives
        self.position = Counter({topic: len(records) for topic, records in kafka.items()})

    def _append(self, topic: str, value: bytes, headers: Any = ()) -> int:
        if not self._lives:
            raise DeadError
        self._lives -= 1
        self.position[topic] += 1
        return self._kafka.append(topic, value, headers)

    def build(self, keys: Any, values: Any, headers: Any = None) -> list[Any]:
        return list(zip(map(bytes, (v or b"" for v in values)), headers or itertools.repeat(()), strict=False))

    async def send(self, topic: str, batches: Any) -> list[Any]:
        for value, headers in batches:
            self._append(topic, value, headers)
        return []

    async def send_one(self, topic: str, key: Any, value: bytes, time_ms: Any = None) -> None:
        self._append(topic, value)

    async def write(self, topic: str, records: Any) -> list[int]:
        if not self._lives:
            raise DeadError
        return [self._kafka.append(topic, value) for _, value in records]

    async def flush(self) -> None:
        """All that was sent is there."""


async def in_thread(function: Any, *args: Any) -> Any:
    return function(*args)


def nothing(*_: Any, **__: Any) -> None: ...


class Partition:
    """One partition, its topics, and what its owners have left."""

    def __init__(self, made: World, seed: int, room: int) -> None:
        self.limits = dict.fromkeys(SPEC.outputs.values(), 10**6) | {str(SPEC.topics.predictions): room}
        self.made, self.rng = made, np.random.default_rng([seed, 3])
        self.kafka = Kafka()
        self.state = StateLog(0)
        self.n = {role: len(batch.offsets) for role, batch in made.records.items()}
        self.there = dict.fromkeys(self.n, 0)  # records that have come so far: the topics end there

    async def owner(self, lives: int) -> PartitionTask:
        state = self.state
        learner = PartitionLearner(SPEC)
        columns = [(name, feature.type) for name, feature in SPEC.features.items()]
        encoder = checkpoint.Encoder("s", 0, columns, SPEC.input_topics.values())
        if state.manifest is not None:
            snapshot = checkpoint.decode(state.manifest, state.chunks)
            learner.restore(snapshot, SPEC.input_topics)
            columns = [(name, feature.type) for name, feature in learner.spec.features.items()]
            topics = SPEC.input_topics.values()
            encoder = checkpoint.Encoder("s", 0, columns, topics, state.manifest, snapshot.arrays)
        loaded = Loaded(learner, encoder, state.manifest, [])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(uncommitted_outputs, "read_to_end", self.kafka.read_to_end)
            (tail,) = await uncommitted_outputs.read_tails(SPEC, Connection("broker:9092"), [loaded])
        inputs = types.SimpleNamespace(
            spec=SPEC, copying=0.0, end_offset=nothing, add=nothing, learned=nothing, commit=nothing, tps=lambda _: {}
        )
        inputs.ends_beside = nothing
        host = types.SimpleNamespace(
            spec=SPEC, registry=None, inputs=inputs, tasks={}, held=set(), in_thread=in_thread, states=[0],
            fetches=types.SimpleNamespace(ask=nothing), limits=self.limits, decoding=JointWork(),
            encoding=JointWork(),
        )  # fmt: skip
        of_partition = types.SimpleNamespace(stepped=nothing, rejected=nothing, checkpointed=nothing)
        outputs: Any = Sent(self.kafka, lives)
        task = PartitionTask(host, of_partition, learner, state, encoder, outputs, tail)  # type: ignore[arg-type]
        task.reporter._send_state_of_partition = lambda _: asyncio.sleep(0)  # type: ignore[method-assign, assignment]
        task.epochs, task.life = dict.fromkeys(map(TP._make, task.tps.values()), 1), Life.RUNNING
        return task

    def fetch(self, task: PartitionTask, whole: bool) -> None:
        for role, buffer in task.buffers.items():
            start = buffer.fetch_offset
            stop = self.there[role] if whole else min(self.there[role], start + int(self.rng.integers(0, 12)))
            if stop > start:
                task.add(task.tps[role], Fetched(self.made.piece(role, start, stop), epoch=1))

    async def step(self, task: PartitionTask, whole: bool) -> bool:
        ends = Ends({role: int(self.rng.integers(0, 2 * self.n[role])) for role in (FEATURES, LABELS)})
        release = task.merge.release(EVERYTHING if whole else ends)
        step = await task.step(release)
        for send in (task.send_predictions, task.send_dead_letters, task.report):
            await send(step)
        return release.n > 0

    async def lives(self, task: PartitionTask) -> None:
        """Until the owner dies."""
        while True:
            turn = self.rng.random()
            if turn < 0.6:
                self.fetch(task, whole := self.rng.random() < 0.5)
                await self.step(task, whole)
            elif turn < 0.8:
                await task.reporter.send_metrics()
            elif turn < 0.9:
                await task.checkpoints.begin(task._beside)
                await task.checkpoints.settle()
            await task.reporter.send_drifts()
            if turn > 0.95:
                raise DeadError

    async def ends(self, task: PartitionTask) -> None:
        """All is learned and told."""
        self.fetch(task, True)
        while await self.step(task, True):
            pass
        await task.checkpoints.begin(task._beside)
        await task.checkpoints.settle()
        await task.reporter.send_metrics()
        await task.reporter.send_drifts()

    async def run(self, lives: list[int]) -> None:
        for i, n in enumerate(lives):
            if i % 3 == 0:
                share = (i + 3) / (len(lives) + 3)
                self.there = {role: int(share * n_role) for role, n_role in self.n.items()}
            with contextlib.suppress(DeadError):
                await self.lives(await self.owner(n))
        self.there = self.n
        await self.ends(await self.owner(10**6))

    def fields(self, role: str) -> list[Any]:
        return [msgspec.json.decode(record.value) for record in self.kafka.get(SPEC.outputs[role], [])]


@settings(max_examples=20, deadline=None)
@example(169309, 10, [12, 10, 13, 6, 11, 10, 2], 10**6)  # a checkpoint before a place that metrics had told of
@example(1242, 12, [8, 0, 1, 7, 2, 1], 305)  # a command before a prediction that its topic does not take
@given(
    st.integers(0, 10**6),
    st.integers(4, 40),
    st.lists(st.integers(0, 80), min_size=3, max_size=8),
    st.sampled_from([10**6, 305, 315, 335]),
)
def test_whatever_owners_die_of_each_record_stands_once(seed: int, n: int, lives: list[int], room: int) -> None:
    one = Partition(world(seed, n), seed, room)
    asyncio.run(one.run(lives))
    predicted = [fields["offset"] for fields in one.fields("predictions")]
    assert predicted == sorted(set(predicted))
    told: dict[str, list[Any]] = {}
    for fields in one.fields("metrics"):
        told.setdefault(fields["model"], []).append((fields["offset"], fields["label_offset"]))
    for model, places in told.items():
        assert all(a != b and a[0] <= b[0] and a[1] <= b[1] for a, b in pairwise(places)), (model, places)
    for role in ("drift", "events"):
        numbers = [fields["number"] for fields in one.fields(role)]
        assert numbers == list(range(len(numbers))), role
    letters: dict[bytes, list[int]] = {}
    for record in one.kafka.get(SPEC.topics.deadletters, []):
        headers = dict(record.headers)
        letters.setdefault(headers[HEADER_TOPIC], []).append(int(headers[HEADER_OFFSET]))
    for topic, offsets in letters.items():
        assert offsets == sorted(set(offsets)), topic


def test_the_events_of_detectors_that_are_gone_are_not_read_back_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Partition(world(5, 400), 5, 10**6)
    one.n["control"] = 0  # commands bring detectors, too

    async def run() -> None:
        one.there = {role: n - 20 for role, n in one.n.items()}
        task = await one.owner(10**6)
        one.fetch(task, True)
        while await one.step(task, True):  # and dies without a checkpoint
            pass
        assert one.fields("drift")
        monkeypatch.setattr(sys.modules[__name__], "SPEC", SPEC.model_copy(update={"drift": DriftSpec(detectors={})}))
        one.there = one.n
        await one.ends(await one.owner(10**6))

    asyncio.run(run())
    assert one.state.manifest is not None
    assert one.state.manifest.outputs["predictions"] > 0
    assert one.state.manifest.outputs["drift"] == len(one.fields("drift"))
