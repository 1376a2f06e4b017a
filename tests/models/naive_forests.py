"""Adaptive random forests and streaming random patches once more, slow and obvious, one instance at a time.

Written from Gomes et al. 2017 and Gomes, Read and Bifet 2019, and the documented choices of
models.ensemble.adaptation. Every instance goes through all members before the next one comes; the trees are twins of
the Hoeffding tree, the detectors twins of ADWIN.
"""

from tests.models.naive_hoeffding import HoeffdingTreeTwin

MASK = (1 << 64) - 1


def mixed(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def key_of(*numbers):
    """The second output of splitmix64, started at what was mixed so far and the next number."""
    result = 0
    for number in numbers:
        result = mixed((2 * 0x9E3779B97F4A7C15 + (result ^ (number & MASK))) & MASK)
    return result


def share_at(key, i):
    return (mixed((key + (i + 1) * 0x9E3779B97F4A7C15) & MASK) >> 11) / 2**53


def subset(key, node, n_features, n_chosen):
    """Of the features, in their order, each is taken with the chance that it is among those still missing."""
    taken = []
    for f in range(n_features):
        if share_at(key, node * n_features + f) * (n_features - f) < n_chosen - len(taken):
            taken.append(f)
    return taken


class SubspaceTreeTwin(HoeffdingTreeTwin):
    def __init__(self, n_values, n_classes, seed, n_chosen, per_leaf, **settings):
        self.key, self.n_chosen, self.per_leaf = key_of(seed), n_chosen, per_leaf
        super().__init__(n_values, n_classes, **settings)

    def chosen(self, number):
        return subset(self.key, number if self.per_leaf else 0, len(self.n_values), self.n_chosen)
