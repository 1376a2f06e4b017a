"""What features add to a prediction, of any learner: Shapley values with missing values as the baseline. The twin goes
over all sets of features, and over all permutations of a few."""

from itertools import permutations
from math import comb

import numpy as np
import pytest

from riparian.models.batch import learner as window
from riparian.models.contract import Bags, Schema
from riparian.models.entry import TASKS
from riparian.models.explanation import shapley
from riparian.models.explanation.shapley import contributions, is_exact, largest, n_asked
from riparian.models.registry import REGISTRY, create
from tests.models.test_batch import Here

RNG = np.random.default_rng(5)
N = 400
KEYS = RNG.integers(0, 2**31, N).astype(np.uint64)
CASES = [(name, task) for name, entry in REGISTRY.items() for task in TASKS if task in entry.tasks]


def world(d, task="classification", k=2, seed=1):
    """Two of three features are numbers, each third is nominal; the target follows the first two. Some are missing."""
    rng = np.random.default_rng(seed)
    n_values = tuple(3 if f % 3 == 2 else 0 for f in range(d))
    x = np.column_stack([rng.integers(0, 3, N) if m else rng.normal(size=N) for m in n_values]).astype(float)
    z = 2.0 * x[:, 0] + (x[:, 1] * x[:, 0] if d > 1 else 0.0)
    x[rng.random(x.shape) < 0.03] = np.nan
    y = z if task == "regression" else np.clip(np.round(z + k / 2), 0, k - 1)
    return Schema(n_values, 1 if task in ("regression", "anomaly") else k, task), x, y


