"""Shrub ensembles, slow and plain: recursive trees, the loss over the whole window for every gradient, and all past
predictions for every blend.

Random numbers are drawn by the kernels' own functions, in the same order.
"""

import math
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from riparian.models.kernels.randomness import below, seeded, uniform
from tests.models.naive_running_scale import held, near


def missing(value):
    return not math.isfinite(value)


def goes_left(test, x):
    feature, kind, value = test
    if missing(x[feature]):
        return False
    if kind == "known":
        return True
    return x[feature] == value if kind == "equals" else x[feature] <= value


@dataclass
class Node:
    value: object = None  # of a leaf: class -> share, or the mean
    test: tuple = ()
    left: "Node" = None
    right: "Node" = None

    def predict(self, x):
        if not self.test:
            return self.value
        return (self.left if goes_left(self.test, x) else self.right).predict(x)

    def nodes(self):
        return [self] + (self.left.nodes() + self.right.nodes() if self.test else [])


def purity(items, classes):
    """The weight less Gini's impurity (or variance) times the weight: of whole numbers, so that ties are ties."""
    weight = sum(w for _, _, w in items)
    if classes:
        counts = Counter()
        for _, y, w in items:
            counts[y] += w
        return sum(n * n for n in counts.values()) / weight
    return sum(w * y for _, y, w in items) ** 2 / weight


@dataclass
class NaiveTree:
    nominal: tuple
    classes: bool = True
    max_depth: float = math.inf
    splits: str = "best"
    n_tried: int = 10**9
    subspace: bool = False
    random: np.ndarray = field(default_factory=lambda: seeded(0))

    def grow(self, items):
        """items : (x, y, weight), in the order of the window's places."""
        self.features = list(range(len(self.nominal)))
        if self.subspace:
            for at in range(self.n_tried):
                self._draw(at)
        return self._grow(items, 0)

    def _grow(self, items, depth):
        test = None
        if len({y for _, y, _ in items}) > 1 and depth < self.max_depth:
            test = self._find(items)
        if test is None:
            weight = sum(w for _, _, w in items)
            if not self.classes:
                return Node(sum(w * y for _, y, w in items) / weight)
            counts = Counter()
            for _, y, w in items:
                counts[y] += w
            return Node({y: n / weight for y, n in counts.items()})
        node = Node(test=test)
        node.left = self._grow([item for item in items if goes_left(test, item[0])], depth + 1)
        node.right = self._grow([item for item in items if not goes_left(test, item[0])], depth + 1)
        return node

    def _draw(self, at):
        swap = at + below(self.random, len(self.features) - at)
        self.features[swap], self.features[at] = self.features[at], self.features[swap]

    def _find(self, items):
        """The best test; of a feature's equal ones the lowest, of features' equal ones each with the same chance."""
        d, best, found, n_equal = len(self.nominal), -math.inf, None, 0
        for tried in range(self.n_tried if self.subspace else d):
            if tried >= self.n_tried and found:
                break
            if self.n_tried < d and not self.subspace:
                self._draw(tried)
            f = self.features[tried]
            best_of_feature, found_on_feature = -math.inf, None
            for test in self._all(items, f) if self.splits == "best" else self._one(items, f):
                sides = [[i for i in items if goes_left(test, i[0]) == left] for left in (True, False)]
                after = purity(sides[0], self.classes) + purity(sides[1], self.classes)
                if after > best_of_feature:
                    best_of_feature, found_on_feature = after, test
            if found_on_feature is None or best_of_feature < best:
                continue
            n_equal = n_equal + 1 if best_of_feature == best else 1
            if n_equal == 1 or below(self.random, n_equal) == 0:
                best, found = best_of_feature, found_on_feature
        return found

    def _all(self, items, f):
        known = sorted({x[f] for x, _, _ in items if not missing(x[f])})
        some_missing = any(missing(x[f]) for x, _, _ in items)
        if self.nominal[f]:
            return [(f, "equals", v) for v in known] if len(known) + some_missing > 1 else []
        tests = [(f, "at most", a + 0.5 * (b - a)) for a, b in pairwise(known)]
        return tests + ([(f, "known", None)] if some_missing and known else [])

    def _one(self, items, f):
        known = [x[f] for x, _, _ in items if not missing(x[f])]
        if len(set(known)) + (len(known) < len(items)) < 2:
            return []
        if not known:
            return []
        if self.nominal[f]:
            value = math.nan
            while missing(value):
                value = items[below(self.random, len(items))][0][f]
            return [(f, "equals", value)]
        if min(known) == max(known):
            return [(f, "known", None)]
        return [(f, "at most", min(known) + uniform(self.random) * (max(known) - min(known)))]


