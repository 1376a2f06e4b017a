"""Whether input topics still are what a state was learned from: every way in which offsets and marks can differ."""

import asyncio
import types

import msgspec
import pytest

from riparian.app.errors import StateError
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import Bounds
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.inputs import Gaps, Lost, Mark, Position, check, gone, mark, records_lost
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup, RecordedOrder
from riparian.app.state.loading import Loaded
from riparian.app.stream_file.spec import build
from riparian.app.worker.task import continuity, uncommitted_outputs
from riparian.app.worker.task.uncommitted_outputs import UncommittedOutputs
from riparian.topics.names import HEADER_OFFSET, HEADER_TOPIC, INPUTS, OUTPUTS
from riparian.topics.records import RawBatch

FIELDS = {"name": "s", "task": "classification", "features": {"a": "numeric"}, "champion": "last-label"}
LAST = Mark(9, 1000, b"digest")


def test_a_checkpoint_counts_the_gaps_behind_it():
    gaps = Gaps({"labels": Lost(7, 10)})
    gaps.skip("labels", 12, 20)
    gaps.skip("labels", 30, 35)
    assert (gaps.n("labels"), gaps.n("features")) == (20, 0)
    assert gaps.behind({"labels": 11})["labels"] == Lost(7, 10)
    assert gaps.behind({"labels": 12})["labels"] == Lost(15, 20)
    assert gaps.behind({"labels": 29})["labels"] == Lost(15, 20)
    assert gaps.behind({"labels": 30})["labels"] == Lost(20, 35)
    gaps.skip("features", 5, 6)
    assert gaps.behind({"labels": 99, "features": 0}) == {"labels": Lost(20, 35), "features": Lost(0, 0)}


def place(**changed):
    return Position(**{"topic": "t", "partition": 2, "wanted": 10, "seen": 10, "mark": LAST, **changed})


@pytest.mark.parametrize(
    ("position", "first", "end", "found", "n"),
    [
        (place(), 0, 10, LAST, 0),
        (place(), 0, 99, None, 0),  # compacted away
        (place(mark=None), 10, 99, None, 0),
        (place(), 11, 99, None, 1),
        (place(), 40, 40, None, 30),  # nothing is left
        (place(wanted=None, seen=0, mark=None), 40, 99, None, 0),  # began in the middle
        (place(wanted=30), 40, 99, None, 10),  # up to 30 it is known that they are gone
    ],
)
def test_what_is_lost(position, first, end, found, n):
    assert check(position, first, end, found) == n


@pytest.mark.parametrize(
    ("position", "end", "found", "said"),
    [
        (place(), 9, None, r"partition 2 has seen t\[2\] up to offset 10, and the topic ends at 9: the topic was del"),
        (place(seen=1234), 1233, LAST, "up to offset 1,234"),
        (
            place(),
            99,
            LAST._replace(digest=b"other"),
            r"record at offset 9 of t\[2\] is not the one that the state of p",
        ),
        (place(), 99, LAST._replace(timestamp=1001), "is not the one"),
    ],
)
def test_another_topic_is_refused(position, end, found, said):
    with pytest.raises(StateError, match=said):
        check(position, 0, end, found)


def test_sentences():
    assert gone("t", 0, 5, 6) == "1 record of t[0] (offset 5) deleted before they were learned"
    assert gone("t", 0, 1000, 3000) == "2,000 records of t[0] (offsets 1,000 to 2,999) deleted before they were learned"
    assert str(records_lost("t", 0, 5, 7)).startswith("Kafka has 2 records of t[0] (offsets 5 to 6) deleted")


def test_a_mark_tells_keys_from_values_and_nothing_from_no_bytes():
    pairs = [
        (b"a", b"b"),
        (b"ab", b""),
        (b"", b"ab"),
        (None, b"ab"),
        (b"ab", None),
        (None, None),
        (b"", b""),
        (b"1", b""),
    ]
    assert len({mark(1, 2, key, value) for key, value in pairs}) == len(pairs)
    assert mark(1, 2, b"k", b"v") == mark(1, 2, b"k", b"v")


def records(offsets, value=b'{"id": "%d", "x": {"a": 1}}'):
    values = [value % offset for offset in offsets]
    return RawBatch(list(offsets), [1000 + offset for offset in offsets], [None] * len(values), values)


def learner_of(spec, offsets=(), limit=100, partition=0):
    learner = PartitionLearner(spec, partition)
    merge = PartitionGroup(limit=limit)
    merge.buffers["features"].add(records(offsets))
    merge.buffers["labels"].add(records(offsets, b'{"id": "%d", "y": "a"}'))
    while merge.n_waiting:
        learner.step(merge.release(EVERYTHING))
    return learner