def taught(name, task="classification", d=4, k=2, **parameters):
    """A learner that has learned, and the slab that it learned."""
    schema, x, y = world(d, task, k)
    learner = create(name, schema, seed=1, **parameters)
    slab = Bags.of(np.full(N // 2, 2), x) if task == "multi-instance" else x
    learner.learn_many(slab, y[: N // 2] if task == "multi-instance" else y)
    return learner, slab


def ask(learner, slab, rows, keys=KEYS):
    rows = np.array(rows, np.int32)
    out = predicted(learner, slab, rows)
    about = out.argmax(axis=1).astype(np.int64)
    return contributions(learner, slab, rows, about, keys[rows]), out[np.arange(len(rows)), about], about


def predicted(learner, slab, rows):
    return learner.predict_many(slab.take(rows) if isinstance(slab, Bags) else slab[rows])


def by_sets(learner, slab, row, about):
    """The twin: set of features -> what is predicted where the others are missing."""
    d, found = learner.schema.n_features, {}
    for bits in range(2**d):
        known = [f for f in range(d) if bits >> f & 1]
        one = slab.take([row]) if isinstance(slab, Bags) else slab[[row]]
        x = np.array(one.x if isinstance(one, Bags) else one)
        x[:, [f for f in range(d) if f not in known]] = np.nan
        out = learner.predict_many(one._replace(x=x) if isinstance(one, Bags) else x)
        found[frozenset(known)] = float(out[0, about])
    return found


def exact(values, d):
    """Shapley's formula, and the prediction without values."""
    found = np.zeros(d)
    for s, v in values.items():
        for f in set(range(d)) - s:
            found[f] += (values[s | {f}] - v) / (d * comb(d - 1, len(s)))
    return np.array([*found, values[frozenset()]])


def by_permutations(values, d):
    found, orders = np.zeros(d), list(permutations(range(d)))
    for order in orders:
        for j, f in enumerate(order):
            found[f] += values[frozenset(order[: j + 1])] - values[frozenset(order[:j])]
    return np.array([*(found / len(orders)), values[frozenset()]])


@pytest.mark.parametrize(("name", "task"), CASES)
def test_all_learners_have_contributions_that_add_up_whatever_the_batch(name, task, monkeypatch):
    """Of eight features, where permutations are drawn. Batch learners fit in this process."""
    monkeypatch.setattr(window, "PROCESSES", Here())
    members = {"members": {"a": "naive-bayes", "b": "hoeffding-tree"}} if task == "classification" else {}
    learner, slab = taught(name, task, d=8, **(members if name == "opinion-pool" else {}))
    before = [array.tobytes() for array in learner.state()]
    rows = range(12 if name == "external" else 20)
    whole, prediction, _ = ask(learner, slab, rows)
    assert whole.sum(axis=1) == pytest.approx(prediction, abs=1e-11 * np.abs(whole).max(), nan_ok=True)
    monkeypatch.setattr(shapley, "MOST_CELLS", 50)
    assert ask(learner, slab, rows)[0].tobytes() == whole.tobytes()
    assert ask(learner, slab, rows[::-1])[0].tobytes() == whole[::-1].tobytes()
    assert ask(learner, slab, [7])[0].tobytes() == whole[7].tobytes()
    assert [array.tobytes() for array in learner.state()] == before


@pytest.mark.parametrize(
    ("name", "task", "k"),
    [
        *(("naive-bayes", "classification", k) for k in (2, 5)),
        *((name, task, 2) for name in ("hoeffding-tree", "opinion-pool") for task in ("classification",)),
        *(("adaptive-random-forest", "regression", 2), ("half-space-trees", "anomaly", 2)),
        *(("quick-diverse-density", "multi-instance", 2), ("external", "classification", 2)),
    ],
)
@pytest.mark.parametrize("d", [1, 2, 5])
def test_values_of_few_features_are_the_mean_over_all_permutations(name, task, k, d):
    members = {"members": {"a": "naive-bayes", "b": "hoeffding-tree"}} if name == "opinion-pool" else {}
    learner, slab = taught(name, task, d, k, **members)
    assert is_exact(d)
    found, _, about = ask(learner, slab, range(3))
    for row in range(3):
        values = by_sets(learner, slab, row, about[row])
        assert found[row] == pytest.approx(by_permutations(values, d), abs=1e-12)
        assert found[row] == pytest.approx(exact(values, d), abs=1e-12)


@pytest.mark.parametrize(("name", "task"), [("adaptive-random-forest", "classification"), ("fimt-dd", "regression")])
def test_sampled_values_are_near_the_exact_ones(name, task):
    """They have no bias: the mean over the draws of 400 ids is within five standard errors. None is outside of what the
    feature changes in some set, and the feature that adds most is the same in nine of ten."""
    d = 8
    learner, slab = taught(name, task, d)
    assert not is_exact(d)
    assert n_asked(d) == 72
    same = 0
    for row in (3, 4):
        x = np.repeat(slab[[row]], N, axis=0)
        found, _, about = ask(learner, x, range(N))
        values = by_sets(learner, slab, row, about[0])
        wanted = exact(values, d)
        error = 5.0 * found.std(axis=0) / np.sqrt(N) + 1e-12
        assert (np.abs(found.mean(axis=0) - wanted) <= error).all()
        for f in range(d):
            changes = [values[s | {f}] - v for s, v in values.items() if f not in s]
            assert min(changes) - 1e-12 <= found[:, f].min() <= found[:, f].max() <= max(changes) + 1e-12
        same += (np.abs(found[:, :d]).argmax(axis=1) == np.abs(wanted[:d]).argmax()).mean()
        assert len(np.unique(found[:, 0])) > 1  # ids decide
    assert same / 2 > 0.9


@pytest.mark.parametrize("d", [3, 9])
def test_copies_of_a_feature_share_the_credit(d):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(N, d))
    x[:, 1] = x[:, 0]
    learner = create("naive-bayes", Schema((0,) * d, 2, "classification"))
    learner.learn_many(x, (x[:, 0] > 0).astype(float))
    found, _, _ = ask(learner, x, range(N))
    assert np.abs(found[:, :2]).mean() > 0.1
    if is_exact(d):
        assert found[:, 0] == pytest.approx(found[:, 1], abs=1e-12)
    else:
        assert np.abs(found[:, 0].mean() - found[:, 1].mean()) < 5.0 * (found[:, 0] - found[:, 1]).std() / np.sqrt(N)


@pytest.mark.parametrize("d", [1, 2, 3, 8, 70])
def test_of_a_model_that_knows_nothing_nothing_adds_anything(d):
    for task, nothing in (("classification", 0.0), ("regression", np.nan)):
        learner = create("hoeffding-tree" if task == "classification" else "fimt-dd", world(d, task)[0])
        found, _, _ = ask(learner, world(d, task)[1], range(5))
        np.testing.assert_array_equal(found, np.full((5, d + 1), nothing))


def test_odd_worlds():
    learner, x = taught("hoeffding-tree", d=8, k=40)
    x = np.concatenate([x, np.full((1, 8), np.nan)])
    found, prediction, _ = ask(learner, x, [N, 0], np.zeros(N + 1, np.uint64))
    assert not found[0, :8].any()
    assert found[0, 8] == prediction[0]
    learner, x = taught("naive-bayes", d=8)
    x[:, 4] = 1.5
    constant = create("naive-bayes", learner.schema)
    constant.learn_many(x, world(8)[2])
    assert np.abs(ask(constant, x, range(N))[0][:, 4]).max() < 1e-15
    missing = np.isnan(x)
    found, _, _ = ask(learner, x, range(N))
    assert not found[:, :8][missing].any()
    assert found[:, :8][~missing].any()
    assert not contributions(learner, x, np.zeros(0, np.int32), np.zeros(0, np.int64), KEYS[:0]).size


def test_the_largest_come_first_and_rounding_is_no_reason():
    added = np.array([[0.2, -0.3, 1e-17, 0.3, 0.5], [0.0, 0.0, 0.0, 0.0, 0.5], [np.nan, 0.1, 0.0, 0.0, np.nan]])
    found = np.zeros((3, 4, 2))
    largest(added, np.array([5, 6, 7, 8]), np.array([2, 0, 1]), found)
    nothing = [np.nan, np.nan]
    np.testing.assert_array_equal(found[2], [[6, -0.3], [8, 0.3], [5, 0.2], nothing])
    np.testing.assert_array_equal(found[:2], np.full((2, 4, 2), np.nan))
