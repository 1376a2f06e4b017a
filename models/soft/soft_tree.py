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

    Parameters
    ----------
    schema : Schema
    seed : int
        Of the initial weights, drawn from U(-0.01, 0.01).
    depth : int
        Of all leaves, 0 .. 12; 0 is a constant.
    n_trees : int
        Trees, 1 .. 1000.
    gamma : float
        Width of the smooth step, > 0.
    learning_rate, beta1, beta2 : float
        Of Adam; steps are shorter where a class is rare (models.soft.passes.backward).

    Notes
    -----
    With more than one tree it is the ensemble of soft trees that shrub ensembles were compared with ("SDT": Buschjäger,
    Hess and Morik: Shrub ensembles for online classification. AAAI 2022), with the smooth step for the sigmoid.

    References
    ----------
    H. Hazimeh, N. Ponomareva, P. Mol, Z. Tan and R. Mazumder: The tree ensemble layer: differentiability meets
    conditional computation. ICML 2020.

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
