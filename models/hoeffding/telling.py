"""What features add to the predictions of a tree that only grows, as kernels over its frame: a call takes longer than
what there is to do for one instance."""

from models.contributions import climb
from models.hoeffding.contributions import add_up_stale, share_out
from models.hoeffding.loop import values_of
from models.hoeffding.nodes import BLOCK, MC_CORRECT, NB_CORRECT, PARENT, TEST, route, route_known
from models.hoeffding.parameters import MC, NBA
from models.kernel import kernel


@kernel
def tell_way(frame, slab, rows, about, places, out):
    """Write what the tests on the way to the leaf add, and in the last column the value of the root.

    places : (2, n) int64, the leaf of each row, and its block. Mutates what the frame keeps for reasons, places and
    out : (n, d + 1). O(n depth k), and stale nodes.
    """
    values = values_of(frame)
    links, test, weights, _, _, child_of_value, _ = values.nodes
    stale, sums, order = values.told.sums
    n_values = values.layout.n_values
    add_up_stale(links, child_of_value, weights, stale, sums, order)
    for i in range(len(rows)):
        if i > 0 and rows[i] == rows[i - 1]:
            places[0, i] = places[0, i - 1]
        else:
            end = route(links, test, child_of_value, n_values, slab, rows[i], 0)
            if links[end, TEST] >= 0:
                end = route_known(links, test, child_of_value, n_values, slab, rows[i], end)
            places[0, i] = end
        places[1, i] = links[places[0, i], BLOCK]
    climb(links, TEST, PARENT, -1, sums, places[0], about, out)


@kernel
def tell_bayes(frame, slab, rows, about, places, out):
    """Add what naive Bayes in the leaves makes of each feature. places : of tell_way. Mutates scratch in the frame,
    places and out. O(n s (log n_bins + classes))."""
    values = values_of(frame)
    nodes, told = values.nodes, values.told
    if values.settings.leaf_prediction == NBA:
        for i in range(len(rows)):
            leaf = places[0, i]
            if nodes.leaf[leaf, MC_CORRECT] > nodes.leaf[leaf, NB_CORRECT]:
                places[1, i] = -1
    share_out(
        places[0], places[1], nodes.weights, nodes.stats, values.known.n_seen, told.looks, slab, rows, about,
        told.added, told.before, told.after, told.part, out,
    )  # fmt: skip


@kernel
def tell_every(frames, slab, rows, about, places, found):
    """All that the trees of an ensemble say, one after the other. frames : (M, words). Mutates what the frames keep,
    places and found : (M, n, d + 1)."""
    for m in range(len(frames)):
        tell_way(frames[m], slab, rows, about, places, found[m])
        if values_of(frames[m]).settings.leaf_prediction != MC:
            tell_bayes(frames[m], slab, rows, about, places, found[m])
