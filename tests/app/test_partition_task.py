"""What a runner does with batches and offsets before any of it reaches Kafka."""

import asyncio
import itertools
import json
import math
import threading
import time
import types
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec
import numpy as np
import pytest
from aiokafka.errors import KafkaError, MessageSizeTooLargeError, ProducerFenced
from faust.types import TP

from riparian.app.errors import BrokerError, StateError
from riparian.app.kafka.sending import Outputs
from riparian.app.kafka.wire_format.unpacking import RECORD_BYTES
from riparian.app.partition.joint_work import JointWork
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.inputs import Lost
from riparian.app.partition.records.partition_group import EVERYTHING, RecordedOrder, RecordQueue
from riparian.app.partition.shared.replica import FollowedLearning, Replica
from riparian.app.state import checkpoint
from riparian.app.state.log import StateLog
from riparian.app.stream_file.spec import build
from riparian.app.worker import agent
from riparian.app.worker.context import WorkerContext
from riparian.app.worker.faust_client.backpressure import MAX_RECORDS
from riparian.app.worker.faust_client.input_logs import Found
from riparian.app.worker.faust_client.transport import Fetched
from riparian.app.worker.shared.replica import AloneError
from riparian.app.worker.task import partition_task as module
from riparian.app.worker.task.checkpoints import Beside, Checkpoints
from riparian.app.worker.task.partition_task import STALLED_SECONDS, PartitionTask, Step
from riparian.app.worker.task.release_gate import PATIENT_SECONDS
from riparian.app.worker.task.turns import Brief, Life, eagerly
from riparian.app.worker.task.uncommitted_outputs import UncommittedOutputs
from riparian.models.kernels.threads import busy_time
from riparian.topics.commands import EventRecord, read_event
from riparian.topics.names import INPUTS, OUTPUTS
from riparian.topics.places import BITS, place_of
from riparian.topics.records import DriftRecord, RawBatch
from tests.models.shared_out import waiting_step

TOPICS = tuple(f"s.{role}" for role in OUTPUTS)
NOTHING_SENT = UncommittedOutputs(RecordedOrder(), {}, {}, {}, {})
FEATURES, LABELS = TP("s.features", 0), TP("s.labels", 0)


@pytest.fixture
def spec():
    return build({"name": "s", "task": "classification", "features": {"a": "numeric"}, "champion": "last-label"}, "s")


def runner_of(
    spec,
    sent: UncommittedOutputs | None = None,
    lost: dict[str, Lost] | None = None,
    learner: PartitionLearner | None = None,
    **positions: int,
) -> PartitionTask:
    inputs = types.SimpleNamespace(spec=spec, copying=0.0, end_offset=lambda _: None)
    fetches = types.SimpleNamespace(ask=lambda: None)
    host = types.SimpleNamespace(
        spec=spec, registry=None, inputs=inputs, states={}, tasks={}, held=set(), fetches=fetches, appender=None
    )
    host.held, host.decoding, host.encoding = set(), JointWork(), JointWork()
    inputs.ends_beside = lambda tps, seen: {one: seen[one] for one in tps if one in seen}
    learner = learner or PartitionLearner(spec)
    outputs = types.SimpleNamespace(position={**dict.fromkeys(TOPICS, 0), **positions})

    async def make() -> PartitionTask:
        encoder = checkpoint.Encoder("s", 0)
        return PartitionTask(host, None, learner, StateLog(0), encoder, outputs, sent or NOTHING_SENT, lost)

    runner = asyncio.run(make())
    runner.epochs, runner.life = {FEATURES: 2, LABELS: 2}, Life.RUNNING
    return runner


def batch(start: int, n: int, time: int = 1000) -> RawBatch:
    return RawBatch(list(range(start, start + n)), [time] * n, [None] * n, [b"{}"] * n)


def test_a_batch_fetched_before_the_seek_of_this_assignment_is_dropped(spec):
    runner = runner_of(spec)
    runner.add(FEATURES, Fetched(batch(500, 10), epoch=1))
    assert len(runner.buffers["features"]) == 0
    runner.add(FEATURES, Fetched(batch(0, 10), epoch=2))
    assert len(runner.buffers["features"]) == 10
    assert runner.buffers["features"].next_offset == 10


@pytest.mark.parametrize("early", [True, False])
def test_the_memory_of_several_instances_in_a_record_is_counted_whenever_they_came(spec, early):
    def unpack(raw: RawBatch) -> RawBatch:
        places = [place_of(offset, i, BITS) for offset in raw.offsets for i in range(3)]
        n = len(places)
        return RawBatch(places, [1000] * n, [None] * n, [b"{}"] * n)

    runner, counted = runner_of(spec), []
    runner.host.inputs.add = lambda *one: counted.append(one)
    runner.buffers["features"]._unpack, runner.buffers["features"].bits = unpack, BITS
    runner.life = Life.CREATED
    fetched = Fetched(batch(7, 10), epoch=1)
    if early:
        runner.add(FEATURES, fetched)
    runner.start({FEATURES: 1, LABELS: 1})
    if not early:
        runner.add(FEATURES, fetched)
    assert counted == [(FEATURES, 17, 20 * RECORD_BYTES)]


def test_labels_that_are_all_known_are_no_more_than_nothing(spec):
    """After a restart, those of a batch that the manifest's offset stands behind."""
    runner = runner_of(spec, lost={"labels": Lost(0, 10)})
    runner.add(LABELS, Fetched(batch(0, 10), epoch=2))
    assert runner.n_skipped == 10
    assert runner.release().n == 0
    assert runner._releases.due == float("inf")


def test_a_cut_within_the_replayed_tail_names_where_the_tail_began(spec):
    """The predictions of the tail stand in the topic already: the next worker needs them for the recorded order."""
    tail = RecordedOrder(np.array([5, 6], dtype=np.int64), {"labels": np.array([0, 1], dtype=np.int64)})
    sent = UncommittedOutputs(tail, {"s.features": 8, "s.labels": 3}, {}, dict.fromkeys(TOPICS, 10), {})
    runner = runner_of(spec, sent, **dict.fromkeys(TOPICS, 12))
    began = dict.fromkeys(OUTPUTS, 10)
    runner.learner.places["features"], runner.learner.places["labels"] = 6, 3
    assert runner._output_positions() == began
    runner.learner.places["features"] = 7  # a dead letter was sent beyond the last prediction
    assert runner._output_positions() == began
    runner.learner.places["features"], runner.learner.places["labels"] = 8, 2
    assert runner._output_positions() == began
    runner.learner.places["labels"] = 3
    assert runner._output_positions() == dict.fromkeys(OUTPUTS, 12)


