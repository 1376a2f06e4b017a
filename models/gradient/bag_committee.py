"""A committee of stochastic gradient trees over bags of instances, as one kernel over a program (section 4.3).

The score of a bag is that of its highest instance, which takes the gradient of the binary cross-entropy, equations 28
and 29. Leaves are constant, so that most often several instances are highest: all those in the same leaf. They share
the gradient and the weight of the bag equally (the subgradient of the maximum that prefers none); the first of them
alone would split by the order of the file. The others have gradient and Hessian 0, and no weight: a bag
is one observation of the t test and of the grace period, however large it is. All instances of a bag take their
gradients from the trees as they were when the bag came, one after the other; leaves that are due are tested after each.
"""

import numpy as np

from riparian.models.contract import PREDICT
from riparian.models.gradient.bins import find_cells, widen_ranges
from riparian.models.gradient.committee import (
    BIN,
    N_DUE,
    NEED_NODES,
    NEXT,
    NEXT_DUE,
    WARM,
    _derive,
    _meet,
    _plant_stages,
    _poisson_one,
    _rescale,
    _scores,
    _write,
    _write_early,
    standardise,
)
from riparian.models.gradient.learner_state import BUFFERED, LEARNED, NEXT_BINS, READY
from riparian.models.gradient.tree import learn, try_change
from riparian.models.kernels.kernel import DONE, GROW, kernel

# Further places in `progress`: the instance that comes next, and how many take the gradient (0: no bag is begun).
NEXT_INSTANCE, N_TOPS, N_PROGRESS = 6, 7, 8


@kernel
def _top_of(nodes, roots, layout, state, x, start, stop, scratch, task, heights):
    """The first instance with the highest score, and how many have it; their scores into `heights`, from 0 on.

    Mutates scratch, heights. O(instances stages (depth + d)).
    """
    top, highest, n = start, -np.inf, 0
    for r in range(start, stop):
        if task.linear:
            standardise(state.scales, layout.n_values, x, r, scratch.z)
        _scores(nodes, roots, layout, x, r, scratch, task)
        heights[r - start] = scratch.sums[1]
        if scratch.sums[1] > highest:
            top, highest, n = r, scratch.sums[1], 0
        if scratch.sums[1] == highest:
            n += 1
    return top, n


@kernel
def _learn_instance(
    nodes, roots, bins, layout, growth, state, task, chosen, scratch, x, r, gradients, weights, progress
):
    """All stages learn row r of x; leaves that are due for a test into scratch.due.

    gradients : (stages, 2), gradient and Hessian of each stage; weights : (stages,), of the bag, of which the row has
    its share. Mutates nodes, scratch, progress.
    """
    if task.linear:
        standardise(state.scales, layout.n_values, x, r, scratch.z)
    find_cells(bins, layout, x, r, scratch.cells)
    _scores(nodes, roots, layout, x, r, scratch, task)
    n_due = 0
    for s in range(roots.shape[0]):
        if weights[s] == 0.0:
            continue
        scratch.gradient[1] = gradients[s, 0]
        scratch.hessian[1] = gradients[s, 1]
        leaf = scratch.leaves[s, 0]
        share = weights[s] / progress[N_TOPS]
        if learn(nodes, growth, leaf, scratch.cells, chosen, s, scratch.z, scratch.gradient, scratch.hessian, 1, share):
            scratch.due[n_due, 0] = leaf
            scratch.due[n_due, 1] = s
            n_due += 1
    progress[N_DUE] = n_due
    progress[NEXT_DUE] = 0


@kernel
def _begin_bag(nodes, roots, bins, layout, state, task, scratch, x, start, stop, y, w, gradients, weights, heights):
    """How many instances take the gradient (those where `heights` is positive afterwards), and gradients and weights of
    all stages (mutated, as heights, scratch, bins, state)."""
    for r in range(start, stop):
        widen_ranges(bins.ranges, layout.n_values, x, r)
    top, n = _top_of(nodes, roots, layout, state, x, start, stop, scratch, task, heights)
    highest = heights[top - start]
    for i in range(stop - start):
        heights[i] = 1.0 if heights[i] == highest else 0.0
    if task.linear:
        standardise(state.scales, layout.n_values, x, top, scratch.z)
    _scores(nodes, roots, layout, x, top, scratch, task)
    scratch.sums[:] = 0.0
    for s in range(roots.shape[0]):
        _derive(scratch, state, task, s, y)
        gradients[s, 0] = scratch.gradient[1]
        gradients[s, 1] = scratch.hessian[1]
        weights[s] = w * _poisson_one(state.rng) if task.poisson else w
    return n