def test_marks_are_of_the_last_records_whatever_the_batches_and_survive_a_restart():
    spec = build(FIELDS, "s")
    whole, cut = learner_of(spec, range(20)), learner_of(spec, range(20), limit=3)
    assert whole.marks() == cut.marks()
    assert whole.marks()["features"] == mark(19, 1019, None, b'{"id": "19", "x": {"a": 1}}')
    assert whole.marks()["labels"] == mark(19, 1019, None, b'{"id": "19", "y": "a"}')
    assert whole.digest() == cut.digest()
    again = PartitionLearner(spec)
    meta = msgspec.msgpack.decode(msgspec.msgpack.encode(whole.snapshot().meta))
    again.restore(whole.snapshot()._replace(meta=meta))
    assert again.marks() == whole.marks()
    assert again.digest() == whole.digest()
    other = learner_of(spec, range(20))
    other.logs.last_taken["features"] = (19, 1019, None, b"another record")
    assert other.marks() != whole.marks()
    assert other.digest() == whole.digest()  # marks say what was read, not what was learned
    # States of versions without marks go on without.
    again.restore(whole.snapshot()._replace(meta={k: v for k, v in meta.items() if k != "marks"}))
    assert again.marks() == {}


def examined(monkeypatch, spec, *, learner=None, lost=None, manifest=True, script=(), rejected=None, **topics):
    """`check_inputs` of one partition. topics : role -> (first, end), the records being those that were learned."""
    asked = {}

    async def read_to_end(connection, starts, take, stops=None):
        for tp, start in starts.items():
            first, end = topics[tp.topic.partition(".")[2]]
            asked[tp.topic] = range(max(start, first), min(stops[tp], end))
            value = b'{"id": "%d", "x": {"a": 1}}' if tp.topic == "s.features" else b'{"id": "%d", "y": "a"}'
            raw = records(asked[tp.topic], value)
            take(
                tp,
                [
                    types.SimpleNamespace(offset=o, timestamp=t, key=k, value=v)
                    for o, t, k, v in zip(*raw[:4], strict=True)
                ],
            )
        return {tp: Bounds(*topics[tp.topic.partition(".")[2]]) for tp in starts}

    monkeypatch.setattr(continuity, "read_to_end", read_to_end)
    known = types.SimpleNamespace(lost=lost or {}) if manifest else None
    loaded = types.SimpleNamespace(learner=learner or PartitionLearner(spec), manifest=known)
    order = RecordedOrder.of(INPUTS, script)
    found = asyncio.run(
        continuity.check_inputs(
            spec, Connection("broker:9092"), [loaded], [UncommittedOutputs(order, rejected or {}, {}, {}, {})]
        )
    )
    assert all(len(offsets) <= 1 for offsets in asked.values())
    return found[0]


def test_a_state_goes_on_where_it_stands(monkeypatch):
    spec = build(FIELDS, "s")
    learner = learner_of(spec, range(20))
    found = examined(monkeypatch, spec, learner=learner, features=(0, 25), labels=(20, 20))
    assert found == {"features": Lost(0, 20), "labels": Lost(0, 20)}
    learner.logs.last_taken["features"] = (19, 1019, None, b"another record")
    with pytest.raises(StateError, match=r"offset 19 of s\.features"):
        examined(monkeypatch, spec, learner=learner, features=(0, 25), labels=(20, 20))
    with pytest.raises(StateError, match=r"seen s\.labels.* up to offset 20, and the topic ends at 19"):
        examined(monkeypatch, spec, learner=learner_of(spec, range(20)), features=(0, 25), labels=(0, 19))


def test_gaps_stop_or_are_counted_once(monkeypatch):
    spec = build(FIELDS, "s")
    learner = learner_of(spec, range(20))
    with pytest.raises(StateError, match=r"5 records of s.labels\[0\] \(offsets 20 to 24\)"):
        examined(monkeypatch, spec, learner=learner, features=(0, 25), labels=(25, 30))
    spec = build({**FIELDS, "lost": "skip"}, "s")
    found = examined(monkeypatch, spec, learner=learner, features=(0, 25), labels=(25, 30))
    assert found["labels"] == Lost(5, 25)
    # Nothing was taken since: the next owner counts them no more, but those that went meanwhile.
    found = examined(monkeypatch, spec, learner=learner, lost=found, features=(0, 25), labels=(25, 30))
    assert found["labels"] == Lost(5, 25)
    found = examined(monkeypatch, spec, learner=learner, lost=found, features=(0, 25), labels=(27, 30))
    assert found["labels"] == Lost(7, 27)


def test_a_new_stream_begins_where_its_topics_do(monkeypatch):
    spec = build(FIELDS, "s")
    found = examined(monkeypatch, spec, manifest=False, features=(70, 90), labels=(30, 40))
    assert found == {"features": Lost(0, 70), "labels": Lost(0, 30)}
    # It has checkpointed before the first label came, and labels were deleted since.
    learner = PartitionLearner(spec)
    with pytest.raises(StateError, match="offsets 30 to 34"):
        examined(monkeypatch, spec, learner=learner, lost=found, features=(70, 90), labels=(35, 40))
    # Formats before did not say where a stream began.
    assert examined(monkeypatch, spec, learner=learner, features=(70, 90), labels=(35, 40))["labels"] == Lost(0, 35)


