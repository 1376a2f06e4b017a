"""A committee of stages of stochastic gradient trees, as one kernel over a program.

A stage has a tree for each output (K - 1 classes, section 4.1, or one target, section 4.2), or one tree for all of
them. One stage is the paper's learner. With several (beyond the paper) stage s minimises the loss of F_{s-1} + T_s,
where F_s = F_{s-1} + shrinkage T_s is what the committee has predicted up to stage s: online gradient boosting. All
stages take their gradients before any of them changes.

Class 0 is the class without a tree. Trees of other classes come with the first label of theirs, or, if that was in a
warm-up that is not learned again, at its end; only classes that were seen have a probability.

The target of a regression is learned in deviations of itself, so that steps, penalties and the thresholds of losses
mean the same on every stream. Mean and deviation are those of the warm-up at first and follow the stream: where the
deviation has doubled or halved, all scores are given in the new one.
"""

import math

import numpy as np

from riparian.models.contract import LARGEST_TARGET, PREDICT
from riparian.models.drift.adwin import CLOCK, MIN_SIDE, adwin_update, forget
from riparian.models.drift.contract import DRIFT
from riparian.models.gradient.bins import find_cells, widen_ranges
from riparian.models.gradient.learner_state import (
    BUFFERED,
    CENTRE,
    CROSS_ENTROPY,
    LEARNED,
    MEAN,
    NEXT_BINS,
    READY,
    SPREAD,
    SQUARES,
    UNIT,
    WEIGHT,
)
from riparian.models.gradient.losses import POISSON, SQUARED, derivatives, softmax
from riparian.models.gradient.tree import N_BLOCKS, N_NODES, learn, plant, rescale, route, score, try_change
from riparian.models.kernels.elementary import exp
from riparian.models.kernels.kernel import DONE, GROW, kernel
from riparian.models.kernels.randomness import uniform

# Statuses besides DONE and GROW: the warm-up is complete; stages are to begin anew; bins are due.
WARM, RESET, BIN = 2, 3, 4

# Places in `progress`: the next operation, how many leaves wait for their test, which of them is next, and the nodes
# and blocks that it, or a new tree, needs; and how many stages are to begin anew.
NEXT, N_DUE, NEXT_DUE, NEED_NODES, NEED_BLOCKS, N_DRIFTED = range(6)

# Targets and deviations beyond these teach nothing, so squares of their quotients are numbers.
LEAST_SPREAD = 1e-100

# After the warm-up, mean and deviation of the target fade by this with each label: one of 1,000 labels ago counts 1/e.
FADING = 0.999
# The scale of the scores follows the target's deviation once that is so many times as large, or as small. A target
# counts as so many deviations from the mean at most: a wrong one does not make a scale, and a few that are right do.
MOST_OFF, FARTHEST = 2.0, 30.0


@kernel(inline=True)
def standardise(scales, n_values, x, r, z):
    """Numeric features of row r in deviations from their means, within +-3, into z; 0 for others and missing ones."""
    for f in range(len(z)):
        z[f] = 0.0
        if n_values[f] == 0 and scales[f, 2] > 0.0:
            deviation = np.sqrt(scales[f, 2] / scales[f, 0])
            value = (x[r, f] - scales[f, 1]) / deviation
            if value == value:
                z[f] = min(max(value, -3.0), 3.0)


@kernel(inline=True)
def _rescale(scales, n_values, x, r, w):
    """Take row r into means and deviations. Mutates scales."""
    for f in range(len(n_values)):
        value = x[r, f]
        if n_values[f] == 0 and value - value == 0.0:
            n = scales[f, 0] + w
            off = value - scales[f, 1]
            mean = scales[f, 1] + off * (w / n)
            scales[f, 0] = n
            scales[f, 1] = mean
            scales[f, 2] += w * off * (value - mean)


