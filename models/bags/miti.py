"""MITI: a decision tree on the instances of bags, grown best first (Blockeel, Page and Srinivasan 2005, section 3).

All instances of a bag start with the bag's label. The unexpanded node that promises most to be positive is taken next.
One without an instance of a negative bag becomes a positive leaf, and explains every positive bag that has an instance
in it: the other instances of those bags count no longer, anywhere, and the nodes that wait are scored again. One
without an instance of a positive bag becomes a negative leaf. All others are split. A bag is positive where one of its
instances falls into a positive leaf.

Splits and nodes are scored by the biased estimate of the proportion of positives, BEPP = p / (n + k), over weights of
instances (Bjerring and Frank 2011, section 2). Their instances weigh 1 / the size of the bag; on the four data sets of
docs/evidence/bags.md something between that and 1 is better, and impurity better than their choice of a split's better
half ("max-bepp").

Deviations. A nominal feature is tested for one value against the rest, not for all values at once: trees stay binary. A
missing value goes to the right. An impure leaf whose instances cannot be distinguished explains positive bags only.
Leaves show how positive they are (Laplace's estimate over the instances' weights), where the papers give 0 or 1: the
classes are the same. Of equal splits the first in order of features and thresholds is taken, of equal nodes the oldest.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.bags import entries
from riparian.models.bags.window import FULL, BagWindow, BagWindowLearner, TrainingSet, add, is_due
from riparian.models.contract import PREDICT, Bags, Floats, Program, Schema
from riparian.models.explanation.description import as_node
from riparian.models.joined import joined, prefixed
from riparian.models.kernels.elementary import power
from riparian.models.kernels.kernel import kernel
from riparian.models.layout import Paths, StateLayout

CRITERIA = ("max-bepp", "gini", "sum-squared-bepp")
MAX_BEPP, GINI = 0, 1

LEAF = -1


class BagTree(NamedTuple):
    """Room for m nodes.

    n_nodes : (1,) int64, how many are in use, the root first (none: nothing is known).
    feature : (m,) int32, LEAF for a leaf.
    threshold : (m,) float64, up to which a numeric feature goes left, or the nominal value that does.
    left, right, parent : (m,) int32.
    value : (m,) float64, the probability that an instance is of a positive bag.
    weight : (m,) float64 of the instances that counted when the node was taken.
    """

    n_nodes: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: Floats
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    parent: NDArray[np.int32]
    value: Floats
    weight: Floats

    @classmethod
    def empty(cls, m: int) -> "BagTree":
        links = [np.full(m, -1, np.int32) for _ in range(4)]
        return cls(np.zeros(1, np.int64), links[0], np.zeros(m), links[1], links[2], links[3], np.zeros(m), np.zeros(m))


MITIState = joined("MITIState", prefixed("window_", BagWindow), BagTree._fields)


class MITI(BagWindowLearner):
    """Multi-instance tree inducer, refitted to a window of bags.

    A label that is neither 0 nor 1, a weight that is not positive, and a bag without instances teach nothing. Memory is
    bounded by `max_instances`: the oldest bags leave the window. The tree has at most twice as many nodes.

    An instance weighs its bag's weight over the bag's size to the power `size_exponent`: 1 lets all bags count the
    same. `k` is of BEPP, and 0 takes a proportion of positives as it is; "max-bepp" looks at the better half, "gini" at
    the impurity of both.

    References
    ----------
    H. Blockeel, D. Page and A. Srinivasan: Multi-instance tree learning. ICML 2005.
    L. Bjerring and E. Frank: Beyond trees: adopting MITI to learn rules and ensemble classifiers for multi-instance
    data. AI 2011.

    Examples
    --------
    >>> learner = MITI(Schema((0,), 2, "multi-instance"))
    >>> learner.fit(Bags.of([2, 2, 1], [[0.0], [5.0], [1.0], [6.0], [2.0]]), [1, 1, 0])
    >>> learner.predict_many(Bags.of([2, 1], [[1.0], [9.0], [2.0]])).argmax(axis=1)
    array([1, 0])
    """

    entry = entries.MITI
    state_type = MITIState
    layout: ClassVar[StateLayout] = BagWindowLearner.layout._replace(
        rows={**BagWindowLearner.layout.rows, "feature threshold left right parent value weight": "nodes"},
        places={"feature": "features"},
        bounded={**BagWindowLearner.layout.bounded, "n_nodes": "nodes"},
        paths=(Paths("feature", ("left", "right")),),
    )

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        self._model = BagTree.empty(0)

    def _run(self, i: int, program: Program, slab: Bags, out: Floats) -> int:
        stopped: int = _run(
            i, program, slab, out, self._window, self._model, self._n_values, self.max_instances, self.refit_every
        )
        return stopped

    def _fit(self, training: TrainingSet) -> None:
        n, d = training.x.shape
        order = np.empty((d + 1, n), np.int32)
        self._model = BagTree.empty(2 * len(self._window.x) - 1)
        p = self._parameters
        weight = np.empty(n)
        _weigh(training, float(p["size_exponent"]), weight)
        grow(training, weight, self._n_values, p["k"], CRITERIA.index(p["split_criterion"]), order, self._model)

    def describe(self) -> list[dict[str, Any]]:
        """Nodes of the tree. children : where values go that are up to `threshold`, or are the nominal value `equals`,
        and where the others go."""
        tree, nodes = self._model, list[dict[str, Any]]()
        n = int(tree.n_nodes[0])
        depth = np.zeros(n, int)
        for i in range(n):
            parent = int(tree.parent[i])
            depth[i] = 0 if parent < 0 else depth[parent] + 1
            value = [1.0 - float(tree.value[i]), float(tree.value[i])]
            node = as_node(i, None if parent < 0 else parent, int(depth[i]), tree.weight[i], value)
            if tree.feature[i] != LEAF:
                right = int(tree.right[i])
                node |= {"feature": int(tree.feature[i]), "children": [int(tree.left[i]), right], "default": right}
                if self.schema.n_values[tree.feature[i]]:
                    node["equals"] = int(tree.threshold[i])
                else:
                    node["threshold"] = float(tree.threshold[i])
            nodes.append(node)
        return nodes or [as_node(0, None, 0, 0.0, [0.0, 0.0])]

    def size(self) -> dict[str, int]:
        depth = max((node["depth"] for node in self.describe()), default=0)
        n = int(self._model.n_nodes[0])
        return {"n_nodes": n, "n_leaves": (n + 1) // 2, "depth": depth}


@kernel
def _weigh(training, exponent, weight):
    """Write the weight of each instance: that of its bag over the bag's size to this power. O(n)."""
    for i in range(len(weight)):
        bag = training.bag[i]
        weight[i] = training.w[bag] / power(np.float64(training.size[bag]), exponent)


