"""The Hoeffding tree for regression: FIMT-DD without its drift detection and alternate trees.

Ikonomovska, Gama and Džeroski 2011 call it FIMT; River and MOA have it as a Hoeffding tree regressor. Kernels and state
are those of models.regression.fimt_dd.
"""

from riparian.models.regression.entries import HOEFFDING_REGRESSION_TREE
from riparian.models.regression.fimt_dd import FimtDD


class HoeffdingRegressionTree(FimtDD):
    """Incremental model tree for a target that does not drift: all of `max_nodes` serves one tree.

    Missing values, bounds on memory and parameters: as in FimtDD.

    References
    ----------
    E. Ikonomovska, J. Gama and S. Džeroski: Learning model trees from evolving data streams. Data Mining and Knowledge
    Discovery 23, 2011, section 4 (FIMT).
    """

    entry = HOEFFDING_REGRESSION_TREE
