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
    Entry(
        name="online-isolation-forest",
        cls="models.anomaly.online_isolation:OnlineIsolationForest",
        tasks=(ANOMALY,),
        parameters=(
            Parameter("n_trees", int, 32, 1, 200, text="trees"),
            Parameter("window", int, 2048, 10, 100_000, text="the last instances, that scores compare with"),
            Parameter(
                "leaf_size", int, 32, 2, 100_000, text="instances at which the whole space is cut; 2^depth times"
            ),
        ),
        paper="F. Leveni, G. Weigert Cassales, B. Pfahringer, A. Bifet and G. Boracchi: Online isolation forest. ICML "
        "2024.",
        text="Cuts the boxes of the last window at random where they are full; who is cut off early is anomalous.",
    ),
)
