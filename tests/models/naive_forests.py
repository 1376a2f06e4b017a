"""Adaptive random forests and streaming random patches once more, slow and obvious, one instance at a time.

Written from Gomes et al. 2017 and Gomes, Read and Bifet 2019, and the documented choices of
models.ensemble.adaptation.watched_trees. Every instance goes through all members before the next one comes; the trees
are twins of the Hoeffding tree, the detectors twins of ADWIN.
"""

from tests.models.naive_drift import NaiveAdwin
from tests.models.naive_ensembles import draw, key_of, poisson
from tests.models.naive_hoeffding import HoeffdingTreeTwin, add_up


def subset(key, node, n_features, n_chosen):
    """Of the features, in their order, each is taken with the chance that it is among those still missing."""
    taken = []
    for f in range(n_features):
        if draw(key, node * n_features + f) * (n_features - f) < n_chosen - len(taken):
            taken.append(f)
    return taken


class SubspaceTreeTwin(HoeffdingTreeTwin):
    def __init__(self, n_values, n_classes, seed, n_chosen, per_leaf, **settings):
        self.key, self.n_chosen, self.per_leaf = key_of(seed), n_chosen, per_leaf
        super().__init__(n_values, n_classes, **settings)

    def chosen(self, number):
        return subset(self.key, number if self.per_leaf else 0, len(self.n_values), self.n_chosen)


class Window:
    """The errors since the last change or start."""

    def __init__(self, delta):
        self.adwin = NaiveAdwin(delta)

    def rises(self, error):
        if error is None:  # the tree knew nothing, or the scale is not known
            return False
        errors = [*self.adwin.values, error]
        before = sum(errors) / len(errors)
        return self.adwin.update(error) == 2 and sum(self.adwin.values) / len(self.adwin.values) > before


class Grown:
    """A tree, and how good its predictions of labels were before it learned them."""

    def __init__(self, tree):
        self.tree, self.hits, self.weight, self.off = tree, 0.0, 0.0, 0

    def error(self, x, y, w):
        """What the windows see; what trees are compared by is `off`."""
        probabilities = self.tree.predict(x)
        wrong = max(probabilities) == 0.0 or probabilities.index(max(probabilities)) != y
        self.off = int(wrong)
        self.hits = 0.999 * self.hits + (0.0 if wrong else w)
        self.weight = 0.999 * self.weight + w
        return int(wrong)


class Member:
    def __init__(self, forest, serial):
        self.forest, self.serial, self.begun = forest, serial, 0
        self.events = []
        self.front, self.back = self.begin(), None
        self.watch_anew()
        self.compare_anew()

    def begin(self):
        self.begun += 1
        grown = Grown(self.forest.new_tree(key_of(self.forest.seed, self.serial, 2, self.begun - 1) >> 1))
        grown.number = self.begun
        return grown

    def watch_anew(self):
        self.warning = Window(self.forest.p["warning_delta"])
        self.drift = Window(self.forest.p["drift_delta"])

    def compare_anew(self):
        self.differences = []

    def exchange(self, event):
        self.events.append(event)
        self.front, self.back = self.back, self.front
        self.watch_anew()
        self.compare_anew()

    def scaled(self, error):
        """An error as the windows see it; None for nothing."""
        return error

    def learn(self, x, y, w, ordinal):
        rate = self.forest.rate
        k = poisson(rate, draw(key_of(self.forest.seed, self.serial, 1), ordinal)) if rate > 0.0 else 1
        grown = [grown for grown in (self.front, self.back) if grown is not None]
        errors = [one.error(x, y, w) for one in grown]
        for one in grown:
            one.tree.learn(x, y, w * k)
        if not self.forest.p["drift_detection"]:
            return
        error = self.scaled(errors[0])
        warned, drifted = self.warning.rises(error), self.drift.rises(error)
        if drifted:
            self.drifted()
            return
        if self.back is not None and None not in errors:
            self.differences.append(self.back.off - self.front.off)
            if len(self.differences) % 32 == 0 and self.judged():
                return
        if warned:
            self.events.append("warning")
            self.warning = Window(self.forest.p["warning_delta"])
            if self.forest.p["background_trees"] and self.back is None:
                self.back = self.begin()
                self.compare_anew()

    def drifted(self):
        """The younger tree votes, the older one stays beside."""
        if self.back is not None and self.back.number > self.front.number:
            self.exchange("succeeds")
            return
        self.events.append("begins anew")
        self.front, self.back = self.begin(), self.front if self.back is None else self.back
        self.watch_anew()
        self.compare_anew()

    def judged(self):
        """Whether the tree beside votes from now on; or it may go."""
        total = squares = 0.0
        for d in self.differences:
            total, squares = total + d, squares + d * d
        proven, late = total * total > 6.0 * squares, len(self.differences) >= 2048
        older = self.back.number < self.front.number
        if late and (total < 0.0 or (total == 0.0 and older)):
            self.exchange("is late")
            self.back = None
            return True
        if proven and total < 0.0:
            self.exchange("comes back" if older else "is better")
            return True
        if late or (proven and older):
            self.events.append("is late" if late else "is worse")
            self.back = None
            self.compare_anew()
        return False


class ForestTwin:
    """parameters : all of them. per_leaf : of adaptive random forests True, of random patches False."""

    def __init__(self, n_values, n_classes, seed, per_leaf, n_chosen, rate, parameters):
        self.n_values, self.n_classes, self.seed, self.p, self.rate = n_values, n_classes, seed, parameters, rate
        self.per_leaf, self.n_chosen = per_leaf, n_chosen
        self.learned = 0
        self.members = [Member(self, serial) for serial in range(parameters["n_models"])]

    def new_tree(self, seed):
        return SubspaceTreeTwin(self.n_values, self.n_classes, seed, self.n_chosen, self.per_leaf, **self.p)

    def predict(self, x):
        totals = [0.0] * self.n_classes
        for member in self.members:
            votes = member.front.tree.predict(x)
            factor = 1.0
            if self.p["vote"] == "weighted":
                factor = (member.front.hits + 1.0) / (member.front.weight + 2.0)
            elif self.p["vote"] == "majority":
                best = votes.index(max(votes))
                votes = [float(c == best and max(votes) > 0.0) for c in range(self.n_classes)]
            totals = [total + factor * vote for total, vote in zip(totals, votes, strict=True)]
        whole = add_up(totals)
        return [total / whole if whole > 0.0 else 0.0 for total in totals]

    def learn(self, x, y, w=1.0):
        if w <= 0.0:
            return
        for member in self.members:
            member.learn(x, int(y), w, self.learned)
        self.learned += 1
