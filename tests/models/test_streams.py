"""The generators: random numbers and streams against naive twins, distributions, repeatability, and the registry."""

import importlib
import inspect
import itertools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riparian.models.kernels.randomness import draw, seeded
from riparian.models.streams.concept_drift import drifting
from riparian.models.streams.generators import (
    agrawal,
    friedman,
    hyperplane,
    led,
    moving_squares,
    payments,
    random_rbf,
    rare,
    sea,
    sine,
    stagger,
    transient_chessboard,
    waveform,
)
from riparian.models.streams.registry import REGISTRY, ConceptDrift, find, open_source, validate
from tests.models import naive_streams
from tests.models.naive_streams import xoshiro

MODULES = [
    agrawal, friedman, hyperplane, led, moving_squares, payments, random_rbf, rare, sea, sine, stagger,
    transient_chessboard, waveform,
]  # fmt: skip
VILLAGE = {"customers": 40, "terminals": 60, "radius": 20.0}  # payments of a few
TWINS = [
    (friedman, [{}, {"function": 1, "noise": 0.2}, {"function": 2}]),
    (hyperplane, [{}, {"n_features": 3, "n_drift": 3, "speed": 0.05, "turn": 0.3, "noise": 0.2}, {"speed": 0.0}]),
    (led, [{}, {"noise": 0.3, "n_irrelevant": 7, "n_swapped": 7}, {"n_swapped": 3}]),
    (moving_squares, [{}, {"speed": 0.01}, {"speed": 1.0}]),
    (
        payments,
        [
            {**VILLAGE, "labels": "both"},
            {**VILLAGE, "labels": "fraud", "blocked": 0.2, "bad_customers": 1, "bad_terminals": 5},
            {**VILLAGE, "labels": "both", "campaign": 4},
        ],
    ),
    (rare, [{}, {"ratio": 0.4, "function": 1}, {"ratio": 0.1, "shift": 1.0}]),
    (sea, [{}, *({"function": f, "noise": 0.2} for f in (1, 2, 3))]),
    (sine, [{}, *({"function": f, "n_irrelevant": 0} for f in (1, 2, 3))]),
    (stagger, [{"function": f} for f in range(3)]),
    (transient_chessboard, [{}, {"size": 3, "alone": 7, "together": 5}, {"size": 2, "alone": 1, "together": 0}]),
    (waveform, [{}, {"n_irrelevant": 19}]),
]


def bits(stream):
    return stream.x.tobytes(), stream.y.tobytes()


def rows(twin, n):
    """The first n instances of a naive stream: x, y."""
    x, y = zip(*itertools.islice(twin, n), strict=True)
    return np.array(x, float), np.array(y, float)


def test_seeding_is_splitmix64():
    # published first outputs of splitmix64 for the seed 1234567
    assert [int(word) for word in seeded(1234567)[:2]] == [6457827717110365317, 3203168211198807973]


@pytest.mark.parametrize("seed", [0, 1, -5, 2**70 + 3])
def test_draws_are_xoshiro(seed):
    state = seeded(seed)
    twin = xoshiro([int(word) for word in state])
    assert [int(draw(state)) for _ in range(100)] == [next(twin) for _ in range(100)]


@pytest.mark.parametrize("module", MODULES)
def test_pieces_of_a_seed_are_the_whole_and_other_seeds_another(module):
    whole, source = module.source(3).take(500), module.source(3)
    pieces = [source.take(n) for n in (0, 1, 199, 7, 293)]
    assert b"".join(part.x.tobytes() for part in pieces) == whole.x.tobytes()
    assert b"".join(part.y.tobytes() for part in pieces) == whole.y.tobytes()
    assert whole.x.tobytes() != module.source(4).take(500).x.tobytes()


