"""Diverse density: how likely a point is what all positive bags have and no negative bag has.

An instance x is like the target t with probability exp(-|| s * (x - t) ||^2), and a bag is positive where one of its
instances is, with a noisy or (Maron and Lozano-Pérez: A framework for multiple-instance learning. NIPS 1998):

    Pr(+ | bag) = 1 - prod_j (1 - exp(-d_j)),     Pr(- | bag) = prod_j (1 - exp(-d_j)).

Everything is in logarithms that neither underflow nor cancel: with a hundred features all exp(-d_j) are 0 in double
precision, and so would be the gradient.
"""

import numpy as np

from riparian.models.kernels.elementary import exp, expm1, log, log1p
from riparian.models.kernels.kernel import kernel

NEAREST = 1e-9  # a distance of 0 gives a negative bag likelihood 0, whose logarithm is none
FAR = 30.0  # beyond this distance 1 - exp(-d) is 1, and a bag's probability the sum of its instances'


@kernel(inline=True)
def difference(value, target, n_values):
    """Of two values of a feature: numeric ones subtract, nominal ones are 1 apart. Missing ones are replaced before."""
    if n_values > 0:
        return 0.0 if value == target else 1.0
    return value - target


@kernel
def distance(x, i, target, scale, n_values):
    """|| scale * (x[i] - target) ||^2. O(d)."""
    total = 0.0
    for f in range(len(target)):
        step = scale[f] * difference(x[i, f], target[f], n_values[f])
        total += step * step
    return total


@kernel
def bag_loss(distances, positive, cap):
    """Minus the logarithm of a bag's likelihood, at most `cap` of a positive bag; what `distances` hold becomes its
    derivative with respect to each (0 at the cap). O(instances)."""
    nearest = np.inf
    for j in range(len(distances)):
        distances[j] = max(distances[j], NEAREST)
        nearest = min(nearest, distances[j])
    if positive and nearest > FAR:
        total = 0.0
        for j in range(len(distances)):
            total += exp(nearest - distances[j])
        loss = nearest - log(total)
        for j in range(len(distances)):
            distances[j] = exp(nearest - distances[j]) / total if loss < cap else 0.0
        return min(loss, cap)
    none = 0.0  # the logarithm of the probability that no instance is like the target
    for j in range(len(distances)):
        none += log(-expm1(-distances[j])) if distances[j] < 0.7 else log1p(-exp(-distances[j]))
    if not positive:
        for j in range(len(distances)):
            distances[j] = -1.0 / expm1(distances[j])
        return -none
    loss = -log(-expm1(none))
    outer = 1.0 / expm1(-none)
    for j in range(len(distances)):
        distances[j] = outer / expm1(distances[j]) if loss < cap else 0.0
    return min(loss, cap)


@kernel
def loss_of(training, target, scale, n_values, cap, bound, distances):
    """Minus the logarithm of the likelihood of all bags, or something above `bound` once it is. O(n d)."""
    total, start = 0.0, 0
    for b in range(len(training.size)):
        n = training.size[b]
        for j in range(n):
            distances[j] = distance(training.x, start + j, target, scale, n_values)
        total += training.w[b] * bag_loss(distances[:n], training.positive[b], cap)
        if total > bound:
            return total
        start += n
    return total


@kernel
def gradient_of(training, target, scale, n_values, cap, distances, gradient):
    """Compute the loss (`loss_of`), and its derivative with respect to `scale` into `gradient` (mutated). O(n d)."""
    total, start = 0.0, 0
    gradient[:] = 0.0
    for b in range(len(training.size)):
        n = training.size[b]
        for j in range(n):
            distances[j] = distance(training.x, start + j, target, scale, n_values)
        total += training.w[b] * bag_loss(distances[:n], training.positive[b], cap)
        for j in range(n):
            factor = 2.0 * training.w[b] * distances[j]
            if factor != 0.0:
                for f in range(len(scale)):
                    step = difference(training.x[start + j, f], target[f], n_values[f])
                    gradient[f] += factor * step * step * scale[f]
        start += n
    return total
