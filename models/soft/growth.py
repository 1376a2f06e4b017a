"""Where a soft Hoeffding tree grows: a leaf's statistics, two tests of them, and two new leaves with a gate.

Köbschall et al., Algorithms 1 and 2: an instance enters the statistics of the leaves that it reaches with a probability
above `min_reach`; after each grace period a leaf takes the best binary test if the Hoeffding bound separates it from
the next feature's, or from not splitting, or is below the tie threshold.

- Classification: the merit of a test is its information gain, of at most log2(classes in the leaf) bits, the range R of
  the bound. Tests and merits: models.hoeffding.splitting.candidates.
- Regression (Section 6): the merit is the share of the targets' variance in the leaf that the test removes, R is 1.
  Tests are the keys of the bounded search trees of models.regression.observers.

The paper asks for no more; here the best test has to beat chance, too. Where nothing separates the classes, some test
still has a merit above 0, and a bound below the tie threshold lets it pass (5,000 instances of noise became 77 nodes).
The likelihood-ratio statistic of the two sides, 2 n ln(2) times the gain in bits (the G-test), or -n ln(1 - the share
of the variance), has to be above a quantile of chi-squared, with one degree of freedom less than there are classes, or
with one. It is that at the level `significance`, divided by the number of tests tried (Bonferroni). Level 1 asks for
nothing.

What follows a split is a choice, since the paper leaves it open:

- The linear form of the new gate starts as its test, softened: gamma times the (normalised) distance to the threshold,
  or +-gamma / 4 for a nominal value (at +-gamma / 2 it would never move: S' is 0 there). The paper's code draws it from
  U(-0.01, 0.01), which halves every instance until the gate has learned.
- The new leaves take over the vector and the moments of the old one and add the logarithm of how much more frequent
  each class is on their side, or how far the mean of the targets there is from that of both sides. So the function
  stays what it was wherever the old leaf was not reached, and everywhere where both sides have the same classes or the
  same mean. The paper's code sets them to the class counts scaled to norm 0.025, which forgets what the leaf had
  learned.
- Nothing else changes: Adam goes on everywhere, where the paper's code begins anew.
"""

import math

from riparian.models.hoeffding.splitting.candidates import FEATURE as BEST
from riparian.models.hoeffding.splitting.candidates import INFO_GAIN, MERIT, SECOND, best_split, branch
from riparian.models.hoeffding.splitting.candidates import VALUE as BEST_VALUE
from riparian.models.kernels.elementary import LN_2, log
from riparian.models.kernels.kernel import kernel
from riparian.models.regression.observers import MEAN_FALSE, MEAN_TRUE, N_FALSE, N_TRUE, divide
from riparian.models.soft.forest import (
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
    S_CRITICAL,
    S_DEPTH,
    S_GAMMA,
    S_LOG_DELTA,
    S_TIE,
    SEEN,
    SHARE,
    VALUE,
    WEIGHT,
)
from riparian.models.soft.passes.forward import normalised

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
def inherit(forest, parent, child):
    """Make node `child` a leaf like its parent, which was one. Mutates forest."""
    links, leaves = forest.links, forest.leaves
    links[child, :] = -1
    links[child, PARENT] = parent
    links[child, DEPTH] = links[parent, DEPTH] + 1
    for i in range(2):
        forest.powers[child, i] = forest.powers[parent, i]
    for row in range(3):
        for c in range(leaves.shape[2]):
            leaves[child, row, c] = leaves[parent, row, c]


@kernel
def add_log_ratios(leaves, child, side, post, passed, failed, n_present):
    """Add to the logits of a new leaf what its side, with the class weights post[side], predicts. Mutates leaves."""
    weight = passed if side == 0 else failed
    for c in range(leaves.shape[2]):
        share = (post[0, c] + post[1, c]) / (passed + failed)
        if share > 0.0:  # smoothed by as many instances as classes, spread as on both sides
            leaves[child, WEIGHT, c] += log((post[side, c] / share + n_present) / (weight + n_present))


@kernel
def open_gate(node, forest, encoding, scales, settings, feature, value, passed, failed):
    """Make leaf `node` an inner node with this test, over two leaves like it; the first of these. There is room.

    passed, failed : weight on both sides. Mutates forest.
    """
    links, blocks, counts = forest.links, forest.blocks, forest.counts
    block = links[node, BLOCK]
    first = counts[N_NODES]
    gate = counts[N_GATES]
    links[node, FIRST] = first
    links[node, FEATURE] = feature
    links[node, GATE] = gate
    links[node, BLOCK] = -1
    forest.tests[node, VALUE] = value
    forest.tests[node, SHARE] = passed / (passed + failed)
    soften(forest.gates[gate, WEIGHT], encoding, scales, settings[S_GAMMA], feature, value)
    for side in range(2):
        inherit(forest, node, first + side)
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
    forest.powers[node, :] = 1.0
    return first


@kernel
def decided(found, span, statistic, n_free, seen, settings):
    """Whether the best test is to be taken. found : of models.hoeffding.splitting.candidates. span : range of the
    merit. statistic : likelihood ratio of the best test, which in noise is chi-squared with n_free degrees of
    freedom."""
    bound = math.sqrt(span * span * settings[S_LOG_DELTA] / (2.0 * seen))
    if not (found[MERIT] - found[SECOND] > bound or bound < settings[S_TIE]):
        return False
    # The quantile of chi-squared (Wilson and Hilferty 1931) at the normal quantile S_CRITICAL, -inf at level 1.
    tail = 2.0 / (9.0 * n_free)
    root = 1.0 - tail + settings[S_CRITICAL] * math.sqrt(tail)
    return statistic > n_free * root * root * root


