"""The soft Hoeffding tree (SoHoT)."""

from riparian.models.soft.base import SoftModel
from riparian.models.soft.entries import SOFT_HOEFFDING_TREE


class SoftHoeffdingTree(SoftModel):
    """A tree that grows like a Hoeffding tree, routes softly, and learns its weights by gradient descent.

    A nominal feature is tested for one value against the rest, and has one weight a value in a gate's linear form. A
    missing value (NaN), an infinite one and a code outside the schema are 0 for linear forms (the mean, or no value);
    they pass a split test by the share of the weight that passed when the leaf was split. A class has probability 0
    until it was learned. A label outside 0 .. n_outputs - 1 and a weight that is not positive and finite teach nothing;
    other weights scale the loss.

    Memory is bounded by `max_depth` and the schema: 2^(max_depth + 1) - 1 nodes of 4 n_outputs numbers, half as many
    gates of 3 numbers a numeric feature and nominal value, and statistics of 5 n_outputs numbers a numeric feature in
    leaves above that depth (regression: 130 a numeric feature, 4 a nominal value). Then nothing splits any more;
    weights go on learning.

    `alpha` 0 is nearly a Hoeffding tree, 1 a soft tree that grows. Steps of Adam are shorter where a class is rare
    (models.soft.passes.backward). With the default of `tie_threshold` the best test is taken up to 25 classes: what
    decides is `significance`, the level of a likelihood-ratio test, corrected for the number of tests tried
    (models.soft.growth).

    Notes
    -----
    The paper tunes alpha in .2 .. .4, gamma in .1 .. 1 and max_depth in 5 .. 7 by a pool; its code grows with delta
    1e-6, ties below .05 and a grace period of 600. So pendigits splits once in 11,000 instances;
    docs/evidence/learners/soft-trees.md compares the defaults.

    Regression follows the paper's Section 6: one output, splits that reduce the variance of the targets. Targets are
    learned in units of their running mean and deviation.

    References
    ----------
    K. Köbschall, L. Hartung and S. Kramer: Soft Hoeffding tree: a transparent and differentiable model on data streams.
    Discovery Science 2024.
    H. Hazimeh, N. Ponomareva, P. Mol, Z. Tan and R. Mazumder: The tree ensemble layer: differentiability meets
    conditional computation. ICML 2020.

    Examples
    --------
    >>> import numpy as np
    >>> learner = SoftHoeffdingTree(Schema((0, 0), 2, "classification"), grace_period=50)
    >>> x = np.random.default_rng(1).random((5000, 2))
    >>> learner.learn_many(x, (x[:, 0] + x[:, 1] > 1.0).astype(float))
    >>> learner.predict_many(np.array([[0.2, 0.3], [0.9, 0.6]])).argmax(axis=1).tolist()
    [0, 1]
    """

    entry = SOFT_HOEFFDING_TREE
