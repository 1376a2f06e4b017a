"""What the live page keeps: series over time, against a slow twin, and its store."""

import math
import sqlite3
from itertools import groupby

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from riparian.app.errors import RiparianError
from riparian.app.kafka.connection import Connection
from riparian.app.page.history import TIERS, SeriesSpan, TimeSeries, together
from riparian.app.page.store import KEPT, Store
from riparian.app.page.view import DAY_MS, HOUR_MS
from riparian.app.page.watch import Watch
from tests.app.page_records import NOW, living, told, view_of


class NaiveSeries:
    """All values for ever; a bucket is what of them falls into it, less those that came too late to be kept."""

    def __init__(self):
        self.values = [[] for _ in TIERS]
        self.newest = [-1] * len(TIERS)

    def add(self, time, value):
        for i, tier in enumerate(TIERS):
            number = time // tier.width
            if number > self.newest[i] - tier.n:
                self.values[i].append((time, value))
                self.newest[i] = max(self.newest[i], number)

    def between(self, start, stop, n):
        i = next((i for i, tier in enumerate(TIERS) if start >= stop - tier.n * tier.width), len(TIERS) - 1)
        tier = TIERS[i]
        width = tier.width * max(1, math.ceil((stop - start) / (tier.width * n)))
        found = []
        for number in range(start // width, max(start, stop - 1) // width + 1):
            kept = [
                value
                for time, value in self.values[i]
                if time // width == number and time // tier.width > self.newest[i] - tier.n
            ]
            found.append((min(kept), max(kept), sum(kept) / len(kept)) if kept else (math.nan,) * 3)
        return start // width * width, width, found


TIMES = st.integers(0, 4_000_000_000)
VALUES = st.tuples(TIMES | st.integers(1_000_000_000, 1_003_600_000), st.floats(-100, 100, width=32))
ROUND = TIERS[0].width * TIERS[0].n  # after it a bucket has the place of one that is gone


@settings(deadline=None)
@given(
    values=st.lists(VALUES, max_size=40),
    start=TIMES,
    length=st.integers(1, 8 * DAY_MS),
    n=st.integers(1, 50),
    stored=st.booleans(),
)
@example([(0, 5.0), (ROUND - 1, 1.0), (ROUND, 1.0)], ROUND, 1, 1, False)
def test_a_series_is_what_its_values_say(values, start, length, n, stored):
    series, naive = TimeSeries(), NaiveSeries()
    for time, value in values:
        series.add(time, value)
        naive.add(time, value)
    if stored:  # and taken back
        kept, series = series, TimeSeries()
        for i, blocks in groupby(kept.blocks(), lambda block: block[0]):
            series.restore(i, [block[1:] for block in blocks])
        assert not list(kept.blocks())
    found = series.between(start, start + length, n)
    first, width, rows = naive.between(start, start + length, n)
    assert (found.start, found.width) == (first, width)
    assert len(found.mean) <= 2 * n + 1
    for column, expected in zip((found.low, found.high, found.mean), zip(*rows, strict=True), strict=True):
        np.testing.assert_allclose(column, expected, rtol=1e-4, atol=1e-3)


@settings(deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.integers(1, 400_000), st.floats(0, 500, width=16) | st.none()), min_size=1, max_size=60
    ),
    least=st.floats(0, 500),
)
def test_since_when_a_count_is_above(steps, least):
    """A count that grows, and begins anew: of the values in memory, to the width of a bucket."""
    series, time, value, run = TimeSeries(), 1_000_000_000, 0.0, []
    for wait, more in steps:
        time += wait
        if more is None and value:
            value, run = 0.0, []
        value += more or 0.0
        series.add(time, value)
        run.append((time, value))
    expected = next((t for t, v in run if v > least), None)
    found = series.since(least)
    if expected is None:
        assert found is None or found <= time  # a fall within a bucket hides behind the value before
    elif found is not None and len(run) == len(steps):
        assert found <= expected < found + TIERS[-1].width
        if time - steps[0][0] - 1_000_000_000 < TIERS[0].n * TIERS[0].width // 2:
            assert expected < found + TIERS[0].width
    else:
        assert found is None or found <= time


