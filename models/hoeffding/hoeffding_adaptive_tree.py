"""The Hoeffding adaptive tree: where the errors of a subtree rise, another one grows beside it, and may replace it.

Bifet and Gavaldà 2009 (HAT-ADWIN), with the choices of MOA's implementation where the paper is silent. Every inner node
watches the errors made below it with ADWIN (models.hoeffding.adaptation.error_window). A rise plants an alternate tree,
an empty leaf at first, that learns every instance which reaches the node. Once both windows are long enough, the
alternate tree takes the node's place if it errs less by the bound, and dies if it errs more. Alternate trees are trees
of the same kind: their nodes have alternate trees as well. How those begin and end:
models.hoeffding.adaptation.alternates.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import PREDICT, Floats, Program, Schema
from riparian.models.hoeffding.adaptation.alternates import (
    REPLACED,
    AlternateSettings,
    decide,
    draw_weight,
    errs_less,
    plant,
    try_split,
)
from riparian.models.hoeffding.adaptation.error_window import ERRORS, ROW, WIDTH, add_error, cut, error_rate
from riparian.models.hoeffding.entries import HOEFFDING_ADAPTIVE_TREE
from riparian.models.hoeffding.mutable_tree import (
    ALTERNATE,
    DEFAULT,
    DEPTH,
    N_NODES,
    N_ROWS,
    NEED_MAPPED,
    NEED_ROWS,
    NEXT,
    PARENT,
    TEST,
    MutableNodes,
    MutableTree,
    has_room,
    next_node,
    route,
    route_known,
    try_branch,
)
from riparian.models.hoeffding.nodes import EVALUATED, MC_CORRECT, NB_CORRECT, SEEN
from riparian.models.hoeffding.parameters import MC, NB, NBA
from riparian.models.joined import enlarge, joined
from riparian.models.kernels.elementary import logs
from riparian.models.kernels.kernel import DONE, GROW, kernel
from riparian.models.kernels.randomness import seeded
from riparian.models.observers.gaussians import heaviest, observe, write_weights
from riparian.models.observers.likelihood import score_leaf

# Further places in `progress`: trees of the next operation that have not learned it yet, 0 where it has not begun, and
# the leaf whose split waits for room, -1 for none.
PENDING, WAITING = 4, 5


# Everything the tree knows: MutableNodes as far as they are used, SeenValues, and
# windows : (n_rows, 193) int32, errors of inner nodes and of the roots of alternate trees.
# random : (4,) uint64.
HoeffdingAdaptiveTreeState = joined(
    "HoeffdingAdaptiveTreeState", MutableNodes._fields, ("windows", "random", "values", "n_values")
)


class AdaptivePaths(NamedTuple):
    """Scratch of one learning operation.

    pending : (n_rows,) int32, roots of trees that have not learned it yet, 2 row, + 1 in an alternate tree.
    path : (n_rows,) int32, from a leaf up.
    """

    pending: NDArray[np.int32]
    path: NDArray[np.int32]


class HoeffdingAdaptiveTree(MutableTree):
    """Hoeffding tree that watches its errors and replaces subtrees which have become worse than new ones.

    Missing values, values without a branch, labels and weights that teach nothing: as in the Hoeffding tree. Every
    instance that is learned counts as one error or none, whatever its weight.

    Memory is bounded by `max_nodes` and the schema, as in the Hoeffding tree, with 772 bytes more a node for errors.
    Alternate trees count, and a quarter of the nodes is kept for them, so that a tree which has grown up to its bound
    still adapts. At the bound leaves do not split any more and no alternate tree begins, until one ends.

    `early_prediction` is by more than 10 predictions, though the bound does not show yet that the tree errs less: on
    elec it is worth a point. `bootstrap` draws as MOA does.

    Notes
    -----
    A rise is a cut of ADWIN after which the window's error rate is higher. It also ends an alternate tree that is under
    way: that one may stem from another concept. A subtree's window begins when its root is split, that of an alternate
    tree at once; other leaves have none.

    Deviations from MOA: an alternate tree that errs more dies (there it lives on if it has been split); in predictions
    the better one of a node and its alternate tree counts (there alternate trees add their votes to the tree's, which
    are not normalised); statistics in the leaves are not windows, in MOA as here, though the paper's are.

    Examples
    --------
    >>> learner = HoeffdingAdaptiveTree(Schema((0, 2), 2, "classification"), grace_period=50)
    >>> x = np.random.default_rng(1).random((6000, 2)).round()
    >>> learner.learn_many(x, np.r_[x[:3000, 1], 1 - x[3000:, 1]])
    >>> learner.predict_many([[0.0, 1.0]]).tolist()
    [[1.0, 0.0]]
    """

    entry = HOEFFDING_ADAPTIVE_TREE

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        self._windows = np.zeros((1, ROW), np.int32)
        super().__init__(schema, seed=seed, **parameters)
        p = self._parameters
        self._random = seeded(seed)
        self._watch = AlternateSettings(
            p["alternate_trees"],
            p["drift_delta"],
            float(logs(2.0 / p["switch_delta"])),
            p["least_window"],
            p["early_prediction"],
            p["bootstrap"],
        )
        kept = p["max_nodes"] // 4 if p["alternate_trees"] else 0
        self._main = self._settings._replace(max_nodes=p["max_nodes"] - kept)

    def _prepare(self) -> None:
        super()._prepare()
        n_rows = len(self._nodes.stats)
        self._places = AdaptivePaths(np.zeros(n_rows, np.int32), np.zeros(n_rows, np.int32))

    def _grow(self, n_rows: int, n_mapped: int) -> None:
        super()._grow(n_rows, n_mapped)
        self._windows = enlarge(self._windows, n_rows)
        self._places = AdaptivePaths(enlarge(self._places.pending, n_rows), enlarge(self._places.path, n_rows))

    def run(self, program: Program, slab: Floats, out: Floats) -> None:
        progress = np.array([0, 0, 0, 0, 0, -1], np.int64)
        while (
            _run(
                program.op, program.row, program.y, program.w, slab, out, progress,
                self._nodes, self._windows, self._random, self._known, self._cache, self._layout,
                self._settings, self._main, self._watch, self._scratch, self._places,
            ) == GROW
        ):  # fmt: skip
            self._grow(int(progress[NEED_ROWS]), int(progress[NEED_MAPPED]))

    def state(self) -> Any:
        used = self._used()
        return HoeffdingAdaptiveTreeState(
            *used, self._windows[: used.counts[N_ROWS]], self._random, self._known.values, self._known.n_seen
        )

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super().restore(state)
        self._windows = np.array(state["windows"], np.int32, order="C")
        self._random = np.array(state["random"], np.uint64)

    def describe(self) -> list[dict[str, Any]]:
        """Describe the nodes (MutableTree.describe). A node with an alternate tree names its root under "alternate";
        that has the node as its parent, and neither its weight nor its value are part of the node's. Nodes that are
        watched: "error_rate".
        """
        described = self._described_below(0)
        for node in described:  # which grows
            if "alternate" in node:
                beside = self._described_below(node["alternate"])
                down = node["depth"] + 1 - beside[0]["depth"]
                described += [other | {"depth": other["depth"] + down} for other in beside]
        return described

    def _more(self, node: int) -> dict[str, Any]:
        window = self._windows[node]
        more = {"error_rate": float(window[ERRORS] / window[WIDTH])} if window[WIDTH] else {}
        alternate = int(self._nodes.links[node, ALTERNATE])
        return more | ({"alternate": alternate} if alternate >= 0 else {})


@kernel(inline=True)
def _learn(r, c, w, at, best, slab, nodes, windows, random, known, cache, layout, settings, main, watch, scratch,
           places, progress):  # fmt: skip
    """Have the tree, and the alternate trees on the way, learn row r of class c: `progress` marks which still have to.

    at, best : the leaf of the row in the whole tree and its naive Bayes class, or -1 and -2 where they are not known.
    GROW: make room and call again. Mutates nodes, windows, random, known, cache, scratch, places, progress.
    """
    links, test, weights, leaf, stats, child_of_value, counts = nodes
    n_values = layout.n_values
    cached, fresh = cache
    binary = settings.binary_splits
    n_classes = weights.shape[1]
    pending, path = places
    while True:
        if progress[WAITING] >= 0:
            node = np.int32(progress[WAITING] >> 1)
            growing = settings if progress[WAITING] & 1 else main
            if try_split(node, nodes, windows, fresh, layout, growing, scratch, progress) == GROW:
                return GROW
            progress[WAITING] = -1
        if progress[PENDING] == 0:
            return DONE
        beside = pending[progress[PENDING] - 1] & 1
        root = pending[progress[PENDING] - 1] >> 1
        growing = settings if beside else main
        # To the leaf, where a value that has no branch gets one.
        end = np.int32(at)
        if at < 0:
            best = -2
            end = route(links, test, child_of_value, n_values, binary, slab, r, root)
            if links[end, TEST] >= 0 and counts[N_NODES] < growing.max_nodes:
                end = try_branch(end, int(slab[r, links[end, TEST]]), nodes, fresh, progress)
                if end < 0:
                    return GROW
            elif links[end, TEST] >= 0:
                end = route_known(links, test, child_of_value, n_values, binary, slab, r, end)
        at = np.int32(-1)
        # Every inner node on the way may get an alternate tree, as far as max_nodes allows.
        n_new = min(links[end, DEPTH] - links[root, DEPTH], settings.max_nodes - counts[N_NODES])
        if n_new > 0 and not has_room(n_new, 0, nodes, progress):
            return GROW
        progress[PENDING] -= 1
        # What the leaf predicts.
        majority = heaviest(weights[end])
        predicted = majority
        if settings.leaf_prediction != MC:
            if best == -2:
                best = score_leaf(stats, cached, fresh, end, weights, end, known.n_seen, layout, slab, r, scratch.joint)
            if best < 0:
                best = majority
            if settings.leaf_prediction == NB or not leaf[end, MC_CORRECT] > leaf[end, NB_CORRECT]:
                predicted = best
        # Errors on the path, from the root on.
        n = 0
        node = end
        while node != root:
            path[n] = node
            n += 1
            node = links[node, PARENT]
        path[n] = root
        error = 0 if predicted == c else 1
        replaced = False
        for j in range(n, -1, -1):
            node = path[j]
            inner = links[node, TEST] >= 0
            if inner:
                leaf[node, SEEN] += w
            elif not beside or links[links[node, PARENT], ALTERNATE] != node:
                break
            if not watch.detect:
                continue
            before = error_rate(windows[node])
            rise = False
            if add_error(windows[node], error) and cut(windows[node], watch.delta):
                rise = error_rate(windows[node]) > before
            if not inner:
                break
            if rise and counts[N_NODES] < settings.max_nodes:
                plant(node, nodes, windows, fresh)
            elif links[node, ALTERNATE] >= 0 and decide(node, nodes, windows, fresh, watch) == REPLACED:
                pending[progress[PENDING]] = 2 * node + beside
                progress[PENDING] += 1
                replaced = True
                break
            if links[node, ALTERNATE] >= 0:
                pending[progress[PENDING]] = 2 * links[node, ALTERNATE] + 1
                progress[PENDING] += 1
        if replaced:  # what has taken the place learns, not what has died
            continue
        # The leaf.
        weight = w
        if watch.bootstrap:
            weight *= draw_weight(random)
        if settings.leaf_prediction == NBA:
            if majority == c:
                leaf[end, MC_CORRECT] += weight
            if best == c:
                leaf[end, NB_CORRECT] += weight
        weights[end, c] += weight
        leaf[end, SEEN] += weight
        if observe(
            stats[end], cached[end], fresh[end] == 1, known, layout, n_classes, slab, r, c, weight, weights[end, c]
        ):
            fresh[:] = 0
        seen = leaf[end, SEEN]
        if seen - leaf[end, EVALUATED] >= settings.grace_period:
            leaf[end, EVALUATED] = seen
            if (settings.max_depth < 0 or links[end, DEPTH] < settings.max_depth) and (
                counts[N_NODES] + 2 <= growing.max_nodes
            ):
                progress[WAITING] = 2 * end + beside


@kernel
def _run(op, row, y, w, slab, out, progress, nodes, windows, random, known, cache, layout, settings, main, watch,
         scratch, places):  # fmt: skip
    """Execute a program from progress[NEXT] on. Mutates out, progress, nodes, windows, random, known, cache, scratch.

    GROW: make room and call again; `progress` and `places` hold how far the next operation has come.
    O(depth + d n_outputs) an operation and tree, a split attempt once in a grace period.
    """
    links, test, weights, leaf, stats, child_of_value, _ = nodes
    n_values = layout.n_values
    cached, fresh = cache
    binary = settings.binary_splits
    joint = scratch.joint
    # The leaf and naive Bayes class (-2: not known) of the row predicted last, while nothing was learned since.
    last_row = -1
    last_node = np.int32(0)
    last_best = -2
    for i in range(progress[NEXT], len(op)):
        r = row[i]
        if op[i] == PREDICT:
            last_row = r
            node = np.int32(0)
            while links[node, TEST] >= 0:
                child = links[node, ALTERNATE]
                if child >= 0 and watch.early and errs_less(windows, child, node):
                    last_row = -1  # another leaf learns it
                else:
                    child = next_node(links, test, child_of_value, n_values, binary, slab, r, node)
                    if child < 0:
                        last_row = -1  # learning it may open a branch
                        child = links[node, DEFAULT]
                node = child
            last_node = node
            last_best = -2
            best = -1
            if settings.leaf_prediction == NB or (
                settings.leaf_prediction == NBA and not leaf[node, MC_CORRECT] > leaf[node, NB_CORRECT]
            ):
                best = score_leaf(stats, cached, fresh, node, weights, node, known.n_seen, layout, slab, r, joint)
                last_best = best
            if best >= 0:
                write_weights(joint[0], out, r)
            else:
                write_weights(weights[node], out, r)
            continue
        if not (y[i] >= 0.0 and y[i] < weights.shape[1] and w[i] > 0.0 and w[i] < np.inf):
            continue
        if progress[PENDING] == 0 and progress[WAITING] < 0:
            places.pending[0] = 0
            progress[PENDING] = 1
        at = last_node if last_row == r else np.int32(-1)
        last_row = -1
        if _learn(
            r, int(y[i]), w[i], at, last_best, slab, nodes, windows, random, known, cache, layout, settings, main,
            watch, scratch, places, progress,
        ) == GROW:  # fmt: skip
            progress[NEXT] = i
            return GROW
    return DONE
