"""FIMT-DD, ORTO and the member of a forest once more, slow and obvious: one instance at a time, dicts and objects.

Written from the papers (Ikonomovska, Gama and Džeroski 2011; Ikonomovska, Gama, Ženko and Džeroski 2011; Gomes,
Barddal, Ferreira and Bifet 2018) and the documented choices of models.regression; it shares no code with them. Nothing
has a capacity, nothing is freed. Sums go over features, keys and options in the order that is documented, so that
figures can be compared exactly.
"""

import math

from riparian.models.kernels import elementary
from tests.models.naive_forests import key_of, subset
from tests.models.naive_running_scale import near


def missing(value):
    return math.isnan(value) or math.isinf(value)


class Scale:
    """Weighted mean and deviation of a feature or of the target over the whole stream."""

    def __init__(self):
        self.n = self.mean = self.m2 = self.per_width = 0.0

    def add(self, value, w):
        self.n += w
        before = self.mean
        self.mean = before + (value - before) * (w / self.n)
        self.m2 += w * (value - before) * (value - self.mean)
        self.per_width = math.sqrt(self.n / self.m2) / 3.0 if self.m2 > 1e-300 * self.n else 0.0


class Sums:
    """Weight, sum and sum of squares of targets."""

    def __init__(self, n=0.0, total=0.0, squares=0.0):
        self.n, self.total, self.squares = n, total, squares

    def __add__(self, other):
        return Sums(self.n + other.n, self.total + other.total, self.squares + other.squares)

    def __sub__(self, other):
        return Sums(self.n - other.n, self.total - other.total, self.squares - other.squares)

    def spread(self):
        """n times the standard deviation."""
        if self.n <= 0.0:
            return 0.0
        m2 = self.squares - self.total * self.total / self.n
        return math.sqrt(m2 * self.n) if m2 > 1e-12 * self.squares else 0.0


def add_up(sums):
    result = Sums()
    for part in sums:
        result = result + part
    return result


class Numeric:
    """A bounded E-BST: sorted keys, each with the sums of the values above the key before it up to itself."""

    def __init__(self, n_bins):
        self.n_bins, self.keys, self.sums = n_bins, [], []

    def add(self, value, part):
        if missing(value):
            return
        if value not in self.keys:
            full = len(self.keys) == self.n_bins
            if not full or value < self.keys[0] or value > self.keys[-1]:
                if full:
                    self.merge()
                place = len([key for key in self.keys if key < value])
                self.keys.insert(place, value)
                self.sums.insert(place, Sums())
        place = next(i for i, key in enumerate(self.keys) if value <= key)
        self.sums[place] = self.sums[place] + part

    def merge(self):
        pairs = range(1, len(self.keys) - 2)
        i = min(pairs, key=lambda i: self.sums[i].n + self.sums[i + 1].n)  # ties to the first
        self.sums[i + 1] = self.sums[i + 1] + self.sums[i]
        del self.keys[i], self.sums[i]

    def candidates(self):
        """(value, sums of the branch where the test holds)"""
        found, held = [], Sums()
        for key, part in zip(self.keys, self.sums, strict=True):
            held = held + part
            found.append((key, held))
        return found

    def whole(self):
        return add_up(self.sums)

    def branches(self, value):
        pairs = list(zip(self.keys, self.sums, strict=True))
        return add_up(s for key, s in pairs if key <= value), add_up(s for key, s in pairs if key > value)


class Nominal:
    def __init__(self):
        self.sums = {}

    def add(self, value, part):
        if not missing(value):
            self.sums[int(value)] = self.sums.get(int(value), Sums()) + part

    def candidates(self):
        return [(value, self.sums[value]) for value in sorted(self.sums)]

    def whole(self):
        return add_up(self.sums[value] for value in sorted(self.sums))

    def branches(self, value):
        return self.sums[value], add_up(self.sums[v] for v in sorted(self.sums) if v != value)


