"""The naive twin of models/evaluation/comparison.py: every pair of losses in a list, each interval from its
definition."""

import math
import statistics

from riparian.models.kernels import elementary


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
            if max(older) <= 0 and max(newer) <= 0:
                return
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
            mean, width = sum(differences) / len(pairs), half_width(differences, error * share)
            ends = (mean, max(-1, mean - width), min(1, mean + width))
            found.append((first, len(pairs), *(self.reach * x for x in ends)))
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


class NaiveCosts(NaiveComparison):
    """Of losses that are costs by amount, each with what was at stake."""

    def __init__(self):
        super().__init__("costs")

    def pay(self, older, newer, stake):
        if self.reach is None:
            self.looked.append(stake)
            if len(self.looked) >= 100:
                self.reach, self.looked = 10 * sum(self.looked) / len(self.looked), []
            return
        self.looked.append(min(stake / self.reach, 8.0))
        self.pairs.append(tuple(min(cost / self.reach, 1.0) for cost in (older, newer)))
        if len(self.looked) == 1000:
            mean, self.looked = sum(self.looked) / 1000, []
            if mean > 0.5 or mean < 0.01:
                self.reach *= 8 if mean > 0.5 else 1 / 8
                self.starts.append(len(self.pairs))


def half_width(differences, alpha):
    """Of the asymptotic confidence sequence, as theorem 2.2 of the paper writes it: alpha of both sides."""
    n, rho2 = len(differences), 1 / 1000
    deviation = math.sqrt(long_run_variance(differences) + 10 / n)
    return deviation * math.sqrt(2 * (n * rho2 + 1) / (n * n * rho2) * elementary.log(math.sqrt(n * rho2 + 1) / alpha))


def long_run_variance(values):
    """The largest of what means of batches show: b times the variance of the means."""
    found = [0.0]
    for b in (1, 5, 25, 125, 500, 2000, 8000):
        means = [sum(values[i : i + b]) / b for i in range(0, len(values) - b + 1, b)]
        if len(means) > 1 and (b == 1 or len(means) >= max(8, len(values) ** 0.5 / 4)):
            found.append(b * statistics.variance(means))
    return max(found)