@kernel(inline=True)
def _scores(nodes, roots, layout, x, r, scratch, task):
    """Route row r through all trees: leaves and scores of each stage, and their shrunken sums. Mutates scratch."""
    n = len(scratch.sums)
    first = 0 if task.loss != CROSS_ENTROPY else 1
    scratch.sums[:] = 0.0
    for s in range(roots.shape[0]):
        for t in range(roots.shape[1]):
            root = roots[s, t]
            leaf = -1
            if root >= 0:
                leaf = route(nodes.links, nodes.test, layout.n_values, x, r, root)
            scratch.leaves[s, t] = leaf
            if task.one_tree:
                for c in range(first, n):
                    scratch.scores[s, c] = score(nodes, leaf, c - first, scratch.z) if leaf >= 0 else 0.0
            else:
                scratch.scores[s, first + t] = score(nodes, leaf, 0, scratch.z) if leaf >= 0 else 0.0
        for c in range(first, n):
            scratch.sums[c] += task.shrinkage * scratch.scores[s, c]


@kernel(inline=True)
def _write(scratch, state, task, out, r):
    """The prediction for scratch.sums into out[r]."""
    if task.loss == CROSS_ENTROPY:
        softmax(scratch.sums, state.known, scratch.p)
        for c in range(len(scratch.p)):
            out[r, c] = scratch.p[c]
    elif task.loss == POISSON:
        out[r, 0] = exp(min(state.target[CENTRE] + scratch.sums[0], 300.0))
    else:
        out[r, 0] = state.target[CENTRE] + state.target[SPREAD] * scratch.sums[0]


@kernel(inline=True)
def _write_early(state, task, out, r):
    """The prediction before there are trees: class frequencies, or the mean (NaN before the first label)."""
    if task.loss != CROSS_ENTROPY:
        out[r, 0] = state.target[MEAN] if state.target[WEIGHT] > 0.0 else np.nan
        return
    total = 0.0
    for c in range(len(state.known)):
        total += state.known[c]
    for c in range(len(state.known)):
        out[r, c] = state.known[c] / total if total > 0.0 else 0.0


@kernel(inline=True)
def _derive(scratch, state, task, s, y):
    """Gradient, Hessian and error in [0, 1] of stage s at F_{s-1} + T_s into scratch; then F_s into scratch.sums."""
    n = len(scratch.sums)
    if task.loss != CROSS_ENTROPY:
        at = scratch.sums[0] + scratch.scores[s, 0]
        if task.loss == POISSON:
            g, h = derivatives(task.loss, task.parameter, y, state.target[CENTRE] + at)
        else:
            g, h = derivatives(task.loss, task.parameter, (y - state.target[CENTRE]) / state.target[SPREAD], at)
        scratch.gradient[0] = g
        scratch.hessian[0] = h
        error = abs(g) * (state.target[SPREAD] / state.target[UNIT])
        scratch.error[0] = error / (1.0 + error)
        scratch.sums[0] += task.shrinkage * scratch.scores[s, 0]
        return
    label = int(y)
    for c in range(n):
        scratch.point[c] = scratch.sums[c] + scratch.scores[s, c]
    softmax(scratch.point, state.known, scratch.p)
    scratch.error[0] = 1.0 - scratch.p[label]
    for c in range(1, n):
        scratch.gradient[c] = scratch.p[c] - (1.0 if c == label else 0.0)
        scratch.hessian[c] = scratch.p[c] * (1.0 - scratch.p[c])
        scratch.sums[c] += task.shrinkage * scratch.scores[s, c]


@kernel(inline=True)
def _poisson_one(rng):
    """A Poisson variable of mean 1 (Knuth: count uniforms until their product is below exp(-1)). Mutates rng."""
    k = 0
    product = uniform(rng)
    while product > 0.36787944117144233:
        k += 1
        product *= uniform(rng)
    return k


@kernel(inline=True)
def _meet(state, task, y, w):
    """Count a label: its class, or the target's mean and deviation. Mutates state."""
    if task.loss == CROSS_ENTROPY:
        state.known[int(y)] += w
        return
    state.known[0] += w
    target = state.target
    if state.counts[READY] != 0:
        target[WEIGHT] *= FADING
        target[SQUARES] *= FADING
        if task.loss != POISSON:
            far = FARTHEST * target[SPREAD]
            y = min(max(y, target[MEAN] - far), target[MEAN] + far)
    off = y - target[MEAN]
    target[WEIGHT] += w
    target[MEAN] += off * (w / target[WEIGHT])
    target[SQUARES] += w * off * (y - target[MEAN])


