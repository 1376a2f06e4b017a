"""Neighbours with two memories, slow and plain: all distances anew, all windows of the short memory beside each other.

Losing, Hammer and Wersing: KNN Classifier with Self Adjusting Memory for Heterogeneous Concept Drift, ICDM 2016. The
sections and equations that are named are that paper's. Where the learner bends it, a parameter says how far: `every`, a
window begins at each such row (paper: 1), and `reach`, as many of the nearest may be cleaned away (paper: any number).
"""

import math
from dataclasses import dataclass

import numpy as np

from tests.models.naive_running_scale import held
from tests.models.sums import added


@dataclass(eq=False)
class Row:
    x: list  # as it came, NaN where it is missing
    y: float
    w: float = 1.0
    z: np.ndarray = None  # x by the scales in use
    number: int = 0
    losses: tuple = ()  # of short, long and both, of what they said before the row was learned


class Scale:
    def __init__(self):
        self.n, self.mean, self.var = 0, 0.0, 0.0
        self.renew()

    def add(self, value, window):
        self.n += 1
        n, above = min(self.n, window), value - self.mean
        square = held(above * above, self.var, n)
        if square < above * above:
            above = math.copysign(math.sqrt(square), above)
        self.mean += above / n
        self.var += (square * (1.0 - 1.0 / n) - self.var) / n

    def renew(self):
        self.centre, self.inverse = self.mean, 1.0 / math.sqrt(self.var) if self.var > 0.0 else 0.0


