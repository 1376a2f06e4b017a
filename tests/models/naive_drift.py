"""The naive twins of models/drift, by the definitions: every value since the last change is kept in a list.

Running means and moving averages are folded in the papers' order, so that levels are equal and not only close.
"""

import math
from typing import NamedTuple

from riparian.models.kernels import elementary
from tests.models.naive_hoeffding import add_up
from tests.models.naive_streams import NaiveRandom


class Bucket(NamedTuple):
    size: int
    total: float
    spread: float


class NaiveAdwin:
    """A list of all buckets, oldest first; and all values, to compare the buckets with."""

    def __init__(self, delta=0.002, clock=32, max_buckets=5, min_side=5):
        self.delta, self.clock, self.max_buckets, self.min_side = delta, clock, max_buckets, min_side
        self.time, self.buckets, self.values, self.total, self.spread = 0, [], [], 0.0, 0.0

    def update(self, x):
        self.time += 1
        n = len(self.values)
        if n:
            deviation = x - self.total / n
            self.spread += n * deviation * deviation / (n + 1)
        self.total += x
        self.values.append(x)
        self.buckets.append(Bucket(1, x, 0.0))
        self.merge()
        level = 0
        if self.time % self.clock == 0 and len(self.values) > 10:
            while self.differs():
                self.drop()
                level = 2
        return level

    def merge(self):
        size = 1
        while True:
            same = [i for i, bucket in enumerate(self.buckets) if bucket.size == size]
            if len(same) <= self.max_buckets:
                return
            a, b = self.buckets[same[0]], self.buckets[same[1]]
            deviation = a.total / size - b.total / size
            merged = Bucket(2 * size, a.total + b.total, a.spread + b.spread + size * deviation * deviation / 2)
            self.buckets[same[0] : same[1] + 1] = [merged]
            size *= 2

    def drop(self):
        oldest = self.buckets.pop(0)
        del self.values[: oldest.size]
        n = len(self.values)
        self.total -= oldest.total
        deviation = oldest.total / oldest.size - self.total / n
        self.spread -= oldest.spread + oldest.size * n * deviation * deviation / (oldest.size + n)
        self.spread = max(self.spread, 0.0)

    def differs(self):
        n = len(self.values)
        log_term = elementary.log(2 * elementary.log(n) / self.delta)
        n0, total0, total1 = 0, 0.0, self.total
        for bucket in self.buckets:
            n0 += bucket.size
            total0 += bucket.total
            total1 -= bucket.total
            n1 = n - n0
            if n0 > self.min_side + 1 and n1 > self.min_side + 1:
                m = 1 / (n0 - self.min_side + 1) + 1 / (n1 - self.min_side + 1)
                bound = math.sqrt(2 * m * (self.spread / n) * log_term) + 2 / 3 * log_term * m
                if abs(total0 / n0 - total1 / n1) > bound:
                    return True
        return False


class NaiveDdm:
    def __init__(self, min_values=30, warning=2.0, drift=3.0):
        self.min_values, self.warning, self.drift = min_values, warning, drift
        self.values, self.points = [], []

    def update(self, x):
        self.values.append(x)
        n = len(self.values)
        if n < self.min_values:
            return 0
        p = sum(self.values) / n
        s = math.sqrt(p * (1 - p) / n)
        self.points.append((p, s))
        p_min, s_min = min(self.points, key=lambda point: point[0] + point[1])
        if p + s > p_min + self.drift * s_min:
            self.values, self.points = [], []
            return 2
        return 1 if p + s > p_min + self.warning * s_min else 0


class NaiveEddm:
    def __init__(self, min_values=30, min_errors=30, warning=0.95, drift=0.9):
        self.min_values, self.min_errors, self.warning, self.drift = min_values, min_errors, warning, drift
        self.start()

    def start(self):
        self.n, self.distances, self.last, self.reaches, self.level = 0, [], 0, [], 0

    def update(self, x):
        self.n += 1
        if x == 0:
            return self.level
        self.distances.append(self.n - self.last)
        self.last = self.n
        mean = spread = 0.0
        for i, distance in enumerate(self.distances):  # Welford's recurrence
            before = distance - mean
            mean += before / (i + 1)
            spread += before * (distance - mean)
        reach = mean + 2 * math.sqrt(spread / len(self.distances))
        self.level = 0
        if self.n < self.min_values:
            return 0
        self.reaches.append(reach)
        if len(self.distances) > self.min_errors:
            if reach < self.drift * max(self.reaches):
                self.start()
                return 2
            self.level = 1 if reach < self.warning * max(self.reaches) else 0
        return self.level


class NaivePageHinkley:
    def __init__(self, min_values=30, delta=0.005, threshold=50.0, alpha=0.9999, two_sided=False):
        self.min_values, self.delta, self.threshold, self.alpha = min_values, delta, threshold, alpha
        self.two_sided = two_sided
        self.start()

    def start(self):
        self.mean, self.up, self.down = 0.0, [0.0], [0.0]

    def update(self, x):
        n = len(self.up)
        self.mean += (x - self.mean) / n
        self.up.append(self.alpha * self.up[-1] + (x - self.mean - self.delta))
        self.down.append(self.alpha * self.down[-1] + (x - self.mean + self.delta))
        rise = self.up[-1] - min(self.up[1:])
        fall = max(self.down[1:]) - self.down[-1]
        if n >= self.min_values and (rise > self.threshold or (self.two_sided and fall > self.threshold)):
            self.start()
            return 2
        return 0


