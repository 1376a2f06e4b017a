"""The one kernel of soft trees: a program over rows, for a single model or for a pool of them.

In a pool PREDICT asks the model whose faded loss is least, and LEARN goes through all: each predicts the row for its
loss, then some learn it (models.soft.choice). Without one there is one model, and both are what they say.
"""

import math

import numpy as np

from models.contract import PREDICT
from models.kernel import kernel
from models.observers import observe
from models.soft.choice import BEST, LEARNING, account, choose, loss_of
from models.soft.forest import (
    BLOCK,
    EVALUATED,
    N_BLOCKS,
    N_GATES,
    N_NODES,
    REACH,
    S_GRACE,
    S_MIN_REACH,
    S_REGRESSION,
    SEEN,
)
from models.soft.gates import NODE, PROBABILITY, encode_row, forward, rescale, softmax
from models.soft.gradient import backward
from models.soft.growth import try_split

DONE, GROW = 0, 1
HIGHEST_TARGET = 1e100
HEAVIEST = 1e100  # of a loss: the square of its gradient is finite

# Columns of Forest.targets.
T_N, T_MEAN, T_VARIANCE = range(3)


@kernel(inline=True)
def teachable(y, w, n_classes, regression):
    """Whether a label and its weight teach anything."""
    if not (w > 0.0 and w < np.inf):
        return False
    return abs(y) < HIGHEST_TARGET if regression else (y >= 0.0 and y < n_classes)


@kernel(inline=True)
def output(logits, known, targets, regression, probabilities):
    """Class probabilities, or the value, from what the leaves sum up to. Mutates probabilities."""
    if regression:
        probabilities[0] = targets[T_MEAN] + math.sqrt(targets[T_VARIANCE]) * logits[0] if targets[T_N] > 0.0 else 0.0
    else:
        softmax(logits, known, probabilities)


@kernel(inline=True)
def learn_target(targets, known, y, w, regression):
    """Learn a class, or a target into their mean and variance. Mutates targets or known."""
    if not regression:
        known[int(y)] += w
        return
    total = targets[T_N] + w
    step = w / total
    delta = y - targets[T_MEAN]
    targets[T_VARIANCE] = (1.0 - step) * (targets[T_VARIANCE] + step * delta * delta)
    targets[T_MEAN] += step * delta
    targets[T_N] = total


@kernel(inline=True)
def loss_gradient(logits, known, targets, y, w, regression, gradient):
    """The gradient of the weighted loss by the output: cross-entropy of one softmax, or half the squared error.

    Mutates gradient.
    """
    w = min(w, HEAVIEST)
    if regression:
        deviation = math.sqrt(targets[T_VARIANCE])
        gradient[0] = w * (logits[0] - (y - targets[T_MEAN]) / deviation) if deviation > 0.0 else 0.0
        return
    softmax(logits, known, gradient)
    gradient[int(y)] -= 1.0
    for c in range(len(gradient)):
        gradient[c] *= w


@kernel
def run(op, row, y, w, slab, out, progress, forest, encoding, layout, settings, room, pool, known_values, scratch):
    """Execute a program from progress[0] on. Mutates out, progress, forest, pool and scratch.

    GROW: the next operation may need more capacity than there is; nothing of it has happened. room : (3,) int64, the
    nodes, gates and blocks that one label may add. O(nodes reached x p) an operation and model.
    """
    # Callees get the arrays they need, not the tuples: an argument list of 100 words costs 100 ns a call.
    links, tests, weights, powers, leaves, classes, gates, blocks = forest[:8]
    roots, scales, known, values, targets, counts = forest[9:]
    n_values, place = encoding.n_values, encoding.place
    dense, bias = encoding.dense[0], encoding.bias[0]
    z, active, logits, visits, figures, reached = scratch[:6]
    gradient, probabilities, post, found, cached = scratch[6:]
    n_models, k = logits.shape
    span = len(visits) // n_models
    regression = settings[0, S_REGRESSION] > 0.0
    pooled = pool.places[LEARNING] > 0
    # The model and row predicted last, while nothing was learned since.
    last_model = -1
    last_row = -1
    for i in range(progress[0], len(op)):
        r = row[i]
        if op[i] == PREDICT:
            m = pool.state[BEST]
            encode_row(n_values, place, bias, scales[m], slab, r, z[m], active[m])
            reached[m, 0], reached[m, 1] = forward(
                links, tests, leaves, gates, roots[m], settings[m], n_values, slab, r,
                z[m], active[m], visits, figures, m * span, span, logits[m],
            )  # fmt: skip
            last_model = m
            last_row = r
            output(logits[m], known[m], targets[m], regression, probabilities)
            for c in range(k):
                out[r, c] = probabilities[c]
            continue
        if not teachable(y[i], w[i], k, regression):
            continue
        if (
            counts[N_NODES] + room[0] > len(links)
            or counts[N_GATES] + room[1] > len(gates)
            or counts[N_BLOCKS] + room[2] > len(blocks)
        ):
            progress[0] = i
            return GROW
        for m in range(n_models):
            if m != last_model or r != last_row:
                encode_row(n_values, place, bias, scales[m], slab, r, z[m], active[m])
                reached[m, 0], reached[m, 1] = forward(
                    links, tests, leaves, gates, roots[m], settings[m], n_values, slab, r,
                    z[m], active[m], visits, figures, m * span, span, logits[m],
                )  # fmt: skip
            if pooled:
                output(logits[m], known[m], targets[m], regression, probabilities)
                pool.losses[m] = loss_of(probabilities, y[i], regression)
        last_model = -1
        if pooled:
            choose(pool)
        for m in range(n_models):
            if pool.chosen[m] == 0:
                continue
            start = m * span
            learn_target(targets[m], known[m], y[i], w[i], regression)
            loss_gradient(logits[m], known[m], targets[m], y[i], w[i], regression, gradient)
            backward(
                links, powers, leaves, gates, settings[m], z[m], active[m], visits, figures,
                start, span, reached[m, 0], reached[m, 1], gradient,
            )  # fmt: skip
            for back in range(reached[m, 1]):
                v = start + span - 1 - back
                node = visits[v, NODE]
                reach = figures[v, PROBABILITY]
                weights[node, REACH] += w[i] * reach
                block = links[node, BLOCK]
                if block < 0 or not reach > settings[m, S_MIN_REACH]:
                    continue
                c = int(y[i])
                classes[node, c] += w[i]
                weights[node, SEEN] += w[i]
                observe(
                    blocks[block], cached, False, known_values, layout, k, slab, r, c, w[i], classes[node, c]
                )  # fmt: skip
                if weights[node, SEEN] - weights[node, EVALUATED] >= settings[m, S_GRACE]:
                    try_split(node, forest, encoding, scales[m], layout, settings[m], post, found)
            rescale(n_values, place, scales[m], values[m], dense, slab, r, z[m], w[i])
        if pooled:
            account(pool, w[i])
    return DONE
