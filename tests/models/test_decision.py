"""Decisions by costs and by thresholds, against slow twins, and how well targets are kept."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.contract import LEARN, PREDICT, Program, Schema
from models.decision import ALERT_RATE, PRECISION, RECALL, SHIFT, TARGETS, Threshold, by_cost
from models.registry import create
from models.restoring import DamagedError, restore
from models.streams.registry import Drift, open_source
from tests.models.naive_decision import NaiveAlerts, NaiveThreshold, cheapest

CODE = 1


def labelled(n, seed, rate=0.2, n_classes=2, sure=2.0):
    """Class codes and probabilities that tell something of them; a few of these nothing."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < rate, CODE, rng.integers(0, n_classes, n))
    z = rng.normal(size=(n, n_classes)) * sure
    z[np.arange(n), y] += 2.0
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    p[rng.random(n) < 0.05, :] = 0.0
    p[rng.random(n) < 0.05] = np.eye(n_classes)[0]
    return y.astype(float), p


def delayed(y, delay):
    """Each instance predicted, and learned `delay` instances later."""
    op, row = [], []
    for i in range(len(y) + delay):
        if i < len(y):
            op.append(PREDICT)
            row.append(i)
        if i >= delay:
            op.append(LEARN)
            row.append(i - delay)
    op, row = np.array(op, np.int8), np.array(row, np.int32)
    return Program(op, row, np.where(op == LEARN, y[row], np.nan), np.ones(len(op)))


def run(threshold, program, p, cuts=()):
    decided = np.zeros((len(p), 2))
    for a, b in zip([0, *cuts], [*cuts, len(program.op)], strict=True):
        threshold.run(program.part(a, b), p, decided, CODE)
    return decided


def same(a, b):
    return all(x.tobytes() == y.tobytes() for x, y in zip(a.state(), b.state(), strict=True))


@given(st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), max_size=8), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_costs_decide_as_the_twin(rows, seed):
    p = np.array(rows, float).reshape(len(rows), 3) / 4.0
    costs = np.random.default_rng(seed).integers(0, 4, (3, 3)).astype(float)
    decided, n = np.zeros((len(p), 2)), len(p)
    by_cost(Program(np.zeros(n, np.int8), np.arange(n, dtype=np.int32), np.zeros(n), np.ones(n)), p, decided, costs)
    expected = [cheapest(row, costs.tolist()) for row in p.tolist()]
    assert [None if np.isnan(one) else int(one) for one in decided[:, 0]] == expected


def test_least_cost_is_that_of_elkan():
    """Of two classes: from the probability (cost of a false alarm) / (both costs) on."""
    p = np.linspace(0.001, 0.999, 1000)
    out, decided = np.column_stack((1.0 - p, p)), np.zeros((1000, 2))
    program = Program(np.zeros(1000, np.int8), np.arange(1000, dtype=np.int32), np.zeros(1000), np.ones(1000))
    by_cost(program, out, decided, np.array([[0.0, 1.0], [19.0, 0.0]]))
    assert p[decided[:, 0] == 1.0].min() == pytest.approx(1 / 20, abs=0.001)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("delay", "n_classes"), [(0, 2), (40, 3)])
def test_a_threshold_is_the_twins(target, delay, n_classes):
    y, p = labelled(450, 3, n_classes=n_classes)
    program = delayed(y, delay)
    decided = run(Threshold(target, 0.3), program, p)
    twin, said = NaiveThreshold(target, 0.3, CODE), {}
    for op, r in zip(program.op, program.row.tolist(), strict=True):
        if op == PREDICT:
            said[r] = twin.predict(p[r].tolist())
        else:
            twin.learn(y[r], p[r].tolist(), said[r])
    assert [None if np.isnan(one) else one for one in decided[:, 0]] == [said[r][0] for r in range(450)]
    assert [None if np.isnan(one) else one for one in decided[:, 1]] == [said[r][1] for r in range(450)]


@pytest.mark.parametrize("target", TARGETS)
def test_cuts_and_a_restart_change_no_bit(target):
    y, p = labelled(600, 4)
    program = delayed(y, 25)
    whole, many, first = (Threshold(target, 0.3) for _ in range(3))
    decided = run(whole, program, p)
    assert run(many, program, p, range(1, len(program.op))).tobytes() == decided.tobytes()
    assert same(whole, many)
    half = np.zeros((600, 2))
    first.run(program.part(0, 500), p, half, CODE)
    second = Threshold(target, 0.3)
    restore(second, {name: array.copy() for name, array in first.state()._asdict().items()})
    second.run(program.part(500), p, half, CODE)
    assert same(second, whole)
    assert half.tobytes() == decided.tobytes()


def test_the_past_is_scaled_back_before_it_overflows():
    y, p = labelled(60_000, 5, rate=0.6)
    threshold = Threshold(RECALL, 0.7)
    run(threshold, delayed(y, 0), p)
    assert 1.0 <= threshold.state().following[2] <= 1e100
    assert threshold.value is not None