@pytest.mark.parametrize(
    ("module", "parameters"), [(module, parameters) for module, cases in TWINS for parameters in cases]
)
def test_streams_are_the_twins(module, parameters):
    name = module.__name__.rpartition(".")[2]
    for seed in (0, 9):
        stream = module.source(seed, **parameters).take(1500)
        x, y = rows(getattr(naive_streams, name)(seed, **parameters), 1500)
        if module is payments:  # which are rounded to cents and seconds
            assert np.array_equal(stream.x, x, equal_nan=True)
            assert np.array_equal(stream.y, y, equal_nan=True)
            continue
        if module in (rare, waveform):  # a logarithm of the standard library may differ in the last bit
            assert stream.x == pytest.approx(x, rel=1e-12, abs=1e-12)
        else:
            assert stream.x.tobytes() == x.tobytes()
        assert stream.y == pytest.approx(y, rel=1e-12) if module is friedman else stream.y.tobytes() == y.tobytes()


@pytest.mark.parametrize("module", MODULES)
def test_shapes_and_codes(module):
    source = module.source()
    stream = source.take(3000)
    assert stream.x.shape == (3000, len(stream.names)) == (len(stream.y), len(stream.n_values))
    assert stream.n_classes == 0 or set(stream.y) == set(range(stream.n_classes))
    for j, n_values in enumerate(stream.n_values):
        if n_values and stream.names[j] in source.ids:
            assert set(stream.x[:, j]) < set(range(n_values))
        elif n_values:
            assert set(stream.x[:, j]) == set(range(n_values))
        else:
            assert len(set(stream.x[:, j])) > 20


def test_payments_are_as_the_handbook_draws_them():
    stream = payments.source(7).take(400_000)
    time, card, terminal, amount, labelled = stream.x.T
    fraud, day = stream.y == 1, (time - payments.BEGIN) // payments.DAY
    assert (np.diff(time) >= 0).all()
    assert (labelled == time + 7 * payments.DAY).all()
    assert 0.008 < fraud[200_000:].mean() < 0.0095
    assert fraud[amount > payments.LIMIT].all()
    # Whoever pays is near, with amounts and rates of its own.
    world = payments.make_world(seeded(7), 5000, 10_000, 5.0)
    place, where = world.customers[card.astype(int)], world.terminals[terminal.astype(int)]
    assert np.hypot(*(place - where).T).max() < 5.0
    many = np.bincount(card.astype(int), minlength=5000)
    reached = np.diff(world.start) > 0
    assert set(np.flatnonzero(many)) <= set(np.flatnonzero(reached))
    # A day's normal times lie within it but for 3 %.
    assert many[reached] == pytest.approx(0.969 * (day[-1] + 1) * world.rates[reached], abs=120, rel=0.15)
    usual = np.bincount(card[~fraud].astype(int), minlength=5000)
    busy = (usual > 100) & (world.means < 80)
    means = np.bincount(card[~fraud].astype(int), amount[~fraud], 5000)[busy] / usual[busy]
    assert means == pytest.approx(1.03 * world.means[busy], rel=0.25)
    # All payments at a compromised terminal are fraud, for 28 days: two more are each day.
    lengths, order = [], np.argsort(terminal, kind="stable")
    for at in np.split(order, np.flatnonzero(np.diff(terminal[order])) + 1):  # the payments of each
        runs = np.flatnonzero(np.diff(np.concatenate(([0], fraud[at], [0]))))
        first, last = runs[::2], runs[1::2] - 1
        days = day[at]
        lengths.extend((days[last] - days[first])[last - first >= 5].tolist())
    assert 20 < np.median(lengths) <= 27
    assert sum(length > 27 for length in lengths) < 0.03 * len(lengths)  # but for one that is compromised again
    assert len(lengths) == pytest.approx(2 * day[-1], rel=0.35)


def test_labels_of_fraud_alone_come_when_they_are_known():
    both, alone = (payments.source(3, labels=labels).take(300_000) for labels in ("both", "fraud"))
    assert both.x[:, :4].tobytes() == alone.x[:, :4].tobytes()
    fraud = both.y == 1
    assert np.isnan(alone.y[~fraud]).all()
    assert np.isnan(alone.x[~fraud, 4]).all()
    assert (alone.y[fraud] == 1).all()
    days = (alone.x[fraud, 4] - alone.x[fraud, 0]) / payments.DAY
    assert days.min() >= 1
    assert days.max() < 60
    assert [(days < n).mean() for n in (7, 14, 30)] == pytest.approx([0.34, 0.59, 0.87], abs=0.04)


