"""Batch learners on a window: predictions are the library's own, and places of models depend on the labels alone."""

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from sklearn import ensemble, tree

from riparian.checks import bits, rows
from riparian.models.batch import fit as fitting
from riparian.models.batch import learner as window
from riparian.models.batch import process
from riparian.models.batch.fit import NATIVE, Data, FittedForest, Job, columns_of, fit, seed_of
from riparian.models.batch.predict import predict, room_for
from riparian.models.batch.process import PROCESSES, FitError, Processes
from riparian.models.contract import Schema
from riparian.models.registry import REGISTRY, create, validate
from tests.processes import PATIENCE, fitters, gone, until

ROOT = Path(__file__).resolve().parents[2]

METHODS = {
    "cart": {"ccp_alpha": 0.002},
    "bagging": {"n_trees": 4, "sample": 0.3},
    "random-forest": {"n_trees": 4},
    "adaboost": {"n_trees": 4, "max_depth": 2},
    "gradient-boosting": {"n_trees": 4, "sample": 0.8},
    "xgboost": {"n_trees": 4, "max_depth": 4, "sample": 0.9},
}
NOMINAL = np.array([False, False, True, False, True])
every_method = pytest.mark.parametrize("method", METHODS)


def world(n, task, n_classes=3, seed=3):
    """Rows with weights, and values that float32 cannot tell apart as they are."""
    x, y = rows(n, task, seed=seed)
    x[:, 1] += 1.7e9
    if task == "classification" and n_classes == 2:
        y = (y > 0).astype(float)
    w = np.random.default_rng(seed).choice([0.5, 1.0, 2.0], n)
    return x, y, w


def job(method, task, x, y, w, **more):
    parameters = validate(method, task, {**METHODS[method], **more})
    return Job(method, task, parameters, seed_of(1, 1), x, y, w, NOMINAL)


def predictions(forest, x, n_outputs, classes):
    out, room = np.zeros((len(x), n_outputs)), room_for(forest)
    for r in range(len(x)):
        predict(forest, x, r, np.zeros(n_outputs), room, classes, out[r])
    return out


def library(made, monkeypatch):
    """Have what the library fits put into `made`, and what XGBoost is asked for."""
    import xgboost

    def watched(kind):
        class Watched(kind):
            def fit(self, X, y, sample_weight=None):
                made.append(self)
                return super().fit(X, y, sample_weight)

        return Watched

    kinds = ("Bagging", "RandomForest", "AdaBoost", "GradientBoosting")
    for name in [kind + task for kind in kinds for task in ("Classifier", "Regressor")]:
        monkeypatch.setattr(ensemble, name, watched(getattr(ensemble, name)))
    for name in ("DecisionTreeClassifier", "DecisionTreeRegressor"):
        monkeypatch.setattr(tree, name, watched(getattr(tree, name)))
    train = xgboost.train
    monkeypatch.setattr(xgboost, "train", lambda *given: made.append(train(*given)) or made[-1])


@every_method
@pytest.mark.parametrize("n_classes", [2, 3, 1])
def test_predictions_are_the_librarys_own(method, n_classes, monkeypatch):
    import xgboost

    task = "classification" if n_classes > 1 else "regression"
    x, y, w = world(900, task, n_classes)
    made: list = []
    library(made, monkeypatch)
    forest = fit(job(method, task, x[:600], y[:600], w[:600]))
    columns = columns_of(x[:600], NOMINAL)
    # New rows as these columns: what stands in a FittedForest about each is enough.
    encoded = np.empty((900, len(columns.feature)), np.float32)
    for j, (feature, code, centre) in enumerate(zip(forest.feature, forest.code, forest.centre, strict=True)):
        values = x[:, feature]
        same = np.where(np.isnan(values), np.nan, values == code)
        encoded[:, j] = np.clip(values - centre, -1e37, 1e37) if np.isnan(code) else same
    np.testing.assert_array_equal(encoded[:600], columns.x)
    if method == "xgboost":
        expected = made[0].predict(xgboost.DMatrix(encoded))
    else:
        given = encoded if method in NATIVE else np.nan_to_num(encoded, nan=0.0)
        expected = made[0].predict(given) if n_classes == 1 else made[0].predict_proba(given)
    if n_classes == 1:  # it has learned targets less their mean
        expected = expected.reshape(-1, 1) + np.average(y[:600], weights=w[:600])
    elif expected.ndim == 1:
        expected = np.stack([1.0 - expected, expected], axis=1)
    found = predictions(forest, x, max(1, n_classes), n_classes > 1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert len(np.unique(found.round(6), axis=0)) >= 4


def test_rare_values_and_unknown_ones_have_no_column():
    codes = np.repeat(np.arange(100.0), np.arange(100) + 1)
    columns = columns_of(codes.reshape(-1, 1), np.array([True]))
    assert columns.code.tolist() == list(range(36, 100))
    assert columns.x[:5].sum() == 0.0
    everything_missing = columns_of(np.full((4, 2), np.nan), np.array([True, False]))
    assert everything_missing.x.shape == (4, 0)
    forest = fit(
        Job("cart", "regression", {}, 1, np.full((4, 1), np.nan), np.arange(4.0), np.ones(4), np.array([True]))
    )
    assert predictions(forest, np.zeros((1, 1)), 1, False) == [[1.5]]


def test_the_penalty_is_chosen_by_cross_validation():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 2)).astype(np.float32)
    y = ((x[:, 0] > 0) ^ (rng.random(600) < 0.25)).astype(np.int64)

    def grown(alpha):
        return tree.DecisionTreeClassifier(random_state=0, ccp_alpha=alpha)

    data = Data(x, y, np.ones(600), 2, 0)
    alpha = fitting.chosen_alpha(data, grown)
    assert grown(alpha).fit(x, y).get_n_leaves() < 6 < 50 < grown(0.0).fit(x, y).get_n_leaves()
    rule = (x[:, 0] > 0).astype(np.int64)  # no noise: nothing is pruned that matters
    alpha = fitting.chosen_alpha(data._replace(y=rule), grown)
    assert np.array_equal(grown(alpha).fit(x, rule).predict(x), rule)


