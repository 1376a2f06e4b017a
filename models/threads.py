"""Threads that learners of a process share: their kernels release the GIL."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import chain

WORTH_A_THREAD = 64  # operations of a program: fewer are run sooner than handed over


def share(threads: int, n: int, run: Callable[[int], None]) -> None:
    """Call run(0) … run(n - 1), once each, on so many threads, of which this is one: each thread begins with a part of
    the numbers that is the same each time, since what it left in its cache belongs to them, and then helps the others.
    Raises what a call raised, after all of them."""
    threads = max(1, min(threads, n))
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


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """The same one each time it is asked for."""
    return ThreadPoolExecutor(threads, thread_name_prefix="members")
