"""Soft trees once more, slow and obvious: nodes are objects, weights are dicts, one instance at a time.

Written from the papers (Köbschall, Hartung and Kramer 2025; Hazimeh et al. 2020; Kingma and Ba 2015) and the documented
choices of models.soft; it shares no code with it. The tests of a leaf come from the naive Hoeffding tree, those of a
regression from the naive FIMT-DD. Outputs and gradients are computed by recursion over the whole tree, whether a node
is reached or not. Sums are taken in another order than in the kernels, so figures agree to rounding.
"""

import math
from statistics import NormalDist

from riparian.models.kernels import elementary
from tests.models.naive_fimt import Nominal, Numeric, Sums
from tests.models.naive_hoeffding import NominalObserver, NumericObserver, merit, missing, total
from tests.models.naive_running_scale import held, near

BIAS = "bias"
N_BINS = 32  # thresholds of a leaf that observes values


def deviations(sums):
    """The sum of squared deviations from the mean; one that is all rounding is 0."""
    if sums.n <= 0.0:
        return 0.0
    within = sums.squares - sums.total * sums.total / sums.n
    return within if within > 1e-12 * sums.squares else 0.0


def smooth_step(t, gamma):
    if t <= -gamma / 2.0:
        return 0.0
    if t >= gamma / 2.0:
        return 1.0
    return -2.0 / gamma**3 * t**3 + 3.0 / (2.0 * gamma) * t + 0.5


def smooth_step_slope(t, gamma):
    return -6.0 / gamma**3 * t**2 + 3.0 / (2.0 * gamma) if -gamma / 2.0 < t < gamma / 2.0 else 0.0


class Scale:
    """Running mean and variance of a feature, and mean size of what it came to when it was learned."""

    def __init__(self):
        self.n = self.mean = self.variance = self.size = 0.0

    def add(self, value, w):
        if abs(value) < 1e100:
            self.n += w
            step = w / self.n
            self.size += step * (abs(self(value)) - self.size)
            delta = value - self.mean
            self.variance = (1.0 - step) * (self.variance + step * delta * delta)
            self.mean += step * delta

    def __call__(self, value):
        if not abs(value) < 1e100 or self.variance <= 0.0:
            return 0.0
        return min(max((value - self.mean) / (3.0 * math.sqrt(self.variance)), -3.0), 3.0)


class Weights(dict):
    """Weights by name, each with the moments of Adam; all take steps together."""

    def __init__(self, values=()):
        super().__init__(values)
        self.first, self.second, self.steps = {}, {}, 0

    def copy(self):
        other = Weights(self)
        other.first, other.second, other.steps = dict(self.first), dict(self.second), self.steps
        return other

    def descend(self, gradient, rate, beta1, beta2):
        """One step of Adam; a weight that is not in `gradient` keeps its moments."""
        self.steps += 1
        for name, g in gradient.items():
            self.first[name] = beta1 * self.first.get(name, 0.0) + (1.0 - beta1) * g
            self.second[name] = beta2 * self.second.get(name, 0.0) + (1.0 - beta2) * g * g
            m = self.first[name] / (1.0 - self.corrected(beta1))
            v = self.second[name] / (1.0 - self.corrected(beta2))
            # epsilon is added to the deviation before its correction, as Kingma and Ba suggest in section 2
            epsilon = 1e-8 / math.sqrt(1.0 - self.corrected(beta2))
            self[name] = self.get(name, 0.0) - rate * m / (math.sqrt(v) + epsilon)

    def corrected(self, beta):
        power = beta**self.steps
        return power if power >= 1e-9 else 0.0


class Node:
    """A leaf until it has children."""

    def __init__(self, depth, leaf):
        self.depth, self.leaf = depth, leaf
        self.gate = self.children = self.feature = self.value = self.share = None
        self.observers = self.origin = None
        self.classes = {}
        self.seen = self.evaluated = self.reach = 0.0


