"""The parameters that Hoeffding trees for classification share: as people give them, and as kernels take them."""

from typing import Any, NamedTuple

from riparian.models.hoeffding.splitting.candidates import GINI, HELLINGER, INFO_GAIN
from riparian.models.kernels.elementary import logs

CRITERIA = {"info-gain": INFO_GAIN, "gini": GINI, "hellinger": HELLINGER}
MC, NB, NBA = 0, 1, 2
LEAF_PREDICTIONS = {"mc": MC, "nb": NB, "nba": NBA}


class HoeffdingSettings(NamedTuple):
    """The parameters, as kernels take them.

    log_delta : log(1 / delta).
    max_depth, max_leaves, max_active_leaves : -1 for none.
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


def settings_of(p: dict[str, Any]) -> HoeffdingSettings:
    """The parameters for kernels; a tree that has no such bound leaves it out."""
    none = {name: -1 if p.get(name) is None else p[name] for name in ("max_depth", "max_leaves", "max_active_leaves")}
    return HoeffdingSettings(
        float(p["grace_period"]),
        float(logs(1.0 / p["delta"])),
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
