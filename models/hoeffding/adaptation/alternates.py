"""Alternate trees of the Hoeffding adaptive tree: how they begin, take the place of a node, or end.

Kernels over the rows of models.hoeffding.mutable_tree, with a window of errors
(models.hoeffding.adaptation.error_window) for each. A row that died is zero in `windows` as well.
"""

import math
from typing import NamedTuple

import numpy as np

from riparian.models.hoeffding.adaptation.error_window import SMALLEST_WINDOW, WIDTH, error_rate
from riparian.models.hoeffding.mutable_tree import (
    ALTERNATE,
    DEPTH,
    FIRST_DEAD,
    MAP,
    N_MAP,
    PARENT,
    SPLIT,
    TEST,
    free_below,
    free_chain,
    free_row,
    pack_maps,
    split_node,
    take_row,
)
from riparian.models.hoeffding.nodes import SEEN
from riparian.models.hoeffding.splitting.candidates import FEATURE, MERIT, SECOND, VALUE, best_split, hoeffding_bound
from riparian.models.kernels.kernel import DONE, kernel
from riparian.models.kernels.randomness import uniform

UNDECIDED, REPLACED, ABANDONED = 0, 1, 2


class AlternateSettings(NamedTuple):
    """The parameters of adaptation, as kernels take them.

    detect : whether errors are watched.
    delta : of ADWIN.
    log_switch : log(2 / delta) of the comparison.
    least_width : predictions that both windows hold before.
    early : whether alternate trees predict before they win.
    bootstrap : whether leaves learn with weights drawn.
    """

    detect: bool
    delta: float
    log_switch: float
    least_width: int
    early: bool
    bootstrap: bool


@kernel
def plant(node, nodes, windows, fresh):
    """An empty alternate tree for `node`; there must be room. One that it has dies. Mutates nodes, windows, fresh."""
    if nodes.links[node, ALTERNATE] >= 0:
        abandon(node, nodes, windows)
    nodes.links[node, ALTERNATE] = take_row(node, nodes.links[node, DEPTH], nodes, fresh)


@kernel
def abandon(node, nodes, windows):
    """The alternate tree of `node` dies. Mutates nodes, windows. O(n_rows)."""
    alternate = nodes.links[node, ALTERNATE]
    nodes.links[node, ALTERNATE] = -1
    nodes.links[alternate, PARENT] = -1
    n = free_chain(alternate, nodes)
    pack_maps(nodes)
    _clear(n, nodes, windows)


@kernel(inline=True)
def copy_row(array, to, of):
    """Row `to` of `array` becomes as row `of`. As slices, it would count references."""
    for i in range(array.shape[1]):
        array[to, i] = array[of, i]


@kernel
def replace(node, nodes, windows, fresh):
    """The alternate tree of `node` takes its place, what was below dies; the row stays. Mutates all. O(n_rows)."""
    links = nodes.links
    _clear(free_below(node, nodes), nodes, windows)
    alternate = links[node, ALTERNATE]
    parent = links[node, PARENT]
    copy_row(links, node, alternate)
    links[node, PARENT] = parent
    nodes.test[node] = nodes.test[alternate]
    copy_row(nodes.weights, node, alternate)
    copy_row(nodes.leaf, node, alternate)
    copy_row(nodes.stats, node, alternate)
    copy_row(windows, node, alternate)
    if links[node, TEST] < 0 and (parent < 0 or links[parent, ALTERNATE] != node):
        windows[node, :] = 0  # a leaf that nobody watches now
    fresh[node] = 0
    for v in range(links[node, N_MAP]):
        child = nodes.child_of_value[links[node, MAP] + v]
        if child >= 0:
            links[child, PARENT] = node
    if links[node, ALTERNATE] >= 0:
        links[links[node, ALTERNATE], PARENT] = node
    links[alternate, N_MAP] = 0  # the node's now
    free_row(alternate, nodes)
    windows[alternate, :] = 0
    pack_maps(nodes)


@kernel
def _clear(n, nodes, windows):
    """Zero the windows of the n rows that died last. Mutates windows."""
    row = nodes.counts[FIRST_DEAD]
    for _ in range(n):
        windows[row, :] = 0
        row = np.int64(nodes.links[row, PARENT])


@kernel
def decide(node, nodes, windows, fresh, watch):
    """Compare the errors of `node` and its alternate tree: REPLACED, ABANDONED, or UNDECIDED with nothing changed.

    The difference of the rates is held against sqrt(2 e (1 - e) log(2 / delta) (1 / m + 1 / n)), with e the node's rate
    and m, n the widths. Mutates nodes, windows, fresh.
    """
    alternate = nodes.links[node, ALTERNATE]
    if windows[node, WIDTH] < watch.least_width or windows[alternate, WIDTH] < watch.least_width:
        return UNDECIDED
    rate = error_rate(windows[node])
    difference = rate - error_rate(windows[alternate])
    inverse = 1.0 / windows[alternate, WIDTH] + 1.0 / windows[node, WIDTH]
    bound = math.sqrt(2.0 * rate * (1.0 - rate) * watch.log_switch * inverse)
    if difference > bound:
        replace(node, nodes, windows, fresh)
        return REPLACED
    if -difference > bound:
        abandon(node, nodes, windows)
        return ABANDONED
    return UNDECIDED


@kernel
def try_split(node, nodes, windows, fresh, layout, settings, scratch, progress):
    """Split leaf `node` if the bound shows that its best test is best, as models.hoeffding.hoeffding_tree does.

    SPLIT, DONE or GROW as models.hoeffding.mutable_tree.split_node. The node's own statistics and errors are forgotten:
    a subtree is watched from its beginning. O(d (n_split_points or V) n_outputs).
    """
    bound = hoeffding_bound(nodes.weights[node], settings)
    if bound < 0.0:
        return DONE
    found = scratch.found
    best_split(
        nodes.stats, layout, node, nodes.weights.shape[1], nodes.leaf[node, SEEN], settings.n_split_points,
        settings.binary_splits, settings.criterion, settings.min_branch_fraction, scratch.post, found,
    )  # fmt: skip
    if found[FEATURE] < 0.0 or not (found[MERIT] - found[SECOND] > bound or bound < settings.tie_threshold):
        return DONE
    feature = np.int64(found[FEATURE])
    done = split_node(node, feature, found[VALUE], nodes, fresh, layout, settings, scratch.post, progress)
    if done == SPLIT:
        nodes.stats[node, :] = 0.0
        fresh[node] = 0
        windows[node, :] = 0
    return done


@kernel
def draw_weight(random):
    """A Poisson(1) number, 1 instead of 0, by multiplying uniforms. Mutates random."""
    n = 0
    product = uniform(random)
    while product > 0.36787944117144233:  # 1 / e
        product *= uniform(random)
        n += 1
    return float(max(1, n))


@kernel(inline=True)
def errs_less(windows, alternate, node):
    """Whether the alternate tree of `node` has erred less than it so far, in a window that is long enough."""
    if windows[alternate, WIDTH] <= SMALLEST_WINDOW:
        return False
    return error_rate(windows[alternate]) < error_rate(windows[node])