@kernel(inline=True)
def _goes_left(value, threshold, n_values):
    return value == threshold if n_values > 0 else value <= threshold


@kernel
def _predict(tree, n_values, x, start, stop):
    """Probability that instances start .. stop of x are a positive bag: of the most positive leaf. O(depth) each."""
    highest = 0.0
    for i in range(start, stop):
        node = 0
        while tree.feature[node] != LEAF:
            f = tree.feature[node]
            if _goes_left(x[i, f], tree.threshold[node], n_values[f]):
                node = tree.left[node]
            else:
                node = tree.right[node]
        highest = max(highest, tree.value[node])
    return highest


@kernel
def _run(i, program, slab, out, window, tree, n_values, max_rows, refit_every):
    """Execute `program` from i on; where it stopped. Mutates out and window."""
    op, row = program.op, program.row
    while i < len(op):
        r = row[i]
        if op[i] == PREDICT:
            if tree.n_nodes[0] == 0:
                out[r] = 0.0
            else:
                p = _predict(tree, n_values, slab.x, slab.start[r], slab.start[r] + slab.size[r])
                out[r, 0] = 1.0 - p
                out[r, 1] = p
        else:
            if add(window, slab, r, program.y[i], program.w[i], max_rows) == FULL:
                return i
            if is_due(window.at, refit_every):
                return i + 1
        i += 1
    return i


@kernel(inline=True)
def _bepp(p, n, k):
    return p / (n + k)


@kernel
def _score(left_p, left_n, right_p, right_n, k, criterion):
    """How good a split is, the larger the better. p, n : weight of instances of positive bags, and of all."""
    left, right = _bepp(left_p, left_n, k), _bepp(right_p, right_n, k)
    if criterion == MAX_BEPP:
        return max(left, right)
    if criterion == GINI:
        return -(left * (1.0 - left) * left_n + right * (1.0 - right) * right_n) / (left_n + right_n)
    return left * left + right * right


@kernel
def _count(rows, bag, positive, weight, counts, total):
    """Instances of negative and of positive bags that count, and the weight of the positive and of all, into `total`
    (mutated). O(rows)."""
    n_negative, n_positive = 0, 0
    total[0] = total[1] = 0.0
    for i in rows:
        if counts[bag[i]]:
            total[1] += weight[i]
            if positive[bag[i]]:
                n_positive += 1
                total[0] += weight[i]
            else:
                n_negative += 1
    return n_negative, n_positive


