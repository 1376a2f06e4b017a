"""The backward pass: gradients of the loss by every weight that was reached, and a step of Adam for each.

Köbschall et al., Algorithm 1, and Hazimeh et al. 2020, section 4. With g the gradient of the loss by the output, let
v = <g, output of a node's subtree>. Then a leaf's vector has the gradient P g, P being the probability to reach it, and
a gate's weights have

    P alpha S'(t) (v_first - v_second) z,

with the factor alpha of the mixed gate, which the paper's code omits. v comes from the children that were reached *by
this instance*; where a child was not, S' is 0, so nothing of an earlier instance enters. Both passes are one traversal
of the nodes that were reached, leaves first, then the others from the last to the first.

Adam (Kingma and Ba 2015) is lazy: what has the gradient 0 keeps its moments, and every node counts its own steps. They
are shorter where a class is rare, by `rate_of`: a gradient that is hundreds of times the usual one moves every weight
by up to (1 - beta1) / sqrt(1 - beta2), 16, rates at once, and gates beyond where their slope is 0, from where they do
not return.
"""

import math

import numpy as np

from riparian.models.evenness import evenness
from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.simd import each, load, of_four, square_root, store
from riparian.models.soft.forest import (
    FIRST_MOMENT,
    GATE,
    S_BETA1,
    S_BETA2,
    S_RATE,
    S_REGRESSION,
    SECOND_MOMENT,
    WEIGHT,
)

EPSILON = 1e-8
LEAST_POWER = 1e-9  # below it, 1 - beta^t is 1 to 9 digits: no more corrections, and no denormals
EVEN = 1.5  # times the evenness of the classes are steps as long, at most: from 2 / 3 on they are whole
RARE = 0.2  # least share of the step, however rare a class is


@kernel(inline=True)
def rate_of(settings, known):
    """The rate of a model for the current label: shorter where a class is rare. known : (k,), weight of the classes."""
    if settings[S_REGRESSION] > 0.0:
        return settings[S_RATE]
    return settings[S_RATE] * max(RARE, min(1.0, EVEN * evenness(known)))


@kernel(inline=True)
def step_size(powers, node, settings, rate):
    """The rate of the next step of a node, corrected for its bias. Mutates powers[node]."""
    first = powers[node, 0]
    second = powers[node, 1]
    if first == 0.0 and second == 0.0:
        return rate
    first *= settings[S_BETA1]
    second *= settings[S_BETA2]
    powers[node, 0] = first if first >= LEAST_POWER else 0.0
    powers[node, 1] = second if second >= LEAST_POWER else 0.0
    return rate * math.sqrt(1.0 - second) / (1.0 - first)


@kernel(inline=True)
def descend(rows, i, j, gradient, beta1, beta2, rate):
    """One step of Adam for the weight rows[i, WEIGHT, j]. Mutates rows[i, :, j]."""
    m = beta1 * rows[i, FIRST_MOMENT, j] + (1.0 - beta1) * gradient
    v = beta2 * rows[i, SECOND_MOMENT, j] + (1.0 - beta2) * gradient * gradient
    rows[i, FIRST_MOMENT, j] = m
    rows[i, SECOND_MOMENT, j] = v
    rows[i, WEIGHT, j] -= rate * m / (math.sqrt(v) + EPSILON)


