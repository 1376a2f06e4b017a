"""The naive twin of models/evaluation/estimation.py: everything that came in a list, summed up when asked."""

import math


class NaiveEstimation:
    def __init__(self):
        self.labels = []  # confidence (None: no class), expected before, right
        self.predictions = []  # expected

    def calibrated(self, confidence):
        if confidence is None:
            return 0.0
        n = right = 0.0
        for age, (other, _, was_right) in enumerate(reversed(self.labels)):
            if other is not None and self.bin(other) == self.bin(confidence):
                n += 0.999**age
                right += 0.999**age * was_right
        return (right + 10 * confidence) / (n + 10)

    @staticmethod
    def bin(confidence):
        return min(int(confidence * 20), 19)

    @staticmethod
    def confidence(p):
        return max(p) / sum(p) if max(p) > 0 else None

    def predict(self, p):
        if not math.isnan(p[0]):
            self.predictions.append(self.calibrated(self.confidence(p)))

    def learn(self, p, y):
        if not math.isnan(p[0]):
            confidence = self.confidence(p)
            self.labels.append((confidence, self.calibrated(confidence), max(p) > 0 and p.index(max(p)) == y))

    def accuracy(self):
        if not self.labels or not self.predictions:
            return None
        change = self.faded(self.predictions) - self.faded([expected for _, expected, _ in self.labels])
        return min(max(self.faded([right for *_, right in self.labels]) + change, 0.0), 1.0)

    def error(self):
        return self.faded([expected - right for _, expected, right in self.labels]) if self.labels else None

    @staticmethod
    def faded(values):
        weights = [0.999 ** (len(values) - 1 - i) for i in range(len(values))]
        return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
