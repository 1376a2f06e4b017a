"""Naive Bayes against its naive twin, and by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riparian.models.baseline.naive_bayes import NaiveBayes
from riparian.models.contract import LEARN, Schema
from tests.models.naive_hoeffding import NaiveBayesTwin
from tests.models.streams_of_instances import cut, interleave, mixed, same, snapshot


def test_many_features_do_not_underflow():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400).astype(float)
    x = rng.normal(y[:, None], 1e-3, (400, 500))
    learner = NaiveBayes(Schema((0,) * 500, 2, "classification"))
    learner.learn_many(x[:300], y[:300])
    assert np.array_equal(learner.predict_many(x[300:]).argmax(axis=1), y[300:])


@pytest.mark.parametrize("weights", ["one", "whole", "fractions"])
@pytest.mark.parametrize("n_classes", [2, 3, 7])
@pytest.mark.parametrize("n_values", [(0, 0, 0), (3, 2, 4), (0, 3, 0, 5, 0, 2)])
def test_equals_twin(n_values, n_classes, weights):
    stream = mixed(400, seed=n_classes, n_values=n_values, n_classes=n_classes, weights=weights)
    learner, twin = NaiveBayes(stream.schema), NaiveBayesTwin(n_values, n_classes)
    out = np.zeros((400, n_classes))
    program = interleave(stream, delay=7)
    learner.run(program, stream.x, out)
    for op, r, y, w in zip(*program, strict=True):
        if op == LEARN:
            twin.learn(stream.x[r].tolist(), y, w)
        else:
            assert out[r].tolist() == twin.predict(stream.x[r].tolist())


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 120),
    missing=st.sampled_from([0.0, 0.2, 0.9]),
    weights=st.sampled_from(["one", "fractions"]),
    data=st.data(),
)
def test_cuts_snapshots_and_growth_do_not_matter(seed, n, missing, weights, data):
    stream = mixed(n, seed, missing=missing, weights=weights, n_classes=4)
    program = interleave(stream, delay=data.draw(st.integers(0, 10)))
    whole, out = NaiveBayes(stream.schema), np.zeros((n, 4))
    whole.run(program, stream.x, out)
    at = data.draw(st.integers(0, len(program.op)))
    first, pieces = NaiveBayes(stream.schema), np.zeros((n, 4))
    first.run(cut(program, 0, at), stream.x, pieces)
    second = NaiveBayes(stream.schema)
    second.restore(snapshot(first))
    second.run(cut(program, at, len(program.op)), stream.x, pieces)
    assert pieces.tobytes() == out.tobytes()
    assert same(snapshot(second), snapshot(whole))
    # the same in a world that turns out larger half way, and in one that was so from the start
    larger = Schema((0, 6, 0, 5, 0, 9), 6, "classification")
    first.resize(larger)
    grown, roomy, from_start = np.zeros((n, 6)), np.zeros((n, 6)), NaiveBayes(larger)
    first.run(cut(program, at, len(program.op)), stream.x, grown)
    from_start.run(program, stream.x, roomy)
    assert same(snapshot(first), snapshot(from_start))
    later = [r for op, r in zip(program.op[at:], program.row[at:], strict=True) if op != LEARN]
    assert grown[later].tobytes() == roomy[later].tobytes()
    assert np.ascontiguousarray(roomy[:, :4]).tobytes() == out.tobytes()


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
