"""The naive twin of models/predictions/decision.py: everything that happened in lists, each threshold from its
definition."""

import math

from riparian.models.kernels import elementary

FIRST, MEMORY, STEP, SWING, BOUND = 10, 200, 0.05, 8, 5


def log_odds(p):
    return -math.inf if p <= 0 else math.inf if p >= 1 else elementary.log(p / (1 - p))


def place(p):
    """Number of the bin, 0.1 wide, from -24 on."""
    return min(max(int(max(min((log_odds(p) + 24) / 0.1, 1e9), 0)), 0), 479)


def cheapest(p, costs):
    """The class of least expected cost among those that are possible; None where nothing is known."""
    possible = [j for j in range(len(p)) if p[j] > 0]

    def key(j):
        return sum(p[k] * costs[k][j] for k in range(len(p)) if p[k] > 0), -p[j], j

    return min(possible, key=key) if possible else None


def counted(amount):
    """What an amount of a row counts."""
    return min(amount, 1e9) if 0 <= amount < math.inf else 1.0


class NaiveThreshold:
    def __init__(self, target, share, code):
        self.target, self.share, self.code = target, share, code
        self.place = place
        self.first = FIRST
        self.taken = []  # bins of what the share is of
        self.others = []  # bins of labels of other classes, each with how many had been taken before it
        self.shift, self.delay, self.told = 0.0, 0.0, 0

    def edge(self):
        n = len(self.taken)
        if n * (self.share if self.target == "alert_rate" else 1) < self.first:
            return None
        level = 1 / (1 + elementary.exp(-(elementary.log(self.share / (1 - self.share)) + self.shift)))
        decay = 1 - (2 * self.share / MEMORY if self.target == "alert_rate" else 1 / MEMORY)
        own = {}
        for i, b in enumerate(self.taken):
            own[b] = own.get(b, 0.0) + self.weight(i, n, decay)
        total = sum(own.values())
        if self.target != "precision":
            wanted, above = level * total, 0.0
            for edge in range(479, 0, -1):
                share = sum(w for b, w in own.items() if b >= edge)
                if share >= wanted:
                    return edge if share - wanted <= wanted - above else edge + 1
                above = share
            return 1
        other = {}
        for b, before in self.others:
            other[b] = other.get(b, 0.0) + decay ** (n - before)
        found, best, most = None, None, -1.0
        for edge in range(479, 0, -1):
            hits = sum(w for b, w in own.items() if b >= edge)
            precision = hits / (hits + sum(w for b, w in other.items() if b >= edge) + 1)
            if precision >= level:
                found = edge
            if precision > most:
                best, most = edge, precision
        return best if found is None else found

    def weight(self, i, n, decay):
        """What number i of n counts."""
        return decay ** (n - 1 - i)

    def follow(self, happened, between):
        self.delay += max(0.01, 1 / (self.told + 1)) * (between - self.delay)
        step = min(STEP, 1 / (SWING * (1 + self.delay)))
        self.shift = min(max(self.shift + step * (self.share - happened), -BOUND), BOUND)
        self.told += 1

    def predict(self, p):
        """-> (class, or None; how many had told, or None)."""
        if max(p) <= 0:
            return None, None
        named, edge = p.index(max(p)), self.edge()
        told = None if edge is None else self.told
        if edge is not None and self.place(p[self.code]) >= edge:
            named = self.code
        elif edge is not None and named == self.code:
            rest = [x if k != self.code else 0 for k, x in enumerate(p)]
            named = rest.index(max(rest)) if max(rest) > 0 else self.code
        if self.target == "alert_rate":
            if edge is not None:
                self.follow(named == self.code, 0)
            self.taken.append(self.place(p[self.code]))
        return named, told

    def learn(self, label, p, said):
        named, told = said
        if self.target == "alert_rate" or max(p) <= 0:
            return
        if told is not None and (label if self.target == "recall" else named) == self.code:
            self.follow(label == named == self.code, self.told - told)
        if label == self.code:
            self.taken.append(place(p[self.code]))
        elif self.target == "precision":
            self.others.append((place(p[self.code]), len(self.taken)))


class NaiveAlerts(NaiveThreshold):
    """Of scores, in 480 bins of equal width: what is an alert, and how often that was said."""

    def __init__(self, share):
        super().__init__("alert_rate", share, 1)
        self.place = lambda score: min(max(int(score * 480), 0), 479)
        self.first = 1
        self.said = []

    def weight(self, i, n, decay):
        """As (i + 1) (i + 2) for the first 200 / share, then by fading."""
        young = min(n, math.floor(MEMORY / self.share) - 2)
        if i >= young:
            return decay ** (n - 1 - i)
        return (i + 2) * (i + 3) / ((young + 1) * (young + 2)) * decay ** (n - young)

    def decide(self, score):
        """-> (1 or 0; how many had a threshold before), or None twice."""
        if math.isnan(score):
            return None, None
        named, told = self.predict([1.0 if score > 0 else 0.5, score])
        if told is None:
            self.said.append(None)
            return None, None
        self.said.append(int(named == 1))
        return self.said[-1], told

    def rates(self):
        """Of all, and of the past that counts; those without a threshold do not."""
        decay, n = 1 - 2 * self.share / MEMORY, len(self.said)
        kept = [(one, self.weight(i, n, decay)) for i, one in enumerate(self.said) if one is not None]
        if not kept:
            return None, None
        recent = sum(one * w for one, w in kept) / sum(w for _, w in kept)
        return sum(one for one, _ in kept) / len(kept), recent
