"""What any batch learner has learned, as arrays: trees, and how their answers make a prediction."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats

# FittedForest.kind: how the trees' answers make a prediction, whether there is a model at all, rows it was fitted to.
LINK, FITTED, ROWS, N_KIND = 0, 1, 2, 3
SUM, SOFTMAX, LOGISTIC, MEDIAN = 0, 1, 2, 3

VECTOR = -1  # a tree's group where its leaves hold a value for every output


class FittedForest(NamedTuple):
    """Any model of this family: t trees of n nodes and l leaves together, k outputs, c columns.

    Column j of a row is the value of feature[j], less centre[j], as float32; or, where code[j] is not NaN, whether it
    is code[j]. A test sends what is at most `threshold` left, and what is missing by `missing`.

    column : (n,) int32, -1 for a leaf.
    threshold : (n,) float64.
    left, right : (n,) int32; of a leaf, left is its row in values.
    missing : (n,) uint8, 1 left.
    cover : (n,) float32, weight of the rows (of XGBoost: Hessians) that came by.
    values : (l, k or 1) float64.
    root : (t,) int32.
    weight : (t,) float64.
    group : (t,) int32, the output that a tree is about, or VECTOR.
    base : (k,) float64, what is there before the first tree.
    classes : (k,) int64, their codes.
    feature : (c,) int32.
    code, centre : (c,) float64.
    kind : (3,) int64.
    """

    column: NDArray[np.int32]
    threshold: Floats
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    missing: NDArray[np.uint8]
    cover: NDArray[np.float32]
    values: Floats
    root: NDArray[np.int32]
    weight: Floats
    group: NDArray[np.int32]
    base: Floats
    classes: NDArray[np.int64]
    feature: NDArray[np.int32]
    code: Floats
    centre: Floats
    kind: NDArray[np.int64]