@kernel
def _keep(state, slab, start, stop, y, w):
    """Put a bag into the buffer of the warm-up; false, with nothing changed, where it has no room. A bag larger than
    the buffer loses the instances at its end. Mutates state."""
    counts, buffer, d = state.counts, state.buffer, slab.x.shape[1]
    n = counts[BUFFERED]
    stop = min(stop, start + len(buffer))
    if n + stop - start > len(buffer):
        return False
    for r in range(start, stop):
        for f in range(d):
            buffer[n, f] = slab.x[r, f]
        buffer[n, d] = y if r == start else np.nan
        buffer[n, d + 1] = w
        n += 1
    counts[BUFFERED] = n
    return True


@kernel
def run(
    op, row, y, w, slab, out, progress, nodes, roots, bins, layout, growth, state, task, chosen, scratch, search,
    gradients, weights, heights, replay,
):  # fmt: skip
    """Execute a program from progress[NEXT] on, as models.gradient.committee.run; bags without instances are none.

    heights : scratch, room for the instances of the largest bag. Mutates out, progress, nodes, roots, ranges of bins,
    state, scratch, search, gradients, weights, heights. DONE, GROW, WARM and BIN mean what they do there.
    O(instances stages (depth + d)) a bag.
    """
    counts = state.counts
    for i in range(progress[NEXT], len(op)):
        start = slab.start[row[i]]
        stop = start + slab.size[row[i]]
        if op[i] == PREDICT:
            out[row[i]] = 0.0
            if counts[READY] == 0:
                _write_early(state, task, out, row[i])
            elif start < stop:
                top, _ = _top_of(nodes, roots, layout, state, slab.x, start, stop, scratch, task, heights)
                if task.linear:
                    standardise(state.scales, layout.n_values, slab.x, top, scratch.z)
                _scores(nodes, roots, layout, slab.x, top, scratch, task)
                _write(scratch, state, task, out, row[i])
            continue
        if not (w[i] > 0.0 and w[i] < np.inf and y[i] >= 0.0 and y[i] < len(state.known) and start < stop):
            continue
        if progress[N_TOPS] == 0:
            if counts[READY] == 0:
                if not _keep(state, slab, start, stop, y[i], w[i]):
                    progress[NEXT] = i
                    return WARM
                _meet(state, task, y[i], w[i])
                counts[LEARNED] += 1
                continue
            if roots[0, 0] < 0 and _plant_stages(nodes, roots, 0, progress) == GROW:
                progress[NEXT] = i
                return GROW
            if not replay:
                _meet(state, task, y[i], w[i])
                counts[LEARNED] += 1
            progress[N_TOPS] = _begin_bag(
                nodes, roots, bins, layout, state, task, scratch, slab.x, start, stop, y[i], w[i], gradients, weights,
                heights,
            )  # fmt: skip
            progress[NEXT_INSTANCE] = start
        while progress[NEXT_INSTANCE] < stop:
            r = progress[NEXT_INSTANCE]
            if heights[r - start] == 0.0:
                progress[NEXT_INSTANCE] = r + 1
                continue
            if progress[N_DUE] == 0:
                _learn_instance(
                    nodes, roots, bins, layout, growth, state, task, chosen, scratch, slab.x, r, gradients, weights,
                    progress,
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
            progress[NEXT_INSTANCE] = r + 1
        progress[N_TOPS] = 0
        if task.linear:
            for r in range(start, stop):
                _rescale(state.scales, layout.n_values, slab.x, r, w[i])
        if counts[LEARNED] >= counts[NEXT_BINS] and not replay:
            progress[NEXT] = i + 1
            return BIN
    return DONE
