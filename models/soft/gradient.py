"""The backward pass: gradients of the loss by every weight that was reached, and a step of Adam for each.

Köbschall et al., Algorithm 1, and Hazimeh et al. 2020, section 4. With g the gradient of the loss by the output, let
v = <g, output of a node's subtree>. Then a leaf's vector has the gradient P g, P being the probability to reach it, and
a gate's weights have

    P alpha S'(t) (v_first - v_second) z,

with the factor alpha of the mixed gate, which the paper's code omits. v comes from the children that were reached *by
this instance*; where a child was not, S' is 0, so nothing of an earlier instance enters. Both passes are one traversal
of the nodes that were reached, leaves first, then the others from the last to the first.

Adam (Kingma and Ba 2015) is lazy: what has the gradient 0 keeps its moments, and every node counts its own steps.
"""

import math

import numpy as np

from models.kernel import kernel
from models.soft.forest import (
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
def step_size(powers, node, settings):
    """The rate of the next step of a node, corrected for its bias. Mutates powers[node]."""
    first = powers[node, 0]
    second = powers[node, 1]
    if first == 0.0 and second == 0.0:
        return settings[S_RATE]
    first *= settings[S_BETA1]
    second *= settings[S_BETA2]
    powers[node, 0] = first if first >= LEAST_POWER else 0.0
    powers[node, 1] = second if second >= LEAST_POWER else 0.0
    return settings[S_RATE] * math.sqrt(1.0 - second) / (1.0 - first)


@kernel(inline=True)
def descend(rows, i, j, gradient, beta1, beta2, rate):
    """One step of Adam for the weight rows[i, WEIGHT, j]. Mutates rows[i, :, j]."""
    m = beta1 * rows[i, FIRST_MOMENT, j] + (1.0 - beta1) * gradient
    v = beta2 * rows[i, SECOND_MOMENT, j] + (1.0 - beta2) * gradient * gradient
    rows[i, FIRST_MOMENT, j] = m
    rows[i, SECOND_MOMENT, j] = v
    rows[i, WEIGHT, j] -= rate * m / (math.sqrt(v) + EPSILON)


@kernel(inline=True)
def backward(
    links, powers, leaves, gates, settings, z, active, visits, figures, start, span, n_inner, n_leaves, gradient
):
    """Gradients and steps of all nodes reached in `forward`. gradient : (k,), of the loss by the output.

    Mutates powers, leaves, gates and figures (ALONG). O(nodes reached x p).
    """
    k = np.uint64(len(gradient))
    beta1 = settings[S_BETA1]
    beta2 = settings[S_BETA2]
    for back in range(n_leaves):
        i = np.uint64(start + span - 1 - back)  # unsigned, as in `forward`
        node = np.uint64(visits[i, NODE])
        reach = figures[i, PROBABILITY]
        along = 0.0
        rate = step_size(powers, node, settings)
        for c in range(k):
            along += gradient[c] * leaves[node, WEIGHT, c]
            descend(leaves, node, c, reach * gradient[c], beta1, beta2, rate)
        figures[i, ALONG] = along
    for back in range(n_inner):
        i = np.uint64(start + n_inner - 1 - back)
        node = np.uint64(visits[i, NODE])
        left = figures[np.uint64(visits[i, LEFT]), ALONG] if visits[i, LEFT] >= 0 else 0.0
        right = figures[np.uint64(visits[i, RIGHT]), ALONG] if visits[i, RIGHT] >= 0 else 0.0
        passes = figures[i, PASSES]
        figures[i, ALONG] = passes * left + (1.0 - passes) * right
        factor = figures[i, PROBABILITY] * figures[i, SLOPE] * (left - right)
        if factor == 0.0:
            continue
        rate = step_size(powers, node, settings)
        g = np.uint64(links[node, GATE])
        for j in range(np.uint64(len(z))):
            descend(gates, g, j, factor * z[j], beta1, beta2, rate)
        for a in range(len(active)):
            if active[a] >= 0:
                descend(gates, g, np.uint64(active[a]), factor, beta1, beta2, rate)
