"""Kernels that have to be compiled: told to whoever waits, and compiled by several processes at once.

The first start after an installation waits for that, and the user is told why (app.cli.terminal.progress).
"""

import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from multiprocessing import connection
from typing import Any

BEGINNING = "compiling kernels"  # beginning of the sentence, whatever becomes of the kernels
SENTENCE = f"{BEGINNING}, which are kept: the next start is quicker"
MOST_PROCESSES = 8  # each takes some 300 MB
LOOK_SECONDS = 0.1


def sentence() -> str:
    """What is said where kernels are compiled."""
    from riparian.models.kernels.cache import kept_in

    lost = kept_in().lost
    return SENTENCE if lost is None else f"{BEGINNING}: {lost}; set NUMBA_CACHE_DIR to a folder that stays"


def watch(on_progress: Callable[[int], None]) -> Callable[[], None]:
    """Call `on_progress` with 1 when a kernel's compilation begins, and with -1 when it ends, from now on. Kernels
    loaded from the cache do not count. Returns a function that stops it."""
    from numba.core import event

    class Listener(event.Listener):  # type: ignore[misc]
        def on_start(self, _: Any) -> None:
            on_progress(1)

        def on_end(self, _: Any) -> None:
            on_progress(-1)

    listener = Listener()
    event.register("numba:compile", listener)
    return lambda: event.unregister("numba:compile", listener)


def call(function: Callable[[], None], on_progress: Callable[[int, int], None] | None = None) -> None:
    """Call a function, of which kernels that it lacks are compiled before by processes of their own.

    Parameters
    ----------
    function : of a module, or a partial of one. What it has made is good for nothing: it may have been called with
        kernels that do nothing.
    on_progress : called now and then with how many kernels are done, and of how many; of 0 until that is known.
    """
    from riparian.models.kernels.cache import NotCompiledError, compile_none

    try:
        with compile_none():
            function()
    except NotCompiledError:
        _compile(function, on_progress or (lambda done, total: None))
        function()  # what they have left is compiled here


def _compile(function: Callable[[], None], on_progress: Callable[[int, int], None]) -> None:
    from riparian.models.kernels.threads import n_cores

    context = multiprocessing.get_context("spawn")  # app/evaluation/pool.py says why
    taken, done, total = (context.Value("q", 0) for _ in range(3))
    n = min(n_cores(), MOST_PROCESSES)
    processes = [context.Process(target=_work, args=(function, taken, done, total)) for _ in range(n)]
    try:
        for process in processes:
            process.start()
        while any(process.is_alive() for process in processes):
            on_progress(done.value, total.value)
            time.sleep(LOOK_SECONDS)
    finally:
        for process in processes:
            if process.pid is not None:
                process.terminate()
                process.join()


def _work(function: Callable[[], None], taken: Any, done: Any, total: Any) -> None:
    """In a process: all find the same kernels, and each takes the next one that nobody has taken."""
    from riparian.models.kernels.cache import kernels_of

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's
    warnings.simplefilter("ignore")  # kernels that run in Python overflow as they do elsewhere, and that is said there
    threading.Thread(target=end_with_parent, daemon=True).start()
    found = kernels_of(function)
    lacking = [not kernel._cache.has(sig, kernel.targetctx) for kernel, sig in found]
    with total.get_lock():
        total.value = total.value or sum(lacking)  # as it was before any was compiled
    while (i := _next(taken)) < len(found):
        kernel, sig = found[i]
        if not kernel._cache.has(sig, kernel.targetctx):
            kernel.compile(sig)
            _next(done)


def _next(counter: Any) -> int:
    with counter.get_lock():
        found: int = counter.value
        counter.value += 1
    return found


def end_with_parent() -> None:
    """In a thread of a process: end it when its parent ends, however that does."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
