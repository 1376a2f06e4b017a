"""The naive twin of models/conformal.py: every label ever seen in a list, quantiles by sorting, sums when asked."""

import math

WINDOW, STEP, SWING, LOWEST, HIGHEST = 500, 0.005, 8.0, -20.0, 5.0


class NaiveConformal:
    def __init__(self, regression, coverage):
        self.regression, self.missing = regression, 1 - coverage
        self.scores, self.labels, self.classes, self.learned = [], [], set(), 0
        self.shift = self.delay = 0.0

    def reach(self):
        last = sorted(self.scores[-WINDOW:])
        m = len(last)
        asked = math.ceil((m + 1) * (1 - self.missing) - 1e-9)
        if asked > m and m < WINDOW:
            return None
        a = self.missing + self.shift
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
        reach = self.reach()
        if reach is None:
            return None
        if self.regression:
            return ((p[0] - reach, p[0] + reach), self.learned) if math.isfinite(p[0]) else None
        if math.isnan(p[0]) or max(p) <= 0:
            return None
        best = p.index(max(p))
        held = {k: True for k in {*self.classes, best} if 1 - p[k] <= reach}
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
            step = min(STEP, 1 / (SWING * (1 + self.delay)))
            a = self.missing + self.shift + step * (self.missing - (not threshold))
            low, high = LOWEST * self.missing, min(HIGHEST * self.missing, 1)
            self.shift = min(max(a, low), high) - self.missing
            self.labels.append((weight, held, width))
        self.learned += 1
        if self.regression:
            if math.isfinite(p[0]):
                self.scores.append(abs(y - p[0]))
            return
        self.classes.add(int(y))
        if not math.isnan(p[0]) and max(p) > 0:
            self.scores.append(1 - p[int(y)])

    def metrics(self, window=None, fading=None):
        last = self.labels if window is None else self.labels[-window:]
        weights = [w * (1 if fading is None else fading ** (len(last) - 1 - i)) for i, (w, *_) in enumerate(last)]
        if not last:
            return {}
        share = sum(w * held for w, (_, held, _) in zip(weights, last, strict=True)) / sum(weights)
        mean = sum(w * width for w, (*_, width) in zip(weights, last, strict=True)) / sum(weights)
        return {"coverage": share, "interval_width" if self.regression else "set_size": mean}
