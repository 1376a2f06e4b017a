"""Threads that learners of a process share: their kernels release the GIL."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import chain
from threading import Condition

WORTH_A_THREAD = 64  # operations of a program: fewer are run sooner than handed over


def n_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def share(threads: int, n: int, run: Callable[[int], None]) -> None:
    """Call run(0) … run(n - 1), once each, on so many threads, of which this is one: each thread begins with a part of
    the numbers that is the same each time, since what it left in its cache belongs to them, and then helps the others.
    Raises what a call raised, after all of them."""
    threads = max(1, min(threads, n))
    if threads == 1:
        for i in range(n):
            run(i)
        return
    left = dict.fromkeys(range(n), True)

    def work(thread: int) -> None:
        first = thread * n // threads
        for i in chain(range(first, n), range(first)):
            if left.pop(i, False):  # one thread at a time, under the GIL
                run(i)

    helpers = [_pool(threads).submit(work, thread) for thread in range(1, threads)]
    try:
        work(0)
    finally:
        begun = [helper for helper in helpers if not helper.cancel()]
        wait(begun)
    for helper in begun:
        helper.result()


def pass_on(threads: int, n: int, n_stages: int, under_way: int, run: Callable[[int, int], None]) -> None:
    """Call run(item, stage) for stages 0 … n_stages - 1 of items 0 … n - 1, once each: a stage of an item after its
    stage before, and after the same stage of the item before. As `share`: each thread has a part of the stages, and
    takes others' where none of its own is ready. under_way : most items that are begun and not ended, >= 1."""
    behind, running = [0] * n, [False] * n  # stages that an item has behind it; whether it is in one
    oldest, failed = 0, False  # item that has not ended; whether a call raised
    changed = Condition()

    def ready(thread: int) -> int | None:
        """The oldest item that is ready for a stage of this thread, or else for any."""
        other = None
        for item in range(oldest, min(oldest + under_way, n)):
            stage = behind[item]
            if running[item] or stage == n_stages or (item > oldest and behind[item - 1] <= stage):
                continue
            if stage * threads // n_stages == thread:
                return item
            other = item if other is None else other
        return other

    def work(thread: int) -> None:
        nonlocal oldest, failed
        with changed:
            while oldest < n and not failed:
                item = ready(thread)
                if item is None:
                    changed.wait()
                    continue
                running[item] = True
                changed.release()
                raised = True
                try:
                    run(item, behind[item])
                    raised = False
                finally:
                    changed.acquire()
                    running[item], failed = False, failed or raised
                    changed.notify_all()
                behind[item] += 1
                while oldest < n and behind[oldest] == n_stages:
                    oldest += 1

    share(threads, threads, work)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """The same one each time it is asked for."""
    return ThreadPoolExecutor(threads, thread_name_prefix="members")
