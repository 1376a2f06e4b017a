"""Half-space trees after Tan, Ting and Liu 2011, slowly: nodes are objects, and profiles are copied at a window's end.

What the paper does not say (ranges, missing and nominal values, the scale of the score) is as
docs/evidence/anomalies.md says.
"""

import math

from riparian.models.kernels import elementary
from riparian.models.kernels.draws import key, uniform_at


class Node:
    def __init__(self, depth, low, high):
        self.depth, self.low, self.high = depth, low, high
        self.feature = self.at = self.left = self.right = None
        self.r = self.l = 0


class NaiveHalfSpaceTrees:
    """One profile, or two with max_window: windows of one size, and windows that double."""

    def __init__(self, n_values, seed, n_trees, height, window, max_window=None):
        longest = [window] if max_window is None else [window, max_window]
        self.profiles = [NaiveProfile(n_values, seed, n_trees, height, window, most) for most in longest]
        self.longest, self.height = longest[-1], height

    def learn(self, x):
        for profile in self.profiles:
            profile.learn(x)

    def predict(self, x):
        """What would be m, were the window of each profile as long as the longest, by the mean of the profiles."""
        densities = [profile.mass(x) / profile.counted for profile in self.profiles]
        mass = self.longest * sum(densities) / len(densities)
        return 1.0 - elementary.log1p(mass) / elementary.log1p(self.longest * 2.0**self.height)


class NaiveProfile:
    def __init__(self, n_values, seed, n_trees, height, window, longest):
        self.n_values, self.height, self.window, self.longest = n_values, height, window, longest
        self.counted = math.nan  # instances of the window that scores
        self.keys = [key(seed, t) for t in range(n_trees)]
        self.roots = [self.root(k) for k in self.keys]
        self.known = None  # ranges by which r was made
        self.latest = None  # ranges by which l is made
        self.rows = []  # of this window

    def root(self, k):
        """Each feature has a working range of its own around a point s of [0, 1]."""
        low, high = [], []
        for f in range(len(self.n_values)):
            s = float(uniform_at(k, f))
            reach = 2.0 * max(s, 1.0 - s)
            low.append(s - reach)
            high.append(s + reach)
        root = Node(0, low, high)
        self.split(root, k, 0)
        return root

    def split(self, node, k, number):
        """Halve the working range of a feature that is drawn; nodes are numbered level by level."""
        if node.depth == self.height:
            return
        d = len(self.n_values)
        f = int(float(uniform_at(k, d + number)) * d)
        node.feature, node.at = f, (node.low[f] + node.high[f]) / 2.0
        node.left = Node(node.depth + 1, node.low, [node.at if g == f else v for g, v in enumerate(node.high)])
        node.right = Node(node.depth + 1, [node.at if g == f else v for g, v in enumerate(node.low)], node.high)
        self.split(node.left, k, 2 * number + 1)
        self.split(node.right, k, 2 * number + 2)

    def unit(self, f, x, ranges, t):
        if math.isnan(x):
            return -1.0
        if self.n_values[f]:
            return float(uniform_at(self.keys[t], (f + 1) * 2**32 + int(x)))
        low, high = ranges[f]
        if low > high:  # nothing was known
            return 2.0
        if low == high:
            return 0.5 if x == low else -1.0 if x < low else 2.0
        return (x / 2 - low / 2) / (high / 2 - low / 2)

    def step(self, node, x, ranges, t):
        return node.left if self.unit(node.feature, x[node.feature], ranges, t) < node.at else node.right

    def count(self, x, ranges, profile):
        for t, root in enumerate(self.roots):
            node = root
            while True:
                setattr(node, profile, getattr(node, profile) + 1)
                if node.left is None:
                    break
                node = self.step(node, x, ranges, t)

    def nodes(self):
        stack = list(self.roots)
        while stack:
            node = stack.pop()
            yield node
            stack += [] if node.left is None else [node.left, node.right]

    def learn(self, x):
        self.rows.append(list(x))
        if self.known is not None:
            self.count(x, self.latest, "l")
        if len(self.rows) < self.window:
            return
        ranges = []
        for f in range(len(self.n_values)):
            values = [row[f] for row in self.rows if not math.isnan(row[f])]
            ranges.append((min(values, default=math.inf), max(values, default=-math.inf)))
        if self.known is None:
            self.known = ranges
            for row in self.rows:
                self.count(row, ranges, "r")
        else:
            self.known = self.latest
            for node in self.nodes():
                node.r, node.l = node.l, 0
        self.latest, self.counted, self.rows = ranges, self.window, []
        self.window = min(2 * self.window, self.longest)

    def mass(self, x):
        """Mean over the trees."""
        if self.known is None:
            return math.nan
        total = 0
        for t, root in enumerate(self.roots):
            node = root
            while node.left is not None and node.r > 0.1 * self.counted:
                node = self.step(node, x, self.known, t)
            total += node.r * 2**node.depth
        return total / len(self.roots)
