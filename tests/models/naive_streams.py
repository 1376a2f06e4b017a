"""The naive twins of models/streams: one instance at a time in plain Python, from the papers, with the same draws."""

import itertools
import math

MASK = (1 << 64) - 1


def xoshiro(words):
    """xoshiro256** on Python integers, from the authors' C code."""

    def rotate(x, k):
        return ((x << k) | (x >> (64 - k))) & MASK

    s = list(words)
    while True:
        yield (rotate((s[1] * 5) & MASK, 7) * 9) & MASK
        t = (s[1] << 17) & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotate(s[3], 45)


def splitmix(seed):
    """The first four outputs of splitmix64, from its author's C code."""
    for k in range(1, 5):
        z = (seed + k * 0x9E3779B97F4A7C15) & MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


class NaiveRandom:
    def __init__(self, seed):
        self.bits = xoshiro(splitmix(seed))

    def uniform(self):
        return (next(self.bits) >> 11) / 2**53

    def below(self, n):
        return int(self.uniform() * n)

    def normal(self):
        while True:
            a, b = 2 * self.uniform() - 1, 2 * self.uniform() - 1
            s = a * a + b * b
            if 0 < s < 1:
                return a * math.sqrt(-2 * math.log(s) / s)


def sea(seed, function=0, noise=0.1):
    random = NaiveRandom(seed)
    while True:
        a, b, c = (10 * random.uniform() for _ in range(3))
        above = a + b > {0: 8, 1: 9, 2: 7, 3: 9.5}[function]
        flipped = random.uniform() < noise
        yield [a, b, c], int(above != flipped)


def hyperplane(seed, n_features=10, n_drift=2, speed=0.001, turn=0.1, noise=0.05):
    random = NaiveRandom(seed)
    weights = [random.uniform() for _ in range(n_features)]
    signs = [1] * n_drift
    while True:
        x = [random.uniform() for _ in range(n_features)]
        above = sum(w * value for w, value in zip(weights, x, strict=True)) >= sum(weights) / 2
        flipped = random.uniform() < noise
        yield x, int(above != flipped)
        for j in range(n_drift):
            weights[j] += signs[j] * speed
            if random.uniform() < turn:
                signs[j] = -signs[j]


def stagger(seed, function=0):
    random = NaiveRandom(seed)
    while True:
        x = [random.below(3) for _ in range(3)]
        size = ["small", "medium", "large"][x[0]]
        colour = ["red", "blue", "green"][x[1]]
        shape = ["circle", "square", "triangle"][x[2]]
        yield x, int([
            size == "small" and colour == "red",
            colour == "green" or shape == "circle",
            size in ("medium", "large"),
        ][function])  # fmt: skip


def sine(seed, function=0, n_irrelevant=2):
    random = NaiveRandom(seed)
    while True:
        row = [random.uniform() for _ in range(2 + n_irrelevant)]
        x, y = row[:2]
        if function in (0, 1):
            positive = y < math.sin(x)
        else:
            positive = y < 0.5 + 0.3 * math.sin(3 * math.pi * x)
        if function in (1, 3):
            positive = not positive
        yield row, 0 if positive else 1


