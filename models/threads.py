"""Threads that learners of a process share: their kernels release the GIL."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache


@cache
def pool(threads: int) -> ThreadPoolExecutor:
    """The same one each time it is asked for."""
    return ThreadPoolExecutor(threads, thread_name_prefix="members")
