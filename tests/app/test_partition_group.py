"""The merge of two topics against a naive model: sort everything by (effective time, features first, offset)."""

# Timestamps in milliseconds: those within a minute never leap, and an effective time is then the largest so far.

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riparian.app.partition.records.partition_group import (
    EVERYTHING,
    Ends,
    PartitionGroup,
    RecordedOrder,
    RecordQueue,
    Release,
)
from riparian.topics.names import AS_IT_COMES
from riparian.topics.records import RawBatch
from tests.app.naive_clock import naive_effective


def raw(start: int, timestamps: list[int]) -> RawBatch:
    n = len(timestamps)
    return RawBatch(list(range(start, start + n)), list(timestamps), [None] * n, [b"x"] * n)


def naive_order(features: list[int], labels: list[int]) -> list[tuple[str, int]]:
    """The whole order, from all records at once."""
    events = []
    for kind, (name, stamps) in enumerate((("f", features), ("l", labels))):
        events += [(time, kind, offset, name) for offset, time in enumerate(naive_effective(stamps))]
    return [(name, offset) for _, _, offset, name in sorted(events)]


def order_of(release) -> list[tuple[str, int]]:
    events, label = [], 0
    label_offsets = release.pieces["labels"].offsets.tolist()
    for offset, before in zip(
        release.pieces["features"].offsets.tolist(), release.before["labels"].tolist(), strict=True
    ):
        events += [("l", o) for o in label_offsets[label:before]]
        label = before
        events.append(("f", offset))
    return events + [("l", o) for o in label_offsets[label:]]


minutes = st.integers(0, 6).map(lambda n: 61_000 * n)
stamp = st.one_of(st.integers(0, 30), st.tuples(minutes, st.integers(-3, 3)).map(sum), st.just(221_845_392_000_000))
stamps = st.one_of(
    st.lists(st.integers(0, 30), max_size=30), st.lists(stamp, max_size=30), st.lists(stamp, max_size=30).map(sorted)
)
cuts = st.lists(st.integers(1, 5), min_size=1, max_size=40)


