"""Prequential metrics against a naive twin, and the properties the engine relies on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riparian.models.contract import LEARN, Program
from riparian.models.evaluation.prequential import MOST_CLASSES, UNIT_LIMIT, Prequential
from riparian.models.restoring import DamagedError, restore
from tests.models.naive_prequential import NaivePrequential

K = 3


def program(rows, y, w=None):
    n = len(rows)
    return Program(
        np.full(n, LEARN, np.int8),
        np.array(rows, np.int32),
        np.array(y, np.float64),
        np.ones(n) if w is None else np.array(w, np.float64),
    )


def score_all(evaluation, y, out, w=None):
    """Score label i against row i."""
    evaluation.score(program(range(len(y)), y, w), out)


def same_bits(a, b):
    return all(x.tobytes() == y.tobytes() for x, y in zip(a.state(), b.state(), strict=True))


probabilities = st.one_of(
    st.just([0.0] * K),
    st.just([1.0 / 4, 1.0 / 2, 1.0 / 4]),
    st.just([0.5, 0.5, 0.0]),
    st.lists(st.integers(0, 4), min_size=K, max_size=K).map(lambda v: [x / sum(v) if sum(v) else 0.0 for x in v]),
)
classified = st.lists(
    st.tuples(st.integers(0, K - 1), probabilities, st.sampled_from([0.0, 0.25, 1.0, 1.0, 3.0])), max_size=40
)
valued = st.lists(
    st.tuples(st.integers(-5, 5), st.integers(-50, 50).map(lambda v: [v / 8]), st.sampled_from([0.0, 0.5, 1.0])),
    max_size=40,
)
settings_of_window = st.sampled_from([{"window": 1}, {"window": 7}, {"window": 1000}, {"fading": 0.9}, {"fading": 0.5}])


def check_against_twin(task, n_outputs, items, options, cut):
    evaluation, twin = Prequential(task, n_outputs, **options), NaivePrequential(task, **options)
    out = np.array([p for _, p, _ in items]).reshape(len(items), n_outputs)
    y = np.array([float(v) for v, _, _ in items])
    w = np.array([weight for _, _, weight in items])
    cut = min(cut, len(items))
    score_all(evaluation, y[:cut], out, w[:cut])
    evaluation, before = Prequential(task, n_outputs, **options), evaluation
    evaluation.restore(before.state()._asdict())
    score_all(before, y, out, w)  # what was taken over are copies
    evaluation.score(program(range(cut, len(y)), y[cut:], w[cut:]), out)
    for label, prediction, weight in items:
        twin.score(label, prediction, weight)
    for found, expected in ((evaluation.metrics(), twin.metrics()), (evaluation.windowed(), twin.windowed())):
        assert set(found) == set(expected)
        for key, value in expected.items():
            assert found[key] == pytest.approx(value, rel=1e-9, abs=1e-9), key
    if task == "classification":
        for found, recent in ((evaluation.by_class(), False), (evaluation.recent_by_class(), True)):
            expected = twin.by_class(recent)
            assert set(found) == set(expected)
            for k, shares in expected.items():
                assert found[k] == pytest.approx(shares, rel=1e-9, abs=1e-12)
    whole = Prequential(task, n_outputs, **options)
    score_all(whole, y, out, w)
    assert same_bits(whole, evaluation)


@given(classified, settings_of_window, st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_classification_equals_the_twin(items, options, cut):
    check_against_twin("classification", K, items, options, cut)


anomalous = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from([0.0, 1.0, np.nan]), st.sampled_from([0.0, 0.5, 1.0])), max_size=30
)


@given(anomalous, settings_of_window, st.integers(0, 30))
@settings(max_examples=60, deadline=None)
def test_alerts_equal_the_twin(items, options, cut):
    """As two classes of which 1 is an alert; what is not decided is no prediction."""
    y, decided, w = (np.array([one[i] for one in items], float) for i in range(3))
    out, twin = np.full((len(items), 1), 0.5), NaivePrequential("classification", **options)
    for label, alert, weight in items:
        twin.score(label, [0.0, 0.0] if np.isnan(alert) else [1.0 - alert, alert], weight)
    whole, parts = (Prequential("anomaly", 1, alerts=True, **options) for _ in range(2))
    whole.score(program(range(len(items)), y, w), out, decided[:, None])
    cut = min(cut, len(items))
    for a, b in ((0, cut), (cut, len(items))):
        parts.score(program(range(a, b), y[a:b], w[a:b]), out, decided[:, None])
    assert same_bits(whole, parts)
    again = Prequential("anomaly", 1, alerts=True, **options)
    restore(again, {name: array.copy() for name, array in whole.state()._asdict().items()})
    for found, recent in ((again.by_class(), False), (again.recent_by_class(), True)):
        expected = {k: shares for k, shares in twin.by_class(recent).items() if k == 1}
        expected.get(1, {}).pop("auroc", None)  # that of all
        assert set(found) == set(expected)
        for k, shares in expected.items():
            assert found[k] == pytest.approx(shares, rel=1e-9, abs=1e-12)


def test_alerts_are_counted_from_when_they_are_decided():
    y, out, decided = np.array([1.0, 0.0] * 10), np.full((20, 1), 0.5), np.ones((20, 1))
    plain, counts = Prequential("anomaly", 1, window=30), Prequential("anomaly", 1, window=30, alerts=True)
    plain.score(program(range(20), y, np.ones(20)), out, decided)
    assert plain.by_class() == {}
    restore(counts, plain.state()._asdict())
    assert counts.by_class() == {}
    counts.score(program(range(20), y, np.ones(20)), out, decided)
    assert counts.by_class()[1] == {"n": 10.0, "recall": 1.0, "precision": 0.5, "f1": pytest.approx(2 / 3)}
    assert counts.recent_by_class()[1]["recall"] == pytest.approx(2 / 3)  # of five labels of before nothing was decided
    restore(plain, counts.state()._asdict())
    assert plain.by_class() == {}


weights = st.sampled_from([0.0, 0.001, 1.0, 1.0, 3.0])
scored = st.one_of(st.just([0] * 25), st.lists(st.sampled_from([0, 0, 1, 1, 2, 0.01]), min_size=25, max_size=25))


@st.composite
def worlds(draw):
    """Labels, predictions and weights; a class has no probability before its first label. Few classes may come, or late
    ones; many predictions are equal, some know nothing."""
    k = draw(st.sampled_from([2, 3, 25]))
    labels = st.one_of(st.integers(0, k - 1), st.integers(k - 2, k - 1), st.just(draw(st.integers(0, k - 1))))
    items = draw(st.lists(st.tuples(labels, scored, weights), max_size=40))
    out, seen = np.zeros((len(items), k)), np.zeros(k)
    for i, (label, points, _) in enumerate(items):
        out[i] = np.array(points)[:k] * seen
        out[i] /= max(out[i].sum(), 1e-300)
        seen[label] = 1.0
    return k, [float(label) for label, _, _ in items], out, [w for _, _, w in items]


@given(worlds(), st.sampled_from([1, 7, 1000]))
@settings(max_examples=60, deadline=None)
def test_auroc_is_that_of_all_pairs(world, window):
    k, y, out, w = world
    evaluation, twin = Prequential("classification", k, window=window), NaivePrequential("classification", window)
    score_all(evaluation, y, out, w)
    for item in zip(y, out.tolist(), w, strict=True):
        twin.score(*item)
    assert evaluation.windowed().get("auroc") == (None if twin.auroc() is None else pytest.approx(twin.auroc()))
    found = {one: shares["auroc"] for one, shares in evaluation.recent_by_class().items() if "auroc" in shares}
    assert found == pytest.approx(twin.areas())
    assert "auroc" not in evaluation.metrics()


@given(worlds(), st.lists(st.integers(0, 40), max_size=4))
@settings(max_examples=60, deadline=None)
def test_capacity_may_grow_anywhere(world, cuts):
    """As far as the labels of each program need, as it begins: of equal bits, however they were cut."""
    k, y, out, w = world
    whole, parts = Prequential("classification", k, window=30), Prequential("classification", 2, window=30)
    score_all(whole, y, out, w)
    ends = sorted(min(cut, len(y)) for cut in cuts)
    for a, b in zip([0, *ends], [*ends, len(y)], strict=True):
        parts.resize(max(parts.n_outputs, int(max(y[a:b], default=0.0)) + 1))
        parts.score(program(range(a, b), y[a:b], w[a:b]), np.ascontiguousarray(out[:, : parts.n_outputs]))
    parts.resize(k)
    assert same_bits(whole, parts)
    assert parts.windowed() == whole.windowed()
    assert parts.state().probabilities.shape == (30, min(k, MOST_CLASSES))


def test_what_is_told_is_of_the_last_label_and_of_the_state_that_was_restored():
    y, out = random_labels(60)
    evaluation, other = Prequential("classification", K), Prequential("classification", K)
    areas = set()
    for i in range(40, 60):
        score_all(evaluation, y[i : i + 1], out[i : i + 1])
        areas.add(evaluation.windowed().get("auroc"))
    assert len(areas) > 10
    score_all(other, y[:20], out[:20])
    told = other.windowed()
    evaluation.restore(other.state()._asdict())  # of as many labels
    assert evaluation.windowed() == told


@pytest.mark.parametrize("window", [50, 80, 200])
def test_of_a_state_without_probabilities_the_labels_since_are_ranked(window):
    """Written by a version of before, by a window of 80."""
    y, out = random_labels(300)
    whole, old, new = (Prequential("classification", K, window=w) for w in (window, 80, window))
    twin = NaivePrequential("classification", window)
    score_all(old, y[:100], out)
    restore(new, {name: array for name, array in old.state()._asdict().items() if name != "probabilities"})
    assert "auroc" not in new.windowed()
    assert new.windowed()["accuracy"] == old.windowed()["accuracy"] or window == 50
    new.resize(K + 1)
    out = np.hstack([out, np.zeros((300, 1))])
    new.score(program(range(100, 140), y[100:140]), out)
    for i in range(140):
        twin.score(y[i], out[i].tolist())
    assert new.windowed()["auroc"] == pytest.approx(twin.auroc(since=100))
    again = Prequential("classification", K + 1, window=window)
    restore(again, new.state()._asdict())
    assert same_bits(again, new)
    new.score(program(range(140, 300), y[140:]), out)
    whole.resize(K + 1)
    score_all(whole, y, out)
    assert same_bits(whole, new)  # once the window has gone by
    assert new.windowed() == whole.windowed()


def test_probabilities_that_no_evaluation_writes_are_refused():
    y, out = random_labels(100)
    evaluation = Prequential("classification", K, window=50)
    score_all(evaluation, y, out)
    good = evaluation.state()._asdict()
    for damaged in (np.zeros((49, K)), np.zeros((50, K, 1)), np.zeros((50, K), np.float32)):
        with pytest.raises(DamagedError, match="probabilities has"):
            restore(Prequential("classification", K, window=50), good | {"probabilities": damaged})


@given(valued, settings_of_window, st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_regression_equals_the_twin(items, options, cut):
    check_against_twin("regression", 1, items, options, cut)


def random_labels(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, K, n).astype(float), rng.dirichlet(np.ones(K), n)


@pytest.mark.parametrize("options", [{"window": 50}, {"fading": 0.9}])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_row_that_was_never_predicted_is_as_a_label_of_weight_0(task, options):
    y, out = random_labels(100)
    n_outputs = K if task == "classification" else 1
    out = np.ascontiguousarray(out[:, :n_outputs])
    weights = (np.arange(100) % 7 > 2).astype(float)
    unasked, unweighted = (Prequential(task, n_outputs, **options) for _ in range(2))
    score_all(unweighted, y, out, weights)
    out[weights == 0.0, 0] = np.nan
    score_all(unasked, y, out)
    assert same_bits(unasked, unweighted)
    assert unasked.metrics()["n"] == weights.sum()
    # All zeros is a prediction: that nothing was known.
    score_all(unasked, y[:1], np.zeros((1, n_outputs)))
    assert unasked.metrics()["n"] == weights.sum() + 1


def test_restore_into_another_window_keeps_what_fits():
    y, out = random_labels(300)
    wide, narrow, back = (Prequential("classification", K, window=w) for w in (100, 30, 100))
    score_all(wide, y, out)
    narrow.restore(wide.state()._asdict())
    fresh = Prequential("classification", K, window=30)
    score_all(fresh, y, out)
    assert narrow.windowed() == fresh.windowed()
    assert narrow.metrics() == wide.metrics()
    back.restore(narrow.state()._asdict())
    assert back.windowed() == narrow.windowed()
    faded = Prequential("classification", K, fading=0.99)
    faded.restore(wide.state()._asdict())
    assert faded.metrics() == wide.metrics()
    assert set(faded.windowed()) == {"n"}  # starts empty


def test_what_does_not_fit_scores_nothing():
    evaluation = Prequential("classification", K)
    with pytest.raises(ValueError, match="not below 3"):
        evaluation.score(program([0, 0], [1.0, 3.0]), np.eye(K))
    evaluation.score(program([0], [np.nan]), np.eye(K))  # no label
    with pytest.raises(ValueError, match="4 columns, not 3"):
        evaluation.score(program([0], [1.0]), np.zeros((1, 4)))
    assert evaluation.metrics() == {"n": 0}
    assert same_bits(evaluation, Prequential("classification", K))


def test_fading_is_rescaled_before_it_overflows():
    y, out = random_labels(2000)
    evaluation = Prequential("classification", K, fading=0.5)  # 2^2000 would overflow
    score_all(evaluation, y, out)
    assert evaluation.state().unit[0] <= UNIT_LIMIT
    hits = np.argmax(out, axis=1) == y
    weights = 0.5 ** np.arange(1999, -1, -1.0)
    assert evaluation.windowed()["accuracy"] == pytest.approx((hits * weights).sum() / weights.sum())


def test_what_has_faded_away_did_not_occur():
    """One class for 1,950 labels: of the others 3e-9 of a label are left, and no quotient is made of that."""
    y, out = random_labels(2100)
    y[150:] = 1.0
    out[150:] = np.where(np.arange(1950)[:, None] % 20 == 0, [0.6, 0.4, 0.0], [0.1, 0.8, 0.1])
    evaluation = Prequential("classification", K, fading=0.99)
    score_all(evaluation, y, out)
    recent = evaluation.windowed()
    assert recent["balanced_accuracy"] == pytest.approx(recent["accuracy"], abs=1e-9)
    assert recent["accuracy"] == pytest.approx(0.95, abs=0.01)
    assert "kappa_temporal" not in recent
    assert "recall" not in evaluation.recent_by_class()[0]


def test_windows_do_not_drift():
    """After a million labels the window equals, to the last bit, one that saw only its own labels."""
    n = 1_000_000
    rng = np.random.default_rng(3)
    y = rng.normal(1e6, 1.0, n)
    out = (y + rng.normal(size=n))[:, None].copy()
    long, short = Prequential("regression", 1, window=100), Prequential("regression", 1, window=100)
    score_all(long, y, out)
    short.score(program(range(n - 100, n), y[-100:]), out)
    assert long.windowed() == short.windowed()
    assert long.metrics()["r2"] == pytest.approx(1 - np.mean((y - out[:, 0]) ** 2) / np.var(y), abs=1e-9)


def test_memory_is_bounded():
    y, out = random_labels(5000)
    evaluation = Prequential("classification", K, window=100)
    before = evaluation.n_bytes
    score_all(evaluation, y, out)
    assert (
        evaluation.n_bytes == before == sum(array.nbytes for array in (*evaluation.state(), *evaluation.paid.state()))
    )
