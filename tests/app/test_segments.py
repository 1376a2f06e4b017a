"""What checkpoints write of the pending store: how often, how much, and whether it can be put together again."""

import heapq
from collections import Counter
from unittest import mock

import numpy as np
import pytest

from riparian.app.partition.join import segments
from riparian.app.partition.join.pending import PendingStore
from riparian.app.partition.join.segments import PendingCheckpoint, decode, encode
from tests.app.test_pending import Checkpoints, assert_equal

LIMITS = {"MAX_ROWS": 256, "SMALL": 64, "FANOUT": 8, "SLACK": 64}


@pytest.fixture(autouse=True)
def _limits():
    """A sixty-fourth of the real ones, so that a short stream does what a long one does."""
    with mock.patch.multiple(segments, **LIMITS):
        yield


class Stream:
    """A store that is given n instances with labels some steps later, and cut after each step.

    written : how often each serial number of an instance was written. outlived : instances that still waited at the
    first cut after they came. rewritten : the most that one cut wrote of what had been written before.
    """

    def __init__(self, max_labels: int = 1000) -> None:
        self.max_labels = max_labels
        self.store = self.new()
        self.saved = Checkpoints()
        self.due: list[tuple[float, int]] = []
        self.n = self.now = self.outlived = self.rewritten = self.most_arrays = 0
        self.written = Counter[int]()

    def new(self) -> PendingStore:
        return PendingStore(1, {"m": 2}, horizon=1e6, max_pending=100_000, max_labels=self.max_labels, remembers=False)

    def step(self, delays: np.ndarray, early: int = 0) -> PendingCheckpoint:
        """Instances whose labels come after `delays` steps (inf: never), and labels of nothing."""
        ids = [f"{i}" for i in range(self.n, self.n + len(delays))]
        for i, delay in enumerate(delays, self.n):
            heapq.heappush(self.due, (self.now + delay, i))
        labels = [f"nobody {self.now} {i}" for i in range(early)]
        self.now += 1
        while self.due and self.due[0][0] < self.now:
            labels.append(f"{heapq.heappop(self.due)[1]}")
        x = np.arange(self.n, self.n + len(ids), dtype=float).reshape(-1, 1)
        first, self.n = self.n, self.n + len(ids)
        times, n = [self.now] * len(ids), len(labels)
        joined = self.store.join(ids, x, times, None, labels, [1.0] * n, [self.now] * n, np.zeros(len(ids), np.int64))
        self.store.out["m"][joined.predicted] = np.hstack([x, -x])
        self.outlived += int(np.count_nonzero(self.store.state()["x"] >= first))
        return self.cut()

    def cut(self) -> PendingCheckpoint:
        cut = self.store.checkpoint()
        self.saved.take(cut)
        serials = [s for name in written(cut) for s in decode(cut.arrays[name])["serial"].tolist()]
        again = sum(serial in self.written for serial in serials)
        assert again <= max(segments.MAX_ROWS, len(serials) - again)
        self.rewritten = max(self.rewritten, again)
        self.written.update(serials)
        self.most_arrays = max(self.most_arrays, len(self.saved.arrays))
        return cut

    @property
    def amplification(self) -> float:
        """Instances written for each that outlived a cut."""
        return sum(self.written.values()) / self.outlived

    def restart(self) -> None:
        before = self.store.state()
        self.store = self.new()
        self.store.restore(self.saved.arrays)
        assert_equal(self.store.state(), before)


def written(cut: PendingCheckpoint, kind: str = "instances") -> list[str]:
    """Names of the segments that a cut writes."""
    return [name for name in cut.arrays if name.startswith(f"{kind}/") and not name.endswith("/alive")]


def after(n: int, delay: float) -> np.ndarray:
    return np.full(n, delay)


def test_columns_come_back_from_bytes():
    columns = {
        "serial": np.array([3, 5, 4], np.int64),
        "arrived": np.array([10**12, 10**12 + 5, 10**12], np.int64),
        "ids": np.frombuffer(b"abc", np.uint8),
        "x": np.array([[1.5, np.nan], [2.5, -np.inf], [3.5, -0.0]]),
        "empty": np.zeros((0, 4)),
    }
    found = decode(encode(columns))
    assert list(found) == list(columns)
    for name, column in columns.items():
        assert found[name].dtype == column.dtype
        assert found[name].shape == column.shape
        assert found[name].tobytes() == column.tobytes()


def test_what_does_not_outlive_a_checkpoint_is_never_written():
    stream = Stream()
    for _ in range(20):
        cut = stream.step(after(50, 0))
        assert set(cut.arrays) == {"numbers"}
    assert stream.store.counts["joined"] == 1000


