"""What each feature adds to the prediction of soft trees: from an instance of which nothing is known, to this one.

With all values missing, each gate sends on a share b, by its bias and the share that passed its test; so each node has
an output v, b times that of its first child and 1 - b times that of the second. An instance that reaches a gate with
probability P, and passes by the share s, moves the output by P (s - b) (v of the first child - v of the second), and
all these moves, of all gates, add up to its own output less that of the roots: the expected way down, as a hard tree
has one.

s - b is shared out exactly, too: (1 - alpha) times the change of the split test is the tested feature's; alpha times
the change of S is shared out in proportion to the terms w z of the linear form, which is the integral of the gradient
along the straight way from no values to these. Outputs add up over trees, and probabilities are shared out as
models.score_contributions has it.
"""

import math

import numpy as np
from numpy.typing import NDArray

from models.contract import Floats
from models.kernel import kernel
from models.score_contributions import to_probability
from models.soft.forest import (
    FEATURE,
    FIRST,
    GATE,
    N_NODES,
    S_ALPHA,
    S_PER_GAMMA,
    SHARE,
    VALUE,
    WEIGHT,
    Encoding,
    Forest,
)
from models.soft.gates import normalised, smooth_step
from models.soft.program import T_MEAN, T_N, T_VARIANCE


@kernel(inline=True)
def rise(u, v):
    """(S(v) - S(u)) / (v - u), u and v as `smooth_step` takes them; in the limit its slope."""
    a = min(max(u, -0.5), 0.5)
    b = min(max(v, -0.5), 0.5)
    slope = 1.5 - 2.0 * (a * a + a * b + b * b)
    return slope * ((b - a) / (v - u)) if v != u else slope


@kernel
def without_values(links, tests, leaves, gates, bias, settings, outputs):
    """Write the output of each node, of an instance without values; children come after their parents.

    settings : of the model that is asked; nodes of others get what nobody reads. Mutates outputs : (n_nodes, k).
    O(n_nodes k).
    """
    for node in range(len(outputs) - 1, -1, -1):
        first = links[node, FIRST]
        share = 0.0
        if first >= 0:
            share = settings[S_ALPHA] * smooth_step(settings[S_PER_GAMMA] * gates[links[node, GATE], WEIGHT, bias])
            share += (1.0 - settings[S_ALPHA]) * tests[node, SHARE]
        for c in range(outputs.shape[1]):
            if first < 0:
                outputs[node, c] = leaves[node, WEIGHT, c]
            else:
                outputs[node, c] = share * outputs[first, c] + (1.0 - share) * outputs[first + 1, c]


@kernel
def add_outputs(links, tests, gates, encoding, settings, roots, scales, outputs, slab, r, terms, stack, reach, added):
    """Add to the outputs of one model what each feature does, and in the last row what the roots say without values.

    outputs : of `without_values`. terms : (d,), stack, reach : (depth + 2,), scratch. Mutates those and added :
    (d + 1, k). O(gates reached d k).
    """
    n_values, place = encoding.n_values, encoding.place
    bias = encoding.bias[0]
    alpha = settings[S_ALPHA]
    per_gamma = settings[S_PER_GAMMA]
    d = len(n_values)
    k = outputs.shape[1]
    for tree in range(len(roots)):
        for c in range(k):
            added[d, c] += outputs[roots[tree], c]
        stack[0] = roots[tree]
        reach[0] = 1.0
        n = 1
        while n > 0:
            n -= 1
            node = stack[n]
            probability = reach[n]
            first = links[node, FIRST]
            if first < 0:
                continue
            gate = links[node, GATE]
            form = gates[gate, WEIGHT, bias]
            for f in range(d):
                value = slab[r, f]
                terms[f] = 0.0
                if n_values[f] == 0:
                    terms[f] = gates[gate, WEIGHT, place[f]] * normalised(value, scales, f)
                elif value >= 0.0 and value < n_values[f]:
                    terms[f] = gates[gate, WEIGHT, place[f] + int(value)]
                form += terms[f]
            start = per_gamma * gates[gate, WEIGHT, bias]
            passes = alpha * smooth_step(per_gamma * form)
            slope = alpha * per_gamma * rise(start, per_gamma * form)
            for f in range(d):
                terms[f] *= slope
            if alpha < 1.0:
                tested = links[node, FEATURE]
                value = slab[r, tested]
                share = tests[node, SHARE]
                if n_values[tested] == 0 and value == value:
                    share = 1.0 if value <= tests[node, VALUE] else 0.0
                elif n_values[tested] > 0 and value >= 0.0 and value < n_values[tested]:
                    share = 1.0 if value == tests[node, VALUE] else 0.0
                passes += (1.0 - alpha) * share
                terms[tested] += (1.0 - alpha) * (share - tests[node, SHARE])
            for c in range(k):
                moved = probability * (outputs[first, c] - outputs[first + 1, c])
                for f in range(d):
                    added[f, c] += terms[f] * moved
            if passes > 0.0:
                stack[n] = first
                reach[n] = probability * passes
                n += 1
            if passes < 1.0:
                stack[n] = first + 1
                reach[n] = probability * (1.0 - passes)
                n += 1


@kernel
def contribute(
    slab, rows, about, links, tests, gates, encoding, settings, roots, scales, known, target, outputs, terms, stack,
    reach, added, before, after, out,
):  # fmt: skip
    """Write what each feature adds to the predictions, and in the last column what is said without values; NaN there
    where nothing was learned.

    A row that is asked about class after class is looked at once. Mutates scratch and out. O(n gates reached d k).
    """
    d = out.shape[1] - 1
    some = target[T_N] > 0.0
    for c in range(len(known)):
        some = some or known[c] > 0.0
    deviation = math.sqrt(target[T_VARIANCE])
    for i in range(len(rows)):
        if not some:
            out[i, d] = np.nan
            continue
        if i == 0 or rows[i] != rows[i - 1]:
            for f in range(d + 1):
                for c in range(len(known)):
                    added[f, c] = 0.0
            add_outputs(
                links, tests, gates, encoding, settings, roots, scales, outputs, slab, rows[i], terms, stack, reach,
                added,
            )  # fmt: skip
        if about[i] >= 0:
            to_probability(added, known, about[i], before, after, out[i])
        else:
            for f in range(d):
                out[i, f] = deviation * added[f, 0]
            out[i, d] = target[T_MEAN] + deviation * added[d, 0]


def contributions(
    forest: Forest,
    encoding: Encoding,
    settings: Floats,
    model: int,
    depth: int,
    slab: Floats,
    rows: NDArray[np.int32],
    about: NDArray[np.int64],
) -> Floats:
    """As Learner.contributions, of one of the models of a forest. settings : its own. depth : of its deepest leaf."""
    d, k = slab.shape[1], forest.leaves.shape[2]
    outputs, out = np.zeros((int(forest.counts[N_NODES]), k)), np.zeros((len(rows), d + 1))
    without_values(forest.links, forest.tests, forest.leaves, forest.gates, int(encoding.bias[0]), settings, outputs)
    contribute(
        slab, rows, about, forest.links, forest.tests, forest.gates, encoding, settings, forest.roots[model],
        forest.scales[model], forest.known[model], forest.targets[model], outputs, np.zeros(d),
        np.zeros(depth + 2, np.int32), np.zeros(depth + 2), np.zeros((d + 1, k)), np.zeros(k), np.zeros(k), out,
    )  # fmt: skip
    return out
