"""Rule of the comparison of two models. Nothing is indexed by its sums: they only have to be sums."""

from typing import Any

from models.comparison import BEGUN, SQUARES, N
from models.restoring.arrays import MANY, Arrays


def check(a: Arrays, comparison: Any) -> None:
    n, spans, scale = a.fields(comparison.state(), "n", "spans", "scale")
    a.within("n", n, 0, MANY, "counts")
    a.finite("spans", spans)
    a.finite("scale", scale)
    a.whole("spans", spans[:, N], 0, MANY, "counts")
    a.whole("spans", spans[:, BEGUN], 1, MANY, "counts")
    a.require((spans[:, SQUARES] >= 0.0).all() and (scale >= 0.0).all(), "spans or scale", "has numbers below 0")
