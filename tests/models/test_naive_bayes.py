"""Naive Bayes against its naive twin, and by hand."""

import math

import numpy as np
import pytest

from riparian.models.baseline.naive_bayes import NaiveBayes
from riparian.models.contract import Schema
from tests.models.naive_hoeffding import NaiveBayesTwin
from tests.models.streams_of_instances import in_pieces, interleave, mixed, played


def test_many_features_do_not_underflow():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400).astype(float)
    x = rng.normal(y[:, None], 1e-3, (400, 500))
    learner = NaiveBayes(Schema((0,) * 500, 2, "classification"))
    learner.learn_many(x[:300], y[:300])
    assert np.array_equal(learner.predict_many(x[300:]).argmax(axis=1), y[300:])


@pytest.mark.parametrize("window", [None, 60.0])
@pytest.mark.parametrize(("n_classes", "weights"), [(2, "one"), (3, "whole"), (7, "fractions")])
@pytest.mark.parametrize("n_values", [(0, 0, 0), (3, 2, 4), (0, 3, 0, 5, 0, 2)])
def test_equals_twin(n_values, n_classes, weights, window):
    stream = mixed(400, seed=n_classes, n_values=n_values, n_classes=n_classes, weights=weights)
    program = interleave(stream, delay=7)
    learner, out = in_pieces(lambda: NaiveBayes(stream.schema, window=window), program, stream.x)
    twin = NaiveBayesTwin(n_values, n_classes, window or math.inf)
    assert out.tolist() == played(twin, program, stream.x, n_classes).tolist()
    total = learner.describe()[0]["weight"]
    assert total < 60.0 if window else total > 100.0


def shares(learner):
    return np.array(learner.describe()[0]["value"]) / learner.describe()[0]["weight"]


def test_what_is_known_of_a_rare_class_does_not_fade_away():
    rng = np.random.default_rng(1)
    y = (np.arange(5000) % 500 == 0).astype(float)
    x = np.column_stack([rng.normal(y), rng.integers(0, 2, 5000)])
    learner = NaiveBayes(Schema((0, 2), 2, "classification"), window=100)
    learner.learn_many(x, y)
    assert learner.describe()[0]["weight"] < 100.0
    assert shares(learner)[1] < 0.01  # of one in five hundred, the last one 500 labels ago
    numbers, values = learner.describe()[1:]
    assert 8.0 < numbers["value"][1] <= 10.0
    assert 8.0 < sum(values["values"][1]) <= 10.0


def test_the_window_holds_with_many_classes():
    y = np.repeat(np.arange(100.0), 30)[np.random.default_rng(2).permutation(3000)]
    learner = NaiveBayes(Schema((0,), 100, "classification"), window=50)
    learner.learn_many(y[:, None], y)
    assert learner.describe()[0]["weight"] < 50.0


def test_shares_of_classes_are_those_of_the_last_labels():
    y = np.where(np.random.default_rng(3).random(4000) < 0.7, 0.0, np.arange(4000) % 50)
    learner = NaiveBayes(Schema((0,), 50, "classification"), window=500)
    learner.learn_many(np.zeros((4000, 1)), y)
    assert shares(learner)[0] == pytest.approx(0.7, abs=0.08)


def test_one_label_of_a_large_weight_leaves_the_window():
    learner = NaiveBayes(Schema((0,), 2, "classification"), window=50)
    for _ in range(20):
        learner.learn_many([[1.0], [2.0]], [0.0, 1.0], [1e6, 1e6])
    assert learner.describe()[0]["weight"] < 50.0


def test_a_feature_that_is_seldom_there_keeps_its_spread():
    rng = np.random.default_rng(4)
    n = 40_000
    y = rng.integers(0, 2, n).astype(float)
    x = np.where(rng.random(n) < 0.004, rng.normal(y), np.nan)[:, None]
    found = {}
    for window in (None, 500.0):
        learner = NaiveBayes(Schema((0,), 2, "classification"), window=window)
        p = []
        for i in range(0, n, 10):
            p.append(learner.predict_many(x[i : i + 10]))
            learner.learn_many(x[i : i + 10], y[i : i + 10])
        there = ~np.isnan(x[:, 0])
        of_truth = np.concatenate(p)[np.arange(n), y.astype(int)][there][20:]
        assert (of_truth > 0.0).all()
        found[window] = (of_truth > 0.5).mean()
    assert found[500.0] > found[None] - 0.08


@pytest.mark.parametrize(
    "schema",
    [
        Schema((0, 3), 2, "regression"),
        Schema((0, 3), 1, "classification"),
        Schema((0, 2), 2, "classification"),
        Schema((3, 3), 2, "classification"),
        Schema((0,), 2, "classification"),
    ],
)
def test_growth_only(schema):
    with pytest.raises(ValueError, match=r"create a new|only grow"):
        NaiveBayes(Schema((0, 3), 2, "classification")).resize(schema)


def test_describe():
    learner = NaiveBayes(Schema((0, 2), 2, "classification"))
    learner.learn_many([[1.0, 0], [2.0, 0], [7.0, 1], [9.0, 1]], [0, 0, 1, 1])
    root, numeric, nominal = learner.describe()
    assert root["value"] == [2.0, 2.0]
    assert numeric["mean"] == [1.5, 8.0]
    assert numeric["deviation"] == pytest.approx([math.sqrt(0.5), math.sqrt(2.0)])
    assert nominal["values"] == [[2.0, 0.0], [0.0, 2.0]]
