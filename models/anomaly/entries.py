"""The registry's entries of learners of anomalies."""

from models.entry import ANOMALY, Entry, Parameter

ENTRIES = (
    Entry(
        name="half-space-trees",
        cls="models.anomaly.half_space:HalfSpaceTrees",
        tasks=(ANOMALY,),
        parameters=(
            Parameter("n_trees", int, 25, 1, 200, text="trees"),
            Parameter(
                "height", int, 15, 1, 16, text="halvings from the root to a leaf; a tree has 2^(height + 1) nodes"
            ),
            Parameter(
                "window", int, 250, 10, 1_000_000, text="instances of a window, whose profile the next is scored by"
            ),
        ),
        paper="S. C. Tan, K. M. Ting and F. T. Liu: Fast anomaly detection for streaming data. IJCAI 2011.",
        text="Counts a window in random halves of the space; where few are in a large part, an instance is anomalous.",
    ),
)
