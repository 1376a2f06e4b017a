"""What models/contract.py promises, as tests that the file of each family runs over its cases.

A file `test_<family>.py` has `CASES`, and takes these tests over by `from tests.models.contract.checks import *`. So a
family's kernels are compiled and loaded by one process of those that share the tests.
"""

import json
import pickle
from itertools import pairwise

import numpy as np
import pytest

from riparian.models.ensemble import boosting, chunks, members
from riparian.models.entry import VALUES
from riparian.models.registry import REGISTRY, validate
from riparian.models.restoring import check, restore
from riparian.models.streaming_forest import forest as streaming
from tests.conftest import jit
from tests.models.contract.worlds import (
    K,
    bits,
    check_nothing,
    check_outputs,
    comparable,
    cut,
    interleaved,
    learn,
    make,
    predict,
    rows,
    schema_of,
    slab_of,
)
from tests.models.streams_of_instances import run_learns, snapshot


def test_inputs_stay_unchanged(name, task, case):
    x, y = rows(600, task)
    program = interleaved(600, y, 10)
    learner = make(name, task, case)
    slab = slab_of(learner, np.vstack([x, np.zeros((100, x.shape[1]))]))
    inputs = [*program, *(slab if task == "multi-instance" else [slab])]
    before = [column.tobytes() for column in inputs]
    out = np.full((700, learner.schema.n_outputs), -7.0)
    learner.run(program, slab, out)
    assert before == [column.tobytes() for column in inputs]
    n_nothing = int(np.isnan(out[:600, 0]).sum()) if task == "anomaly" else 11  # the first label comes after them
    assert 11 <= n_nothing <= 600
    check_nothing(out[:n_nothing], task)
    check_outputs(out[n_nothing:600], task)
    assert np.all(out[600:] == -7.0)  # rows that were not predicted


@pytest.mark.parametrize("delay", [0, 25])
def test_splits_of_a_program_snapshots_and_threads_do_not_matter(name, task, case, delay, monkeypatch):
    """Nor, therefore, which learner of the same seed it is that runs it."""
    for module, least in ((members, "WORTH_A_THREAD"), (streaming, "WORTH_A_THREAD"), (boosting, "LEAST_FLIGHT")):
        monkeypatch.setattr(module, least, 50)
    monkeypatch.setattr(chunks, "MOST", 800)
    n = 400 if REGISTRY[name].slow else 1500
    x, y = rows(n, task)
    program = interleaved(n, y, delay)
    shape = (n, schema_of(task).n_outputs)
    whole, out = make(name, task, case), np.zeros(shape)
    slab = slab_of(whole, x)
    whole.run(program, slab, out)
    cuts = np.sort(np.random.default_rng(5).integers(0, len(program.op), 9))
    other = case._replace(parameters={**case.parameters, "threads": 3}) if "threads" in whole.parameters() else case
    # Single operations where a label follows its prediction: kernels keep what they found for it.
    for places in (cuts, np.arange(1, len(program.op)))[: 1 + (delay == 0)]:
        pieces, pieced = make(name, task, other), np.zeros(shape)
        for a, b in pairwise([0, *places, len(program.op)]):
            pieces.run(cut(program, a, b), slab, pieced)
            if places is cuts:
                saved = snapshot(pieces)
                predict(pieces, x[:9])
                pieces = make(name, task, other)
                restore(pieces, saved)
        assert pieced.tobytes() == out.tobytes()
        assert bits(pieces) == bits(whole)


def test_batches_equal_the_program(name, task, case):
    x, y = rows(300, task)
    one, many = make(name, task, case), make(name, task, case)
    learn(one, x, y)
    for i in range(len(x)):
        learn(many, x[i : i + 1], y[i : i + 1])
    assert bits(one) == bits(many)
    together = predict(one, x[:50])
    assert together.tobytes() == b"".join(predict(many, x[i : i + 1]).tobytes() for i in range(50))