def test_what_outlives_a_checkpoint_is_written_once_where_labels_keep_their_order():
    stream = Stream()
    for _ in range(60):
        before = stream.store.n_waiting
        cut = stream.step(after(100, 10))
        assert len(written(cut)) == 1
        # Whole segments leave, so what else is written is a few bitmaps at most.
        assert len(cut.arrays) <= 3
        assert stream.store.n_waiting <= max(1000, before + 100)
    assert set(stream.written.values()) == {1}
    assert len(stream.written) == stream.outlived == 6000


DELAYS = {
    # instances a cut, their delays in cuts; how often one that outlives a cut is written, on average
    "constant": (200, lambda rng, n: after(n, 10.5), 1.0),
    "fast, out of order": (500, lambda rng, n: rng.uniform(0.2, 1.8, n), 1.0),
    "out of order": (200, lambda rng, n: rng.exponential(10, n), 1.35),
    "one in a hundred never": (200, lambda rng, n: never(rng, rng.exponential(2, n)), 1.3),
    # Small segments become larger ones, once or twice.
    "slightly too small": (60, lambda rng, n: after(n, 60.5), 2.0),
    "slow and late": (2, lambda rng, n: after(n, 600), 3.0),
    "slow and late, out of order": (2, lambda rng, n: rng.exponential(300, n), 3.2),
}


def never(rng: np.random.Generator, delays: np.ndarray) -> np.ndarray:
    return np.where(rng.random(len(delays)) < 0.01, np.inf, delays)


@pytest.mark.parametrize("name", DELAYS)
def test_little_is_written_twice_and_few_segments_are_kept(name):
    n, delays, amplification = DELAYS[name]
    rng = np.random.default_rng(1)
    stream = Stream()
    steps = 12_000 // n if n > 2 else 1000
    most = 0
    for step in range(steps):
        stream.step(delays(rng, n))
        most = max(most, stream.store.n_waiting)
        if step % 5 == 0:
            rows = sum(len(decode(a)["serial"]) for name, a in stream.saved.arrays.items() if name.count("/") == 1)
            assert rows <= 2 * stream.store.n_waiting + segments.SLACK + segments.MAX_ROWS
        if step % (steps // 7) == 0:
            stream.restart()
    assert stream.amplification <= amplification
    assert stream.most_arrays <= 1 + 2 * most_segments(most)
    assert (stream.rewritten > 0) == (amplification > 1.0)


def most_segments(most: int) -> int:
    """Large ones, of which half may be dead, and of two classes of small ones as many as do not make a larger."""
    return (2 * most + segments.SLACK) // segments.SMALL + 2 * segments.FANOUT


def test_thousands_of_tiny_checkpoints_make_few_arrays():
    stream = Stream()
    for _ in range(800):
        stream.step(after(1, np.inf))
    assert stream.store.n_waiting == 800
    assert stream.most_arrays <= 1 + 800 // segments.SMALL + 2 * segments.FANOUT
    assert max(stream.written.values()) <= 3


def test_nothing_is_left_when_nothing_waits():
    stream = Stream()
    for _ in range(5):
        stream.step(after(200, 5.5), early=3)
    assert len(stream.saved.arrays) > 5
    for _ in range(10):
        stream.step(after(0, 0))
    labels = [f"nobody {now} {i}" for now in range(5) for i in range(3)]
    stream.store.join(labels, np.zeros((15, 1)), [99] * 15, None, [], [], [], np.zeros(15, np.int64))
    stream.cut()
    assert set(stream.saved.arrays) == {"numbers"}


def test_after_a_restart_the_next_checkpoint_keeps_what_is_written():
    stream = Stream()
    for _ in range(5):
        stream.step(after(100, 3.5), early=2)
    names = set(stream.saved.arrays)
    stream.restart()
    cut = stream.cut()
    assert set(cut.arrays) == {"numbers"}
    assert set(cut.kept) == names - {"numbers"}
    cut = stream.step(after(100, 3.5))
    assert len(written(cut)) == 1
    stream.restart()


def test_labels_that_wait_are_written_once():
    stream = Stream(max_labels=400)
    bytes_a_cut = []
    for _ in range(60):
        cut = stream.step(after(0, 0), early=20)
        bytes_a_cut.append(sum(array.nbytes for name, array in cut.arrays.items() if name in written(cut, "labels")))
    assert stream.store.n_labels_waiting == 400
    assert stream.store.counts["unmatched"] == 800
    # Twenty are new in each; the oldest leave in order, and cost nothing but bitmaps.
    label_bytes = sum(array.nbytes for name, array in stream.saved.arrays.items() if name.startswith("labels/")) / 400
    assert np.median(bytes_a_cut) <= 25 * label_bytes
    stream.restart()


def test_a_cut_is_not_changed_by_what_comes_after():
    stream = Stream()
    cut = stream.step(after(50, 1.5), early=2)
    before = {name: array.tobytes() for name, array in cut.arrays.items()}
    for _ in range(3):
        stream.step(after(50, 1.5))
    assert {name: array.tobytes() for name, array in cut.arrays.items()} == before