class Leaf:
    """What a leaf knows; `parent` hands down its linear model."""

    def __init__(self, tree, mean=None, n=0.0, parent=None):
        self.tree, self.n, self.mean, self.origin = tree, n, mean, mean
        self.seen = self.evaluated = self.age = 0.0
        self.constant, self.weights = 0.0, {}
        self.mean_error = self.model_error = 0.0
        if parent is not None:
            self.constant, self.weights = parent.constant, dict(parent.weights)
            self.mean_error, self.model_error = parent.mean_error, parent.model_error
        self.observers = [Nominal() if n else Numeric(tree.settings["n_bins"]) for n in tree.n_values]
        self.observed = tree.subset()

    def inputs(self, x):
        """(name of the weight, input) of every feature that has one."""
        found = []
        for f, value in enumerate(x):
            if not self.tree.n_values[f]:
                z = (value - self.tree.scales[f].mean) * self.tree.scales[f].per_width
                found.append((f, 0.0 if math.isnan(z) else min(max(z, -1.0), 1.0)))
            elif not missing(value):
                found.append(((f, int(value)), 1.0))
        return found

    def model(self, x):
        result = self.constant
        for name, z in self.inputs(x):
            result += self.weights.get(name, 0.0) * z
        return result

    def uses_model(self):
        mode = self.tree.settings["leaf_prediction"]
        return mode == "model" or (mode == "adaptive" and self.model_error <= self.mean_error)

    def predict(self, x):
        if self.mean is None:
            return math.nan
        return self.model(x) if self.uses_model() else self.mean

    def learn(self, x, y, w):
        settings = self.tree.settings
        if self.mean is None:
            self.mean = self.origin = self.constant = y
        prediction = self.predict(x)
        if settings["leaf_prediction"] != "mean":
            model = self.model(x)
            self.mean_error = settings["error_fading"] * self.mean_error + w * abs(y - self.mean)
            self.model_error = settings["error_fading"] * self.model_error + w * abs(y - model)
            rate = w * settings["learning_rate"] / (1.0 + settings["learning_rate_decay"] * self.age)
            squared = 1.0
            for _, z in self.inputs(x):
                squared += z * z
            step = min(rate, 1.0 / squared) * (y - model)
            for name, z in self.inputs(x):
                self.weights[name] = self.weights.get(name, 0.0) + step * z
            self.constant += step
            self.age += w
        self.seen += w
        self.n += w
        self.mean += (y - self.mean) * (w / self.n)
        dy = y - self.origin
        for f in self.observed:
            self.observers[f].add(x[f], Sums(w, w * dy, w * dy * dy))
        return prediction

    def ranking(self):
        """(merit, feature, value) of every feature whose best test reduces the deviation, best first."""
        found = []
        for f, observer in enumerate(self.observers):
            whole = observer.whole()
            best, best_value = whole.spread(), None
            for value, held in observer.candidates():
                rest = whole - held
                least = self.tree.settings["min_branch_fraction"] * whole.n
                if held.n > least and rest.n > least and held.spread() + rest.spread() < best:
                    best, best_value = held.spread() + rest.spread(), value
            if best_value is not None:
                found.append(((whole.spread() - best) / whole.n * min(1.0, whole.n / self.seen), f, best_value))
        return sorted(found, key=lambda candidate: -candidate[0])  # stable: ties go to the first feature


class Node:
    """A leaf, until it gets a test. others : alternate tree (FIMT-DD, at most one) or further options (ORTO)."""

    def __init__(self, leaf, depth):
        self.leaf, self.depth = leaf, depth
        self.feature = self.value = self.children = self.default = None
        self.seen_before = 0.0
        self.others = []
        self.loss = 0.0
        self.forget()

    def forget(self):
        """Of drift detection."""
        self.ph_n = self.ph_mean = self.ph_sum = self.ph_least = 0.0
        self.other_seen = self.main_loss = self.other_loss = 0.0

    def split(self, feature, value, leaf):
        held, rest = leaf.observers[feature].branches(value)
        parts = [(part.n, leaf.origin + (part.total / part.n if part.n > 0.0 else 0.0)) for part in (held, rest)]
        self.feature, self.value, self.leaf = feature, value, None
        self.seen_before = leaf.seen
        self.children = [Node(Leaf(leaf.tree, mean, n, leaf), self.depth + 1) for n, mean in parts]
        self.default = self.children[0 if held.n >= rest.n else 1]

    def child(self, x, n_values):
        value = x[self.feature]
        if math.isnan(value):
            return self.default
        holds = value == self.value if n_values[self.feature] else value <= self.value
        return self.children[0 if holds else 1]

    def all(self):
        """Itself and everything below, as `describe` has it."""
        found = [self]
        for node in (*(self.children or ()), *self.others[:1]):
            found += node.all()
        return found


