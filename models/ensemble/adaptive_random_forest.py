"""The adaptive random forest: Hoeffding trees over random features, each replaced by a better one after drifts.

Gomes et al. 2017; for regression Gomes, Barddal, Ferreira and Bifet 2018, whose trees are FIMT-DD's
(models.regression.subspace_tree). Diversity comes from an online bootstrap of rate 6 (leveraging bagging's) and from
random subsets of the features, one a leaf (models.hoeffding.subspace_tree); warnings and drifts:
models.ensemble.adaptation.watched_trees.
"""

from riparian.models.ensemble.adaptation.watched_trees import WatchedForest, n_chosen
from riparian.models.ensemble.entries import ADAPTIVE_RANDOM_FOREST
from riparian.models.ensemble.regression import regression_tree
from riparian.models.hoeffding.subspace_tree import SubspaceTree
from riparian.models.regression.subspace_tree import SubspaceRegressionTree


class AdaptiveRandomForest(WatchedForest):
    """Adaptive random forest (ARF) of Hoeffding trees.

    An instance's own weight multiplies the drawn one. Missing values and what teaches nothing: as HoeffdingTree. Memory
    is bounded by `n_models` trees and as many beside them, each by `max_nodes` and the schema.

    A member's vote is weighted by its recent accuracy, that for a value by the inverse of its recent error. "sqrt" is
    the root of the number of features and one more. Threads pay where programs have some hundred instances:
    docs/evidence/learners/ensembles.md. Trees of a regression take those parameters that regression trees have, too:
    models.ensemble.regression.

    Notes
    -----
    MOA draws 60 % of the features for a leaf, but its leaves look at one less: the default here is half of them.
    Background trees learn by the bootstrap, as in the paper's algorithm 1; in MOA they learn each label once. Other
    defaults than MOA's: nominal features are tested for one value against the rest (1.2 points on nursery and splice);
    a leaf tries to split after a weight of 100, where MOA's 50 is eight labels (1.3 times as fast, no worse); ties are
    split below 0.1 (1.5 points on pendigits).

    References
    ----------
    H. M. Gomes et al.: Adaptive random forests for evolving data stream classification. Machine Learning 106, 2017.
    H. M. Gomes, J. P. Barddal, L. E. B. Ferreira and A. Bifet: Adaptive random forests for data stream regression.
    ESANN 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from riparian.models.contract import Schema
    >>> learner = AdaptiveRandomForest(Schema((0, 2), 2, "classification"), n_models=3)
    >>> x = np.random.default_rng(1).random((6000, 2)).round()
    >>> learner.learn_many(x, np.r_[x[:3000, 1], 1 - x[3000:, 1]])
    >>> learner.predict_many([[0.0, 1.0]]).argmax()
    np.int64(0)
    """

    entry = ADAPTIVE_RANDOM_FOREST

    def _new_tree(self, seed: int) -> SubspaceTree | SubspaceRegressionTree:
        s = n_chosen(self._parameters, self.schema.n_features)
        if self.schema.task == "regression":
            return regression_tree(self.schema, seed, self._tree, s)
        return SubspaceTree(self.schema, seed=seed, n_chosen=s, **self._tree)