@kernel(inline=True)
def descend_along(rows, i, factor, direction, beta1, beta2, rate):
    """Step along the gradient with the first weights of row i, with the gradient factor * direction. Mutates
    rows[i]."""
    weights = rows[i, WEIGHT]
    first = rows[i, FIRST_MOMENT]
    second = rows[i, SECOND_MOMENT]
    n = np.uint64(len(direction))
    for four in range(n // np.uint64(4)):
        j = four * np.uint64(4)
        gradient = factor * load(direction, j)
        m = beta1 * load(first, j) + (1.0 - beta1) * gradient
        v = beta2 * load(second, j) + (1.0 - beta2) * gradient * gradient
        store(first, j, m)
        store(second, j, v)
        store(weights, j, load(weights, j) - rate * m / (square_root(v) + EPSILON))
    for j in range(n - n % np.uint64(4), n):
        descend(rows, i, j, factor * direction[j], beta1, beta2, rate)


@kernel(inline=True)
def four_of(row, a, b, c, d):
    return of_four(row[a], row[b], row[c], row[d])


@kernel(inline=True)
def set_four(row, a, b, c, d, values):
    row[a], row[b], row[c], row[d] = each(values)


@kernel(inline=True)
def descend_at(rows, i, gradient, places, n, beta1, beta2, rate):
    """Step along the gradient with the weights at the first n of some places, all with one gradient. Mutates
    rows[i]."""
    weights = rows[i, WEIGHT]
    first = rows[i, FIRST_MOMENT]
    second = rows[i, SECOND_MOMENT]
    for four in range(np.uint64(n // 4)):
        j = four * np.uint64(4)
        a = np.uint64(places[j])
        b = np.uint64(places[j + np.uint64(1)])
        c = np.uint64(places[j + np.uint64(2)])
        d = np.uint64(places[j + np.uint64(3)])
        m = beta1 * four_of(first, a, b, c, d) + (1.0 - beta1) * gradient
        v = beta2 * four_of(second, a, b, c, d) + (1.0 - beta2) * gradient * gradient
        set_four(first, a, b, c, d, m)
        set_four(second, a, b, c, d, v)
        set_four(weights, a, b, c, d, four_of(weights, a, b, c, d) - rate * m / (square_root(v) + EPSILON))
    for j in range(np.uint64(n - n % 4), np.uint64(n)):
        descend(rows, i, np.uint64(places[j]), gradient, beta1, beta2, rate)


@kernel(inline=True)
def backward(
    links, powers, leaves, gates, settings, chosen, active, n_active, z, visits, reached, gradient,
    rates, learned, stepped,
):  # fmt: skip
    """Gradients and steps of all nodes reached in `forward` of the models that are chosen.

    gradient : (M, k), of the loss by the outputs. rates : (M,), of `rate_of`. Returns how many leaves learned: the
    first so many places in `learned`. Mutates powers, leaves, gates, visits, learned and stepped.
    O(nodes reached x p).
    """
    one = np.uint64(1)  # unsigned, as in `forward`
    k = np.uint64(gradient.shape[1])
    top = np.uint64(len(visits.node)) - one
    n_learned = np.uint64(0)
    for back in range(np.uint64(reached[1])):
        at = top - back
        learned[n_learned] = at
        n_learned += np.uint64(chosen[np.uint64(visits.model[at])])
    for a in range(n_learned):
        at = np.uint64(learned[a])
        node = np.uint64(visits.node[at])
        model = np.uint64(visits.model[at])
        along = 0.0
        for c in range(k):
            along += gradient[model, c] * leaves[node, WEIGHT, c]
        visits.along[at] = along
        rate = step_size(powers, node, settings[model], rates[model])
        descend_along(
            leaves, node, visits.probability[at], gradient[model],
            settings[model, S_BETA1], settings[model, S_BETA2], rate,
        )  # fmt: skip
    # From the last to the first, children before parents. Place 0, of a child that was not reached, has 0 ALONG.
    n_stepped = np.uint64(0)
    n_inner = np.uint64(reached[0])
    for back in range(n_inner):
        i = n_inner - back
        model = np.uint64(visits.model[i])
        left = visits.along[np.uint64(visits.left[i])]
        right = visits.along[np.uint64(visits.right[i])]
        passes = visits.passes[i]
        visits.along[i] = passes * left + (1.0 - passes) * right
        factor = visits.probability[i] * visits.slope[i] * (left - right)
        visits.slope[i] = factor
        stepped[n_stepped] = i
        n_stepped += np.uint64(factor != 0.0) * np.uint64(chosen[model])
    for a in range(n_stepped):
        i = np.uint64(stepped[a])
        node = np.uint64(visits.node[i])
        model = np.uint64(visits.model[i])
        rate = step_size(powers, node, settings[model], rates[model])
        g = np.uint64(links[node, GATE])
        factor = visits.slope[i]
        beta1 = settings[model, S_BETA1]
        beta2 = settings[model, S_BETA2]
        descend_along(gates, g, factor, z[model], beta1, beta2, rate)
        descend_at(gates, g, factor, active, n_active, beta1, beta2, rate)
    return n_learned
