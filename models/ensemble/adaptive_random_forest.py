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

    Parameters
    ----------
    schema : Schema
        Task "classification" or "regression".
    seed : int
        Of the bootstrap and the subsets.
    n_models : int
        Members, >= 1.
    threads : int
        Threads that run members, >= 1; the results are the same. They pay where cores are idle, and programs have some
        hundred instances: see docs/ensembles.md.
    vote : {"weighted", "average", "majority"}
        The mean of the members' probabilities, weighted by each member's recent accuracy or not; one vote a member. Of
        values, weighted by the inverse of the recent error or not; their median.
    max_features : {"share", "sqrt", "all"}
        Features that a leaf looks at: `feature_share` of all, their square root and one more, or all; at least two.
    feature_share : float
        In (0, 1].
    rate : float
        Mean of the Poisson draws that weigh each label for each tree, > 0.
    drift_detection : bool
        Watch the trees. Without, none is ever replaced.
    background_trees : bool
        Trees begin to grow beside others at warnings. Without, they begin at drifts.
    warning_delta, drift_delta : float
        Confidence of ADWIN's cuts, in (0, 1].
    **tree
        Parameters of HoeffdingTree. For regression those that regression trees have, too: models.ensemble.regression.

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
