"""The output of a soft tree, and the gradient of a loss by the input: dL/dx of Köbschall et al., Algorithm 1.

What stands before the tree, a network that makes its features, learns by it. With g = dL/dT, the gradient by the tree's
output, and v = <g, output of a node's subtree>, a gate that is reached with probability P adds

    P alpha S'(t) (v_first - v_second) w

to the gradient by the normalised row z, as models.soft.passes.backward has it by the weights. Back to the row itself
each numeric feature is divided by three of its running deviations; where z is clipped, and where a value is missing,
the output does not depend on it, and the gradient is 0. So it is for nominal features, which have no neighbourhood. The
split test of a gate is a step: it adds nothing but at its threshold, where there is no gradient.
"""

import numpy as np

from riparian.models.kernels.kernel import kernel
from riparian.models.soft.forest import GATE, SCALE_INVERSE, WEIGHT
from riparian.models.soft.passes.forward import CLIP, HUGE, forward, normalise, read_row


@kernel
def pull_back(x, gradients, forest, encoding, layout, settings, scratch, outputs, inputs):
    """Fill in outputs (n, k) with what the one model of `forest` predicts of the rows of x (n, d), and inputs (n, d),
    all 0 before, with the gradient of <gradients, outputs> by x. gradients : (n, k).

    Mutates outputs, inputs and scratch. O(nodes reached x p) a row.
    """
    links, tests, _, _, leaves, _, gates, _ = forest[:8]
    roots, scales = forest[9], forest[10][0]
    n_values, place = encoding.n_values, encoding.place
    row, numbers, active, cells, z, logits, _, _, visits, reached = scratch[:10]
    k = outputs.shape[1]
    for r in range(len(x)):
        n_active = read_row(
            n_values, place, encoding.numeric, layout.offset, np.uint64(k), x, r, row, numbers, active, cells
        )  # fmt: skip
        normalise(encoding.numeric, encoding.bias[0], scales, numbers, z[0])
        forward(
            links, tests, leaves, gates, roots, settings, n_values, row, active, n_active, z, visits, reached, logits,
            0, 1,
        )  # fmt: skip
        for c in range(k):
            outputs[r, c] = logits[0, c]
        top = len(visits.node) - 1
        for at in range(top, top - reached[1], -1):
            along = 0.0
            for c in range(k):
                along += gradients[r, c] * leaves[visits.node[at], WEIGHT, c]
            visits.along[at] = along
        # Children before parents. Place 0, of a child that was not reached, has 0 in `along`.
        for i in range(reached[0], 0, -1):
            left = visits.along[visits.left[i]]
            right = visits.along[visits.right[i]]
            visits.along[i] = visits.passes[i] * left + (1.0 - visits.passes[i]) * right
            factor = visits.probability[i] * visits.slope[i] * (left - right)
            if factor != 0.0:
                weights = gates[links[visits.node[i], GATE], WEIGHT]
                for f in range(len(n_values)):
                    if n_values[f] == 0:
                        inputs[r, f] += factor * weights[place[f]]
        for f in range(len(n_values)):
            if n_values[f] == 0:
                moves = abs(x[r, f]) < HUGE and abs(z[0, place[f]]) < CLIP
                inputs[r, f] = inputs[r, f] * scales[f, SCALE_INVERSE] if moves else 0.0
