"""The naive twin of models/predictions/calibration.py: every label in a list, powers and gradients as the papers write
them."""

import math

from riparian.models.kernels import elementary


class NaiveCalibration:
    def __init__(self, scales):
        self.scales, self.labels, self.classes, self.learned = scales, [], set(), 0
        self.power, self.curvature, self.delay = 0.0, 1.0, 0.0

    def say(self, p):
        """What is said for the probabilities of a model, and with which power, after how many labels (None: as is)."""
        if not self.scales or any(map(math.isnan, p)) or max(p) <= 0:
            return p, None
        b = elementary.exp(self.power)
        raised = [max(one, 1e-4) ** b if one > 0 or k in self.classes else 0.0 for k, one in enumerate(p)]
        return [one / sum(raised) for one in raised], (b, self.learned)

    def learn(self, p, how, y, weight):
        if not any(map(math.isnan, p)) and max(p) > 0:
            if how is not None and p[y] > 0:
                b, since = how
                levels = {k: elementary.log(one) / b for k, one in enumerate(p) if one > 0}
                total = sum(p)
                mean = sum(p[k] / total * level for k, level in levels.items())
                spread = sum(p[k] / total * (level - mean) ** 2 for k, level in levels.items())
                self.delay += max(0.01, 1 / (len(self.labels) + 1)) * (self.learned - since - self.delay)
                self.curvature = 0.999 * self.curvature + 0.001 * b * b * spread
                step = min(0.01, 1 / (8 * (1 + self.delay)))
                self.power -= step * b * (mean - levels[y]) / (self.curvature + 0.05)
                self.power = min(max(self.power, -2.5), 2.5)
            self.labels.append((weight, min(max(p) / sum(p), 1.0), p.index(max(p)) == y))
        self.classes.add(y)
        self.learned += 1

    def metrics(self, window=None, fading=None):
        last = self.labels if window is None else self.labels[-window:]
        if not last:
            return {}
        bins = [[0.0, 0.0] for _ in range(15)]
        total = 0.0
        for age, (weight, confidence, right) in enumerate(reversed(last)):
            w = weight * (1 if fading is None else fading**age)
            place = bins[min(int(confidence * 15), 14)]
            place[0] += w * confidence
            place[1] += w * right
            total += w
        return {"calibration_error": sum(abs(a - b) for a, b in bins) / total}
