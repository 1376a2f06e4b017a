"""Texts that a kernel has found in records, compared with those that are known: their codes, with no object a text.

`columns` imports this module, and with it numba, when it is given such texts.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.kernel import kernel
from topics.slices import Texts

MOST = 64  # texts that are compared one after the other; a dictionary is sooner done with more


def codes(texts: Texts, known: Sequence[str]) -> NDArray[np.float64] | None:
    """The place of each text among those that are known; None where one is not, or too many are."""
    if len(known) > MOST:
        return None
    table = [text.encode("utf-8", "surrogatepass") for text in known]
    ends = np.cumsum([len(text) for text in table], dtype=np.int64)
    found = np.empty(len(texts))
    data, names = np.frombuffer(texts.data, np.uint8), np.frombuffer(b"".join(table) + b"\0", np.uint8)
    if not look_up(data, texts.starts, texts.stops, names, ends, found):
        return None
    return found


def warm_up() -> None:
    """Compile the kernel, or load it from the cache."""
    codes(Texts(b"a", np.zeros(1, np.int64), np.ones(1, np.int64)), ["a"])


@kernel
def look_up(data: Any, starts: Any, stops: Any, names: Any, ends: Any, found: Any) -> Any:
    """Write the number of the name that each text is; False where one is none.

    data, starts, stops : of the texts. names, ends : those that are known, and where each ends. found : (n,) float64
    """
    last = np.uint64(0)
    for i in range(len(starts)):
        start, length = np.uint64(starts[i]), stops[i] - starts[i]
        k = last  # texts often come again
        met = False
        for _ in range(len(ends)):
            begin = np.uint64(ends[k - np.uint64(1)]) if k > 0 else np.uint64(0)
            if np.int64(ends[k]) - np.int64(begin) == length:
                j = np.uint64(0)
                while j < np.uint64(length) and data[start + j] == names[begin + j]:
                    j += np.uint64(1)
                if j == np.uint64(length):
                    met = True
                    break
            k += np.uint64(1)
            if k == np.uint64(len(ends)):
                k = np.uint64(0)
        if not met:
            return False
        last = k
        found[i] = np.float64(k)
    return True
