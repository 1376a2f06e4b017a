"""The pending store against a naive one: a list of waiting instances, searched from the front."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.pending import PendingStore
from models.contract import LEARN

NAN = float("nan")


class NaiveStore:
    """What waits, as lists of tuples in order of arrival."""

    def __init__(self, horizon_ms: int, max_pending: int, max_labels: int) -> None:
        self.horizon, self.max_pending, self.max_labels = horizon_ms, max_pending, max_labels
        self.waiting: list[tuple[str, int, float]] = []  # id, arrived, x
        self.labels: list[tuple[str, int, float]] = []  # id, arrived, y
        self.clock = 0
        self.counts = dict.fromkeys(("joined", "expired", "evicted", "unmatched", "repeated_ids", "repeated_labels"), 0)
        self.learned: list[tuple[float, float, float]] = []  # x, y, seconds waited

    def tick(self, time: int) -> None:
        self.clock = max(self.clock, time)
        alive = [w for w in self.waiting if self.clock - w[1] <= self.horizon]
        self.counts["expired"] += len(self.waiting) - len(alive)
        self.waiting = alive
        alive = [w for w in self.labels if self.clock - w[1] <= self.horizon]
        self.counts["unmatched"] += len(self.labels) - len(alive)
        self.labels = alive

    def feature(self, id_: str, x: float, time: int, y: float) -> None:
        self.tick(time)
        early = [w for w in self.labels if w[0] == id_]
        if y == y:
            self.counts["joined"] += 1
            self.learned.append((x, y, 0.0))
        elif early:
            self.labels.remove(early[0])
            self.counts["joined"] += 1
            self.learned.append((x, early[0][2], 0.0))
        elif any(w[0] == id_ for w in self.waiting):
            self.counts["repeated_ids"] += 1
        else:
            if len(self.waiting) == self.max_pending:
                self.waiting.pop(0)
                self.counts["evicted"] += 1
            self.waiting.append((id_, self.clock, x))

    def label(self, id_: str, y: float, time: int) -> None:
        self.tick(time)
        found = [w for w in self.waiting if w[0] == id_]
        if found:
            self.waiting.remove(found[0])
            self.counts["joined"] += 1
            self.learned.append((found[0][2], y, (self.clock - found[0][1]) / 1000.0))
        elif any(w[0] == id_ for w in self.labels):
            self.counts["repeated_labels"] += 1
        else:
            if len(self.labels) == self.max_labels:
                self.labels.pop(0)
                self.counts["unmatched"] += 1
            self.labels.append((id_, self.clock, y))


event = st.tuples(
    st.booleans(),  # a label?
    st.integers(0, 12).map(lambda i: f"é{i}"),
    st.integers(0, 4),  # time that passes
    st.sampled_from([NAN, NAN, NAN, 7.0]),  # inline label
)


def run_batch(store: PendingStore, events, times, values):
    """Events of one batch, in merged order, through `join`; what was predicted and learned, in order."""
    features = [(e, t, v) for e, t, v in zip(events, times, values, strict=True) if not e[0]]
    labels = [(e, t, v) for e, t, v in zip(events, times, values, strict=True) if e[0]]
    before, seen = [], 0
    for e in events:
        if e[0]:
            seen += 1
        else:
            before.append(seen)
    joined = store.join(
        [e[1] for e, _, _ in features],
        np.array([[v] for _, _, v in features]).reshape(-1, 1),
        [t for _, t, _ in features],
        [e[3] for e, _, _ in features],
        [e[1] for e, _, _ in labels],
        [v for _, _, v in labels],
        [t for _, t, _ in labels],
        np.array(before, dtype=np.int64),
    )
    program = joined.program
    predicted = store.slab[joined.predicted, 0].tolist()
    learned = [
        (float(store.slab[row, 0]), float(y))
        for op, row, y in zip(program.op, program.row, program.y, strict=True)
        if op == LEARN
    ]
    rows = program.row[program.op != LEARN]
    assert rows.tolist() == joined.predicted.tolist()
    assert len(set(rows.tolist())) == len(rows)
    waited = joined.waited.tolist()
    store.release()
    return predicted, [(x, y, w) for (x, y), w in zip(learned, waited, strict=True)]


@given(
    st.lists(event, max_size=60),
    st.lists(st.integers(1, 10), min_size=1, max_size=5),
    st.integers(1, 20),
    st.integers(1, 5),
    st.integers(1, 5),
    st.booleans(),
)
def test_store_equals_the_naive_one_however_it_is_cut_and_restored(
    events, sizes, horizon, max_pending, max_labels, restart
):
    def new() -> PendingStore:
        return PendingStore(1, {"m": 2}, horizon=horizon / 1000, max_pending=max_pending, max_labels=max_labels)

    naive, store = NaiveStore(horizon, max_pending, max_labels), new()
    times, time = [], 1000
    for e in events:
        time += e[2] * 3
        times.append(time)
    values = [float(i) for i in range(len(events))]
    for e, t, v in zip(events, times, values, strict=True):
        if e[0]:
            naive.label(e[1], v, t)
        else:
            naive.feature(e[1], v, t, e[3])
    learned, predicted, at = [], [], 0
    while at < len(events):
        size = sizes[at % len(sizes)]
        window = slice(at, at + size)
        p, l = run_batch(store, events[window], times[window], values[window])
        predicted += p
        learned += l
        at += size
        if restart:
            saved = store.state()
            store = new()
            store.restore(saved)
    assert predicted == [v for e, v in zip(events, values, strict=True) if not e[0]]
    assert learned == naive.learned
    assert store.counts == naive.counts
    assert store.n_waiting == len(naive.waiting)
    assert store.n_labels_waiting == len(naive.labels)
    state = store.state()
    assert state["x"][:, 0].tolist() == [w[2] for w in naive.waiting]
    assert state["label_y"].tolist() == [w[2] for w in naive.labels]


def test_predictions_stay_beside_their_rows_until_the_label_comes_and_through_a_restart():
    store = PendingStore(1, {"m": 2}, horizon=100, max_pending=10, max_labels=10)
    joined = store.join(["a", "b"], np.array([[1.0], [2.0]]), [1, 2], None, [], [], [], np.zeros(2, np.int64))
    store.out["m"][joined.predicted] = [[0.25, 0.75], [0.5, 0.5]]
    store.release()
    store.resize({"m": 4})
    again = PendingStore(1, {"m": 4}, horizon=100, max_pending=10, max_labels=10)
    again.restore(store.state())
    joined = again.join([], np.zeros((0, 1)), [], None, ["a"], [1.0], [5], np.zeros(0, np.int64))
    row = joined.program.row[0]
    assert again.out["m"][row].tolist() == [0.25, 0.75, 0.0, 0.0]
    assert joined.waited.tolist() == [0.004]


def test_rows_are_reused_so_memory_stays_flat():
    store = PendingStore(3, {"m": 2}, horizon=100, max_pending=1000, max_labels=10)
    for i in range(200):
        ids = [f"{i}-{j}" for j in range(100)]
        store.join(ids, np.ones((100, 3)), [i] * 100, None, ids, [0.0] * 100, [i] * 100, np.zeros(100, np.int64))
        store.release()
    assert len(store.slab) <= 2048
    assert store.counts["joined"] == 20_000
