"""Stochastic gradient trees once more, slow and obvious: one instance at a time, dicts, lists and objects.

Written from the paper (Gouk, Pfahringer and Frank 2019) and the documented choices of models.gradient; it shares no
code with them. A leaf keeps every instance since its last update, and the mean and variance of the change of the loss
are computed from these one by one, as section 3.3 defines them; that the sums which decide agree is asserted. Sums go
over features, cells, children and outputs in ascending order, so that figures can be compared exactly.
"""

import bisect
import math

import numpy as np

from riparian.models.kernels.elementary import exp, log
from tests.models.naive_drift import NaiveAdwin
from tests.models.naive_streams import NaiveRandom
from tests.models.sums import added


def p_of_f(f, freedom):
    """P(F(1, freedom) >= f), by Simpson's rule over the density of t, with u = sqrt(freedom) tan(angle)."""
    if f == math.inf:
        return 0.0
    log_constant = math.lgamma(0.5 * (freedom + 1.0)) - math.lgamma(0.5 * freedom) - 0.5 * math.log(math.pi)
    if freedom < 1.0:  # the density has a pole at a right angle: with v = (right angle - angle)^freedom it has none
        end = math.atan(math.sqrt(freedom / f)) ** freedom
        turns = [(end * i / 4000) ** (1.0 / freedom) for i in range(4001)]
        heights = [(math.sin(a) / a) ** (freedom - 1.0) if a > 0.0 else 1.0 for a in turns]
        area = end / 12000 * (heights[0] + heights[-1] + 4.0 * added(heights[1:-1:2]) + 2.0 * added(heights[2:-1:2]))
        return 2.0 * area / freedom * math.exp(log_constant)
    start = math.atan(math.sqrt(f / freedom))
    n = 4000
    # Beyond 60 "deviations" of cos^(freedom - 1) nothing is left.
    stop = min(math.pi / 2, start + 60.0 / math.sqrt(max(freedom, 1.0)))
    h = (stop - start) / n
    heights = [math.cos(start + i * h) ** (freedom - 1.0) for i in range(n + 1)]
    area = h / 3.0 * (heights[0] + heights[-1] + 4.0 * added(heights[1:-1:2]) + 2.0 * added(heights[2:-1:2]))
    return 2.0 * area * math.exp(log_constant)


class Sums:
    """Weight, and for each output the weighted sums of g, h, g^2, gh and h^2."""

    def __init__(self, n_outputs):
        self.weight = 0.0
        self.g, self.h, self.gg, self.gh, self.hh = ([0.0] * n_outputs for _ in range(5))

    def take(self, g, h, w):
        self.weight += w
        for k in range(len(g)):
            self.g[k] += w * g[k]
            self.h[k] += w * h[k]
            self.gg[k] += (w * g[k]) * g[k]
            self.gh[k] += (w * g[k]) * h[k]
            self.hh[k] += (w * h[k]) * h[k]

    def add(self, other, sign=1.0):
        self.weight += sign * other.weight
        for mine, its in zip(self.lists(), other.lists(), strict=True):
            for k in range(len(mine)):
                mine[k] += sign * its[k]

    def lists(self):
        return self.g, self.h, self.gg, self.gh, self.hh

    def copy(self):
        result = Sums(len(self.g))
        result.add(self)
        return result

    def rescale(self, ratio):
        """Gradients are `ratio` times as large."""
        self.g = [value * ratio for value in self.g]
        self.gg = [value * (ratio * ratio) for value in self.gg]
        self.gh = [value * ratio for value in self.gh]

    def steps(self, penalty):
        """Equation 13."""
        penalty = penalty(self.weight)
        return [-g / (penalty + max(h, 1e-12)) for g, h in zip(self.g, self.h, strict=True)]

    def worth(self, penalty):
        """Equation 10 with the best step, and lambda of equation 5."""
        penalty = penalty(self.weight)
        return 0.5 * -added(g * g / (penalty + max(h, 1e-12)) for g, h in zip(self.g, self.h, strict=True))


