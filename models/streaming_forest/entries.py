"""The registry's entries of streaming decision trees and forests."""

from riparian.models.entry import CLASSIFICATION, Entry, Parameter, choice

BATCH_SIZE = Parameter("batch_size", int, 30, 1, 1_000_000, text="labels that are learned together; the paper has 100")
KEPT = Parameter(
    "window", int, 1000, 0, 1_000_000, text="newest labels that leaves grow on; 0: the batch, as in the paper"
)
MIN_SPLIT = Parameter("min_split", int, 2, 2, 1_000_000, text="fewest rows that a leaf is split with")
LEAF_VALUES = choice(
    "leaf_values", "counts overwrite", "leaves count what they learned, or hold the last rows that they grew on"
)
SDF_PAPER = (
    "H. Xu, J. Dey, S. Panda and J. T. Vogelstein: Streaming decision trees and forests. arXiv:2110.08483, 2021."
)

STREAMING_DECISION_TREE = Entry(
    name="streaming-decision-tree",
    cls="riparian.models.streaming_forest.streaming_decision_tree:StreamingDecisionTree",
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
)
STREAMING_DECISION_FOREST = Entry(
    name="streaming-decision-forest",
    cls="riparian.models.streaming_forest.streaming_decision_forest:StreamingDecisionForest",
    tasks=(CLASSIFICATION,),
    parameters=(
        Parameter("n_trees", int, 30, 1, 10_000, text="trees that vote; the paper has 100"),
        BATCH_SIZE,
        KEPT,
        choice("max_features", "sqrt all", "features tried a node"),
        MIN_SPLIT,
        LEAF_VALUES,
        Parameter("bootstrap", bool, False, text="each tree learns a label Poisson(1) times"),
        choice(
            "replaced",
            "never fading always",
            "begin the weakest trees anew with each batch, or ever more rarely",
            "always",
        ),
        Parameter("n_replaced", int, 1, 1, 10_000, text="how many at once"),
        choice("vote", "majority average", "one vote a tree, or the mean of their class shares"),
        Parameter("max_nodes", int, 4095, 1, 100_000_000, text="of a tree; at the bound its leaves only count"),
    ),
    paper=SDF_PAPER,
    text="Streaming decision trees on random features, the weakest begun anew; a vote.",
)


ENTRIES = (STREAMING_DECISION_TREE, STREAMING_DECISION_FOREST)