def test_a_cut_before_a_place_that_metrics_told_of_names_where_the_tail_began(spec):
    """Whoever comes next but one has to know, too, that it is told: of labels, and of the log of all partitions."""
    told = {"champion": ((6, 0), (3, 0), (20, 0))}
    sent = UncommittedOutputs(RecordedOrder(), {}, told, dict.fromkeys(TOPICS, 10), {})
    runner = runner_of(spec, sent, **dict.fromkeys(TOPICS, 12))
    cuts = []
    for next_one, next_label, learned in ((6, 2, 20), (6, 3, 19), (6, 3, 20), (7, 3, 20)):
        runner.learner.places["features"], runner.learner.places["labels"] = next_one, next_label
        runner.learner.learning.learned_place = learned
        cuts.append(runner._output_positions()["metrics"])
    assert cuts == [10, 10, 12, 12]


def test_events_that_a_changed_stream_file_does_not_have_hold_no_cut_back_for_ever(spec):
    """Without detectors, or a rule, their numbers do not come again; a command that was answered does."""
    tail = RecordedOrder(np.array([5, 6], dtype=np.int64), {"labels": np.array([0, 1], dtype=np.int64)})
    sent = UncommittedOutputs(tail, {"s.features": 8}, {}, dict.fromkeys(TOPICS, 10), {})

    def cuts(commands: int = 0, **told: int) -> list[int]:
        runner, found = runner_of(spec, sent._replace(**told), **dict.fromkeys(TOPICS, 12)), []
        reached = {"features": 9, "labels": 2}
        runner.learner.learning.reached = lambda: reached
        for predicted in (6, 7, 8):
            runner.learner.drift._last[0] = predicted
            found.append(runner._output_positions()["drift"])
        reached["control"] = commands
        return [*found, runner._output_positions()["drift"]]

    assert cuts() == [12, 12, 12, 12]
    assert cuts(drift=2) == [10, 10, 12, 12]
    assert cuts(events=2) == [10, 10, 12, 12]
    assert cuts(events=2, commanded=4, commands=3) == [10, 10, 10, 10]
    assert cuts(events=2, commanded=4, commands=4) == [10, 10, 10, 12]


def test_a_command_is_answered_whatever_numbers_a_rule_that_is_gone_has_left(spec):
    fields = {"name": "s", "task": "classification", "features": {"a": "numeric"}, "champion": "last-label"}
    spec = build({**fields, "control": True}, "s")
    runner, sent = runner_of(spec, NOTHING_SENT._replace(events=3, commanded=8)), list[tuple[str, int]]()

    async def ignore() -> None:
        pass

    async def send_one(topic, _, value) -> None:
        sent.append((topic, read_event(value).number))

    runner.reporter._outputs = types.SimpleNamespace(flush=ignore, send_one=send_one)
    offsets = (7, None, 8, None)  # of commands; None: of a rule
    answers = [
        EventRecord("s", 0, number, "applied", "promote", 0, 0, 0, "", control_offset=offset)
        for number, offset in enumerate(offsets)
    ]
    asyncio.run(runner.reporter._answer(answers))
    assert sent == [("s.events", 2), ("s.events", 3)]


def test_no_model_s_metrics_are_sent_again_where_a_checkpoint_stands(spec):
    """The replica's models, behind which a partition recovers, may be those of an earlier place, and fewer."""
    runner, log = runner_of(spec, NOTHING_SENT._replace(stood=((0, 0), (0, 0), (0, 0)))), []

    async def in_thread(work, *args):
        return work(*args)

    async def send(topic, *_):
        log.append(topic)

    async def told(*_):
        pass

    runner.host.in_thread, runner.outputs.send_one, runner.reporter._send_state_of_partition = in_thread, send, told
    asyncio.run(runner.reporter.send_metrics())
    assert log == []
    runner.learner.places["features"], runner.reporter.stale = 1, True
    asyncio.run(runner.reporter.send_metrics())
    assert log == ["s.metrics"]


def test_a_batch_that_comes_before_the_runner_knows_its_epochs_is_kept(spec):
    """What is fetched right after a seek can arrive before the answer to the seek does."""
    runner = runner_of(spec)
    runner.epochs, runner.life = {}, Life.CREATED
    runner.add(FEATURES, Fetched(batch(90, 10), epoch=1))  # from before the seek
    runner.add(FEATURES, Fetched(batch(0, 10), epoch=2))
    assert len(runner.buffers["features"]) == 0
    runner.start({FEATURES: 2, LABELS: 2})
    assert runner.buffers["features"].offsets().tolist() == list(range(10))


def test_records_deleted_while_we_run_end_the_runner_or_are_skipped_and_counted(spec):
    runner = runner_of(spec)
    runner.add(FEATURES, Fetched(batch(0, 10), epoch=2))
    runner.add(FEATURES, Fetched(batch(25, 5), epoch=2, jump=(10, 25)))
    assert len(runner.buffers["features"]) == 10
    with pytest.raises(StateError, match=r"15 records of s.features\[0\] \(offsets 10 to 24\) deleted"):
        raise runner._end

    runner = runner_of(spec.model_copy(update={"lost": "skip"}))
    runner.add(LABELS, Fetched(batch(25, 5), epoch=2, jump=(10, 25)))
    runner.add(LABELS, Fetched(batch(40, 5), epoch=2, jump=(30, 40)))
    assert runner._end is None
    assert len(runner.buffers["labels"]) == 10
    assert runner.gaps.lost == {"labels": Lost(25, 40)}
    assert runner.checkpoints.dirty  # that they are gone is part of the next checkpoint


def at(ends: dict[str, int]) -> Found:
    """Of one moment."""
    return Found(ends, ends)


async def release_of(runner):
    """What is released, once the broker has said where the topics end, and patience is over."""
    release, releases = runner.release(), runner._releases
    if releases._alone and not release.n:
        releases._alone -= PATIENT_SECONDS
        release = runner.release()
    if releases._question is not None and not release.n:
        await releases._question
        release = runner.release() if runner._end is None else release
    return release


@pytest.mark.parametrize("lost", ["stop", "skip"])
def test_a_topic_that_goes_back_is_examined(spec, lost):
    runner = runner_of(spec.model_copy(update={"lost": lost}))
    runner.add(FEATURES, Fetched(batch(0, 10), epoch=2))
    runner.add(FEATURES, Fetched(batch(0, 20), epoch=2, jump=(10, 0)))
    assert isinstance(runner._end, KafkaError)
    assert len(runner.buffers["features"]) == 10

    runner = runner_of(spec)
    runner.add(FEATURES, Fetched(batch(0, 10), epoch=2))

    async def ends(partition):
        return at({"features": 3, "labels": 0})

    runner.host.inputs.ends = ends
    released = asyncio.run(release_of(runner))
    assert len(released.piece("features").offsets) == 0
    assert isinstance(runner._end, KafkaError)


