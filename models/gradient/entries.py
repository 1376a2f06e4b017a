"""The registry's entries of stochastic gradient trees."""

from riparian.models.entry import CLASSIFICATION, MULTI_INSTANCE, REGRESSION, Entry, Parameter, choice
from riparian.models.gradient.presets import PRESETS, TUNED, by_preset


def _preset(name: str, kind: type, low: float | None = None, high: float | None = None, *, text: str) -> Parameter:
    """A parameter that is the preset's where it is left out."""
    return Parameter(name, kind, None, low, high, text=f"{text} ({by_preset(name)})")


def _choice(name: str, choices: tuple[str, ...], text: str) -> Parameter:
    return Parameter(name, str, None, choices=choices, text=f"{text} ({by_preset(name)})")


PARAMETERS = (
    Parameter("preset", str, TUNED, choices=tuple(PRESETS), text="what the parameters are that are left out"),
    choice("loss", "squared huber quantile poisson", "of a regression; a classification has cross-entropy"),
    Parameter("loss_threshold", float, 1.0, 1e-6, 1e6, text="huber: from here on linear, in deviations of the target"),
    Parameter("quantile", float, 0.5, 0.001, 0.999, text="the one that the quantile loss predicts"),
    choice(
        "outputs",
        "tree-a-class one-tree",
        "a tree for each class but the first, or one whose leaves hold a score for each",
    ),
    _preset("linear_rate", float, 0.0, 1.0, text="step of linear models in the leaves, 0 for constant leaves"),
    _preset("n_stages", int, 1, 1000, text="stages of a boosted committee"),
    _preset("shrinkage", float, 1e-6, 1.0, text="share of its score that a stage adds, if there are several"),
    _preset("poisson", bool, text="each stage learns an instance Poisson(1) times"),
    _preset("feature_share", float, 0.0, 1.0, text="share of the features that a stage looks at"),
    _preset("grace_period", int, 1, 1e9, text="weight a leaf sees between two tests"),
    _preset("delta", float, 1e-300, 1.0, text="p value below which a tree changes"),
    _preset("penalty", float, 0.0, 1e300, text="lambda: pulls the values of new leaves towards their parent's"),
    choice(
        "penalty_on",
        "sum mean",
        "what lambda is added to in a test: a leaf's sum of Hessians (the paper), or their mean (its code)",
    ),
    _preset("node_cost", float, 0.0, 1e300, text="gamma: reduction of the loss that each new leaf must bring"),
    _preset("n_bins", int, 2, 10_000, text="bins of a numeric feature"),
    _choice("binning", ("equal-width", "quantiles"), "where bins end"),
    _preset("warm_up", int, 1, 1_000_000, text="labels from which the first bins are made"),
    _preset("replay", bool, text="learn those labels as soon as there are bins"),
    _preset("rebin_period", int, 0, 1e9, text="labels until bins are made anew; 0: never"),
    _choice("leaf_update", ("every-instance", "tested"), "when the value of a leaf moves"),
    _preset("learning_rate", float, 0.0, 100.0, text="factor on the Newton step of each instance"),
    _preset("decay", float, 0.0, 1.0, text="factor by which a leaf's Hessians fade with each instance"),
    _preset("largest_step", float, 0.0, 1e300, text="bound on the step of an instance"),
    _preset("multiway", bool, text="nominal tests: a branch for each value, not one value against the rest"),
    _preset("paired", bool, text='a split is tested against "no split", not against no change'),
    Parameter("reset_delta", float, 0.0, 0.0, 1.0, text="of ADWIN, which resets stages whose errors rise; 0: none"),
    Parameter("max_nodes", int, None, 1, 100_000_000, text="bound: then nothing splits [as max_bytes allows]"),
    Parameter("max_bytes", int, 256_000_000, 100_000, 10**13, text="of all trees, as reckoned; sets max_nodes"),
    Parameter("max_depth", int, None, 0, 1_000_000, text="leaves at this depth do not split (root: 0)"),
    _preset("epochs", int, 1, 100_000, text="passes over a training set that is there as a whole"),
)

STOCHASTIC_GRADIENT_TREE = Entry(
    name="stochastic-gradient-tree",
    cls="riparian.models.gradient.stochastic_gradient_tree:StochasticGradientTree",
    bags="riparian.models.gradient.bag_gradient_tree:BagGradientTree",
    tasks=(CLASSIFICATION, REGRESSION, MULTI_INSTANCE),
    parameters=PARAMETERS,
    free=("max_nodes", "max_bytes", "max_depth"),
    paper="H. Gouk, B. Pfahringer and E. Frank: Stochastic gradient trees. ACML 2019.",
    text="Trees that change where a t test shows that the gradients of a loss allow it; also boosted.",
)


ENTRIES = (STOCHASTIC_GRADIENT_TREE,)
