"""Cases of learners, the rows that they learn, and what is looked at, for the tests of the contract."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from riparian.models.contract import LEARN, PREDICT, Bags, Program, Schema
from riparian.models.entry import VALUES
from riparian.models.registry import create

N_VALUES = (0, 0, 4, 0, 2)
K = 3


class Case(NamedTuple):
    """parameters : to run the checks with. bounded : further ones under which 3,000 rows reach the memory's bound.
    breathes : parts are dropped and grown again all the time, so that bytes vary below the bound. roomy : with room for
    more values and classes it begins as the same learner: it draws nothing by how many there are."""

    parameters: Mapping = MappingProxyType({})
    bounded: Mapping = MappingProxyType({})
    breathes: bool = False
    roomy: bool = True


def schema_of(task, n_values=N_VALUES, n_classes=K):
    return Schema(n_values, {"classification": n_classes, "multi-instance": 2}.get(task, 1), task)


def make(name, task, case, schema=None, seed=1):
    return create(name, schema or schema_of(task), seed=seed, **case.parameters)


def rows(n, task, seed=0, missing=0.1, n_values=N_VALUES):
    """x and y of a world in which every feature but the constant last but one says something about the label.

    For bags, a row of x is the first instance of one: see `slab_of`.
    """
    rng = np.random.default_rng(seed)
    x = np.empty((n, len(n_values)))
    for j, values in enumerate(n_values):
        x[:, j] = rng.integers(0, values, n) if values else rng.normal(0.0, 1.0, n)
    x[:, 3] = 7.0
    signal = x[:, 0] + (x[:, 2] == 1) - 2.0 * (x[:, 4] == 1) + 0.3 * rng.normal(size=n)
    y = np.digitize(signal, [-1.0, 0.5]).astype(float) if task == "classification" else 10.0 * signal
    if task == "multi-instance":
        y = (signal > 0.0).astype(float)
    x[rng.random(x.shape) < missing] = np.nan
    return x, y


def slab_of(learner, x):
    """What the learner is given for the rows of x. Bags have one to three instances, by the row: it, and some that say
    less; they do not lie in order."""
    if learner.schema.task != "multi-instance":
        return x
    size = 1 + np.nan_to_num(x[:, 4]).astype(int) + (np.nan_to_num(x[:, 2]) > 1)
    others = np.where(np.arange(x.shape[1]) == 0, x - 1.0, x)
    start = np.cumsum(size[::-1])[::-1] - size
    instances = np.empty((int(size.sum()), x.shape[1]))
    for r in range(len(x)):
        instances[start[r] : start[r] + size[r]] = others[r]
        instances[start[r]] = x[r]
    return Bags(start, size, instances)


def learn(learner, x, y, w=None):
    learner.learn_many(slab_of(learner, x), y, w)


def predict(learner, x):
    return learner.predict_many(slab_of(learner, x))


def interleaved(n, y, delay, w=None):
    """The program of a stream whose labels come `delay` instances late."""
    steps = []
    for i in range(n + delay):
        if i < n:
            steps.append((PREDICT, i, np.nan, 1.0))
        if i >= delay:
            steps.append((LEARN, i - delay, y[i - delay], 1.0 if w is None else w[i - delay]))
    op, row, label, weight = zip(*steps, strict=True)
    return Program(np.array(op, np.int8), np.array(row, np.int32), np.array(label), np.array(weight))


def cut(program, a, b):
    return Program(*(np.ascontiguousarray(column[a:b]) for column in program))


def bits(learner):
    return comparable(learner, learner.state()._asdict())


def comparable(learner, state):
    return {f: (a.shape, a.dtype, a.tobytes()) for f, a in state.items() if f not in learner.incomparable}


def check_outputs(out, task):
    assert np.all(np.isfinite(out))
    if task == "anomaly":
        assert np.all((out >= 0.0) & (out <= 1.0))
    elif task != "regression":
        assert np.all(out >= 0.0)
        totals = out.sum(axis=1)
        assert np.all((np.abs(totals - 1.0) < 1e-9) | (totals == 0.0))


def check_nothing(out, task):
    """Predictions of who knows nothing."""
    assert np.all(np.isnan(out) if task in VALUES else out == 0.0)