def test_payments_that_are_blocked_have_a_time_and_no_label():
    free, some = (payments.source(3, labels="fraud", blocked=share).take(100_000) for share in (0.0, 0.1))
    blocked = some.x[:, 4] == some.x[:, 0]
    assert blocked.mean() == pytest.approx(0.1, abs=0.005)
    assert np.isnan(some.y[blocked]).all()
    assert some.x[~blocked].tobytes() == free.x[~blocked].tobytes()
    assert some.y[~blocked].tobytes() == free.y[~blocked].tobytes()
    assert (free.y[blocked] == 1).mean() == pytest.approx((free.y == 1).mean(), rel=0.2)


def test_fraud_changes_its_pattern_with_each_campaign():
    world = {"customers": 1000, "terminals": 2800, "bad_customers": 2, "bad_terminals": 1, "campaign": 20}
    stream = payments.source(1, **world).take(112_000)
    amount, fraud = stream.x[:, 3], stream.y == 1
    campaign = (stream.x[:, 0] - payments.BEGIN) // (20 * payments.DAY)
    usual = np.median(amount)
    for k, share_of_terminals in enumerate((0.0, 1.0, 0.0)):
        here = campaign == k
        assert 0.006 < fraud[here].mean() < 0.014
        bad = np.unique(stream.x[here & fraud, 2])
        at = here & np.isin(stream.x[:, 2], bad)
        assert (fraud[at].mean() > 0.5) == share_of_terminals
    middle = [np.median(amount[(campaign == k) & fraud]) / usual for k in range(3)]
    assert middle[0] > 3
    assert 0.5 < middle[1] < 1.5
    assert middle[2] < 0.2


def test_payments_need_somewhere_to_pay():
    with pytest.raises(ValueError, match="no customer of 1 has one of 1 terminals within"):
        payments.source(0, customers=1, terminals=1, radius=0.1)


def group_a(function, salary, commission, age, elevel, hvalue, hyears, loan):
    """The ten predicates as the paper's appendix lists them."""
    band = 0 if age < 40 else 1 if age < 60 else 2
    disposable = 2 * (salary + commission) / 3
    if function == 0:
        return age < 40 or age >= 60
    if function == 1:
        return [50 <= salary / 1000 <= 100, 75 <= salary / 1000 <= 125, 25 <= salary / 1000 <= 75][band]
    if function == 2:
        return elevel in [{0, 1}, {1, 2, 3}, {2, 3, 4}][band]
    if function == 3:
        if band == 0:
            return 25e3 <= salary <= 75e3 if elevel in {0, 1} else 50e3 <= salary <= 100e3
        if band == 1:
            return 50e3 <= salary <= 100e3 if elevel in {1, 2, 3} else 75e3 <= salary <= 125e3
        return 50e3 <= salary <= 100e3 if elevel in {2, 3, 4} else 25e3 <= salary <= 75e3
    if function == 4:
        if band == 0:
            return 100e3 <= loan <= 300e3 if 50e3 <= salary <= 100e3 else 200e3 <= loan <= 400e3
        if band == 1:
            return 200e3 <= loan <= 400e3 if 75e3 <= salary <= 125e3 else 300e3 <= loan <= 500e3
        return 300e3 <= loan <= 500e3 if 25e3 <= salary <= 75e3 else 100e3 <= loan <= 300e3
    if function == 5:
        total = salary + commission
        return [50e3 <= total <= 100e3, 75e3 <= total <= 125e3, 25e3 <= total <= 75e3][band]
    if function == 6:
        return disposable - loan / 5 - 20e3 > 0
    if function == 7:
        return disposable - 5e3 * elevel - 20e3 > 0
    if function == 8:
        return disposable - 5e3 * elevel - loan / 5 - 10e3 > 0
    equity = 0 if hyears < 20 else hvalue * (hyears - 20) / 10
    return disposable - 5e3 * elevel + equity / 5 - 10e3 > 0