def test_what_comes_while_the_ends_are_asked_for_is_no_topic_that_goes_back(spec):
    runner = runner_of(spec)
    runner.add(FEATURES, Fetched(batch(0, 10), epoch=2))

    async def ends(partition):
        runner.add(FEATURES, Fetched(batch(10, 10), epoch=2))
        return at({"features": 10, "labels": 0})

    runner.host.inputs.ends = ends
    runner.host.inputs.reached = lambda tp, end, next_offset: next_offset >= end
    asyncio.run(release_of(runner))
    assert runner._end is None


def test_a_fetch_that_told_where_the_other_topic_ends_saves_the_question(spec):
    """Of ten instances and what is beside them, and of labels that came when that was not known."""
    runner = runner_of(spec)
    runner.host.inputs.reached = lambda tp, end, next_offset: next_offset >= end
    asked = []

    async def ends(partition):
        asked.append({role: buffer.fetch_offset for role, buffer in runner.buffers.items()})
        return at({"features": 10, "labels": 3})

    runner.host.inputs.ends = ends
    runner.add(FEATURES, Fetched(batch(0, 10), epoch=2, seen={"labels": 0}))
    assert len(asyncio.run(release_of(runner)).pieces["features"].offsets) == 10
    assert asked == []
    runner.add(LABELS, Fetched(batch(0, 3, 2000), epoch=2))
    assert len(asyncio.run(release_of(runner)).pieces["labels"].offsets) == 3
    assert asked == [{"features": 10, "labels": 3}]
    # The other topic holds more than has been read of it: what is there may come first.
    runner.add(FEATURES, Fetched(batch(10, 5, 3000), epoch=2, seen={"labels": 4}))
    assert asyncio.run(release_of(runner)).n == 0
    runner.add(LABELS, Fetched(batch(3, 1, 2500), epoch=2))
    assert [asyncio.run(release_of(runner)).n for _ in range(2)] == [6, 0]
    assert len(asked) == 1


def test_a_fetch_of_features_lets_no_labels_go_ahead_of_features_that_are_fetched_later(spec):
    """In a backlog: the labels' end that came beside ten features lies behind labels of features to come."""
    runner = runner_of(spec)
    runner.host.inputs.reached = lambda tp, end, next_offset: next_offset >= end
    runner.add(FEATURES, Fetched(batch(0, 10, 1000), epoch=2, seen={"labels": 8}))
    assert asyncio.run(release_of(runner)).n == 0
    runner.add(LABELS, Fetched(batch(0, 4, 1500), epoch=2))
    runner.add(LABELS, Fetched(batch(4, 4, 3500), epoch=2))
    first = asyncio.run(release_of(runner))
    assert [len(first.piece(role).offsets) for role in ("features", "labels")] == [10, 0]
    assert asyncio.run(release_of(runner)).n == 0
    runner.add(FEATURES, Fetched(batch(10, 5, 3000), epoch=2))
    rest = asyncio.run(release_of(runner))
    assert len(rest.piece("labels").offsets) == 4
    assert not len(rest.piece("features").offsets) or rest.before["labels"].tolist() == [4] * 5


def test_labels_alone_wait_for_the_next_fetch_before_the_broker_is_asked(spec):
    runner = runner_of(spec)
    runner.host.inputs.reached = lambda tp, end, next_offset: next_offset >= end

    async def nobody(partition):
        raise AssertionError

    runner.host.inputs.ends = nobody
    runner.add(FEATURES, Fetched(batch(0, 10), epoch=2, seen={"labels": 0}))
    assert runner.release().n == 10
    runner.awake, runner.due = False, time.monotonic() + 10.0
    runner.add(LABELS, Fetched(batch(0, 3, 2000), epoch=2))
    assert not runner.awake
    assert runner.due < time.monotonic() + 2 * PATIENT_SECONDS
    assert runner.release().n == 0
    assert runner._releases._question is None
    runner.add(FEATURES, Fetched(batch(10, 5, 3000), epoch=2, seen={"labels": 3}))
    release = runner.release()
    assert {role: len(piece.offsets) for role, piece in release.pieces.items()} == {"features": 5, "labels": 3}
    assert release.before["labels"].tolist() == [3] * 5
    assert runner._releases._question is None


@pytest.mark.parametrize(("long", "rests"), [(FEATURES, LABELS), (LABELS, FEATURES)])
def test_a_backlog_longer_than_the_buffer_does_not_wait_to_be_read_to_its_end(spec, long, rests):
    """Back-pressure pauses the long topic, so its end is never reached while nothing is released."""
    runner = runner_of(spec)
    n = 3 * MAX_RECORDS
    asked = 0

    async def ends(partition):
        nonlocal asked
        asked += 1
        return at(dict(zip(INPUTS, (n, 10) if long == FEATURES else (10, n), strict=True)))

    runner.host.inputs.ends = ends
    runner.host.inputs.reached = lambda tp, end, next_offset: next_offset >= end
    sizes = []

    def released():
        """Records of the long topic, until nothing more goes."""
        before = len(sizes)
        while not sizes[before:] or any(sizes[-1]):
            release = asyncio.run(release_of(runner))
            sizes.append((len(release.piece("features").offsets), len(release.piece("labels").offsets)))
        return sum(size[0 if long == FEATURES else 1] for size in sizes[before:])

    runner.add(long, Fetched(batch(0, MAX_RECORDS), epoch=2))
    assert released() == 0  # the other topic has not been read: what it holds may come first
    runner.add(rests, Fetched(RawBatch(list(range(10)), [500] * 10, [None] * 10, [b"{}"] * 10), epoch=2))
    got = 0
    for start in range(MAX_RECORDS, n + 1, MAX_RECORDS):
        got += released()
        if start < n:
            assert got == start
            runner.add(long, Fetched(batch(start, MAX_RECORDS), epoch=2))
    assert got == n
    assert runner.n_forced == 0
    assert sum(f if long == LABELS else m for f, m in sizes) == 10
    assert asked == 1


def test_records_are_taken_from_where_those_before_are_gone(spec):
    runner = runner_of(spec, lost={"features": Lost(7, 30), "labels": Lost(0, 0)})
    assert (runner.buffers["features"].next_offset, runner.buffers["labels"].next_offset) == (30, 0)


def test_a_turn_of_all_partitions_takes_so_many_records_also_where_times_are_alike(spec):
    async def run():
        runner = runner_of_all
        runner.add(FEATURES, Fetched(batch(0, 1000), epoch=2))
        runner.add(LABELS, Fetched(batch(0, 1000, time=1001), epoch=2))
        runner._releases.next = lambda: runner.merge.release(EVERYTHING)
        taken = [runner.release_until(runner.horizon(300), 300) for _ in range(7)]
        assert [len(one.pieces["features"].offsets) for one in taken] == [300, 300, 300, 100, 0, 0, 0]
        assert sum(len(one.pieces["labels"].offsets) for one in taken) == 1000
        assert max(len(one.pieces["labels"].offsets) for one in taken) == 300

    runner_of_all = runner_of(spec)
    asyncio.run(run())