class Here:
    """Fits there and then, in this process."""

    def submit(self, job):
        future: Future = Future()
        future.set_result(fit(job))
        return future


@every_method
def test_the_fold_is_the_same_in_one_process(method, monkeypatch):
    x, y, w = world(1400, "classification")
    parameters = {**METHODS[method], "window": 300, "refit_every": 200, "lag": 70}
    beside, here = (create(method, Schema((0, 0, 4, 0, 2), 3, "classification"), seed=5, **parameters) for _ in "ab")
    beside.learn_many(x, y, w)
    monkeypatch.setattr(window, "PROCESSES", Here())
    for at in range(0, 1400, 33):
        here.learn_many(x[at : at + 33], y[at : at + 33], w[at : at + 33])
    assert bits(beside) == bits(here)
    assert beside.n_rows == 300


def naive_places(n, window, refit_every, lag):
    """(labels learned when a model takes its place, first and last + 1 of the labels it is made of), one by one."""
    places, due, hand = [], min(32, refit_every), None
    for learned in range(1, n + 1):
        if hand is not None and learned == hand[0]:
            places.append(hand)
            hand = None
        if hand is None and learned >= due:
            step = min(refit_every, learned)
            hand, due = (learned + min(lag, step), max(0, learned - window), learned), learned + step
            if lag == 0:
                places.append(hand)
                hand = None
    return places


@pytest.mark.parametrize(("size", "refit_every", "lag"), [(100, 50, 50), (400, 90, 7), (64, 20, 0), (500, 1000, 300)])
def test_models_take_their_places_at_labels_known_beforehand(size, refit_every, lag, monkeypatch):
    jobs = []

    class Noted(Here):
        def submit(self, job):
            jobs.append(job.y)
            return super().submit(job)

    monkeypatch.setattr(window, "PROCESSES", Noted())
    learner = create("cart", Schema((0,), 1, "regression"), window=size, refit_every=refit_every, lag=lag, max_depth=1)
    y = np.arange(900.0)
    found, before = [], 0
    for i in range(900):
        learner.learn_many([[0.0]], y[i : i + 1])
        if learner.n_rows:
            predicted = learner.predict_many([[0.0]])[0, 0]
            if predicted != before:
                found.append((i + 1, predicted))
                before = predicted
    expected = naive_places(900, size, refit_every, lag)
    assert found == [(place, np.mean(y[first:end])) for place, first, end in expected]
    assert all(np.array_equal(made, y[first:end]) for made, (_, first, end) in zip(jobs, expected, strict=False))


