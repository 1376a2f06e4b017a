"""Rules of the Hoeffding trees: those that only grow, and those whose subtrees come and go."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.contract import indices
from models.hoeffding import mutable_tree, nodes
from models.hoeffding.parameters import bins_of
from models.observers import lay_out
from models.restoring.arrays import Arrays
from models.restoring.baseline import known
from models.restoring.drift import error_windows

BY_NODE = ("links", "test", "weights", "leaf")


def check(a: Arrays, tree: Any) -> None:
    if isinstance(tree, mutable_tree.MutableTree):
        mutable(a, tree)
    else:
        growing(a, tree)


def growing(a: Arrays, tree: Any) -> None:
    """HoeffdingTree, and SubspaceTree: parents come before their children."""
    fresh = tree.state()
    counts, links = a.fields(fresh, "counts", "links", links=(None, 8))
    n = len(links)
    _, test, _, _ = a.fields(fresh, *BY_NODE, **_rows(fresh, n, *BY_NODE))
    stats, children = a.fields(fresh, "stats", "child_of_value", **_rows(fresh, None, "stats", "child_of_value"))
    a.require(n > 0, "links", "has no root")
    known(a, fresh, tree.schema)
    tested = links[:, nodes.TEST]
    leaf = tested < 0
    a.equal("counts", counts[:4], (n, len(stats), len(children), leaf.sum()), "counts")
    a.within("counts", counts[nodes.DEEPEST], 0, n, "depths")
    of, below = _mapped(a, links, children, tree.schema.n_values, test, nodes.TEST, nodes.MAP, nodes.N_MAP)
    two = np.flatnonzero(~leaf & (links[:, nodes.N_MAP] == 0))
    first = links[two, nodes.FIRST].astype(np.int64)
    a.within("links", first, 1, n - 2, "children")
    owner = np.concatenate([of, two, two])
    child = np.concatenate([below, first, first + 1])
    above = a.owners("links", owner, child, n, [0])
    _hang_together(a, links, above, ~leaf, nodes.PARENT, nodes.DEFAULT)
    depth = links[:, nodes.DEPTH].astype(np.int64)
    a.equal("links", depth[1:], depth[above[1:]] + 1, "depths")
    a.require(depth[0] == 0, "links", "has a root that is not at the top")
    a.require((above[1:] < np.arange(1, n)).all(), "links", "has children before their parents")
    block = links[:, nodes.BLOCK]
    a.require((block[~leaf] == -1).all(), "links", "has statistics of inner nodes")
    a.within("links", block[leaf], -1, len(stats) - 1, "rows of statistics")
    a.each_once("links", block[block >= 0], len(stats), "rows of statistics")
    n_bins = bins_of(tree.parameters())
    if n_bins:
        observing = np.flatnonzero(block >= 0)
        histograms(a, stats[block[observing]], _offsets(tree, observing, n), n_bins)


def _offsets(tree: Any, observing: NDArray[np.intp], n: int) -> NDArray[np.int64]:
    """Where the blocks of some nodes have the numbers of keys of their histograms, -1 for none: (nodes, features)."""
    layout, k = lay_out(tree.schema, bins_of(tree.parameters()))[0], tree.schema.n_outputs
    starts, numeric = layout.offset.astype(np.int64)[None], layout.n_values[None] == 0
    if hasattr(tree, "_n_chosen"):
        from models.draws import key
        from models.hoeffding.feature_subsets import draw_features, lay_out_subsets

        features = np.zeros((n if tree._per_leaf else 1, tree._n_chosen), np.int32)
        draw_features(key(tree.seed), 0, features, tree.schema.n_features)
        chosen = lay_out_subsets(
            tree.schema, bins_of(tree.parameters()), features[observing] if tree._per_leaf else features
        )
        starts, numeric = chosen.offset.astype(np.int64), chosen.n_values == 0
    return np.broadcast_to(np.where(numeric, starts + k, -1), (len(observing), starts.shape[1]))


def histograms(
    a: Arrays,
    blocks: NDArray[np.float64],
    at: NDArray[np.int64],
    n_bins: int,
    name: str = "stats",
    signed: bool = False,
) -> None:
    """The numbers of keys of histograms (models.histogram): a kernel goes as far as they say. And that what is not a
    key is a weight, which a table of logarithms is asked for; signed : it is not.

    at : (blocks or 1, features), columns of the numbers of keys, -1 for none.
    """
    wrong = ~(blocks >= 0.0) if not signed else np.zeros((0, 0), bool)
    for column in np.broadcast_to(at, (len(blocks), at.shape[1])).T:
        there = np.flatnonzero(column >= 0)
        a.whole(name, blocks[there, column[there]], 0, n_bins, "numbers of keys")
        if not signed:
            wrong[there[:, None], column[there, None] + 1 + np.arange(n_bins)] = False
    a.require(not wrong.any(), name, "has weights below 0")


def mutable(a: Arrays, tree: Any) -> None:
    """MutableTree: rows that died are used again, so children may stand anywhere."""
    fresh = tree.state()
    counts, links = a.fields(fresh, "counts", "links", links=(None, 7))
    n = len(links)
    by_row = (*BY_NODE, "stats")
    _, test, _, _, stats = a.fields(fresh, *by_row, **_rows(fresh, n, *by_row))
    (children,) = a.fields(fresh, "child_of_value", child_of_value=(None,))
    a.require(n > 0 and links[0, mutable_tree.TEST] != mutable_tree.DEAD, "links", "has no root")
    known(a, fresh, tree.schema)
    dead = links[:, mutable_tree.TEST] == mutable_tree.DEAD
    live = np.flatnonzero(~dead)
    inner = links[:, mutable_tree.TEST] >= 0
    a.equal(
        "counts",
        counts[[mutable_tree.N_NODES, mutable_tree.N_ROWS, mutable_tree.N_MAPPED]],
        (len(live), n, len(children)),
        "counts",
    )
    a.chain("links", int(counts[mutable_tree.FIRST_DEAD]), links[:, mutable_tree.PARENT], dead)
    of, below = _mapped(
        a, links, children, tree.schema.n_values, test, mutable_tree.TEST, mutable_tree.MAP, mutable_tree.N_MAP,
        least=mutable_tree.DEAD,
    )  # fmt: skip
    binary = tree.parameters()["binary_splits"]
    n_values = np.array(tree.schema.n_values)[links[inner, mutable_tree.TEST]]
    two = (n_values == 0) | binary
    a.require((links[inner, mutable_tree.N_MAP][two] == 2).all(), "links", "has tests with other than two children")
    a.whole("test", test[inner][two & (n_values > 0)], 0, n_values[two & (n_values > 0)] - 1, "values")
    missing = np.bincount(of, minlength=n)[inner] < links[inner, mutable_tree.N_MAP]
    a.require(not (missing & two).any(), "child_of_value", "lacks one of two children")
    alternate = links[:, mutable_tree.ALTERNATE].astype(np.int64)
    a.within("links", alternate[inner], -1, n - 1, "alternate trees")
    beside = np.flatnonzero(inner & (alternate >= 0))
    a.require((alternate[live[~inner[live]]] == -1).all(), "links", "has alternate trees of leaves")
    number = np.full(n, -1, np.int64)
    number[live] = np.arange(len(live))
    child = np.concatenate([below, alternate[beside]])
    owner = np.concatenate([of, beside])
    a.require(not dead[child].any() and not dead[owner].any(), "links", "has children that are dead")
    above = a.owners("links", number[owner], number[child], len(live), [0])
    above = np.where(above >= 0, live[above], -1)
    alive = links[live]
    a.equal("links", alive[:, mutable_tree.PARENT], above, "parents")
    beneath = np.zeros(n, np.int64)
    beneath[below] = 1
    depth = links[:, mutable_tree.DEPTH].astype(np.int64)
    a.equal("links", depth[live[1:]], depth[above[1:]] + beneath[live[1:]], "depths")
    a.require(depth[0] == 0, "links", "has a root that is not at the top")
    default = links[inner, mutable_tree.DEFAULT].astype(np.int64)
    a.within("links", default, 0, n - 1, "children")
    hangs = (links[default, mutable_tree.PARENT] == np.flatnonzero(inner)) & (beneath[default] > 0) & ~dead[default]
    a.require(hangs.all(), "links", "has a way for missing values that leads to no child")
    n_bins = bins_of(tree.parameters())
    if n_bins:
        layout = lay_out(tree.schema, n_bins)[0]
        at = np.where(layout.n_values == 0, layout.offset.astype(np.int64) + tree.schema.n_outputs, -1)
        histograms(a, stats, at[None], n_bins)
    if "windows" in fresh._fields:
        windows, random = a.fields(fresh, "windows", "random", windows=(n, fresh.windows.shape[1]))
        error_windows(a, "windows", windows)
        a.random("random", random)


def _rows(fresh: Any, n: int | None, *names: str) -> dict[str, tuple[int | None, ...]]:
    """Shapes with n rows, and the columns of a fresh state."""
    return {name: (n, *getattr(fresh, name).shape[1:]) for name in names}


def _mapped(
    a: Arrays,
    links: NDArray[np.int32],
    children: NDArray[np.int32],
    n_values: tuple[int, ...],
    test: NDArray[np.float64],
    tested: int,
    start: int,
    size: int,
    least: int = -1,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Owners and children of the links in child_of_value; the tests are of features that there are."""
    n, values = len(links), np.array(n_values, np.int64)
    feature = links[:, tested].astype(np.int64)
    a.within("links", feature, least, len(values) - 1, "features")
    inner = feature >= 0
    starts, sizes = links[:, start].astype(np.int64), links[:, size].astype(np.int64)
    a.require(not sizes[~inner].any(), "links", "has children of leaves")
    a.within("links", sizes, 0, len(children), "numbers of children")
    here = np.flatnonzero(sizes > 0)
    a.within("links", starts[here], 0, len(children) - sizes[here], "places of children")
    a.require(sizes.sum() <= len(children), "links", "has more children than there are")
    if least == -1:  # a map is a branch a value here, of others there is the first child
        a.require((values[feature[here]] > 0).all(), "links", "has a branch a value of a number")
        one = inner & (sizes == 0) & (values[feature] > 0)
        a.whole("test", test[one], 0, values[feature[one]] - 1, "values")
    places = indices(starts[here], sizes[here])
    child = children[places].astype(np.int64)
    a.within("child_of_value", child, -1, n - 1, "children")
    owner = np.repeat(here, sizes[here])
    return owner[child >= 0], child[child >= 0]


def _hang_together(
    a: Arrays, links: NDArray[np.int32], above: NDArray[np.int64], inner: NDArray[np.bool_], parent: int, default: int
) -> None:
    """PARENT is who has a node as a child, and missing values go to a child."""
    a.equal("links", links[:, parent], above, "parents")
    to = links[inner, default].astype(np.int64)
    a.within("links", to, 0, len(links) - 1, "children")
    a.require(
        (above[to] == np.flatnonzero(inner)).all(), "links", "has a way for missing values that leads to no child"
    )