def project(weights, m):
    """The nearest point of the simplex with at most m weights above 0: by bisection."""
    order = sorted(range(len(weights)), key=lambda j: -weights[j])[:m]
    low, high = min(weights) - 1.0, max(weights)
    for _ in range(200):
        theta = 0.5 * (low + high)
        if sum(max(weights[j] - theta, 0.0) for j in order) > 1.0:
            low = theta
        else:
            high = theta
    return [max(weights[j] - theta, 0.0) if j in order else 0.0 for j in range(len(weights))]


class NaiveShrubs:
    """On one window. n_outputs classes, or 1 for a regression."""

    def __init__(self, n_values, n_outputs, *, seed=0, classes=True, **parameters):
        self.p = {
            "n_trees": 32, "window": 1024, "max_depth": 15, "every": 16, "step": 1.0, "burn_in": 5, "ridge": 0.05,
            "loss": "mse", "splits": "random", "max_features": "all", "train_share": 1.0, "weighting": "learned",
        } | parameters  # fmt: skip
        d = len(n_values)
        self.nominal, self.n_outputs, self.classes, self.random = (
            [v > 0 for v in n_values],
            n_outputs,
            classes,
            seeded(seed),
        )
        self.n_tried = {"all": d, "sqrt": math.ceil(math.sqrt(d)), "subspace": min(d, max(2, math.ceil(d / 2)))}[
            self.p["max_features"]
        ]
        self.places = [None] * self.p["window"]  # (x, y, weight)
        self.n_learned = 0
        self.seen = set()  # classes
        self.members = []  # [tree, weight, places of the window that do not judge it]
        self.origin, self.square = 0.0, 0.0  # a target of the window, and the mean square of the others above it
        self.origins = {}  # of each tree's leaves, by the tree's id

    def say(self, tree, x):
        value = tree.predict(x)
        if not self.classes:
            return np.array([value + self.origins[id(tree)]])
        return np.array([value.get(c, 0.0) for c in range(self.n_outputs)])

    def predict(self, x):
        if not self.n_learned and not self.classes:
            return np.array([np.nan])
        return sum((weight * self.say(tree, x) for tree, weight, _ in self.members), np.zeros(self.n_outputs))

    def learn(self, x, y, w=1.0):
        place = self.n_learned % len(self.places)
        if not self.classes:
            self.origin = self.origin if self.n_learned else y
            n, above = min(self.n_learned + 1, len(self.places)), (y - self.origin) ** 2
            y = near(y, self.origin, self.square, n)
            self.square += (held(above, self.square, n) - self.square) / n
        self.places[place] = (x, y, w)
        self.seen.add(y)
        for _, _, blind in self.members:
            blind.discard(place)
        self.n_learned += 1
        if not self.classes and self.n_learned % len(self.places) == 0:
            _, targets, weights = zip(*self.places, strict=True)
            mean, total, before = 0.0, 0.0, self.origin  # as it runs: of two targets, rounding may say which is next
            for y_, w_ in zip(targets, weights, strict=True):
                total += w_
                mean += (y_ - before - mean) * w_ / total
            self.origin = min(targets, key=lambda y: abs(y - before - mean))
            self.square = float(np.mean([(y - self.origin) ** 2 for y in targets]))
        if self.n_learned % self.p["every"] == 0 or (
            self.n_learned < self.p["every"] and math.log2(self.n_learned).is_integer()
        ):
            self.enrol()

    def enrol(self):
        p, filled = self.p, [i for i, item in enumerate(self.places) if item]
        chosen = [i for i in filled if p["train_share"] == 1.0 or uniform(self.random) < p["train_share"]]
        blind = set(chosen) if p["train_share"] < 1.0 and 0 < len(chosen) < len(filled) else set()
        grower = NaiveTree(
            self.nominal, self.classes, p["max_depth"], p["splits"], self.n_tried, p["max_features"] == "subspace",
            self.random,
        )  # fmt: skip
        items = [self.places[i] for i in (chosen if blind else filled)]
        tree = grower.grow([(x, y - self.origin, w) for x, y, w in items])
        self.origins[id(tree)] = self.origin
        self.members.append([tree, 0.0, blind])
        if p["weighting"] == "equal":
            self.members = self.members[-p["n_trees"] :]
            for member in self.members:
                member[1] = 1.0 / len(self.members)
            return
        for _ in range(p["burn_in"] + 1):
            weights = [w for _, w, _ in self.members]
            gradient = self.gradient(filled)
            moved = [w - p["step"] * (g + 2.0 * p["ridge"] * w) for w, g in zip(weights, gradient, strict=True)]
            for member, weight in zip(self.members, project(moved, p["n_trees"]), strict=True):
                member[1] = weight
        self.members = [member for member in self.members if member[1] > 1e-12]

    def gradient(self, filled):
        """Of the mean loss over the window, by its definition; each term over the items that judge its members."""
        items = [self.places[i] for i in filled]
        weight = np.array([w for _, _, w in items])
        judges = np.array([[i not in blind for i in filled] for _, _, blind in self.members], float)
        said = np.array([[self.say(tree, x) for x, _, _ in items] for tree, _, _ in self.members])
        share = np.array([w for _, w, _ in self.members])
        if self.p["loss"] == "cross-entropy":
            gradient = [0.0] * len(said)
            for i, (_, y, w) in enumerate(items):  # one by one: trees that are equally good stay equal
                right = [float(said[j, i, int(y)]) * judges[j, i] for j in range(len(said))]
                p = max(sum(a * b for a, b in zip(share.tolist(), right, strict=True)), 0.01)
                gradient = [g - w * r / p for g, r in zip(gradient, right, strict=True)]
            return [g / (weight.sum() * len(self.seen)) for g in gradient]
        targets = np.array([y for _, y, _ in items])
        truth = np.eye(self.n_outputs)[targets.astype(int)] if self.classes else targets[:, None] - self.origin
        said = said - self.origin
        scale = len(self.seen)
        if not self.classes:
            spread = float(np.average((targets - np.average(targets, weights=weight)) ** 2, weights=weight))
            scale = spread if spread > 0.0 else 1.0
        gradient = []
        for j in range(len(said)):
            total = 0.0
            for k in range(len(said)):
                both = judges[j] * judges[k] * weight
                if both.sum() > 0:
                    total += share[k] * (both @ (said[j] * said[k]).sum(axis=1)) / both.sum()
            alone = judges[j] * weight
            if alone.sum() > 0:
                total -= (alone @ (said[j] * truth).sum(axis=1)) / alone.sum()
            gradient.append(2.0 * total / scale)
        return gradient


