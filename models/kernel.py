"""The one kernel decorator, what a kernel returns, and where compiled kernels are kept.

`nogil`: kernels run off the event loop, and heartbeats go on. `error_model="numpy"`: a division by zero is a
value, never an exception that leaves a kernel half way through a mutation. No `fastmath` (it makes `isnan(nan)`
false), no `parallel` (its sums change with the number of threads): training is deterministic, bit for bit.

References to arrays are not counted, unless a kernel allocates: the Python caller holds all arrays while a kernel runs.
Counting is an atomic addition for each array of a tuple that is handed on, and was two thirds of the time of a
stochastic gradient tree. What needs it does not compile ("NRT required but not enabled"): write the loop, or say
`allocates`. No kernel returns an array.

Compiled kernels are cached in a folder named after a hash of their module's source and of all that it imports: numba
itself looks only at the module of the outermost kernel, and would go on using what it compiled of the others before
they were edited. A family of learners is compiled anew only when something that it is made of has changed. The folder
stands for the path and the time of the source file, by which numba tells files apart: so all checkouts of a user share
what one of them has compiled.

One process at a time compiles a kernel, or looks for it in the cache: who comes second finds what the first has
compiled. And numba's index of a kernel's variants has no lock of its own: two processes that add one each may give both
the same file, and the index then leads to the other variant's machine code.
"""

import fcntl
import hashlib
import importlib
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import IndexDataCacheFile
from numba.core.compiler_lock import global_compiler_lock

# What a kernel returns: all is done; or it needs room, and nothing has happened that calling it again would repeat:
# make room and call again. A family may have further ones, from 2 on.
DONE, GROW = 0, 1

PATIENCE_SECONDS = 120.0  # how long a process waits for another one's kernel: that one may have been stopped
ROOT = Path(__file__).resolve().parents[1]
NAMES_ALL = (
    b"models.registry"  # it names every learner; no kernel is made of it, and it would tie each to all the others
)
IMPORT = re.compile(rb"^[ \t]*(?:from|import)[ \t]+(models(?:\.\w+)*)", re.MULTILINE)


@cache
def _imports(source: Path) -> frozenset[Path]:
    """The files of this package that one file imports, the registry apart; all of a folder where it imports from a
    folder."""
    found: set[Path] = set()
    for name in set(IMPORT.findall(source.read_bytes())) - {NAMES_ALL}:
        path = ROOT.joinpath(*name.decode().split("."))
        found.update(path.glob("*.py") if path.is_dir() else [path.with_suffix(".py")])
    return frozenset(found)


@cache
def _cache_dir(source: Path) -> str:
    """Of the kernels of one file: below $NUMBA_CACHE_DIR, or else the user's cache folder."""
    known: set[Path] = set()
    new = {source}
    while new:
        known |= new
        new = {imported for file in new for imported in _imports(file)} - known
    digest = hashlib.blake2b(f"{numba.__version__} {source.parent.name}/{source.name}".encode(), digest_size=8)
    for file in sorted(known):
        digest.update(file.stem.encode())
        digest.update(file.read_bytes())
    base = os.environ.get("NUMBA_CACHE_DIR")
    root = Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "riparian"
    return str(root / f"kernels-{digest.hexdigest()}")


@contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Hold an exclusive lock on a file, which ends with its holder at the latest; False if it did not come in time."""
    held, deadline = False, time.monotonic() + PATIENCE_SECONDS
    with ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(path.open("w"))
            while not held and time.monotonic() < deadline:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    held = True
                except BlockingIOError:
                    time.sleep(0.02)
        except OSError:  # another user's file, or a file system without locks: go on as numba does
            held = True
        yield held


def _wherever_it_stands(dispatcher: Any, folder: str) -> Any:
    """Look for the machine code of a kernel in `folder` itself, whatever the path and the time of its source file."""
    cache = dispatcher._cache
    cache._cache_path = folder
    cache._cache_file = IndexDataCacheFile(folder, cache._impl.filename_base, Path(folder).name)
    return dispatcher


@cache
def _without_blas() -> None:
    """Load numba's array functions without SciPy's linear algebra: where SciPy is installed they look for it, a quarter
    of a second of every start, for covariances, which no kernel calls."""
    linalg: Any = importlib.import_module("numba.np.linalg")
    found, linalg.ensure_blas = linalg.ensure_blas, _no_blas
    try:
        importlib.import_module("numba.np.arraymath")
    finally:
        linalg.ensure_blas = found


def _no_blas() -> None:
    raise ImportError


def _one_at_a_time(dispatcher: Any) -> Any:
    """Let no other process compile, load or save this kernel at the same time."""
    compile_one, function = dispatcher.compile, dispatcher.py_func
    name = f"{function.__module__}.{function.__qualname__}-{function.__code__.co_firstlineno}.lock"
    path = Path(dispatcher.stats.cache_path) / name
    inside = False

    def compile_alone(sig: Any) -> Any:
        nonlocal inside
        _without_blas()
        # Threads first, then processes: a thread that waits for the file lets no other one of its process hold it.
        with global_compiler_lock:
            if inside or sig in dispatcher.overloads:
                return compile_one(sig)
            with _alone(path) as alone:
                inside = True
                if not alone:
                    dispatcher._cache.disable()
                try:
                    return compile_one(sig)
                finally:
                    inside = False
                    dispatcher._cache.enable()

    dispatcher.compile = compile_alone
    return dispatcher


def kernel(function: Callable[..., Any] | None = None, *, inline: bool = False, allocates: bool = False) -> Any:
    """Compile `function` lazily, once per signature, and cache it.

    inline : make it part of the kernels that call it; for the small ones that run several times an instance.
    allocates : it makes arrays of its own (`np.empty`, a sum of arrays, one slice assigned to another).
    """
    if function is None:
        return lambda f: kernel(f, inline=inline, allocates=allocates)
    # numba reads its setting when it is handed the function
    folder = _cache_dir(Path(function.__code__.co_filename).resolve())
    before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, folder
    try:
        jit = numba.njit(nogil=True, error_model="numpy", cache=True, forceinline=inline, _nrt=allocates)
        return function if numba.config.DISABLE_JIT else _one_at_a_time(_wherever_it_stands(jit(function), folder))
    finally:
        numba.config.CACHE_DIR = before