def event(number: int, offset: int = 5) -> DriftRecord:
    return DriftRecord("s", 0, number, "error", "adwin", offset, 3, 1000, 10, model="champion", level="drift")


class Sending:
    """Outputs that note what happens in which order."""

    def __init__(self) -> None:
        self.position = dict.fromkeys(TOPICS, 0)
        self.log: list[object] = []

    async def flush(self) -> None:
        self.log.append("flush")

    async def send(self, topic: str, batches: object) -> None:
        if topic == "s.predictions":
            self.log.append("predictions")

    async def send_one(self, topic: str, key: bytes | None, value: bytes, headers: object = ()) -> None:
        assert (topic, key) == ("s.drift", None)
        self.log.append(msgspec.json.decode(value, type=DriftRecord).number)


def stepping(spec, sent: UncommittedOutputs | None = None):
    """A runner, and a step of it: whether there are predictions, drift events, and how many of these are settled."""
    runner = runner_of(spec, sent)
    runner.outputs = runner.reporter._outputs = outputs = Sending()
    runner.observer = types.SimpleNamespace(stepped=lambda *_: None)
    runner.host.inputs.learned = lambda _: None

    def step(predicted: bool, drifts: list[DriftRecord], n_settled: int) -> list[object]:
        outputs.log.clear()
        runner.learner.drift.n_events += len(drifts)
        outcome = types.SimpleNamespace(
            events=[], ids=["a"] * predicted, drifts=drifts, n_settled=n_settled, rejected={}, joint=[], moved=[]
        )

        async def in_thread(*_: object) -> object:
            return Step(outcome, [], [], [], 0.0), 0.0

        async def stepped() -> None:
            step = await runner.step(types.SimpleNamespace(n=1000))
            await runner.sends(step)

        runner.host.in_thread = in_thread
        asyncio.run(stepped())
        return list(outputs.log)

    return runner, step


def test_tasks_that_encode_together_leave_out_what_was_sent_as_each_alone_does(spec):
    tail = NOTHING_SENT._replace(rejected={"s.features": 2})

    def tasks() -> list[PartitionTask]:
        found = [runner_of(spec, sent) for sent in (NOTHING_SENT, tail)]
        for one in found:
            one.host.limits, one.outputs.build = dict.fromkeys(TOPICS, 10**6), lambda *columns: columns
            one._brief.most = 512
            values = [json.dumps({"id": f"{len(one._tail.rejected)}-{i}", "x": {"a": i}}).encode() for i in range(5)]
            one.buffers["features"].add(RawBatch(list(range(5)), [1000] * 5, [b"k"] * 5, values))
        found[1].sent_offset = 3
        return found

    def made(*tasks: PartitionTask) -> list[object]:
        steps = dict[int, object]()

        async def step(i: int, task: PartitionTask) -> None:
            steps[i] = (await task.step(task.merge.release(EVERYTHING)))[1:4]

        assert eagerly(*(step(*one) for one in enumerate(tasks))) == [None] * len(tasks)
        return [steps[i] for i in range(len(tasks))]

    together, answers = tasks(), []
    encoding = together[0].host.encoding
    do, encoding.do = encoding.do, lambda asked: answers.append(do(asked)) or answers[-1]
    together[1].host = together[0].host
    steps = made(*together)
    assert [len(one.found) for one in answers] == [5, 5]
    assert [len(values) for (_, values, _), _, _ in steps] == [5, 2]
    assert steps == [made(one)[0] for one in tasks()]


def test_the_seconds_of_a_step_are_without_those_of_other_partitions(spec, monkeypatch):
    runners = [runner_of(spec) for _ in range(3)]
    clock, found, judged, share = types.SimpleNamespace(now=0.0), [], [], 0.0
    monkeypatch.setattr(module, "time", types.SimpleNamespace(perf_counter=lambda: clock.now, thread_time=lambda: 0.0))

    async def step(runner: PartitionTask, seconds: float) -> None:
        def stages(_: object) -> Iterator[float]:
            for _ in range(3):
                clock.now += seconds
                yield share
            clock.now += seconds
            return (None, [], [], []), share

        # Some of the time others had the processor: how brief a step is may go by that, and its seconds never do.
        runner._stages, runner._brief.most, runner._brief.clock = stages, 10, lambda _: lambda: clock.now / 2
        monkeypatch.setattr(runner._brief, "judge", lambda n, seconds: judged.append(seconds))
        found.append((await runner.step(types.SimpleNamespace(n=10))).seconds)

    def made(_: object) -> object:
        clock.now += 5.0
        return None, [], [], []

    async def in_thread(work, *args):
        clock.now += 100.0  # until there is one, and behind it
        made = work(*args)
        clock.now += 100.0
        return made

    assert eagerly(step(runners[0], 1.0), step(runners[1], 10.0)) == [None, None]
    assert (found, judged) == ([4.0, 40.0], [2.0, 20.0])
    share = 0.25  # of what others have done for it
    assert eagerly(step(runners[0], 1.0)) == [None]
    assert (found[2], judged[2]) == (5.0, 3.0)
    runners[2].learner.step, runners[2].made_of, runners[2].host.in_thread = made, lambda one: one, in_thread
    assert asyncio.run(runners[2].step(types.SimpleNamespace(n=1000))).seconds == 5.0


def test_a_drift_event_is_sent_when_a_prediction_behind_it_is_with_the_broker(spec):
    runner, step = stepping(spec)
    assert step(True, [event(0), event(1)], 1) == ["predictions", "flush", 0]
    assert step(False, [event(2)], 0) == ["predictions"]
    assert step(True, [event(3)], 1) == ["predictions", "flush", 1, 2, 3]
    assert step(False, [event(4)], 0) == ["predictions"]
    # Or when a manifest that holds it is.
    runner.reporter.is_durable([event(4)])
    runner.outputs.log.clear()
    asyncio.run(runner.reporter.send_drifts())
    assert runner.outputs.log == ["flush", 4]
    assert runner.reporter.untold == []


def test_drift_events_that_were_sent_are_not_sent_again(spec):
    tail = RecordedOrder(np.array([5, 6], dtype=np.int64), {"labels": np.array([0, 1], dtype=np.int64)})
    sent = UncommittedOutputs(tail, {}, {}, dict.fromkeys(TOPICS, 0), {}, drift=2)
    _, step = stepping(spec, sent)
    assert step(True, [event(0, 4), event(1, 5), event(2, 6)], 3) == ["predictions", "flush", 2]
    _, step = stepping(spec, sent)  # a changed stream file has fewer events in what was sent
    assert step(True, [event(0, 7)], 1) == ["predictions", "flush", 0]


