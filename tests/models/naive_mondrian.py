"""Mondrian forests with objects and recursion, straight from the papers; weights are kept as logarithms.

Only the random numbers and the choice of leaves that go at the bound are those of the kernels, so that trees come out
the same.
"""

import math

from riparian.models.kernels import elementary
from riparian.models.kernels.randomness import seeded
from tests.models.naive_running_scale import held

MASK = (1 << 64) - 1
TRIES, DRAWS = 16, 32
SHRINKING = 1 << 62


def draw(key, i):
    z = (key + (i + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return ((z ^ (z >> 31)) >> 11) / 2.0**53


class Node:
    """box : feature -> [least, greatest], or the set of values. own, below : logarithms of the likelihood of what the
    node has said, and of what its children have said together."""

    def __init__(self):
        self.box = {}
        self.weight = 0.0
        self.former = 0.0  # weight when the children went
        self.shares = {}
        self.mean = 0.0
        self.test = None
        self.time = math.inf
        self.children = ()
        self.own = self.below = 0.0

    def take_in(self, x, y, w, n_values):
        for f, v in enumerate(x):
            if v is None:
                continue
            if n_values[f]:
                self.box.setdefault(f, set()).add(v)
            else:
                low, high = self.box.get(f, (v, v))
                self.box[f] = (min(low, v), max(high, v))
        self.weight += w
        self.shares[y] = self.shares.get(y, 0.0) + w
        self.mean += w / self.weight * (y - self.mean)

    def child(self, x, n_values):
        f, value = self.test
        left, right = self.children
        if x[f] is None:
            return left if left.weight >= right.weight else right
        goes = x[f] == value if n_values[f] else x[f] <= value
        return left if goes else right

    def stop(self):
        """The share of the prunings that end here, among those that reach the node."""
        difference = self.below - self.own
        return 1.0 / (1.0 + elementary.exp(difference)) if difference < 500.0 else 0.0

    def kept(self):
        """The logarithm of what the node stands for in its parent."""
        return log_sum(self.own, self.below) - elementary.log(2.0) if self.children else self.own

    def keep_odds(self):
        bound = 100.0 * elementary.log(10.0)
        self.below = self.own - max(min(self.own - self.below, bound), -bound)

    def log_tree(self):
        """Of the sum over all prunings below, by the recursion of context-tree weighting."""
        if not self.children:
            return self.own
        return elementary.log(
            0.5 * elementary.exp(self.own) + 0.5 * elementary.exp(sum(c.log_tree() for c in self.children))
        )

    def prunings(self):
        """Every pruning: (prior, logarithm of the likelihood, its leaves)."""
        if not self.children:
            return [(1.0, self.own, [self])]
        left, right = (child.prunings() for child in self.children)
        found = [(0.5, self.own, [self])]
        for prior, own, leaves in left:
            for other_prior, other_own, other_leaves in right:
                found.append((0.5 * prior * other_prior, own + other_own, leaves + other_leaves))
        return found


class NaiveTree:
    def __init__(
        self,
        n_values,
        key,
        *,
        classes=True,
        aggregation=True,
        max_nodes=4001,
        max_bytes=6_400_000,
        step=1.0,
        dirichlet=None,
        split_pure=False,
        split_below=0.8,
        vote_power=4,
    ):
        self.n_values, self.key, self.classes, self.aggregation = n_values, key, classes, aggregation
        self.max_nodes, self.max_bytes = max_nodes, max_bytes
        self.step, self.dirichlet, self.split_pure = step, dirichlet, split_pure
        self.split_below, self.vote_power = split_below, vote_power
        self.record = [0.0, 0.0]  # probabilities that labels were given, faded, and their weights
        self.root = None
        self.pairs = []  # parents, in the order in which their children got their places
        self.learned = 0
        self.errors = [0.0, 0.0]
        self.order = [f for f, k in enumerate(n_values) if not k] + [f for f, k in enumerate(n_values) if k]

    def seen(self):
        return [] if self.root is None else sorted(self.root.shares)

    def probability(self, node, y):
        k = len(self.root.shares)
        prior = self.dirichlet or 1.0 / k
        return (node.shares.get(y, 0.0) + prior) / (node.weight + prior * k)

    def says(self, node):
        return {y: self.probability(node, y) for y in self.seen()} if self.classes else {0: node.mean}

    def most_nodes(self):
        """Tests, links and a share in a pair; class weights in lines of 64 bytes; both sides of numeric features, four
        numbers at a time; a word for each nominal feature."""
        numbers = 3 + (max(self.root.shares) + 1 if self.classes else 1)
        boxes = 4 * math.ceil(self.n_values.count(0) / 2) + sum(k > 0 for k in self.n_values)
        node = 24 + 64 * math.ceil(numbers / 8) + 8 * boxes
        return max(3, min(self.max_nodes, int((self.max_bytes - 40) // node)))

    def leaf(self, x):
        node = self.root
        while node.children:
            node = node.child(x, self.n_values)
        return node

    def vote(self):
        return ((self.record[0] + 1.0) / (self.record[1] + 2.0)) ** self.vote_power

    def predict(self, x, node=None):
        """The weighted mean over all prunings: class -> probability, or 0 -> target."""
        node = node or self.root
        own = self.says(node)
        if not node.children:
            return own
        share = node.stop()
        below = self.predict(x, node.child(x, self.n_values))
        return {y: share * own[y] + (1.0 - share) * below[y] for y in own}

    def distances(self, node, x):
        """Feature -> distance to a box."""
        found = {}
        for f in self.order:
            v = x[f]
            if v is None or f not in node.box:
                continue
            whole = self.root.box[f]
            if self.n_values[f]:
                n_values = len(whole | {v})
                if v not in node.box[f]:
                    found[f] = 1.0 / (n_values - 1)
            else:
                low, high = node.box[f]
                width = max(whole[1], v) - min(whole[0], v)
                beyond = max(low - v, v - high)
                if beyond > 0.0:
                    found[f] = beyond * (1.0 / width)
        return found

    def learn(self, x, y, w=1.0):
        if w <= 0.0:
            return
        number = self.learned * DRAWS
        self.learned += 1
        if self.root is None:
            self.root = Node()
            self.root.take_in(x, y, w, self.n_values)
            return
        self.root.shares.setdefault(y, 0.0)  # a class counts as seen before it is predicted
        at = SHRINKING
        while 1 + 2 * len(self.pairs) > self.most_nodes():
            place = self._dropped(None, at)
            at += TRIES
            if place is not None:
                last = self.pairs.pop()
                self.pairs[place : place + 1] = [last] if place < len(self.pairs) else []
        if self.classes:
            said = self.says(self.leaf(x))[y]
            self.certain = said >= self.split_below and not self.split_pure
            self.record[0] = 0.999 * self.record[0] + w * (self.predict(x)[y] if self.aggregation else said)
            self.record[1] = 0.999 * self.record[1] + w
        waited = -elementary.log(1.0 - draw(self.key, number))
        self.root, _, said = self._learn(self.root, x, y, w, waited, 0.0, number)
        square = (y - said) ** 2
        if self.errors[1]:
            square = held(square, self.errors[0] / self.errors[1], self.errors[1])
        self.errors[0] += w * square
        self.errors[1] += w

    def _log_likelihood(self, node, y, w):
        if self.classes:
            return self.step * w * elementary.log(self.probability(node, y))
        variance = self.errors[0] / self.errors[1] if self.errors[1] else 0.0
        scale = self.step * w / (2.0 * variance) if variance > 1e-300 else 0.0
        return max(-scale * (y - node.mean) ** 2, -300.0)

    def _learn(self, node, x, y, w, waited, birth, number):
        """What stands in the node's place afterwards, by how much the logarithm of its likelihood has grown, and the
        target that it had said."""
        own, said = self._log_likelihood(node, y, w), node.mean
        pure = self.classes and node.shares.get(y, 0.0) == node.weight and not self.split_pure
        distances = {} if pure or (self.classes and self.certain) else self.distances(node, x)
        rate = 0.0
        for distance in distances.values():
            rate += distance
        if rate > 1e-15:
            life = rate * (node.time - birth)
            place = self._place(node, number) if waited < life else None
            if place is not None:
                above, leaf = self._part(
                    node, x, distances, draw(self.key, number + 1) * rate, draw(self.key, number + 2)
                )
                above.time = birth + waited / rate
                # of the same prunings and those that end at the new parent
                likelihood = mixed(above.own, above.below, own, 0.0) + above.kept() - node.kept()
                above.own += own
                above.keep_odds()
                for new in (above, leaf):
                    new.take_in(x, y, w, self.n_values)
                self.pairs[place : place + 1] = [above]
                return above, likelihood, said
            waited = math.inf if waited < life else waited - life
        if not node.children:
            node.take_in(x, y, w, self.n_values)
            node.own += own
            return node, own, said
        node.take_in(x, y, w, self.n_values)
        old = node.child(x, self.n_values)
        new, below, further = self._learn(old, x, y, w, waited, node.time, number)
        node.children = tuple(new if child is old else child for child in node.children)
        likelihood = mixed(node.own, node.below, own, below)
        share = node.stop()
        node.own += own
        node.below += below
        node.keep_odds()
        return node, likelihood, share * said + (1.0 - share) * further

    def _place(self, node, number):
        """Where a new pair of leaves goes: a new place, or that of a pair which is dropped for it, or None."""
        if 1 + 2 * len(self.pairs) + 2 <= self.most_nodes():
            return len(self.pairs)
        return self._dropped(node, number + 3)

    def _dropped(self, node, number):
        """Where a pair of leaves was that has gone, and not the node's own; None if none was found."""
        found = None
        for i in range(TRIES):
            at = int(draw(self.key, number + i) * len(self.pairs))
            parent = self.pairs[at]
            if any(child.children for child in parent.children) or node is parent or node in parent.children:
                continue
            if found is None or parent.own - parent.below > self.pairs[found].own - self.pairs[found].below:
                found = at
        if found is not None:
            leaf = self.pairs[found]
            leaf.children, leaf.time, leaf.box, leaf.former = (), math.inf, {}, leaf.weight
        return found

    def _part(self, node, x, distances, place, u):
        """A parent for the node and an empty leaf, by a test between the node's box and x."""
        total = 0.0
        for feature, distance in distances.items():
            f = feature
            total += distance
            if place < total:
                break
        above, leaf = Node(), Node()
        above.box = {g: set(v) if self.n_values[g] else v for g, v in node.box.items()}
        above.weight, above.shares, above.mean = node.weight, dict(node.shares), node.mean
        above.own, above.below = node.own, node.kept()
        if node.former:  # the box holds what came since
            share = max((node.weight - node.former) / node.weight, 1e-12)
            node.weight *= share
            node.shares = {y: share * weight for y, weight in node.shares.items()}
            node.former = 0.0
        v = x[f]
        if self.n_values[f]:
            above.test, above.children = (f, v), (leaf, node)
        elif v > node.box[f][1]:
            edge = node.box[f][1]
            cut = edge + u * (v - edge)
            above.test, above.children = (f, cut if cut < v else edge), (node, leaf)
        else:
            edge = node.box[f][0]
            cut = v + u * (edge - v)
            above.test, above.children = (f, cut if cut < edge else v), (leaf, node)
        return above, leaf

    def smoothed(self, x):
        """Of a Mondrian forest without aggregation: Algorithm 8 of Lakshminarayanan et al., class -> probability."""
        return self.hierarchy(x)[-1]

    def hierarchy(self, x):
        """What it says by the first nodes of the way down, by the first two, ..., by all."""
        gamma = 10.0 * len(x)
        found = dict.fromkeys(self.seen(), 0.0)
        above = dict.fromkeys(found, 1.0 / len(found))
        node, birth, together, said = self.root, 0.0, 1.0, []
        while True:
            rate, life = sum(self.distances(node, x).values()), node.time - birth
            parted = 1.0 - elementary.exp(-rate * life) if rate > 0.0 else 0.0
            if parted > 0.0:  # by a parent that would come above the node, and that has one child who knows anything
                discount = rate / (rate + gamma) * (1.0 - elementary.exp(-(rate + gamma) * life)) / parted
                customers = {y: float(node.shares.get(y, 0.0) > 0.0) for y in found}
                there = kneser_ney(customers, discount, above)
                for y in found:
                    found[y] += together * parted * there[y]
            together *= 1.0 - parted
            if node.children:
                customers = {y: sum(float(c.shares.get(y, 0.0) > 0.0) for c in node.children) for y in found}
            else:
                customers = {y: node.shares.get(y, 0.0) for y in found}
            here = kneser_ney(customers, elementary.exp(-gamma * life), above)
            said.append({y: found[y] + together * here[y] for y in found})
            if not node.children:
                return said
            node, birth, above = node.child(x, self.n_values), node.time, here


def mixed(own, below, more, further):
    """log((e^(own + more) + e^(below + further)) / (e^own + e^below))"""
    return log_sum(own + more, below + further) - log_sum(own, below)


def log_sum(a, b):
    return max(a, b) + elementary.log1p(elementary.exp(-abs(a - b)))


def kneser_ney(customers, discount, above):
    """Interpolated: each class gives up to one discounted customer to what is above."""
    total = sum(customers.values())
    tables = {y: min(n, 1.0) for y, n in customers.items()}
    given = discount * sum(tables.values())
    return {y: (customers[y] - discount * tables[y] + given * above[y]) / total for y in customers}


class NaiveForest:
    """Classes of probabilities, or of targets, as rows of n_outputs numbers."""

    def __init__(self, n_values, n_outputs, *, seed=0, n_trees=10, classes=True, aggregation=True, **parameters):
        start = int(seeded(seed)[0])
        keys = [int(seeded(start + tree)[1]) for tree in range(n_trees)]
        bound = parameters.pop("max_bytes", 64_000_000) // n_trees
        self.trees = [
            NaiveTree(n_values, key, classes=classes, aggregation=aggregation, max_bytes=bound, **parameters)
            for key in keys
        ]
        self.n_outputs, self.classes, self.aggregation = n_outputs, classes, aggregation

    @staticmethod
    def read(x):
        return [None if v != v else v for v in x]

    def predict(self, x):
        row = [0.0] * self.n_outputs
        votes = [tree.vote() if self.classes else 1.0 for tree in self.trees]
        for tree, vote in zip(self.trees, votes, strict=True):
            if tree.root is None:
                return row if self.classes else [float("nan")]
            x_read = self.read(x)
            if self.aggregation:
                said = tree.predict(x_read)
            elif self.classes:
                said = tree.smoothed(x_read)
            else:
                said = {0: tree.leaf(x_read).mean}
            for y, value in said.items():
                row[int(y)] += value * vote / sum(votes)
        return row

    def learn(self, x, y, w):
        for tree in self.trees:
            tree.learn(self.read(x), float(y), float(w))
