"""Texts that a kernel has found in records, compared with those that are known: their codes, with no object a text.

`columns` imports this module, and with it numba, when it is given such texts.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.models.kernels.kernel import kernel
from riparian.topics.slices import Texts

MOST = 4096  # texts for which a table is made each time


def codes(texts: Texts, known: Sequence[str]) -> NDArray[np.float64] | None:
    """The place of each text among those that are known; None where one is not, or too many are."""
    if len(known) > min(MOST, max(64, len(texts))):
        return None
    table = [text.encode("utf-8", "surrogatepass") for text in known]
    ends = np.cumsum([len(text) for text in table], dtype=np.int64)
    found = np.empty(len(texts))
    data, names = np.frombuffer(texts.data, np.uint8), np.frombuffer(b"".join(table) + b"\0", np.uint8)
    slots = np.zeros(1 << (2 * len(known)).bit_length(), np.int64)
    return found if find(data, texts.starts, texts.stops, names, ends, slots, found) else None


def warm_up() -> None:
    """Compile the kernel, or load it from the cache."""
    codes(Texts(b"a", np.zeros(1, np.int64), np.ones(1, np.int64)), ["a"])


@kernel(inline=True)
def _hash(data, start, length):  # type: ignore[no-untyped-def]
    """FNV-1a."""
    found = np.uint64(0xCBF29CE484222325)
    for j in range(np.uint64(length)):
        found = (found ^ np.uint64(data[start + j])) * np.uint64(0x100000001B3)
    return found ^ (found >> np.uint64(32))


@kernel
def find(data: Any, starts: Any, stops: Any, names: Any, ends: Any, slots: Any, found: Any) -> Any:
    """Write the number of the name that each text is, by a hash table; False where one is none.

    data, starts, stops : of the texts. names, ends : those that are known, and where each ends. slots : zeros, a power
    of two of them, at least twice the names. found : (n,) float64
    """
    mask, begin = np.uint64(len(slots) - 1), np.uint64(0)
    for k in range(len(ends)):
        at = _hash(names, begin, np.uint64(ends[k]) - begin) & mask
        while slots[at] != 0:
            at = (at + np.uint64(1)) & mask
        slots[at] = k + 1
        begin = np.uint64(ends[k])
    for i in range(len(starts)):
        start, length = np.uint64(starts[i]), np.uint64(stops[i] - starts[i])
        at, met = _hash(data, start, length) & mask, False
        while slots[at] != 0 and not met:
            k = slots[at] - 1
            begin = np.uint64(ends[k - 1]) if k > 0 else np.uint64(0)
            if np.uint64(ends[k]) - begin == length:
                j = np.uint64(0)
                while j < length and data[start + j] == names[begin + j]:
                    j += np.uint64(1)
                if j == length:
                    found[i] = np.float64(k)
                    met = True
            at = (at + np.uint64(1)) & mask
        if not met:
            return False
    return True