def test_without_a_state_the_outputs_tell_what_is_needed(monkeypatch):
    spec = build(FIELDS, "s")
    script = [(70, 0), (71, 0), (75, 33)]
    found = examined(monkeypatch, spec, manifest=False, script=script, features=(70, 90), labels=(30, 40))
    assert found == {"features": Lost(0, 70), "labels": Lost(0, 30)}  # 30 and 31 may have been taken before 32
    with pytest.raises(StateError, match="offsets 70 to 71"):
        examined(monkeypatch, spec, manifest=False, script=script, features=(72, 90), labels=(30, 40))
    with pytest.raises(StateError, match=r"s.labels\[0\] \(offset 32\)"):
        examined(monkeypatch, spec, manifest=False, script=script, features=(70, 90), labels=(33, 40))
    with pytest.raises(StateError, match="up to offset 76, and the topic ends at 75"):
        examined(monkeypatch, spec, manifest=False, script=script, features=(70, 75), labels=(30, 40))
    with pytest.raises(StateError, match="up to offset 41, and the topic ends at 40"):
        examined(monkeypatch, spec, manifest=False, rejected={"s.labels": 41}, features=(70, 90), labels=(30, 40))


PREDICTION = b'{"offset": %d, "label_offset": %d}'


def read_back(monkeypatch, records, end=10_000, start=50):
    """`tail.read_tails` of one partition whose output topics hold `records` ((role, offset, value, headers))."""
    spec = build(FIELDS, "s")
    asked = []

    async def read_to_end(connection, starts, take, isolation):
        asked.append(starts)
        for tp, begin in starts.items():
            found = [
                types.SimpleNamespace(offset=offset, value=value, headers=headers)
                for role, offset, value, headers in records
                if f"s.{role}" == tp.topic and offset >= begin
            ]
            if found:
                take(tp, found)
        return {tp: Bounds(0, end) for tp in starts}

    monkeypatch.setattr(uncommitted_outputs, "read_to_end", read_to_end)
    manifest = types.SimpleNamespace(outputs=dict.fromkeys(OUTPUTS, start))
    loaded = Loaded(learner_of(spec, range(20)), None, manifest, [])
    return asyncio.run(uncommitted_outputs.read_tails(spec, Connection("broker:9092"), [loaded]))[0], asked


def test_what_was_sent_is_read_from_the_checkpoint_on(monkeypatch):
    rows = [
        ("predictions", 49, b"not read", []),
        *(("predictions", 50 + i, PREDICTION % (18 + i, i), []) for i in range(5)),
    ]
    found, asked = read_back(monkeypatch, rows)
    assert found.script.offsets.tolist() == [20, 21, 22]
    assert found.script.next_offsets["labels"].tolist() == [2, 3, 4]
    assert len(asked) == 1
    assert found.drift == 0


def test_the_number_of_the_last_drift_event_is_read_back(monkeypatch):
    rows = [("drift", 49, b'{"number": 90}', []), ("drift", 50, b'{"number": 7}', [])]
    found, _ = read_back(monkeypatch, rows)
    assert found.drift == 8


def test_outputs_that_were_deleted_are_read_from_their_beginning(monkeypatch):
    found, asked = read_back(monkeypatch, [("predictions", i, PREDICTION % (18 + i, i), []) for i in range(5)], end=5)
    assert found.script.offsets.tolist() == [20, 21, 22]
    assert set(asked[1].values()) == {0}
    assert found.starts["s.predictions"] == 0
    assert found.ends["s.predictions"] == 5


@pytest.mark.parametrize(
    "row",
    [
        ("predictions", b"hello", []),
        ("predictions", None, []),
        ("predictions", b'{"id": 1}', []),
        ("predictions", PREDICTION % (20, 5), []),  # once more
        ("predictions", PREDICTION % (30, 4), []),  # a label taken back
        ("metrics", b"[]", []),
        ("drift", b'{"stream": "s"}', []),
        ("deadletters", b"anything", []),
        ("deadletters", b"anything", [(HEADER_TOPIC, b"s.features"), (HEADER_OFFSET, b"x")]),
        ("deadletters", b"anything", [(HEADER_TOPIC, None), (HEADER_OFFSET, b"1")]),
    ],
)
def test_records_that_no_worker_wrote_are_refused_by_their_place(monkeypatch, row):
    role, value, headers = row
    rows = [("predictions", 50, PREDICTION % (20, 5), []), (role, 51, value, headers)]
    with pytest.raises(
        StateError, match=rf"the record at offset 51 of s.{role}\[0\] is none that a worker of the stream s"
    ):
        read_back(monkeypatch, rows)
