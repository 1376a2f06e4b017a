"""The Hoeffding tree and naive Bayes once more, slow and obvious: one instance at a time, dicts and objects.

Written from the papers (Domingos and Hulten 2000; Gama, Rocha and Medas 2003; Holmes, Kirkby and Pfahringer 2005;
Langley, Iba and Thompson 1992; John and Langley 1995) and the documented choices of models.observers.gaussians,
models.hoeffding.splitting.candidates and models.hoeffding.hoeffding_tree; it shares no code with them. Nothing is
cached, nothing has a capacity. Sums go over features, classes and branches in ascending order, so that figures can be
compared exactly.
"""

import decimal
import itertools
import math

from riparian.models.kernels import elementary

LN_2 = elementary.log(2.0)
EXACT_LN_2 = decimal.Context(prec=40).ln(2)
ROOTS = [float(decimal.Context(prec=40).power(2, decimal.Decimal(j) / 64)) for j in range(64)]
MOST = 2.0**60
LEAST = 1e-300


def missing(value):
    return math.isnan(value) or math.isinf(value)


def heaviest(weights):
    """The class with the highest positive weight, ties to the lowest; None where there is none."""
    best = None
    for c in sorted(weights):
        if weights[c] > 0.0 and (best is None or weights[c] > weights[best]):
            best = c
    return best


class Gaussian:
    """Weighted count, mean and squared deviations of one feature in one class, with its range."""

    def __init__(self, value, weight):
        self.n, self.mean, self.m2, self.least, self.greatest = weight, value, 0.0, value, value

    def add(self, value, weight):
        self.n += weight
        before = self.mean
        self.mean = before + weight * (value - before) / self.n
        self.m2 += weight * (value - before) * (value - self.mean)
        self.least = min(self.least, value)
        self.greatest = max(self.greatest, value)

    def variance(self):
        return self.m2 / (self.n - 1.0) if self.n > 1.0 else 0.0

    def precision(self):
        """1 / (2 variance), 0 where it is too small for a float; None where all values are the same."""
        if self.variance() <= LEAST:
            return None
        a = 0.5 * (self.n - 1.0) / self.m2
        return a if a >= LEAST else 0.0

    def distance(self, value):
        a = self.precision()
        if a is None:
            return 0.0 if value == self.mean else math.inf
        return a * (value - self.mean) * (value - self.mean) if a > 0.0 else math.inf

    def weight_up_to(self, threshold):
        if threshold >= self.greatest:
            return self.n
        if threshold < self.least:
            return 0.0
        deviation = math.sqrt(self.variance())
        if deviation == 0.0:  # many values, but so close to another that the variance is 0
            return self.n if threshold >= self.mean else 0.0
        return self.n * 0.5 * (1.0 + elementary.erf((threshold - self.mean) / deviation / math.sqrt(2.0)))


class Histogram:
    """At most n_bins keys, each with what was seen from above the key before it up to itself."""

    def __init__(self, n_bins):
        self.n_bins = n_bins
        self.counts = {}  # key -> class -> weight

    def add(self, value, c, weight):
        above = [key for key in self.counts if key >= value]
        full = len(self.counts) == self.n_bins
        if value in self.counts or (full and above and value > min(self.counts)):
            key = min(above)
        else:
            if full:
                self.drop_lightest()
            key = value
            self.counts[key] = {}
        self.counts[key][c] = self.counts[key].get(c, 0.0) + weight

    def drop_lightest(self):
        """The two lightest neighbours, but the least and the greatest key, become one."""
        keys = sorted(self.counts)
        pairs = list(itertools.pairwise(keys[1:-1])) or [(keys[1], keys[2])]
        gone, kept = min(pairs, key=lambda pair: add_up([*self.weights(pair[0]), *self.weights(pair[1])]))
        for c, weight in self.counts.pop(gone).items():
            self.counts[kept][c] = self.counts[kept].get(c, 0.0) + weight

    def weights(self, key):
        return [self.counts[key][c] for c in sorted(self.counts[key])]

    def log_share(self, value, c):
        """log(n_bc + 1 / n) and log n, which is the same for all classes: it is left out."""
        key = min((key for key in self.counts if key >= value), default=max(self.counts))
        return elementary.log(len(self.counts) * self.counts[key].get(c, 0.0) + 1.0)

    def thresholds(self):
        return sorted(self.counts)[:-1]

    def weight_up_to(self, threshold, c):
        return add_up(self.counts[key].get(c, 0.0) for key in sorted(self.counts) if key <= threshold)


