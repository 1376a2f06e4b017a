"""Streaming decision trees and forests, slow and plain: recursive trees that remember which rows went where.

Drawn numbers are those of models.kernels.draws: what is drawn is part of the contract.
"""

import math
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

from riparian.models.kernels.draws import key, poisson, uniform_at
from tests.models.naive_shrubs import goes_left, missing, purity


@dataclass
class Row:
    x: list
    y: int
    w: float
    number: int  # labels before it


@dataclass
class Node:
    counts: Counter = field(default_factory=Counter)
    test: tuple = ()
    left: "Node" = None
    right: "Node" = None

    def leaf(self, x):
        return (self.left if goes_left(self.test, x) else self.right).leaf(x) if self.test else self

    def nodes(self):
        return [self] + (self.left.nodes() + self.right.nodes() if self.test else [])

    def majority(self):
        best = max(self.counts.values(), default=0)
        return min((y for y, n in self.counts.items() if n == best), default=None) if best > 0 else None


class NaiveTree:
    def __init__(self, forest, serial):
        self.forest, self.serial, self.root = forest, serial, Node()
        self.hits = self.weight = 0.0

    def weight_of(self, row):
        times = 1.0
        if self.forest.bootstrap:
            times = poisson(1.0, uniform_at(key(self.forest.seed, self.serial, 1), row.number))
        return row.w * times

    def learn(self, batch, window, number):
        """Algorithm 1. window : all rows that are kept, those of the batch among them, by place in the ring."""
        self.draws, self.order = number << 32, list(range(len(self.forest.n_values)))
        fresh = not self.root.test and not self.root.counts
        roots = []
        for row in batch:
            leaf = self.root.leaf(row.x)
            if self.weight_of(row) > 0 and not any(leaf is root for root in roots):
                roots.append(leaf)
        lies_in = [(row, self.root.leaf(row.x)) for row in window if self.weight_of(row) > 0]
        for root in roots:
            rows = [row for row, leaf in lies_in if leaf is root]
            forgotten = Counter()
            if self.forest.counting:
                forgotten.update(root.counts)
                for row in rows:
                    if row.number < batch[0].number and not fresh:
                        forgotten[row.y] = max(forgotten[row.y] - self.weight_of(row), 0.0)
            self.grow(root, rows, forgotten)

    def grow(self, node, rows, forgotten):
        total = Counter()
        for row in rows:
            total[row.y] += self.weight_of(row)
        test = None
        room = len(self.root.nodes()) + 2 <= self.forest.max_nodes
        if len(total) > 1 and len(rows) >= self.forest.min_split and room:
            test = self.find([(row.x, row.y, self.weight_of(row)) for row in rows])
        if test is None:
            node.counts = Counter({y: total[y] + forgotten[y] for y in set(total) | set(forgotten)})
            return
        left = [row for row in rows if goes_left(test, row.x)]
        right = [row for row in rows if not goes_left(test, row.x)]
        share = {y: sum(self.weight_of(row) for row in left if row.y == y) / total[y] for y in total}
        overall = sum(map(self.weight_of, left)) / sum(total.values())
        parts = Counter({y: n * share.get(y, overall) for y, n in forgotten.items()})
        node.test, node.left, node.right = test, Node(), Node()
        self.grow(node.left, left, parts)
        self.grow(node.right, right, Counter({y: n - parts[y] for y, n in forgotten.items()}))

    def find(self, items):
        d, best, found = len(self.forest.n_values), -math.inf, None
        for tried in range(d):
            if tried >= self.forest.n_tried and found:
                break
            draw = uniform_at(key(self.forest.seed, self.serial, 2), self.draws)
            self.draws += 1
            swap = tried + int(draw * (d - tried))
            self.order[swap], self.order[tried] = self.order[tried], self.order[swap]
            for test in self.tests(self.order[tried], [x for x, _, _ in items]):
                parts = [[item for item in items if goes_left(test, item[0]) is side] for side in (True, False)]
                if all(parts):
                    score = sum(purity(part, True) for part in parts)
                    if score > best:
                        best, found = score, test
        return found

    def tests(self, f, xs):
        values = sorted({x[f] for x in xs if not missing(x[f])})
        if self.forest.n_values[f]:
            return [(f, "equals", value) for value in values]
        tests = []
        for low, high in pairwise(values):
            middle = low + 0.5 * (high - low)
            tests.append((f, "below", middle if middle < high else low))
        return [*tests, (f, "known", None)]


class NaiveForest:
    def __init__(
        self, n_values, n_classes, seed=0, *, n_trees=1, batch_size=100, window=1000, max_features="sqrt", min_split=2,
        leaf_values="counts", bootstrap=False, replaced="never", n_replaced=1, vote="majority",
        max_nodes=10**9,
    ):  # fmt: skip
        self.n_values, self.n_classes, self.seed = n_values, n_classes, seed
        self.batch_size, self.size = batch_size, max(window, batch_size)
        self.n_tried = len(n_values) if max_features == "all" else math.ceil(math.sqrt(len(n_values)))
        self.min_split, self.counting, self.bootstrap = min_split, leaf_values == "counts", bootstrap
        self.replaced, self.n_replaced = replaced, n_replaced
        self.vote, self.max_nodes = vote, max_nodes
        self.ring, self.batch, self.learned = {}, [], 0
        self.trees = [NaiveTree(self, serial) for serial in range(n_trees)]
        self.next_serial = n_trees

    def predict(self, x):
        votes = [0.0] * self.n_classes
        for tree in self.trees:
            leaf = tree.root.leaf(x)
            if self.vote == "majority":
                if leaf.majority() is not None:
                    votes[leaf.majority()] += 1.0
            elif sum(leaf.counts.values()) > 0:
                for y in range(self.n_classes):
                    votes[y] += leaf.counts[y] / sum(leaf.counts[c] for c in range(self.n_classes))
        total = sum(votes)
        return [v / total for v in votes] if total else votes

    def learn(self, x, y, w):
        row = Row([float(v) for v in x], int(y), float(w), self.learned)
        self.ring[self.learned % self.size] = row
        self.batch.append(row)
        self.learned += 1
        if len(self.batch) < self.batch_size:
            return
        batch, self.batch = self.batch, []
        number = self.learned // self.batch_size
        for tree in self.trees:
            right = sum(row.w for row in batch if tree.root.leaf(row.x).majority() == row.y)
            tree.hits = 0.9 * tree.hits + right
            tree.weight = 0.9 * tree.weight + sum(row.w for row in batch)
        chance = {"never": 0.0, "fading": 1.0 / number, "always": 1.0}[self.replaced]
        if number >= 3 and (chance == 1.0 or int(key(self.seed, number)) < chance * 2**64):
            weakest = sorted(self.trees, key=lambda tree: (tree.hits / tree.weight, tree.serial))[: self.n_replaced]
            for old in weakest:
                self.trees[self.trees.index(old)] = NaiveTree(self, self.next_serial)
                self.next_serial += 1
        for tree in self.trees:
            tree.learn(batch, [self.ring[place] for place in sorted(self.ring)], number)
