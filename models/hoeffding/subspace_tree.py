"""The Hoeffding tree as a member of forests: its leaves look at some of the features only."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats, Program, Schema
from riparian.models.hoeffding.entries import SUBSPACE_TREE
from riparian.models.hoeffding.feature_subsets import draw_features, lay_out_subsets, widest
from riparian.models.hoeffding.hoeffding_tree import UNWATCHED, HoeffdingTree
from riparian.models.hoeffding.loop import watch_binned_subsets, watch_gaussian_subsets
from riparian.models.hoeffding.nodes import BLOCK
from riparian.models.hoeffding.parameters import bins_of
from riparian.models.kernels.draws import key
from riparian.models.observers.gaussians import SeenValues, know_nothing, lay_out, transfer


class SubspaceTree(HoeffdingTree):
    """Hoeffding tree over random subsets of the features: one for each leaf, or one for the whole tree.

    A leaf observes the features of its subset, looks among them for its test, and its naive Bayes knows no other. A
    leaf keeps its subset for life. Inner nodes route by any feature.
    """

    entry = SUBSPACE_TREE

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        self._watch = watch_binned_subsets if bins_of(self._parameters) else watch_gaussian_subsets

    @property
    def _n_chosen(self) -> int:
        return int(self._parameters["n_chosen"] or self.schema.n_features)

    @property
    def _per_leaf(self) -> bool:
        return bool(self._parameters["per_leaf"])

    def _widths(self, schema: Schema) -> tuple[int, int]:
        return widest(schema, bins_of(self._parameters), self._n_chosen)

    def _prepare(self) -> None:
        super()._prepare()
        self._choose(np.zeros((0, self._n_chosen), np.int32))

    def _choose(self, known: NDArray[np.int32]) -> None:
        """Subsets for as many nodes as there is room for. known : (n, n_chosen), those of the first nodes."""
        features = np.zeros((len(self._nodes.links) if self._per_leaf else 1, self._n_chosen), np.int32)
        features[: len(known)] = known
        draw_features(key(self.seed), len(known), features, self.schema.n_features)
        self._chosen = lay_out_subsets(self.schema, bins_of(self._parameters), features)

    def _grow(self, n_nodes: int, n_blocks: int, n_mapped: int) -> None:
        super()._grow(n_nodes, n_blocks, n_mapped)
        if self._per_leaf and len(self._chosen.features) < len(self._nodes.links):
            self._choose(self._chosen.features)

    def run(self, program: Program, slab: Floats, out: Floats, errors: Floats = UNWATCHED) -> None:
        if errors is UNWATCHED:
            errors = np.zeros(len(program.op))
        self._run(self._watch, program, slab, out, errors)

    def features(self, node: int) -> list[int]:
        """What a node looks at, or did while it was a leaf."""
        chosen: list[int] = self._chosen.features[node if self._per_leaf else 0].tolist()
        return chosen

    def _transfer(self, schema: Schema) -> tuple[Floats, SeenValues]:
        n_bins = bins_of(self._parameters)
        no_blocks = np.zeros((0, lay_out(self.schema, n_bins)[1]))
        learned = transfer(no_blocks, self._known, self.schema, schema, n_bins)[1]
        stats = np.zeros((len(self._nodes.stats), self._widths(schema)[0]))
        for node, link in enumerate(self.state().links.tolist()):
            if link[BLOCK] < 0:
                continue
            old, new = (
                Schema(tuple(s.n_values[f] for f in self.features(node)), s.n_outputs, s.task)
                for s in (self.schema, schema)
            )
            block = transfer(self._nodes.stats[[link[BLOCK]]], know_nothing(old), old, new, n_bins)[0]
            stats[link[BLOCK], : block.shape[1]] = block[0]
        return stats, learned
