"""How the prunings of a Mondrian tree are weighed, and what they predict together.

Mourtada, Gaïffas and Scornet 2021, section 3. Every pruning of the tree is an expert. Its prior is 1/2 for each of its
nodes that has children in the tree; context-tree weighting sums over all of them. Only the odds of each node against
its children are kept: the likelihood (to the power of the step) of what the node has predicted itself, to that of what
its children have predicted together. They are all that predictions need, are moved by one product a node, and stay what
they are when a subtree below goes.
"""

import numpy as np

from riparian.models.kernels.ahead import fetch
from riparian.models.kernels.elementary import exp, log
from riparian.models.kernels.elementary import power as powered
from riparian.models.kernels.kernel import kernel
from riparian.models.mondrian.nodes import CLASSES, CLOSABLE, LARGEST, LEFT, ODDS, VALUES, WEIGHT, child
from riparian.models.running_scale import held

LARGEST_ODDS = 1e100
LARGEST_LOSS = 300.0


@kernel(inline=True)
def pseudo_count(settings, n_classes):
    """Of each class that has been seen, in a node's probabilities."""
    return settings.dirichlet if settings.dirichlet > 0.0 else 1.0 / n_classes


@kernel(inline=True)
def probabilities(tree, settings, one, y, prior, prior_weight):
    """Of class y: what the leaf of an instance predicts, and what all prunings of the tree predict together. Asks for
    the boxes on its way, as `fetch_way` does: the instance is learned next. O(depth)."""
    nodes, links = tree.nodes, tree.links
    rest = 1.0
    together = 0.0
    node = np.uint64(0)
    while True:
        fetch(tree.boxes, node)
        fetch(tree.seen, node)
        own = (nodes[node, VALUES + y] + prior) / (nodes[node, WEIGHT] + prior_weight)
        children = links[node, LEFT]
        if children == 0:
            return own, together + rest * own
        odds = nodes[node, ODDS]
        rest *= 1.0 / (1.0 + odds)
        together += rest * odds * own
        node = child(tree, settings, node, np.uint64(children), one)


@kernel(inline=True)
def fetch_way(tree, settings, one):
    """Ask for the boxes of all nodes on the way of an instance, which it is measured against next: they come while the
    way goes on. O(depth)."""
    node = np.uint64(0)
    while True:
        fetch(tree.boxes, node)
        fetch(tree.seen, node)
        children = tree.links[node, LEFT]
        if children == 0:
            return
        node = child(tree, settings, node, np.uint64(children), one)


@kernel(inline=True)
def trust(errors, power):
    """The weight of a tree in a vote of classes: the mean probability that it gave to labels, lately more, to a power.
    Before any, one half counts twice."""
    mean = (errors[0] + 1.0) / (errors[1] + 2.0)
    weight = 1.0
    for _ in range(power):
        weight *= mean
    return weight


@kernel(inline=True)
def _moved(odds, ratio):
    """Odds times a ratio, within bounds that keep products finite."""
    return min(max(odds * ratio, 1.0 / LARGEST_ODDS), LARGEST_ODDS)


@kernel(inline=True)
def climb(tree, path, voted, depth, last, settings, y, w):
    """Move the odds of a path, from its end to the root. Mutates the tree. O(depth).

    path : the nodes that had or now have children, root first. voted : what each had predicted, of a classification the
    probability of y; `last` : the same of the leaf at the end, or NaN where it is new and has predicted nothing.
    """
    nodes, errors = tree.nodes, tree.errors
    new = last != last
    if settings.classes:
        power = settings.step * w
        below = 1.0 if new else last
        if power != 1.0:
            below = powered(below, power)
        for i in range(depth - 1, -1, -1):
            own = voted[i] if power == 1.0 else powered(voted[i], power)
            odds = nodes[path[i], ODDS]
            nodes[path[i], ODDS] = _moved(odds, own / below)
            # Above a new parent, odds are so far those with the node that it came above; of that one's likelihood, the
            # parent's is (odds own + below) / 2.
            below = (odds * own + below) * (0.5 if new else 1.0 / (1.0 + odds))
            new = False
    else:
        variance = errors[0] / errors[1] if errors[1] > 0.0 else 0.0
        scale = settings.step * w / (2.0 * variance) if variance > 1.0 / LARGEST else 0.0
        below = 0.0 if new else max(-scale * (y - last) ** 2, -LARGEST_LOSS)  # the logarithm of the likelihood
        together = y if new else last
        for i in range(depth - 1, -1, -1):
            own = max(-scale * (y - voted[i]) ** 2, -LARGEST_LOSS)
            odds = nodes[path[i], ODDS]
            ratio = exp(own - below)
            nodes[path[i], ODDS] = _moved(odds, ratio)
            below += log((odds * ratio + 1.0) / (2.0 if new else 1.0 + odds))
            together = voted[i] if new else (odds * voted[i] + together) / (1.0 + odds)
            new = False
        square = (y - together) ** 2
        errors[0] += w * (held(square, variance, errors[1]) if errors[1] > 0.0 else square)
        errors[1] += w
    if depth > 0:
        end = path[depth - 1]
        pair = (np.int64(tree.links[end, LEFT]) - 1) // 2
        if tree.pairs[pair, CLOSABLE] >= 0.0:
            tree.pairs[pair, CLOSABLE] = nodes[end, ODDS]


@kernel(inline=True)
def aggregate(tree, settings, one, vote):
    """Add to `vote` what all prunings of a tree predict, by their weights: class probabilities, or a target.
    O(depth)."""
    nodes, links = tree.nodes, tree.links
    prior = pseudo_count(settings, tree.counts[CLASSES])
    prior_weight = prior * tree.counts[CLASSES] if settings.classes else 0.0
    n_known = min(len(vote), nodes.shape[1] - VALUES)
    rest = 1.0
    spread = 0.0
    node = np.uint64(0)
    while True:
        children = links[node, LEFT]
        share = rest
        if children > 0:
            odds = nodes[node, ODDS]
            rest *= 1.0 / (1.0 + odds)
            share = rest * odds
        if settings.classes:
            share /= nodes[node, WEIGHT] + prior_weight
            spread += share
        for c in range(n_known):
            vote[c] += share * nodes[node, VALUES + c]
        if children == 0:
            break
        node = child(tree, settings, node, np.uint64(children), one)
    if settings.classes:
        for c in range(n_known):
            if nodes[0, VALUES + c] > 0.0:
                vote[c] += spread * prior