class Node:
    def __init__(self, n_outputs, n_features, parent=None, depth=0):
        self.parent, self.depth = parent, depth
        self.feature = None
        self.value = [0.0] * n_outputs
        self.slope = [[0.0] * n_features for _ in range(n_outputs)]
        self.curvature = [0.0] * n_outputs
        self.seen = self.last_test = 0.0
        self.begin_anew()

    def begin_anew(self):
        self.cells = {}  # (feature, cell or None) -> Sums
        self.total = Sums(len(self.value))
        self.instances = []  # (cells, g, h, w)

    def cell(self, f, cell):
        return self.cells.setdefault((f, cell), Sums(len(self.value)))


class Split:
    """A candidate: cells to children. children : [(code, cells)]; the last bin of the first child, or its value."""

    def __init__(self, feature, test, children, kind):
        self.feature, self.test, self.children, self.kind = feature, test, children, kind


class SgtTwin:
    """parameters : all of the learner's, None where they are the preset's `effective` ones already filled in."""

    def __init__(self, n_values, n_outputs, task, seed, parameters):
        self.__dict__.update(parameters)
        self.n_values, self.n_classes, self.task = list(n_values), n_outputs, task
        self.classification = task == "classification"
        self.random = NaiveRandom(seed)
        d = len(n_values)
        m = max(1, math.ceil(self.feature_share * d - 1e-9))
        self.chosen = []
        for _ in range(self.n_stages):
            features = list(range(d))
            while len(features) > m:
                features.pop(self.random.below(len(features)))
            self.chosen.append(features)
        self.trees = [{} for _ in range(self.n_stages)]  # stage -> tree -> all its nodes, in order
        self.nodes = []  # of all trees
        self.edges = [[] for _ in n_values]
        self.ranges = [None] * d
        self.known = {}
        self.n_learned = 0
        self.buffer = []  # (row, y, w)
        self.sample = {}
        self.next_bins = None
        self.ready = False
        self.target = [0.0, 0.0, 0.0]
        self.centre, self.spread, self.unit = 0.0, 1.0, 1.0
        self.scales = [[0.0, 0.0, 0.0] for _ in n_values]
        self.eta = self.shrinkage if self.n_stages > 1 else 1.0
        self.n_slow_tests = self.n_resets = self.n_scales = 0
        self.begin_watching()

    def begin_watching(self):
        self.detectors = [NaiveAdwin(self.reset_delta) for _ in range(self.n_stages)]

    def lambda_of(self, weight):
        return self.penalty if self.penalty_on == "sum" else self.penalty * weight

    # predictions

    def predict(self, x):
        if not self.ready:
            if not self.classification:
                return [self.target[1] if self.target[0] > 0.0 else math.nan]
            total = added(self.known.get(c, 0.0) for c in range(self.n_classes))
            return [self.known.get(c, 0.0) / total if total > 0.0 else 0.0 for c in range(self.n_classes)]
        scores = self.sums(x)[-1]
        if self.classification:
            return self.softmax(scores)
        if self.loss == "poisson":
            return [exp(min(self.centre + scores[0], 300.0))]
        return [self.centre + self.spread * scores[0]]

    def softmax(self, scores):
        classes = [c for c in range(self.n_classes) if self.known.get(c, 0.0) > 0.0]
        if not classes:
            return [0.0] * self.n_classes
        top = max(scores[c] for c in classes)
        e = [exp(scores[c] - top) if c in classes else 0.0 for c in range(self.n_classes)]
        total = 0.0
        for value in e:
            total += value
        return [value / total for value in e]

    def outputs_of(self, tree):
        """The places in a vector of scores that a tree is about."""
        if not self.classification:
            return [0]
        return list(range(1, self.n_classes)) if self.outputs == "one-tree" else [tree + 1]

    def stage_scores(self, s, x):
        z = self.standardised(x)
        scores = [0.0] * (self.n_classes if self.classification else 1)
        for tree, nodes in self.trees[s].items():
            leaf = self.leaf_of(nodes[0], x)
            for k, place in enumerate(self.outputs_of(tree)):
                scores[place] = leaf.value[k]
                if self.linear_rate > 0.0:
                    for f in range(len(z)):
                        scores[place] += leaf.slope[k][f] * z[f]
        return scores

    def sums(self, x):
        """F_0 .. F_S."""
        found = [[0.0] * (self.n_classes if self.classification else 1)]
        for s in range(self.n_stages):
            scores = self.stage_scores(s, x)
            found.append([a + self.eta * b for a, b in zip(found[-1], scores, strict=True)])
        return found

    def leaf_of(self, node, x):
        while node.feature is not None:
            value = x[node.feature]
            n = self.n_values[node.feature]
            if math.isnan(value) or (n and not 0 <= value < n):
                node = node.default
            elif not n:
                node = node.children[0] if value <= node.test else node.children[1]
            elif node.many:
                node = {child.code: child for child in node.children}.get(int(value), node.default)
            else:
                node = node.children[0] if value == node.test else node.children[1]
        return node

    def standardised(self, x):
        z = []
        for value, (n, mean, squares), n_values in zip(x, self.scales, self.n_values, strict=True):
            if n_values or math.isnan(value) or not squares > 0.0:
                z.append(0.0)
            else:
                z.append(min(max((value - mean) / math.sqrt(squares / n), -3.0), 3.0))
        return z

    # learning

    def learn(self, x, y, w):
        if not 0.0 < w < math.inf:
            return
        if self.classification:
            if not 0 <= y < self.n_classes:
                return
        elif not abs(y) < 1e100 or (self.loss == "poisson" and y < 0.0):
            return
        if not self.ready:
            self.meet(y, w)
            self.n_learned += 1
            self.buffer.append((list(x), y, w))
            if len(self.buffer) == self.warm_up:
                self.begin()
            return
        self.plant(y)
        self.meet(y, w)
        self.n_learned += 1
        size = max(self.warm_up, 4 * self.n_bins)
        self.sample[self.n_learned % size] = list(x)
        drifted = self.learn_now(x, y, w)
        self.follow_scale()
        if drifted:
            self.reset(drifted)
        if self.next_bins is not None and self.n_learned >= self.next_bins:
            self.find_bins([self.sample[i] for i in sorted(self.sample)])
            self.schedule()

    def meet(self, y, w):
        if self.classification:
            self.known[int(y)] = self.known.get(int(y), 0.0) + w
        else:
            if self.ready:
                self.target[0] *= 0.999
                self.target[2] *= 0.999
                if self.loss != "poisson":
                    far = 30.0 * self.spread
                    y = min(max(y, self.target[1] - far), self.target[1] + far)
            off = y - self.target[1]
            self.target[0] += w
            self.target[1] += off * (w / self.target[0])
            self.target[2] += w * off * (y - self.target[1])

    def centre_scores(self):
        if not self.classification:
            self.centre = self.target[1]
            if self.loss == "poisson":
                self.centre = log(self.target[1]) if self.target[1] > 0.0 else 0.0

    def follow_scale(self):
        if self.classification or self.loss == "poisson":
            return
        spread = math.sqrt(self.target[2] / self.target[0])
        if self.spread / 2.0 <= spread <= 2.0 * self.spread or not 1e-100 <= spread < math.inf:
            return
        ratio, self.spread = self.spread / spread, spread
        self.n_scales += 1
        if spread < self.unit:
            self.unit = spread
            self.begin_watching()
        for node in self.nodes:
            node.value = [value * ratio for value in node.value]
            node.slope = [[value * ratio for value in row] for row in node.slope]
            if self.loss != "squared":
                node.begin_anew()
            for sums in (node.total, *node.cells.values()):
                sums.rescale(ratio)
            node.instances = [(cells, [value * ratio for value in g], h, w) for cells, g, h, w in node.instances]

    def begin(self):
        self.centre_scores()
        if not self.classification and self.loss != "poisson":
            spread = math.sqrt(self.target[2] / self.target[0])
            self.spread = self.unit = spread if 1e-100 <= spread < math.inf else 1.0
        self.ready = True
        rows = [row for row, _, _ in self.buffer]
        for row in rows:
            self.widen(row)
        self.sample = dict(enumerate(rows))
        self.find_bins(rows)
        self.schedule()
        if self.classification and self.outputs != "one-tree" and not self.replay:
            for c in sorted(self.known):
                self.plant(c)
        if self.replay:
            for row, y, w in self.buffer:
                self.plant(y)
                drifted = self.learn_now(row, y, w)
                if drifted:
                    self.reset(drifted)

    def schedule(self):
        if self.rebin_period > 0:
            self.next_bins = self.n_learned + min(self.n_learned, self.rebin_period)

    def widen(self, x):
        for f, value in enumerate(x):
            if not self.n_values[f] and math.isfinite(value):
                low, high = self.ranges[f] or (value, value)
                self.ranges[f] = min(low, value), max(high, value)

    def find_bins(self, rows):
        for f, n in enumerate(self.n_values):
            if n or self.ranges[f] is None or self.ranges[f][0] == self.ranges[f][1]:
                continue
            low, high = self.ranges[f]
            if self.binning == "equal-width":
                shares = [i / self.n_bins for i in range(1, self.n_bins)]
                new = sorted({low * (1.0 - share) + high * share for share in shares})
            else:
                new = self.quantiles(sorted(row[f] for row in rows if math.isfinite(row[f])))
            old, self.edges[f] = self.edges[f], new
            if new == old:
                continue
            ends = [low, *old, high]
            target = {b: bisect.bisect_left(new, 0.5 * ends[b] + 0.5 * ends[b + 1]) for b in range(len(old) + 1)}
            for node in self.nodes:
                before, node.cells = node.cells, {key: sums for key, sums in node.cells.items() if key[0] != f}
                for b in sorted(target):
                    if (f, b) in before:
                        node.cell(f, target[b]).add(before[f, b])
                if (f, None) in before:
                    node.cells[f, None] = before[f, None]
                for cells, *_ in node.instances:
                    if cells[f] is not None:
                        cells[f] = target[cells[f]]

    def quantiles(self, ordered):
        different = sorted(set(ordered))
        if len(different) < 2:
            return []
        if len(different) <= self.n_bins:
            lower = different[:-1]
        else:
            lower = sorted({ordered[i * len(ordered) // self.n_bins - 1] for i in range(1, self.n_bins)})
            lower = [value for value in lower if value < different[-1]]
        return sorted({0.5 * v + 0.5 * different[different.index(v) + 1] for v in lower})

    def plant(self, y):
        tree = int(y) - 1 if self.classification and self.outputs != "one-tree" else 0
        if tree < 0 or tree in self.trees[0]:
            return
        for trees in self.trees:
            root = Node(len(self.outputs_of(tree)), len(self.n_values))
            trees[tree] = [root]
            self.nodes.append(root)

    def cell_of(self, f, value):
        if math.isnan(value):
            return None
        if self.n_values[f] == 0:
            return bisect.bisect_left(self.edges[f], value)
        return int(value) if 0 <= value < self.n_values[f] else None

    def derivatives(self, point, y):
        """Gradients and Hessians of all outputs at the scores `point`."""
        if self.classification:
            p = self.softmax(point)
            g = [p[c] - (1.0 if c == int(y) else 0.0) for c in range(self.n_classes)]
            return g, [p[c] * (1.0 - p[c]) for c in range(self.n_classes)]
        f = point[0]
        if self.loss == "poisson":
            rate = exp(min(self.centre + f, 300.0))
            return [rate - y], [rate]
        y = (y - self.centre) / self.spread
        if self.loss == "squared":
            return [f - y], [1.0]
        if self.loss == "huber":
            r = (f - y) / self.loss_threshold
            root = math.sqrt(1.0 + r * r)
            return [self.loss_threshold * (r / root)], [1.0 / (root * root * root)]
        below = 1.0 / (1.0 + exp(min((y - f) / 0.1, 700.0)))
        return [below - self.quantile], [below * (1.0 - below) / 0.1]

    def learn_now(self, x, y, w):
        z = self.standardised(x)
        self.widen(x)
        cells = [self.cell_of(f, value) for f, value in enumerate(x)]
        sums = self.sums(x)
        work, due, drifted = [], [], []
        for s in range(self.n_stages):
            point = [a + b for a, b in zip(sums[s], self.stage_scores(s, x), strict=True)]
            g, h = self.derivatives(point, y)
            if self.reset_delta > 0.0 and self.has_risen(s, point, g, y):
                drifted.append(s)
            weight = w * self.poisson_one() if self.poisson else w
            if weight == 0.0:
                continue
            for tree, nodes in sorted(self.trees[s].items()):
                places = self.outputs_of(tree)
                work.append((s, self.leaf_of(nodes[0], x), [g[i] for i in places], [h[i] for i in places], weight))
        for s, leaf, g, h, weight in work:
            self.take(leaf, cells, s, z, g, [max(value, 1e-4) for value in h], weight)
            if leaf.seen - leaf.last_test >= self.grace_period:
                due.append((s, leaf))
        self.rescale(x, w)
        for s, leaf in due:
            self.change(s, leaf)
            leaf.last_test = leaf.seen
        return drifted

    def rescale(self, x, w):
        if self.linear_rate > 0.0:
            for f, value in enumerate(x):
                if not self.n_values[f] and math.isfinite(value):
                    n, mean, squares = self.scales[f]
                    off = value - mean
                    mean += off * (w / (n + w))
                    self.scales[f] = [n + w, mean, squares + w * off * (value - mean)]

    def has_risen(self, s, point, g, y):
        if self.classification:
            error = 1.0 - self.softmax(point)[int(y)]
        else:
            error = abs(g[0]) * (self.spread / self.unit)
            error /= 1.0 + error
        detector = self.detectors[s]
        before = detector.total / len(detector.values) if detector.values else 0.0
        return detector.update(error) == 2 and detector.total / len(detector.values) > before

    def reset(self, stages):
        """New trees in place of the stages', behind all other nodes."""
        self.n_resets += len(stages)
        gone = {id(node) for s in stages for nodes in self.trees[s].values() for node in self.below(nodes[0])}
        self.nodes = [node for node in self.nodes if id(node) not in gone]
        for s in stages:
            for tree in sorted(self.trees[s]):
                root = Node(len(self.outputs_of(tree)), len(self.n_values))
                self.trees[s][tree] = [root]
                self.nodes.append(root)
        if len(stages) == self.n_stages:
            self.centre_scores()
        if self.unit < self.spread:
            self.unit = self.spread
            self.begin_watching()

    def below(self, node):
        found = [node]
        for other in found:
            if other.feature is not None:
                found += other.children
        return found

    def poisson_one(self):
        k, product = 0, self.random.uniform()
        while product > math.exp(-1.0):
            k += 1
            product *= self.random.uniform()
        return k

    def take(self, leaf, cells, s, z, g, h, w):
        leaf.total.take(g, h, w)
        for f in self.chosen[s]:
            leaf.cell(f, cells[f]).take(g, h, w)
        leaf.instances.append((list(cells), g, h, w))
        leaf.seen += w
        norm = 1.0
        for value in z:
            norm += value * value
        for k in range(len(g)):
            if self.leaf_update == "every-instance":
                leaf.curvature[k] = self.decay * leaf.curvature[k] + w * h[k]
                step = -self.learning_rate * (w * g[k]) / (self.penalty + leaf.curvature[k])
                leaf.value[k] += min(max(step, -self.largest_step), self.largest_step)
            if self.linear_rate > 0.0:
                step = -min(self.linear_rate * w, 1.0) * g[k] / max(h[k], 1.0)
                step = min(max(step, -self.largest_step), self.largest_step) / norm
                for f in range(len(z)):
                    leaf.slope[k][f] += step * z[f]

    # changes of the tree

    def change(self, s, leaf):
        deep = self.max_depth is not None and leaf.depth >= self.max_depth
        split = None
        if not deep and len(self.nodes) + 2 <= self.max_nodes:
            split = self.best_split(s, leaf)
        elif self.leaf_update == "every-instance":
            return
        if split is None:
            if self.leaf_update == "tested":
                steps = self.tested(leaf, [leaf.total], [None], False)
                if steps is not None:
                    leaf.value = [v + step for v, step in zip(leaf.value, steps[0], strict=True)]
                    leaf.begin_anew()
            return
        if len(self.nodes) + len(split.children) > self.max_nodes:
            return
        sums = [self.sum_of(leaf, split.feature, cells) for _, cells in split.children]
        default = max(range(len(sums)), key=lambda j: (sums[j].weight, -j))
        sums[default].add(leaf.cells.get((split.feature, None), Sums(len(leaf.value))))
        split.children[default][1].append(None)
        steps = self.tested(leaf, sums, [(split.feature, cells) for _, cells in split.children], self.paired)
        if steps is None:
            return
        leaf.feature, leaf.test, leaf.many = split.feature, split.test, split.kind == "many"
        leaf.children = []
        for (code, _), total, step in zip(split.children, sums, steps, strict=True):
            child = Node(len(leaf.value), len(self.n_values), leaf, leaf.depth + 1)
            child.code = code
            child.value = [v + a for v, a in zip(leaf.value, step, strict=True)]
            child.curvature = list(total.h)
            child.slope = [list(row) for row in leaf.slope]
            leaf.children.append(child)
            self.nodes.append(child)
        leaf.default = leaf.children[default]
        leaf.begin_anew()

    def sum_of(self, leaf, f, cells):
        result = Sums(len(leaf.value))
        for cell in cells:
            if (f, cell) in leaf.cells:
                result.add(leaf.cells[f, cell])
        return result

    def best_split(self, s, leaf):
        """The candidate of least worth; None for "no split"."""
        least, best = leaf.total.worth(self.lambda_of), None
        for f in self.chosen[s]:
            n = self.n_values[f] or len(self.edges[f]) + 1
            if n < 2:
                continue
            every = list(range(n))
            if not self.n_values[f]:
                halves = [[(-1, every[: b + 1]), (-1, every[b + 1 :])] for b in range(n - 1)]
                splits = [Split(f, edge, half, "bins") for edge, half in zip(self.edges[f], halves, strict=True)]
            elif self.multiway:
                seen = [v for v in every if (f, v) in leaf.cells]
                splits = [Split(f, 0.0, [(v, [v]) for v in seen], "many")] if len(seen) > 1 else []
            else:
                splits = [Split(f, float(v), [(-1, [v]), (-1, [o for o in every if o != v])], "equals") for v in every]
            whole = self.sum_of(leaf, f, every)
            missing = leaf.cells.get((f, None), Sums(len(leaf.value)))
            for split in splits:
                parts = [self.sum_of(leaf, f, cells) for _, cells in split.children]
                if split.kind != "many":
                    parts[1] = whole.copy()
                    parts[1].add(parts[0], -1.0)
                    if not min(part.weight for part in parts) > 1e-9 * whole.weight:
                        continue
                heaviest = max(range(len(parts)), key=lambda j: (parts[j].weight, -j))
                parts[heaviest].add(missing)
                if split.kind == "many":
                    worth = len(parts) * self.node_cost
                    for part in parts:
                        worth += part.worth(self.lambda_of)
                else:
                    worth = parts[0].worth(self.lambda_of) + parts[1].worth(self.lambda_of) + 2.0 * self.node_cost
                if worth < least:
                    least, best = worth, split
        return best

    def tested(self, leaf, sums, where, paired):
        """Steps of the children if the test accepts the change, else None."""
        steps = [total.steps(self.lambda_of) for total in sums]
        n = leaf.total.weight
        if not n > 1.0:
            return None
        without = leaf.total.steps(self.lambda_of) if paired else [0.0] * len(leaf.value)
        mean = deviation = 0.0
        for k, v in enumerate(without):
            first = second = 0.0
            for total, step in zip(sums, steps, strict=True):
                a, b = step[k] - v, 0.5 * (step[k] * step[k] - v * v)
                first += a * total.g[k] + b * total.h[k]
                second += a * a * total.gg[k] + 2.0 * a * b * total.gh[k] + b * b * total.hh[k]
            mean += first / n
            deviation += math.sqrt(max(second / n - (first / n) * (first / n), 0.0))
            self.check_one_by_one(leaf, where, steps, k, v, first / n, second / n)
        if not mean < 0.0:
            return None
        variance = deviation * deviation * (n / (n - 1.0))
        accepted = variance == 0.0 or p_of_f(n * mean * mean / variance, n - 1.0) < self.delta
        return steps if accepted else None

    def check_one_by_one(self, leaf, where, steps, k, v, mean, square):
        """Equations 7, 16 and 17: the change of every instance's loss, and its moments."""
        self.n_slow_tests += 1
        changes, weights = [], []
        for cells, g, h, w in leaf.instances:
            j = 0
            if where[0] is not None:
                j = next(j for j, (f, members) in enumerate(where) if cells[f] in members)
            step = steps[j][k]
            changes.append((g[k] * step + 0.5 * h[k] * step * step) - (g[k] * v + 0.5 * h[k] * v * v))
            weights.append(w)
        changes, weights = np.array(changes), np.array(weights)
        scale = np.average(changes**2, weights=weights)
        assert abs(np.average(changes, weights=weights) - mean) <= 1e-9 * math.sqrt(scale) + 1e-15
        assert abs(scale - square) <= 1e-9 * scale + 1e-15
