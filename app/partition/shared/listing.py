"""Codes as a record of the log has them: numbers among the values that stand in it. Pure."""

from collections.abc import Sequence

import numpy as np

from riparian.models.contract import Floats
from riparian.models.kernels.kernel import kernel
from riparian.topics.vocabulary import Scalar, Vocabulary


@kernel
def _renumber(columns, at, ends, numbers):  # type: ignore[no-untyped-def]
    """Number codes in some columns anew. at : (k,) which. ends : (k + 1,) where the codes of each stand in numbers,
    which gets the new number of each code, -1 of one that no row has. Mutates columns and numbers. O(k n + codes)."""
    numbers[:] = -1
    for k in range(len(at)):
        j, start = at[k], ends[k]
        for i in range(len(columns)):
            if columns[i, j] == columns[i, j]:
                numbers[start + int(columns[i, j])] = 0
        n = 0
        for place in range(start, ends[k + 1]):
            if numbers[place] == 0:
                numbers[place] = n
                n += 1
        for i in range(len(columns)):
            if columns[i, j] == columns[i, j]:
                columns[i, j] = numbers[start + int(columns[i, j])]


def list_values(columns: Floats, vocabularies: Sequence[Vocabulary | None]) -> list[list[Scalar] | None]:
    """Number the codes in each column anew, by those that it has. Mutates (n, d) columns; of each the values in order
    of their numbers, None where there is no vocabulary."""
    found: list[list[Scalar] | None] = [None] * len(vocabularies)
    known = [(j, one) for j, one in enumerate(vocabularies) if one is not None]
    if known:
        ends = np.array([0, *(len(one) for _, one in known)]).cumsum()
        numbers = np.empty(ends[-1], np.int64)
        _renumber(columns, np.array([j for j, _ in known]), ends, numbers)
        there = (numbers >= 0).tolist()
        for (j, one), end in zip(known, ends[1:].tolist(), strict=True):
            found[j] = [value for value, used in zip(one.values, there[end - len(one) : end], strict=True) if used]
    return found


def warm_up() -> None:
    """Compile the kernel, or load it from the cache."""
    _renumber(np.zeros((0, 1)), np.zeros(1, np.int64), np.zeros(2, np.int64), np.zeros(0, np.int64))
