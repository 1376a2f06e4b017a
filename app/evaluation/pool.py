"""Work on all cores, in processes that never outlive their parent.

Processes are started afresh (spawn): a forked copy of a process with threads (rich and numba have some) can hang for
ever. Ctrl-C reaches the parent only, which ends the others; where the parent is killed, they notice and end themselves.
"""

import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from riparian.app.compiling import end_with_parent, watch
from riparian.app.errors import RiparianError
from riparian.models.kernels.threads import CREW, n_cores

LOOK_SECONDS = 0.2  # time between two looks at the progress, s

Task = TypeVar("Task")
Result = TypeVar("Result")

_done: Any = None  # in a process of the pool: the counter that all share


class Pool:
    """Processes for tasks.

    Parameters
    ----------
    jobs : int
        Processes.
    on_progress : callable, optional
        Told the sum of what tasks gave to `advance`, now and then.
    on_compiling : callable, optional
        Told how many kernels the processes are compiling, now and then.
    """

    def __init__(
        self,
        jobs: int,
        on_progress: Callable[[int], None] | None = None,
        on_compiling: Callable[[int], None] | None = None,
    ) -> None:
        context = multiprocessing.get_context("spawn")
        done, compiling = context.Value("q", 0), context.Value("q", 0)
        self._callbacks = ((done, on_progress), (compiling, on_compiling))
        self._others = set(multiprocessing.active_children())
        self._executor = ProcessPoolExecutor(jobs, context, _begin, (done, compiling, jobs))

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            for process in set(multiprocessing.active_children()) - self._others:
                process.terminate()
        self._executor.shutdown(wait=True, cancel_futures=True)

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """`function`, a module's own, of each task; the first error of any ends it."""
        try:
            with _interrupted_between() as look:
                with _uninterrupted():
                    futures = [self._executor.submit(function, task) for task in tasks]
                left = set(futures)
                while left:
                    look()
                    done, left = wait(left, LOOK_SECONDS, FIRST_EXCEPTION)
                    for future in done:
                        future.result()
                    for counter, callback in self._callbacks:
                        if callback is not None:
                            callback(counter.value)
            return [future.result() for future in futures]
        except BrokenProcessPool:
            raise RiparianError(
                "a process of the evaluation was ended from outside, perhaps for lack of memory: use fewer --jobs"
            ) from None


def advance(n: int) -> None:
    """In a task: so much more is done."""
    _add(_done, n)


def _add(counter: Any, n: int) -> None:
    with counter.get_lock():
        counter.value += n


def _begin(done: Any, compiling: Any, jobs: int) -> None:
    global _done
    _done = done
    CREW.n = max(1, n_cores() // jobs)  # the other processes have the other cores
    watch(partial(_add, compiling))
    threading.Thread(target=end_with_parent, daemon=True).start()


@contextmanager
def _interrupted_between() -> Iterator[Callable[[], None]]:
    """Ctrl-C is an interrupt where `look` is called, and nowhere else: one that comes while `wait` takes the futures'
    locks would leave some of them taken, and the executor would wait for them for ever."""
    came: list[int] = []

    def look() -> None:
        if came:
            raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):  # never interrupted
        yield look
        return
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield look
        look()
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Processes that are started here never see Ctrl-C."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
