"""What a Mondrian tree predicts without aggregation.

Lakshminarayanan, Roy and Teh 2014, sections 4 and 5: class probabilities of a node are a normalised stable process
around those of its parent, by interpolated Kneser-Ney; the longer an edge lasts, the less a node is like its parent. An
instance outside the box of a node may be parted from it by a split that has not been seen, and gets the mean over that.
The counts that the paper keeps apart follow from the class weights of a node and its children.

Of a regression it is the mean of the leaf.
"""

import numpy as np

from riparian.models.kernels.elementary import exp, expm1
from riparian.models.kernels.kernel import kernel
from riparian.models.mondrian.nodes import CLASSES, LEFT, TIME, VALUES, child, distance, measure

PER_FEATURE = 10.0  # gamma, as in all experiments of the paper


@kernel
def table(tree, node, c):
    """The customers of class c at a node: in an inner node, 1 for each child that has seen it. O(1)."""
    if tree.links[node, LEFT] == 0:
        return tree.nodes[node, VALUES + c]
    left = np.int64(tree.links[node, LEFT])
    n = 1.0 if tree.nodes[left, VALUES + c] > 0.0 else 0.0
    return n + 1.0 if tree.nodes[left + 1, VALUES + c] > 0.0 else n


@kernel
def smooth(tree, settings, one, above, here, vote):
    """Add to `vote` (n_outputs,) what a tree predicts of the instance: Algorithm 8. Mutates vote, the units of `one`,
    and the scratch above, here: (n_outputs,). O(depth (d + n_outputs))."""
    nodes, links = tree.nodes, tree.links
    n_outputs = min(len(vote), nodes.shape[1] - VALUES)
    node = np.uint64(0)
    if not settings.classes:
        while links[node, LEFT] > 0:
            node = child(tree, settings, node, np.uint64(links[node, LEFT]), one)
        vote[0] += nodes[node, VALUES]
        return
    measure(tree, settings, one)
    gamma = PER_FEATURE * len(one.x)
    for c in range(n_outputs):
        above[c] = 1.0 / tree.counts[CLASSES] if nodes[0, VALUES + c] > 0.0 else 0.0
    together = 1.0  # the probability of not being parted further up
    birth = 0.0
    while True:
        is_leaf = links[node, LEFT] == 0
        life = nodes[node, TIME] - birth
        rate = distance(tree, node, settings, one)
        parted = 0.0
        if rate > 0.0 and life > 0.0:
            parted = 1.0 if is_leaf else -expm1(-life * rate)
        if parted > 0.0:
            discount = rate / (rate + gamma)
            if not is_leaf:
                discount *= -expm1(-(rate + gamma) * life) / parted
            n_seen = 0.0
            for c in range(n_outputs):
                if nodes[node, VALUES + c] > 0.0:
                    n_seen += 1.0
            for c in range(n_outputs):
                own = (1.0 - discount) / n_seen if nodes[node, VALUES + c] > 0.0 else 0.0
                vote[c] += together * parted * (own + discount * above[c])
            together *= 1.0 - parted
        discount = 0.0 if is_leaf else exp(-gamma * life)
        customers = 0.0
        tables = 0.0
        for c in range(n_outputs):
            n = table(tree, node, c)
            customers += n
            tables += min(n, 1.0)
        for c in range(n_outputs):
            n = table(tree, node, c)
            here[c] = (n - discount * min(n, 1.0) + discount * tables * above[c]) / customers
        if is_leaf:
            for c in range(n_outputs):
                vote[c] += together * here[c]
            return
        for c in range(n_outputs):
            above[c] = here[c]
        birth = nodes[node, TIME]
        node = child(tree, settings, node, np.uint64(links[node, LEFT]), one)
