"""The loop of a Hoeffding tree over a program: one kernel call, compiled for leaves with Gaussians and with histograms.

A PREDICT finds its leaf and writes what majority class or naive Bayes predicts there. A LEARN finds its leaf (or opens
a branch for a new value), counts which of the two was right, observes, and lets the leaf try to split when its grace
period has ended. A tree that is watched, as members of ensembles are, first notes of each LEARN whether it would have
predicted the class. A label that comes right after its instance was predicted finds leaf and likeliest class there.
"""

from typing import Any, NamedTuple

import numpy as np

from riparian.models.contract import PREDICT
from riparian.models.hoeffding.feature_subsets import FeatureSubsets, gather, know, layout_at, name_test
from riparian.models.hoeffding.nodes import (
    BLOCK,
    EVALUATED,
    MC_CORRECT,
    N_LEAVES,
    N_NODES,
    NB_CORRECT,
    NEXT,
    SEEN,
    TEST,
    WAITING,
    HoeffdingNodes,
    route,
    route_known,
    try_branch,
)
from riparian.models.hoeffding.parameters import NB, NBA, HoeffdingSettings
from riparian.models.hoeffding.splitting.split import may_grow, rank_leaves, try_split
from riparian.models.kernels.frames import BOOLEAN, INTEGER, NUMBER, array_of, framed, put
from riparian.models.kernels.kernel import DONE, GROW, kernel
from riparian.models.observers.gaussians import (
    BlockLayout,
    Cache,
    SeenValues,
    heaviest,
    observe,
    write_joint,
    write_weights,
)
from riparian.models.observers.histogram_blocks import observe_bins, score_bins
from riparian.models.observers.likelihood import score_leaf


class TreeValues(NamedTuple):
    """What a kernel of a tree is called with each time: models.kernels.frames.

    progress : (5,) int64, see models.hoeffding.nodes; between programs, that of the beginning of one.
    joint, post, found : scratch.
    chosen : NO_SUBSETS where leaves look at all features.
    """

    progress: Any
    joint: Any
    post: Any
    found: Any
    nodes: Any
    known: Any
    cache: Any
    layout: Any
    settings: Any
    chosen: Any


@kernel
def _fill(words, values):
    """Mutates words."""
    put(words, values)


_numbers, _table, _integers = array_of(np.float64, 1), array_of(np.float64, 2), array_of(np.int64, 1)
_codes, _marks, _offsets = array_of(np.int32, 1), array_of(np.uint8, 1), array_of(np.uint64, 1)
_links, _rows_of_offsets = array_of(np.int32, 2), array_of(np.uint64, 2)
_subsets = FeatureSubsets(*(_links,) * 2, *(_rows_of_offsets,) * 3, _integers, _table, _integers)
new_frame, values_of = framed(
    TreeValues(
        progress=_integers,
        joint=_table,
        post=_table,
        found=_numbers,
        nodes=HoeffdingNodes(_links, _numbers, _table, _table, _table, _codes, _integers),
        known=SeenValues(_marks, _integers),
        cache=Cache(_table, _marks),
        layout=BlockLayout(_codes, _offsets, _offsets, _offsets, _integers),
        settings=HoeffdingSettings(*(NUMBER,) * 4, *(INTEGER,) * 5, BOOLEAN, *(INTEGER,) * 2),
        chosen=_subsets,
    ),
    _fill,
)


