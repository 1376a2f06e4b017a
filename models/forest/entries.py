"""The registry's entries of ensembles of trees."""

from models.entry import CLASSIFICATION, REGRESSION, Entry, Parameter

# Of streaming decision trees and forests.
BATCH_SIZE = Parameter("batch_size", int, 30, 1, 1_000_000, text="labels that are learned together; the paper has 100")
KEPT = Parameter(
    "window", int, 1000, 0, 1_000_000, text="newest labels that leaves grow on; 0: the batch, as in the paper"
)
MIN_SPLIT = Parameter("min_split", int, 2, 2, 1_000_000, text="fewest rows that a leaf is split with")
LEAF_VALUES = Parameter(
    "leaf_values",
    str,
    "counts",
    choices=("counts", "overwrite"),
    text="leaves count what they learned, or hold the last rows that they grew on",
)
SDF_PAPER = (
    "H. Xu, J. Dey, S. Panda and J. T. Vogelstein: Streaming decision trees and forests. arXiv:2110.08483, 2021."
)

ENTRIES = (
    Entry(
        name="streaming-decision-tree",
        cls="models.forest.streaming:StreamingDecisionTree",
        tasks=(CLASSIFICATION,),
        parameters=(
            BATCH_SIZE._replace(default=100),
            KEPT,
            MIN_SPLIT,
            LEAF_VALUES,
            Parameter("max_nodes", int, 65535, 1, 100_000_000, text="at the bound leaves only count"),
        ),
        paper=SDF_PAPER,
        text="CART that grows further with each mini-batch of labels.",
    ),
    Entry(
        name="streaming-decision-forest",
        cls="models.forest.streaming:StreamingDecisionForest",
        tasks=(CLASSIFICATION,),
        parameters=(
            Parameter("n_trees", int, 30, 1, 10_000, text="trees that vote; the paper has 100"),
            BATCH_SIZE,
            KEPT,
            Parameter("max_features", str, "sqrt", choices=("sqrt", "all"), text="features tried a node"),
            MIN_SPLIT,
            LEAF_VALUES,
            Parameter("bootstrap", bool, False, text="each tree learns a label Poisson(1) times"),
            Parameter(
                "replaced",
                str,
                "always",
                choices=("never", "fading", "always"),
                text="begin the weakest trees anew with each batch, or ever more rarely",
            ),
            Parameter("n_replaced", int, 1, 1, 10_000, text="how many at once"),
            Parameter(
                "vote",
                str,
                "majority",
                choices=("majority", "average"),
                text="one vote a tree, or the mean of their class shares",
            ),
            Parameter("max_nodes", int, 4095, 1, 100_000_000, text="of a tree; at the bound its leaves only count"),
            Parameter("threads", int, 1, 1, 64, text="threads that run trees; same results"),
        ),
        paper=SDF_PAPER,
        text="Streaming decision trees on random features, the weakest begun anew; a vote.",
    ),
    Entry(
        name="shrub-ensemble",
        cls="models.forest.shrub_ensemble:ShrubEnsemble",
        tasks=(CLASSIFICATION, REGRESSION),
        parameters=(
            Parameter("n_trees", int, 32, 1, 10_000, text="most trees of a window that vote"),
            Parameter("window", int, 1024, 2, 1_000_000, text="last labels that trees grow on and are judged by"),
            Parameter("n_windows", int, 4, 1, 8, text="each a quarter as long as the one before; 1: the paper's"),
            Parameter("max_depth", int, 15, 1, 1_000_000, text="of a tree"),
            Parameter("every", int, 16, 1, 1_000_000_000, text="a new tree with each such label"),
            Parameter("step", float, 1.0, 1e-12, None, text="of the gradient; large: newest trees win"),
            Parameter("burn_in", int, 5, 0, 10_000, text="further gradient steps with each new tree"),
            Parameter("ridge", float, 0.05, 0.0, None, text="penalty on squared weights: spreads them"),
            Parameter("loss", str, "mse", choices=("mse", "cross-entropy"), text="what the weights minimise"),
            Parameter(
                "splits", str, "random", choices=("best", "random"), text="best threshold of a feature, or one drawn"
            ),
            Parameter(
                "max_features",
                str,
                "all",
                choices=("all", "sqrt", "subspace"),
                text="what trees look at: all, the root of their number a node, or half of them a tree",
            ),
            Parameter(
                "train_share",
                float,
                1.0,
                1e-6,
                1.0,
                text="share of the window that a tree grows on; below 1 the others judge it",
            ),
            Parameter(
                "weighting", str, "learned", choices=("learned", "equal"), text="by gradient, or the newest trees alike"
            ),
            Parameter("threads", int, 1, 1, 8, text="that share the windows; the results are the same"),
        ),
        paper="S. Buschjäger, S. Hess and K. Morik: Shrub ensembles for online classification. AAAI 2022.",
        text="Small trees grown on a sliding window, kept by weights that are learned. Follows drift at once.",
        check="models.forest.check:shrub_ensemble",
    ),
    Entry(
        name="mondrian-forest",
        cls="models.forest.mondrian:MondrianForest",
        tasks=(CLASSIFICATION, REGRESSION),
        parameters=(
            Parameter("n_trees", int, 10, 1, 10_000, text="trees that vote"),
            Parameter("max_nodes", int, None, 3, 100_000_000, text="of a tree [classes: 4001; regression: max_bytes]"),
            Parameter("max_bytes", int, 64_000_000, 100_000, 10**13, text="of the forest"),
            Parameter("step", float, 1.0, 1e-12, None, text="power of the likelihoods that weigh prunings"),
            Parameter(
                "dirichlet",
                float,
                None,
                1e-12,
                None,
                text="pseudo-count of a class [1 over the number of classes seen]",
            ),
            Parameter("split_pure", bool, False, text="split nodes of one class, too"),
            Parameter(
                "split_below",
                float,
                0.8,
                1e-12,
                1.0,
                text="split nothing where the leaf gives the label this probability; 1: the papers'",
            ),
            Parameter("vote_power", int, 4, 0, 64, text="of its faded mean probability of labels, a tree's vote"),
            Parameter("aggregation", bool, True, text="all prunings of a tree predict, or its leaves"),
            Parameter("threads", int, 1, 1, 1024, text="that share the trees; changes nothing but the time"),
        ),
        paper=(
            "J. Mourtada, S. Gaïffas and E. Scornet: AMF: Aggregated Mondrian forests for online learning. JRSS B 2021."
            " B. Lakshminarayanan, D. M. Roy and Y. W. Teh: Mondrian forests. NIPS 2014."
        ),
        text="Trees split at random that predict by all their prunings, weighed exactly. Learns most of few labels.",
    ),
)
