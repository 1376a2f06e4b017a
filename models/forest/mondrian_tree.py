"""How a Mondrian tree grows with an instance.

Lakshminarayanan, Roy and Teh 2014, Algorithms 3 and 4. A node is a box around all that it has seen, with a time at
which it is split. An instance outside the box of a node waits an exponential time, whose rate is its distance to the
box; if that is over before the node's own split, a new parent comes above the node and parts it from the instance. What
is left of an exponential time is one of the same rate, so one draw lasts for the whole path.
"""

import math

import numpy as np

from models.ensemble.draws import uniform_at
from models.forest.mondrian_nodes import (
    CLASSES,
    FEATURE,
    LEARNED,
    LEFT,
    NODES,
    ODDS,
    PARENT,
    THRESHOLD,
    TIME,
    VALUES,
    WEIGHT,
    child,
    distance,
    measure,
)
from models.forest.mondrian_weights import climb, pseudo_count
from models.kernel import kernel

LEAST_DISTANCE = 1e-15  # in ranges; below it lies rounding
TRIES = 16  # pairs of leaves of which one goes
DRAWS = 32  # random numbers a label and tree has to itself


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
        pair = 1 + 2 * np.int64(uniform_at(key, at + i) * ((n - 1) // 2))
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
    left = -math.log(1.0 - uniform_at(key, at))
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
                        chosen = _choose(ranges, seen, node, one, uniform_at(key, at + 1) * rate)
                        new = _part(
                            links, nodes, ranges, seen, settings, node, pair, chosen, uniform_at(key, at + 2),
                            birth + left / rate, one,
                        )  # fmt: skip
                        if not full:
                            counts[NODES] = n + 2
                        _take_in(nodes, ranges, seen, node, settings, one, y, w)
                        _take_in(nodes, ranges, seen, new, settings, one, y, w)
                        path[depth] = node
                        said[depth] = own
                        climb(nodes, path, said, depth + 1, np.nan, settings, y, w, errors)
                        return
                    left = np.inf  # no leaves could go: nothing is split this time
                left -= life
        _take_in(nodes, ranges, seen, node, settings, one, y, w)
        if is_leaf:
            climb(nodes, path, said, depth, own, settings, y, w, errors)
            return
        path[depth] = node
        said[depth] = own
        depth += 1
        birth = nodes[node, TIME]
        node = child(links, nodes, settings, node, one)