def test_a_step_that_could_not_be_sent_is_in_no_checkpoint(spec):
    """Another owner has fenced the producer: what was learned of the step goes with the task."""
    runner, _ = stepping(spec)
    ended = []

    async def send(topic: str, batches: object) -> None:
        raise ProducerFenced

    async def nothing(*_: object) -> None:
        pass

    async def end(_: object, error: BaseException) -> None:
        ended.append(type(error))

    async def step(task: PartitionTask) -> bool:
        await task.send_predictions(Step(types.SimpleNamespace(), [], [], [], 0.0))
        return False

    async def run() -> None:
        runner.begin([runner], step)
        while not ended:
            await asyncio.sleep(0)
        runner.outputs.stop = nothing
        await runner.stop()

    runner.outputs.send, runner.host.ended, runner.checkpoints.dirty = send, end, True
    asyncio.run(run())
    assert ended == [ProducerFenced]
    assert runner.life is Life.LOST
    assert runner.outputs.log == []  # nothing was written


def test_a_manifest_s_events_are_sent_by_whoever_comes_next(spec):
    manifest = types.SimpleNamespace(events=[event(3), event(4)], sequence=7)
    state = types.SimpleNamespace(manifest=manifest, n_bytes=0, live_bytes=0)
    sent = NOTHING_SENT._replace(drift=4)
    learner = PartitionLearner(spec)
    learner.drift.n_events = 5
    host = runner_of(spec).host

    async def make() -> PartitionTask:
        return PartitionTask(host, None, learner, state, checkpoint.Encoder("s", 0), Sending(), sent)

    runner = asyncio.run(make())
    asyncio.run(runner.reporter.send_drifts())
    assert runner.outputs.log == ["flush", 4]


def checkpoints_of(spec, n_partitions: int, partition: int = 0) -> Checkpoints:
    """Those of a partition in a worker, in which copying and encoding take half a second of a core each."""

    async def flush() -> None:
        pass

    offsets = itertools.count()

    async def write(_, records) -> list[int]:
        return [next(offsets) for _ in records]

    async def in_thread(function, *args):
        return function(*args)

    def ignore(*_) -> None:
        pass

    inputs = types.SimpleNamespace(tps=lambda _: {}, commit=ignore, end_offset=lambda _: None)
    host = types.SimpleNamespace(spec=spec, in_thread=in_thread, states=range(n_partitions), inputs=inputs)
    reporter = types.SimpleNamespace(keep=ignore, is_durable=ignore)
    outputs = types.SimpleNamespace(flush=flush, write=write)
    state, encoder = StateLog(partition), checkpoint.Encoder("s", partition)
    one = Checkpoints(host, PartitionLearner(spec, partition), state, encoder, outputs, flush, reporter, ignore)
    take, encode = one._take, one._encode
    one._take = lambda: (0.5, take()[1])
    one._encode = lambda beside: (encode(beside)[0], 0.5)
    return one


async def write_one(checkpoints: Checkpoints) -> float:
    """Seconds until the next one is due."""
    began = time.monotonic()
    await checkpoints.begin(lambda: Beside({}, {}, []))
    await checkpoints.settle()
    return checkpoints.due - began


def test_a_checkpoint_that_is_asked_for_while_one_is_written_comes_next(spec):
    one = checkpoints_of(spec, 1)

    async def asked_meanwhile() -> float:
        await one.begin(lambda: Beside({}, {}, []))
        assert one.writing
        one.due = 0.0
        await one.settle()
        return one.due

    assert asyncio.run(asked_meanwhile()) == 0.0
    assert asyncio.run(write_one(one)) > 0.0


def test_a_checkpoint_that_is_asked_for_where_none_can_be_made_stays_asked_for(spec):
    """Nothing stands still for it while another command waits for an instance."""
    one = checkpoints_of(spec, 1)
    take, promotion = one._take, one._learner.promotion
    promotion.asks_checkpoint, one._take = True, lambda: (0.0, None)
    asyncio.run(write_one(one))
    assert (promotion.asks_checkpoint, one.dirty, one.state.manifest) == (True, True, None)
    task = runner_of(spec)  # whose next step has it due
    task.host.inputs.learned = lambda _: None
    task.observer, task.learner, task.checkpoints = types.SimpleNamespace(stepped=lambda *_: None), one._learner, one
    nothing = types.SimpleNamespace(drifts=[], ids=[], events=[])
    for _ in range(2):
        one.due = math.inf
        asyncio.run(task.report(Step(nothing, [], [], [], 0.0)))
        assert one.due == 0.0
    one._take = take
    asyncio.run(write_one(one))
    assert (promotion.asks_checkpoint, one.dirty, one.state.manifest.sequence) == (False, False, 1)


def test_chunks_that_no_checkpoint_needs_any_more_leave_memory(spec):
    one = checkpoints_of(spec, 1)
    for n in range(4):
        one._learner.roles["champion"].model.learn_many([[0.0]], [0.0], [1.0 + n])
        asyncio.run(write_one(one))
    assert one.state.manifest.sequence == 4
    assert set(one.state.chunks) == set(one.state.needed())


@pytest.mark.parametrize(("n_partitions", "seconds"), [(1, 10.0), (8, 80.0)])
def test_the_partitions_of_a_worker_share_what_checkpoints_may_take(spec, n_partitions, seconds):
    """A checkpoint that takes a second of a core, where they may take a tenth of one."""
    assert asyncio.run(write_one(checkpoints_of(spec, n_partitions))) == pytest.approx(seconds, rel=0.4)


def test_partitions_whose_checkpoints_are_asked_for_at_once_write_the_next_ones_one_after_the_other(monkeypatch):
    """At a rebalance; each goes on as it did before, every eight seconds."""
    base = {"name": "s", "task": "classification", "features": {"a": "numeric"}, "champion": "last-label"}
    spec = build({**base, "partitions": 4, "checkpoint": {"every": "8s", "share": 1.0}}, "s")
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    ones = [checkpoints_of(spec, 1, partition) for partition in range(4)]
    first = [one.due for one in ones]

    def next_due(at: float) -> list[float]:
        now[0] = at
        return [at + asyncio.run(write_one(one)) for one in ones]

    assert next_due(1000.0) == pytest.approx(first)
    assert next_due(1008.1) == pytest.approx([due + 8.0 for due in first])
    assert next_due(1024.1) == pytest.approx([due + 24.0 for due in first])


def test_steps_are_taken_on_the_event_loop_as_long_as_those_of_their_size_are_brief():
    brief = Brief()
    assert brief.most == 0  # the first goes to a thread: it may take long
    for n, seconds, few, clock in (
        (3, 0.002, 6, time.perf_counter),
        (1, 0.002, 6, time.perf_counter),
        (6, 0.0045, 12, time.perf_counter),
        (10, 0.015, 12, busy_time),  # others may have had the processor meanwhile
        (12, 0.0075, 12, busy_time),  # long enough
        (10, 0.015, 5, busy_time),
        (400, 0.015, 5, busy_time),  # in a thread
        (8192, 0.0025, 512, time.perf_counter),
    ):
        brief.judge(n, seconds)
        assert (brief.most, brief.clock(n)) == (few, clock)


