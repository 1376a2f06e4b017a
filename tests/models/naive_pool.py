"""The model pool once more: models are objects that predict and learn one instance, losses are a list.

Written from Gunasekara et al. 2022, Köbschall et al. (Section 5.1) and the documented choices of models.soft.choice.
"""

import math

from riparian.models.kernels import elementary
from tests.models.naive_running_scale import held


class PoolTwin:
    """models : objects with predict(x) -> probabilities or [value], and learn(x, y, w).
    draw : n -> an int below n, where a place is drawn."""

    def __init__(self, models, n_outputs, n_learning, n_explored, fading, draw):
        self.models, self.n_classes = models, n_outputs
        self.n_learning, self.n_explored, self.fading, self.draw = n_learning, n_explored, fading, draw
        self.losses = [0.0] * len(models)
        self.n_learned = [0] * len(models)
        self.n_labels, self.weight = 0, 0.0

    def ranked(self):
        return sorted(range(len(self.models)), key=lambda m: self.losses[m])

    def predict(self, x):
        return self.models[self.ranked()[0]].predict(x)

    def learn(self, x, y, w=1.0):
        if w <= 0.0:
            return
        loss = [self.loss(model.predict(x), y) for model in self.models]
        told = [one for one in loss if not math.isnan(one)]
        loss = [max(told, default=0.0) if math.isnan(one) else one for one in loss]
        if self.n_classes == 1 and self.weight:
            loss = [held(now, mean / self.weight, self.weight) for now, mean in zip(loss, self.losses, strict=True)]
        for m in self.learners():
            self.models[m].learn(x, y, w)
            self.n_learned[m] += 1
        self.losses = [self.fading * before + w * now for before, now in zip(self.losses, loss, strict=True)]
        self.weight = self.fading * self.weight + w
        self.n_labels += 1

    def loss(self, prediction, y):
        if self.n_classes == 1:
            return (prediction[0] - y) ** 2
        return -elementary.log(max(prediction[int(y)], 1e-6))

    def learners(self):
        """Those with the least losses, and some drawn from the others."""
        if self.n_labels < 100 or self.n_learning == len(self.models):
            return list(range(len(self.models)))
        chosen = self.ranked()[: self.n_learning - self.n_explored]
        for _ in range(self.n_explored):
            others = [m for m in range(len(self.models)) if m not in chosen]
            chosen.append(others[self.draw(len(others))])
        return chosen
