"""A state that is read is checked before a kernel sees it: whoever can write it must not harm the process.

Kernels are not asked whether an index is within its array; a state names rows, children, bins and places by the
thousand. `restore` looks at every number of a state that an index, a loop or an allocation follows from, and refuses
what no learner writes with one sentence. What it accepts may still be nonsense, but ends, within its arrays. It is for
states that come from outside the process; `Learner.restore` itself trusts what it is given, as ensembles do that copy
members.

The rules stand apart from the learners, a module a family, so that an edit of a rule compiles no kernel anew. Each is
linear in the size of the state (with a factor of its logarithm where ways to a root are followed), in whole arrays.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from numpy.typing import NDArray

from models.calibration import Calibration
from models.comparison import Comparison
from models.conformal import Conformal
from models.contract import Learner
from models.decision import Threshold
from models.drift.contract import Detector
from models.estimation import Estimation
from models.prequential import Prequential
from models.restoring.arrays import Arrays, DamagedError

__all__ = ["Arrays", "DamagedError", "check", "restore"]

# Name of a learner -> the module here that has its rule. A rule takes the arrays and a fresh learner.
MODULES = {
    **dict.fromkeys(("majority-class", "last-label", "mean", "naive-bayes"), "baseline"),
    **dict.fromkeys(("hoeffding-tree", "subspace-tree"), "hoeffding"),
    **dict.fromkeys(("hoeffding-adaptive-tree", "extremely-fast-decision-tree"), "hoeffding"),
    **dict.fromkeys(("fimt-dd", "hoeffding-regression-tree", "orto", "subspace-regression-tree"), "regression"),
    **dict.fromkeys(("online-bagging", "leveraging-bagging", "smooth-boost", "online-boosting"), "ensemble"),
    **dict.fromkeys(("adaptive-random-forest", "streaming-random-patches"), "ensemble"),
    **dict.fromkeys(("streaming-decision-tree", "streaming-decision-forest"), "streaming_forest"),
    "shrub-ensemble": "shrubs",
    "opinion-pool": "opinion_pool",
    "mondrian-forest": "mondrian",
    "stochastic-gradient-tree": "gradient",
    **dict.fromkeys(("soft-tree", "soft-hoeffding-tree", "model-pool"), "soft"),
    **dict.fromkeys(("miti", "quick-diverse-density"), "bags"),
    **dict.fromkeys(("cart", "bagging", "random-forest", "adaboost", "gradient-boosting", "xgboost"), "batch"),
    **dict.fromkeys(("half-space-trees", "online-isolation-forest"), "anomaly"),
    "external": "baseline",
}


def check(learner: Learner, state: Mapping[str, NDArray[Any]], name: str | None = None) -> None:
    """DamagedError where a fresh `learner` must not be given `state`. name : of it, for the sentence."""
    _rule(MODULES[learner.name])(Arrays(name or learner.name, state), learner)


def restore(
    fresh: Learner | Detector | Prequential | Comparison | Estimation | Conformal | Calibration | Threshold,
    state: Mapping[str, NDArray[Any]],
    name: str | None = None,
) -> None:
    """Let what knows nothing take over a state of its own kind from outside.

    DamagedError, a ValueError of one sentence that begins with `name`, where it is none of theirs.
    """
    if isinstance(fresh, Learner):
        check(fresh, state, name)
    elif isinstance(fresh, Detector):
        _rule("drift")(Arrays(name or fresh.name, state), fresh)
    elif isinstance(fresh, Comparison):
        _rule("comparison")(Arrays(name or "the comparison", state), fresh)
    elif isinstance(fresh, Calibration):
        _rule("calibration")(Arrays(name or "the calibration", state), fresh)
    elif isinstance(fresh, Threshold):
        _rule("decision")(Arrays(name or "the threshold", state), fresh)
    elif isinstance(fresh, Conformal):
        _rule("conformal")(Arrays(name or "the intervals", state), fresh)
    elif isinstance(fresh, Estimation):
        _rule("estimation")(Arrays(name or "the estimate", state), fresh)
    else:
        _rule("scores")(Arrays(name or "the evaluation", state), fresh)
    try:
        fresh.restore(state)
    except ValueError as error:  # what a learner itself has to say about its state
        raise DamagedError(f"{name}: {error}" if name else str(error)) from error


def _rule(module: str) -> Callable[[Arrays, Any], None]:
    rule: Callable[[Arrays, Any], None] = import_module(f"{__name__}.{module}").check
    return rule