@kernel
def _follow_scale(nodes, state, watch, task):
    """Where the deviation of the target has left that of the scores behind: give scores in the new one.

    The label that shows it was learned before, so a single wrong one moves its leaf by a step in the old scale. The
    detectors' unit follows at once where it shrinks, so that it does not hide errors, and they begin anew, since the
    same errors are more of it; where it grows, only with a reset: errors that grow with it are what they watch for.
    Mutates nodes, state, watch. O(nodes) when it happens, which is once for each doubling.
    """
    target = state.target
    variance, spread = target[SQUARES] / target[WEIGHT], target[SPREAD]
    if spread * spread <= MOST_OFF * MOST_OFF * variance <= MOST_OFF**4 * spread * spread:
        return
    new = math.sqrt(variance)
    if LEAST_SPREAD <= new < np.inf:
        rescale(nodes, spread / new, task.loss == SQUARED)
        target[SPREAD] = new
        if new < target[UNIT]:
            target[UNIT] = new
            forget(*watch)


@kernel(inline=True)
def _has_risen(watch, s, delta, error, level):
    """Fold an error into the detector of stage s: whether it found that errors are more now. Mutates watch, level."""
    sums, counts = watch.watch_sums[s], watch.watch_counts[s]
    before = sums[0] / counts[1] if counts[1] > 0 else 0.0
    adwin_update(
        error, level, delta, CLOCK, MIN_SIDE, counts, sums, watch.watch_filled[s], watch.watch_totals[s],
        watch.watch_spreads[s],
    )  # fmt: skip
    return level[0] == DRIFT and sums[0] / counts[1] > before


@kernel(inline=True)
def _learn_row(nodes, roots, bins, layout, growth, state, watch, task, chosen, scratch, x, r, y, w, progress):
    """All stages learn row r, whose leaves and scores are in scratch; leaves that are due for a test into scratch.due.
    Mutates all but bins.edges."""
    widen_ranges(bins.ranges, layout.n_values, x, r)
    find_cells(bins, layout, x, r, scratch.cells)
    scratch.sums[:] = 0.0
    n_due = 0
    first = 0 if task.loss != CROSS_ENTROPY else 1
    for s in range(roots.shape[0]):
        _derive(scratch, state, task, s, y)
        if task.reset_delta > 0.0 and _has_risen(watch, s, task.reset_delta, scratch.error, scratch.level):
            scratch.drifted[s] = True
            progress[N_DRIFTED] += 1
        weight = w
        if task.poisson:
            weight = w * _poisson_one(state.rng)
            if weight == 0.0:
                continue
        for t in range(roots.shape[1]):
            leaf = scratch.leaves[s, t]
            if leaf >= 0 and learn(
                nodes, growth, leaf, scratch.cells, chosen, s, scratch.z, scratch.gradient, scratch.hessian, first + t,
                weight,
            ):  # fmt: skip
                scratch.due[n_due, 0] = leaf
                scratch.due[n_due, 1] = s
                n_due += 1
    progress[N_DUE] = n_due
    progress[NEXT_DUE] = 0
    if task.linear:
        _rescale(state.scales, layout.n_values, x, r, w)


@kernel
def _plant_stages(nodes, roots, tree, progress):
    """Tree number `tree` in all stages. GROW, with nothing changed, where there is no room. Mutates nodes, roots."""
    n_stages = roots.shape[0]
    progress[NEED_NODES] = nodes.counts[N_NODES] + n_stages
    progress[NEED_BLOCKS] = nodes.counts[N_BLOCKS] + n_stages
    if progress[NEED_NODES] > len(nodes.links) or progress[NEED_BLOCKS] > len(nodes.stats):
        return GROW
    for s in range(n_stages):
        roots[s, tree] = plant(nodes, s * roots.shape[1] + tree)
    return DONE