class NumericObserver:
    def __init__(self, n_bins=0):
        self.classes = {}
        self.histogram = Histogram(n_bins) if n_bins else None

    def add(self, value, c, weight):
        if missing(value):
            return
        if self.histogram:
            self.histogram.add(value, c, weight)
            self.classes[c] = self.classes.get(c, 0.0) + weight
            return
        if c in self.classes:
            self.classes[c].add(value, weight)
        else:
            self.classes[c] = Gaussian(value, weight)

    def weight(self, c):
        return self.classes[c].n if c in self.classes else 0.0

    def fade(self, c, left):
        self.classes[c].n *= left
        self.classes[c].m2 *= left

    def log_likelihood(self, value, c, n_known):
        """Of a histogram."""
        if missing(value):
            return 0.0
        return (
            self.histogram.log_share(value, c) - elementary.log(self.classes[c] + 1.0)
            if c in self.classes
            else -math.inf
        )

    def multiply(self, value, c, n_known, parts):
        if missing(value):
            return
        parts["distance"] += self.classes[c].distance(value) if c in self.classes else math.inf
        a = self.classes[c].precision() if c in self.classes else 0.0
        if a is None:  # likelihood 1 at the one value, where others are taken sqrt(pi) times as large as they are
            a = math.pi
        if a:
            parts["precisions"].append(a)

    def candidates(self, settings):
        if not self.classes:
            return []
        if self.histogram:
            return self.histogram.thresholds()
        least = min(g.least for g in self.classes.values())
        greatest = max(g.greatest for g in self.classes.values())
        n = settings["n_split_points"]
        values = (least + (greatest - least) * (i / (n + 1.0)) for i in range(1, n + 1))
        return [v for v in values if least < v < greatest]

    def branches(self, value, settings):
        if self.histogram:
            left = {c: self.histogram.weight_up_to(value, c) for c in self.classes}
            return {0: left, 1: {c: max(0.0, n - left[c]) for c, n in self.classes.items()}}
        left = {c: g.weight_up_to(value) for c, g in self.classes.items()}
        return {0: left, 1: {c: max(0.0, g.n - left[c]) for c, g in self.classes.items()}}


class NominalObserver:
    def __init__(self):
        self.values = {}  # value -> class -> weight
        self.classes = {}  # class -> weight

    def add(self, value, c, weight):
        if missing(value):
            return
        of_value = self.values.setdefault(int(value), {})
        of_value[c] = of_value.get(c, 0.0) + weight
        self.classes[c] = self.classes.get(c, 0.0) + weight

    def weight(self, c):
        return self.classes.get(c, 0.0)

    def fade(self, c, left):
        for weights in (self.classes, *self.values.values()):
            if c in weights:
                weights[c] *= left

    def log_likelihood(self, value, c, n_known):
        if missing(value):
            return 0.0
        if c not in self.classes:
            return -math.inf
        n = self.values.get(int(value), {}).get(c, 0.0)
        return elementary.log(n + 1.0) - elementary.log(self.classes[c] + n_known)

    def multiply(self, value, c, n_known, parts):
        if missing(value):
            return
        if c not in self.classes:
            parts["distance"] = math.inf
            return
        parts["above"].append(min(self.values.get(int(value), {}).get(c, 0.0) + 1.0, MOST))
        parts["below"].append(min(self.classes[c] + n_known, MOST))

    def candidates(self, settings):
        if not settings["binary_splits"]:
            return [None] if self.values else []
        return sorted(self.values)

    def branches(self, value, settings):
        if value is None:
            return {v: self.values[v] for v in sorted(self.values)}
        equal = {c: self.values[value].get(c, 0.0) for c in self.classes}
        return {0: equal, 1: {c: max(0.0, n - equal[c]) for c, n in self.classes.items()}}