def test_predict_changes_nothing(name, task, case):
    x, y = rows(1200, task)
    learner, twin = make(name, task, case), make(name, task, case)
    predict(learner, x)
    learn(learner, x[:600], y[:600])
    learn(twin, x[:600], y[:600])
    known = bits(learner)
    predict(learner, x)
    assert bits(learner) == known
    learn(learner, x[600:], y[600:])
    learn(twin, x[600:], y[600:])
    assert bits(learner) == bits(twin)


def test_save_restore_continue(name, task, case):
    x, y = rows(2000, task)
    whole = make(name, task, case)
    learn(whole, x[:900], y[:900])
    saved = snapshot(whole)
    predict(whole, x[:10])
    resumed = make(name, task, case)
    restore(resumed, saved)
    assert bits(resumed) == comparable(whole, saved)
    copied = pickle.loads(pickle.dumps(whole))  # copy.deepcopy takes the same way
    learn(whole, x[900:], y[900:])
    learn(resumed, x[900:], y[900:])
    learn(copied, x[900:], y[900:])
    assert bits(resumed) == bits(whole)
    assert bits(copied) == bits(whole)
    assert predict(resumed, x).tobytes() == predict(whole, x).tobytes()
    assert resumed.describe() == whole.describe()


def test_state_is_arrays_that_n_bytes_counts(name, task, case):
    x, y = rows(1000, task)
    learner = make(name, task, case)
    for _ in range(2):
        state = learner.state()
        assert all(isinstance(array, np.ndarray) and array.flags.c_contiguous for array in state)
        assert all(array.dtype.kind in "iuf" for array in state)
        assert learner.n_bytes == sum(array.nbytes for array in state)
        learn(learner, x, y)


def test_missing_values(name, task, case):
    x, y = rows(1500, task, missing=0.6)
    learner = make(name, task, case)
    learn(learner, x, y)
    learn(learner, np.full((20, x.shape[1]), np.nan), y[:20])
    check_outputs(predict(learner, x), task)
    check_outputs(predict(learner, np.full((1, x.shape[1]), np.nan)), task)


def test_new_nominal_values_after_resize(name, task, case):
    x, y = rows(1500, task)
    learner = make(name, task, case)
    learn(learner, x, y)
    before = predict(learner, x)
    wider = (0, 0, 16, 0, 2)
    learner.resize(schema_of(task, wider))
    assert learner.schema.n_values == wider
    assert predict(learner, x).tobytes() == before.tobytes()
    unseen = x[:100].copy()
    unseen[:, 2] = np.arange(100) % 12 + 4
    check_outputs(predict(learner, unseen), task)
    learn(learner, unseen, y[:100])
    check_outputs(predict(learner, unseen), task)
    x, y = rows(1500, task, seed=8, n_values=wider)
    learn(learner, x, y)
    check_outputs(predict(learner, x), task)


@pytest.mark.only("classification")  # a regression has no classes, and bags have two
def test_new_classes_after_resize(name, task, case):
    x, y = rows(1500, task)
    learner = make(name, task, case)
    learn(learner, x, y)
    before = predict(learner, x)
    learner.resize(schema_of(task, n_classes=K + 5))
    after = predict(learner, x)
    assert after.shape == (len(x), K + 5)
    assert np.ascontiguousarray(after[:, :K]).tobytes() == before.tobytes()
    assert np.all(after[:, K:] == 0.0)
    x[:, 0] += 50.0
    learn(learner, x, np.full(len(x), K + 4.0))
    after = predict(learner, x)
    check_outputs(after, task)
    assert after[-1].argmax() == K + 4


