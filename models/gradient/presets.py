"""The parameters of the presets of stochastic gradient trees: plain data, without numba.

A parameter that a stream file leaves out is the preset's, so that a preset can be taken whole or changed in one place.
"""

from typing import Any

from riparian.models.entry import MULTI_INSTANCE

TUNED, PAPER, BOOSTED = "tuned", "paper", "boosted"

_TUNED: dict[str, Any] = {
    "linear_rate": 0.1,
    "n_stages": 1,
    "shrinkage": 0.3,
    "poisson": False,
    "feature_share": 1.0,
    "grace_period": 50,
    "delta": 0.01,
    "penalty": 1.0,
    "node_cost": 0.5,
    "n_bins": 64,
    "binning": "equal-width",
    "warm_up": 100,
    "replay": True,
    "rebin_period": 2000,
    "leaf_update": "every-instance",
    "learning_rate": 2.0,
    "decay": 0.98,
    "largest_step": 1.0,
    "multiway": False,
    "paired": True,
    "epochs": 1,
}

PRESETS: dict[str, dict[str, Any]] = {
    TUNED: _TUNED,
    # Section 5 and sections 3.1 to 3.3: the experiments of the paper.
    PAPER: {
        **_TUNED,
        "linear_rate": 0.0,
        "grace_period": 200,
        "delta": 1e-7,
        "penalty": 0.1,
        "node_cost": 1.0,
        "warm_up": 1000,
        "replay": False,
        "rebin_period": 0,
        "leaf_update": "tested",
        "multiway": True,
        "paired": False,
    },
    BOOSTED: {**_TUNED, "n_stages": 10, "poisson": True, "feature_share": 0.6},
}


# Of bags of instances, section 4.3: the paper's leaf rule and lambda, and several passes over a training set. A leaf is
# tested every 20 bags: a training set has some hundred.
_BAGS: dict[str, Any] = {
    "linear_rate": 0.0,
    "grace_period": 20,
    "delta": 1e-4,
    "penalty": 0.1,
    "node_cost": 3.0,
    "leaf_update": "tested",
    "paired": False,
    "epochs": 300,
}
BAG_PRESETS: dict[str, dict[str, Any]] = {
    TUNED: {**PRESETS[TUNED], **_BAGS},
    # The text has no other settings for bags, and does not give how many passes. Its implementation tests a leaf at
    # each instance and makes 20 passes, which are too few here (musk1 67 %; 79 so).
    PAPER: {**PRESETS[PAPER], "epochs": 300},
    BOOSTED: {**PRESETS[BOOSTED], **_BAGS},
}


def effective(given: dict[str, Any], task: str) -> dict[str, Any]:
    """The parameters with the preset's in place of None."""
    preset = (BAG_PRESETS if task == MULTI_INSTANCE else PRESETS)[given["preset"]]
    return {name: preset.get(name) if value is None else value for name, value in given.items()}


def by_preset(name: str) -> str:
    """The values of a parameter under the presets, for people: "tuned 50, paper 200; bags: tuned 20, paper 200"."""
    rows, bags = _values(PRESETS, name), _values(BAG_PRESETS, name)
    return rows if rows == bags else f"{rows}; bags: {bags}"


def _values(presets: dict[str, dict[str, Any]], name: str) -> str:
    words = {True: "true", False: "false"}
    values = {preset: found[name] for preset, found in presets.items()}
    shown = [
        f"{preset} {words[value] if isinstance(value, bool) else value}"
        for preset, value in values.items()
        if preset == TUNED or value != values[TUNED]
    ]
    return ", ".join(shown)