class Unobserved:
    """Of a feature that a leaf does not look at."""

    def add(self, value, c, weight):
        pass

    def log_likelihood(self, value, c, n_known):
        return 0.0

    def multiply(self, value, c, n_known, parts):
        pass

    def candidates(self, settings):
        return []


def add_up(numbers):
    """Left to right; the built-in sum compensates rounding from Python 3.12 on."""
    result = 0.0
    for number in numbers:
        result += number
    return result


def total(weights):
    return add_up(weights[c] for c in sorted(weights))


def impurity(weights, criterion):
    shares = [weights[c] / total(weights) for c in sorted(weights) if weights[c] > 0.0]
    if criterion == "gini":
        return 1.0 - add_up(share * share for share in shares)
    entropy = 0.0
    for share in shares:
        entropy -= share * elementary.log(share)
    return entropy / LN_2


def hellinger(branches, whole):
    """The greatest distance of one class from the rest."""
    n, greatest = total(whole), 0.0
    for c in sorted(whole):
        if 0.0 < whole[c] < n:
            squares = 0.0
            for j in sorted(branches):
                share = math.sqrt(branches[j].get(c, 0.0) / whole[c])
                rest = math.sqrt(max(0.0, total(branches[j]) - branches[j].get(c, 0.0)) / (n - whole[c]))
                squares += (share - rest) * (share - rest)
            greatest = max(greatest, math.sqrt(squares))
    return greatest


def hoeffding_bound(weights, settings):
    """The Hoeffding bound; None where only one class is there."""
    present = [c for c in weights if weights[c] > 0.0]
    if len(present) < 2:
        return None
    spans = {"info-gain": elementary.log(len(present)) / LN_2, "gini": 1.0, "hellinger": math.sqrt(2.0)}
    span = spans[settings["split_criterion"]]
    return math.sqrt(span * span * elementary.log(1.0 / settings["delta"]) / (2.0 * total(weights)))


def merit(branches, seen, settings):
    """What a test gains over not splitting, times the share of known values; -inf where a branch is too light."""
    whole = {}
    for j in sorted(branches):
        for c, weight in branches[j].items():
            whole[c] = whole.get(c, 0.0) + weight
    n = total(whole)
    if n <= 0.0:
        return -math.inf
    large = [j for j in branches if total(branches[j]) > settings["min_branch_fraction"] * n]
    if len(large) < 2:
        return -math.inf
    if settings["split_criterion"] == "hellinger":
        return hellinger(branches, whole) * min(1.0, n / seen)
    after = 0.0
    for j in sorted(branches):
        if total(branches[j]) > 0.0:
            after += total(branches[j]) / n * impurity(branches[j], settings["split_criterion"])
    return (impurity(whole, settings["split_criterion"]) - after) * min(1.0, n / seen)


def best_candidates(node, seen, settings):
    """(merit, feature, value) of each feature's best test, and of not splitting, which gains nothing: best first."""
    best = [(0.0, None, None)]
    for f, observer in enumerate(node.observers):
        found = None
        for value in observer.candidates(settings):
            gain = merit(observer.branches(value, settings), seen, settings)
            if found is None or gain > found[0]:
                found = (gain, f, value)
        if found is not None:
            best.append(found)
    best.sort(key=lambda candidate: -candidate[0])  # stable: ties go to the first
    return best