def feed(merge: PartitionGroup, features: list[int], labels: list[int], cuts: list[int]) -> list[tuple[str, int]]:
    """Deliver both topics in batches, in turns, releasing after each; nothing is caught up before the end."""
    events, at = [], {"f": 0, "l": 0}
    sources = {"f": (merge.buffers["features"], features), "l": (merge.buffers["labels"], labels)}
    for turn, size in enumerate(itertools.cycle(cuts)):
        name = "fl"[(turn + size // 2) % 2] if turn % 3 else "fl"[turn % 2]
        buffer, all_stamps = sources[name]
        batch = all_stamps[at[name] : at[name] + size]
        if batch:
            buffer.add(raw(at[name], batch))
            at[name] += len(batch)
        events += order_of(merge.release())
        if at["f"] == len(features) and at["l"] == len(labels):
            break
    while merge.n_waiting:
        events += order_of(merge.release(EVERYTHING))
    return events


@pytest.fixture(scope="module", autouse=True)
def _warm():
    """Compile before hypothesis looks at the clock."""
    RecordQueue().add(raw(0, [10**12]))


@given(stamps, stamps, cuts, st.integers(1, 8), st.integers(1, 3))
def test_order_is_that_of_one_sort_however_the_batches_were_cut(features, labels, cuts, limit, copies):
    merge = PartitionGroup(limit=limit)
    merge.copies = copies
    assert feed(merge, features, labels, cuts) == naive_order(features, labels)


def test_of_labels_that_come_to_all_partitions_more_are_taken_at_once():
    merge = PartitionGroup(limit=3)
    merge.copies = 4
    merge.buffers["features"].add(raw(0, [10, 20, 30, 40, 50]))
    merge.buffers["labels"].add(raw(0, [11 + 2 * i for i in range(20)]))
    taken = [{role: len(piece.offsets) for role, piece in merge.release(EVERYTHING).pieces.items()} for _ in range(3)]
    assert taken[0] == {"features": 3, "labels": 12}
    assert [sum(one.values()) for one in taken[1:]] == [10, 0]


@given(stamps, stamps, cuts, st.data())
def test_a_recorded_order_is_followed_and_then_timestamps_decide(features, labels, cuts, data):
    n = data.draw(st.integers(0, len(features)))
    wanted = sorted(data.draw(st.lists(st.integers(0, len(labels)), min_size=n, max_size=n)))
    script = RecordedOrder(np.arange(n, dtype=np.int64), {"labels": np.array(wanted, dtype=np.int64)})
    merge = PartitionGroup(script=script, limit=data.draw(st.integers(1, 8)))
    events = feed(merge, features, labels, cuts)
    assert sorted(events) == sorted(naive_order(features, labels))
    before, n_labels = {}, 0
    for name, offset in events:
        if name == "l":
            n_labels += 1
        else:
            before[offset] = n_labels
    assert [before[i] for i in range(n)] == wanted
    assert [o for name, o in events if name == "f"] == list(range(len(features)))
    assert [o for name, o in events if name == "l"] == list(range(len(labels)))


def test_a_script_with_holes_gives_a_dead_letter_the_label_offset_of_the_next_prediction():
    script = RecordedOrder(np.array([0, 2], dtype=np.int64), {"labels": np.array([0, 3], dtype=np.int64)})
    merge = PartitionGroup(script=script)
    merge.buffers["features"].add(raw(0, [10, 11, 12]))
    merge.buffers["labels"].add(raw(0, [1, 1, 1, 1]))
    first = merge.release(EVERYTHING)
    assert order_of(first) == [("f", 0), ("l", 0), ("l", 1), ("l", 2), ("f", 1), ("f", 2)]
    assert merge.script is None


def test_features_that_nothing_comes_between_are_one_run() -> None:
    merge = PartitionGroup()
    merge.buffers["features"].add(raw(0, [10, 20, 21, 30]))
    merge.buffers["labels"].add(raw(0, [15, 25, 26]))
    runs = [order_of(run) for run in merge.release(EVERYTHING).runs()]
    assert runs == [[("f", 0), ("l", 0)], [("f", 1), ("f", 2), ("l", 1), ("l", 2)], [("f", 3)]]


def test_of_a_fetch_what_stands_below_a_place_is_taken_and_the_rest_when_it_comes_again() -> None:
    merge = PartitionGroup()
    fetched = RawBatch([0, 1, 2], [10, 11, 12], [None] * 3, [b"a", b"b", b"c"])
    assert merge.buffers["features"].add(fetched, below=2) == 0
    assert merge.buffers["features"].add(fetched) == 2
    released = merge.release(EVERYTHING).pieces["features"]
    assert (released.offsets.tolist(), released.stamps.tolist()) == ([0, 1, 2], [10, 11, 12])
    assert list(released.raw.values) == [b"a", b"b", b"c"]


@pytest.mark.parametrize(("time", "before"), [(0, 1), (15, 1), (25, 2), (30, 2), (35, 3), (99, 3)])
def test_a_feature_whose_prediction_was_lost_goes_by_time_between_its_neighbours(time, before):
    script = RecordedOrder(np.array([0, 2], dtype=np.int64), {"labels": np.array([1, 3], dtype=np.int64)})
    merge = PartitionGroup(script=script)
    merge.buffers["features"].add(raw(0, [0, time, 99]))
    merge.buffers["labels"].add(raw(0, [10, 20, 30, 40]))
    assert merge.release().before["labels"].tolist() == [1, before, 3]


@given(stamps, stamps, st.lists(st.integers(1, 7), min_size=1), st.integers(1, 8))
def test_a_topic_that_rests_does_not_change_the_order_of_the_other_ones_backlog(features, labels, sizes, limit):
    """One topic is in memory to its end, the other comes in pieces: leaps at the end of a piece wait for the next."""
    for rests in "fl":
        merge, events = PartitionGroup(limit=limit), []
        buffer, backlog, other, known = merge.buffers["features"], features, merge.buffers["labels"], labels
        ended = Ends({"features": len(features)}, ["features"])
        if rests == "f":
            buffer, backlog, other, known = merge.buffers["labels"], labels, merge.buffers["features"], features
            ended = Ends({"labels": len(labels)}, ["labels"])
        if known:
            other.add(raw(0, known))
        at = turn = 0
        while at < len(backlog):
            size = sizes[turn % len(sizes)]
            buffer.add(raw(at, backlog[at : at + size]))
            at, turn = at + size, turn + 1
            if at < len(backlog):
                while part := order_of(merge.release(ended)):
                    events += part
        while merge.n_waiting:
            events += order_of(merge.release(EVERYTHING))
        assert events == naive_order(features, labels)


def test_a_leap_at_the_end_of_what_was_fetched_waits_and_lets_nothing_pass():
    merge = PartitionGroup()
    merge.buffers["labels"].add(raw(0, [10, 80_000, 80_001, 80_002, 80_003, 80_004]))
    merge.buffers["features"].add(raw(0, [10, 79_000]))
    assert order_of(merge.release()) == [("f", 0)]  # whether 79,000 is the time, nobody knows yet
    merge.buffers["features"].add(raw(2, [79_001, 80_001]))
    assert order_of(merge.release()) == []
    merge.buffers["features"].add(raw(4, [80_002]))
    assert order_of(merge.release()) == [("l", 0), ("f", 1), ("f", 2), ("l", 1), ("f", 3), ("l", 2), ("f", 4)]


def test_a_lone_leap_goes_when_both_topics_are_read_to_their_ends():
    merge = PartitionGroup()
    merge.buffers["features"].add(raw(0, [10**12]))
    assert order_of(merge.release()) == []
    assert order_of(merge.release(Ends({"features": 1, "labels": 0}))) == [("f", 0)]
    merge.buffers["labels"].add(raw(0, [10**12 + 5]))
    assert order_of(merge.release(Ends({"features": 1, "labels": 1}))) == [("l", 0)]
    # What has gone is still a witness: the fourth record says that they all were right.
    merge.buffers["features"].add(raw(1, [10**12 + 10, 10**12 + 20]))
    assert merge.buffers["features"].last_time == 0
    merge.buffers["features"].add(raw(3, [10**12 + 30]))
    assert merge.buffers["features"].last_time == 10**12 + 30


def test_known_records_are_skipped():
    buffer = RecordQueue(next_offset=5, time=100)
    assert buffer.add(raw(3, [101, 102, 103, 104])) == 2
    assert buffer.offsets().tolist() == [5, 6]
    assert buffer.add(raw(3, [101, 102])) == 2
    assert len(buffer) == 2


def test_what_was_recorded_of_records_that_are_gone_holds_nothing_up():
    script = RecordedOrder(np.array([5, 6, 7]), {"labels": np.array([1, 2, 3])})
    merge = PartitionGroup({"features": RecordQueue(5), "labels": RecordQueue(1)}, script)
    merge.buffers["labels"].add(raw(1, [10, 20, 30]))
    merge.buffers["features"].add(raw(9, [15]))  # 5 to 8 were deleted
    assert order_of(merge.release()) == [("l", 1), ("f", 9)]
    assert merge.script is None
    # Nothing has come yet, but nothing that it tells of can come any more.
    merge = PartitionGroup({"features": RecordQueue(8), "labels": RecordQueue(1)}, script)
    merge.buffers["labels"].add(raw(1, [10]))
    assert order_of(merge.release(Ends({"features": 8, "labels": 2}))) == [("l", 1)]


def listed(release: Release) -> list[tuple[str, int]]:
    """The records of a release in their one order."""
    found: list[tuple[str, int]] = []
    offsets = {role: piece.offsets.tolist() for role, piece in release.pieces.items()}
    for i in range(len(offsets["features"]) + 1):
        for role, before in release.before.items():
            start = before[i - 1] if i else 0
            stop = before[i] if i < len(before) else len(offsets[role])
            found += [(role, offset) for offset in offsets[role][start:stop]]
        found += [("features", offset) for offset in offsets["features"][i : i + 1]]
    return found


@given(st.lists(st.integers(0, 9), max_size=6), st.lists(st.integers(0, 9), max_size=6), st.integers(0, 4))
def test_a_release_is_cut_at_any_record_of_any_log(features, labels, commands):
    buffers = {"features": RecordQueue(), "labels": RecordQueue(), "control": RecordQueue(rule=AS_IT_COMES)}
    for role, stamps in (("features", features), ("labels", labels), ("control", [0] * commands)):
        n = len(stamps)
        buffers[role].add(RawBatch(list(range(n)), sorted(stamps), [None] * n, [b"v"] * n))
    merged = PartitionGroup(buffers).release(EVERYTHING)
    # Commands may come anywhere once predictions have recorded their places.
    spread = np.minimum(np.arange(len(features)), commands)
    for release in (merged, merged._replace(before={**merged.before, "control": spread})):
        whole = listed(release)
        assert len(whole) == len(features) + len(labels) + commands
        for at, (role, offset) in enumerate(whole):
            first, rest = release.split(role, offset)
            assert (listed(first), listed(rest)) == (whole[:at], whole[at:])
            assert first.n + rest.n == release.n