def _loop(*, binned: bool, watched: bool, subsets: bool = False) -> Any:
    """The loop over a program, for leaves with histograms or with Gaussians; whether it writes errors, and whether
    leaves look at some of the features only."""

    @kernel
    def run(op, row, y, w, slab, out, errors, frame):
        """Execute a program from progress[NEXT] on. Mutates out, errors, and what is in the frame but layouts and
        settings.

        errors : (n,) float64, or of any length where the tree is not watched. A LEARN of a class within the schema, of
        whatever weight, writes 1 if the tree would have predicted another one, or nothing, else 0.

        frame : the words of `new_frame` of a tree's TreeValues.

        GROW: the leaf progress[WAITING] has learned and now splits, but lacks room for its children: nothing of the
        split has happened; make room and call again. Or no leaf waits, and the next operation needs room for a branch.
        DONE: progress is that of a next program.
        O(depth + d n_outputs) an operation, a split attempt once in a grace period.
        """
        # Callees get the arrays they need, not the tuples: an argument list of 100 words costs 100 ns a call.
        values = values_of(frame)
        progress, joint, post, found = values.progress, values.joint, values.post, values.found
        nodes, known, cache, layout, settings = values.nodes, values.known, values.cache, values.layout, values.settings
        links, test, weights, leaf, stats, child_of_value, counts = nodes
        n_values = layout.n_values
        cached, fresh = cache
        n_classes = weights.shape[1]
        # What observers work on: the whole row, or the values that a leaf looks at, gathered into a row of their own.
        here = layout
        x = slab
        seen = known
        if subsets:
            chosen = values.chosen
            x = chosen.x
            seen = SeenValues(known.values, chosen.n_seen)
        if progress[WAITING] >= 0:
            node = progress[WAITING]
            if subsets:
                here = layout_at(chosen, node)
            if try_split(node, nodes, fresh, here, settings, post, found, progress) == GROW:
                return GROW
            if subsets:
                name_test(chosen, node, links)
            progress[WAITING] = -1
        # Where the last row was led, its leaf, and its naive Bayes class, while nothing was learned since.
        last_row = -1
        end = 0
        node = 0
        best = -1
        scored = False
        for i in range(progress[NEXT], len(op)):
            r = row[i]
            at = 0 if subsets else r
            predicting = op[i] == PREDICT
            learning = False
            if not predicting:
                if not (y[i] >= 0.0 and y[i] < n_classes):
                    continue
                learning = w[i] > 0.0 and w[i] < np.inf
                if not (watched or learning):
                    continue
            if r != last_row:
                end = route(links, test, child_of_value, n_values, slab, r, 0)
                node = end
                if links[end, TEST] >= 0:
                    node = route_known(links, test, child_of_value, n_values, slab, r, end)
                if subsets:
                    here = layout_at(chosen, node)
                    gather(chosen, node, known.n_seen, slab, r)
                last_row = r
                scored = False
            block = np.int64(links[node, BLOCK])
            # Whether the leaf predicts what naive Bayes predicts.
            bayes = block >= 0 and (
                settings.leaf_prediction == NB
                or (settings.leaf_prediction == NBA and not leaf[node, MC_CORRECT] > leaf[node, NB_CORRECT])
            )
            if not scored and (
                (bayes and (predicting or watched)) or (learning and block >= 0 and settings.leaf_prediction == NBA)
            ):
                scored = True
                if binned:
                    best = score_bins(stats[block], weights[node], seen.n_seen, here, x, at, joint[0])
                else:
                    best = score_leaf(stats, cached, fresh, block, weights, node, seen.n_seen, here, x, at, joint)
            if predicting:
                if not (bayes and best >= 0):
                    write_weights(weights[node], out, r)
                elif binned:
                    write_joint(joint[0], best, out, r)
                else:
                    write_weights(joint[0], out, r)
                continue
            c = int(y[i])
            majority = heaviest(weights[node])
            if watched:
                errors[i] = 0.0 if (best if bayes and best >= 0 else majority) == c else 1.0
                if not learning:
                    continue
            if (
                links[end, TEST] >= 0
                and counts[N_NODES] < settings.max_nodes
                and (settings.max_leaves < 0 or counts[N_LEAVES] < settings.max_leaves)
            ):
                if try_branch(end, int(slab[r, links[end, TEST]]), nodes, progress) == GROW:
                    progress[NEXT] = i
                    return GROW
                node = counts[N_NODES] - 1
                if settings.max_active_leaves >= 0:
                    rank_leaves(nodes, fresh, settings)
                block = links[node, BLOCK]
                best = majority = -1  # a leaf that knows nothing
                if subsets:
                    here = layout_at(chosen, node)
                    gather(chosen, node, known.n_seen, slab, r)
            last_row = -1
            if block >= 0 and settings.leaf_prediction == NBA:
                # Added, not jumped over: which of them is right is hard to foresee.
                leaf[node, MC_CORRECT] += w[i] if majority == c else 0.0
                leaf[node, NB_CORRECT] += w[i] if (best if best >= 0 else majority) == c else 0.0
            weights[node, c] += w[i]
            leaf[node, SEEN] += w[i]
            if block >= 0:
                if subsets and know(chosen, node, known):
                    fresh[:] = 0
                if binned:
                    observe_bins(stats[block], seen, here, n_classes, x, at, c, w[i])
                elif observe(
                    stats[block], cached[block], fresh[block] == 1, seen, here, n_classes, x, at, c, w[i],
                    weights[node, c],
                ):  # fmt: skip
                    fresh[:] = 0
            weight = leaf[node, SEEN]
            if weight - leaf[node, EVALUATED] >= settings.grace_period:
                leaf[node, EVALUATED] = weight
                if block < 0:
                    rank_leaves(nodes, fresh, settings)
                elif not may_grow(node, nodes, settings):
                    continue
                elif try_split(node, nodes, fresh, here, settings, post, found, progress) == GROW:
                    progress[WAITING] = node
                    progress[NEXT] = i + 1
                    return GROW
                elif subsets:
                    name_test(chosen, node, links)
        progress[NEXT] = 0
        return DONE

    return run


run_gaussian = _loop(binned=False, watched=False)
run_binned = _loop(binned=True, watched=False)
watch_gaussian = _loop(binned=False, watched=True)
watch_binned = _loop(binned=True, watched=True)
watch_gaussian_subsets = _loop(binned=False, watched=True, subsets=True)
watch_binned_subsets = _loop(binned=True, watched=True, subsets=True)
