"""The twin of features over a key's past, by examples that were worked out by hand, and against sums of powers of 2."""

import math
import random

import pytest

from tests.app.naive_aggregates import Key, NaiveAggregates, place, tick

HOUR = 3_600_000
DAY = 24 * HOUR
H = 1024 * 3600  # a half-life, about an hour, of whole ticks


def aggregates(features, size=10, idle=None):
    return NaiveAggregates({"card": Key(size, idle), "terminal": Key(size, idle)}, features)


def test_powers_of_two_are_right_to_the_last_bits():
    for i in range(1024):
        assert tick(i) == pytest.approx(2 ** (i / 1024), rel=1e-15)
    assert place(0, H) == (0, 1.0)
    assert place(H, H) == (0, 2.0)
    assert place(256 * H, H) == (1, 1.0)
    assert place(-H, H) == (-1, 2.0**255)
    assert place(-1, H)[1] == pytest.approx(2.0**256, rel=1e-3)


def test_counts_means_and_ratios_by_hand():
    twin = aggregates(
        {
            "n": {"count": "card", "half_life": H},
            "ever": {"count": "card"},
            "mean": {"mean": "amount", "by": "card", "half_life": H},
            "long": {"mean": "amount", "by": "card"},
            "times": {"ratio": "amount", "to": "mean"},
            "trend": {"ratio": "mean", "to": "long"},
            "since": {"since": "card"},
            "last": {"last": "amount", "by": "card"},
            "step": {"ratio": "amount", "to": "last"},
        }
    )
    first = twin.observe(0, {"card": "a"}, {"amount": 8.0})
    assert first == pytest.approx(
        {
            "n": 1.0,
            "ever": 1.0,
            "mean": 8.0,
            "long": 8.0,
            "times": math.nan,
            "trend": math.nan,
            "since": math.nan,
            "last": 8.0,
            "step": math.nan,
        },
        nan_ok=True,
        rel=0,
    )
    # One half-life later: the first event is worth half, so the mean is (8/2 + 2) / (1/2 + 1).
    second = twin.observe(H, {"card": "a"}, {"amount": 2.0})
    assert second == pytest.approx(
        {
            "n": 1.5,
            "ever": 2.0,
            "mean": 4.0,
            "long": 5.0,
            "times": 0.25,
            "trend": 0.5,
            "since": H / 1000,
            "last": 2.0,
            "step": 0.25,
        },
        rel=0,
    )
    # A tie, a missing value: counted, but in no mean, and what was last stays so.
    third = twin.observe(H, {"card": "a"}, {"amount": None})
    assert (third["n"], third["ever"], third["mean"], third["long"]) == (2.5, 3.0, 4.0, 5.0)
    assert (third["since"], third["last"], third["trend"]) == (0.0, 2.0, 0.8)
    assert math.isnan(third["times"])
    assert math.isnan(third["step"])
    # Another card has a past of its own, and a record without a card none.
    assert twin.observe(H, {"card": "b"}, {"amount": math.inf})["n"] == 1.0
    nothing = twin.observe(H, {"card": None, "terminal": 1}, {"amount": 3.0})
    assert all(math.isnan(value) for value in nothing.values())
    assert list(twin.rows["card"]) == ["a", "b"]
    assert list(twin.rows["terminal"]) == [1]


def test_a_mean_of_zero_makes_no_ratio_and_a_mean_of_none_is_missing():
    twin = aggregates({"mean": {"mean": "amount", "by": "card"}, "times": {"ratio": "amount", "to": "mean"}})
    assert math.isnan(twin.observe(0, {"card": 1}, {"amount": 1.1e100})["mean"])
    assert twin.observe(1, {"card": 1}, {"amount": 0.0})["mean"] == 0.0
    assert math.isnan(twin.observe(2, {"card": 1}, {"amount": 5.0})["times"])
    assert twin.observe(3, {"card": 1}, {"amount": 5.0})["times"] == 2.0


def test_late_records_weigh_by_their_own_time():
    features = {
        "n": {"count": "card", "half_life": H},
        "mean": {"mean": "amount", "by": "card", "half_life": H},
        "last": {"last": "amount", "by": "card"},
        "since": {"since": "card"},
    }
    twin = aggregates(features)
    twin.observe(4 * H, {"card": 1}, {"amount": 1.0})
    late = twin.observe(2 * H, {"card": 1}, {"amount": 6.0})
    assert late == {"n": 1.25, "mean": (1 + 6 / 4) / 1.25, "last": 6.0, "since": 0.0}
    after = twin.observe(4 * H, {"card": 1}, {"amount": 1.0})
    assert (after["n"], after["since"]) == (2.25, 0.0)
    # Over an edge of an epoch, 256 half-lives, too; from three epochs on nothing is left.
    twin = aggregates(features)
    twin.observe(256 * H, {"card": 1}, {"amount": 1.0})
    assert twin.observe(255 * H, {"card": 1}, {"amount": 1.0})["n"] == 1.5
    assert twin.observe(257 * H, {"card": 1}, {"amount": 1.0})["n"] == 1.75
    assert twin.observe(1024 * H, {"card": 1}, {"amount": 3.0}) == {
        "n": 1.0,
        "mean": 3.0,
        "last": 3.0,
        "since": 767 * H / 1000,
    }
    assert twin.observe(0, {"card": 1}, {"amount": 9.0})["mean"] == 3.0


