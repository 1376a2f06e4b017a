"""The registry's entries of regression trees."""

from riparian.models.entry import REGRESSION, Entry, Parameter, choice

# Of all regression trees.
_REGRESSION_TREE = (
    Parameter("grace_period", int, 100, 1, 1e9, text="weight a leaf sees between two split attempts"),
    Parameter("delta", float, 0.01, 1e-300, 1.0, text="probability that a split differs from infinite data's"),
    Parameter("tie_threshold", float, 0.05, 0.0, None, text="Hoeffding bound below which ties are split"),
    choice(
        "leaf_prediction",
        "mean model adaptive",
        "mean, linear model, or in each leaf the one that erred less",
        "adaptive",
    ),
    Parameter("learning_rate", float, 0.1, 0.0, 1.0, text="first step of the linear models"),
    Parameter("learning_rate_decay", float, 0.001, 0.0, None, text="how fast it falls with the weight learned"),
    Parameter("error_fading", float, 0.995, 0.0, 1.0, text="factor by which errors that are compared fade"),
    Parameter("n_bins", int, 32, 4, 10_000, text="thresholds kept a numeric feature and leaf"),
    Parameter("min_branch_fraction", float, 0.01, 0.0, 0.5, text="both branches have more of the weight"),
    Parameter("max_nodes", int, None, 1, 100_000_000, text="then nothing splits any more [as many as 64 MB hold]"),
    Parameter("max_depth", int, None, 0, 1_000_000, text="leaves at this depth do not split (root: 0)"),
)
_FREE = ("max_nodes",)

# The member of forests, which stream files do not name.
SUBSPACE_TREE = Entry(
    name="subspace-regression-tree",
    cls="riparian.models.regression.subspace_tree:SubspaceRegressionTree",
    tasks=(REGRESSION,),
    parameters=(
        Parameter("n_features", int, None, 1, None, text="features that a leaf observes [all]"),
        *(p._replace(default=2000) if p.name == "max_nodes" else p for p in _REGRESSION_TREE),
    ),
    paper="H. M. Gomes, J. P. Barddal, L. E. B. Ferreira and A. Bifet: Adaptive random forests for data stream "
    "regression. ESANN 2018.",
    text="Hoeffding regression tree whose leaves observe random features.",
)

FIMT_DD = Entry(
    name="fimt-dd",
    cls="riparian.models.regression.fimt_dd:FimtDD",
    tasks=(REGRESSION,),
    free=_FREE,
    parameters=(
        *_REGRESSION_TREE,
        Parameter("drift_detection", bool, True, text="grow alternate trees where errors rise"),
        Parameter("drift_delta", float, 0.005, 0.0, None, text="rise of the error that is no drift, in 3 deviations"),
        Parameter("drift_threshold", float, 50.0, 0.0, None, text="cumulated rise that is a drift, in 3 deviations"),
    ),
    paper="E. Ikonomovska, J. Gama and S. Džeroski: Learning model trees from evolving data streams. Data Mining "
    "and Knowledge Discovery 23, 2011.",
    text="Regression tree with linear leaves; a part that errs more than before is grown anew beside itself.",
)
HOEFFDING_REGRESSION_TREE = Entry(
    name="hoeffding-regression-tree",
    cls="riparian.models.regression.hoeffding_regression_tree:HoeffdingRegressionTree",
    tasks=(REGRESSION,),
    free=_FREE,
    parameters=_REGRESSION_TREE,
    paper="E. Ikonomovska, J. Gama and S. Džeroski: Learning model trees from evolving data streams. Data Mining "
    "and Knowledge Discovery 23, 2011.",
    text="Regression tree with linear leaves for a target that does not drift: FIMT-DD without alternate trees.",
)
ORTO = Entry(
    name="orto",
    cls="riparian.models.regression.orto:Orto",
    tasks=(REGRESSION,),
    free=_FREE,
    parameters=(
        choice(
            "prediction",
            "average weighted best-path",
            "mean of the options, weighted by their errors or not, or the best option",
            "weighted",
        ),
        Parameter("keep_leaf", bool, True, text="the leaf that gets options stays one of them"),
        Parameter("max_options", int, 5, 1, 1_000, text="options of an option node at the root"),
        Parameter("option_decay", float, 0.9, 0.0, 1.0, text="factor on max_options for each level below"),
        Parameter("max_trees", int, 10, 1, 1_000, text="leaves that an instance reaches at most"),
        *_REGRESSION_TREE,
    ),
    paper="E. Ikonomovska, J. Gama, B. Ženko and S. Džeroski: Speeding-up Hoeffding-based regression trees with "
    "options. ICML 2011.",
    text="Regression tree that follows several tests at once where it cannot decide which is best.",
)


ENTRIES = (FIMT_DD, HOEFFDING_REGRESSION_TREE, ORTO)
