"""What each feature adds to the prediction of stochastic gradient trees.

The value of a node is the mean score of the leaves below it, by the weight that each has seen; of a node whose leaves
have seen nothing yet, its own when it was split. A step from a node to its child adds the difference of their values to
the feature that is tested (Saabas 2014), and a linear leaf what its slope makes of each feature. Scores of stages add
up, and so does this: the scores at the roots, plus those of the features, are the scores of the prediction.

A regression's prediction is its score in other units; how scores become probabilities and rates: score_contributions.
"""

import numpy as np
from numpy.typing import NDArray

from models.contract import Floats
from models.contributions import Sums, no_sums, room_for_sums
from models.gradient.committee import standardise
from models.gradient.learner_state import CENTRE, CROSS_ENTROPY, MEAN, READY, SPREAD, WEIGHT, LearnerState, Task
from models.gradient.losses import MOST_LOG, POISSON
from models.gradient.tree import LEAF, LEFT, N_NODES, NEXT, PARENT, RIGHT, SEEN, TEST, Nodes, route
from models.kernel import kernel
from models.score_contributions import to_probability, to_rate


@kernel(inline=True)
def _next(links, node, child):
    """The child of a node after this one; a node has two, or a chain of them, which ends with -1."""
    if links[node, RIGHT] < 0:
        return links[child, NEXT]
    return links[node, RIGHT] if child == links[node, LEFT] else np.int32(-1)


@kernel
def average_stale(links, meta, value, roots, stale, sums, order):
    """Write the mean score of the leaves below each stale node, and their weight.

    stale, sums, order : of models.contributions.Sums; sums : (n, q + 1), the means and the weight. Mutates these.
    O(stale nodes children q).
    """
    q = value.shape[1]
    n = 0
    for s in range(roots.shape[0]):
        for t in range(roots.shape[1]):
            if roots[s, t] >= 0 and stale[roots[s, t]] != 0:
                order[n] = roots[s, t]
                n += 1
    at = 0
    while at < n:
        node = order[at]
        at += 1
        if links[node, TEST] == LEAF:
            continue
        child = links[node, LEFT]
        while child >= 0:
            if stale[child] != 0:
                order[n] = child
                n += 1
            child = _next(links, node, child)
    for at in range(n - 1, -1, -1):
        node = order[at]
        stale[node] = 0
        for k in range(q + 1):
            sums[node, k] = 0.0
        if links[node, TEST] == LEAF:
            sums[node, q] = meta[node, SEEN]
        else:
            child = links[node, LEFT]
            while child >= 0:
                weight = sums[child, q]
                sums[node, q] += weight
                for k in range(q):
                    sums[node, k] += weight * sums[child, k]
                child = _next(links, node, child)
        for k in range(q):
            if links[node, TEST] == LEAF or not sums[node, q] > 0.0:
                sums[node, k] = value[node, k]
            else:
                sums[node, k] /= sums[node, q]


@kernel
def add_scores(links, test, mean, slope, n_values, roots, one_tree, shrinkage, first, slab, r, z, added):
    """Add to the scores what each feature does, and in the last row those of the roots.

    mean : of `average_stale`. z : the deviations of the features, of linear leaves. first : output of the first tree.
    added : (d + 1, outputs). Mutates added. O(trees (depth + d) q).
    """
    last = len(added) - 1
    q = mean.shape[1] - 1 if one_tree else 1
    for s in range(roots.shape[0]):
        for t in range(roots.shape[1]):
            root = roots[s, t]
            if root < 0:
                continue
            to = first + t
            leaf = route(links, test, n_values, slab, r, root)
            node = np.int64(leaf)
            while links[node, PARENT] >= 0:
                above = np.int64(links[node, PARENT])
                f = links[above, TEST]
                for k in range(q):
                    added[f, to + k] += shrinkage * (mean[node, k] - mean[above, k])
                node = above
            for k in range(q):
                added[last, to + k] += shrinkage * mean[node, k]
                if slope.shape[1] > 0:
                    for f in range(last):
                        added[f, to + k] += shrinkage * slope[leaf, k * last + f] * z[f]


@kernel(allocates=True)
def contribute(
    slab, rows, about, links, test, meta, value, slope, stale, sums, order, n_values, roots, one_tree, shrinkage, loss,
    linear, known, scales, centre, spread, out,
):  # fmt: skip
    """Write what each feature adds to the predictions, and in the last column what the roots say. A row that is asked
    about class after class is looked at once. Mutates out, stale, sums, order. O(n (trees (depth + d) + d outputs) and
    stale nodes).
    """
    last = out.shape[1] - 1
    added = np.empty((last + 1, len(known)))
    before = np.empty(len(known))
    after = np.empty(len(known))
    z = np.zeros(last if linear else 0)
    first = 1 if loss == CROSS_ENTROPY else 0
    average_stale(links, meta, value, roots, stale, sums, order)
    for i in range(len(rows)):
        if i == 0 or rows[i] != rows[i - 1]:
            added[:, :] = 0.0
            if linear:
                standardise(scales, n_values, slab, rows[i], z)
            add_scores(links, test, sums, slope, n_values, roots, one_tree, shrinkage, first, slab, rows[i], z, added)
        if loss == CROSS_ENTROPY:
            to_probability(added, known, about[i], before, after, out[i])
        elif loss == POISSON:
            to_rate(added, centre, MOST_LOG, out[i])
        else:
            for f in range(last):
                out[i, f] = spread * added[f, 0]
            out[i, last] = centre + spread * added[last, 0]


def means(nodes: Nodes, roots: NDArray[np.int32]) -> Floats:
    """The mean score of the leaves below each node."""
    n, q = int(nodes.counts[N_NODES]), nodes.value.shape[1]
    sums = room_for_sums(no_sums(q + 1), n)
    average_stale(nodes.links, nodes.meta, nodes.value, roots, *sums)
    return sums.sums[:, :q]


def contributions(
    nodes: Nodes,
    roots: NDArray[np.int32],
    n_values: NDArray[np.int32],
    state: LearnerState,
    task: Task,
    sums: Sums,
    slab: Floats,
    rows: NDArray[np.int32],
    about: NDArray[np.int64],
) -> Floats:
    """As Learner.contributions. sums : of all nodes that there is room for. During the warm-up no feature adds anything
    to class frequencies, or the mean; the kernels run then, too, and so are compiled when somebody asks before a stream
    begins."""
    d = slab.shape[1]
    out = np.zeros((len(rows), d + 1))
    contribute(
        slab, rows, about, nodes.links, nodes.test, nodes.meta, nodes.value, nodes.slope, *sums, n_values, roots,
        task.one_tree, task.shrinkage, task.loss, task.linear, state.known, state.scales, state.target[CENTRE],
        state.target[SPREAD], out,
    )  # fmt: skip
    if not state.counts[READY]:
        if task.loss != CROSS_ENTROPY:
            out[:, d] = state.target[MEAN] if state.target[WEIGHT] > 0.0 else np.nan
        else:
            total = state.known.sum()
            out[:, d] = state.known[about] / total if total > 0.0 else np.nan
    return out
