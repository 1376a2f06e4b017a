"""How a leaf grows: its split, once the bound allows it, and which leaves may observe where not all may.

Domingos and Hulten 2000, section 3, bound memory: the least promising leaves are deactivated. They lose their
statistics, predict their majority class and only count; a more promising one takes the place of the poorest that
observes. The promise of a leaf is the weight there that its majority class does not have: the paper's probability of
reaching the leaf times the error there, and MOA's measure. Leaves are ranked whenever a split or a new branch made one
too many, and whenever the grace period of a leaf without statistics ends (MOA: at splits, and every so many instances).
"""

import numpy as np

from riparian.models.hoeffding.nodes import (
    BLOCK,
    DEEPEST,
    DEFAULT,
    DEPTH,
    EVALUATED,
    FIRST,
    MAP,
    MC_CORRECT,
    N_BLOCKS,
    N_LEAVES,
    N_MAP,
    N_MAPPED,
    N_NODES,
    NB_CORRECT,
    NEED_BLOCKS,
    NEED_MAPPED,
    NEED_NODES,
    PARENT,
    SEEN,
    TEST,
    UNOBSERVED,
)
from riparian.models.hoeffding.splitting.bounds import may_win
from riparian.models.hoeffding.splitting.candidates import (
    FEATURE,
    INFO_GAIN,
    MERIT,
    SECOND,
    VALUE,
    best_split,
    branch,
    hoeffding_bound,
)
from riparian.models.kernels.kernel import DONE, GROW, kernel


@kernel(inline=True)
def may_grow(node, nodes, settings):
    """Whether the bounds let leaf `node` have two children."""
    if settings.max_depth >= 0 and nodes.links[node, DEPTH] >= settings.max_depth:
        return False
    if settings.max_leaves >= 0 and nodes.counts[N_LEAVES] + 1 > settings.max_leaves:
        return False
    return nodes.counts[N_NODES] + 2 <= settings.max_nodes


@kernel
def try_split(node, nodes, fresh, layout, settings, post, found, progress):
    """Split leaf `node` if the bound allows it. GROW, with nothing changed, where there is no room for its children.

    Mutates nodes, fresh, progress and scratch. O(d (n_split_points, n_bins or V) n_outputs).
    """
    links = nodes.links
    block = links[node, BLOCK]
    n_classes = nodes.weights.shape[1]
    bound = hoeffding_bound(nodes.weights[node], settings)
    if bound < 0.0:
        return DONE
    seen = nodes.leaf[node, SEEN]
    if nodes.leaf.shape[1] > UNOBSERVED:
        seen -= nodes.leaf[node, UNOBSERVED]
    if (
        settings.criterion == INFO_GAIN
        and layout.bins[0] == 0
        and bound >= settings.tie_threshold
        and not may_win(
            nodes.stats[block], layout, n_classes, seen, settings.n_split_points, settings.binary_splits,
            settings.min_branch_fraction, bound,
        )
    ):  # fmt: skip
        return DONE
    best_split(
        nodes.stats, layout, block, n_classes, seen, settings.n_split_points, settings.binary_splits,
        settings.criterion, settings.min_branch_fraction, post, found,
    )  # fmt: skip
    if found[FEATURE] < 0.0:
        return DONE
    if not (found[MERIT] - found[SECOND] > bound or bound < settings.tie_threshold):
        return DONE

    feature = int(found[FEATURE])
    n_branches = branch(nodes.stats, layout, block, n_classes, feature, found[VALUE], settings.binary_splits, post)
    mapped = layout.n_values[feature] > 0 and not settings.binary_splits
    n_children = 0
    n_map = 0
    default = 0
    most = -1.0
    for j in range(n_branches):
        weight = 0.0
        for c in range(n_classes):
            weight += post[j, c]
        if mapped and weight == 0.0:
            continue
        if weight > most:
            most = weight
            default = n_children
        if mapped:
            n_map = j + 1
            for c in range(n_classes):  # in place: n_children <= j
                post[n_children, c] = post[j, c]
        n_children += 1
    n_nodes = nodes.counts[N_NODES]
    n_blocks = nodes.counts[N_BLOCKS]
    n_mapped = nodes.counts[N_MAPPED]
    if n_nodes + n_children > settings.max_nodes:
        return DONE
    if settings.max_leaves >= 0 and nodes.counts[N_LEAVES] + n_children - 1 > settings.max_leaves:
        return DONE
    progress[NEED_NODES] = n_nodes + n_children
    progress[NEED_BLOCKS] = n_blocks + n_children - 1
    progress[NEED_MAPPED] = n_mapped + n_map
    if (
        progress[NEED_NODES] > len(links)
        or progress[NEED_BLOCKS] > len(nodes.stats)
        or progress[NEED_MAPPED] > len(nodes.child_of_value)
    ):
        return GROW

    links[node, TEST] = feature
    links[node, FIRST] = n_nodes
    links[node, DEFAULT] = n_nodes + default
    links[node, MAP] = n_mapped if mapped else 0
    links[node, N_MAP] = n_map
    links[node, BLOCK] = -1
    nodes.test[node] = 0.0 if mapped else found[VALUE]
    child = n_nodes
    i = np.int64(layout.offset[feature])
    for v in range(n_map):
        weight = 0.0
        for c in range(n_classes):
            weight += nodes.stats[block, i + (1 + v) * n_classes + c]
        nodes.child_of_value[n_mapped + v] = child if weight > 0.0 else -1
        if weight > 0.0:
            child += 1
    for j in range(n_children):
        child = n_nodes + j
        for c in range(n_classes):
            nodes.weights[child, c] = post[j, c]
        links[child, TEST] = -1
        links[child, PARENT] = node
        links[child, DEPTH] = links[node, DEPTH] + 1
        links[child, BLOCK] = block if j == 0 else n_blocks + j - 1
    nodes.stats[block, :] = 0.0
    fresh[block] = 0
    nodes.counts[N_NODES] = n_nodes + n_children
    nodes.counts[N_BLOCKS] = n_blocks + n_children - 1
    nodes.counts[N_MAPPED] = n_mapped + n_map
    nodes.counts[N_LEAVES] += n_children - 1
    nodes.counts[DEEPEST] = max(nodes.counts[DEEPEST], links[node, DEPTH] + 1)
    if settings.max_active_leaves >= 0:
        rank_leaves(nodes, fresh, settings)
    return DONE