def test_a_schema_is_waited_for_with_few_looks_at_the_records_that_wait(spec):
    runner, waited = runner_of(spec), []

    async def wait(seconds: float) -> None:
        waited.append(seconds)

    runner._asking = types.SimpleNamespace(wait=wait)
    asyncio.run(runner.schemas())
    assert waited[0] >= 0.05


def test_long_steps_are_found_among_many_that_are_brief():
    brief = Brief()
    brief.judge(256, 0.002)
    assert brief.most == 512
    for _ in range(2):  # first it only looks long
        assert brief.clock(1) is time.perf_counter
        brief.judge(1, 0.0001)
        brief.judge(400, 0.04)
    assert brief.most == 200


@pytest.mark.parametrize("on_the_loop", [True, False])
def test_what_is_done_between_steps_is_not_brief_while_its_thread_waits_for_others(on_the_loop, monkeypatch):
    models = types.SimpleNamespace(may_wait=not on_the_loop, hold=lambda: on_the_loop, let_go=lambda: None)
    brief = Brief()
    brief.most, worker = 4, types.SimpleNamespace(in_thread=asyncio.to_thread)
    step = waiting_step(monkeypatch)
    for most in (4, 2):  # first it only looks long
        asyncio.run(brief.run(4, step, models, worker))
        assert brief.most == most


@pytest.mark.parametrize("on_the_loop", [True, False])
def test_a_step_is_not_brief_while_its_thread_waits_for_others(spec, on_the_loop, monkeypatch):
    """The event loop waits as long, whoever's processor time it is."""
    shared, runner = waiting_step(monkeypatch), runner_of(spec)
    runner.host.in_thread = asyncio.to_thread
    runner.learner = types.SimpleNamespace(
        learning=types.SimpleNamespace(
            may_wait=not on_the_loop, hold=lambda: on_the_loop, let_go=lambda: None, takes=lambda n: None
        ),
        stages=lambda *_: (shared() or 0.0 for _ in range(2)),
        step=lambda release: shared(),
        unencoded=lambda outcome: None,
    )
    runner.made_of = lambda outcome, _=None: (outcome, [], [], [])
    runner._brief.most = 4

    for most in (4, 2):
        asyncio.run(runner.step(types.SimpleNamespace(n=4)))
        assert runner._brief.most == most


def test_brief_work_waits_while_a_thread_has_the_models_and_goes_to_none(spec):
    """Partitions whose steps went to threads held up each other's next ones, and so on for ever."""
    worker, replica, began, end = object.__new__(WorkerContext), Replica(spec), threading.Event(), threading.Event()
    worker._off, worker._pool = set(), ThreadPoolExecutor(2)
    brief, where = Brief(), list[threading.Thread]()
    brief.most = 4

    def copy() -> None:
        with replica.lock:
            began.set()
            end.wait()

    def step() -> None:
        with replica.lock:
            where.append(threading.current_thread())

    async def take_turns() -> None:
        copying = asyncio.create_task(worker.in_thread(copy))
        await asyncio.to_thread(began.wait)
        steps = [asyncio.create_task(brief.run(1, step, replica, worker)) for _ in range(8)]
        await asyncio.sleep(0.01)
        end.set()
        await asyncio.gather(copying, *steps)

    asyncio.run(take_turns())
    worker._pool.shutdown()
    assert where == [threading.main_thread()] * 8


FOREST = {"model": "random-forest"}
TREE = {"model": "hoeffding-tree"}


@pytest.mark.parametrize(
    ("champion", "challengers", "holds"),
    [
        (TREE, {}, True),
        (FOREST, {}, False),
        (TREE, {"forest": FOREST}, False),
        ({"model": "opinion-pool", "members": {"tree": TREE, "forest": FOREST}}, {}, False),
    ],
)
def test_a_step_that_may_wait_for_a_fit_is_never_taken_on_the_event_loop(champion, challengers, holds):
    """A worker whose event loop waits sends no heartbeats, and loses its partitions."""
    models, shared = {"champion": champion, "challengers": challengers}, {"partitions": 2, "learning": "shared"}
    spec = build({"name": "s", "task": "classification", "features": {"a": "numeric"}, **models}, "s")
    learning = PartitionLearner(spec).learning
    assert learning.hold() is holds
    replica = Replica(build({"name": "s", "task": "classification", "features": {"a": "numeric"}, **shared, **models}))
    assert replica.hold()
    replica.begin(PartitionLearner(replica._spec).learning.lineup)
    assert replica.hold() is holds


def test_a_partition_that_others_wait_for_in_vain_is_to_be_loaded_again_with_a_replica_of_its_own(spec, monkeypatch):
    """It replays behind the worker's replica, and its topic does not answer."""
    bounds: list[int | None] = []
    models = types.SimpleNamespace(place=7, waits_for=lambda _: True)
    replica = types.SimpleNamespace(models=models, hold_back=lambda _, place: bounds.append(place))
    script = RecordedOrder(np.array([5, 6]), {"labels": np.array([0, 0]), "learned": np.array([7, 9])})
    runner = runner_of(spec, UncommittedOutputs(script, {}, {}, dict.fromkeys(TOPICS, 0), {}))
    runner.buffers["learned"], runner._replays = RecordQueue(), True
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    runner._replay(runner.learner.learning, replica)
    assert bounds == [7]
    assert runner.buffers["learned"].next_offset == 7
    now[0] += STALLED_SECONDS - 1
    runner._replay(runner.learner.learning, replica)
    runner.learner.places["features"] = 6  # one was replayed: the next one was predicted two records on
    runner._replay(runner.learner.learning, replica)
    assert bounds == [7, 9]
    now[0] += STALLED_SECONDS - 1
    runner._replay(runner.learner.learning, replica)
    now[0] += 2
    with pytest.raises(AloneError, match="nothing has come for 10 s, and others wait for it"):
        runner._replay(runner.learner.learning, replica)
    runner.learner.places["features"] = 7
    runner._replay(runner.learner.learning, replica)
    assert bounds[-1] is None
    assert not runner._replays


@pytest.mark.parametrize("waits_to", ["join", "predict"])
def test_a_partition_that_may_not_step_takes_no_turn_before_the_replica_has_learned_more(spec, waits_to):
    """What has been due since then does not become due again and again: the event loop has others to serve."""
    runner = runner_of(spec)

    async def join(_: object) -> bool:
        return False

    if waits_to == "join":
        runner.replica, runner._replays = types.SimpleNamespace(join=join, first=None), True
        runner.learner.learning.joins = True
        runner.reporter.due = runner.checkpoints.due = 0.0
    else:
        runner.shared.behind._learning = types.SimpleNamespace(most_at_once=10, copies=1, lags=lambda *_: True)
        runner._releases.due = 0.0
        runner.buffers["features"].add(batch(0, 1))
    runner.checkpoints.dirty = waits_to == "join"
    before = time.monotonic()
    assert not asyncio.run(agent.turn(runner))
    assert before < runner._next_due() <= time.monotonic() + 1.0
    runner.learned_more()
    assert runner.awake


