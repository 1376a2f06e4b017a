"""Rules of learners of anomalies."""

from typing import Any

import numpy as np

from models.anomaly import online_isolation
from models.anomaly.half_space import MET, MOST_DOUBLINGS
from models.restoring.arrays import MANY, Arrays

MOST_WINDOWS = 2**31 - 2


def check(a: Arrays, learner: Any) -> None:
    if learner.name == online_isolation.OnlineIsolationForest.name:
        _check_isolation(a, learner)
    else:
        _check_half_space(a, learner)


def _check_isolation(a: Arrays, learner: Any) -> None:
    fresh = learner.state()
    _, draws, features, cuts, heights, boxes, _, counts = a.fields(fresh, *fresh._fields)
    a.counts("counts", counts)
    a.within("draws", draws, 0, MANY >> 1, "counts")
    a.within("features", features, online_isolation.LEAF, learner.schema.n_features - 1, "features")
    n, inner = features.shape[1], features != online_isolation.LEAF
    a.require(not inner[:, n // 2 :].any(), "features", "has a cut without children")
    under = np.arange(1, n)
    lost = inner[:, 1:] & ~inner[:, (under - 1) // 2]
    a.require(not lost.any(), "features", "has a cut below a leaf")
    a.finite("cuts", cuts)
    most = min(int(counts[0]), len(fresh.last))
    a.within("heights", heights, -most, most, "counts")
    a.equal("heights", heights[:, 0], np.full(len(heights), most), "counts")
    parents = np.where(inner[:, : n // 2], heights[:, : n // 2], 0)
    a.equal("heights", np.where(inner[:, : n // 2], heights[:, 1::2] + heights[:, 2::2], 0), parents, "counts")
    a.require(not np.isnan(boxes).any(), "boxes", "has ranges that are none")
    low, high = boxes[:, :, online_isolation.LOW], boxes[:, :, online_isolation.HIGH]
    none = (low == np.inf) & (high == -np.inf)
    known = np.isfinite(low) & np.isfinite(high) & (low <= high)
    a.require((none | known).all(), "boxes", "has ranges that are none")


def _check_half_space(a: Arrays, learner: Any) -> None:
    fresh = learner.state()
    _, nodes, ranges, _, counts = a.fields(fresh, *fresh._fields)
    a.require(not np.isnan(ranges).any(), "ranges", "has ranges that are none")
    of_profiles = zip(nodes.reshape(*learner.profiles()[0].shape), counts.reshape(-1, 2), learner.longest, strict=True)
    for profile, (window, n), longest in of_profiles:
        a.within("counts", window, 0, MOST_WINDOWS, "windows")
        size = min(len(fresh.first) << min(int(window), MOST_DOUBLINGS), longest)
        a.within("counts", n, 0, size - 1, "instances")
        a.within("nodes", profile, 0, max(int(window), size), "counts")
        a.within("nodes", profile[:, :, MET], 0, window, "windows")
