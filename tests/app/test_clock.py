"""Stream time against a naive one that looks at all records again for each."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from riparian.app.partition.records.clock import BOUND_MS, LATEST_MS, Clock, orders
from riparian.app.partition.records.partition_group import RecordQueue
from riparian.topics.names import TIMESTAMP_AFTER_MS
from riparian.topics.records import RawBatch
from tests.app.naive_clock import naive_effective, naive_times

START = 1_760_000_000_000
YEAR_9000 = 221_845_392_000_000

# Steps of seconds, gaps of minutes and days, what no clock shows.
step = st.sampled_from([0, 1, 900, 20_000, 59_999, 60_000, 60_001, 61_000, 200_000, 86_400_000])
odd = st.sampled_from([-1, 0, START, START + 3_480_000, YEAR_9000, 2**62])


@st.composite
def timestamps(draw: st.DrawFn, most: int = 40) -> list[int]:
    now, found = draw(st.sampled_from([0, START])), []
    for kind in draw(st.lists(st.integers(0, 5), max_size=most)):
        now += draw(step)
        late = draw(st.sampled_from([0, 5, 30_000, 90_000])) if kind == 1 else 0
        found.append(draw(odd) if kind == 0 else now - late)
    return found


def advanced(clock: Clock, stamps: list[int]) -> list[int]:
    return clock.advance(np.array(stamps, np.int64)).tolist()


@pytest.fixture(scope="module", autouse=True)
def _warm():
    """Compile before hypothesis looks at the clock."""
    Clock().advance(np.array([START], np.int64))
    orders(np.array([START], np.int64), 0)


@given(timestamps(), st.lists(st.integers(0, 7), min_size=1))
def test_time_follows_from_the_order_of_the_records_wherever_they_are_cut(stamps, sizes):
    stamps = [min(stamp, LATEST_MS) for stamp in stamps]
    whole = Clock()
    assert advanced(whole, stamps) == naive_times(stamps)
    clock, times, at, turn = Clock(), [], 0, 0
    while at < len(stamps):
        size = sizes[turn % len(sizes)] + (turn % 2)
        times += advanced(clock, stamps[at : at + size])
        at, turn = at + size, turn + 1
        clock = Clock(clock.time, clock.stamps, clock.leaps)  # as from a state
    assert times == naive_times(stamps)
    assert (clock.time, clock.leaps) == (whole.time, whole.leaps)
    known = [0, 0, 0, *times]
    ignored = sum(max(0, stamp) > time for stamp, time in zip(stamps, times[3:], strict=False))
    jumps = sum(0 < known[i - 1] < known[i] - BOUND_MS for i in range(3, len(known)))
    assert clock.leaps == [jumps, ignored]


@given(timestamps(), st.integers(0, 40))
@example([START, START + 70_000, START + 20_000, START + 140_000, START + 141_000, START + 142_000], 3)
@example([*[START] * 4, *[START + 200_000] * 2, START + 1000, START + 200_000, *[START + 2000] * 4], 2)  # two of four
def test_an_order_goes_on_from_the_clock_of_any_record(stamps, cut):
    """A worker that starts in a backlog puts the rest where one that did not end would."""
    stamps = [min(stamp, LATEST_MS) for stamp in stamps]
    cut = min(cut, len(stamps))
    clock = Clock()
    clock.advance(np.array(stamps[:cut], np.int64))
    buffer = RecordQueue(cut, clock.time, clock.stamps)
    rest = stamps[cut:]
    if rest:
        n = len(rest)
        buffer.add(RawBatch(list(range(cut, cut + n)), rest, [None] * n, [None] * n))
    assert buffer.times().tolist() == naive_effective(stamps)[cut:]
    assert all(time <= place for time, place in zip(naive_times(stamps), naive_effective(stamps), strict=True))


@pytest.mark.parametrize("place", [0, 1, 50, 98, 99])
@pytest.mark.parametrize("stamp", [YEAR_9000, 2**63 - 1, START + 3_480_000])
def test_one_record_moves_neither_time_nor_order(place, stamp):
    usual = [START + 1000 * i for i in range(100)]
    stamps = [*usual[:place], stamp, *usual[place + 1 :]]
    clock = Clock()
    times = advanced(clock, stamps)
    # The first records wait for three others to say what time it is.
    assert times[4:] == [usual[i] if i != place else usual[i - 1] for i in range(4, 100)]
    assert clock.leaps == [0, place < 97]
    effective, n_certain = orders(np.array(stamps), 0)
    assert n_certain == min(100, place if place > 96 else 100)
    others = [i for i in range(100) if i != place]
    assert effective[others].tolist() == [usual[i] for i in others]


def test_topics_are_made_to_refuse_what_would_not_be_believed():
    assert TIMESTAMP_AFTER_MS <= BOUND_MS


def test_after_a_week_end_four_records_say_that_it_is_monday():
    friday = [START + i for i in range(10)]
    monday = [START + 2 * 86_400_000 + 1000 * i for i in range(6)]
    clock = Clock()
    assert advanced(clock, friday + monday)[10:] == [friday[-1]] * 3 + monday[3:]
    assert clock.leaps == [1, 0]


def test_a_topic_with_a_record_a_day_is_three_records_late_and_in_order():
    days = [START + 86_400_000 * i for i in range(20)]
    assert advanced(Clock(), days)[3:] == days[:-3]
    effective, n_certain = orders(np.array(days), 0)
    assert (effective.tolist(), n_certain) == (days, 17)
