"""Riparian as a library: one import name, the page's examples, and what scikit-learn asks of an estimator."""

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import riparian
from riparian import Bags, Program, Schema, StreamClassifier, StreamRegressor, create_learner, evaluate, models
from riparian.models.contract import LEARN, PREDICT

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [DOCS / "start" / "notebook.md", DOCS / "contribute" / "own-learner.md"]

# What does not hold for a model of a stream, and why.
UNLIKE = {
    "check_sample_weight_equivalence_on_dense_data": "instances are learned one after the other: their order matters",
}


def unlike(estimator):
    return UNLIKE


@parametrize_with_checks([StreamClassifier(), StreamRegressor()], expected_failed_checks=unlike)
def test_estimators_are_what_scikit_learn_expects(estimator, check):
    check(estimator)


def test_the_examples_of_the_pages_print_what_they_say():
    text = "\n".join(page.read_text() for page in PAGES)
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    found = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "pages", str(DOCS), 0)
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(found)
    assert (result.failed, result.attempted > 10) == (0, True)


def test_examples_of_classes_and_functions():
    attempted, failed = 0, []
    for found in [
        *pkgutil.walk_packages(models.__path__, "riparian.models."),
        *(found for found in pkgutil.iter_modules(riparian.__path__, "riparian.") if not found.ispkg),
    ]:
        module = importlib.import_module(found.name)
        result = doctest.testmod(module, extraglobs={"np": np, "Schema": Schema, "Bags": Bags})
        attempted += result.attempted
        failed += [found.name] if result.failed else []
    assert not failed
    assert attempted > 100


def test_everything_public_is_there():
    assert all(hasattr(riparian, name) for name in riparian.__all__)
    assert "hoeffding-tree" in riparian.learner_names("classification")
    assert "hoeffding-tree" not in riparian.learner_names("regression")
    assert "adwin" in riparian.detector_names()
    assert "sea" in riparian.stream_names()
    with pytest.raises(ValueError, match="unknown task"):
        riparian.learner_names("regresion")
    with pytest.raises(AttributeError):
        riparian.nonsense  # noqa: B018


