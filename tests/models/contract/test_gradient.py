"""The contract of stochastic gradient trees."""

from riparian.checks import Case
from tests.models.contract.checks import test_contract  # noqa: F401

CASES = {
    "stochastic-gradient-tree": [
        Case({"warm_up": 60, "n_bins": 16, "rebin_period": 300, **more}, {"max_nodes": 15}, roomy="outputs" not in more)
        for more in (
            {"delta": 0.2, "linear_rate": 0.0},
            {"preset": "paper", "delta": 0.2, "grace_period": 50, "node_cost": 0.0, "binning": "quantiles"},
            {
                "preset": "boosted",
                "n_stages": 2,
                "linear_rate": 0.1,
                "outputs": "one-tree",
                "binning": "quantiles",
                "grace_period": 50,
            },
        )
    ]
}
