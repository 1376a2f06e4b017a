"""How a Mondrian tree grows with an instance.

Lakshminarayanan, Roy and Teh 2014, Algorithms 3 and 4. A node is a box around all that it has seen, with a time at
which it is split. An instance outside the box of a node waits an exponential time, whose rate is its distance to the
box; if that is over before the node's own split, a new parent comes above the node and parts it from the instance. What
is left of an exponential time is one of the same rate, so one draw lasts for the whole path.
"""

import numpy as np

from riparian.models.kernels.draws import uniform_at
from riparian.models.kernels.elementary import log
from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.simd import load, spread, store, where_less
from riparian.models.kernels.words import zeros_below
from riparian.models.mondrian.nodes import (
    CLASSES,
    CLOSABLE,
    FEATURE,
    FORMER,
    FOUR,
    LEARNED,
    LEFT,
    NODES,
    ODDS,
    PARENT,
    THRESHOLD,
    TIME,
    VALUES,
    WEIGHT,
    WORD,
    beyond,
    child,
    distance,
)
from riparian.models.mondrian.weights import climb, fetch_way, probabilities, pseudo_count

LEAST_DISTANCE = 1e-15  # least distance, in ranges; below it lies rounding
LEAST_SHARE = 1e-12  # least share of a leaf's weight; below it lies rounding
TRIES = 16  # pairs of leaves of which one goes
DRAWS = 32  # random numbers a label and tree has to itself
SHRINKING = 1 << 62  # the first of the random numbers by which a tree shrinks
FADING = 0.999  # share of a tree's record that a label leaves


@kernel
def _choose(tree, node, settings, one, u):
    """What parts the instance from the box: u in [0, distance). The side of a numeric feature, or after these the place
    of a nominal one. O(d)."""
    layout = settings.layout
    total = 0.0
    chosen = -1
    for i in range(len(one.sides)):
        d = beyond(tree, node, one, i)
        if d > 0.0:
            total += d
            chosen = i
            if u < total:
                return chosen
    for i in range(len(one.words)):
        seen = tree.seen[node, i]
        new = one.words[i] & ~seen
        while new:
            g = layout.owner[WORD * i + zeros_below(new)]
            new &= new - np.uint64(1)
            if seen & layout.mask[g] and one.unit[g] > 0.0:
                total += one.unit[g]
                chosen = len(one.sides) + g
                if u < total:
                    return chosen
    return chosen  # rounding


