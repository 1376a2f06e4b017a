"""The one kernel of soft trees: a program over rows, for a single model or for a pool of them.

A target counts as far from the mean as models.running_scale lets it; one that is farther teaches the deviation, which
is the unit of all outputs, and no weights. Errors count as far as it lets them, too: Adam remembers their squares.

In a pool PREDICT asks the model whose faded loss is least, and LEARN goes through all: each predicts the row for its
loss, then some learn it (models.soft.choice). Without one there is one model, and both are that one.
"""

import math

import numpy as np

from riparian.models.contract import LARGEST_TARGET, LEARN, PREDICT
from riparian.models.gradient.losses import softmax
from riparian.models.kernels.kernel import DONE, GROW, kernel
from riparian.models.observers.gaussians import observe
from riparian.models.regression.leaf import ORIGIN
from riparian.models.regression.observers import observe as observe_value
from riparian.models.running_scale import held
from riparian.models.soft.choice import BEST, LEARNING, account, choose, loss_of
from riparian.models.soft.forest import (
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
from riparian.models.soft.growth import try_split, try_split_values
from riparian.models.soft.passes.backward import backward, rate_of
from riparian.models.soft.passes.forward import forward, normalise, read_row, rescale

HEAVIEST = 1e100  # largest loss: the square of its gradient is finite

# Columns of Forest.targets.
T_N, T_MEAN, T_VARIANCE = range(3)
# Columns of Forest.residuals, and what they fade by; about so many labels count.
E_SQUARES, E_N = range(2)
FADING, LABELS = 0.999, 1000.0


@kernel(inline=True)
def teachable(y, w, n_classes, regression):
    """Whether a label and its weight teach anything."""
    if not (w > 0.0 and w < np.inf):
        return False
    return abs(y) < LARGEST_TARGET if regression else (y >= 0.0 and y < n_classes)


@kernel(inline=True)
def output(logits, known, targets, regression, probabilities):
    """Class probabilities, or the value, from what the leaves sum up to. Mutates probabilities."""
    if regression:
        known_target = targets[T_N] > 0.0
        probabilities[0] = targets[T_MEAN] + math.sqrt(targets[T_VARIANCE]) * logits[0] if known_target else np.nan
    else:
        softmax(logits, known, probabilities)


@kernel(inline=True)
def learn_target(targets, known, y, w, regression):
    """Learn a class, or a target into their mean and variance; what it counts as. Mutates targets or known."""
    if not regression:
        known[int(y)] += w
        return y
    total = targets[T_N] + w
    step = w / total
    delta = y - targets[T_MEAN]
    square = held(delta * delta, targets[T_VARIANCE], targets[T_N])
    if square < delta * delta:
        delta = math.copysign(math.sqrt(square), delta)
        y = targets[T_MEAN] + delta
    targets[T_VARIANCE] = (1.0 - step) * (targets[T_VARIANCE] + step * square)
    targets[T_MEAN] += step * delta
    targets[T_N] = total
    return y


@kernel(inline=True)
def loss_gradient(logits, known, targets, residuals, y, counted, w, regression, probabilities, gradient):
    """The gradient of the weighted loss by the output: cross-entropy of one softmax, or half the squared error.

    counted : what the target counts as. probabilities : of the classes before this label was learned. Mutates
    residuals, probabilities and gradient.
    """
    w = min(w, HEAVIEST)
    if regression:
        deviation = math.sqrt(targets[T_VARIANCE])
        if y != counted or not deviation > 0.0:
            gradient[0] = 0.0
            return
        error = logits[0] - (y - targets[T_MEAN]) / deviation
        mean = residuals[E_SQUARES] / residuals[E_N] if residuals[E_N] > 0.0 else 0.0
        square = held(error * error, mean, LABELS)
        residuals[E_SQUARES] = FADING * residuals[E_SQUARES] + square
        residuals[E_N] = FADING * residuals[E_N] + 1.0
        gradient[0] = w * (error if square == error * error else math.copysign(math.sqrt(square), error))
        return
    if probabilities[int(y)] == 0.0:  # a new class
        softmax(logits, known, probabilities)
    for c in range(len(gradient)):
        gradient[c] = w * (probabilities[c] - (1.0 if c == int(y) else 0.0))


@kernel
def run(
    op, row_of, y, w, slab, out, progress, forest, encoding, layout, numeric_layout, value_layout, settings, room,
    pool, known_values, scratch,
):  # fmt: skip
    """Execute a program from progress[0] on. Mutates out, progress, forest, pool and scratch.

    GROW: the next operation may need more capacity than there is; nothing of it has happened. room : (3,) int64, the
    nodes, gates and blocks that one label may add. numeric_layout : of Scratch.numbers in a block. value_layout : of a
    row in a block of a regression.
    O(nodes reached x p) an operation and model.
    """
    # Callees get the arrays they need, not the tuples: an argument list of 100 words costs 100 ns a call.
    links, tests, weights, powers, leaves, classes, gates, blocks = forest[:8]
    roots, scales, known, values, targets, residuals, counts = forest[9:]
    n_values, place, numeric = encoding.n_values, encoding.place, encoding.numeric
    dense, bias = encoding.dense[0], encoding.bias[0]
    row, numbers, active, cells, z, logits, probabilities, gradient, visits, reached = scratch[:10]
    learned, stepped, post, found, cached, places, sides, rates, counted = scratch[10:]
    n_models, k = logits.shape
    regression = settings[0, S_REGRESSION] > 0.0
    pooled = pool.places[LEARNING] > 0
    n_active = 0
    # While nothing is learned: the row that is known of all models, and the model whose output to it is.
    ready = -1
    answered = -1
    for i in range(progress[0], len(op)):
        r = row_of[i]
        first = 0
        end = n_models
        if op[i] == PREDICT:
            if not (i + 1 < len(op) and op[i + 1] == LEARN and row_of[i + 1] == r):
                first = pool.state[BEST]
                end = first + 1
        elif not teachable(y[i], w[i], k, regression):
            continue
        elif (
            counts[N_NODES] + room[0] > len(links)
            or counts[N_GATES] + room[1] > len(gates)
            or counts[N_BLOCKS] + room[2] > len(blocks)
        ):
            progress[0] = i
            return GROW
        if r != ready:
            n_active = read_row(
                n_values, place, numeric, layout.offset, np.uint64(k), slab, r, row, numbers, active, cells
            )  # fmt: skip
            for m in range(first, end):
                normalise(numeric, bias, scales[m], numbers, z[m])
            forward(
                links, tests, leaves, gates, roots, settings, n_values, row, active, n_active, z, visits,
                reached, logits, first, end,
            )  # fmt: skip
            ready = r if end - first == n_models else -1
            answered = -1
        if op[i] == PREDICT:
            m = pool.state[BEST]
            if m != answered:
                output(logits[m], known[m], targets[m], regression, probabilities[m])
                answered = m
            for c in range(k):
                out[r, c] = probabilities[m, c]
            continue
        for m in range(n_models):
            if m != answered:
                output(logits[m], known[m], targets[m], regression, probabilities[m])
            if pooled:
                pool.losses[m] = loss_of(probabilities[m], y[i], regression)
        ready = -1
        answered = -1
        if pooled:
            choose(pool)
        for m in range(n_models):
            if pool.chosen[m]:
                counted[m] = learn_target(targets[m], known[m], y[i], w[i], regression)
                loss_gradient(
                    logits[m], known[m], targets[m], residuals[m], y[i], counted[m], w[i], regression, probabilities[m],
                    gradient[m],
                )  # fmt: skip
                rates[m] = rate_of(settings[m], known[m])
        n_learned = backward(
            links, powers, leaves, gates, settings, pool.chosen, active, n_active, z, visits, reached,
            gradient, rates, learned, stepped,
        )  # fmt: skip
        n_observing = np.uint64(0)
        for a in range(n_learned):
            at = np.uint64(learned[a])
            node = np.uint64(visits.node[at])
            reach = visits.probability[at]
            weights[node, REACH] += w[i] * reach
            learned[n_observing] = at
            n_observing += np.uint64(links[node, BLOCK] >= 0) * np.uint64(
                reach > settings[np.uint64(visits.model[at]), S_MIN_REACH]
            )
        for a in range(n_observing):
            at = np.uint64(learned[a])
            node = visits.node[at]
            m = visits.model[at]
            block = blocks[np.uint64(links[node, BLOCK])]
            if regression:
                if weights[node, SEEN] == 0.0:
                    block[ORIGIN] = counted[m]
                above = counted[m] - block[ORIGIN]
                observe_value(
                    block, value_layout.n_values, value_layout.offset, value_layout.bins[0], places, slab, r, above,
                    w[i],
                )  # fmt: skip
            else:
                c = int(y[i])
                classes[node, c] += w[i]
                for j in range(np.uint64(n_active)):
                    block[cells[j, 0] + np.uint64(c)] += w[i]
                    block[cells[j, 1] + np.uint64(c)] += w[i]
                observe(block, cached, False, known_values, numeric_layout, k, numbers, 0, c, w[i], classes[node, c])
            weights[node, SEEN] += w[i]
            if weights[node, SEEN] - weights[node, EVALUATED] >= settings[m, S_GRACE]:
                if regression:
                    deviation = math.sqrt(targets[m, T_VARIANCE])
                    try_split_values(
                        node, forest, encoding, scales[m], value_layout, settings[m], deviation, found, sides
                    )
                else:
                    try_split(node, forest, encoding, scales[m], layout, settings[m], post, found)
        for m in range(n_models):
            if pool.chosen[m]:
                rescale(place, numeric, dense, scales[m], values[m], numbers, active, n_active, z[m], w[i])
        if pooled:
            account(pool, w[i], regression)
    return DONE