@pytest.mark.parametrize(("target", "share"), [(ALERT_RATE, 0.02), (ALERT_RATE, 0.2), (RECALL, 0.8), (PRECISION, 0.6)])
@pytest.mark.parametrize("delay", [0, 2000])
def test_a_target_is_kept_through_a_change_of_the_classes_ratio(target, share, delay):
    """Over every fifth of the stream after the first, though the class becomes three times as frequent."""
    rng = np.random.default_rng(6)
    y = (rng.random(60_000) < np.repeat([0.03, 0.09], 30_000)).astype(float)
    odds = np.exp(rng.normal(-4.0, 1.5, 60_000) + 3.5 * y)
    p = np.column_stack((1.0 / (1.0 + odds), odds / (1.0 + odds)))
    named = run(Threshold(target, share), delayed(y, delay), p)[:, 0] == CODE
    for part in np.split(np.arange(60_000), 5)[1:]:
        alerts, own = named[part], y[part] == CODE
        hits = (alerts & own).sum()
        found = {ALERT_RATE: alerts.mean(), RECALL: hits / own.sum(), PRECISION: hits / alerts.sum()}[target]
        assert found == pytest.approx(share, rel=0.1 if target == ALERT_RATE else 0.15)


def test_the_mean_differs_by_what_it_must():
    """Over n moves by (change of the log-odds) / (STEP n), whatever the scores: here they tell nothing, and tie."""
    rng = np.random.default_rng(8)
    p = rng.choice([0.1, 0.5], 20_000)
    out, threshold = np.column_stack((1.0 - p, p)), Threshold(ALERT_RATE, 0.1)
    decided = run(threshold, delayed(np.zeros(20_000), 0), out)
    told = ~np.isnan(decided[:, 1])
    mean, shift = (decided[told, 0] == CODE).mean(), threshold.state().following[SHIFT]
    assert mean == pytest.approx(0.1 - shift / (0.05 * told.sum()), abs=1e-9)
    assert mean == pytest.approx(0.1, abs=0.01)


def test_before_there_is_a_threshold_the_likeliest_class_is_named():
    p = np.tile([0.4, 0.6], (30, 1))
    threshold = Threshold(RECALL, 0.9)
    decided = run(threshold, delayed(np.zeros(30), 0), p)
    assert threshold.value is None
    assert (decided[:, 0] == 1.0).all()
    assert np.isnan(decided[:, 1]).all()
    assert not threshold.has_begun


def test_a_class_that_is_not_known_is_as_one_that_never_comes():
    y, p = labelled(300, 9)
    y[:], p[:, 1] = 0.0, 0.0
    known, unknown = Threshold(ALERT_RATE, 0.1), Threshold(ALERT_RATE, 0.1)
    decided = run(known, delayed(y, 3), p)
    other = np.zeros((300, 2))
    unknown.run(delayed(y, 3), p, other, -1)
    assert same(known, unknown)
    assert decided.tobytes() == other.tobytes()


def test_what_was_said_may_be_nonsense():
    """Columns beside instances come out of a state: any number, and no harm."""
    y, p = labelled(200, 2)
    for target in TARGETS:
        threshold = Threshold(target, 0.5)
        decided = np.random.default_rng(1).choice([np.nan, np.inf, -1e300, 7.0, 1.0], (200, 2))
        program = Program(np.ones(200, np.int8), np.arange(200, dtype=np.int32), y, np.ones(200))
        threshold.run(program, p, decided, CODE)
        assert np.isfinite(threshold.state().following).all()


@pytest.mark.parametrize(("target", "share", "said"), [("f1", 0.5, "target is f1"), (RECALL, 1.0, "recall is 1.0")])
def test_what_is_no_target(target, share, said):
    with pytest.raises(ValueError, match=said):
        Threshold(target, share)


# -- scores of anomalies


def scored(n, seed):
    """Scores as of anomalies: some unknown, some equal, a few beyond their range."""
    rng = np.random.default_rng(seed)
    scores = rng.beta(4.0, 9.0, (n, 1))
    for share, value in ((0.05, np.nan), (0.05, 0.5), (0.01, 0.0), (0.01, 1.0), (0.01, 1.5), (0.01, -1.0)):
        scores[rng.random(n) < share] = value
    return scores


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_alerts_are_the_twins_and_labels_change_nothing(share):
    """At .1 all are of a young stream, at .5 the first 398."""
    scores, threshold, twin = scored(700, 1), Threshold(ALERT_RATE, share, scores=True), NaiveAlerts(share)
    assert not threshold.has_begun
    assert (threshold.alert_rate(True), threshold.alert_rate(False), threshold.value) == (None, None, None)
    decided = run(threshold, delayed(np.arange(700) % 2.0, 30), scores)
    said = [twin.decide(score) for score in scores[:, 0].tolist()]
    assert [(None, None) if np.isnan(a) else (a, b) for a, b in decided.tolist()] == said
    assert {one for one, _ in said} == {None, 0, 1}
    assert threshold.alert_rate(False) == pytest.approx(twin.rates()[0])
    assert threshold.alert_rate(True) == pytest.approx(twin.rates()[1])
    assert threshold.value == twin.edge() / 480