class Tree:
    def __init__(self, n_values, **settings):
        self.n_values, self.settings = n_values, settings
        self.scales = [Scale() for _ in n_values]
        self.target = Scale()
        self.root = Node(Leaf(self), 0)

    def subset(self):
        """The features that a new leaf observes."""
        return range(len(self.n_values))

    def widen(self, x, y, w):
        for f, value in enumerate(x):
            if not self.n_values[f] and not missing(value):
                self.scales[f].add(value, w)
        self.target.add(y, w)

    def counted(self, y):
        """A target, within what those before allow."""
        return near(y, self.target.mean, self.target.m2 / self.target.n, self.target.n) if self.target.n > 0.0 else y

    def n_nodes(self):
        return len(self.root.all())

    def bound(self, leaf):
        return math.sqrt(elementary.log(1.0 / self.settings["delta"]) / (2.0 * leaf.seen))

    def due(self, node):
        return node.leaf.seen - node.leaf.evaluated >= self.settings["grace_period"]

    def may_split(self, node, room):
        node.leaf.evaluated = node.leaf.seen
        deep = self.settings["max_depth"]
        return self.n_nodes() + 2 <= room and (deep is None or node.depth < deep)

    def separates(self, ranking, bound):
        ratio = ranking[1][0] / ranking[0][0] if len(ranking) > 1 else 0.0
        return ratio < 1.0 - bound or bound < self.settings["tie_threshold"]

    def describe(self, key):
        """In the words of RegressionTree.describe, ids in order of the walk. key : what the other tree is called."""
        nodes = self.root.all()
        ids = {id(node): i for i, node in enumerate(nodes)}
        described = []

        def visit(node, parent, depth):
            entry = {"id": ids[id(node)], "parent": parent, "depth": depth}
            described.append(entry)
            if node.leaf is not None:
                entry["weight"] = node.leaf.seen
                mode = self.settings["leaf_prediction"]
                if mode == "adaptive":
                    mode = "model" if node.leaf.uses_model() else "mean"
                entry["predictor"] = mode
                n, total = node.leaf.n, node.leaf.n * (node.leaf.mean or 0.0)
            else:
                entry["feature"] = node.feature
                entry["equals" if self.n_values[node.feature] else "threshold"] = node.value
                entry["children"] = [ids[id(child)] for child in node.children]
                entry["default"] = ids[id(node.default)]
                parts = [visit(child, entry["id"], depth + 1) for child in node.children]
                n, total = sum(part[0] for part in parts), sum(part[1] for part in parts)
                entry["weight"] = node.seen_before + sum(part[2] for part in parts)
            entry["value"] = [total / n if n > 0.0 else 0.0]
            if node.others:
                entry[key] = ids[id(node.others[0])]
                visit(node.others[0], entry["id"], depth + 1)
            return n, total, entry["weight"]

        visit(self.root, None, 0)
        return described


