"""The naive twin of models/comparison.py: every pair of losses in a list, each interval from its definition."""

import math


class NaiveComparison:
    def __init__(self, task):
        self.task = task
        self.pairs = []  # of losses since the reach is known, and as it was then
        self.reach = 1.0 if task == "classification" else None
        self.looked = []  # absolute errors since the last look at the reach
        self.starts = [0]  # numbers of labels at which the comparison began anew

    def score(self, y, older, newer):
        if math.isnan(older[0]) or math.isnan(newer[0]):
            return
        if self.task == "classification":
            self.pairs.append((self.wrong(y, older), self.wrong(y, newer)))
            return
        errors = abs(older[0] - y), abs(newer[0] - y)
        if self.reach is None:
            self.looked += errors
            if len(self.looked) >= 200 and sum(self.looked) > 0:
                self.reach, self.looked = 5 * sum(self.looked) / len(self.looked), []
            return
        shares = tuple(min(error / self.reach, 1.0) for error in errors)
        self.looked += shares
        self.pairs.append(shares)
        if len(self.looked) == 2000:
            mean, self.looked = sum(self.looked) / 2000, []
            if mean > 0.5 or mean < 0.01:
                self.reach *= 8 if mean > 0.5 else 1 / 8
                self.starts.append(len(self.pairs))

    @staticmethod
    def wrong(y, p):
        return 0.0 if max(p) > 0 and p.index(max(p)) == y else 1.0

    def advantages(self, error):
        """(since, n, difference, low, high), the shortest first."""
        found = []
        for k in range(17):
            first, begun = self.begin(k)
            pairs = self.pairs[first:]
            if not pairs:
                continue
            share = 1 / 2 if k == 0 else 1 / 2 * (1 / k - 1 / (k + 1))
            share *= 1 / begun - 1 / (begun + 1)
            differences = [a - b for a, b in pairs]
            n, total, squares = len(pairs), sum(differences), sum(d * d for d in differences)
            width = bound(squares, error * share / 2) / n
            mean = total / n
            found.append((first, n, *(self.reach * x for x in (mean, max(-1, mean - width), min(1, mean + width)))))
        return sorted(found, key=lambda one: one[1])

    def begin(self, k):
        """Where the sums of span k began last, and for the how many-th time."""
        length, begun, first = math.inf if k == 0 else 1000 * 2 ** (k - 1), 1, 0
        starts = self.starts[1:]
        for i in range(len(self.pairs)):
            if starts and i == starts[0]:
                starts, first, begun = starts[1:], i, begun + 1
            elif i - first == length:
                first, begun = i, begun + 1
        return (len(self.pairs), begun + 1) if starts else (first, begun)


def bound(squares, error):
    """By bisection."""

    def wealth(u):
        rates = [2.0**-k for k in range(1, 9)]
        return sum(math.exp(min(700, r * u + squares * (math.log(1 - r) + r))) for r in rates) / 8

    low, high = 0.0, 1.0
    while wealth(high) < 1 / error:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if wealth(middle) < 1 / error else (low, middle)
    return high