def test_labels_count_once_they_have_come_by_the_time_of_their_record():
    twin = aggregates(
        {
            "risk": {"share": "fraud", "by": "terminal", "half_life": H},
            "smooth": {"share": "fraud", "by": "terminal", "half_life": H, "smooth": 2},
        }
    )
    here, there = {"terminal": "t"}, {"terminal": "u"}
    assert all(math.isnan(value) for value in twin.observe(0, here, {}).values())
    twin.observe(H, here, {})
    twin.label(H, here, "fraud")
    twin.label(0, here, "ok")  # which comes later, and is older: worth half of the other
    found = twin.observe(3 * H, here, {})
    assert found["risk"] == 1 / 1.5
    # Two half-lives after the younger one: 1/4 fraud among 3/8, and a share of 1/2 overall.
    assert found["smooth"] == pytest.approx((0.25 + 2 * 0.5) / (0.375 + 2), rel=1e-15)
    other = twin.observe(3 * H, there, {})
    assert math.isnan(other["risk"])
    assert other["smooth"] == 0.5
    numbers = aggregates({"mean": {"mean": "label", "by": "terminal"}, "last": {"last": "label", "by": "terminal"}})
    for label in (1.0, math.nan, 4.0):
        numbers.label(5, here, label)
    assert numbers.observe(6, here, {}) == {"mean": 2.5, "last": 4.0}
    numbers.label(7, {"terminal": None, "card": 1}, 4.0)
    assert list(numbers.rows["card"]) == []
    # A key of which only labels have come has no last record.
    only = aggregates({"risk": {"share": "x", "by": "card"}, "since": {"since": "card"}})
    only.label(5, {"card": 1}, "x")
    found = only.observe(9, {"card": 1}, {})
    assert found["risk"] == 1.0
    assert math.isnan(found["since"])


def test_the_key_that_was_touched_longest_ago_goes():
    twin = aggregates({"n": {"count": "card"}, "risk": {"share": "x", "by": "card"}}, size=2)

    def count(card):
        return twin.observe(0, {"card": card}, {})["n"]

    assert [count(card) for card in "aabb"] == [1, 2, 1, 2]
    assert count("a") == 3
    assert count("c") == 1  # b goes
    assert [count("a"), count("b")] == [4, 1]  # and then c
    twin.label(0, {"card": "a"}, "x")  # so that b is older
    assert count("c") == 1
    assert twin.observe(0, {"card": "a"}, {}) == {"n": 5, "risk": 1.0}
    twin.label(0, {"card": "b"}, "x")  # made anew, in the place of c
    assert list(twin.rows["card"]) == ["a", "b"]
    assert twin.observe(0, {"card": "b"}, {}) == {"n": 1, "risk": 1.0}


def test_an_idle_key_is_new():
    twin = aggregates({"n": {"count": "card"}, "since": {"since": "card"}}, idle=DAY)
    assert twin.observe(0, {"card": 1}, {})["n"] == 1
    assert twin.observe(DAY, {"card": 1}, {}) == {"n": 2, "since": 86_400.0}
    found = twin.observe(2 * DAY + 1, {"card": 1}, {})
    assert found["n"] == 1
    assert math.isnan(found["since"])
    assert twin.observe(0, {"card": 1}, {})["n"] == 2  # late, not idle


@pytest.mark.parametrize("half_life", [2_000, HOUR, DAY, 30 * DAY])
def test_decayed_sums_are_the_sums_of_powers_of_two(half_life):
    features = {
        "n": {"count": "card", "half_life": half_life},
        "mean": {"mean": "amount", "by": "card", "half_life": half_life},
        "risk": {"share": "fraud", "by": "terminal", "half_life": half_life},
        "label": {"mean": "label", "by": "terminal", "half_life": half_life},
    }
    draws = random.Random(half_life)
    width = half_life * 600
    classes, numbers = (
        aggregates({n: what for n, what in features.items() if n != left}) for left in ("label", "risk")
    )
    events, labels = [], []

    def weigh(some, now):
        """Weights at `now` of times, at the ticks that the definition rounds them to."""
        return [2.0 ** ((1024 * time // half_life - 1024 * now // half_life) / 1024) for time, _ in some]

    now = -width // 2  # before 1970
    for _ in range(400):
        now += int(draws.expovariate(1) * width / 400)
        time = now - draws.randrange(5 * half_life) * (draws.random() < 0.3)
        amount = draws.lognormvariate(0, 2)
        keys = {"card": 1, "terminal": 1}
        events.append((time, amount))
        found = classes.observe(time, keys, {"amount": amount})
        mean_label = numbers.observe(time, keys, {"amount": amount})["label"]
        latest = max(time for time, _ in events)
        weights = weigh(events, latest)
        assert found["n"] == pytest.approx(sum(weights), rel=1e-12)
        mean = sum(w * v for w, (_, v) in zip(weights, events, strict=True)) / sum(weights)
        assert found["mean"] == pytest.approx(mean, rel=1e-12)
        if labels:
            weights = weigh(labels, max(time for time, _ in labels))
            share = sum(w for w, (_, v) in zip(weights, labels, strict=True) if v > 1) / sum(weights)
            assert found["risk"] == pytest.approx(share, rel=1e-12, abs=1e-15)
            mean = sum(w * v for w, (_, v) in zip(weights, labels, strict=True)) / sum(weights)
            assert mean_label == pytest.approx(mean, rel=1e-12)
        if draws.random() < 0.7:  # of any record so far, so out of order
            time, value = draws.choice(events[-20:])
            labels.append((time, value))
            classes.label(time, keys, "fraud" if value > 1 else "ok")
            numbers.label(time, keys, value)