def test_a_count_is_above_from_the_highest_value_of_a_bucket_on():
    series = TimeSeries()
    for value in (1.0, 1.0, 5.0):
        series.add(1_000_000_000, value)
    assert (series.since(4.0), series.since(5.0)) == (1_000_000_000 // TIERS[0].width * TIERS[0].width, None)


def test_partitions_become_one_series():
    nan = math.nan
    a = SeriesSpan(0, 10, *(np.array(v, np.float32) for v in ([1, nan, nan], [3, nan, nan], [2, nan, nan])))
    b = SeriesSpan(0, 10, *(np.array(v, np.float32) for v in ([2, 5, nan], [6, 7, nan], [4, 6, nan])))
    for how, expected in (("sum", [6, 6, nan]), ("mean", [3, 6, nan]), ("max", [4, 6, nan])):
        np.testing.assert_array_equal(together([a, b], how).mean, expected)
    np.testing.assert_array_equal(together([a, b], "mean").high, [6, 7, nan])
    np.testing.assert_array_equal(together([a, b], "sum").high, [9, 7, nan])


@pytest.mark.parametrize("minutes", [15, 60, 360, 1440, 7 * 1440])
def test_partitions_that_tell_at_moments_of_their_own_are_summed_in_every_bucket(minutes):
    """Two at 100 are 200, however one zooms, and no longer than both have a worker."""
    view = view_of()
    stop, step = NOW - NOW % 600_000 + 1_900, 5_000 if minutes <= 60 else 10_000
    for partition, last in ((0, stop), (1, stop - 60_000)):
        for time in range(last - minutes * 60_000 - 600_000 + 1_300 * partition, last, step):
            view._add("waiting", partition, time, 100.0)
    found = view.history(stop - minutes * 60_000, stop, 400)["waiting"]
    assert not np.isnan(found.mean).any()
    both = (stop - 60_000 - found.start) // found.width
    np.testing.assert_array_equal(found.mean[:both], 200.0)
    np.testing.assert_array_equal(found.low[:both], 200.0)
    if minutes == 15:
        np.testing.assert_array_equal(found.mean[-8:], 100.0)


def test_a_store_gives_back_what_it_was_given(tmp_path):
    view = living(view_of())
    with Store(tmp_path / "a" / "history.sqlite") as store:
        store.write({("t", 0): 7}, view.dirty(), [("taps", "drift", 0, 3, b"x")], NOW)
    with Store(tmp_path / "a" / "history.sqlite") as store:
        assert store.positions() == {("t", 0): 7}
        other = view_of()
        other.restore(store.blocks("taps"))
        assert list(store.notes("taps", "drift")) == [(0, 3, b"x")]
        assert not list(store.notes("other", "drift"))
        a, b = (each.history(NOW - HOUR_MS, NOW + 1, 50) for each in (view, other))
        assert a.keys() == b.keys()
        for name in a:
            np.testing.assert_array_equal(a[name].mean, b[name].mean)
        # What is out of every tier goes, and all but the last notes.
        store.write({}, [], [("taps", "drift", 0, 3 + KEPT + 5, b"y")], NOW + 30 * DAY_MS)
        assert not list(store.blocks("taps"))
        assert list(store.notes("taps", "drift")) == [(0, 3 + KEPT + 5, b"y")]


def test_a_disk_that_is_full_while_the_page_runs_is_a_sentence_and_what_was_kept_stays(tmp_path):
    path = tmp_path / "history.sqlite"
    with Store(path) as store:
        store.write({("t", 0): 7}, [], [], NOW)
        store._db.execute(f"PRAGMA max_page_count = {store._db.execute('PRAGMA page_count').fetchone()[0]}")
        with pytest.raises(RiparianError, match=r"history.sqlite \(database or disk is full\): make room there, or"):
            store.write({("t", 0): 9}, [], [("taps", "drift", 0, 3, bytes(100_000))], NOW)
    with Store(path) as store:
        assert store.positions() == {("t", 0): 7}


def test_the_newest_figures_outlive_the_page(tmp_path, monkeypatch):
    """Started again while no worker runs, it says who is missing, and not that nothing was ever there."""
    monkeypatch.setattr("riparian.app.page.watch.now_ms", lambda: NOW)
    view = living(view_of())
    with Store(tmp_path / "history.sqlite") as store:
        watch = Watch([view], Connection("127.0.0.1:9"), store)
        watch.progress = None
        watch.save()
        other = view_of()
        again = Watch([other], Connection("127.0.0.1:9"), store)
        again.restore(other)
        assert (other.models, other.newest) == (view.models, view.newest)
        assert {k: seen.last for k, seen in other.partitions.items()} == {
            k: seen.last for k, seen in view.partitions.items()
        }
        a, b = (each.history(NOW - HOUR_MS, NOW + 1, 50) for each in (view, other))
        for name in a:  # no value is there twice
            np.testing.assert_array_equal(a[name].mean, b[name].mean)
    assert told(other, NOW + 60_000)[0].kind == "nobody"


def test_a_damaged_store_is_put_aside(tmp_path):
    path = tmp_path / "history.sqlite"
    path.write_bytes(b"nonsense" * 1000)
    with Store(path) as store:
        assert store.positions() == {}
    assert path.with_suffix(".damaged").exists()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with Store(path) as store:
        assert store.positions() == {}


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RiparianError, match="choose another --data-dir"):
        Store(tmp_path / "file" / "history.sqlite")


def test_nobody_else_reads_what_the_page_keeps(tmp_path):
    with Store(tmp_path / "history.sqlite"):
        assert {path.stat().st_mode & 0o077 for path in tmp_path.iterdir()} == {0}
