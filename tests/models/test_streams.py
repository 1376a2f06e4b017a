"""The generators: random numbers and class functions against naive twins, distributions, and repeatability."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.streams import agrawal, led, random_rbf
from models.streams.randomness import below, draw, normal, seeded, uniform

GENERATORS = [agrawal.generate, led.generate, random_rbf.generate]
MASK = (1 << 64) - 1


def xoshiro(words):
    """xoshiro256** on Python integers, from the authors' C code."""

    def rotate(x, k):
        return ((x << k) | (x >> (64 - k))) & MASK

    s = list(words)
    while True:
        yield (rotate((s[1] * 5) & MASK, 7) * 9) & MASK
        t = (s[1] << 17) & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotate(s[3], 45)


def test_seeding_is_splitmix64():
    # published first outputs of splitmix64 for the seed 1234567
    assert [int(word) for word in seeded(1234567)[:2]] == [6457827717110365317, 3203168211198807973]


@pytest.mark.parametrize("seed", [0, 1, -5, 2**70 + 3])
def test_draws_are_xoshiro(seed):
    state = seeded(seed)
    twin = xoshiro([int(word) for word in state])
    assert [int(draw(state)) for _ in range(100)] == [next(twin) for _ in range(100)]


def test_uniform_below_and_normal_have_their_moments():
    state = seeded(7)
    flat = np.array([uniform(state) for _ in range(20000)])
    assert flat.min() >= 0.0
    assert flat.max() < 1.0
    assert flat.mean() == pytest.approx(0.5, abs=0.01)
    assert {below(state, 3) for _ in range(200)} == {0, 1, 2}
    bell = np.array([normal(state) for _ in range(20000)])
    assert bell.mean() == pytest.approx(0.0, abs=0.03)
    assert bell.std() == pytest.approx(1.0, abs=0.03)
    assert np.mean(np.abs(bell) < 1.0) == pytest.approx(0.6827, abs=0.02)


@pytest.mark.parametrize("generate", GENERATORS)
def test_same_seed_same_bits_and_prefixes_agree(generate):
    long, again, short, other = generate(500, 3), generate(500, 3), generate(200, 3), generate(500, 4)
    assert long.x.tobytes() == again.x.tobytes()
    assert long.y.tobytes() == again.y.tobytes()
    assert long.x[:200].tobytes() == short.x.tobytes()
    assert long.y[:200].tobytes() == short.y.tobytes()
    assert long.x.tobytes() != other.x.tobytes()


@pytest.mark.parametrize("generate", GENERATORS)
def test_shapes_and_codes(generate):
    stream = generate(3000)
    assert stream.x.shape == (3000, len(stream.names)) == (len(stream.y), len(stream.n_values))
    assert set(stream.y) == set(range(stream.n_classes))
    for j, n_values in enumerate(stream.n_values):
        if n_values:
            assert set(stream.x[:, j]) == set(range(n_values))
        else:
            assert len(set(stream.x[:, j])) > 20


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
@settings(max_examples=500, deadline=None)
def test_agrawal_functions_equal_the_twin(function, salary, commission, age, elevel, hvalue, hyears, loan):
    salary, commission, hvalue, loan = salary * 1e3, commission * 1e3, hvalue * 1e3, loan * 1e3
    row = np.array([salary, commission, age, elevel, 0.0, 0.0, hvalue, hyears, loan])
    expected = group_a(function, salary, commission, age, elevel, hvalue, hyears, loan)
    assert agrawal.classify(function, row) == (0.0 if expected else 1.0)


@pytest.mark.parametrize("function", range(10))
def test_agrawal_labels_follow_the_function_before_perturbation(function):
    stream = agrawal.generate(3000, 2, function=function, perturbation=0.0)
    assert [agrawal.classify(function, row) for row in stream.x] == stream.y.tolist()
    assert set(stream.y) == {0.0, 1.0}


def test_agrawal_distributions():
    x = agrawal.generate(20000, 1, perturbation=0.0).x
    salary, commission, age, hvalue = x[:, 0], x[:, 1], x[:, 2], x[:, 6]
    assert salary.mean() == pytest.approx(85000, rel=0.02)
    assert np.all((commission == 0) == (salary >= 75000))
    assert set(age) == set(range(20, 81))
    ratio = hvalue / ((9 - x[:, 5]) * 100000)
    assert ratio.min() >= 0.5
    assert ratio.max() < 1.5
    moved = agrawal.generate(20000, 1, perturbation=0.05)
    assert moved.x[:, 0].min() >= 20000
    assert np.all(moved.x[:, 2] == np.rint(moved.x[:, 2]))
    wrong = [agrawal.classify(0, row) != label for row, label in zip(moved.x[:5000], moved.y, strict=False)]
    assert 0.02 < np.mean(wrong) < 0.1  # perturbation is the noise of this stream


def test_agrawal_refuses_unknown_functions():
    with pytest.raises(ValueError, match=r"0 \.\. 9, not 10"):
        agrawal.generate(1, function=10)


def test_led_shows_digits_and_noise():
    clean = led.generate(500, noise=0.0)
    shown = {int(y): tuple(row[:7].astype(int)) for row, y in zip(clean.x, clean.y, strict=True)}
    assert len(set(shown.values())) == 10
    assert shown[8] == (1,) * 7
    assert shown[1] == (0, 0, 1, 0, 0, 1, 0)
    noisy = led.generate(20000, noise=0.1)
    flipped = noisy.x[:, :7] != led.SEGMENTS[noisy.y.astype(int)]
    assert flipped.mean(axis=0) == pytest.approx(np.full(7, 0.1), abs=0.01)
    assert noisy.x[:, 7:].mean(axis=0) == pytest.approx(np.full(17, 0.5), abs=0.02)


def test_rbf_centroids_move():
    options = {"n_features": 2, "n_centroids": 1, "n_classes": 1}
    still = random_rbf.generate(4000, 5, speed=0.0, **options).x
    moving = random_rbf.generate(4000, 5, speed=0.001, **options).x
    assert np.abs(still[:2000].mean(axis=0) - still[2000:].mean(axis=0)).max() < 0.05
    # 1,000 instances move the centroid by a distance of 1 along its direction, unless it turned back
    blocks = moving.reshape(40, 100, 2).mean(axis=1)
    assert np.ptp(blocks, axis=0).min() > 0.5
    assert blocks.min() > -0.3
    assert blocks.max() < 1.3
