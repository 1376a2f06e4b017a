"""The extremely fast decision tree (Hoeffding anytime tree, HATT): splits early, and goes back on it.

Manapragada, Webb and Salehi 2018. A leaf splits as soon as the Hoeffding bound shows that its best test is better than
no test (the Hoeffding tree: better than every other). Every inner node goes on observing, and when another test is
better than the present one by the bound, its subtree dies and it takes that test. What a tree of this kind is made of:
models.hoeffding.mutable_tree.
"""

from typing import Any

import numpy as np

from riparian.models.contract import PREDICT, Floats, Program
from riparian.models.hoeffding.entries import EXTREMELY_FAST_DECISION_TREE
from riparian.models.hoeffding.mutable_tree import (
    DEFAULT,
    DEPTH,
    LEARNED,
    N_NODES,
    NEED_MAPPED,
    NEED_ROWS,
    NEXT,
    PARENT,
    SPLIT,
    TEST,
    MutableNodes,
    MutableTree,
    next_node,
    route,
    route_known,
    split_node,
    try_branch,
)
from riparian.models.hoeffding.nodes import EVALUATED, MC_CORRECT, NB_CORRECT, SEEN
from riparian.models.hoeffding.parameters import NB, NBA, bins_of
from riparian.models.hoeffding.splitting.candidates import (
    FEATURE,
    MERIT,
    VALUE,
    best_split,
    branch,
    hoeffding_bound,
    merit,
)
from riparian.models.joined import joined
from riparian.models.kernels.kernel import DONE, GROW, kernel
from riparian.models.observers.gaussians import heaviest, observe, write_joint, write_weights
from riparian.models.observers.histogram_blocks import observe_bins, score_bins
from riparian.models.observers.likelihood import score_leaf

# Everything the tree knows: MutableNodes as far as they are used, and SeenValues.
ExtremelyFastDecisionTreeState = joined("ExtremelyFastDecisionTreeState", MutableNodes._fields, ("values", "n_values"))


class ExtremelyFastDecisionTree(MutableTree):
    """Hoeffding anytime tree: splits once a test is better than none, and replaces a test once another is better.

    Missing values, values without a branch, labels and weights that teach nothing: as in the Hoeffding tree. Memory is
    bounded by `max_nodes` and the schema, as there; inner nodes have statistics too. At the bound leaves do not
    split any more, but a test is still replaced where the new one has no more branches than there is room for.

    Notes
    -----
    A leaf splits where merit > bound, or bound < tie threshold: not splitting has merit 0. A test is replaced where
    merit - present merit > bound, or bound < tie threshold and the difference is above half of that (as in MOA:
    the paper leaves ties open, and without the half two equal tests would take turns for ever). The present merit is
    that of the very test, threshold included, so a threshold that has become a poor one is replaced as well.
    That not splitting beats a test is part of the paper's algorithm but cannot happen: no merit is negative.

    Unlike MOA's, which looks at all nodes on the path of each 2,000th instance of the stream, a node's period counts
    what the node has seen, and merits are those of the moment, not means over the attempts.

    Examples
    --------
    >>> learner = ExtremelyFastDecisionTree(Schema((0, 2), 2, "classification"), grace_period=50)
    >>> x = np.random.default_rng(1).random((2000, 2)).round()
    >>> learner.learn_many(x, x[:, 1])
    >>> learner.predict_many([[0.0, 1.0]]).tolist()
    [[0.0, 1.0]]
    """

    entry = EXTREMELY_FAST_DECISION_TREE

    def run(self, program: Program, slab: Floats, out: Floats) -> None:
        progress = np.zeros(4, np.int64)
        period = float(self._parameters["reevaluation_period"])
        run = _run_binned if bins_of(self._parameters) else _run
        while (
            run(
                program.op, program.row, program.y, program.w, slab, out, progress,
                self._nodes, self._known, self._cache, self._layout, self._settings, period, self._scratch,
            ) == GROW
        ):  # fmt: skip
            self._grow(int(progress[NEED_ROWS]), int(progress[NEED_MAPPED]))

    def state(self) -> Any:
        return ExtremelyFastDecisionTreeState(*self._used(), self._known.values, self._known.n_seen)


