"""The Hoeffding adaptive tree once more, slow and obvious, from the paper (Bifet and Gavaldà 2009).

Nodes, observers and merits are those of the Hoeffding tree's twin, windows those of ADWIN's. Choices where the paper is
silent: as models.hoeffding.hoeffding_adaptive_tree documents.
"""

import math

from riparian.models.kernels import elementary
from tests.models.naive_drift import NaiveAdwin
from tests.models.naive_efdt import MutableTreeTwin
from tests.models.naive_hoeffding import Node
from tests.models.naive_streams import NaiveRandom


class Window:
    """The errors of a node since its tree began."""

    def __init__(self, delta):
        self.adwin = NaiveAdwin(delta)

    @property
    def width(self):
        return len(self.adwin.values)

    @property
    def rate(self):
        return sum(self.adwin.values) / self.width if self.width else 0.0

    def rises(self, error):
        """Add an error; whether the window was cut, and errs more since then than before."""
        before = self.rate
        return self.adwin.update(error) == 2 and self.rate > before


class HatTwin(MutableTreeTwin):
    def __init__(self, n_values, n_classes, seed=0, **settings):
        self.max_nodes = settings["max_nodes"]
        self.random = NaiveRandom(seed)
        super().__init__(n_values, n_classes, **settings)

    def add_node(self, parent, weights):
        node = super().add_node(parent, weights)
        self.begin(node)
        return node

    def begin(self, node):
        node.window, node.alternate = Window(self.settings["drift_delta"]), None

    def below(self, node):
        """A tree and all alternate trees."""
        reached = super().below(node)
        for one in reached:  # which grows
            if one.alternate is not None:
                reached += super().below(one.alternate)
        return reached

    def learn(self, x, y, w=1.0):
        if w > 0.0:
            self.learn_tree(self.root, x, int(y), w, beside=False)

    def learn_tree(self, root, x, y, w, beside):
        kept = self.max_nodes // 4 if self.settings["alternate_trees"] else 0
        self.settings["max_nodes"] = self.max_nodes if beside else self.max_nodes - kept
        path = self.descend(root, x)
        leaf = path[-1]
        error = 0 if self.predicted(leaf, x) == y else 1
        alternates, replaced = [], None
        for node in path:
            watched = node.parent is not None and node.parent.alternate is node
            if node is not leaf:
                node.seen += w
                watched = True
            if not (watched and self.settings["alternate_trees"]):
                continue
            rises = node.window.rises(error)
            if node is leaf:
                continue
            if rises and len(self.nodes) < self.max_nodes:
                self.plant(node)
            elif node.alternate is not None and self.decide(node):
                replaced = node
                break
            if node.alternate is not None:
                alternates.append(node.alternate)
        if replaced is not None:
            self.learn_tree(replaced, x, y, w, beside)
        else:
            self.learn_leaf(leaf, x, y, w)
        for alternate in reversed(alternates):
            self.learn_tree(alternate, x, y, w, beside=True)

    def descend(self, node, x):
        """From `node` to a leaf, with a new branch for a value that has none."""
        path = [node]
        while path[-1].feature is not None:
            node = path[-1]
            value = x[node.feature]
            many = self.n_values[node.feature] and node.value is None and not math.isnan(value)
            if many and int(value) not in node.children and len(self.nodes) < self.settings["max_nodes"]:
                node.children[int(value)] = self.add_node(node, {})
            path.append(self.child(node, x))
        return path

    def learn_leaf(self, leaf, x, y, w):
        if self.settings["bootstrap"]:
            n, product = 0, self.random.uniform()
            while product > elementary.exp(-1.0):
                n, product = n + 1, product * self.random.uniform()
            w *= max(1, n)
        self.count_correct(leaf, x, y, w)
        self.observe(leaf, x, y, w)
        if leaf.seen - leaf.evaluated >= self.settings["grace_period"]:
            leaf.evaluated = leaf.seen
            if self.may_split(leaf):
                self.try_split(leaf)
                if leaf.feature is not None:
                    self.begin(leaf)

    def plant(self, node):
        node.alternate = None
        self.nodes = self.below(self.root)
        node.alternate = Node(-1, node.parent, {}, self.n_values)
        node.alternate.parent, node.alternate.depth = node, node.depth
        self.begin(node.alternate)
        self.nodes.append(node.alternate)

    def decide(self, node):
        """Whether the alternate tree has taken the node's place. It ends where it errs more."""
        here, there = node.window, node.alternate.window
        if min(here.width, there.width) < self.settings["least_window"]:
            return False
        spread = 2.0 * here.rate * (1.0 - here.rate) * elementary.log(2.0 / self.settings["switch_delta"])
        bound = math.sqrt(spread * (1.0 / there.width + 1.0 / here.width))
        if here.rate - there.rate > bound:
            parent = node.parent
            node.__dict__ = node.alternate.__dict__
            node.parent = parent
            if node.feature is None and (parent is None or parent.alternate is not node):
                node.window = Window(self.settings["drift_delta"])
            for child in node.children.values():
                child.parent = node
            if node.alternate is not None:
                node.alternate.parent = node
        elif there.rate - here.rate > bound:
            node.alternate = None
            self.nodes = self.below(self.root)
            return False
        else:
            return False
        self.nodes = self.below(self.root)
        return True

    def leaf(self, x, learning):
        """The leaf that predicts."""
        assert not learning
        node = self.root
        while node.feature is not None:
            beside = node.alternate
            early = self.settings["early_prediction"] and beside is not None and beside.window.width > 10
            node = beside if early and beside.window.rate < node.window.rate else self.child(node, x)
        return node

    def describe(self):
        described = super().describe()
        for node, entry in zip(self.nodes, described, strict=True):
            if node.window.width:
                entry["error_rate"] = node.window.rate
            if node.alternate is not None:
                entry["alternate"] = node.alternate.id
            if node.parent is not None:
                entry["depth"] = described[node.parent.id]["depth"] + 1
        return described
