"""Tells when this process compiles kernels. The first start after an installation waits for that, up to a minute, and
the user is told why (app.cli.progress)."""

from collections.abc import Callable
from typing import Any

SENTENCE = "compiling kernels, which are kept: the next start is quicker"


def watch(told: Callable[[int], None]) -> Callable[[], None]:
    """From now on `told` is called with 1 when a kernel's compilation begins, and with -1 when it ends. Kernels loaded
    from the cache do not count. Returns a function that stops it."""
    from numba.core import event

    class Listener(event.Listener):  # type: ignore[misc]
        def on_start(self, _: Any) -> None:
            told(1)

        def on_end(self, _: Any) -> None:
            told(-1)

    listener = Listener()
    event.register("numba:compile", listener)
    return lambda: event.unregister("numba:compile", listener)
