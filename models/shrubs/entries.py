"""The registry's entry of shrub ensembles."""

from collections.abc import Mapping
from typing import Any

from riparian.models.entry import CLASSIFICATION, REGRESSION, Entry, Parameter, choice


def check(task: str, parameters: Mapping[str, Any]) -> None:
    """What no range holds."""
    if parameters["loss"] == "cross-entropy" and task == "regression":
        raise ValueError("loss is 'cross-entropy' and the task regression: use 'mse'")


SHRUB_ENSEMBLE = Entry(
    name="shrub-ensemble",
    cls="riparian.models.shrubs.shrub_ensemble:ShrubEnsemble",
    tasks=(CLASSIFICATION, REGRESSION),
    parameters=(
        Parameter("n_trees", int, 32, 1, 10_000, text="most trees of a window that vote"),
        Parameter("window", int, 1024, 2, 1_000_000, text="last labels that trees grow on and are judged by"),
        Parameter("n_windows", int, 4, 1, 8, text="each a quarter as long as the one before; 1: the paper's"),
        Parameter("max_depth", int, 15, 1, 1_000_000, text="of a tree"),
        Parameter("every", int, 16, 1, 1_000_000_000, text="a new tree with each such label"),
        Parameter("step", float, 1.0, 1e-12, None, text="of the gradient; large: newest trees win"),
        Parameter("burn_in", int, 5, 0, 10_000, text="further gradient steps with each new tree"),
        Parameter("ridge", float, 0.05, 0.0, None, text="penalty on squared weights: spreads them"),
        choice("loss", "mse cross-entropy", "what the weights minimise"),
        choice("splits", "best random", "best threshold of a feature, or one drawn", "random"),
        choice(
            "max_features",
            "all sqrt subspace",
            "what trees look at: all, the root of their number a node, or half of them a tree",
        ),
        Parameter(
            "train_share",
            float,
            1.0,
            1e-6,
            1.0,
            text="share of the window that a tree grows on; below 1 the others judge it",
        ),
        choice("weighting", "learned equal", "by gradient, or the newest trees alike"),
    ),
    paper="S. Buschjäger, S. Hess and K. Morik: Shrub ensembles for online classification. AAAI 2022.",
    text="Small trees grown on a sliding window, kept by weights that are learned. Follows drift at once.",
    check="riparian.models.shrubs.entries:check",
)


ENTRIES = (SHRUB_ENSEMBLE,)
