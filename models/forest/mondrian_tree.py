"""A Mondrian tree in arrays: how it grows with an instance, and how its prunings are weighed.

Growth: Lakshminarayanan, Roy and Teh 2014, Algorithms 3 and 4. A node is a box around all that it has seen, with a time
at which it is split. An instance outside the box of a node waits an exponential time, whose rate is its distance to the
box; if that is over before the node's own split, a new parent comes above the node and parts it from the instance. What
is left of an exponential time is one of the same rate, so one draw lasts for the whole path.

Distances are in units of each feature's range so far, which is the box of the root; a nominal feature's are 1 over the
number of its other values. Thresholds are values of features, so a range that grows moves none of them.

Weights: Mourtada, Gaïffas and Scornet 2021, section 3. Every pruning of the tree is an expert. Its prior is 1/2 for
each of its nodes that has children in the tree; context-tree weighting sums over all of them. Only the odds of each
node against its children are kept: the likelihood (to the power of the step) of what the node has predicted itself, to
that of what its children have predicted together. They are all that predictions need, are moved by one product a node,
and stay what they are when a subtree below goes.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.contract import Floats
from models.kernel import kernel

# Columns of `links`. FEATURE is -1 in a leaf; the right child follows the left one. PARENT: of a left child.
FEATURE, LEFT, PARENT = range(3)
# Columns of `nodes`, from VALUES on the weight of each class, or the mean target. TIME is that of the split, infinite
# in a leaf. THRESHOLD of a nominal feature is the value that goes left.
THRESHOLD, TIME, ODDS, WEIGHT, VALUES = range(5)
# Places in `counts`: nodes, labels learned, classes seen.
NODES, LEARNED, CLASSES = range(3)

LARGEST = 1e300  # the difference of two values is finite
LEAST_DISTANCE = 1e-15  # in ranges; below it lies rounding
LARGEST_ODDS = 1e100
LARGEST_LOSS = 300.0
TRIES = 16  # pairs of leaves of which one goes
DRAWS = 32  # random numbers a label and tree has to itself
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class MondrianTrees(NamedTuple):
    """m trees. links : (m, capacity, 3) int32, nodes : (m, capacity, VALUES + n_outputs) float64, see above.

    ranges : (m, capacity, 2, numeric features) float64, least and greatest value of a box, NaN where none is known.
    seen : (m, capacity, nominal features) uint64, bit v % 64 for each value v of a box. counts : (m, 3) int64.
    errors : (m, 2) float64, of a regression the sum of squared errors of a tree's predictions, and of the weights.
    """

    links: NDArray[np.int32]
    nodes: Floats
    ranges: Floats
    seen: NDArray[np.uint64]
    counts: NDArray[np.int64]
    errors: Floats


class MondrianSettings(NamedTuple):
    """The parameters, as kernels take them. numeric, nominal : int32, these features. n_values : (d,) int32.

    dirichlet : 0 for 1 over the classes seen. keys : (m,) uint64, of the random numbers of each tree.
    """

    numeric: NDArray[np.int32]
    nominal: NDArray[np.int32]
    n_values: NDArray[np.int32]
    keys: NDArray[np.uint64]
    max_nodes: int
    step: float
    dirichlet: float
    split_pure: bool
    classes: bool
    aggregation: bool


class Instance(NamedTuple):
    """Scratch: one instance as trees see it. x : (d,), NaN where missing. numbers : of the numeric features. bits : of
    the nominal ones, 0 where missing. per_range, per_value : what a distance of 1 is worth."""

    x: Floats
    numbers: Floats
    bits: NDArray[np.uint64]
    per_range: Floats
    per_value: Floats


@kernel(inline=True)
def _draw(key, i):
    """Number i >= 0 of a key, in [0, 1): splitmix64's, started at the key."""
    z = key + (np.uint64(i) + np.uint64(1)) * GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.float64((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel(inline=True)
def take(slab, r, settings, one):
    """Fill x, numbers and bits of `one` from a row. O(d)."""
    for g in range(len(settings.numeric)):
        f = settings.numeric[g]
        v = slab[r, f]
        if not abs(v) <= LARGEST:
            v = np.nan
        one.x[f] = v
        one.numbers[g] = v
    for g in range(len(settings.nominal)):
        f = settings.nominal[g]
        v = slab[r, f]
        if v >= 0.0 and v < settings.n_values[f]:
            one.x[f] = np.floor(v)
            one.bits[g] = np.uint64(1) << (np.uint64(v) & np.uint64(63))
        else:
            one.x[f] = np.nan
            one.bits[g] = np.uint64(0)


@kernel(inline=True)
def _per_range(low, high):
    width = high - low
    return 1.0 / width if width > 1.0 / LARGEST else 0.0


@kernel(inline=True)
def measure(ranges, seen, one):
    """The units of distances: of the box of the root, and of the instance in it. Mutates per_range, per_value. O(d)."""
    for g in range(len(one.numbers)):
        low = ranges[0, 0, g]
        high = ranges[0, 1, g]
        v = one.numbers[g]
        if v < low:
            low = v
        if v > high:
            high = v
        one.per_range[g] = _per_range(low, high)
    for g in range(len(one.bits)):
        values = seen[0, g] | one.bits[g]
        n = 0
        while values:
            values &= values - np.uint64(1)
            n += 1
        one.per_value[g] = 1.0 / (n - 1) if n > 1 else 0.0


@kernel(inline=True)
def distance(ranges, seen, node, one):
    """Of the instance to the box of a node: the sum over the features. A missing value, and a feature without a known
    value in the box, is no distance. O(d)."""
    total = 0.0
    for g in range(len(one.numbers)):
        v = one.numbers[g]
        below = ranges[node, 0, g] - v
        above = v - ranges[node, 1, g]
        beyond = below if below > above else above
        total += beyond * one.per_range[g] if beyond > 0.0 else 0.0
    for g in range(len(one.bits)):
        values = seen[node, g]
        if values and one.bits[g] and not (values & one.bits[g]):
            total += one.per_value[g]
    return total


@kernel(inline=True)
def child(links, nodes, settings, node, one):
    """The child that an instance goes to: the heavier one where its value is missing. O(1)."""
    f = links[node, FEATURE]
    left = links[node, LEFT]
    v = one.x[f]
    if v != v:
        return left if nodes[left, WEIGHT] >= nodes[left + 1, WEIGHT] else left + 1
    if settings.n_values[f] > 0:
        return left if v == nodes[node, THRESHOLD] else left + 1
    return left if v <= nodes[node, THRESHOLD] else left + 1


@kernel
def _choose(ranges, seen, node, one, u):
    """The feature that parts the instance from the box: u in [0, distance). Place among the numeric ones, or after
    these among the nominal ones. O(d)."""
    total = 0.0
    chosen = -1
    for g in range(len(one.numbers)):
        v = one.numbers[g]
        below = ranges[node, 0, g] - v
        above = v - ranges[node, 1, g]
        beyond = below if below > above else above
        if beyond > 0.0 and one.per_range[g] > 0.0:
            total += beyond * one.per_range[g]
            chosen = g
            if u < total:
                return chosen
    for g in range(len(one.bits)):
        values = seen[node, g]
        if values and one.bits[g] and not (values & one.bits[g]) and one.per_value[g] > 0.0:
            total += one.per_value[g]
            chosen = len(one.numbers) + g
            if u < total:
                return chosen
    return chosen  # rounding


@kernel
def _make_room(links, nodes, n, node, key, at):
    """Of TRIES pairs of leaves drawn, drop the one whose parent has the greatest odds; returns its place, or -1 where
    none was found. The pair of `node`, and its children, stay. Mutates links, nodes. O(TRIES)."""
    found = -1
    most = -1.0
    for i in range(TRIES):
        pair = 1 + 2 * np.int64(_draw(key, at + i) * ((n - 1) // 2))
        parent = links[pair, PARENT]
        if links[pair, FEATURE] >= 0 or links[pair + 1, FEATURE] >= 0:
            continue
        if pair == node or pair + 1 == node or parent == node:
            continue
        if nodes[parent, ODDS] > most:
            most = nodes[parent, ODDS]
            found = pair
    if found >= 0:
        parent = links[found, PARENT]
        links[parent, FEATURE] = -1
        nodes[parent, TIME] = np.inf
    return found


@kernel
def _part(links, nodes, ranges, seen, settings, node, pair, chosen, u, time, one):
    """Node `node` moves to `pair` or beside it, an empty leaf that is the instance's box takes the other place, and
    `node` becomes their parent. Returns the leaf. Mutates links, nodes, ranges, seen. O(d + n_outputs)."""
    n_numeric = len(one.numbers)
    right = False
    if chosen < n_numeric:
        f = settings.numeric[chosen]
        v = one.numbers[chosen]
        right = v > ranges[node, 1, chosen]
        if right:
            edge = ranges[node, 1, chosen]
            threshold = edge + u * (v - edge)
            if not threshold < v:
                threshold = edge
        else:
            edge = ranges[node, 0, chosen]
            threshold = v + u * (edge - v)
            if not threshold < edge:
                threshold = v
    else:
        f = settings.nominal[chosen - n_numeric]
        threshold = one.x[f]
    old = pair if right else pair + 1
    new = pair + 1 if right else pair
    links[old, FEATURE] = links[node, FEATURE]
    links[old, LEFT] = links[node, LEFT]
    links[new, FEATURE] = -1
    for i in range(nodes.shape[1]):
        nodes[old, i] = nodes[node, i]
        nodes[new, i] = 0.0
    nodes[new, TIME] = np.inf
    for g in range(n_numeric):
        ranges[old, 0, g] = ranges[node, 0, g]
        ranges[old, 1, g] = ranges[node, 1, g]
        ranges[new, 0, g] = one.numbers[g]
        ranges[new, 1, g] = one.numbers[g]
    for g in range(len(one.bits)):
        seen[old, g] = seen[node, g]
        seen[new, g] = one.bits[g]
    odds = 1.0
    if links[old, FEATURE] >= 0:
        links[links[old, LEFT], PARENT] = old
        # its own likelihood, to the sum of that over it and what is below
        odds = 2.0 * nodes[old, ODDS] / (1.0 + nodes[old, ODDS])
    links[pair, PARENT] = node
    links[node, FEATURE] = f
    links[node, LEFT] = pair
    nodes[node, THRESHOLD] = threshold
    nodes[node, TIME] = time
    nodes[node, ODDS] = odds
    return new


@kernel(inline=True)
def _take_in(nodes, ranges, seen, node, settings, one, y, w):
    """The instance into a node's box and values. Mutates nodes, ranges, seen. O(d)."""
    for g in range(len(one.numbers)):
        v = one.numbers[g]
        low = ranges[node, 0, g]
        high = ranges[node, 1, g]
        ranges[node, 0, g] = v if v < low or low != low else low
        ranges[node, 1, g] = v if v > high or high != high else high
    for g in range(len(one.bits)):
        seen[node, g] |= one.bits[g]
    nodes[node, WEIGHT] += w
    if settings.classes:
        nodes[node, VALUES + np.int64(y)] += w
    else:
        nodes[node, VALUES] += w / nodes[node, WEIGHT] * (y - nodes[node, VALUES])


@kernel(inline=True)
def pseudo_count(settings, n_classes):
    """Of each class that has been seen, in a node's probabilities."""
    return settings.dirichlet if settings.dirichlet > 0.0 else 1.0 / n_classes


@kernel(inline=True)
def _moved(odds, ratio):
    """Odds times a ratio, within bounds that keep products finite."""
    return min(max(odds * ratio, 1.0 / LARGEST_ODDS), LARGEST_ODDS)


@kernel(inline=True)
def _climb(nodes, path, said, depth, last, settings, y, w, errors):
    """Move the odds of a path, from its end to the root. O(depth).

    path : the nodes that had or now have children, root first. said : what each had predicted, of a classification the
    probability of y; `last` : the same of the leaf at the end, or NaN where it is new and has predicted nothing.
    """
    if settings.classes:
        power = settings.step * w
        below = 1.0 if last != last else last
        if power != 1.0:
            below = below**power
        for i in range(depth - 1, -1, -1):
            own = said[i] if power == 1.0 else said[i] ** power
            odds = nodes[path[i], ODDS]
            nodes[path[i], ODDS] = _moved(odds, own / below)
            # Above a new parent, odds are so far those with the node that it came above; of that one's likelihood, the
            # parent's is (odds own + below) / 2.
            below = (odds * own + below) / (2.0 if last != last and i == depth - 1 else 1.0 + odds)
        return
    variance = errors[0] / errors[1] if errors[1] > 0.0 else 0.0
    scale = settings.step * w / (2.0 * variance) if variance > 1.0 / LARGEST else 0.0
    new = last != last
    below = 0.0 if new else max(-scale * (y - last) ** 2, -LARGEST_LOSS)  # the logarithm of the likelihood
    together = y if new else last
    for i in range(depth - 1, -1, -1):
        own = max(-scale * (y - said[i]) ** 2, -LARGEST_LOSS)
        odds = nodes[path[i], ODDS]
        ratio = math.exp(own - below)
        nodes[path[i], ODDS] = _moved(odds, ratio)
        below += math.log((odds * ratio + 1.0) / (2.0 if new else 1.0 + odds))
        together = said[i] if new else (odds * said[i] + together) / (1.0 + odds)
        new = False
    errors[0] += w * (y - together) ** 2
    errors[1] += w


@kernel(inline=True)
def learn(links, nodes, ranges, seen, counts, errors, settings, key, one, path, said, y, w):
    """Learn the instance in `one`, label y of weight w > 0. There is room for two nodes, or max_nodes is reached: then
    two leaves go for each split. Mutates all but settings and key. O(d depth)."""
    n = counts[NODES]
    at = counts[LEARNED] * DRAWS
    counts[LEARNED] += 1
    if settings.classes and (n == 0 or nodes[0, VALUES + np.int64(y)] == 0.0):
        counts[CLASSES] += 1
    if n == 0:
        counts[NODES] = 1
        links[0, FEATURE] = -1
        nodes[0, TIME] = np.inf
        ranges[0] = np.nan
        _take_in(nodes, ranges, seen, 0, settings, one, y, w)
        return
    measure(ranges, seen, one)
    full = n + 2 > settings.max_nodes
    left = -math.log(1.0 - _draw(key, at))
    prior = pseudo_count(settings, counts[CLASSES])
    prior_weight = prior * counts[CLASSES]
    birth = 0.0
    node = 0
    depth = 0
    while True:
        weight = nodes[node, WEIGHT]
        is_leaf = links[node, FEATURE] < 0
        pure = False
        if settings.classes:
            own = nodes[node, VALUES + np.int64(y)]
            pure = own == weight and not settings.split_pure
            own = (own + prior) / (weight + prior_weight)
        else:
            own = nodes[node, VALUES]
        if not pure:
            rate = distance(ranges, seen, node, one)
            if rate > LEAST_DISTANCE:
                life = rate * (nodes[node, TIME] - birth)
                if left < life:
                    pair = _make_room(links, nodes, n, node, key, at + 3) if full else n
                    if pair >= 0:
                        is_leaf = False
                        chosen = _choose(ranges, seen, node, one, _draw(key, at + 1) * rate)
                        new = _part(
                            links, nodes, ranges, seen, settings, node, pair, chosen, _draw(key, at + 2),
                            birth + left / rate, one,
                        )  # fmt: skip
                        if not full:
                            counts[NODES] = n + 2
                        _take_in(nodes, ranges, seen, node, settings, one, y, w)
                        _take_in(nodes, ranges, seen, new, settings, one, y, w)
                        path[depth] = node
                        said[depth] = own
                        _climb(nodes, path, said, depth + 1, np.nan, settings, y, w, errors)
                        return
                    left = np.inf  # no leaves could go: nothing is split this time
                left -= life
        _take_in(nodes, ranges, seen, node, settings, one, y, w)
        if is_leaf:
            _climb(nodes, path, said, depth, own, settings, y, w, errors)
            return
        path[depth] = node
        said[depth] = own
        depth += 1
        birth = nodes[node, TIME]
        node = child(links, nodes, settings, node, one)


@kernel(inline=True)
def aggregate(links, nodes, counts, settings, one, vote):
    """Add to `vote` what all prunings of a tree say, by their weights: class probabilities, or a target. O(depth)."""
    n_outputs = nodes.shape[1] - VALUES
    prior = pseudo_count(settings, counts[CLASSES])
    prior_weight = prior * counts[CLASSES] if settings.classes else 0.0
    rest = 1.0
    spread = 0.0
    node = 0
    while True:
        is_leaf = links[node, FEATURE] < 0
        share = rest
        if not is_leaf:
            odds = nodes[node, ODDS]
            rest /= 1.0 + odds
            share = rest * odds
        if settings.classes:
            share /= nodes[node, WEIGHT] + prior_weight
            spread += share
        for c in range(n_outputs):
            vote[c] += share * nodes[node, VALUES + c]
        if is_leaf:
            break
        node = child(links, nodes, settings, node, one)
    if settings.classes:
        for c in range(n_outputs):
            if nodes[0, VALUES + c] > 0.0:
                vote[c] += spread * prior
