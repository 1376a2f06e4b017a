"""Online ensembles once more, slow and obvious: one instance at a time, one member after the other.

Written from the papers (Oza and Russell 2001; Bifet, Holmes and Pfahringer 2010; Servedio 2003 and Chen, Lin and Lu
2012) and the documented choices of models.ensemble; they share no code with it. Members are twins of Hoeffding trees,
the detector is that of tests.models.naive_drift.
"""

import math

from riparian.models.kernels import elementary
from tests.models.naive_drift import NaiveAdwin
from tests.models.naive_hoeffding import HoeffdingTreeTwin

MASK = (1 << 64) - 1


def splitmix(z):
    """The number that splitmix64 makes of a state."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def key_of(*numbers):
    mixed = 0
    for number in numbers:
        mixed = splitmix(((mixed ^ number) + 2 * 0x9E3779B97F4A7C15) & MASK)
    return mixed


def draw(key, i):
    """Draw i of a key, in [0, 1)."""
    return (splitmix((key + (i + 1) * 0x9E3779B97F4A7C15) & MASK) >> 11) * 2.0**-53


def poisson(rate, u):
    if rate > 500.0:
        return math.floor(rate + 0.5)
    k, p = 0, elementary.exp(-rate)
    below = p
    while u >= below and p > 0.0:
        k += 1
        p *= rate / k
        below += p
    return k


class MemberTwin:
    """A tree, its recent hits and their weight."""

    def __init__(self, serial, n_values, n_classes, settings):
        self.serial, self.hits, self.weight = serial, 0.0, 0.0
        self.tree = HoeffdingTreeTwin(n_values, n_classes, **settings)

    def errs(self, x, y):
        """Whether it would predict another class than y, or nothing; and it keeps its accuracy."""
        p = self.tree.predict(x)
        best = max(range(len(p)), key=lambda c: (p[c], -c))
        return 0 if p[best] > 0.0 and best == y else 1

    def score(self, error, w):
        self.hits = 0.999 * self.hits + w * (1 - error)
        self.weight = 0.999 * self.weight + w

    def votes(self, x, vote):
        """The member's votes, and how much they count."""
        p = self.tree.predict(x)
        if vote == "weighted":
            return p, (self.hits + 1.0) / (self.weight + 2.0)
        if vote == "majority" and sum(p) > 0.0:
            best = max(range(len(p)), key=lambda c: (p[c], -c))
            return [1.0 if c == best else 0.0 for c in range(len(p))], 1.0
        return p, 1.0


class EnsembleTwin:
    def __init__(self, n_values, n_classes, seed, n_models, vote="average", **tree):
        self.n_values, self.n_classes, self.seed, self.vote, self.tree = n_values, n_classes, seed, vote, tree
        self.learned = self.next_serial = 0
        self.members = [self.fresh() for _ in range(n_models)]

    def fresh(self):
        self.next_serial += 1
        return MemberTwin(self.next_serial - 1, self.n_values, self.n_classes, self.tree)

    def predict(self, x):
        total = [0.0] * self.n_classes
        for member in self.members:
            p, factor = self.votes(member, x)
            total = [t + factor * one for t, one in zip(total, p, strict=True)]
        whole = 0.0
        for t in total:
            whole += t
        return [t / whole for t in total] if whole > 0.0 else total

    def votes(self, member, x):
        return member.votes(x, self.vote)

    def learn(self, x, y, w):
        if not (0 <= y < self.n_classes and 0.0 < w < math.inf):
            return
        self.teach(x, int(y), w)
        self.learned += 1


class BaggingTwin(EnsembleTwin):
    rate = 1.0

    def teach(self, x, y, w):
        for member in self.members:
            error = member.errs(x, y)
            member.score(error, w)
            k = poisson(self.rate, draw(key_of(self.seed, member.serial, 1), self.learned))
            member.tree.learn(x, y, w * k)
            self.watch(member, error)
        self.after()

    def watch(self, member, error):
        pass

    def after(self):
        pass


class LeveragingTwin(BaggingTwin):
    def __init__(self, *arguments, rate=6.0, drift_delta=0.002, **more):
        self.rate, self.drift_delta = rate, drift_delta
        super().__init__(*arguments, **more)
        self.changes = self.replaced = 0

    def fresh(self):
        member = super().fresh()
        member.adwin = NaiveAdwin(delta=self.drift_delta)
        member.rate = 0.0
        member.risen = False
        return member

    def watch(self, member, error):
        before = member.rate
        level = member.adwin.update(float(error))
        member.rate = member.adwin.total / len(member.adwin.values)
        member.risen = level == 2 and member.rate > before

    def after(self):
        if any(member.risen for member in self.members):
            self.changes += 1
            worst = max(range(len(self.members)), key=lambda m: (self.members[m].rate, -m))
            if self.members[worst].rate > 0.0:
                self.members[worst] = self.fresh()
                self.replaced += 1


class SmoothBoostTwin(EnsembleTwin):
    def __init__(self, *arguments, gamma=0.1, **more):
        self.gamma = gamma
        super().__init__(*arguments, **more)

    def teach(self, x, y, w):
        hits = 0
        for m, member in enumerate(self.members):
            z = 2.0 * hits - m * (1.0 + self.gamma / (2.0 + self.gamma))
            weight = min(1.0, (1.0 - self.gamma) ** (z / 2.0))
            error = member.errs(x, y)
            member.score(error, w)
            member.tree.learn(x, y, w * weight)
            hits += 1 - error


class BoostingTwin(EnsembleTwin):
    def __init__(self, *arguments, poisson=True, **more):
        self.poisson, self.seen = poisson, 0.0
        super().__init__(*arguments, **more)

    def fresh(self):
        member = super().fresh()
        member.right = member.wrong = 0.0
        return member

    def votes(self, member, x):
        wrong = (member.wrong + 1.0) / (member.right + member.wrong + 2.0)
        return member.tree.predict(x), max(0.0, elementary.log((1.0 - wrong) / wrong))

    def teach(self, x, y, w):
        self.seen += w
        rate = 1.0
        for member in self.members:
            u = draw(key_of(self.seed, member.serial, 2), self.learned)
            error = member.errs(x, y)
            member.score(error, w)
            member.tree.learn(x, y, w * (poisson(rate, u) if self.poisson else rate))
            if error:
                member.wrong += w * rate
                rate *= self.seen / (2.0 * member.wrong)
            else:
                member.right += w * rate
                rate *= self.seen / (2.0 * member.right)
