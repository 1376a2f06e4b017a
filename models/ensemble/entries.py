"""The registry's entries of ensembles over incremental trees."""

from typing import Any

from riparian.models.entry import CLASSIFICATION, REGRESSION, Entry, Parameter, choice
from riparian.models.hoeffding import entries as hoeffding

N_MODELS = Parameter("n_models", int, 10, 1, 1000, text="members")
VOTE = choice(
    "vote",
    "average weighted majority",
    "mean of the members' predictions, weighted by their recent quality or not; one vote a member (the median)",
)
RATE = Parameter("rate", float, 6.0, 1e-3, 100.0, text="mean of the Poisson draws that weigh labels")
# Of the trees, under their own names.
TREE = next(entry.parameters for entry in hoeffding.ENTRIES if entry.name == "hoeffding-tree")
FREE = ("n_models",)  # members come and go


def _watched(warning_delta: float, drift_delta: float, share: float, **tree: Any) -> tuple[Parameter, ...]:
    """Of forests whose trees are watched. tree : other defaults of the trees than a single one has."""
    return (
        N_MODELS,
        VOTE._replace(default="weighted"),
        choice("max_features", "share sqrt all", "features looked at, at least two"),
        Parameter("feature_share", float, share, 1e-9, 1.0, text="of all features, where max_features is share"),
        RATE,
        Parameter("drift_detection", bool, True, text="watch the trees' errors; without, none is replaced"),
        Parameter("background_trees", bool, True, text="trees begin beside others at warnings; without, at drifts"),
        Parameter("warning_delta", float, warning_delta, 1e-300, 1.0, text="confidence of ADWIN that errors rise"),
        Parameter("drift_delta", float, drift_delta, 1e-300, 1.0, text="the same, to replace a tree"),
        *(p._replace(default=tree.get(p.name, p.default)) for p in TREE),
    )


ONLINE_BAGGING = Entry(
    name="online-bagging",
    cls="riparian.models.ensemble.online_bagging:OnlineBagging",
    tasks=(CLASSIFICATION, REGRESSION),
    parameters=(N_MODELS, VOTE, *TREE),
    free=FREE,
    paper="N. C. Oza and S. Russell: Online bagging and boosting. AISTATS 2001.",
    text="Hoeffding trees, each over an online bootstrap sample; the mean of their predictions.",
)
ADAPTIVE_RANDOM_FOREST = Entry(
    name="adaptive-random-forest",
    cls="riparian.models.ensemble.adaptive_random_forest:AdaptiveRandomForest",
    tasks=(CLASSIFICATION, REGRESSION),
    parameters=_watched(
        0.01, 0.001, 0.5, grace_period=100, delta=0.01, tie_threshold=0.1, binary_splits=True, max_nodes=2000
    ),
    free=FREE,
    paper="H. M. Gomes et al.: Adaptive random forests for evolving data stream classification. Machine Learning "
    "106, 2017; for data stream regression: ESANN 2018.",
    text="Bootstrapped Hoeffding trees whose leaves look at random features; after a drift the better of two.",
)
STREAMING_RANDOM_PATCHES = Entry(
    name="streaming-random-patches",
    cls="riparian.models.ensemble.streaming_random_patches:StreamingRandomPatches",
    tasks=(CLASSIFICATION, REGRESSION),
    parameters=(
        choice("training_method", "patches subspaces resampling", "random features and a bootstrap, or one of them"),
        *_watched(1e-4, 1e-5, 0.7, grace_period=100, delta=0.01, tie_threshold=0.1, binary_splits=True, max_nodes=2000),
    ),
    free=FREE,
    paper="H. M. Gomes, J. Read and A. Bifet: Streaming random patches for evolving data stream classification. "
    "ICDM 2019.",
    text="Hoeffding trees, each over its own random features and bootstrap; after a drift the better of two.",
)
LEVERAGING_BAGGING = Entry(
    name="leveraging-bagging",
    cls="riparian.models.ensemble.leveraging_bagging:LeveragingBagging",
    tasks=(CLASSIFICATION,),
    parameters=(
        N_MODELS,
        VOTE,
        RATE,
        Parameter("drift_delta", float, 0.002, 1e-300, 1.0, text="confidence of ADWIN that errors have risen"),
        *TREE,
    ),
    free=FREE,
    paper="A. Bifet, G. Holmes and B. Pfahringer: Leveraging bagging for evolving data streams. ECML PKDD 2010.",
    text="Online bagging with heavier weights; where ADWIN finds that errors rise, the worst tree begins anew.",
)
SMOOTH_BOOST = Entry(
    name="smooth-boost",
    cls="riparian.models.ensemble.smooth_boost:SmoothBoost",
    tasks=(CLASSIFICATION,),
    parameters=(
        N_MODELS,
        VOTE,
        Parameter("gamma", float, 0.1, 0.0, 0.999, text="advantage over guessing that a tree is trusted to have"),
        *TREE,
    ),
    free=FREE,
    paper="R. A. Servedio: Smooth boosting and learning with malicious noise. Journal of Machine Learning Research "
    "4, 2003.",
    text="Hoeffding trees in a chain; a tree learns with less weight what those before it got right.",
)
ONLINE_BOOSTING = Entry(
    name="online-boosting",
    cls="riparian.models.ensemble.online_boosting:OnlineBoosting",
    tasks=(CLASSIFICATION,),
    parameters=(
        N_MODELS,
        Parameter("poisson", bool, True, text="a tree learns a label as often as a draw gives, not with its weight"),
        *TREE,
    ),
    free=FREE,
    paper="N. C. Oza and S. Russell: Online bagging and boosting. AISTATS 2001.",
    text="AdaBoost on a stream: a tree learns more of what those before it got wrong.",
)


ENTRIES = (
    ONLINE_BAGGING,
    ADAPTIVE_RANDOM_FOREST,
    STREAMING_RANDOM_PATCHES,
    LEVERAGING_BAGGING,
    SMOOTH_BOOST,
    ONLINE_BOOSTING,
)