@kernel
def _make_room(tree, n, node, key, at):
    """Of TRIES pairs of leaves drawn, drop the one whose parent has the greatest odds; returns its place, or -1 where
    none was found. The pair of `node`, and its children, stay. Mutates the tree. O(TRIES + d).

    The box of the new leaf is begun anew: it was nearly as wide as its cell, and what is in a box parts no leaf.
    """
    found = -1
    most = -1.0
    own = (node - 1) // 2
    for i in range(TRIES):
        pair = np.int64(uniform_at(key, at + i) * ((n - 1) // 2))
        odds = tree.pairs[pair, CLOSABLE]
        if odds > most and pair != own and tree.pairs[pair, PARENT] != node:
            most = odds
            found = pair
    if found < 0:
        return -1
    parent = np.int64(tree.pairs[found, PARENT])
    tree.links[parent, LEFT] = 0
    tree.nodes[parent, TIME] = np.inf
    tree.nodes[parent, FORMER] = tree.nodes[parent, WEIGHT]
    for i in range(tree.boxes.shape[1]):
        tree.boxes[parent, i] = np.nan
    for i in range(tree.seen.shape[1]):
        tree.seen[parent, i] = 0
    if parent > 0:
        above = (parent - 1) // 2
        if tree.links[1 + 2 * above, LEFT] == 0 and tree.links[2 + 2 * above, LEFT] == 0:
            tree.pairs[above, CLOSABLE] = tree.nodes[np.int64(tree.pairs[above, PARENT]), ODDS]
    return 1 + 2 * found


@kernel
def _move(tree, node, place):
    """What a node is, to another place, too; its children have their parent there. Mutates the tree. O(d +
    n_outputs)."""
    for i in range(tree.tests.shape[1]):
        tree.tests[place, i] = tree.tests[node, i]
    for i in range(tree.nodes.shape[1]):
        tree.nodes[place, i] = tree.nodes[node, i]
    for i in range(tree.boxes.shape[1]):
        tree.boxes[place, i] = tree.boxes[node, i]
    for i in range(tree.seen.shape[1]):
        tree.seen[place, i] = tree.seen[node, i]
    if tree.links[place, LEFT] > 0:
        tree.pairs[(np.int64(tree.links[place, LEFT]) - 1) // 2, PARENT] = place


@kernel
def shrink(tree, most, key):
    """Drop pairs of leaves until a tree has `most` nodes, >= 3; the last pair moves to each place that is free. Mutates
    the tree. O(TRIES + d) a pair."""
    at = SHRINKING
    while tree.counts[NODES] > most:
        n = tree.counts[NODES]
        place = _make_room(tree, n, -1, key, at)
        at += TRIES
        if place < 0:
            continue
        last = n - 2
        if place < last:
            _move(tree, last, place)
            _move(tree, last + 1, place + 1)
            above, moved = (place - 1) // 2, (last - 1) // 2
            tree.pairs[above, PARENT] = tree.pairs[moved, PARENT]
            tree.pairs[above, CLOSABLE] = tree.pairs[moved, CLOSABLE]
            tree.links[np.int64(tree.pairs[above, PARENT]), LEFT] = place
        tree.counts[NODES] = last


@kernel
def _forget(tree, leaf, settings):
    """Scale the weights of a leaf to what came since its children went: its box holds no more. Mutates the tree.
    O(n_outputs)."""
    nodes = tree.nodes
    if nodes[leaf, FORMER] > 0.0:
        share = max((nodes[leaf, WEIGHT] - nodes[leaf, FORMER]) / nodes[leaf, WEIGHT], LEAST_SHARE)
        nodes[leaf, WEIGHT] *= share
        if settings.classes:
            for i in range(VALUES, nodes.shape[1]):
                nodes[leaf, i] *= share
        nodes[leaf, FORMER] = 0.0


@kernel
def _part(tree, settings, node, pair, chosen, u, time, one):
    """Node `node` moves to `pair` or beside it, an empty leaf that is the instance's box takes the other place, and
    `node` becomes their parent. Returns the leaf. Mutates the tree. O(d + n_outputs)."""
    layout = settings.layout
    n_sides = len(one.sides)
    right = False
    if chosen < n_sides:
        f = layout.numeric[chosen // 2]
        v = one.x[f]
        right = chosen % 2 == 1
        if right:
            edge = -tree.boxes[node, chosen]
            threshold = edge + u * (v - edge)
            if not threshold < v:
                threshold = edge
        else:
            edge = tree.boxes[node, chosen]
            threshold = v + u * (edge - v)
            if not threshold < edge:
                threshold = v
    else:
        f = layout.nominal[chosen - n_sides]
        threshold = one.x[f]
    old = pair if right else pair + 1
    new = pair + 1 if right else pair
    is_leaf = tree.links[node, LEFT] == 0
    _move(tree, node, old)
    for i in range(tree.nodes.shape[1]):
        tree.nodes[new, i] = 0.0
    for i in range(2):
        tree.tests[new, i] = 0.0  # a leaf
    tree.nodes[new, TIME] = np.inf
    for i in range(n_sides):
        tree.boxes[new, i] = one.sides[i]
    for i in range(len(one.words)):
        tree.seen[new, i] = one.words[i]
    odds = 1.0
    if is_leaf:
        _forget(tree, old, settings)
    else:
        # its own likelihood, to the sum of that over it and what is below
        odds = 2.0 * tree.nodes[old, ODDS] / (1.0 + tree.nodes[old, ODDS])
    tree.pairs[(pair - 1) // 2, PARENT] = node
    tree.pairs[(pair - 1) // 2, CLOSABLE] = odds if is_leaf else -1.0
    if is_leaf and node > 0:
        tree.pairs[(node - 1) // 2, CLOSABLE] = -1.0
    tree.links[node, FEATURE] = f
    tree.links[node, LEFT] = pair
    tree.tests[node, THRESHOLD] = threshold
    tree.nodes[node, TIME] = time
    tree.nodes[node, ODDS] = odds
    return new


@kernel(inline=True)
def _take_in(tree, node, settings, one, y, w):
    """The instance into a node's box and values. Mutates the tree. O(d)."""
    box = tree.boxes[node]
    for i in range(np.uint64(0), np.uint64(len(one.sides)), FOUR):
        side, v = load(box, i), load(one.sides, i)
        known = where_less(side, spread(np.inf), side, v)  # NaN where neither is
        store(box, i, where_less(v, side, v, known))
    for i in range(len(one.words)):
        tree.seen[node, i] |= one.words[i]
    tree.nodes[node, WEIGHT] += w
    if settings.classes:
        tree.nodes[node, VALUES + np.int64(y)] += w
    else:
        tree.nodes[node, VALUES] += w / tree.nodes[node, WEIGHT] * (y - tree.nodes[node, VALUES])


@kernel(inline=True)
def plant(tree, settings, one, y, w):
    """The first instance of a tree makes its root. Mutates the tree."""
    tree.counts[NODES] = 1
    tree.counts[LEARNED] += 1
    tree.counts[CLASSES] += settings.classes
    tree.nodes[0, TIME] = np.inf
    for i in range(len(one.sides)):
        tree.boxes[0, i] = np.nan
    _take_in(tree, np.uint64(0), settings, one, y, w)


@kernel(inline=True)
def learn(tree, settings, most, key, one, path, voted, y, w):
    """Learn the instance in `one`, whose units are those of the root's box with it, label y of weight w > 0. There is
    room for two nodes, or the tree has as many as it may, `most`: then two leaves go for each split. Mutates the tree.
    O(d depth)."""
    n = tree.counts[NODES]
    at = tree.counts[LEARNED] * DRAWS
    tree.counts[LEARNED] += 1
    if settings.classes and tree.nodes[0, VALUES + np.int64(y)] == 0.0:
        tree.counts[CLASSES] += 1
    full = n + 2 > most
    left = -log(1.0 - uniform_at(key, at))
    prior = pseudo_count(settings, tree.counts[CLASSES])
    prior_weight = prior * tree.counts[CLASSES]
    certain = False  # then nothing is split
    if settings.classes and (settings.split_below < 1.0 or settings.vote_power > 0):
        of_leaf, of_tree = probabilities(tree, settings, one, np.int64(y), prior, prior_weight)
        certain = of_leaf >= settings.split_below and not settings.split_pure
        tree.errors[0] = FADING * tree.errors[0] + w * (of_tree if settings.aggregation else of_leaf)
        tree.errors[1] = FADING * tree.errors[1] + w
    elif not settings.classes:
        fetch_way(tree, settings, one)
    birth = 0.0
    node = np.uint64(0)
    depth = 0
    while True:
        weight = tree.nodes[node, WEIGHT]
        children = tree.links[node, LEFT]
        following = node
        if children > 0:
            following = child(tree, settings, node, np.uint64(children), one)
        pure = certain
        if settings.classes:
            own = tree.nodes[node, VALUES + np.int64(y)]
            pure = pure or (own == weight and not settings.split_pure)
            own = (own + prior) / (weight + prior_weight)
        else:
            own = tree.nodes[node, VALUES]
        if not pure:
            rate = distance(tree, node, settings, one)
            if rate > LEAST_DISTANCE:
                life = rate * (tree.nodes[node, TIME] - birth)
                if left < life:
                    pair = _make_room(tree, n, np.int64(node), key, at + 3) if full else n
                    if pair >= 0:
                        chosen = _choose(tree, node, settings, one, uniform_at(key, at + 1) * rate)
                        new = _part(
                            tree,
                            settings,
                            np.int64(node),
                            pair,
                            chosen,
                            uniform_at(key, at + 2),
                            birth + left / rate,
                            one,
                        )
                        if not full:
                            tree.counts[NODES] = n + 2
                        _take_in(tree, node, settings, one, y, w)
                        _take_in(tree, np.uint64(new), settings, one, y, w)
                        path[depth] = node
                        voted[depth] = own
                        climb(tree, path, voted, depth + 1, np.nan, settings, y, w)
                        return
                    left = np.inf  # no leaves could go: nothing is split this time
                left -= life
        _take_in(tree, node, settings, one, y, w)
        if children == 0:
            climb(tree, path, voted, depth, own, settings, y, w)
            return
        path[depth] = node
        voted[depth] = own
        depth += 1
        birth = tree.nodes[node, TIME]
        node = following
