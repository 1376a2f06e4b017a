"""The naive twin of models/predictions/conformal.py: every label ever seen in a list, quantiles by sorting, sums when
asked."""

import math

WINDOW, STEP, SWING, LOWEST, HIGHEST = 500, 0.005, 8.0, -20.0, 5.0


class NaiveConformal:
    def __init__(self, regression, coverage, by_class=False):
        self.regression, self.missing, self.by_class = regression, 1 - coverage, by_class
        self.labels, self.classes, self.learned = [], set(), 0
        self.scores, self.shift = {}, {}  # by group: a class, or None for all together
        self.owners, self.delay = [], 0.0

    def group(self, k):
        return k if self.by_class and k < 20 else None

    def reach(self, group=None):
        last = sorted(self.scores.get(group, [])[-WINDOW:])
        m = len(last)
        asked = math.ceil((m + 1) * (1 - self.missing) - 1e-9)
        if asked > m and m < WINDOW:
            return None
        a = self.missing + self.shift.get(group, 0.0)
        rank = math.ceil((m + 1) * (1 - a) - 1e-9)
        reach = last[-1] * 2.0 ** ((1 / (m + 1) - a) / self.missing) if rank > m else last[max(rank, 1) - 1]
        if self.regression and a < self.missing:
            usual = last[min(asked, m) - 1]
            # Up to four times where a has come down to 0, then twice for each further 1 - coverage.
            most = 4 ** ((self.missing - a) / self.missing) if a > 0 else 4 * 2 ** (-a / self.missing)
            reach = min(reach, usual * most)
        return reach

    def say(self, p):
        """p : probabilities, or a list of one value. What is said: (low, high), or class -> whether the threshold holds
        it; None for nothing. And after how many labels."""
        groups = {None} | {self.group(k) for k in self.classes}
        reaches = {group: self.reach(group) for group in groups}
        if all(reach is None for reach in reaches.values()):
            return None
        if self.regression:
            reach = reaches[None]
            return ((p[0] - reach, p[0] + reach), self.learned) if math.isfinite(p[0]) else None
        if math.isnan(p[0]) or max(p) <= 0:
            return None
        best = p.index(max(p))
        held = {}
        for k in {*self.classes, best}:
            reach = reaches.get(self.group(k))
            if k in self.classes if reach is None else 1 - p[k] <= reach:
                held[k] = True
        return {best: False} | held, self.learned

    def learn(self, p, said, y, weight):
        if said is not None:
            what, since = said
            if self.regression:
                held = threshold = what[0] <= y <= what[1]
                width = what[1] - what[0]
            else:
                held, threshold, width = y in what, what.get(y, False), len(what)
            self.delay += max(0.01, 1 / (len(self.labels) + 1)) * (self.learned - since - self.delay)
            group = None if self.regression else self.group(int(y))
            share = 1.0
            if group is not None:
                share = min(1.0, (len(self.scores.get(group, [])) + 1) / (self.learned + 1))
            step = min(STEP, 1 / (SWING * (1 + share * self.delay)))
            a = self.missing + self.shift.get(group, 0.0) + step * (self.missing - (not threshold))
            low, high = LOWEST * self.missing, min(HIGHEST * self.missing, 1)
            self.shift[group] = min(max(a, low), high) - self.missing
            self.labels.append((weight, held, width))
            self.owners.append(None if self.regression else int(y))
        self.learned += 1
        if self.regression:
            if math.isfinite(p[0]):
                self.scores.setdefault(None, []).append(abs(y - p[0]))
            return
        self.classes.add(int(y))
        if not math.isnan(p[0]) and max(p) > 0:
            self.scores.setdefault(self.group(int(y)), []).append(1 - p[int(y)])

    def coverage_of_classes(self, window=None, fading=None):
        pairs = list(zip(self.labels, self.owners, strict=True))[-(window or len(self.labels)) :]
        found = {}
        for owner in {owner for _, owner in pairs if owner is not None and owner < 20}:
            ages = range(len(pairs) - 1, -1, -1)
            mine = [(w, held, age) for ((w, held, _), o), age in zip(pairs, ages, strict=True) if o == owner]
            weights = [w * (1 if fading is None else fading**age) for w, _, age in mine]
            found[owner] = sum(w * held for w, (_, held, _) in zip(weights, mine, strict=True)) / sum(weights)
        return found

    def metrics(self, window=None, fading=None):
        last = self.labels if window is None else self.labels[-window:]
        weights = [w * (1 if fading is None else fading ** (len(last) - 1 - i)) for i, (w, *_) in enumerate(last)]
        if not last:
            return {}
        share = sum(w * held for w, (_, held, _) in zip(weights, last, strict=True)) / sum(weights)
        mean = sum(w * width for w, (*_, width) in zip(weights, last, strict=True)) / sum(weights)
        return {"coverage": share, "interval_width" if self.regression else "set_size": mean}
