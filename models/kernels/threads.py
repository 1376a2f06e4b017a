"""Threads of a process, as many as it has cores, that run parts of learners' steps: kernels release the GIL.

A step is shared out where its parts take long enough, by what they have taken so far (`Parts`), and by whoever calls
and the threads of the one `CREW`, which never are more at work than there are cores. Nobody sets any of this.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain
from math import ceil
from pathlib import Path
from threading import Condition
from time import perf_counter, thread_time

# Operations and seconds of a step: less is run sooner than handed over, and with less processor time. Seconds that a
# thread takes at once: for less, threads wait for each other, between kernels, longer than these take.
LEAST, WORTH, PIECE = 16, 2500e-6, 500e-6
FADING = 0.25  # weight of a step in what the next is taken to take


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


_HERE = threading.local()


def busy_time() -> float:
    """Seconds that this thread was kept, from any moment on: its processor time, and what it has waited for parts of
    its steps that other threads ran. So a step that is shared out takes as long as its caller has it."""
    return thread_time() + getattr(_HERE, "waited", 0.0)


def _wait(changed: Condition) -> None:
    """For others, as `busy_time` counts it."""
    began = perf_counter()
    try:
        changed.wait()
    finally:
        _HERE.waited = getattr(_HERE, "waited", 0.0) + perf_counter() - began


class _Job:
    """Parts of a step. above : the job whose part was divided into these."""

    def __init__(
        self, order: Sequence[int], run: Callable[[int], None], spread: bool, above: "_Job | None", lock: threading.Lock
    ) -> None:
        self.order, self.run, self.spread, self.above = order, run, spread, above
        self.left = dict.fromkeys(order, True)
        self.running = 0
        self.failure: BaseException | None = None
        self.changed = Condition(lock)
        self._taking: dict[int, Iterator[int]] = {}

    def take(self, share: float) -> int:
        """A part that nobody has taken. share : of the order, where this thread begins."""
        first = int(share * len(self.order)) if self.spread else 0
        if first not in self._taking:
            self._taking[first] = chain(self.order[first:], self.order[:first])
        return next(part for part in self._taking[first] if self.left.pop(part, False))

    def above_it(self) -> Iterator["_Job"]:
        above = self.above
        while above is not None:
            yield above
            above = above.above


class Crew:
    """Threads that help each other.

    Whoever shares something out runs parts of it, and so do helpers while fewer than `n` threads are at work, whoever
    has called them: partitions of a worker that learn at the same time do not want more cores than there are. A part
    may be shared out again. Who waits for others' parts runs what these have shared out, and nothing else: so no thread
    waits for one that waits for it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards all below, and all of the jobs
        self._idle = Condition(self._lock)
        self._jobs: list[_Job] = []  # with parts that nobody has taken, the oldest first
        self._at_work = self._helpers = self._free = 0
        self._here = threading.local()

    @cached_property
    def n(self) -> int:
        """Threads at work at a time, those that share out among them."""
        return n_cores()

    def share(self, order: Sequence[int], run: Callable[[int], None], spread: bool = True) -> None:
        """Call run(part) for each part of `order`, once. Raises what a call raised, after all that had begun.

        spread : a thread begins at a place of the order that is the same each time, since what it left in its cache
        belongs to it, and then helps the others. Otherwise all take the next one, so the longest ought to be the first.
        """
        if self.n == 1 or len(order) < 2:
            for part in order:
                run(part)
            return
        above = getattr(self._here, "job", None)
        job = _Job(order, run, spread, above, self._lock)
        with self._lock:
            self._at_work += above is None
            self._jobs.append(job)
            try:
                self._call(len(order) - 1)
                for waits in job.above_it():
                    waits.changed.notify()
                self._run_all(job)
            except BaseException as failure:  # an interrupt
                self._fail(job, failure)
                self._run_all(job)
            finally:
                self._at_work -= above is None
                self._call(1)
        if job.failure is not None:
            raise job.failure

    def _run_all(self, job: _Job) -> None:
        """What is left of a job, and wait for what others run of it."""
        while job.left or job.running:
            if job.left:
                self._run(job, 0.0)
            elif below := [one for one in self._jobs if job in one.above_it()]:
                self._run(below[0], 0.5)
            else:
                self._at_work -= 1
                try:
                    self._call(1)
                    _wait(job.changed)
                finally:
                    self._at_work += 1

    def _fail(self, job: _Job, failure: BaseException) -> None:
        """No part of a job is begun any more."""
        job.failure = failure
        if job.left:
            job.left.clear()
            self._jobs.remove(job)

    def _run(self, job: _Job, share: float) -> None:
        """A part of a job that has one, without the lock."""
        part = job.take(share)
        if not job.left:
            self._jobs.remove(job)
        job.running += 1
        failed: BaseException | None = None
        before, self._here.job = getattr(self._here, "job", None), job
        self._lock.release()
        try:
            job.run(part)
        except BaseException as failure:
            failed = failure
        finally:
            self._lock.acquire()
            self._here.job = before
            job.running -= 1
        if failed is not None:
            self._fail(job, failed)
        if not (job.left or job.running):
            job.changed.notify()

    def _call(self, most: int) -> None:
        """Helpers, where there is something to do, and fewer are at work than may be. A system that has no more threads
        is as one that has fewer cores."""
        wanted = min(most, self.n - self._at_work) if self._jobs else 0
        if wanted > 0:
            self._idle.notify(wanted)
        for _ in range(min(wanted - self._free, self.n - 1 - self._helpers)):
            self._helpers += 1
            name = f"members-{self._helpers}"
            helper = threading.Thread(target=self._help, args=(self._helpers / self.n,), name=name, daemon=True)
            try:
                helper.start()
            except RuntimeError:  # can't start new thread
                self._helpers -= 1
                return

    def _help(self, share: float) -> None:
        with self._lock:
            while True:
                if self._jobs and self._at_work < self.n:
                    self._at_work += 1
                    self._run(self._jobs[0], share)
                    self._at_work -= 1
                else:
                    self._free += 1
                    self._idle.wait()
                    self._free -= 1


