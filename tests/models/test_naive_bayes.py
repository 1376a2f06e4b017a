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
    assert total < 70.0 if window else total > 100.0


def test_a_rare_class_does_not_fade_away():
    rng = np.random.default_rng(1)
    y = (np.arange(5000) % 500 == 0).astype(float)
    x = np.column_stack([rng.normal(y), rng.integers(0, 2, 5000)])
    learner = NaiveBayes(Schema((0, 2), 2, "classification"), window=100)
    learner.learn_many(x, y)
    usual, rare = learner.describe()[0]["value"]
    assert usual + rare < 100.0
    assert rare > 8.0


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