class FimtTwin(Tree):
    def path(self, node, x):
        found = [node]
        while found[-1].leaf is None:
            found.append(found[-1].child(x, self.n_values))
        return found

    def predict(self, x):
        return self.path(self.root, x)[-1].leaf.predict(x)

    def learn(self, x, y, w=1.0):
        if w <= 0.0:
            return
        path = self.path(self.root, x)
        leaf = path.pop()
        target = self.counted(y)
        predicted = leaf.leaf.learn(x, target, w)
        room = self.settings["max_nodes"]
        self.try_split(leaf, room - room // 4 if self.settings["drift_detection"] else room)
        if self.settings["drift_detection"]:
            self.adapt(path, x, y, w, predicted, target)
        self.widen(x, target, w)

    def try_split(self, node, room):
        if not self.due(node) or not self.may_split(node, room):
            return
        ranking = node.leaf.ranking()
        if ranking and self.separates(ranking, self.bound(node.leaf)):
            node.split(ranking[0][1], ranking[0][2], node.leaf)

    def adapt(self, path, x, y, w, predicted, target):
        """path : the inner nodes from the root to the leaf that erred. target : what y counts as."""
        error = y - predicted
        owner = next((node for node in path if node.others), None)
        watched = path[: path.index(owner)] if owner else path
        alarmed = [node for node in watched if self.watch(node, abs(target - predicted) * self.target.per_width, w)]
        if alarmed:
            top = alarmed[0]
            for node in top.all():
                if node.others:
                    node.others = []
                    node.forget()
            top.forget()
            if self.n_nodes() + 1 <= self.settings["max_nodes"]:
                top.others = [Node(Leaf(self), top.depth)]
            return
        if owner is None:
            return
        other = self.path(owner.others[0], x)[-1]
        other_error = y - other.leaf.learn(x, y, w)
        self.try_split(other, self.settings["max_nodes"])
        fading = self.settings["error_fading"]
        before = owner.other_seen
        owner.other_seen += w
        owner.main_loss = fading * owner.main_loss + w * error * error
        owner.other_loss = fading * owner.other_loss + w * other_error * other_error
        if math.floor(owner.other_seen / 150.0) > math.floor(before / 150.0):
            if owner.other_loss < owner.main_loss:
                better = owner.others[0]
                for field in ("leaf", "feature", "value", "children", "default", "seen_before"):
                    setattr(owner, field, getattr(better, field))
                owner.others = []
                owner.forget()
            elif owner.other_seen >= 10.0 * self.settings["grace_period"]:
                owner.others = []
                owner.forget()

    def watch(self, node, error, w):
        node.ph_n += w
        node.ph_mean += (error - node.ph_mean) * (w / node.ph_n)
        node.ph_sum += w * (error - node.ph_mean - self.settings["drift_delta"])
        node.ph_least = min(node.ph_least, node.ph_sum)
        return node.ph_sum - node.ph_least > self.settings["drift_threshold"]


class SubspaceTwin(FimtTwin):
    """Leaves are counted as they come to be; `learn` returns how far the tree was off."""

    def __init__(self, n_values, n_features=None, seed=0, **settings):
        self.n_features, self.seed, self.born = n_features, seed, 0
        super().__init__(n_values, drift_detection=False, **settings)

    def subset(self):
        d = len(self.n_values)
        found = subset(key_of(self.seed), self.born, d, min(self.n_features or d, d))
        self.born += 1
        return found

    def learn(self, x, y, w=1.0):
        error = abs(y - self.predict(x))  # NaN where it knows nothing
        super().learn(x, y, w)
        return error


class OrtoTwin(Tree):
    def options(self, node):
        """The options of the option node that `node` heads; itself where it heads none."""
        found = [node]
        while found[-1].others:
            found.append(found[-1].others[0])
        return found

    def trees(self):
        return 1 + sum(len(node.others) for node in self.root.all())

    def down(self, option, x):
        """From an option to a leaf or to the first option of the next option node."""
        node = option
        while node.leaf is None:
            node = node.child(x, self.n_values)
            if node.others:
                break
        return node

    def value(self, option, x, losses):
        """An option's prediction; its own and those of the options below it are added to `losses`."""
        end = self.down(option, x)
        if end is not option and end.others:
            result = self.combine(end, x, losses)
        else:
            result = end.leaf.predict(x)
        losses.append((option, result))
        return result

    def combine(self, head, x, losses):
        values = [(option, self.value(option, x, losses)) for option in self.options(head)]
        if self.settings["prediction"] == "best-path":
            return min(values, key=lambda pair: pair[0].loss)[1]
        total = shares = 0.0
        for option, value in reversed(values):
            share = 1.0
            if self.settings["prediction"] == "weighted":
                share = 1.0 / min(max(option.loss, 1e-100), 1e100)
                share *= share
            total += share * value
            shares += share
        return total / shares

    def predict(self, x):
        return self.combine(self.root, x, [])

    def leaves(self, x):
        """The leaves that an instance reaches, level by level of option nodes."""
        found, stretches = [], self.options(self.root)
        for option in stretches:  # grows meanwhile
            end = self.down(option, x)
            if end is not option and end.others:
                stretches += self.options(end)
            else:
                found.append(end)
        return found

    def learn(self, x, y, w=1.0):
        if w <= 0.0:
            return
        losses, y = [], self.counted(y)
        self.combine(self.root, x, losses)
        for option, value in losses if self.target.n else []:  # it knew something
            option.loss = self.settings["error_fading"] * option.loss + w * (y - value) * (y - value)
        for node in self.leaves(x):
            node.leaf.learn(x, y, w)
            if self.due(node) and not node.others:
                self.try_split(node)
        self.widen(x, y, w)

    def try_split(self, node):
        s = self.settings
        if not self.may_split(node, s["max_nodes"]):
            return
        leaf = node.leaf
        ranking = leaf.ranking()
        if not ranking:
            return
        if self.separates(ranking, self.bound(leaf)):
            node.split(ranking[0][1], ranking[0][2], leaf)
            node.loss = 0.0
            return
        alike = [r for r in ranking if r[0] >= ranking[0][0] * (1.0 - self.bound(leaf))]
        kept = 1 if s["keep_leaf"] else 0
        allowed = int(s["max_options"] * s["option_decay"] ** node.depth)
        n = min(len(alike), allowed, s["max_trees"] - self.trees() + 1 - kept)
        if n < 2 or self.n_nodes() + 3 * n - 1 + kept > s["max_nodes"]:
            return
        option = node
        node.loss = 0.0
        for i, (_, feature, value) in enumerate(alike[:n]):
            if i or kept:
                option.others = [Node(None, node.depth)]
                option = option.others[0]
            option.split(feature, value, leaf)
            option.seen_before = leaf.seen if option is node else 0.0
