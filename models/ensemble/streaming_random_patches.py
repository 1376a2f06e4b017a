"""Streaming random patches: each tree sees its own random features of its own random instances.

Gomes, Read and Bifet 2019. A member's subset of features is that of its tree: a background tree draws another one.
Warnings and drifts: models.ensemble.adaptation.watched_trees.
"""

from riparian.models.ensemble.adaptation.watched_trees import WatchedForest, n_chosen
from riparian.models.ensemble.chunks import Chunk
from riparian.models.ensemble.entries import STREAMING_RANDOM_PATCHES
from riparian.models.ensemble.regression import Patch
from riparian.models.hoeffding.subspace_tree import SubspaceTree


class StreamingRandomPatches(WatchedForest):
    """Streaming random patches (SRP) of Hoeffding trees.

    An instance's own weight multiplies the drawn one. Missing values and what teaches nothing: as HoeffdingTree. Memory
    is bounded by `n_models` trees and as many beside them, each by `max_nodes` and the schema.

    Notes
    -----
    The linear models of a regression tree know of its features only, too (models.ensemble.regression.Patch).
    In MOA members begin with different subsets where there are at most 20 features; here subsets are drawn one by one.
    Other defaults than MOA's: 70 % of the features, not 60 % (on nursery 5 of 8 are a point worse than 6), and what
    AdaptiveRandomForest documents of tests and ties.

    Examples
    --------
    >>> import numpy as np
    >>> from riparian.models.contract import Schema
    >>> learner = StreamingRandomPatches(Schema((0, 2), 2, "classification"), n_models=3, max_features="all")
    >>> x = np.random.default_rng(1).random((6000, 2)).round()
    >>> learner.learn_many(x, np.r_[x[:3000, 1], 1 - x[3000:, 1]])
    >>> learner.predict_many([[0.0, 1.0]]).argmax()
    np.int64(0)
    """

    entry = STREAMING_RANDOM_PATCHES

    def _draw(self, first: int, last: int, chunk: Chunk) -> None:
        if self._parameters["training_method"] == "subspaces":
            self._weights[first:last, : len(chunk.ordinal)] = chunk.program.w
        else:
            super()._draw(first, last, chunk)

    def _new_tree(self, seed: int) -> SubspaceTree | Patch:
        s = n_chosen(self._parameters, self.schema.n_features)
        if self._parameters["training_method"] == "resampling":
            s = self.schema.n_features
        if self.schema.task == "regression":
            return Patch(self.schema, seed, self._tree, s)
        return SubspaceTree(self.schema, seed=seed, n_chosen=s, per_leaf=False, **self._tree)