class NaiveShrubEnsemble:
    """Windows of several lengths: what each predicted before each label decides how much it counts."""

    def __init__(self, n_values, n_outputs, *, seed=0, classes=True, window=1024, n_windows=4, every=16, **parameters):
        self.n_outputs, self.classes = n_outputs, classes
        self.windows = [
            NaiveShrubs(
                n_values, n_outputs, seed=seed + k * 2**32, classes=classes, window=max(2, window // 4**k),
                every=max(1, every // 4**k), **parameters,
            )
            for k in range(n_windows)
        ]  # fmt: skip
        self.shares = np.full(n_windows, 1.0 / n_windows)
        self.history = []  # products of the windows' errors at each label

    def predict(self, x):
        return sum(share * window.predict(x) for share, window in zip(self.shares, self.windows, strict=True))

    def learn(self, x, y, w=1.0):
        truth = np.eye(self.n_outputs)[int(y)] if self.classes else np.array([y])
        errors = np.array([window.predict(x) - truth for window in self.windows])
        if not np.isnan(errors).any():
            products = w * errors @ errors.T
            before = sum(0.995**age * np.trace(one) for age, one in enumerate(reversed(self.history)))
            whole = np.trace(products)
            share = held(whole, before / 200.0, 200.0) / whole if whole and not self.classes else 1.0
            self.history.append(share * products)
        for window in self.windows:
            window.learn(x, y, w)
        products = np.zeros((len(self.windows), len(self.windows)))
        for age, one in enumerate(reversed(self.history)):
            products += 0.995**age * one
        if np.trace(products) > 0.0:
            for _ in range(5):
                moved = self.shares - products @ self.shares / np.trace(products)
                self.shares = np.array(project(moved.tolist(), len(moved)))