@kernel
def _best_split(training, weight, n_values, k, criterion, order, lo, hi, counts, total):
    """Feature and threshold of the best split of a node, feature LEAF where there is none. O(d rows)."""
    x, bag, positive = training.x, training.bag, training.positive
    best, best_f, best_t = -np.inf, LEAF, 0.0
    for f in range(x.shape[1]):
        p = n = run_p = run_n = 0.0  # left of the threshold, or in a run of one nominal value
        last = np.nan
        for at in range(lo, hi):
            i = order[f, at]
            if not counts[bag[i]]:
                continue
            v = x[i, f]
            if np.isnan(v):
                break  # missing values stand last
            if v != last and not np.isnan(last):
                if n_values[f] > 0:
                    score = _score(run_p, run_n, total[0] - run_p, total[1] - run_n, k, criterion)
                    threshold = last
                    run_p = run_n = 0.0
                else:
                    score = _score(p, n, total[0] - p, total[1] - n, k, criterion)
                    threshold = 0.5 * last + 0.5 * v
                    if threshold >= v:
                        threshold = last
                if score > best:
                    best, best_f, best_t = score, f, threshold
            if positive[bag[i]]:
                p += weight[i]
                run_p += weight[i]
            n += weight[i]
            run_n += weight[i]
            last = v
        # The last value against the others, where there are others.
        if n_values[f] > 0 and run_n < n:
            score = _score(run_p, run_n, total[0] - run_p, total[1] - run_n, k, criterion)
            if score > best:
                best, best_f, best_t = score, f, last
    return best_f, best_t


@kernel
def _part(x, order, lo, hi, f, threshold, n_values, spare):
    """Move the rows that go left to the front of lo .. hi in every order, which stays; where the others begin. O(d
    rows)."""
    middle = lo
    for j in range(len(order)):
        middle, kept = lo, 0
        for at in range(lo, hi):
            i = order[j, at]
            if _goes_left(x[i, f], threshold, n_values):
                order[j, middle] = i
                middle += 1
            else:
                spare[kept] = i
                kept += 1
        for i in range(kept):
            order[j, middle + i] = spare[i]
    return middle


@kernel(allocates=True)
def grow(training, weight, n_values, k, criterion, order, tree):
    """Grow a tree.

    weight : (n,) float64 of instances. order : (d + 1, n) int32, room for the instances in order of each feature, and
    of arrival. tree : room for 2 n - 1 nodes, all leaves. Both written. O(n d log n) to sort, then O(d) an instance
    and level.
    """
    x, bag, positive = training.x, training.bag, training.positive
    n, d = x.shape
    for f in range(d):
        order[f] = np.argsort(x[:, f], kind="mergesort")
    order[d] = np.arange(n)
    counts = np.ones(len(training.size), np.uint8)
    lo, hi = np.zeros(2 * n - 1, np.int64), np.full(2 * n - 1, n)
    merit = np.zeros(2 * n - 1)
    waiting = np.zeros(2 * n - 1, np.uint8)
    waiting[0] = 1
    spare = np.empty(n, np.int32)
    total = np.zeros(2)
    n_nodes = 1
    while True:
        node = -1
        for other in range(n_nodes):
            if waiting[other] and (node < 0 or merit[other] > merit[node]):
                node = other
        if node < 0:
            break
        waiting[node] = 0
        rows = order[d, lo[node] : hi[node]]
        n_negative, n_positive = _count(rows, bag, positive, weight, counts, total)
        f, threshold = LEAF, 0.0
        is_positive = n_negative == 0
        if n_negative > 0 and n_positive > 0:
            f, threshold = _best_split(
                training, weight, n_values, k, criterion, order, lo[node], hi[node], counts, total
            )
            is_positive = f == LEAF and total[0] > 0.5 * total[1]
        tree.feature[node] = f
        tree.threshold[node] = threshold
        tree.weight[node] = total[1]
        tree.value[node] = (total[0] + 1.0) / (total[1] + 2.0)
        if f != LEAF:
            middle = _part(x, order, lo[node], hi[node], f, threshold, n_values[f], spare)
            for child in range(n_nodes, n_nodes + 2):
                left = child == n_nodes
                lo[child] = lo[node] if left else middle
                hi[child] = middle if left else hi[node]
                tree.parent[child] = node
                _count(order[d, lo[child] : hi[child]], bag, positive, weight, counts, total)
                merit[child] = _bepp(total[0], total[1], k)
                waiting[child] = 1
            tree.left[node] = n_nodes
            tree.right[node] = n_nodes + 1
            n_nodes += 2
            continue
        if is_positive:
            if total[1] == 0.0:  # all of it has been explained, so all of it was positive
                tree.value[node] = 0.5 + 1e-9
            for i in rows:
                if positive[bag[i]]:
                    counts[bag[i]] = 0
            for other in range(n_nodes):
                if waiting[other]:
                    _count(order[d, lo[other] : hi[other]], bag, positive, weight, counts, total)
                    merit[other] = _bepp(total[0], total[1], k)
    tree.n_nodes[0] = n_nodes
