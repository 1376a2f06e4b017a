"""Naive Bayes as products: the kernels' own exponential, and products far beyond the range of float64."""

import math

import numpy as np
import pytest

from riparian.models.baseline.naive_bayes import NaiveBayes
from riparian.models.contract import Schema
from riparian.models.kernels.kernel import kernel
from riparian.models.observers.likelihood import exp_parts
from tests.models.naive_hoeffding import NaiveBayesTwin, exponential


@kernel
def parts_of(x):
    return exp_parts(x)


def test_the_exponential_is_that_of_the_twin_and_nearly_exact():
    rng = np.random.default_rng(1)
    for x in [0.0, -0.0, -1e-300, -1e-9, -1e8, -math.inf, *(-(10.0 ** rng.uniform(-6, 4, 500)))]:
        part, n = parts_of(x)
        assert (part, n) == exponential(x)
        if x > -700.0:
            assert math.ldexp(part, n) == pytest.approx(math.exp(x), rel=4e-16)
        assert 0.99 < part < 2.0


def log_odds(learned, row):
    """Of two classes, by sums of logarithms. learned : (classes, rows by class)."""
    scores = []
    for rows in learned:
        score = math.log(len(rows))
        for f, value in enumerate(row):
            of_feature = rows[:, f]
            if f % 2:
                score += math.log((of_feature == value).sum() + 1.0) - math.log(len(rows) + 4.0)
            else:
                a = 0.5 / np.var(of_feature, ddof=1)
                score += 0.5 * math.log(a) - a * (value - of_feature.mean()) ** 2
        scores.append(score)
    return scores[0] - scores[1]


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("scale", [1e-90, 1.0, 1e90])
def test_a_thousand_features_neither_overflow_nor_underflow(n_classes, scale):
    """sqrt(a) of 600 features is 10^(90 600); both classes are unlikely by e^-500, and still what differs counts."""
    rng = np.random.default_rng(2)
    d, n = 1200, 40
    nominal = np.arange(d) % 2 == 1
    y = np.arange(n) % n_classes
    x = np.where(nominal, rng.integers(0, 4, (n, d)), scale * (rng.normal(size=(n, d)) + 0.2 * y[:, None]))
    learner = NaiveBayes(Schema(tuple(4 if is_nominal else 0 for is_nominal in nominal), n_classes, "classification"))
    twin = NaiveBayesTwin(learner.schema.n_values, n_classes)
    learner.learn_many(x, y)
    for row, label in zip(x, y, strict=True):
        twin.learn(row, label)
    # Rows between two instances, so that the answer is not plain; some with values missing.
    share = rng.random((8, 1))
    rows = np.where(nominal, x[:8], share * x[:8] + (1.0 - share) * x[8:16])
    rows[4:, rng.random(d) < 0.3] = np.nan
    p = learner.predict_many(rows)
    for i, row in enumerate(rows):
        assert p[i].tolist() == twin.predict(row)
    if n_classes == 2:
        for i in range(4):
            odds = log_odds([x[y == c] for c in range(2)], rows[i])
            if abs(odds) < 600.0:
                assert math.log(p[i, 0] / p[i, 1]) == pytest.approx(odds, rel=1e-9, abs=1e-9)
            assert (p[i, 0] > p[i, 1]) == (odds > 0.0)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_value_that_is_always_the_same_has_likelihood_1_beside_densities(n_classes):
    learner = NaiveBayes(Schema((0,), n_classes, "classification"))
    learner.learn_many(np.array([[2.0], [2.0], [2.0], [1.0], [2.0], [3.0]]), np.array([0.0, 0.0, 0.0, 1.0, 1.0, 1.0]))
    p = learner.predict_many(np.array([[2.0], [2.5]]))
    assert p[0, 0] / p[0, 1] == pytest.approx(math.sqrt(2.0 * math.pi), rel=1e-12)  # the variance is 1
    assert p[1].tolist() == [0.0, 1.0, *[0.0] * (n_classes - 2)]
