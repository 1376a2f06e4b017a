"""A pool of opinions as it is defined: an instance at a time, in dictionaries, with members as they come."""

import math

import numpy as np

from riparian.models.kernels import elementary
from riparian.models.registry import create
from tests.models.naive_running_scale import held

FADING = 0.999 ** np.arange(10_000)


class NaivePool:
    """members : name -> model. rule : "logarithmic", "linear" or "leader". kept : whether votes wait for the label.
    rest_below, round, early : of members that rest. sees : of members that see less, the values of each feature, 0 for
    all, and the features whose mean targets they see."""

    def __init__(
        self, schema, members, rule, rate, floor, seed=0, kept=True, rest_below=0.0, round=512, early=2048, sees=None
    ):
        self.sees, self.taught = sees or {}, []  # (instance, target, weight) of each label
        self.frozen = set()
        self.rest_below, self.round, self.early = rest_below, round, early
        self.asleep, self.slept, self.n_taught, self.n_judged = {}, {}, 0, 0  # name -> rounds to come, of the last rest
        self.schema, self.rule, self.rate, self.floor, self.kept = schema, rule, rate, floor, kept
        self.members = {
            name: create(model, self.schema_of(name), seed=seed + i) for i, (name, model) in enumerate(members.items())
        }
        self.weights = dict.fromkeys(members, 1.0 / len(members))
        self.squares = {name: [] for name in members}  # of derivatives, one a label
        self.seen = [0.0] * schema.n_outputs  # labels of each class
        self.curved = {name: dict.fromkeys(members, 0.0) for name in members}  # the Hessian of the log loss
        self.errors, self.known = {name: [] for name in members}, {}  # (error, share), and what `faded` has found
        self.votes = {}
        self.forget_blocks()
        self.repeats = {name for name, model in members.items() if model == "last-label"}

    def schema_of(self, name):
        most, means = self.sees.get(name, ([0] * self.schema.n_features, []))
        n_values = [min(n, m or n) for n, m in zip(self.schema.n_values, most, strict=True)]
        return self.schema._replace(n_values=(*n_values, *(0 for _ in means)))

    def shown(self, name, x):
        """What a member sees of an instance now."""
        if name not in self.sees:
            return x
        most, means = self.sees[name]
        told = [np.nan if m and value >= m else value for value, m in zip(x, most, strict=True)]
        return np.array([*told, *(self.mean_target(f, x[f]) for f in means)])

    def mean_target(self, f, value):
        """Of the labels that came with a value: the newest thousand of it weigh as much as if there were no others."""
        if np.isnan(value):
            return np.nan
        n_all, every = self.mean_of_labels(self.taught)
        n, mean = self.mean_of_labels([label for label in self.taught if label[0][f] == value])
        if self.schema.task != "regression":
            every = (n_all * every + 0.5) / (n_all + 1)
        mean = (n * mean + 20 * every) / (n + 20)
        return mean if self.schema.task == "regression" else elementary.log(mean / (1 - mean))

    @staticmethod
    def mean_of_labels(labels):
        n, mean = 0.0, 0.0
        for _, target, w in labels:
            n = min(n + w, 1000.0)
            mean += w / n * (target - mean)
        return n, mean

    def forget_blocks(self):
        self.block, self.said, self.before, self.block_errors = [], None, None, []

    def used(self):
        """The weights to predict with: their mean over the block so far where that of the blocks before was better."""
        faded = 0.9999 ** np.arange(len(self.block_errors))[::-1]
        last, mean = faded @ np.reshape(self.block_errors, (-1, 2)) if self.block_errors else (0.0, 0.0)
        return self.mean_of_block() if len(self.block) > 1 and mean < 0.98 * last else self.weights

    def mean_of_block(self):
        return {name: sum(one[name] for one in self.block) / len(self.block) for name in self.members}

    def begin_block(self, cast, now, said, y, share):
        """Whether the label is of the block before; if it is not, that one has ended. Then the weights of the block
        before are judged by what was cast."""
        late = any(cast[name] != now[name] for name in self.members)
        if not (late and said is not None and said == self.said) and self.block:
            best = self.used()
            self.before = self.weights, self.mean_of_block(), len(self.block)
            total = sum(w for name, w in best.items() if name not in self.asleep)
            if best is not self.weights and total > 0.0:
                self.weights = {name: 0.0 if name in self.asleep else w / total for name, w in best.items()}
            self.block = []
        if self.before and self.before[2] > 1 and any(v is not None for v in cast.values()):
            last, mean, _ = self.before
            self.block_errors.append([share * abs(self.pooled(cast, one) - y) for one in (last, mean)])

    def ask(self, x):
        """Name -> probabilities, or a value; None where a member knows nothing."""
        votes = {}
        for name, member in self.members.items():
            if name in self.asleep.keys() - self.repeats:
                continue
            said = member.predict_many(self.shown(name, x)[None])[0]
            if self.schema.task == "regression":
                votes[name] = said[0] if np.isfinite(said[0]) else None
            else:
                votes[name] = said if said.sum() > 0.0 else None
        return votes

    def faded(self, name):
        """Sums of the errors and of the shares of a member."""
        if (name, len(self.errors[name])) in self.known:
            return self.known[name, len(self.errors[name])]
        errors, shares = np.reshape(self.errors[name], (-1, 2)).T
        faded = (1.0 - self.rate) ** np.arange(len(errors))[::-1] * shares
        self.known = {key: one for key, one in self.known.items() if key[0] != name}
        self.known[name, len(errors)] = float(faded @ errors), float(faded.sum())
        return self.known[name, len(errors)]

    def error(self, name):
        total, shares = self.faded(name)
        return total / shares if shares else math.inf

    def pooled(self, votes, weights=None):
        weights = weights or self.weights
        knowing = {name: said for name, said in votes.items() if said is not None}
        if not knowing:
            return None
        if self.rule == "leader":
            return knowing[min(knowing, key=self.error)]
        total = sum(weights[name] for name in knowing)
        shares = {name: weights[name] / total if total else 1.0 / len(knowing) for name in knowing}
        if self.rule == "linear":
            return sum(shares[name] * said for name, said in knowing.items())
        products = [
            math.prod(max(said[c], self.floor_of(c)) ** self.weights[name] for name, said in knowing.items())
            if any(said[c] > 0.0 for said in knowing.values())
            else 0.0
            for c in range(self.schema.n_outputs)
        ]
        return np.array(products) / sum(products)

    def floor_of(self, c):
        """Of a class that is a tenth as frequent as the most frequent one, a tenth."""
        return max(self.floor**2, self.floor * (self.seen[c] + 1) / (max(self.seen) + 1))

    def predict(self, row, x):
        self.votes[row] = self.ask(x)
        awake = {name: said for name, said in self.votes[row].items() if name not in self.asleep}
        return self.pooled(awake, self.used())

    def learn(self, row, x, y, w):
        """Judge what was said of the instance, and what is said of it now, then let the members learn."""
        now = dict.fromkeys(self.members) | {n: said for n, said in self.ask(x).items() if n not in self.asleep}
        was = {name: said for name, said in self.votes.get(row, {}).items() if name not in self.asleep}
        cast = dict.fromkeys(self.members) | was
        if self.kept:  # who says the last label again says now what it said then
            now |= {name: was.get(name) for name in self.repeats}
        values = self.schema.task == "regression"
        if values and self.rule == "linear":
            there = self.votes.get(row, {}) if self.kept else {}
            said = [there[n] for n in self.members if n in self.repeats and n in there][:1]  # by the first of them
            said = None if not said else math.inf if said[0] is None else said[0]
            self.begin_block(cast if self.kept else now, now, said, y, min(1.0, w))
        votes = [now] if not self.kept else [cast, now]
        judged = [vote for vote in votes if self.tells(vote, y)]
        self.absent = self.members.keys() - was.keys() if judged and judged[0] is cast else set(self.asleep)
        known = not self.kept or any(said is not None for said in cast.values())
        self.weigh(judged, y, min(1.0, w), set() if known else self.repeats - self.asleep.keys())
        if values and self.rule == "linear" and judged:
            self.block, self.said = [*self.block, dict(self.weights)], said
        if not values:
            self.seen[int(y)] += min(1.0, w)
        for name, member in self.members.items():
            if name not in self.frozen and (name in self.repeats or name not in self.asleep):
                member.learn_many(self.shown(name, x)[None], [y], [w])
        self.taught.append((x, y if self.schema.task == "regression" else float(y > 0), w))
        self.n_taught += 1
        if self.rest_below and self.n_taught % self.round == 0 and self.n_taught >= self.early:
            self.end_round()

    def end_round(self):
        rested, least = set(self.asleep), self.rest_below * sum(self.weights.values())
        self.asleep = {name: rounds - 1 for name, rounds in self.asleep.items() if rounds > 1}
        for name in [name for name in self.members if name not in rested]:
            if self.weights[name] >= least or name == max(self.weights, key=self.weights.get):
                self.slept[name] = 0
            else:
                self.asleep[name] = self.slept[name] = min(8, max(1, 2 * self.slept.get(name, 0)))
        for name in self.asleep:
            self.weights[name] = 0.0
        if self.rule == "linear":
            total = sum(self.weights.values())
            self.weights = {name: w / total for name, w in self.weights.items()}

    def exchange(self, new, dropped, seed):
        """Members that begin while the pool runs, first, and some that go."""
        stay = [name for name in self.members if name not in dropped]
        self.votes = {row: {name: said[name] for name in stay if name in said} for row, said in self.votes.items()}
        m = len(new) + len(stay)
        total = sum(self.weights[name] for name in stay)
        for name in stay:
            if self.rule != "logarithmic":
                self.weights[name] *= len(stay) / m / total
        self.weights = dict.fromkeys(new, 1.0 / m) | {name: self.weights[name] for name in stay}
        typical = [float(np.mean(one)) for one in zip(*(self.squares[name] for name in stay), strict=True)]
        error, share = np.mean([self.faded(name) for name in stay], axis=0).tolist()
        typical_errors = [(error / share, share)] if share else []
        self.squares = {n: [*typical] for n in new} | {n: self.squares[n] for n in stay}
        self.errors = {n: [*typical_errors] for n in new} | {n: self.errors[n] for n in stay}
        self.known = {}
        self.forget_blocks()
        known, names = self.curved, [*new, *stay]
        self.curved = {a: {b: 0.0 if {a, b} & new.keys() else known[a][b] for b in names} for a in names}
        made = {name: create(model, self.schema, seed=seed + i) for i, (name, model) in enumerate(new.items())}
        self.members = made | {name: self.members[name] for name in stay}
        self.repeats = {n for n in self.repeats if n in stay} | {n for n, model in new.items() if model == "last-label"}

    def tells(self, votes, y):
        """Whether a label can say who was right: somebody knew something, and somebody thought of this class."""
        knowing = [said for said in votes.values() if said is not None]
        return any(self.schema.task == "regression" or said[int(y)] > 0.0 for said in knowing)

    def weigh(self, judged, y, share, unknown):
        """judged : one vote, or two, that which was cast first. unknown : members that get no weight."""
        if not judged:
            return
        if self.rule != "leader":  # which has no weights
            self.weights |= dict.fromkeys(unknown, 0.0)
        values = self.schema.task == "regression"
        if self.rule == "linear" and values:
            each = [self.slopes_of_huber(votes, y) for votes in judged]
            slopes, late = self.blend(each, 0.25), any(each[0][n] != each[-1][n] for n in each[0].keys() - self.absent)
            for name, slope in slopes.items():
                slopes[name] = math.copysign(math.sqrt(held(slope * slope, self.size(name), 1000.0)), slope)
            before, said = dict(self.weights), self.pooled(judged[0])
            self.step(slopes, share * (0.3 if late else 1.0))
            moved = {name: self.weights[name] - w for name, w in before.items()}
            ahead = sum(moved[n] * (v - said) for n, v in judged[0].items() if v is not None)
            if abs(ahead) > abs(y - said):  # no farther than to the label
                self.weights = {n: w + moved[n] * abs(y - said) / abs(ahead) for n, w in before.items()}
            out = unknown | self.asleep.keys()
            self.weights |= nearest_on_simplex({n: w for n, w in self.weights.items() if n not in out})
        elif self.rule == "linear":
            likelihood = self.blend([self.likelihoods(votes, int(y)) for votes in judged])
            for name in self.members:
                self.weights[name] *= max(likelihood[name], self.floor) ** share
            total = sum(self.weights.values())
            awake = {name: w for name, w in self.weights.items() if name not in self.asleep}
            equal = self.rate / len(awake)
            self.weights |= {name: (1.0 - self.rate) * w / total + equal for name, w in awake.items()}
        elif self.rule == "logarithmic":
            slopes = self.blend([self.slopes_of_log_loss(votes, int(y)) for votes in judged])
            even = self.evenness(int(y), share)
            one_class = sum(n + share * (c == y) > 0 for c, n in enumerate(self.seen)) < 2
            newton = min(1.0, max(0.0, (0.6 - even) / 0.3, one_class)) if self.rate else 0.0
            if newton:
                self.bend(judged[0], share)
                awake = [name for name in self.members if name not in self.asleep]
                matrix = np.array([[self.curved[a][b] for b in awake] for a in awake])
                matrix += np.eye(len(awake)) / (2 * self.rate)
                step = np.linalg.inv(matrix) @ [slopes[name] for name in awake]
                for name, one in zip(awake, step.tolist(), strict=True):
                    self.weights[name] -= newton * share * one
            self.step(slopes, share * (1.0 - newton) * even)
            self.weights = {name: max(0.0, w) for name, w in self.weights.items()}
        for name, said in judged[0].items():
            if name in self.absent:
                continue
            if values and said is not None:
                error = abs(said - y)
                if self.errors[name] and self.rate:
                    error = held(error, self.error(name), 1.0 / self.rate)
                self.errors[name].append((error, share))
            elif not values:
                self.errors[name].append((float(said is None or int(np.argmax(said)) != int(y)), share))

    def bend(self, votes, share):
        """Add the second derivatives of the log loss: by weights of a and b, E[log a log b] - E[log a] E[log b]."""
        p, logs = self.pooled(votes), {}
        for name, said in votes.items():
            floors = [self.floor_of(c) for c in range(self.schema.n_outputs)]
            logs[name] = np.zeros(len(p)) if said is None else np.log(np.maximum(said, floors))
        for a in self.members:
            for b in self.members:
                second = p @ (logs[a] * logs[b]) - (p @ logs[a]) * (p @ logs[b])
                self.curved[a][b] = 0.9999 * self.curved[a][b] + share * second

    def evenness(self, y, share):
        """Of the classes of labels, this one among them: 1 where they are as frequent as each other."""
        labels = [n + share * (c == y) for c, n in enumerate(self.seen)]
        shares = [n / sum(labels) for n in labels if n > 0.0]
        if len(shares) < 2:
            return 1.0
        impurity = sum(one * (1.0 - one) for one in shares)
        return math.sqrt(impurity / (1.0 - 1.0 / len(shares)))

    def blend(self, tables, of_last=0.5):
        """Of one or two dictionaries, key by key; of a member that did not vote, the second alone."""
        first, last = tables[0], tables[-1]
        one = self.absent if len(tables) > 1 else ()
        return {n: last[n] if n in one else (1 - of_last) * first[n] + of_last * last[n] for n in first}

    def slopes_of_huber(self, votes, y):
        """Of half the square of an error, and beyond three errors of the best member of three times the error."""
        p, far = self.pooled(votes), 3.0 * min(self.error(name) for name in self.members)
        slope = less(p, y) if abs(p - y) <= far else far * np.sign(p - y)
        return {name: 0.0 if v is None else slope * less(v, p) for name, v in votes.items()}

    def likelihoods(self, votes, label):
        p = self.pooled(votes)
        return {name: float(p[label] if said is None else said[label]) for name, said in votes.items()}

    def slopes_of_log_loss(self, votes, label):
        p = self.pooled(votes)
        slopes = {}
        for name, said in votes.items():
            floors = [self.floor_of(c) for c in range(self.schema.n_outputs)]
            log = None if said is None else np.log(np.maximum(said, floors))
            slopes[name] = 0.0 if log is None else less(float(p @ log), log[label], 1.0)
        return slopes

    def size(self, name):
        """The mean square of a member's derivatives, faded; 0 without any."""
        own = self.squares[name]
        total = float(np.dot(FADING[: len(own)][::-1], own))
        return total / FADING[: self.n_judged].sum() if total else 0.0

    def step(self, derivatives, share):
        self.n_judged += 1
        n = self.n_judged
        for name, g in derivatives.items():
            if name in self.asleep:
                continue
            self.squares[name].append(g * g)
            size = self.size(name)
            if size:
                self.weights[name] -= share * self.rate * max(1.0, 200.0 / math.sqrt(n)) * g / math.sqrt(size)


def less(a, b, least=0.0):
    """a - b, where it is more than rounding of either."""
    return a - b if abs(a - b) > 1e-14 * max(abs(a), abs(b), least) else 0.0


def nearest_on_simplex(weights):
    """By bisection of what is taken away from all weights."""
    low, high = min(weights.values()) - 1.0, max(weights.values())
    while low < (middle := (low + high) / 2) < high:
        if sum(max(0.0, w - middle) for w in weights.values()) > 1.0:
            low = middle
        else:
            high = middle
    return {name: max(0.0, w - high) for name, w in weights.items()}
