"""Every detector against its naive twin, and the invariants of models/drift/contract.py."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riparian.models.drift import DETECTORS, create
from riparian.models.drift.kswin import distance, sort
from riparian.models.drift.scaling import bring, new_scale
from tests.models.naive_drift import (
    NaiveAdwin,
    NaiveDdm,
    NaiveEddm,
    NaiveHddmA,
    NaiveHddmW,
    NaiveKswin,
    NaivePageHinkley,
    NaiveScale,
)

TWINS = {
    "adwin": (NaiveAdwin, [{}, {"delta": 0.2, "clock": 1, "max_buckets": 2, "min_side": 1}]),
    "ddm": (NaiveDdm, [{}, {"min_values": 5, "warning": 1.0, "drift": 1.5}]),
    "eddm": (NaiveEddm, [{}, {"min_values": 3, "min_errors": 4, "warning": 0.99, "drift": 0.95}]),
    "hddm-a": (
        NaiveHddmA,
        [
            {},
            {"drift_confidence": 0.1, "warning_confidence": 0.3, "two_sided": False},
            {"drift_confidence": 0.01, "warning_confidence": 0.4},
        ],
    ),
    "hddm-w": (NaiveHddmW, [{}, {"two_sided": True, "fading": 0.2, "drift_confidence": 0.05}]),
    "kswin": (NaiveKswin, [{"alpha": 0.1, "window_size": 25, "stat_size": 8}, {"window_size": 150, "stat_size": 70}]),
    "page-hinkley": (NaivePageHinkley, [{"threshold": 8.0}, {"threshold": 3.0, "alpha": 0.99, "two_sided": True}]),
}
CASES = [(name, parameters) for name, (_, cases) in TWINS.items() for parameters in cases]


def errors(seed, rates=(0.2, 0.6, 0.1, 0.45), n=250):
    """Bernoulli values whose rate changes every n."""
    rng = np.random.default_rng(seed)
    return (rng.random(n * len(rates)) < np.repeat(rates, n)).astype(np.float64)


def test_every_detector_has_a_twin():
    assert set(DETECTORS) == set(TWINS)


@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_levels_are_the_twin_s(name, parameters):
    drifts = 0
    n = 120  # twins look at all values again at each
    for seed in range(2):
        twin = TWINS[name][0](**parameters)
        x = errors(seed, n=n)
        detector, levels = create(name, **parameters), []
        for part in np.split(x, [0, 1, 77, 200, 201, len(x) - 30]):
            levels += detector.update_many(part).tolist()
            saved = {field: array.copy() for field, array in detector.state()._asdict().items()}
            detector.update_many(x)  # must not touch what was saved
            detector = create(name, **parameters)
            detector.restore(saved)
        assert levels == [twin.update(value) for value in x.tolist()]
        drifts += levels.count(2)
    assert drifts > 0


@pytest.mark.parametrize("parameters", TWINS["adwin"][1])
def test_adwin_s_buckets_are_the_twin_s_and_sum_up_their_values(parameters):
    rng = np.random.default_rng(7)
    x = rng.normal(np.repeat([0.0, 1.0, -0.5], 2000), 0.5)
    detector, twin = create("adwin", **parameters), NaiveAdwin(**parameters)
    levels = detector.update_many(x)
    assert levels.tolist() == [twin.update(value) for value in x.tolist()]
    assert np.count_nonzero(levels == 2) >= 2
    state = detector.state()
    buckets = [
        (1 << row, state.totals[row, k], state.spreads[row, k])
        for row in range(len(state.filled) - 1, -1, -1)
        for k in range(state.filled[row])
    ]
    assert buckets == twin.buckets
    assert detector.width == len(twin.values)
    assert state.sums.tolist() == [twin.total, twin.spread]
    assert state.sums[0] == pytest.approx(np.sum(twin.values))
    assert state.sums[1] == pytest.approx(np.var(twin.values) * len(twin.values))
    position = 0
    for size, total, spread in buckets:
        values = np.array(twin.values[position : position + size])
        position += size
        assert total == pytest.approx(values.sum(), abs=1e-9)
        assert spread == pytest.approx(values.var() * size, abs=1e-9)


@pytest.mark.parametrize("seed", [0, 5])
def test_kswin_on_real_values_is_the_twin_s(seed):
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.normal(size=600), rng.choice([-5.0, 5.0], 600), rng.normal(5.0, 1.0, 600)])
    detector, twin = create("kswin", seed=seed), NaiveKswin(seed=seed)
    levels = detector.update_many(x)
    assert levels.tolist() == [twin.update(value) for value in x.tolist()]
    assert 2 in levels[600:700]  # the mean stays, the distribution does not
    filled, next_at = detector.state().counts
    assert np.roll(detector.state().window, -next_at)[-filled:].tolist() == twin.window


@given(values=st.lists(st.integers(-3, 3), max_size=80))
def test_kswin_sorts(values):
    found = np.array(values, float)
    sort(found)
    assert found.tolist() == sorted(values)


@given(values=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_kswin_s_distance_is_the_definition(values):
    a, b = (np.sort(np.array(column, float)) for column in zip(*values, strict=True))
    expected = max(abs(np.mean(a <= value) - np.mean(b <= value)) for value in range(7))
    assert distance(a, b) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_one_at_a_time_reset_and_values_that_are_not_finite(name, parameters):
    x = errors(3)
    detector = create(name, **parameters)
    expected = detector.update_many(x)
    n_bytes = detector.n_bytes
    detector.reset()
    with_gaps = np.insert(x, [0, 100, 500], [np.nan, np.inf, -np.inf])
    before = x.copy()
    levels = [detector.update(value) for value in with_gaps]
    finite = np.isfinite(with_gaps)
    assert np.array(levels)[finite].tolist() == expected.tolist()
    assert not np.array(levels)[~finite].any()
    assert np.array_equal(x, before)
    assert detector.n_bytes == n_bytes > 0


def test_what_is_not_valid_is_said():
    with pytest.raises(ValueError, match="no drift detector 'adwim': did you mean 'adwin'"):
        create("adwim")
    with pytest.raises(ValueError, match="no parameter 'gamma'"):
        create("ddm", gamma=1)
    with pytest.raises(ValueError, match="parameter 'delta' of detector 'adwin' is 2: give a number in 1e-300"):
        create("adwin", delta=2)
    with pytest.raises(ValueError, match="window_size is 50: give at least twice stat_size, 60"):
        create("kswin", window_size=50)
    with pytest.raises(ValueError, match="give one array"):
        create("ddm").update_many(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="restore with the parameters it had"):
        create("adwin").restore(create("adwin", max_buckets=3).state()._asdict())


@pytest.mark.parametrize("name", DETECTORS)
def test_parameters_and_paper_are_said(name):
    detector = create(name)
    assert detector.name == name
    assert detector.entry.paper
    assert set(detector.parameters()) == {parameter.name for parameter in detector.entry.parameters}
    assert create(name, **detector.parameters()).parameters() == detector.parameters()


def brought(x, errors, pieces=1):
    """Values on a scale, and where it was measured anew; in pieces, each followed by a copy of the scale."""
    scaled, changed, scale = np.full(len(x), -1.0), [], new_scale()
    for piece in np.array_split(np.arange(len(x)), pieces):
        start, stop = (piece[0], piece[-1] + 1) if len(piece) else (0, 0)
        at = start
        while at < stop:
            at = start + bring(x[start:stop], scaled[start:stop], at - start, scale, errors)
            changed += [at] if at < stop else []
        scale = scale.copy()
    return scaled, [int(at) for at in changed]


WORLDS = {
    "steady": lambda rng, n: rng.exponential(3.0, n),
    "a bad beginning": lambda rng, n: rng.exponential(3.0, n) * np.where(np.arange(n) < 700, 1e5, 1.0),
    "rises": lambda rng, n: rng.exponential(3.0, n) * np.where(np.arange(n) < 1500, 1.0, 30.0),
    "nothing, then something": lambda rng, n: rng.exponential(3.0, n) * (np.arange(n) >= 1500),
    "one in a thousand is enormous": lambda rng, n: rng.exponential(3.0, n) * np.where(rng.random(n) < 1e-3, 1e8, 1.0),
}


@pytest.mark.parametrize("errors", [True, False])
@pytest.mark.parametrize("world", WORLDS)
def test_a_scale_is_that_of_the_twin(world, errors):
    x = WORLDS[world](np.random.default_rng(1), 4000)
    scaled, changed = brought(x, errors)
    twin, expected, anew = NaiveScale(errors), [], []
    for i, value in enumerate(x.tolist()):
        moved, on_scale = twin.take(value)
        anew += [i] if moved else []
        expected.append(np.nan if on_scale is None else on_scale)
    np.testing.assert_array_equal(scaled, expected)
    assert changed == anew
    assert bool(changed) == (world in ("a bad beginning", "rises", "nothing, then something")) or not errors
    known = scaled[100:]
    assert np.isnan(scaled[:100]).all()
    assert ((known >= 0.0) & (known <= 1.0)).all()
    for pieces in (7, 1000, 4000):
        again, also = brought(x, errors, pieces)
        assert again.tobytes() == scaled.tobytes()
        assert also == changed
