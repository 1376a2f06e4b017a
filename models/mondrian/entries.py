"""The registry's entry of Mondrian forests."""

from riparian.models.entry import CLASSIFICATION, REGRESSION, Entry, Parameter

MONDRIAN_FOREST = Entry(
    name="mondrian-forest",
    cls="riparian.models.mondrian.mondrian_forest:MondrianForest",
    tasks=(CLASSIFICATION, REGRESSION),
    parameters=(
        Parameter("n_trees", int, 10, 1, 10_000, text="trees that vote"),
        Parameter("max_nodes", int, None, 3, 100_000_000, text="of a tree [classes: 4001; regression: max_bytes]"),
        Parameter("max_bytes", int, 64_000_000, 100_000, 10**13, text="of the forest"),
        Parameter("step", float, 1.0, 1e-12, None, text="power of the likelihoods that weigh prunings"),
        Parameter(
            "dirichlet", float, None, 1e-12, None, text="pseudo-count of a class [1 over the number of classes seen]"
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
    ),
    paper=(
        "J. Mourtada, S. Gaïffas and E. Scornet: AMF: Aggregated Mondrian forests for online learning. JRSS B 2021."
        " B. Lakshminarayanan, D. M. Roy and Y. W. Teh: Mondrian forests. NIPS 2014."
    ),
    text="Trees split at random that predict by all their prunings, weighed exactly. Learns most of few labels.",
)


ENTRIES = (MONDRIAN_FOREST,)
