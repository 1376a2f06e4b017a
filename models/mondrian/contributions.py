"""What each feature adds to the prediction of a Mondrian forest, as kernels.

A node's value is what it says itself: the probability of a class, or its mean target. What a pruning that ends at some
node predicts is the root's value and all changes of the value on the way to that node (Saabas 2014). A tree predicts by
all its prunings, so a step from a node to its child counts as much as the prunings that end below the node:

    prediction = value of the root + sum over the steps of (weight of the prunings that go on) (change of the value)

Without aggregation, a value is what the hierarchy of processes says by the nodes down to there (`smoothing`); of a
regression the mean of the node.
"""

import math

import numpy as np

from models.kernel import kernel
from models.mondrian.nodes import (
    CLASSES,
    FEATURE,
    LEFT,
    NODES,
    ODDS,
    TIME,
    VALUES,
    WEIGHT,
    Instance,
    MondrianTree,
    child,
    distance,
    measure,
    take,
)
from models.mondrian.smoothing import PER_FEATURE, table
from models.mondrian.weights import pseudo_count, trust


@kernel(inline=True)
def _says(tree, settings, node, about, prior, prior_weight):
    """What a node says itself; of a class that its tree has not seen 0. O(1)."""
    if not settings.classes:
        return tree.nodes[node, VALUES]
    if VALUES + about >= tree.nodes.shape[1] or not tree.nodes[0, VALUES + about] > 0.0:
        return 0.0
    return (tree.nodes[node, VALUES + about] + prior) / (tree.nodes[node, WEIGHT] + prior_weight)


@kernel(inline=True)
def _by_prunings(tree, settings, one, about, share, added):
    """Add what a tree's features changed, and the value of its root in the last place. Mutates added. O(depth)."""
    links = tree.links
    prior = pseudo_count(settings, tree.counts[CLASSES]) if settings.classes else 0.0
    prior_weight = prior * tree.counts[CLASSES]
    node = np.uint64(0)
    here = _says(tree, settings, node, about, prior, prior_weight)
    added[len(added) - 1] += share * here
    while links[node, LEFT] > 0:
        f = links[node, FEATURE]
        if settings.aggregation:
            share *= 1.0 / (1.0 + tree.nodes[node, ODDS])
        node = child(tree, settings, node, np.uint64(links[node, LEFT]), one)
        there = _says(tree, settings, node, about, prior, prior_weight)
        added[f] += share * (there - here)
        here = there


@kernel(inline=True)
def _by_hierarchy(tree, settings, one, about, share, added):
    """As `_by_prunings`, of class probabilities without aggregation. Mutates added, the units of `one`. O(depth (d +
    n_outputs))."""
    nodes, links = tree.nodes, tree.links
    n_known = nodes.shape[1] - VALUES
    if about >= n_known or not nodes[0, VALUES + about] > 0.0:
        return
    measure(tree, settings, one)
    gamma = PER_FEATURE * len(one.x)
    above = 1.0 / tree.counts[CLASSES]
    said = 0.0
    together = 1.0
    birth = 0.0
    before = 0.0
    f = len(added) - 1
    node = np.uint64(0)
    while True:
        is_leaf = links[node, LEFT] == 0
        life = nodes[node, TIME] - birth
        rate = distance(tree, node, settings, one)
        n_seen = 0.0
        customers = 0.0
        tables = 0.0
        for c in range(n_known):
            if nodes[node, VALUES + c] > 0.0:
                n_seen += 1.0
            n = table(tree, node, c)
            customers += n
            tables += min(n, 1.0)
        if rate > 0.0 and life > 0.0:
            parted = 1.0 if is_leaf else -math.expm1(-life * rate)
            if parted > 0.0:
                discount = rate / (rate + gamma)
                if not is_leaf:
                    discount *= -math.expm1(-(rate + gamma) * life) / parted
                own = (1.0 - discount) / n_seen if nodes[node, VALUES + about] > 0.0 else 0.0
                said += together * parted * (own + discount * above)
                together *= 1.0 - parted
        discount = 0.0 if is_leaf else math.exp(-gamma * life)
        n = table(tree, node, about)
        above = (n - discount * min(n, 1.0) + discount * tables * above) / customers
        value = said + together * above
        added[f] += share * (value - before)
        before = value
        if is_leaf:
            return
        f = np.int64(links[node, FEATURE])
        birth = nodes[node, TIME]
        node = child(tree, settings, node, np.uint64(links[node, LEFT]), one)


@kernel(allocates=True)
def contribute(slab, rows, about, trees, settings, out):
    """Write what each feature adds to what the forest says, and in the last column the value of its roots.

    about : (n,) int64, the class of each instance, -1 of a target. out : (n, d + 1), NaN in the last column where
    nothing has been learned. Mutates out. O(n trees depth), without aggregation of classes (d + n_outputs) times it.
    """
    last = out.shape[1] - 1
    one = Instance(
        np.empty(slab.shape[1]),
        np.full(trees.boxes.shape[2], np.nan),
        np.empty(trees.seen.shape[2], np.uint64),
        np.empty(trees.boxes.shape[2]),
        np.empty(len(settings.layout.nominal)),
    )
    links = trees.tests.view(np.uint32)
    for i in range(len(rows)):
        for f in range(last + 1):
            out[i, f] = 0.0
    votes = 0.0
    for t in range(len(trees.counts)):
        if trees.counts[t, NODES] == 0:
            continue
        tree = MondrianTree(
            links[t],
            trees.tests[t],
            trees.nodes[t],
            trees.boxes[t],
            trees.seen[t],
            trees.pairs[t],
            trees.counts[t],
            trees.errors[t],
        )
        vote = trust(tree.errors, settings.vote_power) if settings.classes else 1.0
        votes += vote
        for i in range(len(rows)):
            take(slab, rows[i], settings, one)
            if settings.classes and not settings.aggregation:
                _by_hierarchy(tree, settings, one, about[i], vote, out[i])
            else:
                _by_prunings(tree, settings, one, about[i], vote, out[i])
    for i in range(len(rows)):
        for f in range(last + 1):
            out[i, f] /= votes if votes > 0.0 else 1.0
        if not votes > 0.0:
            out[i, last] = np.nan
