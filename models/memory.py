"""What a learner takes in memory, beside what of it is stored.

`Learner.n_bytes` is the size of its state, which several learners pack: used rows of arrays that have room for more, a
tree as its tests and leaves alone. While a learner works it holds whole arrays, with their room to grow, and what
kernels write into on their way, which an ensemble has for each member.
"""

from collections import deque
from typing import Any

import numpy as np

from riparian.models.contract import Learner

PACKAGE = __name__.rpartition(".")[0] + "."


def live_bytes(learner: Learner) -> int:
    """Bytes of all arrays that a learner holds, each buffer once, however many views there are of it.

    Python objects around the arrays are not counted, nor are fits that other processes work at. Of a model of another
    library all that is known is its pickle (models/adapter): the result is never less than `n_bytes`.
    """
    buffers: dict[int, int] = {}
    seen: set[int] = set()
    todo: list[Any] = [learner]
    while todo:
        item = todo.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, np.ndarray):
            while isinstance(item.base, np.ndarray):
                item = item.base
            buffers[id(item)] = item.nbytes
        elif isinstance(item, list | tuple | set | frozenset | deque):
            todo.extend(item)
        elif isinstance(item, dict):
            todo.extend(item.values())
        elif type(item).__module__.startswith(PACKAGE):
            todo.extend(getattr(item, "__dict__", {}).values())
    return max(sum(buffers.values()), learner.n_bytes)
