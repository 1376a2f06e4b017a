"""Soft trees of fixed depth: the tree ensemble layer (TEL)."""

from riparian.models.soft.base import SoftModel
from riparian.models.soft.entries import SOFT_TREE


class SoftTree(SoftModel):
    """The sum of soft trees of fixed depth, learned by gradient descent: one tree, or an ensemble.

    Gates are linear forms of all features through the smooth step; nothing is tested and nothing grows. The output is
    the softmax of the trees' sum (classification), or their sum in units of the target's running mean and deviation
    (regression). Features, missing values, labels and weights are taken as by the soft Hoeffding tree.

    Memory is that of the first moment: n_trees (2^(depth + 1) - 1) nodes, at most 2^18
    leaves.

    Weights begin as draws from U(-0.01, 0.01). A `depth` of 0 is a constant. Steps of Adam are shorter where a class is
    rare (models.soft.passes.backward).

    Notes
    -----
    With more than one tree it is the ensemble of soft trees that shrub ensembles were compared with ("SDT": Buschjäger,
    Hess and Morik: Shrub ensembles for online classification. AAAI 2022), with the smooth step for the sigmoid.

    Examples
    --------
    >>> import numpy as np
    >>> learner = SoftTree(Schema((0, 0), 2, "classification"), depth=3)
    >>> x = np.random.default_rng(1).random((5000, 2))
    >>> learner.learn_many(x, (x[:, 0] + x[:, 1] > 1.0).astype(float))
    >>> learner.predict_many(np.array([[0.2, 0.3], [0.9, 0.6]])).argmax(axis=1).tolist()
    [0, 1]
    """

    entry = SOFT_TREE
