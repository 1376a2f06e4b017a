"""What each feature adds to the prediction of a model of the window, as kernels.

The value of a leaf is its answer, that of an inner node the mean of its children's by the weight of the rows that came
by. On the way from the root to the leaf, each change is put down to the feature that is tested (Saabas 2014), and trees
are added up as their answers are; where these are scores, models.score_contributions makes probabilities of them. A
median is one tree's answer, and has what that tree's features add.
"""

import numpy as np
from numpy.typing import NDArray

from models.batch.forest import FITTED, LINK, LOGISTIC, MEDIAN, SOFTMAX, Forest
from models.batch.predict import child, median
from models.contract import Floats
from models.kernel import kernel
from models.score_contributions import to_probability


@kernel
def _add_tree(forest, tree, weight, values, x, r, added):
    """Add `weight` times what a tree's features change, and the value of its root in the last row. Mutates added:
    (d + 1, k). O(depth k)."""
    last = len(added) - 1
    group = forest.group[tree]
    node = np.int64(forest.root[tree])
    f = last
    before = -1
    while True:
        for c in range(1 if group >= 0 else values.shape[1]):
            change = values[node, c] - (values[before, c] if before >= 0 else 0.0)
            added[f, max(group, 0) + c] += weight * change
        if forest.column[node] < 0:
            return
        f = forest.feature[forest.column[node]]
        before = node
        node = np.int64(child(forest, node, x, r))


@kernel(allocates=True)
def _median_tree(forest, values, x, r):
    """Whose answer the median is."""
    answers = np.empty(len(forest.root))
    for t in range(len(forest.root)):
        node = np.int64(forest.root[t])
        while forest.column[node] >= 0:
            node = np.int64(child(forest, node, x, r))
        answers[t] = values[node, 0]
    return median(answers, forest.weight)


@kernel(allocates=True)
def contribute(forest, values, slab, rows, about, out):
    """Write what each feature adds to the predictions, and in the last column where the model begins.

    values : (nodes, k or 1), of `models.batch.description.values_of`. about : (n,) int64, the place of a class among
    the model's, -1 where it has none; of a target 0. Mutates out : (n, d + 1), which is 0. O(n (trees depth + d) k).
    """
    last = out.shape[1] - 1
    k = len(forest.base)
    link = forest.kind[LINK]
    added = np.empty((last + 1, k))
    known = np.ones(k)
    before = np.empty(k)
    after = np.empty(k)
    for i in range(len(rows)):
        if about[i] < 0:
            continue
        added[:, :] = 0.0
        for c in range(k):
            added[last, c] = forest.base[c]
        if link == MEDIAN:
            added[last, 0] = 0.0
            _add_tree(forest, _median_tree(forest, values, slab, rows[i]), 1.0, values, slab, rows[i], added)
        else:
            for t in range(len(forest.root)):
                _add_tree(forest, t, forest.weight[t], values, slab, rows[i], added)
        if link == LOGISTIC:  # the score of the second of two classes stands in the first place
            for f in range(last + 1):
                added[f, 1] = added[f, 0]
                added[f, 0] = 0.0
        if link in (LOGISTIC, SOFTMAX):
            to_probability(added, known, about[i], before, after, out[i])
        else:
            for f in range(last + 1):
                out[i, f] = added[f, about[i]]


def contributions(
    forest: Forest,
    values: Floats,
    totals: Floats,
    classes: bool,
    slab: Floats,
    rows: NDArray[np.int32],
    about: NDArray[np.int64],
) -> Floats:
    """As Learner.contributions. While there is no model, no feature adds anything to the shares of classes, or the mean
    target, that `totals` have; the kernel runs then, too, and so is compiled when somebody asks before a stream
    begins."""
    out = np.zeros((len(rows), slab.shape[1] + 1))
    fitted = bool(forest.kind[FITTED])
    place = np.full(len(rows), -1 if classes or not fitted else 0, np.int64)
    for k, code in enumerate(forest.classes.tolist() if classes and fitted else []):
        place[about == code] = k
    contribute(forest, values, slab, rows, place, out)
    if not fitted:
        total = totals.sum() if classes else totals[0]
        known: Floats = totals[about] if classes else totals[1:]
        out[:, -1] = known / total if total > 0.0 else np.nan
    return out
