"""Rules of intervals and sets. Places in rings follow from the counts; the scores are sorted when they are read."""

from typing import Any

import numpy as np

from models.conformal import DELAY, HIGHEST, LOWEST, SHIFT
from models.restoring.arrays import MANY, Arrays


def check(a: Arrays, conformal: Any) -> None:
    fresh = conformal.state()
    k = len(a.take("seen", fresh.seen, None))
    n, seen, scores, adaptation, sums, recent = a.fields(
        fresh, "n", "seen", "scores", "adaptation", "sums", "recent_sums", seen=(k,)
    )
    a.require((k > 0) == (conformal.task != "regression"), "seen", f"has {k} classes")
    a.within("n", n, 0, MANY, "counts")
    a.within("seen", seen, 0, 1)
    a.finite("scores", scores)
    a.within("adaptation", adaptation[SHIFT], LOWEST - 1.0, HIGHEST)
    a.within("adaptation", adaptation[DELAY], 0.0, MANY)
    ring = a.take("ring", fresh.ring, None, fresh.ring.shape[1])
    for name, array in (("sums", sums), ("recent_sums", recent), ("ring", ring)):
        a.require(not np.isnan(array).any() and (array >= 0.0).all(), name, "has numbers below 0")
