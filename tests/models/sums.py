"""Sums as kernels make them: from Python 3.12 on the builtin `sum` makes up for what is rounded away."""

from collections.abc import Iterable


def added(values: Iterable[float]) -> float:
    """The values, added one after the other."""
    total = 0.0
    for value in values:
        total += value
    return total