@kernel
def promise(node, nodes):
    """Weight of the classes of a leaf that its majority class does not have."""
    total = 0.0
    most = 0.0
    for c in range(nodes.weights.shape[1]):
        total += nodes.weights[node, c]
        most = max(most, nodes.weights[node, c])
    return total - most


@kernel
def rank_leaves(nodes, fresh, settings):
    """See to it that at most max_active_leaves have statistics and that these are the most promising ones. Ties: newer
    leaves are deactivated first, older ones activated first, and equals do not change places. Mutates nodes, fresh.
    O(n_nodes) for each leaf that changes.
    """
    links = nodes.links
    while True:
        poorest = -1
        best = -1
        low = 0.0
        high = 0.0
        for node in range(nodes.counts[N_NODES]):
            if links[node, TEST] >= 0:
                continue
            value = promise(node, nodes)
            if links[node, BLOCK] >= 0:
                if poorest < 0 or value <= low:
                    poorest = node
                    low = value
            elif best < 0 or value > high:
                best = node
                high = value
        if nodes.counts[N_BLOCKS] > settings.max_active_leaves:
            drop_block(poorest, nodes, fresh)
        elif best >= 0 and high > low:
            links[best, BLOCK] = links[poorest, BLOCK]
            links[poorest, BLOCK] = -1
            nodes.stats[links[best, BLOCK], :] = 0.0
            fresh[links[best, BLOCK]] = 0
            for column in (EVALUATED, UNOBSERVED):
                nodes.leaf[best, column] = nodes.leaf[best, SEEN]
            for column in (MC_CORRECT, NB_CORRECT):
                nodes.leaf[best, column] = 0.0
        else:
            return


@kernel
def drop_block(node, nodes, fresh):
    """Take away the block of a leaf; the last block moves there, so that none is unused. Mutates nodes, fresh."""
    links = nodes.links
    block = links[node, BLOCK]
    last = nodes.counts[N_BLOCKS] - 1
    links[node, BLOCK] = -1
    if block != last:
        for other in range(nodes.counts[N_NODES]):
            if links[other, BLOCK] == last:
                links[other, BLOCK] = block
        for i in range(nodes.stats.shape[1]):
            nodes.stats[block, i] = nodes.stats[last, i]
    nodes.stats[last, :] = 0.0
    fresh[block] = 0
    fresh[last] = 0
    nodes.counts[N_BLOCKS] = last
