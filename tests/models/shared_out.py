"""Steps that are shared out among threads, however little they take."""

import threading
from collections.abc import Callable

import pytest

from riparian.models.ensemble import boosting
from riparian.models.kernels import threads

SECONDS = 5.0
LEAST = 40  # operations


def share_out(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    """Let `n` threads share every step of at least LEAST operations, by its smallest parts."""
    monkeypatch.setattr(threads.CREW, "n", n)
    for name, least in (("LEAST", LEAST), ("WORTH", 0.0), ("PIECE", 1e-9)):
        monkeypatch.setattr(threads, name, least)
    monkeypatch.setattr(boosting, "LEAST_FLIGHT", LEAST)


def waiting_step(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A step of two parts. The helper's takes SECONDS by the clock, while its caller waits, and none of a processor."""
    now, crew = [100.0], threads.Crew()
    crew.n = 2
    monkeypatch.setattr(threads, "perf_counter", lambda: now[0])
    monkeypatch.setattr(threads, "thread_time", lambda: 1.0)

    def step() -> None:
        both, caller = threading.Barrier(2), threading.get_ident()

        def part(_: int) -> None:
            both.wait(timeout=30)
            while threading.get_ident() != caller:
                with crew._lock:
                    if crew._at_work == 1:
                        now[0] += SECONDS
                        return

        crew.share(range(2), part)

    return step