def test_cuts_and_a_restart_change_no_bit_of_alerts():
    scores, program = scored(900, 2), delayed(np.zeros(900), 10)
    whole, many, first, second = (Threshold(ALERT_RATE, 0.05, scores=True) for _ in range(4))
    decided = run(whole, program, scores)
    assert run(many, program, scores, range(1, len(program.op))).tobytes() == decided.tobytes()
    assert same(whole, many)
    half = np.zeros((900, 2))
    first.run(program.part(0, 700), scores, half, CODE)
    restore(second, {name: array.copy() for name, array in first.state()._asdict().items()})
    second.run(program.part(700), scores, half, CODE)
    assert same(second, whole)
    assert half.tobytes() == decided.tobytes()
    with pytest.raises(DamagedError, match="n has shape"):
        restore(Threshold(ALERT_RATE, 0.05), whole.state()._asdict())
    with pytest.raises(ValueError, match="target is recall: give alert_rate"):
        Threshold(RECALL, 0.05, scores=True)


@pytest.mark.parametrize(("share", "near"), [(0.01, 0.2), (0.05, 0.05)])
def test_the_share_of_alerts_stays_through_a_drift_of_the_scores(share, near):
    """In every tenth of the stream after the first, though all scores go up in its middle, then slowly down again."""
    rng, n = np.random.default_rng(3), 100_000
    drift = np.where(np.arange(n) < n // 2, 0.0, 0.2) - 0.1 * np.clip(np.arange(n) / n - 0.7, 0.0, 1.0)
    scores, threshold = rng.beta(4.0, 16.0, n) + drift, Threshold(ALERT_RATE, share, scores=True)
    alerts = run(threshold, delayed(np.zeros(n), 0), scores[:, None])[:, 0]
    found = [np.nanmean(part) for part in np.split(alerts, 10)]
    assert np.nanmean(alerts) == pytest.approx(share, rel=0.01)
    assert found[1:] == pytest.approx([share] * 9, rel=near)
    assert np.isnan(alerts[: int(1 / share)]).all()
    assert not np.isnan(alerts[int(1 / share) :]).any()
    known = ~np.isnan(alerts)
    assert scores[known & (alerts == 1)].mean() > np.quantile(scores, 0.9)


@pytest.mark.parametrize("fall", [0.0, 0.1])
def test_the_share_of_alerts_is_kept_from_the_first_hundred_on(fall):
    """Also where a learner says greater scores of its first thousand than of those that follow."""
    rng, n = np.random.default_rng(5), 5000
    found = []
    for _ in range(20):
        scores = rng.beta(4.0, 16.0, n) + np.where(np.arange(n) < 1000, fall, 0.0)
        threshold = Threshold(ALERT_RATE, 0.01, scores=True)
        found.append(run(threshold, delayed(np.zeros(n), 0), scores[:, None])[:, 0])
    early, late = (np.nanmean(np.array(found)[:, part]) for part in (slice(0, 1000), slice(2000, n)))
    assert early == pytest.approx(0.01, rel=0.25)
    assert late == pytest.approx(0.01, rel=0.15)


@pytest.mark.parametrize("delay", [0, 2000])
def test_a_class_of_one_in_500_is_found_as_often_as_asked_for(delay):
    """By a tree on the stream `rare`, in whose second half the class is three times as frequent."""
    n = 200_000
    stream = open_source("rare", 1, {}, [Drift(n // 2, 0, {"ratio": 0.006})]).take(n)
    program, own = delayed(stream.y, delay), stream.y == CODE
    p, decided = np.zeros((n, 2)), np.zeros((n, 2))
    create("hoeffding-tree", Schema(stream.n_values, 2, "classification")).run(program, stream.x, p)
    by_cost(program, p, decided, np.array([[0.0, 1.0], [20.0, 0.0]]))
    costs = [np.where(own, 20.0 * ~alerts, alerts).mean() for alerts in (p[:, 1] > p[:, 0], decided[:, 0] == CODE)]
    assert costs[1] < 0.9 * costs[0]
    parts = np.split(np.arange(n), 4)[1:]
    for target, share, near in ((ALERT_RATE, 0.01, 0.001), (RECALL, 0.5, 0.12), (PRECISION, 0.5, 0.17)):
        named = run(Threshold(target, share), program, p)[:, 0] == CODE
        for part in parts:
            alerts, hits = named[part], (named & own)[part].sum()
            found = {ALERT_RATE: alerts.mean(), RECALL: hits / own[part].sum(), PRECISION: hits / alerts.sum()}[target]
            assert found == pytest.approx(share, abs=near), (target, part[0])
