"""The log of partitions that learn one model: the same bits by the recorded order, whatever was cut and restarted
where, and what may stand in it."""

import json
from functools import cache, partial
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.outcome import DeadLetter
from riparian.app.partition.records.partition_group import PartitionGroup, RecordedOrder
from riparian.app.partition.shared.sharing import records, together
from riparian.topics.names import FEATURES, LABELS, LEARNED
from riparian.topics.records import RawBatch
from riparian.topics.schemas import Written
from riparian.topics.training_log import LearnedCommand, LearnedRecord, read, write
from tests.app.shared_world import DECISIONS, RULE, TREE, World, commanded, lived, pool, replayed, rows, said, stream

CALIBRATED = {"coverage": 0.9, "calibrated": True}
WORLDS = [
    partial(lived, predictions={**CALIBRATED, "reasons": 2}),
    partial(commanded, control=True, promotion=RULE, predictions=CALIBRATED),
    *(partial(lived, predictions={"challengers": True}, decision=one) for one in DECISIONS.values()),
    *(partial(commanded, control=True, decision=DECISIONS[name]) for name in ("costs", "recall")),
]


@cache
def world_of(number: int) -> World:
    make = WORLDS[number]
    return make.func(stream(**make.keywords))


@settings(deadline=None, max_examples=8)
@given(
    st.integers(0, len(WORLDS) - 1),
    st.integers(0, 2),
    st.lists(st.integers(1, 80), max_size=8),
    st.sets(st.integers(0, 7), max_size=3),
)
@example(4, 0, [1, 5], {1})  # a restart before a label of the class that a precision is about
def test_the_recorded_order_gives_the_same_bits_however_cut_and_restarted(number, p, cuts, restarts):
    world = world_of(number)
    learner, sent = replayed(world, p, cuts, {i for i in restarts if i < len(cuts)})
    assert list(map(said, map(json.loads, sent))) == list(map(said, map(json.loads, world.sent[p])))
    assert learner.digest() == world.learners[p].digest()


@pytest.mark.parametrize("name", ["avro", "json-schema", "protobuf"])
def test_predictions_of_a_registry_record_the_order_as_those_in_json_do(name: str) -> None:
    """What they say, and what is read back of them, is what JSON has; so are the bits of a fold by them."""
    fields = {"predictions": {"coverage": 0.9, "reasons": 2, "challengers": True}}
    registered = {"codec": {"predictions": name}, "registry": {"url": "http://127.0.0.1:1"}}
    spec = stream(2, **fields, **registered)
    codec = spec.make_codec()
    assert codec.prediction is not None
    spec.schemas.written["predictions"] = Written(7, codec.prediction)
    world, plain = lived(spec, 300), lived(stream(2, **fields), 300)
    places: set[int] = set()
    for p in (0, 1):
        told = [json.loads(value) for value in plain.sent[p]]
        assert list(map(said, map(codec.read_prediction, world.sent[p]))) == list(map(said, told))
        places |= {one["learned_offset"] for one in told}
        learner, sent = replayed(world, p, [30, 7, 50], {1})
        assert list(map(said, map(codec.read_prediction, sent))) == list(map(said, told))
        assert learner.digest() == world.learners[p].digest()
    assert len(places) > 10


def test_what_was_appended_is_joined_again_after_the_last_prediction() -> None:
    """An owner dies after it has appended what it joined. Its successor has to take the labels that this came from
    before any other feature, although a feature with an earlier time has come in the meantime."""
    world = World(stream(1))
    world.come(rows(30))
    world.step(0)
    learner = world.learners[0]
    assert learner.places[LABELS] == 30
    reached = {FEATURES: learner.places[FEATURES], LABELS: learner.places[LABELS]}
    world.raw[0][FEATURES].append((1000, json.dumps({"id": "29", "x": {"a": 0.5}}).encode()))  # again, and early
    other = PartitionLearner(world.spec, 0)
    codec = other.codec
    places = [codec.read_place(value).places(codec.index_bits) for value in world.sent[0]]
    merge = PartitionGroup(other.buffers(), RecordedOrder.of(list(other.rules), places)._replace(reached=reached))
    for role in (LABELS, FEATURES):
        found = world.raw[0][role]
        columns = list(range(len(found))), [t for t, _ in found], [None] * len(found), [v for _, v in found]
        merge.buffers[role].add(RawBatch(*columns))
    joined: list[LearnedRecord] = []
    while merge.follows:
        release = merge.release()
        assert release.n
        joined += [one for joint in other.step(release).joint for one in records(joint, 0, reached, 7)]
    assert other.places == {FEATURES: 30, LABELS: 30, LEARNED: 0}
    first = records(world.outcomes[0][0].joint[0], 0, reached, 7)
    labels = [[str(one.classes[int(y)]) for one in found for y in np.frombuffer(one.y)] for found in (joined, first)]
    assert labels[0] == labels[1]
    assert len(labels[0]) == 30
    a = [np.concatenate([one.columns()[0][:, 0] for one in found]) for found in (joined, first)]
    np.testing.assert_array_equal(*a)


