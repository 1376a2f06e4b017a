"""Rules of the calibration of a classifier. Places in the ring follow from the counts, bins from confidences."""

from typing import Any

from models.calibration import BINS, BOUND, CONFIDENCE, CURVATURE, DELAY, POWER
from models.restoring.arrays import MANY, Arrays


def check(a: Arrays, calibration: Any) -> None:
    fresh = calibration.state()
    k = len(a.take("seen", fresh.seen, None))
    n, seen, scaling, bins, recent = a.fields(fresh, "n", "seen", "scaling", "bins", "recent", seen=(k,))
    a.require(k > 0, "seen", "has no classes")
    a.within("n", n, 0, MANY, "counts")
    a.within("seen", seen, 0, 1)
    a.within("scaling", scaling[POWER], -BOUND, BOUND)
    a.within("scaling", scaling[[CURVATURE, DELAY]], 0.0, MANY)
    ring = a.take("ring", fresh.ring, None, fresh.ring.shape[1])
    for name, array in (("bins", bins), ("recent", recent), ("ring", ring)):
        a.finite(name, array)
        a.require((array >= 0.0).all(), name, "has numbers below 0")
    a.within("ring", ring[:, CONFIDENCE], 0.0, 1.0, "confidences")
    a.require(len(bins) == BINS, "bins", "are others")
