"""The parameters that Hoeffding trees for classification share: as people give them, and as kernels take them."""

import math
from typing import Any, NamedTuple

from models.hoeffding.split import GINI, HELLINGER, INFO_GAIN

CRITERIA = {"info-gain": INFO_GAIN, "gini": GINI, "hellinger": HELLINGER}
MC, NB, NBA = 0, 1, 2
LEAF_PREDICTIONS = {"mc": MC, "nb": NB, "nba": NBA}
OBSERVERS = ("gaussian", "histogram")


class Settings(NamedTuple):
    """The parameters, as kernels take them. log_delta : log(1 / delta). max_depth, max_leaves, max_active_leaves : -1
    for none.
    """

    grace_period: float
    log_delta: float
    tie_threshold: float
    min_branch_fraction: float
    criterion: int
    leaf_prediction: int
    n_split_points: int
    max_nodes: int
    max_depth: int
    binary_splits: bool
    max_leaves: int
    max_active_leaves: int


def settings_of(p: dict[str, Any]) -> Settings:
    """The parameters for kernels; a tree that has no such bound leaves it out."""
    none = {name: -1 if p.get(name) is None else p[name] for name in ("max_depth", "max_leaves", "max_active_leaves")}
    return Settings(
        float(p["grace_period"]),
        math.log(1.0 / p["delta"]),
        p["tie_threshold"],
        p["min_branch_fraction"],
        CRITERIA[p["split_criterion"]],
        LEAF_PREDICTIONS[p["leaf_prediction"]],
        p["n_split_points"],
        p["max_nodes"],
        none["max_depth"],
        p["binary_splits"],
        none["max_leaves"],
        none["max_active_leaves"],
    )


def bins_of(p: dict[str, Any]) -> int:
    """Keys of a histogram, 0 where numeric features are observed by Gaussians alone."""
    return int(p["n_bins"]) if p.get("observer") == "histogram" else 0


def check_parameters(name: str, p: dict[str, Any]) -> None:
    """ValueError with one sentence for a parameter out of range. name : of the model."""
    least = {"grace_period": 1, "tie_threshold": 0, "n_split_points": 1, "n_bins": 3, "max_nodes": 1}
    least_or_none = {"max_depth": 0, "max_leaves": 1, "max_active_leaves": 1}
    choices = {"split_criterion": CRITERIA, "leaf_prediction": LEAF_PREDICTIONS, "observer": OBSERVERS}
    ranges = {
        "delta": (0.0 < p["delta"] <= 1.0, "above 0 and at most 1"),
        "min_branch_fraction": (0.0 <= p["min_branch_fraction"] <= 0.5, "0 .. 0.5"),
        **{key: (p[key] >= low, f"at least {low}") for key, low in least.items() if key in p},
        **{
            key: (p[key] is None or p[key] >= low, f"at least {low}, or left out")
            for key, low in least_or_none.items()
            if key in p
        },
        **{key: (p[key] in some, f"one of {', '.join(some)}") for key, some in choices.items() if key in p},
    }
    for parameter, (valid, expected) in ranges.items():
        if not valid:
            raise ValueError(f"parameter {parameter!r} of model {name!r} is {p[parameter]!r}: give {expected}")
