"""Rules of learners of anomalies."""

from typing import Any

import numpy as np

from models.anomaly.half_space import MET, WINDOW, N
from models.restoring.arrays import Arrays

MOST_WINDOWS = 2**31 - 2


def check(a: Arrays, learner: Any) -> None:
    fresh = learner.state()
    _, nodes, ranges, _, counts = a.fields(fresh, *fresh._fields)
    a.within("counts", counts[WINDOW], 0, MOST_WINDOWS, "windows")
    a.within("counts", counts[N], 0, len(fresh.first) - 1, "instances")
    a.within("nodes", nodes, 0, max(int(counts[WINDOW]), len(fresh.first)), "counts")
    a.within("nodes", nodes[:, :, MET], 0, counts[WINDOW], "windows")
    a.require(not np.isnan(ranges).any(), "ranges", "has ranges that are none")
