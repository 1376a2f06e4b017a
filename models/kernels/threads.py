"""Threads that learners of a process share: their kernels release the GIL."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import cache
from itertools import chain
from math import ceil
from pathlib import Path
from threading import Condition

WORTH_A_THREAD = 64  # operations of a program: fewer are run sooner than handed over


def n_cores() -> int:
    """Cores that this process may use: those that it may run on, or fewer where a container may use less of their
    time."""
    if hasattr(os, "process_cpu_count"):  # from Python 3.13 on; minds PYTHON_CPU_COUNT
        there = os.process_cpu_count() or 1
    else:
        there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    granted = quota(Path("/sys/fs/cgroup"), Path("/proc/self/cgroup"))
    return there if granted is None else max(1, min(there, ceil(granted)))


def quota(root: Path, own: Path) -> float | None:
    """Cores' worth of time that the control groups of this process have, the least of them and of those above; None
    without a bound. root : where they are mounted. own : which they are."""
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return None
    found, names = [], tuple[str, ...]()
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if controllers == "":  # version 2
            mount, names = root, ("cpu.max",)
        elif "cpu" in controllers.split(","):
            mount, names = root / controllers, ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            mount = mount if mount.is_dir() else root / "cpu"
        else:
            continue
        inside = mount / path.lstrip("/")  # of the host, where a container sees its own group as the root
        for folder in (inside, *inside.parents):
            with suppress(OSError, ValueError):
                allowed, period = " ".join((folder / name).read_text() for name in names).split()
                if allowed not in ("max", "-1"):
                    found.append(int(allowed) / int(period))
            if folder == mount:
                break
    return min(found, default=None)


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
    """Threads of this process, made at the first call."""
    return ThreadPoolExecutor(threads, thread_name_prefix="members")