def test_figures_are_taken_anew_where_something_was_learned_also_while_they_are_taken(spec):
    runner, n_taken = runner_of(spec), 0
    reporter, nothing = runner.reporter, types.SimpleNamespace(drifts=[], ids=[], events=[])

    async def run(_, take, *__):
        nonlocal n_taken
        n_taken += 1
        if n_taken == 2:
            await reporter.stepped(nothing)
        return take()

    async def send(*_: object) -> None:
        pass

    async def told() -> int:
        await reporter.send_metrics()
        return n_taken

    reporter._brief = types.SimpleNamespace(run=run)
    runner.outputs.send_one = reporter._send_state_of_partition = send
    assert [asyncio.run(told()) for _ in range(2)] == [1, 1]
    runner.learned_more()
    assert [asyncio.run(told()) for _ in range(3)] == [2, 3, 3]
    before = reporter.due
    asyncio.run(told())
    assert reporter.due >= before


def test_in_a_backlog_partitions_that_learn_one_model_go_in_the_order_of_their_records(spec):
    first, second = tasks = [runner_of(spec), runner_of(spec)]
    end, tp = 10, TP("s.features", 1)
    second.partition, second.tps, second._roles = 1, {"features": tp}, {tp: "features"}
    second.epochs = {tp: 2}
    for one in tasks:
        one.host.tasks, one.replica = dict(enumerate(tasks)), types.SimpleNamespace()
        one.learner.learning.turn = 5
        one.host.inputs.end_offset, one.host.inputs.reached = lambda _: end, lambda _, end, n: n >= end
        one.released_at = time.monotonic()
    first.add(FEATURES, Fetched(batch(0, 10, time=2000), epoch=2))
    assert first._waits_for_others()  # what stands in the other one is still to come
    end = 0
    assert not first._waits_for_others()
    second.add(tp, Fetched(batch(0, 10, time=1000), epoch=2))
    assert first._waits_for_others()
    assert not second._waits_for_others()
    assert [one.next_time for one in tasks] == [2000, 1000]
    first.learner.learning.turn = 11  # no backlog
    assert not first._waits_for_others()
    first.learner.learning.turn = 5
    first.released_at -= 1
    assert first._waits_for_others()
    second.released_at -= 1  # nobody goes on
    assert not first._waits_for_others()
    first.released_at = time.monotonic()
    assert not first._waits_for_others()  # nor does anybody wait for that one again
    second.stalls = False  # it has gone on
    assert first._waits_for_others()
    first.host.tasks = {}  # it is being dropped, with the last of them
    assert not first._waits_for_others()
    first.host.tasks = dict(enumerate(tasks))
    second.buffers["features"].take(10)
    second.add(tp, Fetched(batch(10, 10, time=2000), epoch=2))
    assert not first._waits_for_others()
    assert second._waits_for_others()


@pytest.mark.parametrize("on_the_loop", [True, False])
@pytest.mark.parametrize(("learning", "most"), [({"max_behind": 30}, 30), ("shared", 8)])
def test_what_partitions_of_a_round_release_is_counted_before_it_is_joined(learning, most, on_the_loop):
    """All of them release before any has joined. Without a bound each waits for what those before it join."""
    model = {"task": "classification", "features": {"a": "numeric"}, "champion": "last-label"}
    spec = build({"name": "s", **model, "partitions": 16, "learning": learning}, "s")
    replica, runners, fails = Replica(spec), [], False
    for p in range(16):
        learner = PartitionLearner(spec, p, FollowedLearning)
        learner.learning.wait_for(replica)
        assert learner.learning.join()
        runners.append(runner := runner_of(spec, learner=learner))
        runner.replica, runner._brief.most = types.SimpleNamespace(hurry=lambda: None), 512 if on_the_loop else 0
        runner.host.in_thread, runner._releases.next = asyncio.to_thread, partial(runner.merge.release, EVERYTHING)
        runner.made_of = lambda outcome, _=None: (outcome, [], [], [])
        for role, rest in (("features", {"x": {"a": 1}}), ("labels", {"y": "q"})):
            values = [json.dumps({"id": str(i), **rest}).encode() for i in range(40)]
            runner.buffers[role].add(RawBatch(list(range(40)), list(range(1000, 1040)), [None] * 40, values))

    async def turn(runner: PartitionTask) -> None:
        release = runner.release()
        if release.n:
            assert replica.in_step <= most
            if fails:
                del release.pieces["features"]
            await runner.step(release)

    async def round_of_all() -> int:
        before = [len(one.buffers["features"]) for one in runners]
        left = eagerly(*map(turn, runners))
        found = await asyncio.gather(*(one for one in left if isinstance(one, asyncio.Task)), return_exceptions=True)
        assert any(isinstance(one, Exception) for one in [*left, *found]) is fails
        assert replica.in_step == 0
        return sum(len(one.buffers["features"]) < n for one, n in zip(runners, before, strict=True))

    assert asyncio.run(round_of_all()) == 1
    assert 0 < replica.behind <= most
    if learning == "shared":
        assert asyncio.run(round_of_all()) == 0  # until the models have learned
    replica.lineup.numbers |= {p: one.learner.learning.joined for p, one in enumerate(runners)}
    replica.stale = True
    assert asyncio.run(round_of_all()) == 1
    replica.lineup.numbers |= {p: one.learner.learning.joined for p, one in enumerate(runners)}
    replica.stale = fails = True
    assert asyncio.run(round_of_all())  # a step that failed joins nothing


def test_predictions_that_wait_for_the_models_have_others_append_what_they_joined(spec):
    one, other = runner_of(spec), runner_of(spec)
    one.host.tasks, hurried = {0: one, 1: other}, []
    one.replica = types.SimpleNamespace(hurry=lambda: hurried.append(True))
    one.shared.behind._learning = types.SimpleNamespace(most_at_once=10, copies=1, lags=lambda n, _: n > 0)
    one.add(FEATURES, Fetched(batch(0, 10), epoch=2))
    other.shared._joined, other.shared._due = [object()], 1e9
    one.awake = other.awake = False
    assert one.release().n == 0
    assert hurried
    assert other.awake
    assert other.shared.due == 0.0
    assert not one.awake