class Node:
    """A leaf, until it gets a test."""

    def __init__(self, number, parent, weights, n_values, n_bins=0, chosen=None):
        self.id, self.parent, self.weights = number, parent, dict(weights)
        self.depth = 0 if parent is None else parent.depth + 1
        self.seen = self.evaluated = self.mc_correct = self.nb_correct = 0.0
        self.n_values, self.n_bins, self.unobserved = n_values, n_bins, 0.0
        self.chosen = range(len(n_values)) if chosen is None else chosen
        self.observe_anew()
        self.feature = None
        self.value = None  # threshold, or value of a binary nominal test, None for one branch a value
        self.children = {}
        self.default = None

    def observe_anew(self):
        self.observers = [NominalObserver() if n else NumericObserver(self.n_bins) for n in self.n_values]
        for f in set(range(len(self.n_values))) - set(self.chosen):
            self.observers[f] = Unobserved()

    def promise(self):
        return total(self.weights) - max(self.weights.values(), default=0.0)


def scaled(x):
    """x > 0 as a number in [1, 2) and an exponent of 2."""
    m, e = math.frexp(x)
    return 2.0 * m, e - 1


def product(factors):
    """Their product, rounded each time, as a number in [1, 2) and an exponent of 2."""
    result, exponent = 1.0, 0
    for factor in factors:
        part, shift = scaled(factor)
        result, more = scaled(result * part)
        exponent += shift + more
    return result, exponent


def exponential(x):
    """exp(x), x <= 0, as a number and an exponent of 2: 2^(1/64) to a power from a table, and the series beyond."""
    step = EXACT_LN_2 / 64
    high = round(float(step) * 2.0**38) / 2.0**38
    low = float(step - decimal.Decimal(high))
    x = max(x, -1e9)
    steps = int(x * float(1 / step) - 0.5)
    r = (x - steps * high) - steps * low
    rest = r + r * r * ((0.5 + r * (1.0 / 6.0)) + r * r * (1.0 / 24.0 + r * (1.0 / 120.0)))
    return ROOTS[steps % 64] + ROOTS[steps % 64] * rest, steps // 64


