"""Weights of several predictors by how they have predicted, on the simplex.

Before a label is learned each predictor l has predicted p_l. With weights v of sum 1 the squared error of their blend
is v' E v, where E holds the products of errors (p_k - y)(p_l - y), so E, faded, is all that has to be kept. Each label
adds to it and moves v by a few projected gradient steps of length 1 / (2 trace E), which is below the reciprocal of the
greatest curvature, so a step never makes v' E v greater. No scale enters: targets may be in any unit. A label with
errors far beyond those remembered counts as far as models.running_scale lets it, all its products alike.
"""

from typing import NamedTuple

import numpy as np

from riparian.models.contract import PREDICT, Floats
from riparian.models.kernels.kernel import kernel
from riparian.models.running_scale import held
from riparian.models.shrubs.shrubs import teachable
from riparian.models.shrubs.simplex import in_order, project

FADING = 0.995  # share of E that a label leaves
REACH = 200.0  # labels: about so many count
STEPS = 5  # a label


class Blend(NamedTuple):
    """What the blend knows.

    weights : (predictors,).
    errors : (predictors, predictors), E.
    """

    weights: Floats
    errors: Floats


def even(n: int) -> Blend:
    return Blend(np.full(n, 1.0 / n), np.zeros((n, n)))


@kernel(inline=True)
def _trace(matrix):
    total = 0.0
    for k in range(len(matrix)):
        total += matrix[k, k]
    return total


@kernel(inline=True)
def _settle(weights, errors, gradient, order):
    """Move the weights towards the least error. Mutates weights, scratch. O(predictors^2)."""
    n = len(weights)
    trace = _trace(errors)
    if not trace > 0.0:
        return
    for _ in range(STEPS):
        for k in range(n):
            total = 0.0
            for l in range(n):
                total += errors[k, l] * weights[l]
            gradient[k] = total / trace
        for k in range(n):
            weights[k] -= gradient[k]
        project(weights, n, n, order)


@kernel
def blend_votes(op, row, y, w, votes, out, weights, errors, classes, gradient, order, products):
    """Blend what predictors gave, operation by operation.

    votes : (predictors, n, n_outputs), predictions for a PREDICT and before a LEARN; NaN of all of them before the
    first label, which then shows nothing about them. weights, errors : of the blend. classes : whether labels are.
    Mutates out, the blend, and the scratch gradient, order : (predictors,), products : (predictors, predictors)."""
    n_predictors, _, n_outputs = votes.shape
    in_order(order, n_predictors)
    for step in range(len(op)):
        if op[step] == PREDICT:
            r = row[step]
            out[r, :] = 0.0
            for k in range(n_predictors):
                for c in range(n_outputs):
                    out[r, c] += weights[k] * votes[k, step, c]
            continue
        if not teachable(y[step], w[step], classes, n_outputs) or votes[0, step, 0] != votes[0, step, 0]:
            continue
        for k in range(n_predictors):
            for l in range(k + 1):
                product = 0.0
                for c in range(n_outputs):
                    truth = y[step] if not classes else 1.0 if c == np.int64(y[step]) else 0.0
                    product += (votes[k, step, c] - truth) * (votes[l, step, c] - truth)
                products[k, l] = products[l, k] = w[step] * product
        whole = _trace(products)
        share = 1.0 if classes or not whole > 0.0 else held(whole, _trace(errors) / REACH, REACH) / whole
        for k in range(n_predictors):
            for l in range(n_predictors):
                errors[k, l] = FADING * errors[k, l] + share * products[k, l]
        _settle(weights, errors, gradient, order)
