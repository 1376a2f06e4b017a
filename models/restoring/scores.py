"""Rules of the prequential evaluation."""

from typing import Any

import numpy as np

from models.entry import ANOMALY, VALUES
from models.prequential import N_RING, N_SUMS, R_LABEL, R_PREDICTION, R_WEIGHT, WEIGHT
from models.restoring.arrays import MANY, Arrays

LEAST_WEIGHT = 1e-100  # of all labels: its square is a number


def check(a: Arrays, evaluation: Any) -> None:
    fresh = evaluation.state()
    classes = evaluation.task not in VALUES
    k = len(a.take("seen", fresh.seen, None))
    shape: tuple[int | None, ...] = (k, k + 1)
    if evaluation.task == ANOMALY:  # alerts may have been counted then, or are now
        n_kinds = len(a.take("confusion", fresh.confusion, None, None))
        a.require(n_kinds in (0, 2), "confusion", f"has {n_kinds} rows")
        shape = (n_kinds, n_kinds + 1)
    n, _, seen, sums, _, recent, _, unit = a.fields(
        fresh, "n", "previous", "seen", "sums", "confusion", "recent_sums", "recent_confusion", "unit",
        seen=(k,), sums=(N_SUMS,), confusion=shape, recent_sums=(N_SUMS,), recent_confusion=shape,
    )  # fmt: skip
    a.require((k > 0) == classes, "seen", f"has {k} classes")
    a.within("n", n, 0, MANY, "counts")
    a.within("seen", seen, 0, 1)
    for name, array in (("sums", sums), ("recent_sums", recent)):
        weight = array[WEIGHT]
        a.require(weight == 0.0 or weight > LEAST_WEIGHT, name, f"has the weight {weight}")
    a.require(unit[0] > 0.0, "unit", "is not above 0")
    ring = a.take("ring", fresh.ring, None, N_RING)
    if "probabilities" in a.state:  # which older states lack
        p = a.take("probabilities", fresh.probabilities, len(ring), min(k, evaluation.n_ranked))
        a.finite("probabilities", p[~np.isnan(p[:, :1]).any(axis=1)])  # labels of before may be without
    if classes:
        there = ring[ring[:, R_WEIGHT] != 0.0]
        a.whole("ring", there[:, R_LABEL], 0, k - 1, "classes")
        a.whole("ring", there[:, R_PREDICTION], -1, k - 1, "classes")
        a.require(not np.isnan(there[:, R_WEIGHT]).any(), "ring", "has weights that are none")
