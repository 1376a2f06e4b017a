"""The batch learners by name. What each takes stands in models/batch/entries.py, how it is fitted in fit.py."""

from riparian.models.batch import entries
from riparian.models.batch.learner import BatchLearner


class CART(BatchLearner):
    """One tree, pruned by its cost and complexity; the penalty a leaf is chosen by cross-validation where ccp_alpha is
    None. Tests are looked for at all midpoints.

    References
    ----------
    L. Breiman, J. Friedman, R. Olshen and C. Stone: Classification and regression trees. 1984, chapters 3 and 8.

    Examples
    --------
    >>> from riparian.models.contract import Schema
    >>> learner = CART(Schema((0,), 2, "classification"), refit_every=40, lag=0)
    >>> learner.learn_many([[i % 10] for i in range(40)], [i % 10 > 4 for i in range(40)])
    >>> learner.predict_many([[1.0], [8.0]]).argmax(axis=1)
    array([0, 1])
    """

    entry = entries.CART


class Bagging(BatchLearner):
    """Trees on bootstrap samples, whose class shares (or means) are averaged. Breiman 1996."""

    entry = entries.BAGGING


class RandomForest(BatchLearner):
    """Bagging of trees that try features drawn at each node. max_features "auto": the root of their number, for a
    regression a third. Breiman 2001."""

    entry = entries.RANDOM_FOREST


class AdaBoost(BatchLearner):
    """Trees that look at what those before got wrong: SAMME, for a regression AdaBoost.R2."""

    entry = entries.ADABOOST


class GradientBoosting(BatchLearner):
    """Trees on the gradients of the loss (logistic, or squared), a tree a class and round; with sample below 1 each on
    part of the rows: stochastic gradient boosting."""

    entry = entries.GRADIENT_BOOSTING


class XGBoost(BatchLearner):
    """Regularised gradient boosting with gradients and Hessians, by the library of that name; a tree a class and
    round. Missing values go where the loss is lower."""

    entry = entries.XGBOOST