@kernel(inline=True)
def _keep(buffer, at, x, r, y, w):
    """Row r of x with label and weight into row `at` of the buffer."""
    d = x.shape[1]
    for f in range(d):
        buffer[at, f] = x[r, f]
    buffer[at, d] = y
    buffer[at, d + 1] = w


@kernel
def run(
    op, row, y, w, slab, out, progress, nodes, roots, bins, layout, growth, state, watch, task, chosen, scratch, search,
    replay,
):  # fmt: skip
    """Execute a program from progress[NEXT] on. Mutates out, progress, nodes, roots, ranges of bins, state and
    scratch.

    replay : the program is the warm-up's own, learned before: labels are not counted again.

    DONE: all of it. GROW: leaves wait for their test, or a class for its tree, and lack capacity; nothing of it has
    happened. WARM: the buffer is full; find bins, learn it, go on. RESET: give the stages in scratch.drifted new trees,
    go on. BIN: find new bins, go on.
    O(stages trees (depth + d)) an operation, a test of a leaf once in a grace period.
    """
    counts = state.counts
    # The row predicted last, while nothing was learned since: its leaves and scores are in scratch.
    last_row = -1
    for i in range(progress[NEXT], len(op)):
        r = row[i]
        learning = op[i] != PREDICT
        if not learning and counts[READY] == 0:
            _write_early(state, task, out, r)
            continue
        if learning and progress[N_DUE] == 0:
            if not (w[i] > 0.0 and w[i] < np.inf):
                continue
            if task.loss == CROSS_ENTROPY:
                if not (y[i] >= 0.0 and y[i] < len(state.known)):
                    continue
            elif not abs(y[i]) < LARGEST_TARGET or (task.loss == POISSON and y[i] < 0.0):
                continue
            if counts[READY] == 0:
                _meet(state, task, y[i], w[i])
                counts[LEARNED] += 1
                _keep(state.buffer, counts[BUFFERED], slab, r, y[i], w[i])
                counts[BUFFERED] += 1
                if counts[BUFFERED] == len(state.buffer):
                    progress[NEXT] = i + 1
                    return WARM
                continue
            tree = 0 if task.one_tree or task.loss != CROSS_ENTROPY else int(y[i]) - 1
            if tree >= 0 and roots[0, tree] < 0:
                if _plant_stages(nodes, roots, tree, progress) == GROW:
                    progress[NEXT] = i
                    return GROW
                last_row = -1
            if not replay:
                _meet(state, task, y[i], w[i])
                counts[LEARNED] += 1
                if task.sample > 0:
                    _keep(state.buffer, counts[LEARNED] % task.sample, slab, r, y[i], w[i])
        if progress[N_DUE] == 0 and not (learning and last_row == r):
            if task.linear:
                standardise(state.scales, layout.n_values, slab, r, scratch.z)
            _scores(nodes, roots, layout, slab, r, scratch, task)
        if not learning:
            _write(scratch, state, task, out, r)
            last_row = r
            continue
        if progress[N_DUE] == 0:
            last_row = -1
            _learn_row(
                nodes, roots, bins, layout, growth, state, watch, task, chosen, scratch, slab, r, y[i], w[i], progress,
            )  # fmt: skip
        while progress[NEXT_DUE] < progress[N_DUE]:
            at = progress[NEXT_DUE]
            if try_change(
                scratch.due[at, 0], nodes, bins, layout, growth, chosen[scratch.due[at, 1]], search,
                progress[NEED_NODES:],
            ) == GROW:  # fmt: skip
                progress[NEXT] = i
                return GROW
            progress[NEXT_DUE] = at + 1
        progress[N_DUE] = 0
        if task.loss != CROSS_ENTROPY and task.loss != POISSON and not replay:
            _follow_scale(nodes, state, watch, task)
        if progress[N_DRIFTED] > 0:
            progress[NEXT] = i + 1
            return RESET
        if counts[LEARNED] >= counts[NEXT_BINS] and not replay:
            progress[NEXT] = i + 1
            return BIN
    return DONE
