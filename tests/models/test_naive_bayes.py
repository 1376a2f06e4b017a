"""Naive Bayes against its naive twin, and by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.baseline.naive_bayes import NaiveBayes
from models.contract import LEARN, Schema
from models.observers import lay_out, transfer
from tests.models.naive_hoeffding import NaiveBayesTwin
from tests.models.streams_of_instances import cut, interleave, mixed, same, snapshot


def test_by_hand():
    learner = NaiveBayes(Schema((0, 2), 2, "classification"))
    learner.learn_many([[1.0, 0], [2.0, 0], [7.0, 1], [9.0, 1]], [0, 0, 1, 1])

    def density(value, mean, variance):
        return math.exp(-((value - mean) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)

    # means 1.5 and 8, variances 0.5 and 2; value 0 has (2 + 1) / (2 + 2) and (0 + 1) / (2 + 2)
    odds = [0.5 * density(4.0, 1.5, 0.5) * 3 / 4, 0.5 * density(4.0, 8.0, 2.0) * 1 / 4]
    assert learner.predict_many([[4.0, 0]])[0] == pytest.approx([p / sum(odds) for p in odds], rel=1e-12)
    assert learner.predict_many([[np.nan, 0]])[0] == pytest.approx([0.75, 0.25])
    assert learner.predict_many([[np.nan, np.nan]])[0].tolist() == [0.5, 0.5]


def test_zero_likelihood_falls_back_on_class_weights():
    learner = NaiveBayes(Schema((0,), 3, "classification"))
    learner.learn_many([[1.0], [1.0], [2.0], [2.0], [2.0]], [0, 0, 1, 1, 1])
    assert learner.predict_many([[1.0]])[0].tolist() == [1.0, 0.0, 0.0]  # constants: 1 at the mean
    assert learner.predict_many([[1.5]])[0].tolist() == [0.4, 0.6, 0.0]


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


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    old=st.lists(st.integers(0, 4), min_size=1, max_size=6),
    more=st.integers(0, 3),
    k=st.integers(2, 4),
    more_classes=st.integers(0, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_transfer_moves_every_number_and_nothing_else(old, more, k, more_classes, seed):
    before = Schema(tuple(old), k, "classification")
    after = Schema(tuple(n + more if n else 0 for n in old), k + more_classes, "classification")
    learner = NaiveBayes(before)
    rng = np.random.default_rng(seed)
    stats = rng.random((3, lay_out(before)[1])) + 1.0
    moved, known = transfer(stats, learner._known, before, after)
    assert np.sort(moved[moved > 0.0]).tolist() == np.sort(stats.ravel()).tolist()
    assert len(known.values) == sum(after.n_values)
    wide, narrow = lay_out(after)[0], lay_out(before)[0]
    for f, n in enumerate(old):
        for line in range(5 if n == 0 else 1 + n):
            for c in range(k):
                there = moved[:, int(wide.offset[f]) + line * after.n_outputs + c]
                assert there.tolist() == stats[:, int(narrow.offset[f]) + line * k + c].tolist()


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
