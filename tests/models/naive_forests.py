"""Adaptive random forests and streaming random patches once more, slow and obvious, one instance at a time.

Written from Gomes et al. 2017 and Gomes, Read and Bifet 2019, and the documented choices of
models.ensemble.adaptation. Every instance goes through all members before the next one comes; the trees are twins of
the Hoeffding tree, the detectors twins of ADWIN.
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
        errors = [*self.adwin.values, error]
        before = sum(errors) / len(errors)
        return self.adwin.update(error) == 2 and sum(self.adwin.values) / len(self.adwin.values) > before


class Grown:
    """A tree, and how good its predictions of labels were before it learned them."""

    def __init__(self, tree):
        self.tree, self.hits, self.weight = tree, 0.0, 0.0

    def error(self, x, y, w):
        probabilities = self.tree.predict(x)
        wrong = max(probabilities) == 0.0 or probabilities.index(max(probabilities)) != y
        self.hits = 0.999 * self.hits + (0.0 if wrong else w)
        self.weight = 0.999 * self.weight + w
        return int(wrong)


class Member:
    def __init__(self, forest, serial):
        self.forest, self.serial, self.begun = forest, serial, 0
        self.events = []
        self.renew()

    def renew(self):
        self.front, self.back = self.begin(), None
        self.watch_anew()

    def begin(self):
        self.begun += 1
        return Grown(self.forest.new_tree(key_of(self.forest.seed, self.serial, 2, self.begun - 1) >> 1))

    def watch_anew(self):
        self.warning = Window(self.forest.p["warning_delta"])
        self.drift = Window(self.forest.p["drift_delta"])

    def learn(self, x, y, w, ordinal):
        rate = self.forest.rate
        k = poisson(rate, draw(key_of(self.forest.seed, self.serial, 1), ordinal)) if rate > 0.0 else 1
        error = self.front.error(x, y, w)
        self.front.tree.learn(x, y, w * k)
        if self.back is not None:
            self.back.error(x, y, w)
            self.back.tree.learn(x, y, w * k if self.forest.background_bootstrap else w)
        if not self.forest.p["drift_detection"]:
            return
        warned, drifted = self.warning.rises(error), self.drift.rises(error)
        if drifted and self.back is not None:
            self.events.append("succeeds")
            self.front, self.back = self.back, None
            self.watch_anew()
        elif drifted:
            self.events.append("begins anew")
            self.renew()
        elif warned:
            self.events.append("warning")
            self.warning = Window(self.forest.p["warning_delta"])
            if self.forest.p["background_trees"]:
                self.back = self.begin()


class ForestTwin:
    """parameters : all of them. per_leaf, background_bootstrap : of adaptive random forests True and False, of random
    patches the other way round."""

    def __init__(self, n_values, n_classes, seed, per_leaf, background_bootstrap, n_chosen, rate, parameters):
        self.n_values, self.n_classes, self.seed, self.p, self.rate = n_values, n_classes, seed, parameters, rate
        self.per_leaf, self.background_bootstrap, self.n_chosen = per_leaf, background_bootstrap, n_chosen
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
