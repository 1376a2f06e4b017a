"""Where the other topics ended, as far as the answers to fetches tell."""

import asyncio
import types

import pytest
from aiokafka.protocol.fetch import FetchRequest
from faust.types import TP

from riparian.app.worker.answers import BURST, FETCH_SECONDS, SMALL_BYTES, Answers

F, L = TP("f", 0), TP("l", 0)


def answer(*partitions, version=11):
    """Of (topic, end) or (topic, end, error), in this order; records of `f` have a byte each."""
    topics = [
        (topic, [(0, *(error or [0]), 0, end, 0, [], -1, b"x" * end if topic == "f" else b"")])
        for topic, end, *error in partitions
    ]
    return types.SimpleNamespace(API_VERSION=version, topics=topics)


def test_an_end_counts_that_was_read_behind_the_records():
    answers = Answers()
    answers.add(0, answer(("f", 10), ("l", 7)))
    assert answers.ends(F, ["f", "l"]) == {L: 7}
    assert answers.ends(L, ["f", "l"]) is None  # it was read before: what came to `f` meanwhile would be missed
    assert answers.ends(F, ["f", "l", "other"]) is None
    assert answers.ends(F, ["f"]) == {}


def test_an_end_counts_that_was_asked_for_after_the_records_had_come():
    answers = Answers()
    answers.add(0, answer(("f", 10)))
    answers.add(0, answer(("l", 7)))  # of another broker, asked at the same time
    assert answers.ends(F, ["f", "l"]) is None
    answers.add(1, answer(("l", 8)))  # asked when the first answer had come, and before the second
    assert answers.ends(F, ["f", "l"]) == {L: 8}
    answers.add(3, answer(("f", 11)))
    assert answers.ends(F, ["f", "l"]) is None
    assert answers.ends(L, ["f", "l"]) == {F: 11}


def test_a_partition_with_an_error_and_an_old_broker_tell_nothing():
    answers = Answers()
    answers.add(0, answer(("f", 10), ("l", 7)))
    answers.add(1, answer(("f", 10), ("l", 7, [6])))
    assert answers.ends(F, ["f", "l"]) is None
    answers.add(2, answer(("f", 10), ("l", 7), version=3))
    assert answers.ends(F, ["f", "l"]) is None


def test_fetches_name_the_features_first_but_in_a_backlog():
    asked, end = [], 10

    async def send(node_id, request, **options):
        asked.append([topic for topic, _ in request.topics] if isinstance(request, FetchRequest) else request)
        return answer(("f", end), ("l", 7))

    client = types.SimpleNamespace(send=send)
    answers = Answers(frozenset("f"))
    answers.watch(client)

    def fetch():
        asyncio.run(client.send(0, FetchRequest(0, 1, 2, 1, [("l", [(0, 0, 1)]), ("f", [(0, 0, 1)])])))

    asyncio.run(client.send(0, "another request"))
    fetch()
    end = SMALL_BYTES + 1
    fetch()
    fetch()
    assert asked == ["another request", ["f", "l"], ["f", "l"], ["l", "f"]]
    assert answers.ends(F, ["f", "l"]) == {L: 7}


def test_a_broker_is_asked_five_hundred_times_a_second_at_most_but_for_a_few():
    answers, now, waited = Answers(), 100.0, []
    for _ in range(1000):  # each is answered at once
        early = max(0.0, answers._early(0, now))
        waited.append(early)
        now += early
    assert waited[: BURST + 1] == [0.0] * (BURST + 1)
    assert now - 100.0 == pytest.approx((1000 - BURST - 1) * FETCH_SECONDS)
    assert answers._early(1, now) < 0  # another broker
    assert answers._early(0, now + 1.0) < 0  # after a pause
    slow = Answers()
    assert all(slow._early(0, 50.0 + n / 450) <= 0 for n in range(1000))  # what waits for records is not held up
