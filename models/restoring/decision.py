"""Rules of a threshold. The bin of a probability follows from it."""

from typing import Any

from models.decision import BOUND, DELAY, SHIFT, TOTAL, UNIT, UNIT_LIMIT
from models.restoring.arrays import MANY, Arrays


def check(a: Arrays, threshold: Any) -> None:
    n, bins, following = a.fields(threshold.state(), "n", "bins", "following")
    a.within("n", n, 0, MANY, "counts")
    a.finite("bins", bins)
    a.require((bins >= 0.0).all(), "bins", "has numbers below 0")
    a.within("following", following[SHIFT], -BOUND, BOUND)
    a.within("following", following[DELAY], 0.0, MANY)
    a.within("following", following[UNIT], 1.0, UNIT_LIMIT)
    a.require(0.0 <= following[TOTAL] < 1e300, "following", "has a total that is none")
