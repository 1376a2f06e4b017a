"""Signals that end a command which lives long and starts processes of its own."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruptible() -> Iterator[Callable[[], None]]:
    """SIGTERM and SIGHUP end a command as Ctrl-C does; after a call of what this yields, none of them does.

    Ctrl-C is set up as well: a shell starts background commands with it ignored.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.raise_signal(signal.SIGINT)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if before[number] is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, interrupt)

    def hold() -> None:
        for number in before:
            signal.signal(number, signal.SIG_IGN)

    try:
        yield hold
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
