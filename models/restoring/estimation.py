"""Rule of the estimated accuracy. Nothing is indexed by its sums: they only have to be sums."""

from typing import Any

from models.restoring.arrays import Arrays


def check(a: Arrays, estimation: Any) -> None:
    for name, array in zip(("bins", "totals"), a.fields(estimation.state(), "bins", "totals"), strict=True):
        a.finite(name, array)
        a.require((array >= 0.0).all(), name, "has numbers below 0")
