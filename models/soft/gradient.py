"""The backward pass: gradients of the loss by every weight that was reached, and a step of Adam for each.

Köbschall et al., Algorithm 1, and Hazimeh et al. 2020, section 4. With g the gradient of the loss by the output, let
v = <g, output of a node's subtree>. Then a leaf's vector has the gradient P g, P being the probability to reach it, and
a gate's weights have

    P alpha S'(t) (v_first - v_second) z,

with the factor alpha of the mixed gate, which the paper's code omits. v comes from the children that were reached *by
this instance*; where a child was not, S' is 0, so nothing of an earlier instance enters. Both passes are one traversal
of the nodes that were reached, children first.

Adam (Kingma and Ba 2015) is lazy: what has the gradient 0 keeps its moments, and every node counts its own steps.
"""

import math

import numpy as np

from models.kernel import kernel
from models.soft.forest import (
    FIRST,
    FIRST_MOMENT,
    GATE,
    S_BETA1,
    S_BETA2,
    S_RATE,
    SECOND_MOMENT,
    WEIGHT,
)
from models.soft.gates import ALONG, LEFT, NODE, PASSES, PROBABILITY, RIGHT, SLOPE

EPSILON = 1e-8
LEAST_POWER = 1e-9  # below it, 1 - beta^t is 1 to 9 digits: no more corrections, and no denormals


@kernel(inline=True)
def step_size(powers, settings):
    """The rate of the next step of a node, corrected for its bias. Mutates powers, (2,)."""
    first = powers[0]
    second = powers[1]
    if first == 0.0 and second == 0.0:
        return settings[S_RATE]
    first *= settings[S_BETA1]
    second *= settings[S_BETA2]
    powers[0] = first if first >= LEAST_POWER else 0.0
    powers[1] = second if second >= LEAST_POWER else 0.0
    return settings[S_RATE] * math.sqrt(1.0 - second) / (1.0 - first)


@kernel(inline=True)
def descend(weights, first, second, j, gradient, beta1, beta2, rate):
    """One step of Adam for weights[j]. Mutates the three arrays."""
    m = beta1 * first[j] + (1.0 - beta1) * gradient
    v = beta2 * second[j] + (1.0 - beta2) * gradient * gradient
    first[j] = m
    second[j] = v
    weights[j] -= rate * m / (math.sqrt(v) + EPSILON)


@kernel(inline=True)
def backward(links, powers, leaves, gates, settings, z, active, visits, figures, start, n_reached, gradient):
    """Gradients and steps of all nodes reached in `forward`. gradient : (k,), of the loss by the output.

    Mutates powers, leaves, gates and figures (ALONG). O(nodes reached x p).
    """
    k = len(gradient)
    beta1 = settings[S_BETA1]
    beta2 = settings[S_BETA2]
    for back in range(n_reached):
        i = np.uint64(start + n_reached - 1 - back)  # unsigned, as in `forward`
        node = np.uint64(visits[i, NODE])
        reach = figures[i, PROBABILITY]
        if links[node, FIRST] < 0:
            along = 0.0
            rate = step_size(powers[node], settings)
            leaf = leaves[node]
            for c in range(k):
                along += gradient[c] * leaf[WEIGHT, c]
                descend(
                    leaf[WEIGHT], leaf[FIRST_MOMENT], leaf[SECOND_MOMENT], c, reach * gradient[c], beta1, beta2, rate
                )
            figures[i, ALONG] = along
            continue
        left = figures[np.uint64(visits[i, LEFT]), ALONG] if visits[i, LEFT] >= 0 else 0.0
        right = figures[np.uint64(visits[i, RIGHT]), ALONG] if visits[i, RIGHT] >= 0 else 0.0
        passes = figures[i, PASSES]
        figures[i, ALONG] = passes * left + (1.0 - passes) * right
        factor = reach * figures[i, SLOPE] * (left - right)
        if factor == 0.0:
            continue
        rate = step_size(powers[node], settings)
        gate = gates[np.uint64(links[node, GATE])]
        weights = gate[WEIGHT]
        first = gate[FIRST_MOMENT]
        second = gate[SECOND_MOMENT]
        for j in range(len(z)):
            descend(weights, first, second, j, factor * z[j], beta1, beta2, rate)
        for a in range(len(active)):
            if active[a] >= 0:
                descend(weights, first, second, active[a], factor, beta1, beta2, rate)
