"""Online isolation forest after Leveni et al. 2024, slowly: nodes are objects, and every rule is written as it is said.

What the paper leaves open (missing and nominal values, constant features, the order of draws) is as
docs/evidence/anomalies.md says.
"""

import math

from riparian.models.kernels.draws import key, uniform_at


class Node:
    def __init__(self, depth, points):
        self.depth, self.height = depth, len(points)
        self.feature = self.cut = None
        self.children = []
        self.box = {}  # feature -> least and greatest value
        for point in points:
            self.stretch(point)

    def stretch(self, x):
        for f, v in enumerate(x):
            if v is not None:
                low, high = self.box.get(f, (v, v))
                self.box[f] = min(low, v), max(high, v)

    def cover(self, children):
        self.box = {}
        for child in children:
            for f, (low, high) in child.box.items():
                old = self.box.get(f, (low, high))
                self.box[f] = min(low, old[0]), max(high, old[1])

    def below(self, x):
        return self.children[0 if x[self.feature] is not None and x[self.feature] < self.cut else 1]


def levels(n, leaf_size):
    return max(0.0, math.log(n / leaf_size, 4)) if n > 0 else 0.0


class Tree:
    def __init__(self, n_values, key_, leaf_size):
        self.n_values, self.key, self.leaf_size = n_values, key_, leaf_size
        self.root, self.n, self.n_draws = Node(0, []), 0, 0

    def draw(self):
        self.n_draws += 1
        return float(uniform_at(self.key, (len(self.n_values) + 1) * 2**32 + self.n_draws - 1))

    def see(self, x):
        found = []
        for f, (v, n) in enumerate(zip(x, self.n_values, strict=True)):
            if not math.isfinite(v):
                found.append(None)
            else:
                found.append(float(uniform_at(self.key, (f + 1) * 2**32 + int(v))) if n else v)
        return found

    def wants(self, height, depth):
        """Full for its depth, and not as deep as a window of n is."""
        return height >= self.leaf_size * 2**depth and depth < levels(self.n, self.leaf_size)

    def learn(self, x):
        self.n += 1
        x, parent, node = self.see(x), None, self.root
        while True:
            node.height += 1
            node.stretch(x)
            if not node.children:
                break
            parent, node = node, node.below(x)
        if self.wants(node.height, node.depth):
            made = self.grow(node)
            if parent is None:
                self.root = made
            else:
                parent.children = [made if child is node else child for child in parent.children]

    def grow(self, leaf):
        points = []
        for _ in range(leaf.height):
            point = []
            for f in range(len(self.n_values)):
                u = self.draw()
                low, high = leaf.box.get(f, (None, None))
                point.append(None if low is None else low * (1.0 - u) + high * u)
            points.append(point)
        top = Node(leaf.depth, points)
        waiting = [(top, points)]
        while waiting:  # breadth first, since draws are numbered so
            node, points = waiting.pop(0)
            wide = [f for f in sorted(node.box) if node.box[f][0] < node.box[f][1]]
            if not wide or not self.wants(node.height, node.depth):
                continue
            node.feature = wide[int(self.draw() * len(wide))]
            u, (low, high) = self.draw(), node.box[node.feature]
            node.cut = low * (1.0 - u) + high * u
            left = [p for p in points if p[node.feature] is not None and p[node.feature] < node.cut]
            right = [p for p in points if not (p[node.feature] is not None and p[node.feature] < node.cut)]
            node.children = [Node(node.depth + 1, left), Node(node.depth + 1, right)]
            waiting += list(zip(node.children, (left, right), strict=True))
        return top

    def unlearn(self, x):
        self.n -= 1
        self.forget(self.root, self.see(x))

    def forget(self, node, x):
        node.height -= 1
        if not node.children:
            return
        if node.height < self.leaf_size * 2**node.depth:
            self.merge(node)
        else:
            self.forget(node.below(x), x)
            node.cover(node.children)

    def merge(self, node):
        for child in node.children:
            if child.children:
                self.merge(child)
        node.cover(node.children)
        node.children, node.feature, node.cut = [], None, None

    def depth_of(self, x):
        x, node = self.see(x), self.root
        while node.children:
            node = node.below(x)
        return node.depth + levels(node.height, self.leaf_size)


class NaiveOnlineIsolationForest:
    def __init__(self, n_values, seed, n_trees, window, leaf_size):
        self.window, self.leaf_size = window, leaf_size
        self.trees = [Tree(n_values, key(seed, t), leaf_size) for t in range(n_trees)]
        self.rows = []

    def learn(self, x):
        self.rows.append(list(x))
        gone = self.rows.pop(0) if len(self.rows) > self.window else None
        for tree in self.trees:
            tree.learn(x)
            if gone is not None:
                tree.unlearn(gone)

    def predict(self, x):
        if len(self.rows) <= self.leaf_size:
            return math.nan
        mean = sum(tree.depth_of(x) for tree in self.trees) / len(self.trees)
        return 2.0 ** (-mean / levels(len(self.rows), self.leaf_size))
