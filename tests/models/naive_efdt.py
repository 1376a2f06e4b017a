"""The extremely fast decision tree once more, slow and obvious, from the paper (Manapragada, Webb and Salehi 2018).

Nodes, observers and merits are those of the Hoeffding tree's twin. Every node on the path of an instance observes it;
then tests are evaluated from the root on. Ties at inner nodes: as models.hoeffding.extremely_fast_decision_tree
documents.
"""

import math

from tests.models.naive_hoeffding import (
    HoeffdingTreeTwin,
    best_candidates,
    heaviest,
    hoeffding_bound,
    likeliest,
    merit,
    missing,
    total,
)


class MutableTreeTwin(HoeffdingTreeTwin):
    """A twin whose `nodes` are those that live, parents before children."""

    def child(self, node, x):
        """The child of inner `node` on the way of x, its default where it has none."""
        value = x[node.feature]
        if not math.isnan(value):
            if not self.n_values[node.feature]:
                return node.children[1 if value > node.value else 0]
            if node.value is not None:
                return node.children[0 if value == node.value else 1]
            return node.children.get(int(value), node.default)
        return node.default

    def path(self, x, node):
        """From `node` to a leaf."""
        path = [node]
        while path[-1].feature is not None:
            path.append(self.child(path[-1], x))
        return path

    def below(self, node):
        reached = [node]
        for one in reached:  # which grows
            reached += [one.children[value] for value in sorted(one.children)]
        return reached

    def predicted(self, leaf, x):
        """The class that a leaf predicts, None where it knows nothing."""
        mode = self.settings["leaf_prediction"]
        best = None
        if mode == "nb" or (mode == "nba" and leaf.nb_correct >= leaf.mc_correct):
            best = likeliest(self.odds(leaf, x))
        return heaviest(leaf.weights) if best is None else best

    def count_correct(self, leaf, x, y, w):
        if self.settings["leaf_prediction"] == "nba":
            majority = heaviest(leaf.weights)
            best = likeliest(self.odds(leaf, x))
            leaf.mc_correct += w if majority == y else 0.0
            leaf.nb_correct += w if (majority if best is None else best) == y else 0.0

    def observe(self, node, x, y, w):
        node.weights[y] = node.weights.get(y, 0.0) + w
        node.seen += w
        for f, observer in enumerate(node.observers):
            if self.n_values[f] and not missing(x[f]):
                self.known[f].add(x[f])
            observer.add(x[f], y, w)

    def may_split(self, leaf):
        deep = self.settings["max_depth"]
        return (deep is None or leaf.depth < deep) and len(self.nodes) + 2 <= self.settings["max_nodes"]

    def set_test(self, node, feature, value):
        """Whether there is room: only the node's own children count as making some."""
        branches = node.observers[feature].branches(value, self.settings)
        if len(self.nodes) - len(node.children) + len(branches) > self.settings["max_nodes"]:
            return False
        node.feature, node.value, node.children, node.default = feature, value, {}, None
        for j in sorted(branches):
            node.children[j] = self.add_node(node, branches[j])
            if node.default is None or total(branches[j]) > total(node.default.weights):
                node.default = node.children[j]
        self.bury()
        return True

    def bury(self):
        self.nodes = self.below(self.root)

    def weight(self, node):
        return node.seen

    def describe(self):
        """Ids count nodes from the root on."""
        self.nodes = self.below(self.root)
        for i, node in enumerate(self.nodes):
            node.id = i
        return super().describe()


class EfdtTwin(MutableTreeTwin):
    def learn(self, x, y, w=1.0):
        if w <= 0.0:
            return
        y = int(y)
        leaf = self.leaf(x, learning=True)  # opens branches for values that have none
        path = self.path(x, self.root)
        assert path[-1] is leaf
        self.count_correct(leaf, x, y, w)
        for node in path:
            self.observe(node, x, y, w)
        for node in path:
            inner = node.feature is not None
            period = self.settings["reevaluation_period" if inner else "grace_period"]
            if node.seen - node.evaluated < period:
                continue
            replaced = (inner or self.may_split(node)) and self.try_test(node)
            node.evaluated = node.seen
            if replaced:
                return

    def try_test(self, node):
        bound = hoeffding_bound(node.weights, self.settings)
        if bound is None:
            return False
        gain, feature, value = best_candidates(node, node.seen, self.settings)[0]
        if feature is None or (feature, value) == (node.feature, node.value):
            return False
        tie, least = self.settings["tie_threshold"], 0.0
        if node.feature is not None:
            present = node.observers[node.feature].branches(node.value, self.settings)
            gain -= max(0.0, merit(present, node.seen, self.settings))
            least = 0.5 * tie
        if not (gain > bound or (bound < tie and gain > least)):
            return False
        return self.set_test(node, feature, value)
