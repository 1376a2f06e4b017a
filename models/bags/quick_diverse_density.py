"""Quick diverse density, iterative (Foulds and Frank 2010, "Speeding up and boosting diverse density learning").

Diverse density looks for the point that all positive bags have an instance near to and no negative bag has. Searching
for point and scale of the features together, from every positive instance, takes many optimisations. Here candidates
are the instances of positive bags only: take the one with the best likelihood by the scale there is, optimise the
scale at that point, and begin again with this scale, until nothing gets better or `max_iterations` are done.

Features are standardised over the window first, and missing numbers replaced by the mean. The likelihood and its
deviations stand in models/bags/likelihood.py, the optimisation in models/bags/optimise.py.

Deviations. The likelihood is computed in logarithms, where the reference implementation's is 0 beyond a distance of 36
and its gradient with it. The scale starts at `scale` over the root of the number of features, so that it means the same
however many there are. A nominal feature's values are 1 apart, and a missing one is a value of its own.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.bags.entries import QUICK_DIVERSE_DENSITY
from riparian.models.bags.likelihood import bag_loss, distance, loss_of
from riparian.models.bags.optimise import optimise_scale
from riparian.models.bags.window import FULL, BagWindow, BagWindowLearner, TrainingSet, add, is_due
from riparian.models.contract import PREDICT, Bags, Floats, Program, Schema
from riparian.models.explanation.description import as_node
from riparian.models.joined import joined, prefixed
from riparian.models.kernels.elementary import exp
from riparian.models.kernels.kernel import kernel

TOLERANCE = 1e-6
UNKNOWN, FOUND, NO_POSITIVE = 0, 1, 2


class Point(NamedTuple):
    """What was found.

    status : (1,) int64, UNKNOWN, FOUND or NO_POSITIVE (no positive bag to look in).
    target, scale : (d,) float64, of standardised features.
    mean, deviation : (d,) float64, by which they are.
    """

    status: NDArray[np.int64]
    target: Floats
    scale: Floats
    mean: Floats
    deviation: Floats


QuickDiverseDensityState = joined("QuickDiverseDensityState", prefixed("window_", BagWindow), Point._fields)


class QuickDiverseDensity(BagWindowLearner):
    """Quick diverse density, refitted to a window of bags.

    A label that is neither 0 nor 1, a weight that is not positive, and a bag without instances teach nothing. Memory is
    bounded by `max_instances`: the oldest bags leave the window. Without a positive bag in it all bags are negative.

    `scale` is in deviations. `cap` bounds minus the logarithm of a positive bag's likelihood.

    References
    ----------
    J. Foulds and E. Frank: Speeding up and boosting diverse density learning. Discovery Science 2010.
    O. Maron and T. Lozano-Pérez: A framework for multiple-instance learning. NIPS 1998.

    Examples
    --------
    >>> learner = QuickDiverseDensity(Schema((0,), 2, "multi-instance"))
    >>> learner.fit(Bags.of([2, 2, 2], [[0.0], [5.0], [0.1], [-4.0], [3.0], [-2.0]]), [1, 1, 0])
    >>> learner.predict_many(Bags.of([2, 1], [[0.05], [9.0], [-3.0]])).argmax(axis=1)
    array([1, 0])
    """

    entry = QUICK_DIVERSE_DENSITY
    state_type = QuickDiverseDensityState

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        d = schema.n_features
        self._model = Point(np.zeros(1, np.int64), np.zeros(d), np.zeros(d), np.zeros(d), np.ones(d))

    def _run(self, i: int, program: Program, slab: Bags, out: Floats) -> int:
        stopped: int = _run(
            i, program, slab, out, self._window, self._model, self._n_values, self.max_instances, self.refit_every
        )
        return stopped

    def _fit(self, training: TrainingSet) -> None:
        p = self._parameters
        start = p["scale"] / np.sqrt(max(1, self.schema.n_features))
        search(training, self._n_values, start, p["max_iterations"], p["max_steps"], p["cap"], self._model)

    def describe(self) -> list[dict[str, Any]]:
        """The weight of the window's bags by class, and one part a feature: the point's value as it is in the records,
        and the scale (0: the feature is ignored)."""
        point, bags = self._model, self._window.bags()
        y, w = self._window.y[bags], self._window.w[bags]
        weight, positive = float(w.sum()), float(w[y == 1.0].sum())
        parts = [as_node(0, None, 0, weight, [weight - positive, positive])]
        if point.status[0] != FOUND:
            return parts
        for f, n_values in enumerate(self.schema.n_values):
            value = float(point.target[f] * point.deviation[f] + point.mean[f])
            scale = abs(float(point.scale[f])) / (1.0 if n_values else float(point.deviation[f]))
            parts.append(as_node(f + 1, 0, 1, weight, [value], feature=f, scale=scale))
        return parts


@kernel
def _standardised(value, n_values, mean, deviation):
    """Standardise rows as the point was looked for; a missing number is the mean, a missing nominal value -1."""
    if n_values > 0:
        return -1.0 if np.isnan(value) else value
    return 0.0 if np.isnan(value) else (value - mean) / deviation


@kernel(allocates=True)
def _predict(point, n_values, x, start, stop):
    """Probability that instances start .. stop of x are a positive bag. O(d) each."""
    if start == stop:
        return 0.0
    distances = np.empty(stop - start)
    row = np.empty((1, x.shape[1]))
    for i in range(start, stop):
        for f in range(x.shape[1]):
            row[0, f] = _standardised(x[i, f], n_values[f], point.mean[f], point.deviation[f])
        distances[i - start] = distance(row, 0, point.target, point.scale, n_values)
    return exp(-bag_loss(distances, np.uint8(1), np.inf))


@kernel
def _run(i, program, slab, out, window, point, n_values, max_rows, refit_every):
    """Execute `program` from i on; where it stopped. Mutates out and window."""
    op, row = program.op, program.row
    while i < len(op):
        r = row[i]
        if op[i] == PREDICT:
            out[r] = 0.0
            if point.status[0] == NO_POSITIVE:
                out[r, 0] = 1.0
            elif point.status[0] == FOUND:
                p = _predict(point, n_values, slab.x, slab.start[r], slab.start[r] + slab.size[r])
                out[r, 0] = 1.0 - p
                out[r, 1] = p
        else:
            if add(window, slab, r, program.y[i], program.w[i], max_rows) == FULL:
                return i
            if is_due(window.at, refit_every):
                return i + 1
        i += 1
    return i


@kernel
def _standardise(x, n_values, point):
    """Mean and deviation of each feature into `point`, and x standardised by them (both mutated). O(n d)."""
    for f in range(x.shape[1]):
        point.mean[f] = 0.0
        point.deviation[f] = 1.0
        if n_values[f] == 0:
            n, mean, spread = 0, 0.0, 0.0
            for i in range(len(x)):
                if not np.isnan(x[i, f]):
                    n += 1
                    step = x[i, f] - mean
                    mean += step / n
                    spread += step * (x[i, f] - mean)
            point.mean[f] = mean
            if n > 1 and spread > 0.0:
                point.deviation[f] = np.sqrt(spread / (n - 1))
        for i in range(len(x)):
            x[i, f] = _standardised(x[i, f], n_values[f], point.mean[f], point.deviation[f])


@kernel(allocates=True)
def search(training, n_values, start, max_iterations, max_steps, cap, point):
    """Find the point; `point` and training.x (which is standardised) are mutated. O(n p d) an iteration for p positive
    instances, and O(n d) a step of the optimisation."""
    x, bag, positive = training.x, training.bag, training.positive
    _standardise(x, n_values, point)
    point.status[0] = NO_POSITIVE
    distances = np.empty(max(1, training.size.max()))
    scale = np.full(x.shape[1], start)
    target = np.zeros(x.shape[1])
    best = np.inf
    for _ in range(max_iterations):
        before, chosen = best, -1
        for i in range(len(x)):
            if positive[bag[i]]:
                loss = loss_of(training, x[i], scale, n_values, cap, best, distances)
                if loss < best:
                    best, chosen = loss, i
        if chosen < 0:
            break
        target[:] = x[chosen]
        point.target[:] = target
        point.scale[:] = scale
        point.status[0] = FOUND
        loss = optimise_scale(training, target, scale, n_values, cap, max_steps, TOLERANCE)
        if loss < best:
            best = loss
            point.scale[:] = scale
        if not best < before:
            break