class NaiveNeighbours:
    """Memories are lists of rows: `short` in the order of their arrival, `long` in that of its places."""

    def __init__(
        self, n_values, n_outputs, *, classes=True, k=5, window=1000, long=1000, minimum=50, every=None, reach=None
    ):
        self.nominal, self.n_outputs, self.classes = [v > 0 for v in n_values], n_outputs, classes
        self.k, self.window, self.room, self.minimum = k, window, long, min(minimum, window // 4)
        self.every, self.reach = every or self.minimum, reach or k
        self.n, self.short, self.long = 0, [], []
        self.windows = {}  # number of a window's first row -> the losses of the others, each by those before it
        self.scales, self.scale = [Scale() for _ in n_values], Scale()  # of features, and of the target

    # Model definition (A)

    def standardised(self, x):
        z = [
            v if nominal else min(max((v - scale.centre) * scale.inverse, -1e6), 1e6) if math.isfinite(v) else v
            for v, nominal, scale in zip(x, self.nominal, self.scales, strict=True)
        ]
        return np.array(z, np.float32)

    def squared(self, z, rows):
        """Of the Euclidean distances to rows, feature by feature."""
        total = np.zeros(len(rows), np.float32)
        columns = np.array([row.z for row in rows], np.float32).reshape(-1, len(z)).T
        for f, (nominal, there) in enumerate(zip(self.nominal, columns, strict=True)):
            apart = (there != z[f]) if nominal else np.square(there - z[f])
            gone, gone_too = np.isnan(there), np.isnan(z[f])
            total += np.where(gone | gone_too, gone != gone_too, apart).astype(np.float32)
        return total

    def nearest(self, z, rows, count=None):
        """N_k: (squared distance, row) of the nearest first, of equal ones the later of rows."""
        pairs = zip(self.squared(z, rows[::-1]).tolist(), rows[::-1], strict=True)
        return sorted(pairs, key=lambda pair: pair[0])[: count or self.k]

    def sets(self):
        """short, long and both: of equal distances, a row of the short memory is nearer."""
        return self.short, self.long, self.long + self.short

    def votes(self, z, rows):
        """(vote, row) of the neighbours, by inverse distances, the nearest first."""
        return [(row.w / max(math.sqrt(square), 1e-6), row) for square, row in self.nearest(z, rows)]

    def vote(self, z, rows):
        """kNN: the sum of each class, or the mean of targets; None of no rows."""
        near = self.votes(z, rows)
        if not near:
            return None
        if self.classes:
            sums = np.zeros(self.n_outputs)
            for vote, row in near:
                sums[int(row.y)] += vote
            return sums
        total, first = added(vote for vote, _ in near), near[0][1].y
        return first + (added(vote * (row.y - first) for vote, row in near) / total if total else 0.0)

    def predict(self, x):
        """By the memory with the greatest weight: its accuracy on the rows of the short memory (B4)."""
        wrong = [added(row.losses[s] for row in self.short) for s in range(3)]
        best = min((s for s in range(3) if s != 1 or self.long), key=lambda s: wrong[s])
        z, rows = self.standardised(self.cleared(x)), self.sets()[best]
        said = self.vote(z, rows)
        if said is None:
            return np.full(self.n_outputs, 0.0 if self.classes else math.nan)
        return said / (added(vote for vote, _ in self.votes(z, rows)) or 1.0) if self.classes else np.array([said])

    def loss(self, z, y, rows):
        said = self.vote(z, rows)
        if said is None:
            return 1.0
        if self.classes:
            return float(np.argmax(said) != y)
        return min(1.0, abs(said - y) * self.scale.inverse) if self.scale.inverse else float(said != y)

    # Parameter adaption (B)

    def cleared(self, x):
        return [v if n or abs(v) <= 1e100 else math.nan for v, n in zip(x, self.nominal, strict=True)]

    def learn(self, x, y, w=1.0):
        if not (w > 0.0 and math.isfinite(w)) or not (y in range(self.n_outputs) if self.classes else abs(y) <= 1e100):
            return
        row = Row(self.cleared(x), y, min(w, 1e100), number=self.n)
        row.z = self.standardised(row.x)
        row.losses = tuple(self.loss(row.z, y, rows) for rows in self.sets())
        for first, losses in self.windows.items():
            losses.append(self.loss(row.z, y, [other for other in self.short if other.number >= first]))
        self.remove(self.contradicting(row, self.short, self.long))
        for value, scale, nominal in zip(row.x, self.scales, self.nominal, strict=True):
            if not nominal and math.isfinite(value):
                scale.add(value, self.window)
        if not self.classes:
            self.scale.add(y, self.window)
        if self.n % self.every == 0:
            self.windows[self.n] = []
        self.short.append(row)
        self.n += 1
        self.adapt()
        if len(self.short) >= self.window:
            self.leave(self.begin(self.window - self.window // 4))
        if self.n <= self.minimum or self.n % self.minimum == 0:
            for scale in [*self.scales, self.scale]:
                scale.renew()
            for row in self.short + self.long:
                row.z = self.standardised(row.x)

    def begin(self, size, least=1):
        """The first row of the longest window of least to size rows."""
        return min((first for first in self.windows if least <= self.n - first <= size), default=None)

    def adapt(self):
        """Of windows of m, m/2, m/4, ... >= L_min rows that with the least interleaved test-train error (B1)."""
        size, firsts = len(self.short), [self.short[0].number]
        while (size := size // 2) >= self.minimum:
            firsts.append(self.begin(size, self.minimum))
        known = [first for first in firsts if first is not None]
        self.leave(min(known, key=lambda first: added(self.windows[first]) / max(1, len(self.windows[first]))))

    def contradicting(self, row, judges, others):
        """Of others those within theta of the row, and of another label, where theta is the distance of its farthest
        neighbour among judges with its label (B2). Targets: farther from the row's than any neighbour's."""
        near = [(s, judge) for s, judge in self.nearest(row.z, judges) if not self.classes or judge.y == row.y]
        if not near:
            return []
        theta, tau = max(s for s, _ in near), max(abs(judge.y - row.y) for _, judge in near)
        near = self.nearest(row.z, others, self.reach)
        return [other for square, other in near if square <= theta and abs(other.y - row.y) > tau]

    def remove(self, rows):
        """From the highest place down, and the last row takes the place."""
        for place in sorted((self.long.index(row) for row in rows), reverse=True):
            last = self.long.pop()
            if place < len(self.long):
                self.long[place] = last

    def leave(self, first):
        """Rows before the first leave the short memory; those that contradict nothing in it go to the long one (B2)."""
        gone = [row for row in self.short if row.number < first]
        self.short = [row for row in self.short if row.number >= first]
        self.windows = {number: losses for number, losses in self.windows.items() if number >= first}
        if not gone or not self.room:
            return
        wrong = []
        for row in self.short:
            wrong += self.contradicting(row, [other for other in self.short if other is not row], gone)
        for row in gone:
            if row in wrong:
                continue
            if len(self.long) == self.room:
                self.compress()
            self.long.append(row)

    def compress(self):
        """Each class by half as many rows (B3), by seeds each as far as can be from those before, not k-means++. Where
        none has two rows, the first half of them goes."""
        before, self.long = self.long, []
        for label in sorted({row.y for row in before}) if self.classes else [None]:
            rows = [row for row in before if label in (row.y, None)]
            seeds = [rows[0]]
            while len(seeds) < len(rows) // 2:
                far = np.min([self.squared(seed.z, rows) for seed in seeds], axis=0)
                if not far.any():
                    break
                seeds.append(rows[int(np.argmax(far))])
            own = np.argmin([self.squared(seed.z, rows) for seed in seeds], axis=0)
            self.long += [
                self.prototype([row for row, s in zip(rows, own, strict=True) if s == at]) for at in range(len(seeds))
            ]
        if len(self.long) == len(before):
            self.long = before[len(before) - len(before) // 2 :]

    def prototype(self, rows):
        x = []
        for f, nominal in enumerate(self.nominal):
            there = [row.x[f] for row in rows if math.isfinite(row.x[f])]
            if nominal and there:
                x.append(min(there, key=lambda v: (-there.count(v), v)))
            else:
                x.append(added(there) / len(there) if there else math.nan)
        first = rows[0].y
        y = first + added(row.y - first for row in rows) / len(rows)
        return Row(x, y, added(row.w for row in rows) / len(rows), self.standardised(x))