def test_restore_after_resize(name, task, case):
    """What has grown is also what had the room from the beginning."""
    x, y = rows(1200, task)
    bigger = schema_of(task, (0, 0, 8, 0, 2), K + 2)
    learner, resumed, roomy = (make(name, task, case, schema) for schema in (None, bigger, bigger))
    learn(learner, x[:500], y[:500])
    learner.resize(bigger)
    restore(resumed, snapshot(learner))
    learn(roomy, x[:500], y[:500])
    x[500:, 2] += 3.0 * (x[500:, 0] > 0.5)
    if task == "classification":
        y[900:] += 2.0 * (x[900:, 1] > 0.5)
    for one in (learner, resumed, roomy):
        learn(one, x[500:], y[500:])
    assert bits(resumed) == bits(learner)
    if case.roomy:
        assert bits(roomy) == bits(learner)
        assert predict(roomy, x).tobytes() == predict(learner, x).tobytes()


def test_constant_features(name, task, case):
    _, y = rows(1500, task)
    x = np.tile([1.0, 0.0, 2.0, -5.0, 1.0], (1500, 1))
    learner = make(name, task, case)
    learn(learner, x, y)
    check_outputs(predict(learner, x[:1]), task)
    moved = x[:1] + np.array([0.5, 0.0, 0.0, 1e9, 0.0])
    check_outputs(predict(learner, moved), task)


@jit  # Python's math raises where compiled kernels go on with infinity
def test_huge_and_tiny_values(name, task, case):
    x, y = rows(1500, task, missing=0.0)
    for scale in (1e-200, 1e150, 1e300):
        scaled = x.copy()
        scaled[:, :2] *= scale
        learner = make(name, task, case)
        learn(learner, scaled, y)
        check_outputs(predict(learner, scaled), task)


def test_weights(name, task, case):
    x, y = rows(1500, task)
    rng = np.random.default_rng(2)
    w = rng.choice([0.0, 0.1, 1.0, 2.5], len(y))
    weighted, kept = make(name, task, case), make(name, task, case)
    learn(weighted, x, y, w)
    learn(kept, x[w > 0], y[w > 0], w[w > 0])
    check_outputs(predict(weighted, x), task)
    assert bits(weighted) == bits(kept)  # an instance of weight 0 is none
    if task not in VALUES:
        light, heavy = make(name, task, case), make(name, task, case)
        for learner, weights in ((light, (1.0, 0.25)), (heavy, (0.25, 1.0))):
            learn(learner, np.tile(x[:1], (2, 1)), np.array([0.0, 1.0]), np.array(weights))
        # the heavier class is not the less likely one (the last label does not weigh)
        assert predict(heavy, x[:1])[0, 1] >= predict(light, x[:1])[0, 1]


def test_one_class_only(name, task, case):
    x, _ = rows(1000, task)
    learner = make(name, task, case)
    learn(learner, x, np.ones(1000))
    out = predict(learner, x)
    check_outputs(out, task)
    if task == "classification":
        assert np.all(out[:, 1] == 1.0)
    elif task == "multi-instance":
        assert np.all(out[:, 1] > 0.5)
    elif task == "regression":
        assert out == pytest.approx(np.ones_like(out), abs=1e-6)


def errors(name, task, case, y):
    """How far a learner is off before it learns each label, on the features of `rows`."""
    x, _ = rows(len(y), task, missing=0.0)
    learner, out = make(name, task, case), np.zeros((len(y), 1))
    learner.run(interleaved(len(y), y, 0), x, out)
    return np.abs(out[:, 0] - y)


@pytest.mark.only("regression")
def test_targets_far_from_zero(name, task, case):
    """What counts is how far targets are from each other, down to where floats end: a sensor that is stuck, a time in
    milliseconds."""
    y = rows(500, task, missing=0.0)[1] / 10.0
    clean = np.median(errors(name, task, case, y)[100:])
    for level in (1.0, 1e3, 1e6, 1e9, 1e12):
        assert np.median(errors(name, task, case, level + y)[100:]) < 1.5 * clean + 1e-13 * level
    for step in (np.spacing(7.5), 1e-9):
        stuck = errors(name, task, case, 7.5 + step * np.round(np.clip(y, 0.0, 1.0)))
        assert np.nanmax(stuck) < 2.0 * step + 1e-13


