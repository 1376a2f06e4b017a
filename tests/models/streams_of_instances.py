"""Random streams for the tests of single learners: mixed features, missing values, weights, late labels."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from riparian.checks import cut, interleaved, snapshot
from riparian.models.contract import LEARN, Schema


class Stream(NamedTuple):
    schema: Schema
    x: np.ndarray
    y: np.ndarray
    w: np.ndarray


def mixed(n, seed, n_values=(0, 3, 0, 5, 0, 2), n_classes=3, missing=0.1, weights="one", drift=True):
    """Classes depend on a threshold, a nominal value and their interaction; the last numeric feature is noise with many
    ties. weights : "one", "whole" (0, 1, 2, 3) or "fractions" (some are 0). drift : the concept changes half way."""
    rng = np.random.default_rng(seed)
    x = np.empty((n, len(n_values)))
    for f, values in enumerate(n_values):
        x[:, f] = rng.integers(0, values, n) if values else rng.normal(0.0, 1.0 + f, n)
    numeric = [f for f, values in enumerate(n_values) if not values]
    nominal = [f for f, values in enumerate(n_values) if values]
    signal = 0.3 * rng.normal(size=n)
    if numeric:
        x[:, numeric[-1]] = np.round(x[:, numeric[-1]])
        signal += np.sign(x[:, numeric[0]])
    if nominal:
        signal += 1.5 * (x[:, nominal[0]] == 1)
        signal += (x[:, nominal[-1]] == 1) * (signal if numeric else 1.0)
    if drift:
        signal[n // 2 :] *= -1.0
    cuts = np.quantile(signal, np.arange(1, n_classes) / n_classes)
    y = np.digitize(signal, cuts).astype(float)
    x[rng.random(x.shape) < missing] = np.nan
    w = {
        "one": np.ones(n),
        "whole": rng.integers(0, 4, n).astype(float),
        "fractions": rng.random(n).round(2) * (rng.random(n) > 0.1),
    }[weights]
    return Stream(Schema(tuple(n_values), n_classes, "classification"), x, y, w)


def interleave(stream, delay=0):
    """The program of a stream whose labels come `delay` instances late."""
    return interleaved(stream.y, delay, stream.w)


def same(first, second):
    return first.keys() == second.keys() and all(
        first[name].shape == second[name].shape and first[name].tobytes() == second[name].tobytes() for name in first
    )


def in_pieces(fresh, program, x):
    """Run a program in pieces of any length, each by a new learner from the state that the one before left, which has
    predicted something in between: the last learner, and what was predicted."""
    learner, n = fresh(), len(program.op)
    out = np.zeros((len(x), learner.schema.n_outputs))
    for start, stop in pairwise([0, *sorted(np.random.default_rng(n).integers(0, n + 1, 4).tolist()), n]):
        learner.run(cut(program, start, stop), x, out)
        saved = snapshot(learner)
        learner.predict_many(x[:2])
        learner = fresh()
        learner.restore(saved)
    return learner, out


def played(twin, program, x, n_outputs=1):
    """A twin's predictions, one row each."""
    out = np.zeros((len(x), n_outputs))
    for op, r, y, w in zip(*program, strict=True):
        if op == LEARN:
            twin.learn(x[r].tolist(), float(y), float(w))
        else:
            out[r] = twin.predict(x[r].tolist())
    return out
