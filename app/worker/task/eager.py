"""Coroutines that run at once up to where they have to wait: most need no task of their own."""

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any


def eagerly(coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
    """Run a coroutine now, and what is left of it, from where it waits first, in a task; None where nothing is.

    Until then `asyncio.current_task` is that of the caller, who gets what is raised; so a timeout that begins before
    the first wait would cancel the caller.
    """
    try:
        waits_for = coroutine.send(None)
    except StopIteration:
        return None
    if asyncio.isfuture(waits_for):
        waits_for._asyncio_future_blocking = False  # the mark of `await`, which the task sets when it begins to wait
    task = asyncio.create_task(_rest(coroutine, waits_for))
    task.add_done_callback(lambda _: coroutine.close())  # where it was cancelled before it went on
    return task


async def _rest(coroutine: Coroutine[Any, Any, None], waits_for: Any) -> None:
    await _going_on(coroutine, waits_for)


@types.coroutine
def _going_on(coroutine: Coroutine[Any, Any, None], waits_for: Any) -> Generator[Any, Any, None]:
    if asyncio.isfuture(waits_for):
        waits_for._asyncio_future_blocking = True
    while True:
        result, error = None, None
        try:
            result = yield waits_for
        except BaseException as raised:
            error = raised
        try:
            waits_for = coroutine.send(result) if error is None else coroutine.throw(error)
        except StopIteration:
            return