def test_what_several_steps_have_joined_is_one_record_of_the_same_instances() -> None:
    world = lived(stream(1), 200)
    single = [read(value) for value in world.log]
    joined = [one for outcome in world.outcomes[0] for one in outcome.joint]
    whole = [read(write(one)) for joint in together(joined) for one in records(joint, 0, {}, 7)]
    assert len(whole) == 1 < len(single)
    learner = PartitionLearner(world.spec, 0)
    merge = PartitionGroup(learner.buffers())
    merge.buffers[LEARNED].add(RawBatch([0], [0], [None], [write(whole[0])]))
    learner.step(merge.release())
    learner.lineup.place = world.learners[0].lineup.place
    assert learner.lineup.digest() == world.learners[0].lineup.digest()


def test_a_record_that_comes_twice_is_learned_once() -> None:
    world = lived(stream(1), 60)
    learner, whole = PartitionLearner(world.spec, 0), world.log
    again = [whole[0], whole[1], whole[0], whole[1], *whole[2:]]
    merge = PartitionGroup(learner.buffers())
    merge.buffers[LEARNED].add(RawBatch(list(range(len(again))), [0] * len(again), [None] * len(again), again))
    learner.step(merge.release())
    assert learner.learning.lineup.n == 60


def test_records_of_before_count_what_members_said() -> None:
    """Those of the log that an earlier version has appended are learned as they were."""
    world = lived(stream(champion=pool(t=TREE, n="naive-bayes")))
    numbers = {"champion/member-t": "champion/0", "champion/member-n": "champion/1"}
    log = list[bytes]()
    for one in map(read, world.log):
        assert isinstance(one, LearnedRecord)
        assert numbers.keys() < one.out.keys()
        log.append(write(msgspec.structs.replace(one, out={numbers.get(n, n): out for n, out in one.out.items()})))
    world.log = log
    assert replayed(world, 1, [], set())[0].digest() == world.learners[1].digest()


@cache
def log_of_one() -> list[bytes]:
    return lived(stream(1), 60).log


def broken() -> list[LearnedRecord]:
    one = read(log_of_one()[0])
    change = msgspec.structs.replace
    nan = np.full(one.n, np.nan).tobytes()
    return [
        change(one, version=3),
        change(one, first=-1),
        change(one, x=one.x[:-8]),
        change(one, y=b""),
        change(one, y=nan),
        change(one, y=np.full(one.n, 99.0).tobytes()),
        change(one, at=np.full(one.n, -1).tobytes()),
        change(one, values=one.values[:-1]),
        change(one, classes=None),
        change(one, values=[["x"], *one.values[1:]]),
        change(one, out={"champion": (3, b"12345678")}),
        change(one, x=np.full((one.n, 3), 0.5).tobytes()),
        *(
            change(one, terms=change(one.terms, **wrong))
            for wrong in (
                {"seed": -1},
                {"most": [None, 5]},
                {"most": [5, 5, 5]},
                {"most_classes": None},
                {"most_classes": 0},
                {"weights": {"p": 0.0}},
                {"weights": {"p": float("nan")}},
                {"costs": {"p": {"q": float("inf")}}},
                {"costs": {"p": {"q": -1.0}}},
                {"target": ("recall", "x" * 1025)},
            )
        ),
        change(one, x=np.full((one.n, 3), np.inf).tobytes()),
        change(one, out={"champion": (2, np.full((one.n, 2), np.inf).tobytes())}),
        change(one, first=1),
        change(one, first=1 << 63),
        change(one, time=1 << 63),
        change(one, places={"features": 1 << 63}),
        change(one, partition=100_000),
        change(one, classes=["x" * 1025]),
    ]


def taken(*values: bytes | None, **fields: Any) -> tuple[PartitionLearner, dict[str, list[DeadLetter]]]:
    """The learner, and the dead letters, of these records of the log and of a good one behind them."""
    learner = PartitionLearner(stream(1, **fields))
    merge = PartitionGroup(learner.buffers())
    whole = [*values, log_of_one()[0]]
    merge.buffers[LEARNED].add(RawBatch(list(range(5 - len(whole), 5)), [0] * len(whole), [None] * len(whole), whole))
    return learner, learner.step(merge.release()).rejected


COMMAND = write(LearnedCommand(2, 7, b'{"id": "1", "command": "pause"}'))


@pytest.mark.parametrize("record", [b"", b"{}", b"\xff\xff", None, COMMAND, *(write(one) for one in broken())])
def test_what_no_worker_has_written_is_a_dead_letter_and_the_rest_is_learned(record: bytes | None) -> None:
    learner, rejected = taken(record)
    assert [(one.offset, one.value, one.reason) for one in rejected[LEARNED]] == [(3, record, "wrong-learned")]
    assert learner.learning.lineup.n > 0
    assert not learner.lineup.steering.paused
    assert learner.lineup.digest() == taken()[0].lineup.digest()


def test_a_command_of_no_place_is_a_dead_letter_where_commands_are_obeyed() -> None:
    command = LearnedCommand(2, 1 << 63, b"")
    learner, rejected = taken(write(command), control=True)
    assert [one.reason for one in rejected[LEARNED]] == ["wrong-learned"]
    assert learner.learning.lineup.next_command == 0


def test_predictions_of_more_classes_than_there_are_count_nothing() -> None:
    one = read(lived(stream(1), 60).log[0])
    wide = np.zeros((one.n, 99)).tobytes()
    learner, rejected = taken(write(msgspec.structs.replace(one, out={"champion": (99, wide)})))
    assert not rejected.get(LEARNED)
    assert learner.learning.lineup.n == taken()[0].learning.lineup.n == one.n
