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
from models.gradient.learner_state import CENTRE, CROSS_ENTROPY, MEAN, READY, SPREAD, WEIGHT, LearnerState, Task
from models.gradient.losses import MOST_LOG, POISSON
from models.gradient.tree import LEAF, N_NODES, PARENT, SEEN, TEST, Nodes, route
from models.kernel import kernel
from models.score_contributions import to_probability, to_rate


@kernel
def average(links, meta, value, mean, weight):
    """Write the mean score of the leaves below each node, and their weight: children come after their parents.

    mean : (n, q), weight : (n,), of zeros. Mutates both. O(n q).
    """
    q = value.shape[1]
    for node in range(len(links) - 1, -1, -1):
        if links[node, TEST] == LEAF:
            weight[node] = meta[node, SEEN]
        for k in range(q):
            if links[node, TEST] == LEAF or not weight[node] > 0.0:
                mean[node, k] = value[node, k]
            else:
                mean[node, k] /= weight[node]
        parent = links[node, PARENT]
        if parent >= 0:
            weight[parent] += weight[node]
            for k in range(q):
                mean[parent, k] += weight[node] * mean[node, k]


@kernel
def add_scores(links, test, mean, slope, n_values, roots, one_tree, shrinkage, first, slab, r, z, added):
    """Add to the scores what each feature does, and in the last row those of the roots.

    mean : of `average`. z : the deviations of the features, of linear leaves. first : the output of the first tree.
    added : (d + 1, outputs). Mutates added. O(trees (depth + d) q).
    """
    last = len(added) - 1
    q = mean.shape[1] if one_tree else 1
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
    slab, rows, about, links, test, mean, slope, n_values, roots, one_tree, shrinkage, loss, known, centre, spread, z,
    out,
):  # fmt: skip
    """Write what each feature adds to the predictions, and in the last column what the roots say. Mutates out.

    z : (n, d), or (n, 0) without linear leaves. O(n (trees (depth + d) + d outputs)).
    """
    last = out.shape[1] - 1
    added = np.empty((last + 1, len(known)))
    before = np.empty(len(known))
    after = np.empty(len(known))
    first = 1 if loss == CROSS_ENTROPY else 0
    for i in range(len(rows)):
        added[:, :] = 0.0
        add_scores(links, test, mean, slope, n_values, roots, one_tree, shrinkage, first, slab, rows[i], z[i], added)
        if loss == CROSS_ENTROPY:
            to_probability(added, known, about[i], before, after, out[i])
        elif loss == POISSON:
            to_rate(added, centre, MOST_LOG, out[i])
        else:
            for f in range(last):
                out[i, f] = spread * added[f, 0]
            out[i, last] = centre + spread * added[last, 0]


def means(nodes: Nodes) -> tuple[Floats, Floats]:
    """The mean score of the leaves below each node, and the weight that they have seen."""
    n = int(nodes.counts[N_NODES])
    mean, weight = np.zeros((n, nodes.value.shape[1])), np.zeros(n)
    average(nodes.links[:n], nodes.meta, nodes.value, mean, weight)
    return mean, weight


def contributions(
    nodes: Nodes,
    roots: NDArray[np.int32],
    n_values: NDArray[np.int32],
    state: LearnerState,
    task: Task,
    slab: Floats,
    rows: NDArray[np.int32],
    about: NDArray[np.int64],
) -> Floats:
    """As Learner.contributions. During the warm-up no feature adds anything to class frequencies, or the mean; the
    kernels run then, too, and so are compiled when somebody asks before a stream begins."""
    d = slab.shape[1]
    out = np.zeros((len(rows), d + 1))
    z = _deviations(state.scales, n_values, slab[rows]) if task.linear else np.zeros((len(rows), 0))
    mean, _ = means(nodes)
    contribute(
        slab, rows, about, nodes.links, nodes.test, mean, nodes.slope, n_values, roots, task.one_tree,
        task.shrinkage, task.loss, state.known, state.target[CENTRE], state.target[SPREAD], z, out,
    )  # fmt: skip
    if not state.counts[READY]:
        if task.loss != CROSS_ENTROPY:
            out[:, d] = state.target[MEAN] if state.target[WEIGHT] > 0.0 else np.nan
        else:
            total = state.known.sum()
            out[:, d] = state.known[about] / total if total > 0.0 else np.nan
    return out


def _deviations(scales: Floats, n_values: NDArray[np.int32], x: Floats) -> Floats:
    """Features as linear leaves take them: in deviations, within +-3; nominal, constant and missing ones are 0."""
    usable = (n_values == 0) & (scales[:, 2] > 0.0)
    spread = np.sqrt(np.where(usable, scales[:, 2], 1.0) / np.where(usable, scales[:, 0], 1.0))
    with np.errstate(over="ignore", invalid="ignore"):
        z = np.clip((x - scales[:, 1]) / spread, -3.0, 3.0)
    found: Floats = np.where(usable & ~np.isnan(z), z, 0.0)
    return found
