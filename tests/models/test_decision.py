"""Decisions by thresholds, against slow twins, and how well targets are kept. Those by costs: test_costs.py."""

import numpy as np
import pytest

from riparian.models.contract import LEARN, PREDICT, Program
from riparian.models.predictions.decision import ALERT_RATE, PRECISION, RECALL, TARGETS, Threshold
from riparian.models.restoring import DamagedError, restore
from tests.models.naive_decision import NaiveAlerts, NaiveThreshold

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


def run_anyhow(fresh, program, p):
    """A threshold that has run a program, and what it decided: the same in one, one by one, and from a state."""
    whole, many, first, second = (fresh() for _ in range(4))
    decided = run(whole, program, p)
    assert run(many, program, p, range(1, len(program.op))).tobytes() == decided.tobytes()
    half, at = np.zeros((len(p), 2)), 4 * len(program.op) // 9
    first.run(program.part(0, at), p, half, CODE)
    restore(second, {name: array.copy() for name, array in first.state()._asdict().items()})
    second.run(program.part(at), p, half, CODE)
    assert half.tobytes() == decided.tobytes()
    assert same(whole, many)
    assert same(whole, second)
    return whole, decided


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("delay", "n_classes"), [(0, 2), (40, 3)])
def test_a_threshold_is_the_twins(target, delay, n_classes):
    y, p = labelled(450, 3, n_classes=n_classes)
    program = delayed(y, delay)
    _, decided = run_anyhow(lambda: Threshold(target, 0.3), program, p)
    twin, said = NaiveThreshold(target, 0.3, CODE), {}
    for op, r in zip(program.op, program.row.tolist(), strict=True):
        if op == PREDICT:
            said[r] = twin.predict(p[r].tolist())
        else:
            twin.learn(y[r], p[r].tolist(), said[r])
    assert [None if np.isnan(one) else one for one in decided[:, 0]] == [said[r][0] for r in range(450)]
    assert [None if np.isnan(one) else one for one in decided[:, 1]] == [said[r][1] for r in range(450)]


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

    def fresh():
        return Threshold(ALERT_RATE, share, scores=True)

    scores, threshold, twin = scored(700, 1), fresh(), NaiveAlerts(share)
    assert not threshold.has_begun
    assert (threshold.alert_rate(True), threshold.alert_rate(False), threshold.value) == (None, None, None)
    threshold, decided = run_anyhow(fresh, delayed(np.arange(700) % 2.0, 30), scores)
    said = [twin.decide(score) for score in scores[:, 0].tolist()]
    assert [(None, None) if np.isnan(a) else (a, b) for a, b in decided.tolist()] == said
    assert {one for one, _ in said} == {None, 0, 1}
    assert threshold.alert_rate(False) == pytest.approx(twin.rates()[0])
    assert threshold.alert_rate(True) == pytest.approx(twin.rates()[1])
    assert threshold.value == twin.edge() / 480
    with pytest.raises(DamagedError, match="n has shape"):
        restore(Threshold(ALERT_RATE, share), threshold.state()._asdict())
    with pytest.raises(ValueError, match="target is recall: give alert_rate"):
        Threshold(RECALL, share, scores=True)


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
