"""What a command shows while it works, on standard error: a bar where that is a terminal, and anywhere that kernels are
being compiled. Otherwise the first start after an installation, which compiles for up to a minute, would look as if it
hung.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from riparian.app.cli.terminal.messages import show
from riparian.app.compiling import sentence, watch

SLOW_SECONDS = 2.0  # time until compiling, or work without a known end, is shown, s
AGAIN_SECONDS = 5.0  # time between two lines on progress, s
PAUSE_SECONDS = 1.0  # longest time between two kernels, s; after it compiling has ended
LOOK_SECONDS = 0.2


class Work:
    """Is called with the amount of work that is done and, where it changes, with the total. shown : makes the bars, and
    the one of this work."""

    def __init__(self, what: str, shown: Callable[[], tuple[Any, Any]]) -> None:
        self._here = self._elsewhere = 0  # kernels being compiled, in this process and in others
        self._kernels = 0, 0  # done, and how many there are, where that is known
        self._what, self._shown = what, shown

    def __call__(self, done: int, total: int | None = None) -> None:
        bars, bar = self._shown()
        bars.update(bar, completed=done, **({} if total is None else {"total": total}))

    def here(self, change: int) -> None:
        """Of the kernels that this process compiles: one more, or one less."""
        self._here += change

    def elsewhere(self, n: int) -> None:
        """So many kernels are being compiled by other processes."""
        self._elsewhere = n

    def kernels(self, done: int, total: int) -> None:
        """Other processes have compiled so many kernels, of so many; of none, while they look for them."""
        self._kernels = done, total
        self._elsewhere = int(done < total or not total)

    def compiling(self) -> str:
        """How far it is."""
        done, total = self._kernels
        return f"compiling kernel {min(done + 1, total)} of {total}" if total else "compiling kernels"

    def watch(self, ended: threading.Event, late: bool) -> None:
        """Say that kernels are being compiled, once that has taken `SLOW_SECONDS`. late : begin the bar then, too."""
        began = time.monotonic()
        since = last = 0.0
        was_slow, line, next_line = False, "", 0.0
        while not ended.wait(LOOK_SECONDS):
            now = time.monotonic()
            if self._here + self._elsewhere > 0:
                since, last = since or now, now
            elif now - last > PAUSE_SECONDS:
                since = 0.0
            slow = since > 0.0 and now - since > SLOW_SECONDS
            due = slow or (late and now - began > SLOW_SECONDS)
            if not due and not was_slow:
                continue
            bars, bar = self._shown()
            if bars.console.is_terminal:
                bars.update(bar, description=f"{self._what}: {self.compiling()}" if slow else self._what)
                if due:
                    bars.start()
            elif slow and not line:
                line, next_line = sentence(), now + AGAIN_SECONDS
                show(f"{line} …")
            elif slow and now > next_line and self._kernels[1] and line != self.compiling():
                line, next_line = self.compiling(), now + AGAIN_SECONDS
                show(line)
            was_slow = slow


@contextmanager
def progress(what: str, total: int | None = None, *, only_compiling: bool = False) -> Iterator[Work]:
    """A bar over some work, at once where its total is known, else if it takes a while; yields what is told how much
    is done.

    only_compiling : nothing is shown, unless kernels are compiled.
    """
    lock, made = threading.Lock(), list[tuple[Any, Any]]()

    def shown() -> tuple[Any, Any]:
        with lock:
            if not made:
                made.append(make())
            return made[0]

    def make() -> tuple[Any, Any]:
        from rich.console import Console  # a start that compiles nothing does not wait for it
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        errors = Console(stderr=True)
        amount = () if only_compiling else (MofNCompleteColumn(), TimeRemainingColumn())
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), *amount)
        bars = Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal)
        return bars, bars.add_task(what, total=total)

    def stop() -> None:
        for bars, _ in made:
            bars.stop()

    work, ended = Work(what, shown), threading.Event()
    watcher = threading.Thread(target=work.watch, args=(ended, not only_compiling), daemon=True)
    with ExitStack() as stack:
        stack.callback(stop)
        if total is not None:
            shown()[0].start()
        if "numba" in sys.modules:
            stack.callback(watch(work.here))
        watcher.start()
        stack.callback(watcher.join)
        stack.callback(ended.set)
        yield work
