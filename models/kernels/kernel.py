"""The one kernel decorator, and what a kernel returns. Where compiled kernels are kept is in cache.py.

`nogil`: kernels run off the event loop, and heartbeats go on. `error_model="numpy"`: a division by zero is a
value, never an exception that leaves a kernel half way through a mutation. No `fastmath` (it makes `isnan(nan)`
false), no `parallel` (its sums change with the number of threads): training is deterministic, bit for bit.

References to arrays are not counted, unless a kernel allocates: the Python caller holds all arrays while a kernel runs.
Counting is an atomic addition for each array of a tuple that is handed on, and was two thirds of the time of a
stochastic gradient tree. What needs it does not compile ("NRT required but not enabled"): write the loop, or set
`allocates`. No kernel returns an array.
"""

import os
from collections.abc import Callable
from typing import Any

import numba

from riparian.models.kernels.cache import folder_of, kept

# What a kernel returns: all is done; or it needs room, and nothing has happened that calling it again would repeat:
# make room and call again. A family may have further ones, from 2 on.
DONE, GROW = 0, 1


def kernel(function: Callable[..., Any] | None = None, *, inline: bool = False, allocates: bool = False) -> Any:
    """Compile `function` lazily, once per signature, and keep it.

    inline : make it part of the kernels that call it; for the small ones that run several times an instance.
    allocates : it makes arrays of its own (`np.empty`, a sum of arrays, one slice assigned to another).
    """
    if function is None:
        return lambda f: kernel(f, inline=inline, allocates=allocates)
    if numba.config.DISABLE_JIT:
        return function
    jit = numba.njit(nogil=True, error_model="numpy", forceinline=inline, _nrt=allocates)
    return kept(jit(function), folder_of(os.path.realpath(function.__code__.co_filename)))