def odds_of_products(weights, observers, x, known):
    """Likelihoods of the classes, relative to each other; those of likelihood 0 are left out."""
    found = {}
    for c in sorted(weights):
        if weights[c] > 0.0:
            parts = {"distance": 0.0, "precisions": [], "above": [], "below": []}
            for f, observer in enumerate(observers):
                observer.multiply(x[f], c, len(known[f]), parts)
            if parts["distance"] < math.inf:
                above, n_above = product(parts["above"])
                below, n_below = product(parts["below"])
                squared, n_squared = product(parts["precisions"])
                weight, n_weight = scaled(min(max(weights[c], LEAST), 1.0 / LEAST))
                root = math.sqrt(squared * 2.0 ** (n_squared % 2))
                prior = weight * root / below
                found[c] = (above * prior, n_above + n_weight + n_squared // 2 - n_below, parts["distance"])
    nearest = min((distance for _, _, distance in found.values()), default=0.0)
    for c, (m, e, distance) in found.items():
        part, shift = exponential(nearest - distance) if distance > nearest else (1.0, 0)
        found[c] = (m * part, e + shift)
    top = max((e for _, e in found.values()), default=0)
    return {c: math.ldexp(m, e - top) for c, (m, e) in found.items() if e - top >= -1022}


def odds_of_logarithms(weights, observers, x, known):
    """The same of histograms, from sums of logarithms."""
    scores = {}
    for c in sorted(weights):
        if weights[c] > 0.0:
            scores[c] = elementary.log(weights[c])
            for f, observer in enumerate(observers):
                scores[c] += observer.log_likelihood(x[f], c, len(known[f]))
    top = max(scores.values(), default=-math.inf)
    return {c: elementary.exp(score - top) for c, score in scores.items() if score > -math.inf}


def naive_bayes(weights, observers, x, known, histograms=False):
    """Likelihoods of the classes times their weights, relative to each other."""
    return (odds_of_logarithms if histograms else odds_of_products)(weights, observers, x, known)


def likeliest(odds):
    best = None
    for c in sorted(odds):
        if odds[c] > 0.0 and (best is None or odds[c] > odds[best]):
            best = c
    return best


def from_odds(odds, n_classes):
    shares = [odds.get(c, 0.0) for c in range(n_classes)]
    return [p / add_up(shares) for p in shares]


def from_weights(weights, n_classes):
    n = total(weights)
    return [weights.get(c, 0.0) / n if n > 0.0 else 0.0 for c in range(n_classes)]


class NaiveBayesTwin:
    def __init__(self, n_values, n_classes, window=math.inf):
        self.n_values, self.n_classes, self.window = n_values, n_classes, window
        self.weights = {}
        self.known = [set() for _ in n_values]
        self.observers = [NominalObserver() if n else NumericObserver() for n in n_values]

    def predict(self, x):
        odds = naive_bayes(self.weights, self.observers, x, self.known)
        if likeliest(odds) is None:
            return from_weights(self.weights, self.n_classes)
        return from_odds(odds, self.n_classes)

    def learn(self, x, y, w=1.0):
        if w <= 0.0:
            return
        self.weights[int(y)] = self.weights.get(int(y), 0.0) + w
        for f, observer in enumerate(self.observers):
            if self.n_values[f] and not missing(x[f]):
                self.known[f].add(x[f])
            observer.add(x[f], int(y), w)
        while sum(self.weights[c] for c in sorted(self.weights)) >= self.window:
            for c in self.weights:
                self.weights[c] *= 0.9
                for observer in self.observers:
                    if observer.weight(c) >= 10.0:
                        observer.fade(c, 0.9)


class HoeffdingTreeTwin:
    def __init__(self, n_values, n_classes, **settings):
        self.n_values, self.n_classes, self.settings = n_values, n_classes, settings
        self.known = [set() for _ in n_values]
        self.nodes = []
        self.root = self.add_node(None, {})

    def add_node(self, parent, weights):
        n_bins = self.settings["n_bins"] if self.settings.get("observer") == "histogram" else 0
        chosen = self.chosen(len(self.nodes))
        self.nodes.append(Node(len(self.nodes), parent, weights, self.n_values, n_bins, chosen))
        return self.nodes[-1]

    def chosen(self, number):
        """The features that a node looks at."""
        return range(len(self.n_values))

    def leaf(self, x, learning):
        node = self.root
        while node.feature is not None:
            value = x[node.feature]
            if math.isnan(value):
                node = node.default
            elif not self.n_values[node.feature]:
                node = node.children[1 if value > node.value else 0]
            elif node.value is not None:
                node = node.children[0 if value == node.value else 1]
            elif int(value) in node.children:
                node = node.children[int(value)]
            elif learning and len(self.nodes) < self.settings["max_nodes"] and self.leaves_left() >= 1:
                node.children[int(value)] = node = self.add_node(node, {})
                self.rank()
            else:
                node = node.default
        return node

    def leaves_left(self):
        most = self.settings.get("max_leaves")
        return math.inf if most is None else most - sum(node.feature is None for node in self.nodes)

    def rank(self):
        """See to it that the most promising leaves observe, where not all may."""
        most = self.settings.get("max_active_leaves")
        if most is None:
            return
        leaves = [node for node in self.nodes if node.feature is None]
        while sum(leaf.observers is not None for leaf in leaves) > most:
            self.poorest(leaves).observers = None
        while True:
            poorest = self.poorest(leaves)
            waiting = [leaf for leaf in leaves if leaf.observers is None]
            best = max(waiting, key=lambda leaf: (leaf.promise(), -leaf.id), default=None)
            if best is None or best.promise() <= poorest.promise():
                return
            poorest.observers = None
            best.observe_anew()
            best.evaluated = best.unobserved = best.seen
            best.mc_correct = best.nb_correct = 0.0

    def poorest(self, leaves):
        active = [leaf for leaf in leaves if leaf.observers is not None]
        return min(active, key=lambda leaf: (leaf.promise(), -leaf.id))

    def odds(self, leaf, x):
        return naive_bayes(leaf.weights, leaf.observers, x, self.known, leaf.n_bins > 0)

    def predict(self, x):
        leaf = self.leaf(x, learning=False)
        mode = self.settings["leaf_prediction"]
        if leaf.observers is not None and (mode == "nb" or (mode == "nba" and leaf.nb_correct >= leaf.mc_correct)):
            odds = self.odds(leaf, x)
            if likeliest(odds) is not None:
                return from_odds(odds, self.n_classes)
        return from_weights(leaf.weights, self.n_classes)

    def learn(self, x, y, w=1.0):
        if w <= 0.0:
            return
        y = int(y)
        leaf = self.leaf(x, learning=True)
        if self.settings["leaf_prediction"] == "nba" and leaf.observers is not None:
            majority = heaviest(leaf.weights)
            best = likeliest(self.odds(leaf, x))
            leaf.mc_correct += w if majority == y else 0.0
            leaf.nb_correct += w if (majority if best is None else best) == y else 0.0
        leaf.weights[y] = leaf.weights.get(y, 0.0) + w
        leaf.seen += w
        for f, observer in enumerate(leaf.observers or ()):
            if self.n_values[f] and f in leaf.chosen and not missing(x[f]):
                self.known[f].add(x[f])
            observer.add(x[f], y, w)
        if leaf.seen - leaf.evaluated >= self.settings["grace_period"]:
            leaf.evaluated = leaf.seen
            deep = self.settings["max_depth"]
            if leaf.observers is None:
                self.rank()
            elif self.leaves_left() < 1:
                return
            elif (deep is None or leaf.depth < deep) and len(self.nodes) + 2 <= self.settings["max_nodes"]:
                self.try_split(leaf)

    def try_split(self, leaf):
        bound = hoeffding_bound(leaf.weights, self.settings)
        if bound is None:
            return
        best = best_candidates(leaf, leaf.seen - leaf.unobserved, self.settings)
        (gain, feature, value), (second, _, _) = best[0], [*best, best[0]][1]
        if feature is None:
            return
        if not (gain - second > bound or bound < self.settings["tie_threshold"]):
            return
        branches = leaf.observers[feature].branches(value, self.settings)
        if len(self.nodes) + len(branches) > self.settings["max_nodes"] or self.leaves_left() < len(branches) - 1:
            return
        leaf.feature, leaf.value, leaf.observers = feature, value, None
        for j in sorted(branches):
            leaf.children[j] = self.add_node(leaf, branches[j])
            if leaf.default is None or total(branches[j]) > total(leaf.default.weights):
                leaf.default = leaf.children[j]
        self.rank()

    def describe(self):
        """In the words of HoeffdingTree.describe."""
        described = []
        for node in self.nodes:
            below = self.leaves(node)
            entry = {
                "id": node.id,
                "parent": None if node.parent is None else node.parent.id,
                "depth": node.depth,
                "weight": self.weight(node),
            }
            if node.feature is None:
                mode = self.settings["leaf_prediction"]
                if mode == "nba":
                    mode = "mc" if node.mc_correct > node.nb_correct else "nb"
                if node.observers is None:
                    mode = "mc"
                    entry["active"] = False
                entry |= {"predictor": mode, "value": [node.weights.get(c, 0.0) for c in range(self.n_classes)]}
            else:
                entry["value"] = [sum(leaf.weights.get(c, 0.0) for leaf in below) for c in range(self.n_classes)]
                entry |= {"feature": node.feature, "default": node.default.id}
                children = {value: child.id for value, child in node.children.items()}
                if not self.n_values[node.feature]:
                    entry |= {"threshold": node.value, "children": [children[0], children[1]]}
                elif node.value is not None:
                    entry |= {"equals": node.value, "children": [children[0], children[1]]}
                else:
                    entry["children"] = children
            described.append(entry)
        return described

    def leaves(self, node):
        if node.feature is None:
            return [node]
        return [leaf for child in node.children.values() for leaf in self.leaves(child)]

    def weight(self, node):
        return node.seen + sum(self.weight(child) for child in node.children.values())