class SoftTwin:
    """One model: the sum of `trees`, each a Node."""

    def __init__(self, n_values, n_outputs, trees, *, alpha, gamma, learning_rate, beta1, beta2, growth=None):
        """growth : parameters of a soft Hoeffding tree, or None for a tree that does not grow. n_outputs 1: values."""
        self.n_values, self.n_outputs, self.trees, self.growth = n_values, n_outputs, trees, growth
        self.alpha, self.gamma, self.adam = alpha, gamma, (learning_rate, beta1, beta2)
        self.scales = [Scale() for _ in n_values]
        self.target = Scale()
        self.errors = []  # squared, of targets that teach weights
        self.known = {}
        self.n_classes = n_outputs  # as the tests of other twins call it

    # forward

    def encoded(self, x):
        """The row as a gate weighs it: name -> value, without what is 0."""
        row = {BIAS: 1.0}
        for f, n in enumerate(self.n_values):
            if n == 0:
                row[f] = self.scales[f](x[f])
            elif not missing(x[f]) and 0 <= x[f] < n:
                row[f, int(x[f])] = 1.0
        return row

    def test(self, node, x):
        value, n = x[node.feature], self.n_values[node.feature]
        if math.isnan(value) or (n and not 0 <= value < n):
            return node.share
        return float(value == node.value if n else value <= node.value)

    def linear(self, node, row):
        return sum(node.gate.get(name, 0.0) * value for name, value in row.items())

    def passes(self, node, x, row):
        share = self.alpha * smooth_step(self.linear(node, row), self.gamma)
        return share + (1.0 - self.alpha) * self.test(node, x) if self.alpha < 1.0 else share

    def logits(self, node, x, row):
        """The output of a subtree, class -> logit."""
        if node.children is None:
            return {c: node.leaf.get(c, 0.0) for c in range(self.n_outputs)}
        p = self.passes(node, x, row)
        first, second = (self.logits(child, x, row) for child in node.children)
        return {c: p * first[c] + (1.0 - p) * second[c] for c in first}

    def output(self, x):
        row = self.encoded(x)
        parts = [self.logits(tree, x, row) for tree in self.trees]
        return {c: sum(part[c] for part in parts) for c in range(self.n_outputs)}

    def probabilities(self, logits):
        odds = {c: elementary.exp(logits[c] - max(logits[k] for k in self.known)) for c in self.known}
        return {c: odds[c] / sum(odds.values()) for c in odds}

    def predict(self, x):
        if self.n_outputs == 1:
            if self.target.n == 0.0:
                return [math.nan]
            return [self.target.mean + math.sqrt(self.target.variance) * self.output(x)[0]]
        if not self.known:
            return [0.0] * self.n_outputs
        p = self.probabilities(self.output(x))
        return [p.get(c, 0.0) for c in range(self.n_outputs)]

    # backward

    def learn(self, x, y, w=1.0):
        if w <= 0.0:
            return
        row, logits = self.encoded(x), self.output(x)
        if self.n_outputs == 1:
            counted = near(y, self.target.mean, self.target.variance, self.target.n)
            self.target.add(counted, w)
            deviation = math.sqrt(self.target.variance)
            error = 0.0
            if deviation > 0.0 and counted == y:
                error = logits[0] - (y - self.target.mean) / deviation
                faded = [0.999**age for age in range(len(self.errors))][::-1]
                mean = sum(f * e for f, e in zip(faded, self.errors, strict=True)) / sum(faded) if faded else 0.0
                self.errors.append(held(error * error, mean, 1000.0))
                error = math.copysign(math.sqrt(self.errors[-1]), error)
            gradient, y = {0: w * error}, counted
        else:
            self.known[int(y)] = self.known.get(int(y), 0.0) + w
            p = self.probabilities(logits)
            gradient = {c: w * (p.get(c, 0.0) - (c == int(y))) for c in range(self.n_outputs)}
        steps, leaves = [], []
        for tree in self.trees:
            self.backward(tree, 1.0, gradient, x, row, steps, leaves)
        rate, *betas = self.adam
        for weights, of_weights in steps:
            weights.descend(of_weights, rate * self.shorter(), *betas)
        for leaf, reach in leaves:
            leaf.reach += w * reach
            if self.growth is not None:
                self.observe(leaf, reach, x, y, w)
        for f, n in enumerate(self.n_values):
            if n == 0:
                self.scales[f].add(x[f], w)

    def shorter(self):
        """What steps are multiplied by where labels, the current one among them, are of few classes mostly."""
        if len(self.known) < 2:
            return 1.0
        shares = [weight / sum(self.known.values()) for weight in self.known.values()]
        impurity = sum(share * (1.0 - share) for share in shares)
        return max(0.2, min(1.0, 1.5 * math.sqrt(impurity / (1.0 - 1.0 / len(shares)))))

    def backward(self, node, reach, gradient, x, row, steps, leaves):
        """Collects (weights, gradient) of every reached node that has one, and (leaf, probability to reach it).

        The subtree's output along `gradient`.
        """
        if node.children is None:
            if reach > 0.0:
                leaves.append((node, reach))
                steps.append((node.leaf, {c: reach * g for c, g in gradient.items()}))
            return sum(node.leaf.get(c, 0.0) * g for c, g in gradient.items())
        p = self.passes(node, x, row)
        first = self.backward(node.children[0], reach * p, gradient, x, row, steps, leaves)
        second = self.backward(node.children[1], reach * (1.0 - p), gradient, x, row, steps, leaves)
        slope = smooth_step_slope(self.linear(node, row), self.gamma)
        factor = reach * self.alpha * slope * (first - second)
        if factor != 0.0:
            steps.append((node.gate, {name: factor * value for name, value in row.items()}))
        return p * first + (1.0 - p) * second

    # growth

    def observe(self, leaf, reach, x, y, w):
        """Enter an instance into a leaf's statistics, and split it if it is time."""
        if leaf.depth >= self.growth["max_depth"] or not reach > self.growth["min_reach"]:
            return
        if leaf.observers is None:
            leaf.observers = [self.observer(n) for n in self.n_values]
            leaf.origin = y
        above = y - leaf.origin
        seen = Sums(w, w * above, w * above * above)
        for f, observer in enumerate(leaf.observers):
            if not self.n_values[f] or 0 <= x[f] < self.n_values[f]:
                if self.n_outputs == 1:
                    observer.add(x[f], seen)
                else:
                    observer.add(x[f], int(y), w)
        if self.n_outputs > 1:
            leaf.classes[int(y)] = leaf.classes.get(int(y), 0.0) + w
        leaf.seen += w
        if leaf.seen - leaf.evaluated >= self.growth["grace_period"]:
            leaf.evaluated = leaf.seen
            if self.n_outputs == 1:
                self.try_split_values(leaf)
            else:
                self.try_split(leaf)

    def decided(self, leaf, lead, span, statistic, n_free):
        """By the Hoeffding bound or a tie, and by the likelihood-ratio test against chance."""
        bound = math.sqrt(span**2 * elementary.log(1.0 / self.growth["delta"]) / (2.0 * leaf.seen))
        level = self.growth["significance"]
        if not (lead > bound or bound < self.growth["tie_threshold"]):
            return False
        if level == 1.0:
            return True
        # the quantile of chi-squared with n_free degrees of freedom as Wilson and Hilferty have it
        n_tests = (N_BINS if self.n_outputs == 1 else 10) * len(self.n_values)
        normal = NormalDist().inv_cdf(1.0 - level / n_tests)
        quantile = n_free * (1.0 - 2.0 / (9.0 * n_free) + normal * math.sqrt(2.0 / (9.0 * n_free))) ** 3
        return statistic > quantile

    def observer(self, n):
        if self.n_outputs == 1:
            return Nominal() if n else Numeric(N_BINS)
        return NominalObserver() if n else NumericObserver()

    @staticmethod
    def best_test(gains_of_features):
        """Feature and value of the best test, its merit and that of the next feature, or of not splitting; or None."""
        best, merits = None, [0.0]  # not splitting
        for f, gains in enumerate(gains_of_features):
            if gains:
                gain, value = max(gains, key=lambda found: found[0])
                if gain > max(merits):
                    best = f, value
                merits.append(gain)
        return None if best is None else (*best, *sorted(merits, reverse=True)[:2])

    @staticmethod
    def gains_of_values(leaf, observer):
        whole, gains = observer.whole(), []
        for value, inside in observer.candidates():
            rest = whole - inside
            if min(inside.n, rest.n) > 0.01 * whole.n and deviations(whole) > 0.0:
                gain = 1.0 - (deviations(inside) + deviations(rest)) / deviations(whole)
                gains.append((gain * min(1.0, whole.n / leaf.seen), value))
        return gains

    def try_split_values(self, leaf):
        """Section 6: the test that minimises the variance in the target space; its merit is the share that goes."""
        found = self.best_test(self.gains_of_values(leaf, observer) for observer in leaf.observers)
        if found is None:
            return
        f, value, first, second = found
        statistic = -leaf.seen * elementary.log(1.0 - first) if first < 1.0 else math.inf
        if not self.decided(leaf, first - second, 1.0, statistic, 1):
            return
        sides = leaf.observers[f].branches(value)
        whole = sides[0] + sides[1]
        self.open(leaf, f, value, sides[0].n / whole.n)
        deviation = math.sqrt(self.target.variance)
        for child, side in zip(leaf.children, sides, strict=True):
            # as many targets of the leaf's mean beside those of the side as a class has beside its own: one
            above = (side.total - side.n * whole.total / whole.n) / (side.n + 1.0)
            child.leaf[0] = child.leaf.get(0, 0.0) + above / deviation

    def try_split(self, leaf):
        n_present = len(leaf.classes)
        if n_present < 2:
            return
        settings = {
            "n_split_points": 10, "binary_splits": True, "split_criterion": "info-gain", "min_branch_fraction": 0.01,
        }  # fmt: skip
        found = self.best_test(
            [(merit(one.branches(v, settings), leaf.seen, settings), v) for v in one.candidates(settings)]
            for one in leaf.observers
        )
        if found is None:
            return
        f, value, first, second = found
        statistic = 2.0 * leaf.seen * elementary.log(2.0) * first
        if not self.decided(leaf, first - second, math.log2(n_present), statistic, n_present - 1):
            return
        sides = leaf.observers[f].branches(value, settings)
        passed, failed = total(sides[0]), total(sides[1])
        self.open(leaf, f, value, passed / (passed + failed))
        for child, side, weight in zip(leaf.children, (sides[0], sides[1]), (passed, failed), strict=True):
            for c in side:
                share = (sides[0][c] + sides[1][c]) / (passed + failed)
                if share > 0.0:
                    ratio = (side[c] / share + n_present) / (weight + n_present)
                    child.leaf[c] = child.leaf.get(c, 0.0) + elementary.log(ratio)

    def open(self, leaf, f, value, share):
        """Make a leaf a gate that agrees with its test, over two leaves like it."""
        leaf.feature, leaf.value, leaf.share = f, value, share
        if self.n_values[f]:
            leaf.gate = Weights({(f, value): self.gamma / 2.0, BIAS: -self.gamma / 4.0})
        else:
            leaf.gate = Weights({f: -self.gamma, BIAS: self.gamma * self.scales[f](value)})
        leaf.children = [Node(leaf.depth + 1, leaf.leaf.copy()) for _ in range(2)]
        leaf.observers = None