class NaiveKswin:
    """A list of the window, and both empirical distributions at every value in it."""

    def __init__(self, alpha=0.005, window_size=100, stat_size=30, seed=0):
        self.bound = math.sqrt(-elementary.log(alpha) / stat_size)
        self.window_size, self.stat_size = window_size, stat_size
        self.random, self.window = NaiveRandom(seed), []

    def update(self, x):
        self.window = [*self.window, x][-self.window_size :]
        if len(self.window) < self.window_size:
            return 0
        older, newest = self.window[: -self.stat_size], self.window[-self.stat_size :]
        for k in range(self.stat_size):  # the beginning of a shuffle
            j = k + self.random.below(len(older) - k)
            older[k], older[j] = older[j], older[k]
        sample = older[: self.stat_size]
        distance = max(
            abs(sum(v <= value for v in sample) - sum(v <= value for v in newest)) / self.stat_size
            for value in sample + newest
        )
        if distance > self.bound:
            self.window = newest
            return 2
        return 0


def hoeffding(n, confidence):
    return math.sqrt(elementary.log(1 / confidence) / (2 * n))


class NaiveHddmA:
    def __init__(self, drift_confidence=0.001, warning_confidence=0.005, two_sided=True):
        self.drift, self.warning, self.two_sided = drift_confidence, warning_confidence, two_sided
        self.values = []

    def update(self, x):
        self.values.append(x)
        n = len(self.values)
        means, total = [], 0.0
        for i, value in enumerate(self.values):
            total += value
            means.append(total / (i + 1))
        upper = [mean + hoeffding(i + 1, self.drift) for i, mean in enumerate(means)]
        lower = [mean - hoeffding(i + 1, self.drift) for i, mean in enumerate(means)]
        low = max(i for i in range(n) if upper[i] == min(upper))  # the latest of equals
        high = max(i for i in range(n) if lower[i] == max(lower))

        def differs(cut, difference, confidence):
            m = cut + 1
            return m < n and difference >= math.sqrt((n - m) / (2 * m * n) * elementary.log(2 / confidence))

        level = 0
        if differs(low, means[-1] - means[low], self.drift):
            level = 2
        elif differs(low, means[-1] - means[low], self.warning):
            level = 1
        if level == 2 or (self.two_sided and differs(high, means[high] - means[-1], self.drift)):
            self.values = []
        return level


class NaiveHddmW:
    def __init__(self, drift_confidence=0.001, warning_confidence=0.005, fading=0.05, two_sided=False):
        self.drift, self.warning, self.fading, self.two_sided = drift_confidence, warning_confidence, fading, two_sided
        self.values = []

    def average(self, values):
        mean, weight = values[0], 1.0
        rest = 1 - self.fading
        for value in values[1:]:
            mean = self.fading * value + rest * mean
            weight = self.fading * self.fading + rest * rest * weight
        return mean, weight

    def bound(self, weight, confidence):
        return math.sqrt(weight * elementary.log(1 / confidence) / 2)

    def update(self, x):
        self.values.append(x)
        low = high = 0
        averages = [self.average(self.values[: i + 1]) for i in range(len(self.values))]
        for i, (mean, weight) in enumerate(averages):
            bound = self.bound(weight, self.drift)
            if mean + bound < averages[low][0] + self.bound(averages[low][1], self.drift):
                low = i
            if mean - bound > averages[high][0] - self.bound(averages[high][1], self.drift):
                high = i
        level, anew = 0, False
        if low < len(averages) - 1:
            mean, weight = self.average(self.values[low + 1 :])
            rise, weight = mean - averages[low][0], weight + averages[low][1]
            level = 2 if rise > self.bound(weight, self.drift) else int(rise > self.bound(weight, self.warning))
        if self.two_sided and high < len(averages) - 1:
            mean, weight = self.average(self.values[high + 1 :])
            anew = averages[high][0] - mean > self.bound(weight + averages[high][1], self.drift)
        if level == 2 or anew:
            self.values = []
        return level


class NaiveScale:
    """A scale that stays: models.drift.scaling, value by value."""

    def __init__(self, errors=True):
        self.errors, self.block, self.centre, self.width = errors, [], 0.0, None

    def take(self, value):
        """Whether the scale was measured anew, and what the value is on it; None while that is not known."""
        changed = False
        if len(self.block) == (500 if self.width else 100):
            changed = self.look()
            self.block = []
        self.block.append(value)
        if not self.width:
            return changed, None
        z = (value - self.centre) / self.width
        return changed, -elementary.expm1(-z) if self.errors else 1.0 / (1.0 + elementary.exp(-z))

    def look(self):
        n, centre = len(self.block), 0.0
        if self.errors:
            kept = sorted(self.block)[: n - n // 20]
            width = add_up(value / len(kept) for value in kept)
        else:
            centre = add_up((value - self.block[0]) / n for value in self.block) + self.block[0]
            width = math.sqrt(add_up((value - centre) * (value - centre) / n for value in self.block))
        width = max(width, 2.0**-1022)
        first = not self.width
        if not first:
            away = sorted(abs(value - self.centre) for value in self.block)[n // 2]
            if away <= 4.0 * self.width and width >= self.width / 4.0:
                return False
        self.centre, self.width = centre, width
        return not first
