"""The registry's entries of batch learners that are made anew of a window of the newest labels."""

from riparian.models.entry import CLASSIFICATION, REGRESSION, Entry, Parameter, choice

_WINDOW = (
    Parameter("window", int, 2000, 2, 10_000_000, text="newest labels that a model is made of"),
    Parameter("refit_every", int, 500, 1, 1_000_000_000, text="labels until the next model is begun (sooner at first)"),
    Parameter(
        "lag",
        int,
        None,
        0,
        None,
        text="labels from a fit's beginning to its place; none: refit_every, 0: the stream waits",
    ),
    Parameter(
        "drift_delta", float, 0.0, 0.0, 1.0, text="ADWIN's confidence; a rise of errors empties the window (0: off)"
    ),
)
_TASKS = (CLASSIFICATION, REGRESSION)
_MIN_LEAF = Parameter("min_leaf", int, 1, 1, 1_000_000, text="labels in a leaf")
_SKLEARN, _XGBOOST = "riparian.models.batch.check:sklearn_model", "riparian.models.batch.check:xgboost_model"


def _trees(default: int) -> Parameter:
    return Parameter("n_trees", int, default, 1, 10_000, text="trees (boosting of three classes or more: a class)")


def _rate(default: float) -> Parameter:
    return Parameter("learning_rate", float, default, 1e-6, 10.0, text="how far a tree counts")


def _sample(text: str) -> Parameter:
    return Parameter("sample", float, 1.0, 1e-3, 1.0, text=text)


def _depth(default: int | None) -> Parameter:
    return Parameter("max_depth", int, default, 1, 1_000_000, text="of a tree")


CART = Entry(
    name="cart",
    cls="riparian.models.batch.learners:CART",
    tasks=_TASKS,
    parameters=(
        Parameter("ccp_alpha", float, None, 0.0, None, text="penalty a leaf; none: chosen by cross-validation"),
        _depth(None),
        _MIN_LEAF,
        *_WINDOW,
    ),
    paper="L. Breiman, J. Friedman, R. Olshen and C. Stone: Classification and regression trees. Wadsworth, 1984.",
    text="One tree of the newest labels, pruned by cost and complexity; made anew in another process.",
    check=_SKLEARN,
)
BAGGING = Entry(
    name="bagging",
    cls="riparian.models.batch.learners:Bagging",
    tasks=_TASKS,
    parameters=(
        _trees(50),
        _sample("rows of each tree's sample, as a share of the window"),
        _depth(None),
        _MIN_LEAF,
        *_WINDOW,
    ),
    paper="L. Breiman: Bagging predictors. Machine Learning 24, 1996.",
    text="Trees on bootstrap samples of the newest labels; made anew in another process.",
    check=_SKLEARN,
)
RANDOM_FOREST = Entry(
    name="random-forest",
    cls="riparian.models.batch.learners:RandomForest",
    tasks=_TASKS,
    parameters=(
        _trees(50),
        choice("max_features", "auto sqrt log2 third all", "features tried a node; auto: sqrt, of a regression third"),
        _depth(None),
        _MIN_LEAF,
        *_WINDOW,
    ),
    paper="L. Breiman: Random forests. Machine Learning 45, 2001.",
    text="A random forest of the newest labels; made anew in another process.",
    check=_SKLEARN,
)
ADABOOST = Entry(
    name="adaboost",
    cls="riparian.models.batch.learners:AdaBoost",
    tasks=_TASKS,
    parameters=(_trees(50), _rate(1.0), _depth(3), _MIN_LEAF, *_WINDOW),
    paper="J. Zhu, H. Zou, S. Rosset and T. Hastie: Multi-class AdaBoost. Statistics and Its Interface 2, 2009; "
    "H. Drucker: Improving regressors using boosting techniques. ICML 1997.",
    text="Boosted trees of the newest labels, each after the mistakes before; made anew in another process.",
    check=_SKLEARN,
)
GRADIENT_BOOSTING = Entry(
    name="gradient-boosting",
    cls="riparian.models.batch.learners:GradientBoosting",
    tasks=_TASKS,
    parameters=(
        _trees(100),
        _rate(0.1),
        _sample("rows of each tree, as a share of the window; below 1 it is stochastic gradient boosting"),
        _depth(3),
        _MIN_LEAF,
        *_WINDOW,
    ),
    paper="J. Friedman: Greedy function approximation. Annals of Statistics 29, 2001; Stochastic gradient "
    "boosting. Computational Statistics & Data Analysis 38, 2002.",
    text="Trees on gradients of the loss, of the newest labels; made anew in another process.",
    check=_SKLEARN,
)
XGBOOST = Entry(
    name="xgboost",
    cls="riparian.models.batch.learners:XGBoost",
    tasks=_TASKS,
    parameters=(
        _trees(100),
        _rate(0.3),
        _sample("rows of each tree, as a share of the window"),
        Parameter("column_sample", float, 1.0, 1e-3, 1.0, text="columns of each tree, as a share of all"),
        _depth(6),
        Parameter("min_child_weight", float, 1.0, 0.0, 1e12, text="sum of Hessians in a leaf"),
        Parameter("ridge", float, 1.0, 0.0, 1e12, text="penalty on squared leaf values (lambda)"),
        Parameter("min_gain", float, 0.0, 0.0, 1e12, text="gain that a test must have (gamma)"),
        *_WINDOW,
    ),
    paper="T. Chen and C. Guestrin: XGBoost: a scalable tree boosting system. KDD 2016.",
    text="Regularised gradient boosting of the newest labels; made anew in another process.",
    check=_XGBOOST,
)


ENTRIES = (CART, BAGGING, RANDOM_FOREST, ADABOOST, GRADIENT_BOOSTING, XGBOOST)
