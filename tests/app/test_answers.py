"""Where the other topics ended, as far as the answers to fetches tell."""

import asyncio
import types

import pytest
from aiokafka.protocol.fetch import FetchRequest
from faust.types import TP

from riparian.app.worker.faust_client.end_offsets import (
    BURST,
    FETCH_SECONDS,
    LONGEST_SECONDS,
    SHARE,
    SMALL_BYTES,
    EndOffsets,
)

F, L = TP("f", 0), TP("l", 0)


def answer(*partitions, version=11):
    """Of (topic, end) or (topic, end, error), in this order; records of `f` have a byte each."""
    topics = [
        (topic, [(0, *(error or [0]), 0, end, 0, [], -1, b"x" * end if topic == "f" else b"")])
        for topic, end, *error in partitions
    ]
    return types.SimpleNamespace(API_VERSION=version, topics=topics)


def ends(answers, tp, *others):
    """Where others ended, as is known of what came with the last answer for a partition."""
    seen = answers.seen(tp)
    return None if seen is None else answers.ends(seen, others)


def test_an_end_counts_that_was_read_behind_the_records():
    answers = EndOffsets()
    answers.add(0, answer(("f", 10), ("l", 7)))
    assert ends(answers, F, L) == {L: 7}
    assert ends(answers, L, F) is None  # it was read before: what came to `f` meanwhile would be missed
    assert ends(answers, F, L, TP("other", 0)) is None
    assert ends(answers, F) == {}
    before = answers.seen(L)
    answers.add(1, answer(("f", 12), ("l", 7)))  # of the next fetch
    assert answers.ends(before, [F]) == {F: 12}


def test_an_end_counts_that_was_asked_for_after_the_records_had_come():
    answers = EndOffsets()
    answers.add(0, answer(("f", 10)))
    answers.add(0, answer(("l", 7)))  # of another broker, asked at the same time
    assert ends(answers, F, L) is None
    answers.add(1, answer(("l", 8)))  # asked when the first answer had come, and before the second
    assert ends(answers, F, L) == {L: 8}
    answers.add(3, answer(("f", 11)))
    assert ends(answers, F, L) is None
    assert ends(answers, L, F) == {F: 11}


def test_a_partition_with_an_error_and_an_old_broker_tell_nothing():
    answers = EndOffsets()
    answers.add(0, answer(("f", 10), ("l", 7)))
    answers.add(1, answer(("f", 10), ("l", 7, [6])))
    assert ends(answers, F, L) is None
    answers.add(2, answer(("f", 10), ("l", 7), version=3))
    assert ends(answers, F, L) is None


def test_the_client_is_left_what_holds_something():
    told = [("f", 0), ("l", 7), ("l", 3, [6]), ("f", 2)]
    for version, replica, left in ((11, -1, [0, 0, 1, 1]), (11, 5, [1, 1, 1, 1]), (3, -1, [1, 1, 1, 1])):
        found = answer(*told, version=version)
        found.topics = [
            (topic, [(*one[:6], replica, one[7]) for one in partitions]) for topic, partitions in found.topics
        ]
        assert EndOffsets().add(0, found) == (2 if version == 11 else 0)
        assert [len(partitions) for _, partitions in found.topics] == left
    answers = EndOffsets()
    answers.add(0, answer(("f", 10), ("l", 7)))
    answers.forget([F])
    assert answers.seen(F) is None
    assert answers.seen(L).end == 7


def test_fetches_name_the_features_first_but_in_a_backlog():
    asked, end = [], 10

    async def send(node_id, request, **options):
        asked.append([topic for topic, _ in request.topics] if isinstance(request, FetchRequest) else request)
        return answer(("f", end), ("l", 7))

    client = types.SimpleNamespace(send=send)
    answers = EndOffsets(frozenset("f"))
    answers.watch(client)

    def fetch():
        asyncio.run(client.send(0, FetchRequest(0, 1, 2, 1, [("l", [(0, 0, 1)]), ("f", [(0, 0, 1)])])))

    asyncio.run(client.send(0, "another request"))
    fetch()
    end = SMALL_BYTES + 1
    fetch()
    fetch()
    assert asked == ["another request", ["f", "l"], ["f", "l"], ["l", "f"]]
    assert ends(answers, F, L) == {L: 7}


@pytest.mark.parametrize("n", [2, 128])
@pytest.mark.parametrize("cost", [0.0, 0.002, 1.0])
def test_a_broker_is_asked_five_hundred_times_a_second_at_most_but_for_a_few_and_less_where_rounds_cost_more(n, cost):
    answers, now, waited = EndOffsets(), 100.0, []
    seconds = min(max(FETCH_SECONDS, cost / SHARE), LONGEST_SECONDS)
    answers._early(0, 0.0, -cost, n)
    for i in range(1000):  # each is answered at once
        early = max(0.0, answers._early(0, now, i * cost, n))
        waited.append(early)
        now += early
    assert waited.count(0.0) == 1 + int(2 * BURST * FETCH_SECONDS / n / seconds)
    assert now - 100.0 == pytest.approx((1000 - 1) * seconds - 2 * BURST * FETCH_SECONDS / n)
    assert answers._early(1, now, 0.0, n) < 0  # another broker
    assert answers._early(0, now + 1.0, 1000 * cost, n) < 0  # after a pause
    slow = EndOffsets()
    assert all(slow._early(0, 50.0 + i / 400, 0.0, 2) <= 0 for i in range(1000))  # what waits for records goes on