def test_a_fit_in_hand_is_made_again_where_the_state_is_taken_over():
    x, y, w = world(1000, "classification")
    schema, parameters = Schema((0, 0, 4, 0, 2), 3, "classification"), {"n_trees": 4, "window": 256, "refit_every": 256}
    whole = create("random-forest", schema, **parameters)
    whole.learn_many(x[:700], y[:700], w[:700])
    state = {field: array.copy() for field, array in whole.state()._asdict().items()}
    assert state["labels_at"][window.READY] == 768  # begun at 512, and the window has moved on since
    resumed = create("random-forest", schema, **parameters)
    resumed.restore(state)
    for learner in (whole, resumed):
        learner.learn_many(x[700:900], y[700:900], w[700:900])
    assert bits(resumed) == bits(whole)
    assert resumed.n_rows == 256
    assert resumed.predict_many(x).tobytes() == whole.predict_many(x).tobytes()


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_rise_of_errors_empties_the_window(task):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3000, 1))
    above = x[:, 0] > 0
    after = np.arange(3000) >= 2000
    y = np.where(above ^ after, 1.0, 0.0) * (1.0 if task == "classification" else 30.0)
    schema = Schema((0,), 2 if task == "classification" else 1, task)
    learner = create("cart", schema, window=2000, refit_every=1500, lag=20, drift_delta=0.002, max_depth=2)
    learner.learn_many(x[:2000], y[:2000])
    assert learner.state().labels_at[window.DRIFTS] == 0
    learner.learn_many(x[2000:2400], y[2000:2400])
    at = learner.state().labels_at
    assert at[window.DRIFTS] >= 1
    assert 1900 < at[window.SINCE] <= 2100
    predicted = learner.predict_many(x[2400:])
    right = predicted.argmax(axis=1) == y[2400:] if task == "classification" else abs(predicted[:, 0] - y[2400:]) < 5.0
    assert right.mean() > 0.95


def test_a_fit_that_the_library_refuses_leaves_the_model(monkeypatch, caplog):
    x, y, w = world(300, "classification")
    learner = create("cart", Schema((0, 0, 4, 0, 2), 3, "classification"), window=100, refit_every=64, lag=10)
    learner.learn_many(x[:80], y[:80], w[:80])
    before = learner.predict_many(x).tobytes()

    class Refuses:
        def submit(self, job):
            future: Future = Future()
            future.set_exception(FitError("ValueError: no"))
            return future

    monkeypatch.setattr(window, "PROCESSES", Refuses())
    learner.learn_many(x[80:], y[80:], w[80:])
    assert learner.predict_many(x).tobytes() == before
    assert learner.state().labels_at[window.FAILED] == 3
    assert "cart keeps the model that it has, the fit at label 128 failed: ValueError: no" in caplog.text


def long_job(seed=1):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(3000, 10)), rng.normal(size=3000)
    parameters = validate("random-forest", "regression", {"n_trees": 10, "max_features": "all"})
    return Job("random-forest", "regression", parameters, seed, x, y, np.ones(3000), np.zeros(10, bool))


def test_a_process_that_is_killed_is_replaced_and_its_fit_made_again(caplog):
    here = os.getpid()
    before = set(fitters(here))
    processes = Processes(1)
    future = processes.submit(long_job())
    until(lambda: set(fitters(here)) - before)
    (first,) = set(fitters(here)) - before
    os.kill(first, signal.SIGKILL)
    found = future.result(PATIENCE)
    (second,) = set(fitters(here)) - before
    assert second != first
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(found, fit(long_job()), strict=True))
    (message,) = caplog.messages
    assert message == (
        "the process that fits random-forest ended (killed by signal 9) before it was done, attempt 1 of 3: perhaps "
        "for want of memory"
    )
    processes.close()


def test_who_closes_leaves_no_process_and_a_later_job_starts_one(caplog):
    """Also in the middle of a fit, which is not made again."""
    here = os.getpid()
    before = set(fitters(here))
    processes = Processes(1)
    for _ in range(2):
        futures = [processes.submit(long_job()) for _ in range(2)]
        until(lambda: set(fitters(here)) - before)
        processes.close()
        for future in futures:
            with pytest.raises(RuntimeError, match="were closed"):
                future.result(PATIENCE)
        assert set(fitters(here)) <= before
    assert caplog.messages == []


def test_a_process_that_cannot_be_started_is_tried_again_beside_other_jobs(caplog, monkeypatch):
    processes, start, begun, go_on = Processes(2), process._start, threading.Event(), threading.Event()
    failures = iter([BlockingIOError("no more processes")])

    def slow():
        begun.set()
        assert go_on.wait(PATIENCE)
        for failure in failures:
            raise failure
        return start()

    monkeypatch.setattr(process, "_start", slow)
    first = processes.submit(long_job())
    assert begun.wait(PATIENCE)
    with ThreadPoolExecutor(1) as other:  # which waits for no start
        submitted = other.submit(processes.submit, long_job())
        try:
            second = submitted.result(PATIENCE)
        finally:
            go_on.set()
    assert all(isinstance(one.result(PATIENCE), FittedForest) for one in (first, second))
    (message,) = caplog.messages
    assert "ended (it did not start: no more processes) before it was done, attempt 1 of 3" in message
    processes.close()


