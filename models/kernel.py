"""The one kernel decorator, and where compiled kernels are kept.

`nogil`: kernels run off the event loop, and heartbeats go on. `error_model="numpy"`: a division by zero is a
value, never an exception that leaves a kernel half way through a mutation. No `fastmath` (it makes `isnan(nan)`
false), no `parallel` (its sums change with the number of threads): training is deterministic, bit for bit.

Compiled kernels are cached in a folder named after a hash of all sources in this package: numba itself looks only at
the module of the outermost kernel, and would go on using what it compiled of the others before they were edited.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba


def _cache_dir() -> Path:
    """Below $NUMBA_CACHE_DIR, or else the user's cache folder."""
    package = Path(__file__).parent
    digest = hashlib.blake2b(numba.__version__.encode(), digest_size=8)
    for source in sorted(package.rglob("*.py")):
        digest.update(source.relative_to(package).as_posix().encode())
        digest.update(source.read_bytes())
    base = os.environ.get("NUMBA_CACHE_DIR")
    root = Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "riparian"
    return root / f"kernels-{digest.hexdigest()}"


numba.config.CACHE_DIR = str(_cache_dir())


def kernel(function: Callable[..., Any] | None = None, *, inline: bool = False) -> Any:
    """Compile `function` lazily, once per signature, and cache it.

    inline : make it part of the kernels that call it; for the small ones that run several times an instance.
    """
    if function is None:
        return lambda f: kernel(f, inline=inline)
    return numba.njit(nogil=True, error_model="numpy", cache=True, forceinline=inline)(function)
