"""Losses as pairs of kernels, gradient and Hessian with respect to the raw score f of the trees.

A new loss is one kernel `f(y, score, parameter) -> (gradient, Hessian)`, a line in `derivatives`, and a name in LOSSES.
What the trees need: a Hessian that is not negative. They hold it away from 0 themselves (models.gradient.tree), so a
loss that is linear somewhere may give 0.

Targets and scores of all losses but Poisson's are in units of the target's standard deviation
(models.gradient.stochastic_gradient_tree), so a threshold of 1 means one deviation on every stream.
"""

import math

from riparian.models.kernels.elementary import exp
from riparian.models.kernels.kernel import kernel

SQUARED, HUBER, QUANTILE, POISSON = range(4)
LOSSES = {"squared": SQUARED, "huber": HUBER, "quantile": QUANTILE, "poisson": POISSON}

SMOOTH = 0.1  # half the width of the bend of the quantile loss, in deviations of the target
MOST_LOG = 300.0  # largest logarithm of a Poisson rate


@kernel(inline=True)
def squared(y, score, parameter):
    """(score - y)^2 / 2: equations 23 to 25."""
    return score - y, 1.0


@kernel(inline=True)
def huber(y, score, parameter):
    """Pseudo-Huber, d^2 (sqrt(1 + (r / d)^2) - 1): squared near 0, d times the absolute error far from it."""
    r = (score - y) / parameter
    root = math.sqrt(1.0 + r * r)
    return parameter * (r / root), 1.0 / (root * root * root)


@kernel(inline=True)
def quantile(y, score, parameter):
    """The pinball loss for the quantile `parameter`, its kink smoothed: q r + s log(1 + exp(-r / s)), r = y - score.

    The kink has no second derivative to divide by; the smooth one (Zheng 2011) has 1 / 4s at 0 and none far away.
    """
    below = 1.0 / (1.0 + exp(min((y - score) / SMOOTH, 700.0)))  # near 1 where y lies far below the score
    return below - parameter, below * (1.0 - below) / SMOOTH


@kernel(inline=True)
def poisson(y, score, parameter):
    """exp(score) - y score, the negative log likelihood of a count y >= 0 at the rate exp(score)."""
    rate = exp(min(score, MOST_LOG))
    return rate - y, rate


@kernel(inline=True)
def derivatives(loss, parameter, y, score):
    """Gradient and Hessian of a regression loss at `score`. parameter : threshold or quantile, where there is one."""
    if loss == SQUARED:
        return squared(y, score, parameter)
    if loss == HUBER:
        return huber(y, score, parameter)
    if loss == QUANTILE:
        return quantile(y, score, parameter)
    return poisson(y, score, parameter)


@kernel(inline=True)
def softmax(scores, known, p):
    """Class probabilities into `p`, equation 19, over the classes that `known` has a positive weight of; 0 for others.

    scores : (n_classes,), that of class 0 is the reference 0 (the paper's hard-wired f_k).
    """
    top = -math.inf
    for c in range(len(known)):
        if known[c] > 0.0 and scores[c] > top:
            top = scores[c]
    total = 0.0
    for c in range(len(known)):
        p[c] = 0.0
        if known[c] > 0.0:
            p[c] = 1.0 if scores[c] == top else exp(scores[c] - top)
            total += p[c]
    if total > 0.0:
        for c in range(len(known)):
            p[c] /= total
