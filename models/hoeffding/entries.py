"""The registry's entries of Hoeffding trees for classification."""

from riparian.models.entry import CLASSIFICATION, Entry, Parameter, choice

_GRACE_PERIOD = Parameter("grace_period", int, 200, 1, 1e9, text="weight a leaf sees between two split attempts")
_HOEFFDING = (
    Parameter("delta", float, 1e-3, 1e-300, 1.0, text="probability that a split differs from infinite data's"),
    Parameter("tie_threshold", float, 0.05, 0.0, None, text="Hoeffding bound below which ties are split"),
    choice("split_criterion", "info-gain gini hellinger", "merit of a test"),
    choice(
        "leaf_prediction",
        "mc nb nba",
        "majority class, naive Bayes, or in each leaf the one that was correct more often",
        "nba",
    ),
    choice("observer", "gaussian histogram", "what leaves keep of numeric features"),
    Parameter("n_split_points", int, 10, 1, 10_000, text="thresholds tried a numeric feature of Gaussians"),
    Parameter("n_bins", int, 16, 3, 10_000, text="keys of a histogram, each tried as threshold"),
    Parameter("binary_splits", bool, False, text="nominal tests: one value against the rest"),
    Parameter("min_branch_fraction", float, 0.01, 0.0, 0.5, text="two branches have more of the weight"),
    Parameter("max_nodes", int, 10_000, 1, 100_000_000, text="bound on memory: then nothing splits any more"),
    Parameter("max_depth", int, None, 0, 1_000_000, text="leaves at this depth do not split (root: 0)"),
)

_BOUNDS = (
    Parameter("max_leaves", int, None, 1, 100_000_000, text="bound on the leaves: then nothing splits any more"),
    Parameter("max_active_leaves", int, None, 1, 100_000_000, text="leaves with statistics; the poorest lose theirs"),
)
HOEFFDING_TREE = Entry(
    name="hoeffding-tree",
    cls="riparian.models.hoeffding.hoeffding_tree:HoeffdingTree",
    tasks=(CLASSIFICATION,),
    parameters=(_GRACE_PERIOD, *_HOEFFDING, *_BOUNDS),
    paper="P. Domingos and G. Hulten: Mining high-speed data streams. KDD 2000.",
    text="One pass, one tree; leaves split when the Hoeffding bound separates the two best attributes.",
)

# The member of forests, which stream files do not name.
SUBSPACE_TREE = HOEFFDING_TREE._replace(
    name="subspace-tree",
    cls="riparian.models.hoeffding.subspace_tree:SubspaceTree",
    parameters=(
        Parameter("n_chosen", int, None, 1, None, text="features of a subset [all]"),
        Parameter("per_leaf", bool, True, text="a subset for each leaf, or one for the tree"),
        *HOEFFDING_TREE.parameters,
    ),
    text="Hoeffding tree over random subsets of the features.",
)

HOEFFDING_ADAPTIVE_TREE = Entry(
    name="hoeffding-adaptive-tree",
    cls="riparian.models.hoeffding.hoeffding_adaptive_tree:HoeffdingAdaptiveTree",
    tasks=(CLASSIFICATION,),
    parameters=(
        _GRACE_PERIOD,
        Parameter("alternate_trees", bool, True, text="alternate trees where errors rise; without: Hoeffding tree"),
        Parameter("drift_delta", float, 0.002, 1e-300, 1.0, text="confidence of ADWIN that errors have risen"),
        Parameter("switch_delta", float, 0.05, 1e-300, 1.0, text="probability that a comparison of trees is wrong"),
        Parameter("least_window", int, 300, 1, 100_000_000, text="errors of both trees before they are compared"),
        Parameter("early_prediction", bool, True, text="an alternate tree predicts once it errs less"),
        Parameter("bootstrap", bool, False, text="weights drawn from Poisson(1), at least 1"),
        *(parameter for parameter in _HOEFFDING if parameter.name not in ("observer", "n_bins")),
    ),
    paper="A. Bifet and R. Gavaldà: Adaptive learning from evolving data streams. IDA 2009.",
    text="Hoeffding tree whose parts are grown anew beside themselves where ADWIN finds that errors rise.",
)
EXTREMELY_FAST_DECISION_TREE = Entry(
    name="extremely-fast-decision-tree",
    cls="riparian.models.hoeffding.extremely_fast_decision_tree:ExtremelyFastDecisionTree",
    tasks=(CLASSIFICATION,),
    parameters=(
        _GRACE_PERIOD,
        Parameter("reevaluation_period", int, 2000, 1, 1e9, text="weight a test sees until it is evaluated again"),
        *_HOEFFDING,
    ),
    paper="C. Manapragada, G. I. Webb and M. Salehi: Extremely fast decision tree. KDD 2018.",
    text="Splits as soon as a test is better than none, and replaces a test by a better one later.",
)


ENTRIES = (HOEFFDING_TREE, HOEFFDING_ADAPTIVE_TREE, EXTREMELY_FAST_DECISION_TREE)
