"""What is fetched and not learned stays below a bound, and no partition waits for one that is paused for it."""

import random

import pytest
from faust.types import TP

from riparian.app.worker.faust_client.backpressure import MAX_RECORDS, Backpressure

A, B = TP("features", 0), TP("labels", 0)


def held(max_bytes=1_000_000, tps=(A, B)):
    one = Backpressure(max_bytes)
    one.begin(tps)
    return one


def test_a_full_buffer_pauses_its_own_partition_and_resumes_it_at_half():
    one = held()
    assert not one.add(A, MAX_RECORDS - 1, MAX_RECORDS - 1, 10)
    assert one.add(A, MAX_RECORDS, 1, 10)
    assert not one.add(A, MAX_RECORDS + 5, 5, 10)  # it is paused already
    assert not one.add(B, 5, 5, 10)
    assert one.release(A, MAX_RECORDS - 2) == []  # part of a piece is all of it
    assert one.release(B, 5) == []
    assert one.release(A, MAX_RECORDS) == [A]
    assert one.n_bytes == one.bytes_of(A) == 10


def test_bytes_pause_whoever_has_more_than_a_share_once_half_of_the_room_is_taken():
    one = held()
    assert not one.add(A, 1, 1, 400_000)  # beyond its share of 250,000, and nobody else needs the room
    assert not one.add(B, 1, 1, 150_000)
    assert one.add(A, 2, 1, 1)
    assert one.add(B, 2, 1, 150_000)
    assert one.release(B, 1) == []
    # B holds more than half of its share still; but together they hold less than a quarter of the room.
    assert one.release(A, 1) == [A, B]


def test_what_is_forgotten_is_not_counted():
    one = held()
    one.add(A, 1, 1, 600_000)
    one.begin([A])
    assert one.n_bytes == 0
    one.add(A, 1, 1, 600_000)
    one.end([A, B])
    assert one.n_bytes == one.bytes_of(A) == 0
    assert not one.add(A, 2, 1, 10**9)  # late, of a partition that is no longer ours
    assert one.n_bytes == 0
    assert one.release(A, 2) == []


@pytest.mark.parametrize("n_partitions", [1, 4, 50])
def test_never_more_than_the_bound_and_always_a_way_on(n_partitions):
    """Pieces of any size come for any partition that is not paused; a partition goes on while both its topics have
    something, or where one is empty and not paused."""
    rng = random.Random(n_partitions)
    limit, largest = 10_000_000, 20_000
    tps = [TP(topic, k) for topic in ("f", "l") for k in range(n_partitions)]
    one = held(limit, tps)
    end, paused = dict.fromkeys(tps, 0), set()
    waiting = {tp: [] for tp in tps}
    highest = 0
    for _ in range(20_000):
        open_ = [tp for tp in tps if tp not in paused]
        for tp in rng.sample(open_, min(3, len(open_))):
            end[tp] += 1
            waiting[tp].append(end[tp])
            if one.add(tp, end[tp], 1, rng.randrange(1, largest)):
                paused.add(tp)
        highest = max(highest, one.n_bytes)
        assert one.n_bytes <= limit + 3 * largest
        k = rng.randrange(n_partitions)
        pair = [TP("f", k), TP("l", k)]
        assert all(waiting[tp] or tp not in paused for tp in pair), "it waits for one that nobody fetches"
        if all(waiting[tp] for tp in pair) and rng.random() < 0.4:
            tp = rng.choice(pair)
            done = waiting[tp][: rng.randrange(1, 9)]
            del waiting[tp][: len(done)]
            paused.difference_update(one.release(tp, done[-1]))
    assert highest > limit / 4
