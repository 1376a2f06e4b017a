"""The one kernel decorator.

`nogil`: kernels run off the event loop, and heartbeats go on. `error_model="numpy"`: a division by zero is a
value, never an exception that leaves a kernel half way through a mutation. No `fastmath` (it makes `isnan(nan)`
false), no `parallel` (its sums change with the number of threads): training is deterministic, bit for bit.
"""

from collections.abc import Callable
from typing import Any

import numba


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` lazily, once per signature, and cache it beside its source."""
    return numba.njit(nogil=True, error_model="numpy", cache=True)(function)
