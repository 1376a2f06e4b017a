"""The registry's entry of the opinion pool, and its default members: plain data, without numba."""

from typing import Any

from riparian.models.entry import CLASSIFICATION, REGRESSION, Entry, Parameter

LOGARITHMIC, LINEAR, LEADER = "logarithmic", "linear", "leader"
AUTO = "auto"

# A member for each way a stream can be. Forest: rows at random from one world. Mondrian forest: few labels, many
# classes. Shrubs: recent labels repeat, drift. Boosted trees: smooth functions. Soft tree: sums of many features.
MEMBERS: dict[str, dict[str, Any]] = {
    CLASSIFICATION: {
        "forest": "adaptive-random-forest",
        "mondrian": "mondrian-forest",
        "shrubs": "shrub-ensemble",
        "boosted": {"model": "stochastic-gradient-tree", "preset": "boosted"},
        "soft": "soft-hoeffding-tree",
    },
    REGRESSION: {
        "forest": "adaptive-random-forest",
        "mondrian": "mondrian-forest",
        "shrubs": "shrub-ensemble",
        "boosted": {"model": "stochastic-gradient-tree", "preset": "boosted"},
        "bagging": "online-bagging",
        "fimt": "fimt-dd",
        "soft": "soft-tree",
    },
}

OPINION_POOL = Entry(
    name="opinion-pool",
    cls="riparian.models.opinion_pool.opinion_pool:OpinionPool",
    tasks=(CLASSIFICATION, REGRESSION),
    parameters=(
        Parameter(
            "members",
            dict,
            None,
            text="name: model, or name: {model: ..., its parameters, frozen: true, max_values, target_means}; "
            "none: five, or seven",
        ),
        Parameter(
            "pool",
            str,
            AUTO,
            choices=(AUTO, LOGARITHMIC, LINEAR, LEADER),
            text="weights of log probabilities, of predictions, or the best member alone; auto: the first that the "
            "task has",
        ),
        Parameter("rate", float, 0.002, 0.0, 1.0, text="how fast the weights move, or the leader's score forgets"),
        Parameter("floor", float, 0.01, 1e-12, 0.5, text="least probability taken to be given to a usual class"),
        Parameter(
            "rest_below",
            float,
            0.0,
            0.0,
            0.1,
            text="a member with less than this share of all weight rests, but for trials; 0: none does",
        ),
    ),
    check="riparian.models.opinion_pool.members:check",
    parts="riparian.models.opinion_pool.members",
    paper="R. L. Winkler: The consensus of subjective probability distributions. Management Science 15, 1968; M. "
    "Herbster and M. Warmuth: Tracking the best expert. Machine Learning 32, 1998 (linear).",
    text="Learners of several kinds; weights learn from their predictions whom to believe.",
)


ENTRIES = (OPINION_POOL,)
