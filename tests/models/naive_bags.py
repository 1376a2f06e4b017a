"""Learners for bags once more, slow and obvious, from the papers.

MITI: Blockeel, Page and Srinivasan 2005, section 3, with the scores of Bjerring and Frank 2011; nodes are objects with
lists of instances. Diverse density: Maron and Lozano-Pérez 1998, products of probabilities as they are written; quick
diverse density: Foulds and Frank 2010. Where the papers leave something open, as models.bags documents it.
"""

import math
from itertools import pairwise

from riparian.models.kernels import elementary


class Instance:
    def __init__(self, x, bag):
        self.x, self.bag = x, bag


class Bag:
    def __init__(self, instances, positive, weight, exponent):
        self.instances = [Instance(x, self) for x in instances]
        self.positive, self.explained = positive, False
        self.instance_weight = weight / len(instances) ** exponent


class Node:
    def __init__(self, instances, parent=None):
        self.instances, self.parent = instances, parent
        self.test = self.left = self.right = None  # test : (feature, threshold or nominal value)
        self.value = self.weight = None

    def counting(self):
        return [i for i in self.instances if not i.bag.explained]


def weights(instances):
    """Of those of positive bags, and of all."""
    positive = total = 0.0
    for i in instances:
        total += i.bag.instance_weight
        if i.bag.positive:
            positive += i.bag.instance_weight
    return positive, total


class MITITwin:
    """k, criterion : as the learner's. n_values : 0 for numeric features."""

    def __init__(self, n_values, k, criterion, size_exponent):
        self.n_values, self.k, self.criterion, self.size_exponent = n_values, k, criterion, size_exponent

    def bepp(self, positive, total):
        return positive / (total + self.k) if total + self.k else math.nan

    def fit(self, bags, y, w):
        self.bags = [
            Bag(i, label == 1, weight, self.size_exponent) for i, label, weight in zip(bags, y, w, strict=True)
        ]
        root = Node([i for bag in self.bags for i in bag.instances])
        self.nodes, waiting = [root], [root]
        while waiting:
            # All are scored again each time, which is what waiting for a positive leaf comes to.
            node = max(waiting, key=lambda node: 0.0 if node is root else self.bepp(*weights(node.counting())))
            waiting.remove(node)
            waiting += self.expand(node)
        return self

    def expand(self, node):
        instances = node.counting()
        positive, node.weight = weights(instances)
        node.value = (positive + 1.0) / (node.weight + 2.0)
        labels = {i.bag.positive for i in instances}
        if len(labels) == 2:
            node.test = self.best_test(instances)
            if node.test is not None:
                node.left = Node([i for i in node.instances if self.goes_left(i.x, node.test)], node)
                node.right = Node([i for i in node.instances if not self.goes_left(i.x, node.test)], node)
                self.nodes += [node.left, node.right]
                return [node.left, node.right]
        if labels == {True} or not labels or (len(labels) == 2 and positive > 0.5 * node.weight):
            if not labels:
                node.value = 0.5 + 1e-9
            for i in instances:
                i.bag.explained |= i.bag.positive
        return []

    def goes_left(self, x, test):
        f, at = test
        return x[f] == at if self.n_values[f] else x[f] <= at

    def best_test(self, instances):
        total = weights(instances)
        best, chosen = -math.inf, None
        for f, n_values in enumerate(self.n_values):
            # Sums go in the order of values, to be equal to the last bit.
            known = sorted((i for i in instances if not math.isnan(i.x[f])), key=lambda i: i.x[f])
            values = sorted({i.x[f] for i in known})
            if n_values:
                tests = values if len(values) > 1 else []
            else:
                tests = [a / 2 + b / 2 if a / 2 + b / 2 < b else a for a, b in pairwise(values)]
            for at in tests:
                left = weights([i for i in known if self.goes_left(i.x, (f, at))])
                score = self.score(left, (total[0] - left[0], total[1] - left[1]))
                if score > best:
                    best, chosen = score, (f, at)
        return chosen

    def score(self, left, right):
        a, b = self.bepp(*left), self.bepp(*right)
        if self.criterion == "max-bepp":
            return max(a, b)
        if self.criterion == "gini":
            return -(a * (1.0 - a) * left[1] + b * (1.0 - b) * right[1]) / (left[1] + right[1])
        return a * a + b * b

    def predict(self, instances):
        return max((self.leaf(x).value for x in instances), default=0.0)

    def leaf(self, x):
        node = self.nodes[0]
        while node.test is not None:
            node = node.left if self.goes_left(x, node.test) else node.right
        return node


def likeness(x, target, scale, n_values):
    total = 0.0
    for a, b, s, values in zip(x, target, scale, n_values, strict=True):
        total += (s * (float(a != b) if values else a - b)) ** 2
    return elementary.exp(-total)


def probability(bag, target, scale, n_values):
    """That a bag is positive: a noisy or."""
    none = 1.0
    for x in bag:
        none *= 1.0 - likeness(x, target, scale, n_values)
    return 1.0 - none


def loss(bags, y, w, target, scale, n_values):
    total = 0.0
    for bag, label, weight in zip(bags, y, w, strict=True):
        p = probability(bag, target, scale, n_values)
        total -= weight * elementary.log(p if label else 1.0 - p)
    return total
