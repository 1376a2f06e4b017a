"""AUROC and the other measures of an evaluation, held against scikit-learn and plain loops."""

import gc
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as oracle

from riparian.app.evaluation.measures.auroc import Ranking
from riparian.app.evaluation.measures.measured import Measured
from riparian.models.contract import LEARN, PREDICT, Program, Schema
from riparian.models.evaluation import auroc
from riparian.models.memory import live_bytes
from riparian.models.registry import create

cells = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4), st.sampled_from([0.5, 1.0, 3.0])), max_size=60)


def program(y, w=None, op=None, rows=None):
    n = len(y)
    return Program(
        np.full(n, LEARN, np.int8) if op is None else op,
        np.arange(n, dtype=np.int32) if rows is None else np.asarray(rows, np.int32),
        np.asarray(y, np.float64),
        np.ones(n) if w is None else np.asarray(w, np.float64),
    )


def labels(n, n_classes, seed=0, values=None):
    """Class codes and probabilities that tell something of them, of `values` different ones where given."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    p = rng.dirichlet(np.ones(n_classes), n) + 0.4 * np.eye(n_classes)[y] * rng.random((n, 1))
    p = p if values is None else np.round(p * values) + 1.0
    return y, p / p.sum(axis=1, keepdims=True)


@given(cells, st.integers(0, 60), st.sampled_from([1, 20, 10**6]))
@settings(max_examples=150, deadline=None)
def test_areas_are_those_of_all_pairs(items, cut, room):
    """Weighted pairs counted one by one, ties half; however the labels are cut, and whenever they are sorted."""
    y = np.array([label for label, _, _ in items], np.int64)
    p = np.zeros((len(items), 3))
    p[np.arange(len(items)), 1] = [score / 4 for _, score, _ in items]
    p[:, 0] = 1.0 - p[:, 1]
    w = np.array([weight for _, _, weight in items])
    found = Ranking(room=room)
    for part in (slice(0, cut), slice(cut, None)):
        found.add(y[part], p[part], w[part])
    expected = {}
    for k in range(3):
        own, others = np.flatnonzero(y == k), np.flatnonzero(y != k)
        if len(own) and len(others):
            wins = sum(
                w[i] * w[j] * (float(p[i, k] > p[j, k]) + 0.5 * float(p[i, k] == p[j, k]))
                for i in own for j in others
            )  # fmt: skip
            expected[k] = wins / (w[own].sum() * w[others].sum())
    assert found.areas() == auroc.areas(y, p, w) == pytest.approx(expected, abs=1e-12)
    assert found.error() == 0.0


def test_auroc_of_a_fading_past_weighs_labels():
    y, p = labels(900, 2, seed=3)
    evaluation = Measured("classification", 2, fading=0.99)
    evaluation.score(program(y), p)
    weights = 0.99 ** np.arange(899, -1, -1)
    expected = oracle.roc_auc_score(y, p[:, 1], sample_weight=weights)
    assert evaluation.recent()["auroc"] == pytest.approx(expected, abs=1e-9)
    recall = oracle.recall_score(y, p.argmax(axis=1), average=None, sample_weight=weights)
    found = [evaluation.recent_by_class()[k]["recall"] for k in range(2)]
    assert found == pytest.approx(recall.tolist(), abs=1e-9)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_labels_that_had_no_probability_are_counted(n_classes):
    """They are most of the log loss: 34.5 nats each."""
    y, p = labels(300, n_classes, seed=5)
    p[200:, -1] = 0.0
    evaluation = Measured("classification", n_classes)
    for part in (slice(0, 120), slice(120, 300)):
        evaluation.score(program(y[part]), p[part])
    n = int((y[200:] == n_classes - 1).sum())
    assert evaluation.metrics()["unforeseen"] == n > 10


@pytest.mark.parametrize("n_classes", [2, 4])
def test_beyond_its_room_auroc_says_how_wrong_it_may_be(n_classes):
    """Scores that go on rising, so that cells made of the first ones do not fit the later ones."""
    y, p = labels(60_000, n_classes, seed=1)
    p[:, 1:] *= np.linspace(0.5, 1.0, 60_000)[:, None]
    p[:, 0] = 1.0 - p[:, 1:].sum(axis=1)
    found = Ranking(room=9000)
    for at in range(0, 60_000, 1000):
        found.add(y[at : at + 1000], p[at : at + 1000], np.ones(1000))
    assert max(len(cells.low) for cells in found._cells) <= 9000
    errors = [abs(a - oracle.roc_auc_score(y == k, p[:, k])) for k, a in found.areas().items()]
    assert len(errors) == n_classes
    assert 0.0 < max(errors) <= found.error() < 0.002


def test_scores_that_repeat_need_no_room():
    y, p = labels(60_000, 2, seed=2, values=50)
    found = Ranking(room=9000)
    for at in range(0, 60_000, 1000):
        found.add(y[at : at + 1000], p[at : at + 1000], np.ones(1000))
    assert found.error() == 0.0
    assert found.areas()[1] == pytest.approx(oracle.roc_auc_score(y, p[:, 1]), abs=1e-12)


def test_classes_that_come_later_had_the_score_0():
    y, p = labels(600, 3, seed=4)
    y[:200] = np.minimum(y[:200], 1)
    p[:200, 2] = 0.0
    for room in (1, 300, 10**6):
        found = Ranking(room=room)
        found.add(y[:200], p[:200, :2], np.ones(200))
        found.add(y[200:], p[200:], np.ones(400))
        assert found.areas() == pytest.approx({k: oracle.roc_auc_score(y == k, p[:, k]) for k in range(3)}, abs=1e-12)


def test_what_is_not_scored_and_what_was_not_known():
    """Weight 0 and rows that were never predicted do not count; where nothing was known, all classes known by then are
    alike, as in the log loss."""
    y = np.array([1, 0, 0, 1, 1, 0])
    p = np.array([[0.0, 0.0], [0.0, 0.0], [0.9, 0.1], [0.2, 0.8], [np.nan, np.nan], [0.6, 0.4]])
    evaluation = Measured("classification", 2)
    evaluation.score(program(y, w=[1, 1, 1, 1, 1, 0]), p)
    assert evaluation.metrics()["n"] == 4
    assert evaluation.ranked()["auroc"] == oracle.roc_auc_score(y[:4], [1.0, 0.5, 0.1, 0.8])
    assert evaluation.metrics()["mean_running_accuracy"] == pytest.approx((0 / 1 + 0 / 2 + 1 / 3 + 2 / 4) / 4)
    assert "unforeseen" not in evaluation.metrics()
    op = np.array([PREDICT, LEARN, LEARN, PREDICT], np.int8)
    shares = {"n": 2.0, "recall": 0.5, "precision": 1.0, "f1": 2 / 3}
    ranked = {
        k: {"auroc": oracle.roc_auc_score(y[:4] == k, p)}
        for k, p in ((0, [0.0, 0.5, 0.9, 0.2]), (1, [1.0, 0.5, 0.1, 0.8]))
    }
    assert evaluation.recent_by_class() == {k: shares | ranked[k] for k in (0, 1)}
    alone = Measured("classification", 2)
    alone.score(program([np.nan, 0, 1, np.nan], op=op, rows=[2, 2, 3, 1]), p)
    assert alone.metrics()["n"] == 2
    assert alone.ranked() == {"auroc": 1.0}
    assert "auroc" not in Measured("classification", 2).recent()


def test_the_mean_of_the_running_accuracy_does_not_depend_on_cuts():
    y, p = labels(500, 3, seed=6)
    w = np.random.default_rng(1).choice([0.5, 1.0, 2.0], 500)
    hits = w * (p.argmax(axis=1) == y)
    expected = np.mean([hits[: i + 1].sum() / w[: i + 1].sum() for i in range(500)])
    found = set()
    for size in (1, 7, 500):
        evaluation = Measured("classification", 3)
        for at in range(0, 500, size):
            evaluation.score(program(y[at : at + size], w[at : at + size]), p[at : at + size])
        found.add(evaluation.metrics()["mean_running_accuracy"])
    assert len(found) == 1
    assert found.pop() == pytest.approx(expected, rel=1e-12)


def test_a_regression_has_no_ranks():
    evaluation = Measured("regression", 1, detectors=["adwin"])
    evaluation.score(program([1.0, 2.0]), np.array([[1.5], [2.0]]))
    assert evaluation.metrics()["mae"] == 0.25
    assert evaluation.ranked() == {}
    assert not {"auroc", "mean_running_accuracy"} & (evaluation.recent().keys() | evaluation.metrics().keys())


def allocated():
    """Bytes of all arrays that there are, as numpy tells Python's tracer."""
    gc.collect()
    arrays = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([arrays]).traces)


@pytest.mark.parametrize(
    "name", ["naive-bayes", "hoeffding-tree", "online-bagging", "shrub-ensemble", "mondrian-forest"]
)
def test_live_bytes_are_what_numpy_has_allocated(name):
    """The state of an ensemble of shrubs is 51 KB here, its arrays 3.1 MB."""
    schema = Schema((0, 0, 3), 2, "classification")
    create(name, schema).warm_up()
    rng = np.random.default_rng(0)
    x = np.column_stack((rng.random((600, 2)), rng.integers(0, 3, 600)))
    y = (x[:, 0] > 0.5).astype(float)
    tracemalloc.start()
    try:
        before = allocated()
        learner = create(name, schema)
        learner.learn_many(x, y)
        assert live_bytes(learner) == pytest.approx(allocated() - before, abs=500)
    finally:
        tracemalloc.stop()
    total = live_bytes(learner)
    assert total >= learner.n_bytes
    learner.more = np.zeros(1000)
    learner.again, learner.view = vars(learner).copy(), learner.more[3:]
    assert live_bytes(learner) == pytest.approx(total + 8000, abs=64)