@given(
    function=st.integers(0, 9),
    salary=st.integers(20, 150),
    commission=st.integers(0, 75),
    age=st.integers(20, 80),
    elevel=st.integers(0, 4),
    hvalue=st.integers(50, 1350),
    hyears=st.integers(1, 30),
    loan=st.integers(0, 500),
)
@settings(max_examples=100, deadline=None)
def test_agrawal_functions_equal_the_twin(function, salary, commission, age, elevel, hvalue, hyears, loan):
    salary, commission, hvalue, loan = salary * 1e3, commission * 1e3, hvalue * 1e3, loan * 1e3
    row = np.array([salary, commission, age, elevel, 0.0, 0.0, hvalue, hyears, loan])
    expected = group_a(function, salary, commission, age, elevel, hvalue, hyears, loan)
    assert agrawal.classify(function, row) == (0.0 if expected else 1.0)


def test_agrawal_distributions():
    x = agrawal.source(1, perturbation=0.0).take(20000).x
    salary, commission, age, hvalue = x[:, 0], x[:, 1], x[:, 2], x[:, 6]
    assert salary.mean() == pytest.approx(85000, rel=0.02)
    assert np.all((commission == 0) == (salary >= 75000))
    assert set(age) == set(range(20, 81))
    ratio = hvalue / ((9 - x[:, 5]) * 100000)
    assert ratio.min() >= 0.5
    assert ratio.max() < 1.5
    moved = agrawal.source(1, perturbation=0.05).take(20000)
    assert moved.x[:, 0].min() >= 20000
    assert np.all(moved.x[:, 2] == np.rint(moved.x[:, 2]))
    wrong = [agrawal.classify(0, row) != label for row, label in zip(moved.x[:5000], moved.y, strict=False)]
    assert 0.02 < np.mean(wrong) < 0.1  # perturbation is the noise of this stream


@pytest.mark.parametrize("function", range(10))
def test_agrawal_labels_follow_the_function_before_perturbation(function):
    stream = agrawal.source(2, function=function, perturbation=0.0).take(3000)
    assert [agrawal.classify(function, row) for row in stream.x] == stream.y.tolist()
    assert set(stream.y) == {0.0, 1.0}


def test_rbf_centroids_move():
    options = {"n_features": 2, "n_centroids": 1, "n_classes": 1}
    still = random_rbf.source(5, speed=0.0, **options).take(4000).x
    moving = random_rbf.source(5, speed=0.001, **options).take(4000).x
    assert np.abs(still[:2000].mean(axis=0) - still[2000:].mean(axis=0)).max() < 0.05
    # 1,000 instances move the centroid by a distance of 1 along its direction, unless it turned back
    blocks = moving.reshape(40, 100, 2).mean(axis=1)
    assert np.ptp(blocks, axis=0).min() > 0.5
    assert blocks.min() > -0.3
    assert blocks.max() < 1.3


@pytest.mark.parametrize(
    ("module", "parameters", "message"),
    [
        (hyperplane, {"n_features": 2, "n_drift": 3}, "n_drift is 3: there are 2 features"),
        (led, {"n_irrelevant": 2, "n_swapped": 3}, "n_swapped is 3: there are 7 segments and 2 other"),
    ],
)
def test_what_a_stream_cannot_be(module, parameters, message):
    with pytest.raises(ValueError, match=message):
        module.source(0, **parameters)


