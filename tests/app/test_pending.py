"""The pending store against a naive one: a list of waiting instances, searched from the front."""

import contextlib
import struct
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riparian.app.errors import StateError
from riparian.app.partition import mapped
from riparian.app.partition.join import gaps, ids, joined_ids, joining, remembering, segments, waiting, waiting_index
from riparian.app.partition.join.ids import new_key, packed, words_of, write_digests
from riparian.app.partition.join.pending import COUNTERS, PendingStore, marks_of
from riparian.app.partition.join.room import PLACE_BYTES, ROW_BYTES
from riparian.models.contract import LEARN, Bags

NAN = float("nan")
GOLDEN = 0x9E3779B97F4A7C15


@pytest.fixture(scope="module", autouse=True)
def _warm():
    """Compile before hypothesis looks at the clock."""
    for bags in (False, True):
        PendingStore(1, {"m": 2}, horizon=1, max_pending=1, max_labels=1, bags=bags).warm_up()


def instances(v: float) -> list[float]:
    """The bag that instance v is, where instances are bags: one to four instances."""
    return [v + 0.25 * i for i in range(1 + int(v) % 4)]


class NaiveStore:
    """What waits, as lists of tuples in order of arrival. One feature, one model."""

    def __init__(self, horizon_ms: int, max_pending: int, max_labels: int, max_bytes: int, bags: bool = False) -> None:
        self.horizon, self.max_pending, self.max_labels = horizon_ms, max_pending, max_labels
        self.bags = bags
        self.max_bytes = max_bytes
        self.waiting: list[tuple[str, int, float]] = []  # id, arrived, x
        self.labels: list[tuple[str, int, float]] = []  # id, arrived, y
        self.joined: list[tuple[str, float, float]] = []  # id, x, y in the order of being joined
        self.forgotten = 0  # of these, the first ones
        self.grains: list[tuple[int, int]] = []  # from when and from which one on
        self.clock = 0
        self.gaps: list[tuple[int, int]] = []  # from where to where time went on by more than a minute
        self.width = 2  # columns that predictions need for the classes so far
        self.counts = dict.fromkeys(COUNTERS, 0)
        self.learned: list[tuple[float, float, float]] = []  # x, y, seconds waited

    def since(self, arrived: int) -> int:
        return dict(self.gaps).get(arrived, arrived)

    def tick(self, time: int, y: float) -> None:
        if time - self.clock > 60_000:
            self.gaps = [gap for gap in self.gaps if time - gap[1] <= self.horizon]
            if len(self.gaps) == gaps.GAPS:
                self.gaps.remove(min(self.gaps, key=lambda gap: gap[1] - gap[0]))
            self.gaps.append((self.clock, time))
        self.clock = max(self.clock, time)
        while y >= self.width:
            self.width *= 2
        alive = [w for w in self.waiting if self.clock - self.since(w[1]) <= self.horizon]
        self.counts["expired"] += len(self.waiting) - len(alive)
        self.waiting = alive
        alive = [w for w in self.labels if self.clock - self.since(w[1]) <= self.horizon]
        self.counts["unmatched"] += len(self.labels) - len(alive)
        self.labels = alive
        while self.grains and self.clock - self.grains[0][0] > self.horizon + self.grain:
            self.forgotten = self.grains[1][1] if self.grains[1:] else len(self.joined)
            self.grains.pop(0)

    @property
    def grain(self) -> int:
        return max(1, self.horizon // remembering.GRAINS)

    def recall(self, id_: str) -> tuple[float, float] | None:
        """x and y of the last instance of this id that is remembered."""
        return next((w[1:] for w in self.joined[self.forgotten :][::-1] if w[0] == id_), None)

    def leave(self, id_: str, x: float, y: float, waited: float) -> None:
        if y == y:
            self.counts["joined"] += 1
            self.learned.append((x, y, waited))
        else:
            self.counts["null_labels"] += 1
        if len(self.joined) - self.forgotten >= self.max_pending:
            oldest = self.joined[self.forgotten][0]
            self.forgotten += 1
            self.counts["forgotten_ids"] += self.recall(oldest) is None
            if self.grains[1:] and self.grains[1][1] <= self.forgotten:
                self.grains.pop(0)
        if not self.grains or self.clock - self.grains[-1][0] > self.grain:
            self.grains.append((self.clock, len(self.joined)))
        self.joined.append((id_, x, y))

    @property
    def n_bytes(self) -> int:
        each = ROW_BYTES + 8 * self.width
        return sum(each + self.x_bytes(w[2]) + len(w[0].encode()) for w in self.waiting)

    def x_bytes(self, v: float) -> int:
        return PLACE_BYTES + 8 * len(instances(v)) if self.bags else 8

    def feature(self, id_: str, x: float, time: int, y: float) -> None:
        self.tick(time, y)
        early = [w for w in self.labels if w[0] == id_]
        if early:
            self.labels.remove(early[0])
        found = [w for w in self.waiting if w[0] == id_]
        if y == y and found:
            self.counts["repeated_ids"] += 1
            self.meet(found[0], y)
        elif y == y:
            if early:
                self.counts["repeated_labels" if y == early[0][2] else "corrected_labels"] += 1
            self.leave(id_, x, y, 0.0)
        elif early:
            self.leave(id_, x, early[0][2], 0.0)
        elif found or x == (self.recall(id_) or [None])[0]:
            self.counts["repeated_ids"] += 1
        else:
            self.waiting.append((id_, self.clock, x))
            while len(self.waiting) > self.max_pending or self.n_bytes > self.max_bytes:
                self.waiting.pop(0)
                self.counts["evicted"] += 1

    def meet(self, one: tuple[str, int, float], y: float) -> None:
        """A label has come for one that waits."""
        self.waiting.remove(one)
        self.leave(one[0], one[2], y, (self.clock - self.since(one[1])) / 1000.0)

    def label(self, id_: str, y: float, time: int) -> None:
        self.tick(time, y)
        found = [w for w in self.waiting if w[0] == id_]
        if found:
            self.meet(found[0], y)
        elif known := self.recall(id_) or next((w[1:] for w in self.labels if w[0] == id_), None):
            self.counts["repeated_labels" if str(known[1]) == str(y) else "corrected_labels"] += 1
        else:
            if len(self.labels) == self.max_labels:
                self.labels.pop(0)
                self.counts["unmatched"] += 1
            self.labels.append((id_, self.clock, y))

    def hashes(self, x: float, y: float) -> np.uint64:
        """Of features and label, as they are remembered."""
        rows = np.array(instances(x) if self.bags else [x]).reshape(-1, 1)
        (mark,) = marks_of(rows, np.array([len(rows)]) if self.bags else None)
        return np.uint64((int(mark) << 32) | (struct.unpack("<Q", struct.pack("<d", y))[0] * GOLDEN % 2**64 >> 32))

    def state(self) -> dict[str, np.ndarray]:
        """As PendingStore.state; every prediction is [x, -x, 0, ...]."""
        x = np.array([w[2] for w in self.waiting]).reshape(-1, 1)
        arrays = {
            "x": x,
            "out/m": np.hstack([x, -x, np.zeros((len(x), self.width - 2))]),
            "arrived": np.array([w[1] for w in self.waiting], np.int64),
            "label_y": np.array([w[2] for w in self.labels], np.float64),
            "label_since": np.array([w[1] for w in self.labels], np.int64),
            "clock": np.array([self.clock]),
            "counts": np.array(list(self.counts.values())[: None if self.counts["null_labels"] else 8]),
        }
        if self.gaps:
            arrays["gaps"] = np.array(self.gaps)
        if self.joined:
            arrays["joined"] = np.array([self.forgotten, len(self.joined), *(n for pair in self.grains for n in pair)])
            kept = self.joined[self.forgotten :]
            text, ends = packed([id_ for id_, _, _ in kept])
            hashes = np.empty(len(ends), np.uint64)
            write_digests(text, words_of(text), ends, hashes)
            arrays["joined/all"] = np.array([[h, self.hashes(x, y)] for h, (_, x, y) in zip(hashes, kept, strict=True)])
            arrays["joined/all"] = arrays["joined/all"].reshape(-1, 2).astype(np.uint64)
        if self.bags:
            arrays["x"] = np.array([v for w in self.waiting for v in instances(w[2])]).reshape(-1, 1)
            arrays["size"] = np.array([len(instances(w[2])) for w in self.waiting], np.int64)
        for name, ends, those in (("ids", "id_ends", self.waiting), ("label_ids", "label_id_ends", self.labels)):
            encoded = [w[0].encode() for w in those]
            arrays[name] = np.array(list(b"".join(encoded)), np.uint8)
            arrays[ends] = np.cumsum([len(id_) for id_ in encoded], dtype=np.int64)
        return arrays


class Checkpoints:
    """What a changelog would hold after some cuts."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}

    def take(self, cut: segments.PendingCheckpoint) -> None:
        assert not set(cut.kept) & set(cut.arrays)
        self.arrays = {**{name: self.arrays[name] for name in cut.kept}, **{k: a.copy() for k, a in cut.arrays.items()}}


@contextlib.contextmanager
def everything_small():
    """Segments so small that a few rows make many of them, and make them anew; indexes that are often compacted."""
    small = mock.patch.multiple(segments, MAX_ROWS=6, SMALL=4, FANOUT=2, SLACK=2)
    ring = mock.patch.multiple(joined_ids, BLOCK=4, LEAST=2)
    with small, ring, mock.patch.object(waiting_index, "LEAST_ROWS", 4):
        yield


@contextlib.contextmanager
def in_files(there: bool = True):
    """All arrays in files, whose pages are given back at each checkpoint."""
    mapped.use(Path(tempfile.gettempdir()) if there else None)
    try:
        with mock.patch.multiple(mapped, FILE_BYTES=1, RESIDENT_BYTES=-1):
            yield
    finally:
        mapped.use(None)


event = st.tuples(
    st.booleans(),  # a label?
    st.integers(0, 12).map(lambda i: "é" * (i % 4) + f"{i}"),
    st.one_of(st.integers(0, 4), st.sampled_from([20_000, 20_001, 50_000])),  # time that passes
    st.sampled_from([0.0, 1.0, 1.0, 2.0, 7.0, NAN]),  # class of a label, or null
    st.sampled_from([NAN, NAN, NAN, 1.0, 3.0]),  # inline label
    st.booleans(),  # the features of this id that came last, again?
)


def values_of(events) -> list[float]:
    """The instance that each event is, where it is one."""
    values, last = [], dict[str, float]()
    for i, (is_label, id_, *_, again) in enumerate(events):
        values.append(last.get(id_, float(i)) if again else float(i))
        if not is_label:
            last[id_] = values[-1]
    return values


def value_at(store: PendingStore, row: int) -> float:
    """Which instance stands in a row."""
    if not isinstance(store.slab, Bags):
        return float(store.slab[row, 0])
    start, size, x = store.slab
    bag = x[start[row] : start[row] + size[row], 0].tolist()
    assert bag == instances(bag[0])
    return bag[0]


def run_batch(store: PendingStore, events, times, values):
    """Events of one batch, in merged order, through `join`; what was predicted and learned, in order."""
    features = [(e, t, v) for e, t, v in zip(events, times, values, strict=True) if not e[0]]
    labels = [(e, t) for e, t in zip(events, times, strict=True) if e[0]]
    before, seen = [], 0
    for e in events:
        if e[0]:
            seen += 1
        else:
            before.append(seen)
    # As the learner does: classes are known, and predictions widened, before the batch is joined.
    given = [e[3] if e[0] else e[4] for e in events]
    highest = max((y for y in given if y == y), default=0.0)
    store.resize({"m": max(2, 1 << int(highest).bit_length())})
    bags = isinstance(store.slab, Bags)
    x = [u for _, _, v in features for u in (instances(v) if bags else [v])]
    joined = store.join(
        [e[1] for e, _, _ in features],
        np.array(x).reshape(-1, 1),
        [t for _, t, _ in features],
        [e[4] for e, _, _ in features],
        [e[1] for e, _ in labels],
        [e[3] for e, _ in labels],
        [t for _, t in labels],
        np.array(before, dtype=np.int64),
        np.array([len(instances(v)) for _, _, v in features], np.int64) if bags else None,
    )
    program = joined.program
    predicted = [value_at(store, row) for row in joined.predicted]
    store.out["m"][joined.predicted] = 0.0
    store.out["m"][joined.predicted, 0] = predicted
    store.out["m"][joined.predicted, 1] = -np.array(predicted)
    learned = [
        (value_at(store, row), float(y))
        for op, row, y in zip(program.op, program.row, program.y, strict=True)
        if op == LEARN
    ]
    rows = program.row[program.op != LEARN]
    assert rows.tolist() == joined.predicted.tolist()
    assert len(set(rows.tolist())) == len(rows)
    waited = joined.waited.tolist()
    return predicted, [(x, y, w) for (x, y), w in zip(learned, waited, strict=True)]


def assert_equal(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """State by state; what is wider than expected is zero there."""
    assert set(found) == set(expected)
    for name, array in expected.items():
        ours = found[name]
        if name.startswith("out/"):
            assert not ours[:, array.shape[1] :].any()
            ours = ours[:, : array.shape[1]]
        assert ours.dtype == array.dtype, name
        assert np.array_equal(ours, array, equal_nan=ours.dtype.kind == "f"), name


@settings(max_examples=100)
@given(
    st.lists(event, max_size=60),
    st.lists(st.tuples(st.integers(1, 10), st.sampled_from(["", "", "cut", "cut", "crash", "state"])), min_size=1),
    st.one_of(st.integers(1, 20), st.sampled_from([100_000, 2_000_000])),
    st.integers(1, 8),
    st.integers(1, 5),
    st.sampled_from([10**9, 400, 650, 900]),
    st.booleans(),
    st.booleans(),
)
def test_store_equals_the_naive_one_however_it_is_cut_and_restored(
    events, batches, horizon, max_pending, max_labels, max_bytes, bags, files
):
    def new() -> PendingStore:
        bounds = {"max_pending": max_pending, "max_labels": max_labels, "max_bytes": max_bytes}
        return PendingStore(1, {"m": 2}, horizon=horizon / 1000, **bounds, bags=bags)

    naive, store, written = NaiveStore(horizon, max_pending, max_labels, max_bytes, bags), new(), Checkpoints()
    times, time = [], 1000
    for e in events:
        time += e[2] * 3
        times.append(time)
    values = values_of(events)
    learned, predicted, at = [], [], 0
    with everything_small(), in_files(files):
        for size, after in batches * (1 + len(events)):
            window = slice(at, at + size)
            p, l = run_batch(store, events[window], times[window], values[window])
            predicted += p
            learned += l
            for e, t, v in list(zip(events, times, values, strict=True))[window]:
                if e[0]:
                    naive.label(e[1], e[3], t)
                else:
                    naive.feature(e[1], v, t, e[4])
            at += size
            if after in ("cut", "crash"):
                written.take(store.checkpoint())
            if after in ("crash", "state"):
                saved = store.state() if after == "state" else written.arrays
                width = store.out["m"].shape[1]
                store = new()
                store.resize({"m": width})
                store.restore(saved)
            assert_equal(store.state(), naive.state())
            if at >= len(events):
                break
    assert predicted == [v for e, v in zip(events, values, strict=True) if not e[0]]
    assert learned == naive.learned
    assert store.counts == naive.counts
    assert store.n_waiting == len(naive.waiting)
    assert store.n_labels_waiting == len(naive.labels)


@pytest.mark.parametrize(("seed", "bags"), [(0, False), (2, True)])
def test_store_equals_the_naive_one_over_a_long_stream(seed, bags):
    """Long enough that rows, queue and text are used many times over, while some ids wait through most of it."""

    def new() -> PendingStore:
        return new_store(horizon=4, max_pending=85, max_labels=60, bags=bags)

    rng = np.random.default_rng(seed)
    naive, store, written, learned = NaiveStore(4000, 85, 60, 10**9, bags), new(), Checkpoints(), []
    time = at = 0
    with everything_small(), in_files(seed % 2 == 1):
        while at < 3000:
            numbers = range(at, at + int(rng.choice([3, 30, 200])))
            events, times = [], []
            for i in numbers:
                # Labels of what comes later, came just before, or long ago; of the many that are no instance's, too.
                other = i + int(rng.choice([5, -rng.geometric(0.1), -rng.geometric(0.004)]))
                y = float(rng.random() < 0.8) if rng.random() < 0.9 else NAN
                again = i if rng.random() < 0.9 else other  # an instance of the same id
                events.append((True, str(other), 0, y, NAN) if rng.random() < 0.5 else (False, str(again), 0, 0.0, NAN))
                time += int(rng.integers(0, 30))
                times.append(time)
            values = [float(i) for i in numbers]
            learned += run_batch(store, events, times, values)[1]
            for e, t, v in zip(events, times, values, strict=True):
                if e[0]:
                    naive.label(e[1], e[3], t)
                else:
                    naive.feature(e[1], v, t, NAN)
            at = numbers.stop
            if rng.random() < 0.7:
                written.take(store.checkpoint())
                if rng.random() < 0.5:
                    store = new()
                    store.restore(written.arrays)
            assert_equal(store.state(), naive.state())
    assert learned == naive.learned
    assert store.counts == naive.counts
    assert all(naive.counts[name] > 20 for name in COUNTERS[:9] if name != "forgotten_ids"), naive.counts


def new_store(**changed) -> PendingStore:
    bounds = {"horizon": 100, "max_pending": 10, "max_labels": 60, **changed}
    return PendingStore(1, {"m": 2}, **bounds)


def put(store: PendingStore, ids: list[str], time: int = 1) -> np.ndarray:
    """Instances without labels; x is the length of the id. Their rows."""
    n = len(ids)
    x = np.array([[float(len(id_))] for id_ in ids])
    return store.join(ids, x, [time] * n, None, [], [], [], np.zeros(n, np.int64)).predicted


def label(store: PendingStore, ids: list[str], time: int = 1) -> np.ndarray:
    """Labels; the rows that are learned."""
    n = len(ids)
    return store.join([], np.zeros((0, 1)), [], None, ids, [1.0] * n, [time] * n, np.zeros(0, np.int64)).program.row


def restored(saved: dict[str, np.ndarray], outputs: dict[str, int]) -> PendingStore:
    store = PendingStore(1, outputs, horizon=100, max_pending=10, max_labels=10)
    store.restore(saved)
    return store


@pytest.mark.parametrize("form", ["state", "cut"])
def test_models_come_and_go_and_change_places_between_two_runs(form):
    store = PendingStore(1, {"a": 2, "b": 2, "old": 2}, horizon=100, max_pending=10, max_labels=10)
    rows = put(store, ["i"])
    for name, p in (("a", 0.1), ("b", 0.2), ("old", 0.3)):
        store.out[name][rows] = [[p, 1.0 - p]]
    saved = Checkpoints()
    saved.take(store.checkpoint())
    again = PendingStore(1, {"a": 2, "b": 2, "old": 2}, horizon=100, max_pending=10, max_labels=10)
    again.restore(store.state() if form == "state" else saved.arrays, {"a": "b", "b": "a", "old": None})
    found = {"a": [0.2, 0.8], "b": [0.1, 0.9], "old": [NAN, 0.0]}
    for _ in range(2):
        state = again.state()
        for name, p in found.items():
            assert np.array_equal(state[f"out/{name}"], [p], equal_nan=True)
        # What is written from now on is by today's names, and is read so.
        saved.take(again.checkpoint())
        again = PendingStore(1, {"a": 2, "b": 2, "old": 2, "new": 2}, horizon=100, max_pending=10, max_labels=10)
        again.restore(saved.arrays, {"a": "a", "b": "b", "old": "old", "new": None})
        found["new"] = [NAN, 0.0]


def test_bounds_that_were_lowered_hold_from_the_next_arrival_on():
    store = new_store()
    put(store, ["a", "b", "c"])
    label(store, ["x", "y", "z"])
    again = new_store(max_pending=2, max_labels=1)
    again.restore(store.checkpoint().arrays)
    assert (again.n_waiting, again.n_labels_waiting) == (3, 3)
    put(again, ["d"])
    label(again, ["w"])
    assert (again.n_waiting, again.n_labels_waiting) == (2, 1)
    assert (again.counts["evicted"], again.counts["unmatched"]) == (2, 3)


@pytest.mark.parametrize("form", ["state", "cut"])
def test_a_state_with_other_features_is_refused(form):
    store = new_store()
    put(store, ["a"])
    other = PendingStore(2, {"m": 2}, horizon=100, max_pending=10, max_labels=10)
    with pytest.raises(StateError, match="have 1 features, the stream file 2"):
        other.restore(store.state() if form == "state" else store.checkpoint().arrays)


def test_what_an_instance_takes_is_bounded_in_bytes():
    each = ROW_BYTES + 8 + 2 * 8
    store = new_store(max_bytes=3 * each + 3)
    put(store, ["a", "b", "c"])
    assert (store.n_waiting, store.counts["evicted"]) == (3, 0)
    put(store, ["dd"])  # 3 would fit, if the id were shorter
    assert (store.n_waiting, store.counts["evicted"]) == (2, 2)
    put(store, ["e" * (2 * each)])  # and this one leaves no room for others
    assert (store.n_waiting, store.counts["evicted"]) == (1, 4)
    put(store, ["f" * (3 * each)])  # larger than the bound: predicted, but it cannot wait
    assert (store.n_waiting, store.counts["evicted"]) == (0, 6)


def test_rows_are_reused_so_memory_stays_flat():
    store = PendingStore(3, {"m": 2}, horizon=100, max_pending=1000, max_labels=10)
    sizes = []
    for i in range(200):
        ids = [f"{i:03}-{j:02}" for j in range(100)]
        store.join(ids, np.ones((100, 3)), [i] * 100, None, ids, [0.0] * 100, [i] * 100, np.zeros(100, np.int64))
        sizes.append(store.n_bytes)
    assert len(store.slab) <= 2048
    assert sizes[-1] == sizes[100]
    assert store.counts["joined"] == 20_000


def test_bags_take_the_room_of_their_instances():
    """A large one now and then costs its own room, not that of all; what has left is used again."""
    store = PendingStore(4, {"m": 2}, horizon=100, max_pending=1000, max_labels=10, bags=True)
    sizes = []
    for i in range(300):
        ids = [f"{i:03}-{j:02}" for j in range(20)]
        size = np.full(20, 2)
        size[0] = 500 if i % 10 == 0 else 2
        x = np.ones((int(size.sum()), 4))
        store.join(ids, x, [i] * 20, None, ids, [0.0] * 20, [i] * 20, np.zeros(20, np.int64), size)
        sizes.append(store.n_bytes)
    assert sizes[-1] == sizes[100]
    assert sizes[-1] < 350_000  # 1,024 rows of 500 instances would be 16 MB


def test_ids_with_the_same_hash_are_told_apart():
    text, ends = packed(["aa", "ab", "b"])
    same = np.full(3, 77, np.int64)
    batch = waiting.Batch(text, ends, same, np.zeros(3, np.int64), np.zeros(0))
    index = waiting_index.WaitingIndex.empty(new_key()).reserve(3, 5)
    assert index.take(3).tolist() == [0, 1, 2]
    for row in range(3):
        assert waiting.find(index, batch, row) == -1
        waiting.put(index, row, batch, row, 0)
    assert [waiting.find(index, batch, i) for i in range(3)] == [0, 1, 2]
    waiting.take_out(index, 0)
    assert [waiting.find(index, batch, i) for i in range(3)] == [-1, 1, 2]
    waiting.take_out(index, 2)
    assert [waiting.find(index, batch, i) for i in range(3)] == [-1, 1, -1]


def test_a_state_with_damaged_joined_ids_is_refused():
    store = new_store()
    put(store, ["a", "b"])
    label(store, ["a", "b"])
    for form in (store.state(), store.checkpoint().arrays):
        (whole,) = (name for name in form if name.startswith("joined/"))
        for name, wrong in (
            ("joined", form["joined"][:-1]),
            ("joined", np.array([0, 2**40, 1, 0])),
            ("joined", np.array([0, 2])),
            (whole, form[whole][:1]),
            (whole, form[whole].astype(np.int64)),
            (whole, form[whole].ravel()),
        ):
            with pytest.raises(ValueError, match="damaged"):
                restored({**form, name: wrong}, {"m": 2})
        restored(form, {"m": 2})


@pytest.mark.skipif(not hasattr(joining.join, "signatures"), reason="the JIT is off")
def test_kernels_are_compiled_once():
    store = new_store()
    for i in range(30):
        named = [f"{i}-{j}" for j in range(i)]
        y = [1.0] * i if i % 2 else np.ones(2 * i)[::2]
        before = np.arange(i, dtype=np.int64)
        before.flags.writeable = False
        store.join(named, np.ones((i, 1)), [i] * i, y if i % 3 else None, named, y, np.full(i, i, np.int32), before)
    restored(store.checkpoint().arrays, {"m": 2})
    restored(store.state(), {"m": 2})
    of_index, of_joined = (
        (waiting.put_all, waiting.compact, waiting.rehash),
        (remembering.place_all, remembering.mark_all),
    )
    for kernel in (joining.join, *of_index, *of_joined, ids._gather, ids.write_tags, ids.write_digests):
        # Ids are gathered from what was fetched, too, which cannot be written to.
        assert len(kernel.signatures) == 1 + (kernel is ids._gather), kernel


def sip(key: bytes, data: bytes, c: int, d: int) -> int:
    """SipHash-c-d as the paper says."""
    mask = 2**64 - 1

    def rotated(x: int, n: int) -> int:
        return (x << n | x >> 64 - n) & mask

    def rounds(v: list[int], n: int) -> None:
        for _ in range(n):
            v[0] = (v[0] + v[1]) & mask
            v[2] = (v[2] + v[3]) & mask
            v[1], v[3] = rotated(v[1], 13) ^ v[0], rotated(v[3], 16) ^ v[2]
            v[0] = rotated(v[0], 32)
            v[2] = (v[2] + v[1]) & mask
            v[0] = (v[0] + v[3]) & mask
            v[1], v[3] = rotated(v[1], 17) ^ v[2], rotated(v[3], 21) ^ v[0]
            v[2] = rotated(v[2], 32)

    k = [int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")]
    magic = b"somepseudorandomlygeneratedbytes"
    v = [int.from_bytes(magic[8 * i : 8 * i + 8], "big") ^ k[i % 2] for i in range(4)]
    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        rounds(v, c)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(v, d)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 16, 36, 300])
def test_the_hash_is_siphash(n):
    assert sip(bytes(range(16)), bytes(range(15)), 2, 4) == 0xA129CA6149BE45E5  # from the paper
    key, data = bytes(range(100, 116)), bytes((7 * i) % 256 for i in range(n))
    for behind in (b"", b"z", b"\xff" * 20):  # what stands there does not count
        text = np.frombuffer(b"xyz" + data + behind, np.uint8).copy()
        tags = ids.tags(np.frombuffer(key, np.uint64).copy(), text, np.array([3, 3 + n]))
        assert tags[1] == sip(key, data, 1, 3) >> 33


def test_pieces_of_any_length_are_gathered_from_anywhere():
    random_ = np.random.default_rng(0)
    for size in (0, 1, 7, 8, 9, 15, 16, 17, 40, 500):
        text = random_.integers(0, 256, size).astype(np.uint8)
        for _ in range(20):
            edges = np.sort(random_.integers(0, size + 1, (30, 2)), axis=1)
            pieces, ends = ids.gathered(text, edges[:, 0], edges[:, 1] - edges[:, 0])
            expected = [text[start:stop].tobytes() for start, stop in edges]
            assert pieces.tobytes() == b"".join(expected)
            assert ends.tolist() == np.cumsum([len(one) for one in expected]).tolist()


def test_what_came_around_a_gap_has_waited_since_its_end():
    """A week-end, and an hour of horizon: by the time of the topic, the first records of Monday came on Friday."""
    store = PendingStore(1, {"m": 2}, horizon=3600, max_pending=100, max_labels=100)
    friday, monday = 10_000_000, 250_000_000
    times = [friday - 1, friday, friday, friday, monday, monday + 3_600_000, monday + 3_600_001]
    for i, time in enumerate(times):
        store.join([f"{i}"], np.ones((1, 1)), [time], None, [], [], [], np.zeros(1, np.int64))
        if i == 4:
            saved = store.checkpoint().arrays
            store = PendingStore(1, {"m": 2}, horizon=3600, max_pending=100, max_labels=100)
            store.restore(saved)
            assert store.counts["expired"] == 1
        if i == 5:
            assert store.counts["expired"] == 1
            late = store.join(["7"], np.ones((1, 1)), [time], None, ["2"], [1.0], [time], np.zeros(1, np.int64))
            assert late.waited.tolist() == [3600.0]
    assert store.counts["expired"] == 3  # Friday's, but for the one that was learned