def payments(seed, customers, terminals, radius, labels, bad_customers=3, bad_terminals=2, blocked=0.0, campaign=0):
    random, delays, blocks = NaiveRandom(seed), NaiveRandom(seed + 2**40), NaiveRandom(seed + 2 * 2**40)
    homes = [(100 * random.uniform(), 100 * random.uniform()) for _ in range(customers)]
    shops = [(100 * random.uniform(), 100 * random.uniform()) for _ in range(terminals)]
    habits = [(5 + 95 * random.uniform(), 4 * random.uniform()) for _ in range(customers)]
    near = [[j for j, b in enumerate(shops) if (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 < radius**2] for a in homes]
    bad_shops, bad_cards = [], []  # each day's
    for day in itertools.count():
        kind, limit, factor, fresh = None, 220, 5, campaign and day % campaign == 0
        if campaign:
            kind, limit = day // campaign % 3, math.inf
            factor = 0.05 if kind == 2 else 5
        if fresh:
            bad_shops, bad_cards = [], []
        drawn_shops, drawn_cards = bad_terminals if kind in (None, 1) else 0, bad_customers if kind != 1 else 0
        for bad, drawn, n, days in ((bad_shops, drawn_shops, terminals, 28), (bad_cards, drawn_cards, customers, 14)):
            for _ in range(days if fresh else 1):
                bad.append([])
                while len(bad[-1]) < drawn:
                    one = random.below(n)
                    if one not in bad[-1]:
                        bad[-1].append(one)
        paid = []
        for card, (mean, rate) in enumerate(habits):
            product, possible = random.uniform(), 0
            while product > math.exp(-4) and possible < 24:
                product *= random.uniform()
                possible += 1
            for _ in range(possible):
                if 4 * random.uniform() >= rate:
                    continue
                second = math.floor(43200 + 20000 * random.normal())
                amount = mean + mean / 2 * random.normal()
                amount = 2 * mean * random.uniform() if amount < 0 else amount
                pick, third = random.below(max(1, len(near[card]))), random.uniform() < 1 / 3
                if not near[card] or not 0 < second < 86400:
                    continue
                shop, amount = near[card][pick], round(100 * amount) / 100
                fraud = amount > limit or any(shop in some for some in bad_shops[-28:])
                if third and any(card in some for some in bad_cards[-14:]):
                    fraud, amount = True, round(amount * factor * 100) / 100
                paid.append((1522540800 + 86400 * day + second, card, shop, amount, fraud))
        for time, card, shop, amount, fraud in sorted(paid, key=lambda one: one[0]):
            days = 7
            if labels == "fraud":
                days = 60 if fraud else math.nan
                while days >= 60:
                    days = 1 - 15 * math.log(1 - delays.uniform())
            late = math.nan if math.isnan(days) else math.floor(86400 * days)
            if blocks.uniform() < blocked:
                yield [time, card, shop, amount, time], math.nan
                continue
            yield [time, card, shop, amount, time + late], float(fraud) if late == late else math.nan


def rare(seed, ratio=0.002, shift=2.5, function=0):
    random = NaiveRandom(seed)
    while True:
        y = int(random.uniform() < ratio)
        pair = [[(0, 1), (2, 3)], [(4, 5), (6, 7)]][function][0 if random.uniform() < 0.5 else 1]
        yield [random.normal() + (shift if y and j in pair else 0) for j in range(8)], y


def waveform(seed, n_irrelevant=0):
    waves = [
        [0, 1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1, 0],
        [0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0, 0],
    ]
    random = NaiveRandom(seed)
    while True:
        y = random.below(3)
        a, b = [(0, 1), (0, 2), (1, 2)][y]
        u = random.uniform()
        x = [random.normal() + (u * waves[a][j] + (1 - u) * waves[b][j]) for j in range(21)]
        yield x + [random.normal() for _ in range(n_irrelevant)], y


def friedman(seed, function=0, noise=1.0):
    random = NaiveRandom(seed)
    while True:
        x = [random.uniform() for _ in range(10)]
        x1, x2, x3, x4, x5 = x[:5]
        a, b, c, d, e = [(x1, x2, x3, x4, x5), (x4, x5, x2, x1, x3), (x2, x5, x4, x3, x1)][function]
        yield x, 10 * math.sin(math.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e + noise * random.normal()


def led(seed, noise=0.1, n_irrelevant=17, n_swapped=0):
    lit = ["abcefg", "cf", "acdeg", "acdfg", "bcdf", "abdfg", "abdefg", "acf", "abcdefg", "abcdfg"]
    random = NaiveRandom(seed)
    while True:
        y = random.below(10)
        x = [int((segment in lit[y]) != (random.uniform() < noise)) for segment in "abcdefg"]
        x += [random.below(2) for _ in range(n_irrelevant)]
        for j in range(n_swapped):
            x[j], x[7 + j] = x[7 + j], x[j]
        yield x, y


def moving_squares(seed, speed=0.00025):
    random = NaiveRandom(seed)
    left, step = 0.0, speed
    while True:
        c = random.below(4)
        yield [left + 0.08 * c + 0.05 * random.uniform(), 0.05 * random.uniform()], c
        left += step
        if not 0.0 <= left <= 0.71:  # the squares are 0.29 long together, the strip 1
            left, step = min(max(left, 0.0), 0.71), -step


def transient_chessboard(seed, size=8, alone=250, together=1000):
    random = NaiveRandom(seed)
    fields = [(row, column) for row in range(size) for column in range(size)]

    def point(row, column):
        return [(column + random.uniform()) / size, (row + random.uniform()) / size], (column + 2 * row) % size

    shown = 0
    while True:
        if shown % len(fields) == 0:
            for last in range(len(fields) - 1, 0, -1):
                other = random.below(last + 1)
                fields[last], fields[other] = fields[other], fields[last]
        for _ in range(alone):
            yield point(*fields[shown % len(fields)])
        shown += 1
        if shown % 4 == 0:
            for _ in range(together):
                yield point(random.below(size), random.below(size))


def drifting(first, second, at, width, seed):
    """Streams are iterators; abrupt where width is 0."""
    random = NaiveRandom(seed)
    i = 0
    while True:
        if width == 0:
            new = i >= at
        else:
            new = random.uniform() < 1 / (1 + math.exp(min(-4 * (i - at) / width, 700.0)))
        yield next(second if new else first)
        i += 1
