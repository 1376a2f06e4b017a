"""The merge of two topics against a naive model: sort everything by (effective time, features first, offset)."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.partition.merge import EVERYTHING, Buffer, Ends, Merge, Script
from topics.records import RawBatch


def raw(start: int, timestamps: list[int]) -> RawBatch:
    n = len(timestamps)
    return RawBatch(list(range(start, start + n)), list(timestamps), [None] * n, [b"x"] * n)


def naive_order(features: list[int], labels: list[int]) -> list[tuple[str, int]]:
    """The whole order, from all records at once. A topic's time is the largest timestamp so far."""
    events = []
    for kind, (name, stamps) in enumerate((("f", features), ("l", labels))):
        latest = 0
        for offset, stamp in enumerate(stamps):
            latest = max(latest, stamp)
            events.append((latest, kind, offset, name))
    return [(name, offset) for _, _, offset, name in sorted(events)]


def order_of(release) -> list[tuple[str, int]]:
    events, label = [], 0
    label_offsets = release.labels.offsets.tolist()
    for offset, before in zip(release.features.offsets.tolist(), release.labels_before.tolist(), strict=True):
        events += [("l", o) for o in label_offsets[label:before]]
        label = before
        events.append(("f", offset))
    return events + [("l", o) for o in label_offsets[label:]]


stamps = st.lists(st.integers(0, 30), max_size=30)
cuts = st.lists(st.integers(1, 5), min_size=1, max_size=40)


def feed(merge: Merge, features: list[int], labels: list[int], cuts: list[int]) -> list[tuple[str, int]]:
    """Deliver both topics in batches, in turns, releasing after each; nothing is caught up before the end."""
    events, at = [], {"f": 0, "l": 0}
    sources = {"f": (merge.features, features), "l": (merge.labels, labels)}
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
    while len(merge.features) or len(merge.labels):
        events += order_of(merge.release(EVERYTHING))
    return events


@given(stamps, stamps, cuts, st.integers(1, 8))
def test_order_is_that_of_one_sort_however_the_batches_were_cut(features, labels, cuts, limit):
    merge = Merge(Buffer(), Buffer(), limit=limit)
    assert feed(merge, features, labels, cuts) == naive_order(features, labels)


@given(stamps, stamps, cuts, st.data())
def test_a_recorded_order_is_followed_and_then_timestamps_decide(features, labels, cuts, data):
    n = data.draw(st.integers(0, len(features)))
    wanted = sorted(data.draw(st.lists(st.integers(0, len(labels)), min_size=n, max_size=n)))
    script = Script(np.arange(n, dtype=np.int64), np.array(wanted, dtype=np.int64))
    merge = Merge(Buffer(), Buffer(), script, limit=data.draw(st.integers(1, 8)))
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
    script = Script(np.array([0, 2], dtype=np.int64), np.array([0, 3], dtype=np.int64))
    merge = Merge(Buffer(), Buffer(), script)
    merge.features.add(raw(0, [10, 11, 12]))
    merge.labels.add(raw(0, [1, 1, 1, 1]))
    first = merge.release(EVERYTHING)
    assert order_of(first) == [("f", 0), ("l", 0), ("l", 1), ("l", 2), ("f", 1), ("f", 2)]
    assert merge.script is None


@pytest.mark.parametrize(("time", "before"), [(0, 1), (15, 1), (25, 2), (30, 2), (35, 3), (99, 3)])
def test_a_feature_whose_prediction_was_lost_goes_by_time_between_its_neighbours(time, before):
    script = Script(np.array([0, 2], dtype=np.int64), np.array([1, 3], dtype=np.int64))
    merge = Merge(Buffer(), Buffer(), script)
    merge.features.add(raw(0, [0, time, 99]))
    merge.labels.add(raw(0, [10, 20, 30, 40]))
    assert merge.release().labels_before.tolist() == [1, before, 3]


def test_features_wait_for_labels_that_may_still_come():
    merge = Merge(Buffer(), Buffer())
    merge.features.add(raw(0, [10, 20]))
    assert order_of(merge.release()) == []
    merge.labels.add(raw(0, [15]))
    assert order_of(merge.release()) == [("f", 0), ("l", 0)]
    assert order_of(merge.release(Ends(2, 0))) == [("f", 1)]


def test_known_records_are_skipped():
    buffer = Buffer(next_offset=5, time=100)
    assert buffer.add(raw(3, [101, 102, 103, 104])) == 2
    assert buffer.offsets().tolist() == [5, 6]
    assert buffer.add(raw(3, [101, 102])) == 2
    assert len(buffer) == 2


@pytest.mark.parametrize("n", [0, 1, 3, 4, 7])
def test_take_cuts_pieces(n):
    buffer = Buffer()
    buffer.add(raw(0, [1, 2, 3, 4]))
    buffer.add(raw(4, [5, 4, 9]))
    piece = buffer.take(n)
    assert piece.offsets.tolist() == list(range(n))
    assert list(piece.raw.offsets) == list(range(n))
    assert piece.times.tolist() == [1, 2, 3, 4, 5, 5, 9][:n]
    assert len(buffer) == 7 - n
    assert buffer.take(7 - n).offsets.tolist() == list(range(n, 7))


def test_what_was_recorded_of_records_that_are_gone_holds_nothing_up():
    script = Script(np.array([5, 6, 7]), np.array([1, 2, 3]))
    merge = Merge(Buffer(5), Buffer(1), script)
    merge.labels.add(raw(1, [10, 20, 30]))
    merge.features.add(raw(9, [15]))  # 5 to 8 were deleted
    assert order_of(merge.release()) == [("l", 1), ("f", 9)]
    assert merge.script is None
    # Nothing has come yet, but nothing that it tells of can come any more.
    merge = Merge(Buffer(8), Buffer(1), script)
    merge.labels.add(raw(1, [10]))
    assert order_of(merge.release(Ends(8, 2))) == [("l", 1)]
