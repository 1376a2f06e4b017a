"""Where a soft Hoeffding tree grows: a leaf's statistics, the Hoeffding bound, and two new leaves with a gate.

Köbschall et al., Algorithms 1 and 2: an instance enters the statistics of the leaves that it reaches with a probability
above `min_reach`; after each grace period a leaf takes the best binary test if the Hoeffding bound separates it from
the next feature's, or from not splitting, or is below the tie threshold. Tests and their merit: models.hoeffding.split.

What follows a split is a choice, since the paper leaves it open:

- The linear form of the new gate starts as its test, softened: gamma times the (normalised) distance to the threshold,
  or +-gamma / 4 for a nominal value (at +-gamma / 2 it would never move: S' is 0 there). The paper's code draws it from
  U(-0.01, 0.01), which halves every instance until the gate has learned.
- The new leaves take over the vector and the moments of the old one and add the logarithm of how much more frequent
  each class is on their side. So the function stays what it was wherever the old leaf was not reached, and everywhere
  where both sides have the same classes. The paper's code sets them to the class counts scaled to norm 0.025, which
  forgets what the leaf had learned.
- Nothing else changes: Adam goes on everywhere, where the paper's code begins anew.
"""

import math

from models.hoeffding.split import FEATURE as BEST
from models.hoeffding.split import INFO_GAIN, MERIT, SECOND, best_split, branch
from models.hoeffding.split import VALUE as BEST_VALUE
from models.kernel import kernel
from models.soft.forest import (
    BLOCK,
    DEPTH,
    EVALUATED,
    FEATURE,
    FIRST,
    GATE,
    N_BLOCKS,
    N_GATES,
    N_NODES,
    PARENT,
    S_DEPTH,
    S_GAMMA,
    S_LOG_DELTA,
    S_TIE,
    SEEN,
    SHARE,
    VALUE,
    WEIGHT,
)
from models.soft.gates import normalised

N_SPLIT_POINTS = 10
MIN_BRANCH_FRACTION = 0.01


@kernel
def drop_block(links, blocks, owners, counts, block):
    """Give back a row of blocks; the last one takes its place. Mutates all."""
    last = counts[N_BLOCKS] - 1
    if block != last:
        for i in range(blocks.shape[1]):
            blocks[block, i] = blocks[last, i]
        owners[block] = owners[last]
        links[owners[block], BLOCK] = block
    blocks[last, :] = 0.0
    owners[last] = 0
    counts[N_BLOCKS] = last


@kernel
def soften(weights, encoding, scales, gamma, feature, value):
    """Make the linear form of a gate a soft version of its test. weights : (p,), all 0. Mutates weights."""
    place = encoding.place[feature]
    if encoding.n_values[feature] > 0:
        weights[place + int(value)] = 0.5 * gamma
        weights[encoding.bias[0]] = -0.25 * gamma
    else:
        weights[place] = -gamma
        weights[encoding.bias[0]] = gamma * normalised(value, scales, feature)


@kernel
def bear(forest, parent, child, side, post, passed, failed, n_present):
    """Make node `child` a leaf, from its parent, which was one, and the class weights post[side]. Mutates forest."""
    links, leaves = forest.links, forest.leaves
    links[child, :] = -1
    links[child, PARENT] = parent
    links[child, DEPTH] = links[parent, DEPTH] + 1
    for i in range(2):
        forest.powers[child, i] = forest.powers[parent, i]
    weight = passed if side == 0 else failed
    for c in range(leaves.shape[2]):
        for row in range(3):
            leaves[child, row, c] = leaves[parent, row, c]
        share = (post[0, c] + post[1, c]) / (passed + failed)
        if share > 0.0:  # smoothed by as many instances as classes, spread as on both sides
            leaves[child, WEIGHT, c] += math.log((post[side, c] / share + n_present) / (weight + n_present))


@kernel
def try_split(node, forest, encoding, scales, layout, settings, post, found):
    """Split leaf `node` if the bound allows it; there is room. Whether it was split.

    Mutates forest and scratch. O(d (n_split_points or V) k).
    """
    links, classes, blocks = forest.links, forest.classes, forest.blocks
    counts = forest.counts
    k = classes.shape[1]
    block = links[node, BLOCK]
    seen = forest.weights[node, SEEN]
    forest.weights[node, EVALUATED] = seen
    n_present = 0
    for c in range(k):
        if classes[node, c] > 0.0:
            n_present += 1
    if n_present < 2:
        return False
    best_split(blocks, layout, block, k, seen, N_SPLIT_POINTS, True, INFO_GAIN, MIN_BRANCH_FRACTION, post, found)
    if found[BEST] < 0.0:
        return False
    span = math.log(n_present) / math.log(2.0)
    bound = math.sqrt(span * span * settings[S_LOG_DELTA] / (2.0 * seen))
    if not (found[MERIT] - found[SECOND] > bound or bound < settings[S_TIE]):
        return False

    feature = int(found[BEST])
    branch(blocks, layout, block, k, feature, found[BEST_VALUE], True, post)
    passed = 0.0
    failed = 0.0
    for c in range(k):
        passed += post[0, c]
        failed += post[1, c]
    first = counts[N_NODES]
    gate = counts[N_GATES]
    links[node, FIRST] = first
    links[node, FEATURE] = feature
    links[node, GATE] = gate
    links[node, BLOCK] = -1
    forest.tests[node, VALUE] = found[BEST_VALUE]
    forest.tests[node, SHARE] = passed / (passed + failed)
    soften(forest.gates[gate, WEIGHT], encoding, scales, settings[S_GAMMA], feature, found[BEST_VALUE])
    for side in range(2):
        bear(forest, node, first + side, side, post, passed, failed, n_present)
    forest.powers[node, :] = 1.0
    blocks[block, :] = 0.0
    if links[first, DEPTH] < settings[S_DEPTH]:
        links[first, BLOCK] = block
        forest.owners[block] = first
        links[first + 1, BLOCK] = counts[N_BLOCKS]
        forest.owners[counts[N_BLOCKS]] = first + 1
        counts[N_BLOCKS] += 1
    else:
        drop_block(links, blocks, forest.owners, counts, block)
    counts[N_NODES] += 2
    counts[N_GATES] += 1
    return True
