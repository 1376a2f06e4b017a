"""What naive Bayes in the leaves of a tree adds to the contributions of features.

A leaf begins with the shares of its classes, which are its value (models.contributions) and the prior of its naive
Bayes: so the way from there to what it says is that of the logarithms of likelihoods (models.log_likelihood), and the
change of a probability is shared out as that of scores is (models.score_contributions). What is left is what a class
loses that the leaf inherited and has not seen yet.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.contract import Floats
from models.contributions import Sums, no_sums
from models.hoeffding.feature_subsets import NO_SUBSETS, FeatureSubsets, gather, layout_at
from models.hoeffding.nodes import FIRST, MAP, MC_CORRECT, N_MAP, NB_CORRECT, TEST
from models.hoeffding.parameters import MC, NBA, Settings
from models.kernel import kernel
from models.log_likelihood import add_logarithms
from models.score_contributions import to_probability


class Told(NamedTuple):
    """What a tree that only grows keeps for reasons: the sums of its nodes, what its leaves look at, and scratch of
    `share_out`."""

    sums: Sums
    looks: FeatureSubsets
    added: Floats
    before: Floats
    after: Floats
    part: Floats


def nothing_told(k: int) -> Told:
    """Before anybody asks."""
    none = np.zeros(0)
    return Told(no_sums(k), NO_SUBSETS, np.zeros((0, k)), none, none, none)


def scratch_to_tell(sums: Sums, looks: FeatureSubsets) -> Told:
    s, k = looks.features.shape[1], sums.sums.shape[1]
    return Told(sums, looks, np.zeros((s + 2, k)), np.zeros(k), np.zeros(k), np.zeros(s + 2))


@kernel
def add_up_stale(links, child_of_value, weights, stale, sums, order):
    """Add up the stale nodes of a tree that only grows, each from its children. Mutates stale, sums, order. O(stale
    nodes children k)."""
    n = 0
    if stale[0] != 0:
        order[0] = 0
        n = 1
    at = 0
    while at < n:
        node = order[at]
        at += 1
        if links[node, TEST] < 0:
            continue
        n_map = links[node, N_MAP]
        for j in range(n_map if n_map > 0 else 2):
            child = child_of_value[links[node, MAP] + j] if n_map > 0 else np.int32(links[node, FIRST] + j)
            if child >= 0 and stale[child] != 0:
                order[n] = child
                n += 1
    for at in range(n - 1, -1, -1):
        node = order[at]
        stale[node] = 0
        leaf = links[node, TEST] < 0
        for c in range(sums.shape[1]):
            sums[node, c] = weights[node, c] if leaf else 0.0
        if leaf:
            continue
        n_map = links[node, N_MAP]
        for j in range(n_map if n_map > 0 else 2):
            child = child_of_value[links[node, MAP] + j] if n_map > 0 else np.int32(links[node, FIRST] + j)
            if child >= 0:
                for c in range(sums.shape[1]):
                    sums[node, c] += sums[child, c]


def add_naive_bayes(
    settings: Settings,
    leaves: NDArray[np.int64],
    blocks: NDArray[np.int64],
    leaf: Floats,
    weights: Floats,
    stats: Floats,
    n_seen: NDArray[np.int64],
    chosen: FeatureSubsets,
    slab: Floats,
    rows: NDArray[np.int32],
    about: NDArray[np.int64],
    out: Floats,
) -> None:
    """Add it where leaves predict by naive Bayes. leaves, blocks : (n,), of each row, and the leaf's row in `stats`, -1
    where it has none. leaf, weights : by leaves. chosen : what leaves look at. Mutates out : (n, d + 1)."""
    if settings.leaf_prediction == MC:
        return
    if settings.leaf_prediction == NBA:
        blocks = np.where(leaf[leaves, MC_CORRECT] > leaf[leaves, NB_CORRECT], -1, blocks)
    s, k = chosen.features.shape[1], weights.shape[1]
    share_out(
        leaves, blocks, weights, stats, n_seen, chosen, slab, rows, about,
        np.zeros((s + 2, k)), np.zeros(k), np.zeros(k), np.zeros(s + 2), out,
    )  # fmt: skip


@kernel
def share_out(
    leaves, blocks, weights, stats, n_seen, chosen, slab, rows, about, added, before, after, part, out
):  # fmt: skip
    """Add to `out` what naive Bayes in a leaf makes of each feature, where blocks[i] >= 0.

    added : (s + 2, classes), before, after : (classes,), part : (s + 2,), scratch, s features that a leaf looks at. A
    row that is asked about class after class is looked at once. Mutates those, scratch in `chosen`, and out.
    O(n s (log n_bins + classes)).
    """
    says = False
    for i in range(len(rows)):
        if blocks[i] < 0:
            continue
        leaf = leaves[i]
        if i == 0 or rows[i] != rows[i - 1]:
            gather(chosen, leaf, n_seen, slab, rows[i])
            here = layout_at(chosen, leaf)
            says = add_logarithms(stats[blocks[i]], weights[leaf], chosen.n_seen, here, chosen.x, 0, added)
        if not says:
            continue
        part[:] = 0.0
        to_probability(added, weights[leaf], about[i], before, after, part)
        row = leaf if len(chosen.features) > 1 else 0
        for j in range(len(part) - 2):
            out[i, chosen.features[row, j]] += part[j]
