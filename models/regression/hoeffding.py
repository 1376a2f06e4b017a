"""The Hoeffding tree for regression: FIMT-DD without its drift detection and alternate trees.

Ikonomovska, Gama and Džeroski 2011 call it FIMT; River and MOA have it as a Hoeffding tree regressor. Kernels and state
are those of models.regression.fimt.
"""

from models.contract import Schema
from models.regression.fimt import FimtDD

DRIFT = ("drift_detection", "drift_delta", "drift_threshold")


class HoeffdingRegressionTree(FimtDD):
    """Incremental model tree for a target that does not drift: all of `max_nodes` serves one tree.

    Missing values, bounds on memory and parameters: as in FimtDD.

    References
    ----------
    E. Ikonomovska, J. Gama and S. Džeroski: Learning model trees from evolving data streams. Data Mining and Knowledge
    Discovery 23, 2011, section 4 (FIMT).
    """

    name = "hoeffding-regression-tree"

    def __init__(
        self,
        schema: Schema,
        *,
        seed: int = 0,
        grace_period: int = 100,
        delta: float = 0.01,
        tie_threshold: float = 0.05,
        leaf_prediction: str = "adaptive",
        learning_rate: float = 0.1,
        learning_rate_decay: float = 0.001,
        error_fading: float = 0.995,
        n_bins: int = 32,
        min_branch_fraction: float = 0.01,
        max_nodes: int | None = None,
        max_depth: int | None = None,
    ) -> None:
        super().__init__(
            schema,
            seed=seed,
            grace_period=grace_period,
            delta=delta,
            tie_threshold=tie_threshold,
            leaf_prediction=leaf_prediction,
            learning_rate=learning_rate,
            learning_rate_decay=learning_rate_decay,
            error_fading=error_fading,
            n_bins=n_bins,
            min_branch_fraction=min_branch_fraction,
            max_nodes=max_nodes,
            max_depth=max_depth,
            drift_detection=False,
        )
        for name in DRIFT:
            del self._parameters[name]
