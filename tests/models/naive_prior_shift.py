"""The naive twin of models/predictions/prior_shift.py: odds by the formula, a step of each label, in plain Python."""

import math

from riparian.models.kernels import elementary


class NaivePriorShift:
    def __init__(self, n):
        self.shifts = [0.0] * n

    def say(self, p):
        """What is said where a model has predicted this."""
        if any(map(math.isnan, p)) or sum(p) <= 0:
            return p
        odds = [one * elementary.exp(shift) for one, shift in zip(p, self.shifts, strict=True)]
        return [one / sum(odds) for one in odds]

    def learn(self, p, y, before=None):
        """A label of what was predicted as p has come. before : the one that it corrects."""
        if any(map(math.isnan, p)) or not p[y] > 0:
            return
        less = self.say(p)
        if before is not None and p[before] > 0:
            less = [float(k == before) for k in range(len(p))]
        for k, one in enumerate(less):
            self.shifts[k] = min(max(self.shifts[k] + ((k == y) - one) / 400, -6.0), 6.0)