@kernel
def try_split(node, forest, encoding, scales, layout, settings, post, found):
    """Split leaf `node` of a classification if it is decided; there is room. Whether it was split.

    Mutates forest and scratch. O(d (n_split_points or V) k).
    """
    links, classes, blocks = forest.links, forest.classes, forest.blocks
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
    statistic = 2.0 * seen * found[MERIT] * LN_2
    if not decided(found, log(float(n_present)) / LN_2, statistic, n_present - 1.0, seen, settings):
        return False

    feature = int(found[BEST])
    branch(blocks, layout, block, k, feature, found[BEST_VALUE], True, post)
    passed = 0.0
    failed = 0.0
    for c in range(k):
        passed += post[0, c]
        failed += post[1, c]
    first = open_gate(node, forest, encoding, scales, settings, feature, found[BEST_VALUE], passed, failed)
    for side in range(2):
        add_log_ratios(forest.leaves, first + side, side, post, passed, failed, n_present)
    return True


@kernel(inline=True)
def squares_within(n, total, squares):
    """The sum of squared deviations from the mean of targets with these sums; one that is all rounding is 0."""
    if not n > 0.0:
        return 0.0
    within = squares - total * total / n
    return within if within > 1e-12 * squares else 0.0


@kernel
def best_value_test(block, layout, seen, found):
    """Fill in `found` as models.hoeffding.splitting.candidates.best_split does, with the test that leaves the least
    variance.

    The merit of a test is the share of the targets' variance that it removes, times the share of the weight `seen`
    whose value is known. Ties go to the first. O(d (n_bins or V)).
    """
    found[BEST] = -1.0
    found[MERIT] = 0.0
    found[SECOND] = 0.0
    for f in range(len(layout.n_values)):
        n_values = layout.n_values[f]
        n_candidates = n_values if n_values > 0 else int(block[layout.offset[f]])
        keys = layout.offset[f] + 1
        sums = layout.offset[f] if n_values > 0 else keys + layout.bins[0]
        n = 0.0
        total = 0.0
        squares = 0.0
        for i in range(n_candidates):
            n += block[sums + 3 * i]
            total += block[sums + 3 * i + 1]
            squares += block[sums + 3 * i + 2]
        whole = squares_within(n, total, squares)
        if not whole > 0.0:
            continue
        least = MIN_BRANCH_FRACTION * n
        known = min(1.0, n / seen)
        best = 0.0
        best_value = 0.0
        n_true = 0.0
        total_true = 0.0
        squares_true = 0.0
        for i in range(n_candidates):
            if n_values > 0:
                n_true = 0.0
                total_true = 0.0
                squares_true = 0.0
            n_true += block[sums + 3 * i]
            total_true += block[sums + 3 * i + 1]
            squares_true += block[sums + 3 * i + 2]
            if not (n_true > least and n - n_true > least):
                continue
            within = squares_within(n_true, total_true, squares_true)
            within += squares_within(n - n_true, total - total_true, squares - squares_true)
            gain = known * (1.0 - within / whole)
            if gain > best:
                best = gain
                best_value = float(i) if n_values > 0 else block[keys + i]
        if best > found[MERIT]:
            found[SECOND] = found[MERIT]
            found[BEST] = f
            found[BEST_VALUE] = best_value
            found[MERIT] = best
        elif best > found[SECOND]:
            found[SECOND] = best


@kernel
def try_split_values(node, forest, encoding, scales, layout, settings, deviation, found, sides):
    """Split leaf `node` of a regression if it is decided; there is room. Whether it was split.

    layout : of models.regression.observers. deviation : of all targets. Mutates forest and scratch. O(d (n_bins or V)).
    """
    block = forest.blocks[forest.links[node, BLOCK]]
    seen = forest.weights[node, SEEN]
    forest.weights[node, EVALUATED] = seen
    best_value_test(block, layout, seen, found)
    if found[BEST] < 0.0 or not deviation > 0.0:
        return False
    merit = found[MERIT]
    statistic = -seen * log(1.0 - merit) if merit < 1.0 else math.inf
    if not decided(found, 1.0, statistic, 1.0, seen, settings):
        return False
    feature = int(found[BEST])
    divide(block, layout, feature, found[BEST_VALUE], sides)
    n_true, n_false = sides[N_TRUE], sides[N_FALSE]
    mean = (n_true * sides[MEAN_TRUE] + n_false * sides[MEAN_FALSE]) / (n_true + n_false)
    # as if each side had one target more, of the mean of both
    true_above = n_true / (n_true + 1.0) * (sides[MEAN_TRUE] - mean) / deviation
    false_above = n_false / (n_false + 1.0) * (sides[MEAN_FALSE] - mean) / deviation
    first = open_gate(node, forest, encoding, scales, settings, feature, found[BEST_VALUE], n_true, n_false)
    forest.leaves[first, WEIGHT, 0] += true_above
    forest.leaves[first + 1, WEIGHT, 0] += false_above
    return True