CREW = Crew()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=CREW.__init__)  # type: ignore[misc]  # it has none of these threads


class Parts:
    """What the parts of a learner's steps have taken so far, and so whether and how the next step is shared out.

    No state: which thread runs a part changes no bit. even : whether parts take about as long as each other.
    """

    def __init__(self, even: bool = True) -> None:
        self._even = even
        self._each: list[float] = []  # seconds an operation
        self._all = 0.0

    def worth(self, n_ops: int) -> bool:
        """Whether a step of so many operations is shared out."""
        return CREW.n > 1 and n_ops >= LEAST and n_ops * self._all >= WORTH

    def run(self, n_ops: int, n_parts: int, run: Callable[[int, int], None]) -> None:
        """Call run(first, last) for parts 0 .. n_parts - 1: for all at once, or for some after the other, on several
        threads where that pays."""
        if n_parts > 1 and self.worth(n_ops):
            self._share(n_ops, n_parts, run)
        else:
            self.alone(n_ops, lambda: run(0, n_parts))

    def alone(self, n_ops: int, run: Callable[[], None]) -> None:
        """Call `run`, and note what it takes."""
        if n_ops < LEAST or CREW.n == 1:
            run()
            return
        # Whoever waits for a core takes longer by the clock. A look at that of the thread takes fifteen times as long,
        # but is nothing to a step that comes near to being shared out: none is shared out for its waiting.
        clock = thread_time if n_ops * self._all > WORTH / 2 else perf_counter
        began = clock()
        run()
        self._all = _faded(self._all, (clock() - began) / n_ops)

    def _share(self, n_ops: int, n_parts: int, run: Callable[[int, int], None]) -> None:
        if not self._even:
            self._each = (self._each + [0.0] * n_parts)[:n_parts]
        pieces, took = self._pieces(n_ops, n_parts), list[float]()

        def timed(piece: int) -> None:
            for first, last in pieces[piece]:
                began = thread_time()
                run(first, last)
                took.append((thread_time() - began) / n_ops)
                if not self._even:
                    self._each[first] = _faded(self._each[first], took[-1])

        CREW.share(range(len(pieces)), timed, self._even)
        self._all = _faded(self._all, sum(took))

    def pass_on(
        self, n_ops: int, threads: int, n: int, n_stages: int, under_way: int, run: Callable[[int, int], None]
    ) -> None:
        """`pass_on`, of a step of so many operations, and note what it takes."""
        took = list[float]()

        def timed(item: int, stage: int) -> None:
            began = thread_time()
            run(item, stage)
            took.append((thread_time() - began) / n_ops)

        pass_on(threads, n, n_stages, under_way, timed)
        self._all = _faded(self._all, sum(took))

    def _pieces(self, n_ops: int, n_parts: int) -> list[list[tuple[int, int]]]:
        """Parts that a thread takes together, as ranges: so many that they are worth it. Where parts are not even, the
        longest come first."""
        if self._even:
            k = max(2, min(n_parts, int(n_ops * self._all / PIECE)))
            return [[(n_parts * i // k, n_parts * (i + 1) // k)] for i in range(k)]
        pieces, took = list[list[tuple[int, int]]](), PIECE
        for part in sorted(range(n_parts), key=self._each.__getitem__, reverse=True):
            if took >= PIECE or self._each[part] == 0.0:
                pieces, took = [*pieces, []], 0.0
            pieces[-1].append((part, part + 1))
            took += n_ops * self._each[part]
        return pieces


def _faded(before: float, now: float) -> float:
    return before + FADING * (min(now, 2.0 * before) - before) if before > 0.0 else now


def pass_on(threads: int, n: int, n_stages: int, under_way: int, run: Callable[[int, int], None]) -> None:
    """Call run(item, stage) for stages 0 … n_stages - 1 of items 0 … n - 1, once each: a stage of an item after its
    stage before, and after the same stage of the item before. As `Crew.share`: each thread has a part of the stages,
    and takes others' where none of its own is ready. under_way : most items that are begun and not ended, >= 1."""
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
                    _wait(changed)
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

    CREW.share(range(threads), work)