@pytest.mark.parametrize("width", [0, 1, 200])
def test_drifting_streams_are_the_twin_s(width):
    def opened():
        return drifting(sea.source(1), sea.source(2, function=2), 400, width, seed=3)

    whole = opened().take(1000)
    twin = naive_streams.drifting(naive_streams.sea(1), naive_streams.sea(2, function=2), 400, width, 3)
    x, y = rows(twin, 1000)
    assert (whole.x.tobytes(), whole.y.tobytes()) == (x.tobytes(), y.tobytes())
    source = opened()
    pieces = [source.take(n) for n in (0, 1, 399, 7, 593)]
    assert b"".join(part.x.tobytes() for part in pieces) == whole.x.tobytes()


def test_a_drift_keeps_the_schema():
    with pytest.raises(ValueError, match="other features or classes"):
        drifting(sea.source(), stagger.source(), 10)


@pytest.mark.parametrize("entry", REGISTRY.values(), ids=REGISTRY)
def test_the_registry_says_what_sources_take(entry):
    module = importlib.import_module(entry.module)
    assert module in MODULES
    signature = dict(inspect.signature(module.source).parameters)
    assert signature.pop("seed").default == 0
    assert list(signature) == [parameter.name for parameter in entry.parameters]
    for parameter in entry.parameters:
        found = signature[parameter.name]
        assert found.kind is inspect.Parameter.KEYWORD_ONLY
        assert (found.default, type(found.default), found.annotation) == (
            parameter.default,
            parameter.type,
            parameter.type,
        )
        assert parameter.text
        still = {"n_drift": 0} if parameter.name == "n_features" and "n_drift" in signature else {}
        for value in (parameter.low, parameter.high):
            if value is not None and value < 1000:
                entry.source(0, **{parameter.name: value} | still).take(2)
    assert entry.paper
    assert entry.text
    opened = open_source(entry.name, 4)
    assert bits(opened.take(50)) == bits(module.source(4).take(50))
    assert (opened.n_classes == 0) == (entry.tasks == ("regression",))


def test_every_stream_is_listed():
    assert {entry.module for entry in REGISTRY.values()} == {module.__name__ for module in MODULES}


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("seaa", {}, "unknown stream 'seaa': did you mean 'sea'"),
        ("sea", {"functoin": 1}, "stream 'sea' has no parameter 'functoin': did you mean 'function'"),
        ("sea", {"function": "5"}, "'function' of stream 'sea' is '5': give a whole number in 0 .. 3"),
    ],
)
def test_the_registry_names_the_cure(name, parameters, message):
    with pytest.raises(ValueError) as error:
        validate(name, parameters)
    assert message in str(error.value)


def test_drifts_by_name():
    drifts = [ConceptDrift(300, 0, {"function": "2"}), ConceptDrift(600, 50, {"noise": 0.5})]
    found = open_source("sea", 7, {"function": 1, "noise": 0}, drifts).take(1000)
    limits = (found.x[:, 0] + found.x[:, 1] > 9, found.x[:, 0] + found.x[:, 1] > 7)
    assert (limits[0] == found.y)[:300].all()
    assert (limits[1] == found.y)[300:500].all()
    assert (limits[0] == found.y)[800:].mean() == pytest.approx(0.5, abs=0.1)
    assert bits(open_source("sea", 7, {"function": 1, "noise": 0}).take(300)) == (
        found.x[:300].tobytes(),
        found.y[:300].tobytes(),
    )
    # each concept draws instances of its own, also when it comes again
    again = open_source("sea", 7, {}, [ConceptDrift(100, 0, {})]).take(200)
    assert not set(again.x[:100, 0]) & set(again.x[100:, 0])
    with pytest.raises(ValueError, match="a drift at 300 comes after one at 600: give them in order"):
        open_source("sea", 0, {}, drifts[::-1])
    with pytest.raises(ValueError, match="'function' of stream 'sea' is 9"):
        open_source("sea", 0, {}, [ConceptDrift(5, 0, {"function": 9})])
    with pytest.raises(ValueError, match="other features or classes"):
        open_source("sine", 0, {}, [ConceptDrift(5, 0, {"n_irrelevant": 0})])


def test_listing_does_not_wait_for_numba():
    code = (
        "import sys; from riparian.models.streams.registry import find; find('sea'); sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert find("sea").name == "sea"
