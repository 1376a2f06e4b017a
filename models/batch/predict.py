"""What a model of the window predicts: one kernel for all methods."""

import math
from typing import NamedTuple

import numpy as np

from riparian.models.batch.forest import FITTED, LINK, LOGISTIC, MEDIAN, N_KIND, SOFTMAX, FittedForest
from riparian.models.contract import Floats
from riparian.models.kernels.elementary import exp
from riparian.models.kernels.kernel import kernel


class Room(NamedTuple):
    """What a prediction needs and leaves behind as rubbish.

    margins : (k,) float64.
    answers : (t,) float64.
    """

    margins: Floats
    answers: Floats


def nothing() -> FittedForest:
    """No model."""
    zeros = {field: np.zeros(0, dtype) for field, dtype in FIELDS.items()}
    return FittedForest(**{**zeros, "values": np.zeros((0, 1)), "kind": np.zeros(N_KIND, np.int64)})


FIELDS = {
    "column": np.int32, "threshold": np.float64, "left": np.int32, "right": np.int32, "missing": np.uint8,
    "cover": np.float32, "values": np.float64, "root": np.int32, "weight": np.float64, "group": np.int32,
    "base": np.float64, "classes": np.int64, "feature": np.int32, "code": np.float64, "centre": np.float64,
    "kind": np.int64,
}  # fmt: skip


def room_for(forest: FittedForest) -> Room:
    return Room(np.zeros(len(forest.base)), np.zeros(len(forest.root)))


@kernel(inline=True)
def child(forest, node, x, r):
    """The child of an inner node that row r of x goes to. O(1)."""
    column = forest.column[node]
    value = x[r, forest.feature[column]]
    if math.isnan(value):
        left = forest.missing[node] == 1
    else:
        code = forest.code[column]
        if math.isnan(code):
            left = np.float64(np.float32(value - forest.centre[column])) <= forest.threshold[node]
        else:
            left = (1.0 if value == code else 0.0) <= forest.threshold[node]
    return forest.left[node] if left else forest.right[node]


@kernel(inline=True)
def _leaf(forest, tree, x, r):
    """The row of `values` that row r of x comes to. O(depth)."""
    node = forest.root[tree]
    while forest.column[node] >= 0:
        node = child(forest, node, x, r)
    return forest.left[node]


@kernel(allocates=True)
def median(answers, weight):
    """Of whose answer half of all weight is reached, in ascending order; of equal ones the earlier tree first."""
    order = np.argsort(answers, kind="mergesort")
    half = 0.5 * weight.sum()
    reached = 0.0
    for t in order:
        reached += weight[t]
        if reached >= half:
            return t
    return order[-1]


@kernel(allocates=True)
def predict(forest, x, r, totals, room, classes, out):
    """The prediction for row r of x into out[:]: by the model, or by `totals` while there is none. Mutates out, room.

    totals : (n_outputs,), weight of each class learned, where classes; else weight and weighted sum of the targets.
    O(trees depth).
    """
    out[:] = 0.0
    if forest.kind[FITTED] == 0:
        if classes:
            total = totals.sum()
            if total > 0.0:
                for c in range(len(totals)):
                    out[c] = totals[c] / total
        else:
            out[0] = totals[1] / totals[0] if totals[0] > 0.0 else np.nan
        return
    margins = room.margins
    margins[:] = forest.base
    link = forest.kind[LINK]
    for t in range(len(forest.root)):
        leaf = _leaf(forest, t, x, r)
        if link == MEDIAN:
            room.answers[t] = forest.values[leaf, 0]
        elif forest.group[t] >= 0:
            margins[forest.group[t]] += forest.weight[t] * forest.values[leaf, 0]
        else:
            for k in range(len(margins)):
                margins[k] += forest.weight[t] * forest.values[leaf, k]
    if link == MEDIAN:
        margins[0] = room.answers[median(room.answers, forest.weight)]
    elif link == LOGISTIC:
        share = 1.0 / (1.0 + exp(-margins[0]))
        margins[0] = 1.0 - share
        margins[1] = share
    elif link == SOFTMAX:
        most = margins.max()
        total = 0.0
        for k in range(len(margins)):
            margins[k] = exp(margins[k] - most)
            total += margins[k]
        for k in range(len(margins)):
            margins[k] /= total
    if classes:
        for k in range(len(margins)):
            out[forest.classes[k]] = margins[k]
    else:
        out[0] = margins[0]
