"""Online bagging and adaptive random forests for regression once more, slow and obvious, one instance at a time.

Written from Oza and Russell 2001, Gomes et al. 2017 and Gomes, Barddal, Ferreira and Bifet 2018, and the documented
choices of models.ensemble; trees are twins of those of models.regression.subspace_tree, detectors of ADWIN.
"""

import math

from tests.models.naive_drift import NaiveScale
from tests.models.naive_fimt import SubspaceTwin
from tests.models.naive_forests import ForestTwin, Grown, Member, key_of, subset
from tests.models.naive_running_scale import held

LEAVES = {"mc": "mean", "nb": "model", "nba": "adaptive"}


class GrownValues(Grown):
    """hits : the faded absolute error."""

    def __init__(self, tree, forest):
        super().__init__(tree)
        self.forest = forest

    @property
    def knows(self):
        return self.tree.target.n > 0.0

    def error(self, x, y, w):
        if not self.knows:
            return None
        self.off = off = abs(y - self.tree.predict(x))
        counts = held(off, self.hits / self.weight, self.weight) if self.weight else off
        self.hits = 0.999 * self.hits + w * counts
        self.weight = 0.999 * self.weight + w
        return off


class RegressionMember(Member):
    def watch_anew(self):
        super().watch_anew()
        self.scale = NaiveScale()

    def scaled(self, error):
        if error is None:
            return None
        changed, value = self.scale.take(error)
        if changed:
            super().watch_anew()
        return value

    def begin(self):
        grown = GrownValues(super().begin().tree, self.forest)
        grown.number = self.begun
        return grown


class PatchTwin:
    """A tree that knows of some features only."""

    def __init__(self, n_values, n_chosen, seed, **settings):
        self.features = subset(key_of(seed), 0, len(n_values), n_chosen)
        self.tree = SubspaceTwin([n_values[f] for f in self.features], **settings)
        self.target = self.tree.target

    def describe(self, key):
        return self.tree.describe(key)

    def predict(self, x):
        return self.tree.predict([x[f] for f in self.features])

    def learn(self, x, y, w=1.0):
        return self.tree.learn([x[f] for f in self.features], y, w)


class RegressionForestTwin(ForestTwin):
    """per_leaf : subsets of features are those of leaves, of random patches those of trees."""

    def __init__(self, n_values, seed, per_leaf, n_chosen, rate, parameters):
        self.n_values, self.seed, self.n_chosen, self.rate = n_values, seed, n_chosen, rate
        self.p = {"drift_detection": False, "warning_delta": 0.01, "drift_delta": 0.001, **parameters}
        self.per_leaf = per_leaf
        self.learned = 0
        self.members = [RegressionMember(self, serial) for serial in range(parameters["n_models"])]

    def new_tree(self, seed):
        names = ("grace_period", "delta", "tie_threshold", "n_bins", "min_branch_fraction", "max_nodes", "max_depth")
        rates = {"learning_rate": 0.1, "learning_rate_decay": 0.001, "error_fading": 0.995}
        leaf = LEAVES[self.p["leaf_prediction"]]
        settings = {**{name: self.p[name] for name in names}, **rates, "leaf_prediction": leaf}
        if not self.per_leaf:
            return PatchTwin(self.n_values, self.n_chosen, seed, **settings)
        return SubspaceTwin(self.n_values, n_features=self.n_chosen, seed=seed, **settings)

    def predict(self, x):
        known = [member.front for member in self.members if member.front.knows]
        values = [grown.tree.predict(x) for grown in known]
        if not values:
            return math.nan
        if self.p["vote"] == "majority":
            values.sort()
            return 0.5 * (values[(len(values) - 1) // 2] + values[len(values) // 2])
        factors = [1.0] * len(values)
        if self.p["vote"] == "weighted":
            factors = [g.weight / (g.hits + 1e-12 * g.weight) if g.weight > 0.0 else 0.0 for g in known]
        total = weighed = added = 0.0
        for factor, value in zip(factors, values, strict=True):
            total, weighed, added = total + factor, weighed + factor * value, added + value
        return weighed / total if total > 0.0 else added / len(values)

    def learn(self, x, y, w=1.0):
        if not (w > 0.0 and abs(y) <= 1e100):
            return
        for member in self.members:
            member.learn(x, y, w, self.learned)
        self.learned += 1
