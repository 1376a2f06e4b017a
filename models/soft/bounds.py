"""What bounds the memory of soft trees of fixed depth. Plain, without numba: a stream file is checked by it."""

from collections.abc import Mapping
from typing import Any

MOST_LEAVES = 2**18


def check(task: str, parameters: Mapping[str, Any]) -> None:
    """ValueError where `n_trees` trees of a `depth` are too many. task : of the learner, any."""
    n_trees, depth = parameters["n_trees"], parameters["depth"]
    if n_trees * 2**depth > MOST_LEAVES:
        raise ValueError(
            f"{n_trees} trees of depth {depth} have more than {MOST_LEAVES:,} leaves: lower 'n_trees' or 'depth'"
        )
