"""Trees whose subtrees come and go: what EFDT and HAT share beyond the Hoeffding tree.

Nodes are rows of arrays, and a row that died is used again, so that a leaf which learns nothing keeps its place and its
bytes. Invariants:

- row 0 is the root; a live row is reached from it by children and alternates exactly once;
- a dead row is zero but for TEST and PARENT, which chains the dead rows, the one to be used next first;
- a node's statistics are those in its own row; whether an inner node has some is up to the tree;
- `child_of_value` holds the children of all inner nodes, packed in order of rows whenever a subtree has died: what the
  arrays hold follows from what was learned, never from their capacity.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats, Schema
from riparian.models.hoeffding.base import ClassificationTree
from riparian.models.hoeffding.nodes import SEEN
from riparian.models.hoeffding.parameters import bins_of, settings_of
from riparian.models.hoeffding.splitting.candidates import branch
from riparian.models.kernels.kernel import DONE, GROW, kernel
from riparian.models.layout import Paths, StateLayout
from riparian.models.observers.gaussians import Cache, know_nothing, lay_out
from riparian.models.observers.likelihood import scratch_of

# Columns of MutableNodes.links.
TEST, MAP, N_MAP, DEFAULT, PARENT, DEPTH, ALTERNATE = range(7)
# Values of TEST that are no features.
LEAF, DEAD = -1, -2
# Places in `counts`.
N_NODES, N_ROWS, FIRST_DEAD, N_MAPPED = range(4)
# Places in `progress`: the next operation, whether it has learned and only has splits to try, and the room it needs.
NEXT, LEARNED, NEED_ROWS, NEED_MAPPED = range(4)

SPLIT = 2  # beside DONE and GROW


class MutableNodes(NamedTuple):
    """Everything a tree knows but the values seen, in rows for nodes, with room to grow.

    links : (n_rows, 7) int32. TEST is the feature tested, LEAF or DEAD. Child j of an inner node is child_of_value[MAP
        + j], j < N_MAP, or -1 for none. Numeric: values above `test` go to child 1, others to 0. Nominal, binary: equal
        to `test` goes to child 0, others to 1. Nominal, a branch a value: v goes to child v. DEFAULT is the node for
        all others and for missing values. PARENT (-1 for the root; of an alternate tree's root the node that it may
        replace), DEPTH; ALTERNATE is the root of that tree, -1 for none.
    test : (n_rows,) float64, threshold or value.
    weights : (n_rows, n_outputs) float64, of the classes.
    leaf : (n_rows, 4) float64, weight seen, the same at the last attempt to split, and the weight that majority class
        and naive Bayes would have predicted correctly.
    stats : (n_rows, width) float64, blocks of models.observers.gaussians.
    child_of_value : int32.
    counts : (4,) int64, live nodes, rows ever used, first dead row (-1 for none), entries of child_of_value.
    """

    links: NDArray[np.int32]
    test: Floats
    weights: Floats
    leaf: Floats
    stats: Floats
    child_of_value: NDArray[np.int32]
    counts: NDArray[np.int64]


class MutableTreeScratch(NamedTuple):
    """What kernels write though it is no state.

    joint : of models.observers.likelihood.scratch_of.
    post : (branches + 1, n_outputs).
    found : 4.
    """

    joint: Floats
    post: Floats
    found: Floats


class MutableTree(ClassificationTree):
    """Base class of trees that replace subtrees: fresh arrays, scratch, which nodes there are."""

    layout: ClassVar[StateLayout] = StateLayout(
        rows={"links test weights leaf stats windows": "rows", "child_of_value": "mapped"},
        counts={("counts", N_ROWS): "rows", ("counts", N_MAPPED): "mapped"},
        places={("links", TEST): "features", ("links", ALTERNATE): "rows", ("counts", FIRST_DEAD): "rows"},
        paths=(
            Paths(
                ("links", TEST), (("links", DEFAULT),), ("links", DEPTH),
                mapped=(("links", MAP), ("links", N_MAP), "child_of_value"),
            ),
        ),
    )  # fmt: skip

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        self._settings = settings_of(self._parameters)
        self._known = know_nothing(schema)
        self._nodes = MutableNodes(
            np.array([[LEAF, 0, 0, 0, -1, 0, -1]], np.int32),
            np.zeros(1),
            np.zeros((1, schema.n_outputs)),
            np.zeros((1, 4)),
            np.zeros((1, lay_out(schema, bins_of(self._parameters))[1])),
            np.zeros(0, np.int32),
            np.array([1, 1, -1, 0], np.int64),
        )
        self._prepare()

    def _prepare(self) -> None:
        """What follows from the schema and the size of the arrays, and is not state."""
        self._layout, _, width = lay_out(self.schema, bins_of(self._parameters))
        n_rows = len(self._nodes.stats)
        self._cache = Cache(np.zeros((n_rows, width)), np.zeros(n_rows, np.uint8))
        k = self.schema.n_outputs
        branches = max(2, *self.schema.n_values, 2)
        self._scratch = MutableTreeScratch(scratch_of(self.schema), np.zeros((branches + 1, k)), np.zeros(4))

    def _grow(self, n_rows: int, n_mapped: int) -> None:
        """Room for so many rows and entries of child_of_value."""
        self._enlarge(n_rows, n_rows, n_mapped)

    def _used(self) -> MutableNodes:
        """The nodes without the room to grow."""
        n_rows, n_mapped = int(self._nodes.counts[N_ROWS]), int(self._nodes.counts[N_MAPPED])
        nodes: MutableNodes = self._without_room(n_rows, n_rows, n_mapped)
        return nodes

    def describe(self) -> list[dict[str, Any]]:
        """Nodes, root first, parents before children. Inner nodes: "feature", and "threshold" (numeric), "equals"
        (binary nominal) or "children" (value -> id); "default" is the child of missing values. Leaves: "predictor".

        "weight" is what passed through since the node is there. "value" is the weight of each class: of a leaf with
        what it inherited, of an inner node the sum over the leaves below.
        """
        return self._described_below(0)

    def _described_below(self, root: int) -> list[dict[str, Any]]:
        nodes = self._used()
        order = self._reached(root)
        seen = nodes.leaf[:, SEEN]
        weights = np.where(nodes.links[:, [TEST]] < 0, nodes.weights, 0.0)
        for i in reversed(order[1:]):
            weights[nodes.links[i, PARENT]] += weights[i]
        described = []
        for i in order:
            link = nodes.links[i].tolist()
            node = self._described(i, link[PARENT], link[DEPTH], seen[i], weights[i])
            if link[TEST] == LEAF:
                node["predictor"] = self._predictor(i)
            else:
                node |= self._test(link[TEST], link[DEFAULT], float(nodes.test[i]), self._children(i))
            described.append(node | self._more(i))
        return described

    def _more(self, node: int) -> dict[str, Any]:
        """What a kind of tree adds about a node beyond that."""
        return {}

    def _children(self, node: int) -> list[int]:
        """Children by branch, -1 for none."""
        start, n = self._nodes.links[node, [MAP, N_MAP]].tolist()
        children: list[int] = self._nodes.child_of_value[start : start + n].tolist()
        return children

    def _reached(self, root: int) -> list[int]:
        """The nodes of the tree below `root`, without alternate trees, parents before children."""
        order = [root]
        for node in order:  # which grows
            order += [child for child in self._children(node) if child >= 0]
        return order

    def size(self) -> dict[str, int]:
        links = self._nodes.links
        order = self._reached(0)
        leaves = links[order, TEST] == LEAF
        return {"n_nodes": len(order), "n_leaves": int(leaves.sum()), "depth": int(links[order, DEPTH].max())}


@kernel(inline=True)
def next_node(links, test, child_of_value, n_values, binary, x, r, node):
    """The child of inner `node` for row r of x, or -1 where it has no branch for the nominal value."""
    feature = links[node, TEST]
    value = x[r, feature]
    n = n_values[feature]
    if value != value or (n > 0 and not (value >= 0.0 and value < n)):
        return links[node, DEFAULT]
    if n == 0:
        j = 1 if value > test[node] else 0
    elif binary:
        j = 0 if value == test[node] else 1
    else:
        j = int(value)
        if j >= links[node, N_MAP]:
            return np.int32(-1)
    return child_of_value[links[node, MAP] + j]


@kernel(inline=True)
def route(links, test, child_of_value, n_values, binary, x, r, node):
    """From `node` on to the leaf of row r of x, or to the node that has no branch for its nominal value."""
    node = np.int32(node)
    while links[node, TEST] >= 0:
        child = next_node(links, test, child_of_value, n_values, binary, x, r, node)
        if child < 0:
            return node
        node = child
    return node


@kernel(inline=True)
def route_known(links, test, child_of_value, n_values, binary, x, r, node):
    """From `node`, which has no branch for its nominal value, on to a leaf: such values go the way of missing ones."""
    while links[node, TEST] >= 0:
        node = route(links, test, child_of_value, n_values, binary, x, r, links[node, DEFAULT])
    return node


@kernel
def take_row(parent, depth, nodes, fresh):
    """A row for a new leaf; there must be room. Mutates nodes, fresh."""
    links = nodes.links
    row = nodes.counts[FIRST_DEAD]
    if row >= 0:
        nodes.counts[FIRST_DEAD] = links[row, PARENT]
    else:
        row = nodes.counts[N_ROWS]
        nodes.counts[N_ROWS] += 1
    nodes.counts[N_NODES] += 1
    links[row, TEST] = LEAF
    links[row, PARENT] = parent
    links[row, DEPTH] = depth
    links[row, ALTERNATE] = -1
    fresh[row] = 0
    return np.int32(row)


@kernel
def has_room(n_rows, n_mapped, nodes, progress):
    """Whether so many more rows and entries of child_of_value fit; else progress holds what is needed."""
    dead = nodes.counts[N_ROWS] - nodes.counts[N_NODES]
    progress[NEED_ROWS] = nodes.counts[N_ROWS] + max(0, n_rows - dead)
    progress[NEED_MAPPED] = nodes.counts[N_MAPPED] + n_mapped
    return progress[NEED_ROWS] <= len(nodes.links) and progress[NEED_MAPPED] <= len(nodes.child_of_value)


@kernel
def try_branch(node, value, nodes, fresh, progress):
    """Give the test of `node` a branch for a value: an empty leaf, which is returned. O(values).

    -1, with nothing changed, where there is no room. A map that the value is beyond moves to the end of
    child_of_value, doubled. Mutates nodes, fresh, progress.
    """
    links = nodes.links
    start = links[node, MAP]
    n_map = links[node, N_MAP]
    larger = max(value + 1, 2 * n_map) if value >= n_map else 0
    if not has_room(1, larger, nodes, progress):
        return np.int32(-1)
    if larger > 0:
        moved = nodes.counts[N_MAPPED]
        for v in range(larger):
            nodes.child_of_value[moved + v] = nodes.child_of_value[start + v] if v < n_map else -1
        for v in range(n_map):
            nodes.child_of_value[start + v] = 0
        links[node, MAP] = moved
        links[node, N_MAP] = larger
        nodes.counts[N_MAPPED] += larger
        start = moved
    child = take_row(node, links[node, DEPTH] + 1, nodes, fresh)
    nodes.child_of_value[start + value] = child
    return child


@kernel
def free_row(row, nodes):
    """Zero a row and chain it to the dead ones. Mutates nodes. O(width)."""
    for v in range(nodes.links[row, N_MAP]):
        nodes.child_of_value[nodes.links[row, MAP] + v] = 0
    nodes.links[row, :] = 0
    nodes.links[row, TEST] = DEAD
    nodes.links[row, PARENT] = nodes.counts[FIRST_DEAD]
    nodes.test[row] = 0.0
    nodes.weights[row, :] = 0.0
    nodes.leaf[row, :] = 0.0
    nodes.stats[row, :] = 0.0
    nodes.counts[FIRST_DEAD] = row
    nodes.counts[N_NODES] -= 1


@kernel
def free_below(node, nodes):
    """Make `node` a leaf: all below it dies, with the alternate trees there. Its own one lives. Returns how many died:
    they come first in the chain of dead rows. Mutates nodes, but nothing of the node beside its test. O(n_rows)."""
    links = nodes.links
    head = np.int32(-1)  # rows yet to die, chained by PARENT
    for v in range(links[node, N_MAP]):
        child = nodes.child_of_value[links[node, MAP] + v]
        if child >= 0:
            links[child, PARENT] = head
            head = child
    n = free_chain(head, nodes)
    for v in range(links[node, N_MAP]):
        nodes.child_of_value[links[node, MAP] + v] = 0
    links[node, TEST] = LEAF
    links[node, MAP] = 0
    links[node, N_MAP] = 0
    links[node, DEFAULT] = 0
    nodes.test[node] = 0.0
    pack_maps(nodes)
    return n


@kernel
def free_chain(head, nodes):
    """All rows chained by PARENT from `head` on die, and what is below them. Returns how many. Mutates nodes."""
    links = nodes.links
    n = 0
    while head >= 0:
        row = head
        head = links[row, PARENT]
        for v in range(links[row, N_MAP]):
            child = nodes.child_of_value[links[row, MAP] + v]
            if child >= 0:
                links[child, PARENT] = head
                head = child
        alternate = links[row, ALTERNATE]
        if alternate >= 0:
            links[alternate, PARENT] = head
            head = alternate
        free_row(row, nodes)
        n += 1
    return n


@kernel(allocates=True)
def pack_maps(nodes):
    """Close the gaps of child_of_value. Mutates nodes. O(n_rows + entries)."""
    links = nodes.links
    old = nodes.child_of_value[: nodes.counts[N_MAPPED]].copy()
    nodes.child_of_value[: nodes.counts[N_MAPPED]] = 0
    n = 0
    for row in range(nodes.counts[N_ROWS]):
        n_map = links[row, N_MAP]
        if n_map > 0:
            for v in range(n_map):
                nodes.child_of_value[n + v] = old[links[row, MAP] + v]
            links[row, MAP] = n
            n += n_map
    nodes.counts[N_MAPPED] = n


@kernel
def split_node(node, feature, value, nodes, fresh, layout, settings, post, progress):
    """Give `node` a test and children, each with the class weights that the node's observers estimate for it; what was
    below dies first. SPLIT; DONE where max_nodes forbids it; GROW where there is no room. Nothing has changed then.

    Mutates nodes, fresh, post, progress. O(n_rows) where something was below, else O(branches n_outputs).
    """
    links = nodes.links
    n_classes = nodes.weights.shape[1]
    n_map = branch(nodes.stats, layout, node, n_classes, feature, value, settings.binary_splits, post)
    mapped = layout.n_values[feature] > 0 and not settings.binary_splits
    n_children = 0
    last = 0
    for j in range(n_map):
        weight = 0.0
        for c in range(n_classes):
            weight += post[j, c]
        if weight > 0.0 or not mapped:
            n_children += 1
            last = j
    n_map = last + 1
    n_dying = 0  # more than its children may die, but to count them all takes long
    for v in range(links[node, N_MAP]):
        if nodes.child_of_value[links[node, MAP] + v] >= 0:
            n_dying += 1
    if nodes.counts[N_NODES] - n_dying + n_children > settings.max_nodes:
        return DONE
    if not has_room(n_children, n_map, nodes, progress):
        return GROW
    if links[node, N_MAP] > 0:
        free_below(node, nodes)
    start = nodes.counts[N_MAPPED]
    nodes.counts[N_MAPPED] += n_map
    most = -1.0
    for j in range(n_map):
        weight = 0.0
        for c in range(n_classes):
            weight += post[j, c]
        if mapped and weight == 0.0:
            nodes.child_of_value[start + j] = -1
            continue
        child = take_row(node, links[node, DEPTH] + 1, nodes, fresh)
        nodes.child_of_value[start + j] = child
        for c in range(n_classes):
            nodes.weights[child, c] = post[j, c]
        if weight > most:
            most = weight
            links[node, DEFAULT] = child
    links[node, TEST] = feature
    links[node, MAP] = start
    links[node, N_MAP] = n_map
    nodes.test[node] = 0.0 if mapped else value
    return SPLIT