@kernel
def _try_test(node, nodes, fresh, layout, settings, scratch, progress):
    """Give `node` its best test if the bound shows that it is better than what it has: none, or a test.

    SPLIT, DONE or GROW as models.hoeffding.mutable_tree.split_node. O(d (n_split_points or V) n_outputs).
    """
    bound = hoeffding_bound(nodes.weights[node], settings)
    if bound < 0.0:
        return DONE
    n_classes = nodes.weights.shape[1]
    seen = nodes.leaf[node, SEEN]
    found = scratch.found
    best_split(
        nodes.stats, layout, node, n_classes, seen, settings.n_split_points, settings.binary_splits,
        settings.criterion, settings.min_branch_fraction, scratch.post, found,
    )  # fmt: skip
    if found[FEATURE] < 0.0:
        return DONE
    feature = np.int64(found[FEATURE])
    gain = found[MERIT]
    least = 0.0
    if nodes.links[node, TEST] >= 0:
        present = np.int64(nodes.links[node, TEST])
        value = nodes.test[node]
        if feature == present and (
            value == found[VALUE] or (layout.n_values[feature] > 0 and not settings.binary_splits)
        ):
            return DONE
        n = branch(nodes.stats, layout, node, n_classes, present, value, settings.binary_splits, scratch.post)
        gain -= max(0.0, merit(scratch.post, n, n_classes, seen, settings.criterion, settings.min_branch_fraction))
        least = 0.5 * settings.tie_threshold
    if not (gain > bound or (bound < settings.tie_threshold and gain > least)):
        return DONE
    return split_node(node, feature, found[VALUE], nodes, fresh, layout, settings, scratch.post, progress)


@kernel
def _revise(r, slab, nodes, fresh, layout, settings, period, scratch, progress):
    """Evaluate the tests on the path of row r that are due, from the root on, and then its leaf. A subtree that has
    died ends the path: the new children have inherited the row. GROW: make room and call again. Mutates nodes, fresh.
    """
    links, test, leaf = nodes.links, nodes.test, nodes.leaf
    node = np.int32(0)
    while True:
        inner = links[node, TEST] >= 0
        if leaf[node, SEEN] - leaf[node, EVALUATED] >= (period if inner else settings.grace_period):
            done = DONE
            if inner or (
                (settings.max_depth < 0 or links[node, DEPTH] < settings.max_depth)
                and nodes.counts[N_NODES] + 2 <= settings.max_nodes
            ):
                done = _try_test(node, nodes, fresh, layout, settings, scratch, progress)
            if done == GROW:
                return GROW
            leaf[node, EVALUATED] = leaf[node, SEEN]
            if done == SPLIT:
                return DONE
        if not inner:
            return DONE
        child = next_node(links, test, nodes.child_of_value, layout.n_values, settings.binary_splits, slab, r, node)
        node = child if child >= 0 else links[node, DEFAULT]


