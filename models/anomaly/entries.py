"""The registry's entries of learners of anomalies."""

from collections.abc import Mapping
from typing import Any

from riparian.models.entry import ANOMALY, Entry, Parameter


def check_windows(_: str, parameters: Mapping[str, Any]) -> None:
    """Of half-space trees."""
    window, most = parameters["window"], parameters["max_window"]
    if most is not None and most <= window:
        raise ValueError(
            f"parameter 'max_window' of model 'half-space-trees' is {most}, and window is {window}: give a longer one, "
            "or leave it out"
        )


HALF_SPACE_TREES = Entry(
    name="half-space-trees",
    cls="riparian.models.anomaly.half_space_trees:HalfSpaceTrees",
    tasks=(ANOMALY,),
    parameters=(
        Parameter("n_trees", int, 25, 1, 200, text="trees"),
        Parameter("height", int, 15, 1, 16, text="halvings from the root to a leaf; a tree has 2^(height + 1) nodes"),
        Parameter("window", int, 250, 10, 1_000_000, text="instances of a window, whose profile the next is scored by"),
        Parameter(
            "max_window", int, None, 11, 1_000_000, text="of a second profile, whose windows double up to it [none]"
        ),
    ),
    paper="S. C. Tan, K. M. Ting and F. T. Liu: Fast anomaly detection for streaming data. IJCAI 2011.",
    check="riparian.models.anomaly.entries:check_windows",
    text="Counts a window in random halves of the space; where few are in a large part, an instance is anomalous.",
)
ONLINE_ISOLATION_FOREST = Entry(
    name="online-isolation-forest",
    cls="riparian.models.anomaly.online_isolation_forest:OnlineIsolationForest",
    tasks=(ANOMALY,),
    parameters=(
        Parameter("n_trees", int, 32, 1, 200, text="trees"),
        Parameter("window", int, 2048, 10, 100_000, text="the last instances, that scores compare with"),
        Parameter("leaf_size", int, 32, 2, 100_000, text="instances at which the whole space is cut; 2^depth times"),
    ),
    paper="F. Leveni, G. Weigert Cassales, B. Pfahringer, A. Bifet and G. Boracchi: Online isolation forest. ICML "
    "2024.",
    text="Cuts the boxes of the last window at random where they are full; who is cut off early is anomalous.",
)


ENTRIES = (HALF_SPACE_TREES, ONLINE_ISOLATION_FOREST)