def test_a_task_is_held_until_it_releases_or_ends_and_a_step_of_another_has_it_look_again(spec):
    held, other = runner_of(spec), runner_of(spec)
    host, lags = held.host, True

    async def ignore(*_: object) -> None:
        pass

    async def stopped_within_a_turn() -> None:
        goes_on = asyncio.Event()
        held.punctuate, held._turns = goes_on.wait, asyncio.create_task(held._take(agent.turn))
        await asyncio.sleep(0)
        stopping = asyncio.create_task(held.stop())
        await asyncio.sleep(0)
        goes_on.set()
        await stopping

    for one in (held, other):
        one.host, one.replica = host, types.SimpleNamespace(hurry=lambda: None, first=None, leave=ignore)
    other.observer = types.SimpleNamespace(stepped=lambda *_: None)
    held.outputs = held.reporter._outputs = types.SimpleNamespace(flush=ignore, stop=ignore, send_one=ignore)
    host.inputs.learned, host.inputs.end_offset = lambda _: None, lambda _: 40
    host.fetches.ask_at = lambda _: None
    held.shared.behind._learning = types.SimpleNamespace(most_at_once=10, copies=1, lags=lambda *_: lags)
    held.add(FEATURES, Fetched(batch(0, 10), epoch=2))
    assert held.release().n == 0
    assert (host.held, held.learner.learning.backlog) == ({held}, 40)
    held.awake = other.awake = False
    nothing = types.SimpleNamespace(drifts=[], ids=[], events=[])
    asyncio.run(other.report(Step(nothing, [], [], [], 0.0)))
    assert (held.awake, other.awake) == (True, False)
    lags, held._releases.next = False, partial(held.merge.release, EVERYTHING)
    assert held.release().n == 10
    assert not host.held
    lags = True
    held.add(FEATURES, Fetched(batch(10, 10), epoch=2))
    asyncio.run(stopped_within_a_turn())
    assert (held.life, len(held.buffers["features"]), host.held) == (Life.CLOSED, 10, set())


def test_what_is_appended_names_the_predictions_that_the_broker_may_not_have(spec):
    """Whoever comes next makes those that are missing at the places where they were made."""
    runner, orders = runner_of(spec), []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in range(4)]

        async def append() -> None:
            runner.shared._joined, runner.shared._due = [types.SimpleNamespace(y=[1])], 0.0
            await runner.shared.append()
            assert runner.shared.latest == float("inf")

        def of(*places):
            offsets, labels = np.array(places).T
            return types.SimpleNamespace(offsets=offsets, next_offsets={"labels": labels})

        runner.shared._outputs = types.SimpleNamespace(acknowledged=Outputs.acknowledged)
        runner.shared._records = lambda _, order: [orders.append(order)][:0]
        await append()
        await runner.shared.sends(of((3, 1), (4, 1)), futures[:2])
        await runner.shared.sends(of((5, 1)), [])  # these were there
        await runner.shared.sends(of((6, 2)), futures[2:3])
        await append()
        for future in futures[:2]:
            future.set_result(None)
        await append()
        futures[2].set_result(None)
        await append()
        await runner.shared.sends(of((7, 2)), futures[3:])
        futures[3].set_exception(MessageSizeTooLargeError())
        with pytest.raises(BrokerError, match=r"max\.message\.bytes"):
            await append()

    asyncio.run(run())
    assert orders == [None, [3, 1, 1, 0, 2, 1], [6, 2], None]


def test_what_the_broker_has_taken_goes_to_the_replica_by_its_offset_and_stamp(spec):
    runner, taken, futures = runner_of(spec), [], []

    async def run() -> None:
        async def append(topic, value, time_ms):
            futures.append(asyncio.get_running_loop().create_future())
            sent.append((value, time_ms))
            return futures[-1]

        sent = []
        runner.replica = types.SimpleNamespace(appended=lambda *one: taken.append(one))
        runner.shared._outputs = types.SimpleNamespace(append=append, acknowledged=Outputs.acknowledged)
        runner.shared._joined, runner.shared._records = (
            [types.SimpleNamespace(y=[1])],
            lambda *_: [b"a", b"b", b"c", b"d"],
        )
        await runner.shared.append()
        done = types.SimpleNamespace(offset=7, timestamp=0, timestamp_type=0, log_start_offset=0)
        futures[0].set_result(done)
        futures[1].set_result(types.SimpleNamespace(**{**vars(done), "offset": 8, "timestamp": 5, "timestamp_type": 1}))
        futures[2].set_result(types.SimpleNamespace(**{**vars(done), "log_start_offset": -1}))  # sent before
        futures[3].set_exception(KafkaError())
        await asyncio.sleep(0)
        assert taken == [(7, sent[0][1], b"a"), (8, 5, b"b")]
        for again in (runner.shared.append, runner.shared.flush, runner.shared.append):  # nothing comes behind the gap
            with pytest.raises(KafkaError):
                await again()
        assert len(futures) == 4

    asyncio.run(run())


def test_what_is_appended_by_another_producer_comes_behind_all_that_was_before(spec):
    """A reader takes the instances of a partition by their numbers, and refuses what comes before its turn."""
    runner = runner_of(spec)

    async def run() -> None:
        class Log:
            def __init__(self) -> None:
                self.values, self.futures, self.acknowledged = [], [], Outputs.acknowledged

            async def append(self, topic, value, time_ms):
                self.values.append(value)
                self.futures.append(asyncio.get_running_loop().create_future())
                return self.futures[-1]

        def append(value):
            runner.shared._joined, runner.shared._records = [types.SimpleNamespace(y=[1])], lambda *_: [value]
            return asyncio.create_task(runner.shared.append())

        async def settle():
            for _ in range(5):
                await asyncio.sleep(0)

        done = types.SimpleNamespace(offset=7, timestamp=0, timestamp_type=0, log_start_offset=0)
        own, together = Log(), Log()
        runner.shared._outputs = runner.shared._appender = own
        await append(b"a")
        for appender, before, after in ((together, own, b"b"), (None, together, b"c")):
            runner.host.appender = appender
            waits = append(after)
            await settle()
            assert not waits.done()
            before.futures[-1].set_result(done)
            await waits
        assert (own.values, together.values) == ([b"a", b"c"], [b"b"])
        runner.host.appender = together
        waits = append(b"x")
        await settle()
        runner.host.appender = None  # which has ended before it was changed to
        own.futures[-1].set_result(done)
        await waits
        assert (own.values, together.values) == ([b"a", b"c", b"x"], [b"b"])
        runner.outputs, own.flush = own, settle
        flushes = [asyncio.create_task(runner.flush()) for _ in range(3)]  # of checkpoints, beside a turn
        await settle()
        await append(b"d")  # of which they know nothing
        own.futures[-2].set_result(done)
        await asyncio.gather(*flushes)
        runner.host.appender = own
        own.futures[-1].set_exception(KafkaError())
        await settle()
        assert runner.host.appender is None  # others need not meet it
        with pytest.raises(KafkaError):
            await append(b"e")

    asyncio.run(run())