def test_import_needs_neither_scikit_learn_nor_kafka():
    code = (
        "import sys; from riparian import *; print([m for m in ('faust', 'aiokafka', 'msgspec') if m in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


@pytest.mark.parametrize("delay", [0, 7, 500])
def test_evaluation_is_prediction_by_prediction(delay):
    rng = np.random.default_rng(3)
    x, w = rng.random((300, 2)), rng.integers(0, 3, 300).astype(float)
    y = (x[:, 0] > 0.5).astype(float)
    schema = Schema((0, 0), 2, "classification")
    found = evaluate(create_learner("hoeffding-tree", schema), x, y, w, delay=delay)
    learner, right, weight = create_learner("hoeffding-tree", schema), 0.0, 0.0
    expected = np.zeros((300, 2))
    for i in range(300 + delay):
        if i < 300:
            expected[i] = learner.predict_many(x[i : i + 1])[0]
        j = i - delay
        if 0 <= j < 300:
            learner.learn_many(x[j : j + 1], y[j : j + 1], w[j : j + 1])
    assert np.array_equal(found.predictions, expected)
    known = expected.sum(axis=1) > 0
    right = w[known & (expected.argmax(axis=1) == y)].sum()
    weight = w.sum()
    assert found.metrics["accuracy"] == pytest.approx(right / weight)


@pytest.mark.parametrize(
    ("task", "delay"), [("classification", 60), ("regression", 60), ("regression", 0), ("regression", 200)]
)
def test_evaluation_of_a_pool_is_that_of_a_worker(task, delay, monkeypatch):
    monkeypatch.setattr("riparian.evaluation.BLOCK", 70)
    rng = np.random.default_rng(5)
    drift = np.cumsum(rng.normal(size=400))  # so that the last value is good at once, and bad 60 labels late
    x = np.column_stack([drift + rng.normal(size=400), rng.random(400)])
    y = drift if task == "regression" else (drift > np.median(drift)).astype(float)
    model = {"members": {"last": "last-label", "tree": "stochastic-gradient-tree"}}
    schema = Schema((0, 0), 1 if task == "regression" else 2, task)
    learner = create_learner("opinion-pool", schema, **model)
    found = evaluate(learner, x, y, delay=delay)

    kept = [np.full((400, schema.n_outputs), np.nan) for _ in range(learner.n_memos)]
    twin, expected = create_learner("opinion-pool", schema, **model), np.zeros((400, schema.n_outputs))
    for i in range(400 + delay):
        for op, row, of in ((PREDICT, i, np.nan), (LEARN, i - delay, y[max(0, i - delay) % 400])):
            if 0 <= row < 400:
                step = Program(np.array([op], np.int8), np.array([row], np.int32), np.array([of]), np.ones(1))
                twin.run_with(step, x, expected, kept)
    assert np.array_equal(found.predictions, expected, equal_nan=True)
    assert learner.weights == twin.weights


def test_evaluation_takes_bags_and_refuses_what_does_not_fit():
    bags = Bags.of([2, 1, 2], [[0.0], [1.0], [5.0], [0.0], [1.0]])
    learner = create_learner("majority-class", Schema((0,), 2, "multi-instance"))
    assert evaluate(learner, bags, [1, 0, 1]).predictions.shape == (3, 2)
    for message, arguments in (("y has", {"y": [1.0]}), ("w has", {"w": [1.0]}), ("delay is -1", {"delay": -1})):
        with pytest.raises(ValueError, match=message):
            evaluate(learner, **{"x": bags, "y": [1, 0, 1], **arguments})


@pytest.mark.parametrize(("task", "learner"), [("regression", "fimt-dd"), ("classification", "naive-bayes")])
@pytest.mark.parametrize("delay", [0, 50])
def test_a_row_without_a_label_is_predicted_and_neither_learned_nor_scored(task, learner, delay):
    rng = np.random.default_rng(6)
    x = rng.normal(size=(600, 3))
    y = np.where(rng.random(600) < 0.9, np.nan, x[:, 0] if task == "regression" else x[:, 0] > 0.0)
    schema, there = Schema((0, 0, 0), 1 if task == "regression" else 2, task), ~np.isnan(y)
    if task == "regression":
        y[np.flatnonzero(~there)[:9]] = np.inf
    found = evaluate(create_learner(learner, schema), x, y, delay=delay)
    labels = np.where(there, y, 0.0)
    scored = evaluate(create_learner(learner, schema), x, labels, there.astype(float), delay=delay)
    assert found.metrics == scored.metrics
    # A regression that knows nothing yet predicts nothing that could be scored.
    first = np.flatnonzero(there)[0] + delay + 1
    assert found.metrics["n"] == (there.sum() if task == "classification" else there[first:].sum())
    assert all(np.isfinite(list(found.metrics.values())))


@pytest.mark.parametrize(
    ("said", "y", "w"),
    [
        ("w has the weight -1", [1.0, 2.0], [1.0, -1.0]),
        ("w has the weight nan", [1.0, 2.0], [np.nan, 1.0]),
        ("w has the weight inf", [1.0, 2.0], [1.0, np.inf]),
    ],
)
def test_weights_that_are_none_are_refused(said, y, w):
    learner = create_learner("mean", Schema((0,), 1, "regression"))
    for learn in (learner.learn_many, lambda *given: evaluate(learner, *given)):
        with pytest.raises(ValueError, match=said):
            learn([[0.0], [1.0]], y, w)


def test_a_random_state_is_a_seed_or_what_one_is_drawn_from():
    x = np.random.default_rng(7).random((200, 2))
    y = (x[:, 0] > x[:, 1]).astype(int)

    def fitted(state):
        return StreamClassifier("mondrian-forest", random_state=state).fit(x, y)

    one, same = (fitted(np.random.RandomState(1)).predict_proba(x) for _ in range(2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, fitted(0).predict_proba(x))
    with pytest.raises(ValueError, match="cannot be used to seed"):
        fitted("one")


def test_classes_are_told_beforehand_or_refused():
    x = np.zeros((4, 1))
    model = StreamClassifier("majority-class")
    with pytest.raises(ValueError, match="classes must be passed"):
        model.partial_fit(x, list("abab"))
    model.partial_fit(x, list("abab"), classes=list("abc"))
    assert model.predict_proba(x).shape == (4, 3)
    with pytest.raises(ValueError, match="y has the class 'd'"):
        model.partial_fit(x, list("abad"))
    with pytest.raises(ValueError, match="are not those of the first call"):
        model.partial_fit(x, list("abab"), classes=list("xyz"))
    with pytest.raises(ValueError, match="parameter 'grace_period'"):
        StreamClassifier("hoeffding-tree", {"grace_period": 0}).fit(x, list("abab"))


def test_operations_have_names():
    assert (PREDICT, LEARN) == (riparian.PREDICT, riparian.LEARN)
