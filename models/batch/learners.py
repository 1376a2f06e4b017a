"""The batch learners by name: what each takes. How they are fitted stands in models/batch/fit.py."""

from models.batch.learner import WindowLearner
from models.contract import Schema


class CART(WindowLearner):
    """One tree, pruned by its cost and complexity; the penalty a leaf is chosen by cross-validation where ccp_alpha is
    None. Tests are looked for at all midpoints.

    References
    ----------
    L. Breiman, J. Friedman, R. Olshen and C. Stone: Classification and regression trees. 1984, chapters 3 and 8.

    Examples
    --------
    >>> learner = CART(Schema((0,), 2, "classification"), refit_every=40, lag=0)
    >>> learner.learn_many([[i % 10] for i in range(40)], [i % 10 > 4 for i in range(40)])
    >>> learner.predict_many([[1.0], [8.0]]).argmax(axis=1)
    array([0, 1])
    """

    name = "cart"

    def __init__(
        self,
        schema: Schema,
        *,
        seed: int = 0,
        ccp_alpha: float | None = None,
        max_depth: int | None = None,
        min_leaf: int = 1,
        window: int = 2000,
        refit_every: int = 500,
        lag: int | None = None,
        drift_delta: float = 0.0,
    ) -> None:
        own = {"ccp_alpha": ccp_alpha, "max_depth": max_depth, "min_leaf": min_leaf}
        super().__init__(
            schema, own, seed=seed, window=window, refit_every=refit_every, lag=lag, drift_delta=drift_delta
        )


class Bagging(WindowLearner):
    """Trees on bootstrap samples, whose class shares (or means) are averaged. Breiman 1996."""

    name = "bagging"

    def __init__(
        self,
        schema: Schema,
        *,
        seed: int = 0,
        n_trees: int = 50,
        sample: float = 1.0,
        max_depth: int | None = None,
        min_leaf: int = 1,
        window: int = 2000,
        refit_every: int = 500,
        lag: int | None = None,
        drift_delta: float = 0.0,
    ) -> None:
        own = {"n_trees": n_trees, "sample": sample, "max_depth": max_depth, "min_leaf": min_leaf}
        super().__init__(
            schema, own, seed=seed, window=window, refit_every=refit_every, lag=lag, drift_delta=drift_delta
        )


class RandomForest(WindowLearner):
    """Bagging of trees that try features drawn at each node. max_features "auto": the root of their number, for a
    regression a third. Breiman 2001."""

    name = "random-forest"

    def __init__(
        self,
        schema: Schema,
        *,
        seed: int = 0,
        n_trees: int = 50,
        max_features: str = "auto",
        max_depth: int | None = None,
        min_leaf: int = 1,
        window: int = 2000,
        refit_every: int = 500,
        lag: int | None = None,
        drift_delta: float = 0.0,
    ) -> None:
        own = {"n_trees": n_trees, "max_features": max_features, "max_depth": max_depth, "min_leaf": min_leaf}
        super().__init__(
            schema, own, seed=seed, window=window, refit_every=refit_every, lag=lag, drift_delta=drift_delta
        )


class AdaBoost(WindowLearner):
    """Trees that look at what those before got wrong: SAMME, for a regression AdaBoost.R2."""

    name = "adaboost"

    def __init__(
        self,
        schema: Schema,
        *,
        seed: int = 0,
        n_trees: int = 50,
        learning_rate: float = 1.0,
        max_depth: int = 3,
        min_leaf: int = 1,
        window: int = 2000,
        refit_every: int = 500,
        lag: int | None = None,
        drift_delta: float = 0.0,
    ) -> None:
        own = {"n_trees": n_trees, "learning_rate": learning_rate, "max_depth": max_depth, "min_leaf": min_leaf}
        super().__init__(
            schema, own, seed=seed, window=window, refit_every=refit_every, lag=lag, drift_delta=drift_delta
        )


class GradientBoosting(WindowLearner):
    """Trees on the gradients of the loss (logistic, or squared), a tree a class and round; with sample below 1 each on
    part of the rows: stochastic gradient boosting."""

    name = "gradient-boosting"

    def __init__(
        self,
        schema: Schema,
        *,
        seed: int = 0,
        n_trees: int = 100,
        learning_rate: float = 0.1,
        sample: float = 1.0,
        max_depth: int = 3,
        min_leaf: int = 1,
        window: int = 2000,
        refit_every: int = 500,
        lag: int | None = None,
        drift_delta: float = 0.0,
    ) -> None:
        own = {"n_trees": n_trees, "learning_rate": learning_rate, "sample": sample}
        own |= {"max_depth": max_depth, "min_leaf": min_leaf}
        super().__init__(
            schema, own, seed=seed, window=window, refit_every=refit_every, lag=lag, drift_delta=drift_delta
        )


class XGBoost(WindowLearner):
    """Regularised gradient boosting with gradients and Hessians, by the library of that name; a tree a class and
    round. Missing values go where the loss is lower."""

    name = "xgboost"

    def __init__(
        self,
        schema: Schema,
        *,
        seed: int = 0,
        n_trees: int = 100,
        learning_rate: float = 0.3,
        sample: float = 1.0,
        column_sample: float = 1.0,
        max_depth: int = 6,
        min_child_weight: float = 1.0,
        ridge: float = 1.0,
        min_gain: float = 0.0,
        window: int = 2000,
        refit_every: int = 500,
        lag: int | None = None,
        drift_delta: float = 0.0,
    ) -> None:
        own = {"n_trees": n_trees, "learning_rate": learning_rate, "sample": sample, "column_sample": column_sample}
        own |= {"max_depth": max_depth, "min_child_weight": min_child_weight, "ridge": ridge, "min_gain": min_gain}
        super().__init__(
            schema, own, seed=seed, window=window, refit_every=refit_every, lag=lag, drift_delta=drift_delta
        )