def _loop(*, binned: bool) -> Any:
    """The loop over a program, for leaves with histograms or with Gaussians."""

    @kernel
    def run(op, row, y, w, slab, out, progress, nodes, known, cache, layout, settings, period, scratch):
        """Execute a program from progress[NEXT] on. Mutates out, progress, nodes, known, cache and scratch.

        GROW: make room and call again. Where progress[LEARNED] is set, the operation has been learned but for splits on
        its path; else nothing of it has happened. O(depth d + d n_outputs) an operation, an evaluation of tests once a
        period.
        """
        links, test, weights, leaf, stats, child_of_value, counts = nodes
        n_values = layout.n_values
        n_seen = known.n_seen
        cached, fresh = cache
        binary = settings.binary_splits
        joint = scratch.joint
        n_classes = weights.shape[1]
        if progress[LEARNED] > 0:
            if _revise(row[progress[NEXT]], slab, nodes, fresh, layout, settings, period, scratch, progress) == GROW:
                return GROW
            progress[LEARNED] = 0
            progress[NEXT] += 1
        # The leaf and naive Bayes class of the row predicted last, while nothing was learned since.
        last_row = -1
        last_node = np.int32(0)
        last_best = -1
        last_scored = False
        for i in range(progress[NEXT], len(op)):
            r = row[i]
            if op[i] == PREDICT:
                node = route(links, test, child_of_value, n_values, binary, slab, r, 0)
                last_row = r
                if links[node, TEST] >= 0:
                    node = route_known(links, test, child_of_value, n_values, binary, slab, r, node)
                    last_row = -1  # learning it may open a branch
                last_node = node
                last_scored = False
                best = -1
                if settings.leaf_prediction == NB or (
                    settings.leaf_prediction == NBA and not leaf[node, MC_CORRECT] > leaf[node, NB_CORRECT]
                ):
                    if binned:
                        best = score_bins(stats[node], weights[node], n_seen, layout, slab, r, joint[0])
                    else:
                        best = score_leaf(stats, cached, fresh, node, weights, node, n_seen, layout, slab, r, joint)
                    last_best = best
                    last_scored = True
                if best < 0:
                    write_weights(weights[node], out, r)
                elif binned:
                    write_joint(joint[0], best, out, r)
                else:
                    write_weights(joint[0], out, r)
                continue
            if not (y[i] >= 0.0 and y[i] < n_classes and w[i] > 0.0 and w[i] < np.inf):
                continue
            c = int(y[i])
            if last_row == r:
                end = last_node
            else:
                last_scored = False
                end = route(links, test, child_of_value, n_values, binary, slab, r, 0)
                if links[end, TEST] >= 0 and counts[N_NODES] < settings.max_nodes:
                    end = try_branch(end, int(slab[r, links[end, TEST]]), nodes, fresh, progress)
                    if end < 0:
                        progress[NEXT] = i
                        return GROW
                elif links[end, TEST] >= 0:
                    end = route_known(links, test, child_of_value, n_values, binary, slab, r, end)
            last_row = -1
            if settings.leaf_prediction == NBA:
                majority = heaviest(weights[end])
                best = last_best
                if not last_scored:
                    if binned:
                        best = score_bins(stats[end], weights[end], n_seen, layout, slab, r, joint[0])
                    else:
                        best = score_leaf(stats, cached, fresh, end, weights, end, n_seen, layout, slab, r, joint)
                if best < 0:
                    best = majority
                if majority == c:
                    leaf[end, MC_CORRECT] += w[i]
                if best == c:
                    leaf[end, NB_CORRECT] += w[i]
            weights[end, c] += w[i]
            leaf[end, SEEN] += w[i]
            if binned:
                observe_bins(stats[end], known, layout, n_classes, slab, r, c, w[i])
            elif observe(
                stats[end], cached[end], fresh[end] == 1, known, layout, n_classes, slab, r, c, w[i], weights[end, c]
            ):
                fresh[:] = 0
            due = leaf[end, SEEN] - leaf[end, EVALUATED] >= settings.grace_period
            node = links[end, PARENT]
            while node >= 0:  # the leaf's ancestors are its path
                weights[node, c] += w[i]
                leaf[node, SEEN] += w[i]
                if binned:
                    observe_bins(stats[node], known, layout, n_classes, slab, r, c, w[i])
                else:
                    observe(
                        stats[node], cached[node], False, known, layout, n_classes, slab, r, c, w[i], weights[node, c]
                    )
                if leaf[node, SEEN] - leaf[node, EVALUATED] >= period:
                    due = True
                node = links[node, PARENT]
            if due and _revise(r, slab, nodes, fresh, layout, settings, period, scratch, progress) == GROW:
                progress[LEARNED] = 1
                progress[NEXT] = i
                return GROW
        return DONE

    return run


_run = _loop(binned=False)
_run_binned = _loop(binned=True)