def test_what_only_this_machine_could_not_do_is_tried_again_and_is_no_answer(caplog, monkeypatch):
    """A library that says it has no memory: another machine would have had the model, so none may go without."""
    whole = os.environ.get("PYTHONPATH", "")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sklearn.py").write_text("raise MemoryError('no room')\n")
        monkeypatch.setattr(process, "ROOT", Path(folder))
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(ROOT), whole))))
        with pytest.raises(RuntimeError, match="the process that fits random-forest ended 3 times before it was done"):
            Processes(1).submit(long_job()).result(PATIENCE)
    assert [m.partition("it was done, ")[2][:14] for m in caplog.messages] == [f"attempt {i} of 3" for i in (1, 2, 3)]
    assert "(exit code 1)" in caplog.messages[0]


def test_what_the_library_says_comes_back():
    bad = long_job()._replace(method="xgboost", parameters=validate("xgboost", "regression", {"n_trees": 2}))
    bad.w[0] = -1.0
    with pytest.raises(FitError, match="XGBoostError"):
        PROCESSES.submit(bad).result(PATIENCE)
    small = Job("cart", "regression", validate("cart", "regression", {}), 1, *(a[:50] for a in bad[4:7]), bad.nominal)
    assert isinstance(PROCESSES.submit(small._replace(w=np.ones(50))).result(PATIENCE), FittedForest)


DYING = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from tests.models.test_batch import long_job
from tests.processes import fitters, until
from riparian.models.batch.process import Processes
Processes(1).submit(long_job())
until(lambda: fitters(os.getpid()))
print(*fitters(os.getpid()), flush=True)
time.sleep(60)
"""


def test_processes_end_with_the_one_that_started_them():
    here = os.getcwd()
    parent = subprocess.Popen([sys.executable, "-c", DYING, here], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until(lambda: gone(child))


@pytest.mark.parametrize("method", METHODS)
def test_without_the_library_there_is_one_sentence(method, monkeypatch):
    found = importlib.util.find_spec
    library, name = ("xgboost", "XGBoost") if method == "xgboost" else ("sklearn", "scikit-learn")
    monkeypatch.setattr(
        "riparian.models.batch.check.find_spec", lambda module: None if module == library else found(module)
    )
    with pytest.raises(ValueError) as caught:
        validate(method, "classification", {})
    said = f"this model needs {name}, which is not installed: pip install 'scikit-learn<2,>=1.6' 'xgboost"
    assert str(caught.value).startswith(said)


def test_a_lag_is_no_longer_than_a_period():
    assert validate("cart", "regression", {"lag": 500})["lag"] == 500
    with pytest.raises(ValueError, match="lag is 501 and refit_every 500"):
        validate("cart", "regression", {"lag": 501})
    assert set(METHODS) <= set(REGISTRY)


@every_method
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_the_description_says_what_is_predicted(method, task):
    """A row followed through the nodes as people read them comes to the prediction."""
    x, y, _ = world(400, task)
    schema = Schema((0, 0, 4, 0, 2), 3 if task == "classification" else 1, task)
    learner = create(method, schema, **METHODS[method], window=300)
    learner.fit(x, y)
    nodes = learner.describe()
    by_id = {node["id"]: node for node in nodes}
    trees = [node for node in nodes if node.get("part") == "tree"]
    for r in range(350, 400):
        leaves = []
        for node in trees:
            while "children" in node:
                value = x[r, node["feature"]]
                first, second = node["children"]
                there = value == node["equals"] if "equals" in node else value <= node.get("threshold", np.inf)
                node = by_id[node["default"] if np.isnan(value) else first if there else second]
            leaves.append(node)
        predicted = learner.predict_many(x[r : r + 1])[0]
        if "stage" in trees[0]:
            scores: dict = {}
            for root, leaf in zip(trees, leaves, strict=True):
                scores[root.get("class", 0)] = scores.get(root.get("class", 0), 0.0) + leaf["value"][0]
            assert len(trees) == (12 if task == "classification" else 4)
            assert {leaf["unit"] for leaf in leaves} == {"score"}
        else:
            votes = np.array([leaf["value"] for leaf in leaves])
            shares = np.array([root["share"] for root in trees])
            assert shares.sum() == pytest.approx(1.0)
            if method == "adaboost" and task == "regression":
                assert predicted[0] in votes
            elif method == "adaboost":
                assert (shares @ votes).argmax() == predicted.argmax()
            else:
                assert shares @ votes == pytest.approx(predicted)