@pytest.mark.only("regression")
def test_one_wrong_target(name, task, case):
    """It is not believed for long: after 1,000 labels medians of errors are as without it. The mean of all labels is
    what it says, and moves by its share of them."""
    of_all = name == "mean" and not case.parameters
    y = rows(2600, task, missing=0.0)[1]
    clean = np.median(errors(name, task, case, y)[1600:])
    for wrong in (1e5, 1e9):
        y[500] = 10.0 * wrong
        most = y[500] / 1600 if of_all else 2.0 * clean
        assert np.median(errors(name, task, case, y)[1600:]) < most


def test_nothing_is_known_before_the_first_label(name, task, case):
    x, y = rows(10, task)
    learner = make(name, task, case)
    check_nothing(predict(learner, x), task)
    assert predict(learner, x[:0]).shape == (0, schema_of(task).n_outputs)
    no_labels = [np.nan, np.inf] if task in VALUES else [np.nan, -1.0]
    run_learns(learner, slab_of(learner, x[:4]), [*no_labels, *y[2:4]], [1.0, 1.0, 0.0, 0.0])
    check_nothing(predict(learner, x), task)
    if task == "regression":
        learn(learner, x[4:5], y[4:5])
        known = predict(learner, x)  # a bootstrap may leave out the first label
        assert np.all(np.isnan(known) | np.isclose(known, y[4]))
        learn(learner, x[5:], y[5:])
        check_outputs(predict(learner, x), task)


def test_labels_and_weights_that_teach_nothing(name, task, case):
    x, y = rows(300, task)
    learner = make(name, task, case)
    learn(learner, x, y)
    before = bits(learner)
    labels = [np.nan, np.inf] if task in VALUES else [np.nan, -1.0, float(learner.schema.n_outputs)]
    weights = [0.0, -1.0, np.nan, np.inf]
    pairs = [(label, 1.0) for label in labels if task != "anomaly"] + [(y[0], weight) for weight in weights]
    for label, weight in pairs:
        run_learns(learner, slab_of(learner, x[:1]), [label], [weight])
        assert bits(learner) == before


def test_memory_is_bounded(name, task, case):
    learner = make(name, task, case._replace(parameters={**case.parameters, **case.bounded}))
    x, y = rows(6000, task, seed=4)
    reached = []
    for a in range(0, 4500, 300):
        learn(learner, x[a : a + 300], y[a : a + 300])
        reached.append(learner.n_bytes)
        check(learner, learner.state()._asdict())
    if case.breathes:
        assert max(reached[10:]) <= 1.1 * max(reached[:10])
    else:
        assert reached[-1] == reached[9]
    check_outputs(predict(learner, x), task)


def test_describe(name, task, case):
    x, y = rows(2000, task)
    learner = make(name, task, case)
    for n in (0, 1, 2000):
        learn(learner, x[:n], y[:n])
        nodes = json.loads(json.dumps(learner.describe(), allow_nan=False))
        assert nodes[0]["parent"] is None
        assert nodes[0]["depth"] == 0
        known = {}
        for node in nodes:
            assert {"id", "depth", "weight", "parent", "value"} <= set(node)
            assert node["id"] not in known
            if node["parent"] is not None:
                assert node["depth"] == known[node["parent"]]["depth"] + 1
            known[node["id"]] = node
        assert {"n_nodes", "n_leaves", "depth"} <= set(learner.size())
        assert all(type(value) is int for value in learner.size().values())


def test_parameters_come_back(name, task, case):
    learner = make(name, task, case)
    assert learner.parameters() == validate(name, task, case.parameters)
    assert type(learner).name == name
    assert json.loads(json.dumps(learner.parameters())) == learner.parameters()


def test_warm_up_leaves_no_trace(name, task, case):
    learner = make(name, task, case)
    before = bits(learner)
    learner.warm_up()
    assert bits(learner) == before


__all__ = [name for name in globals() if name.startswith("test_")]  # in this order
