"""An answer that takes a while, as lines of JSON: how far it is, and at last what came of it."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web
from aiokafka.errors import KafkaError

from riparian.app.errors import RiparianError

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.25
Steps = asyncio.Queue[dict[str, Any]]


async def answered(
    request: web.Request, closing: asyncio.Event, work: Callable[[Steps], Awaitable[dict[str, Any]]]
) -> web.StreamResponse:
    """Do some work, and send what it puts into the queue, then what it returns or {"error": a sentence}.

    The work is cancelled where nobody looks any more, or `closing` is set.
    """
    response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson", "Cache-Control": "no-store"})
    await response.prepare(request)
    steps: Steps = asyncio.Queue()
    task = asyncio.ensure_future(work(steps))
    try:
        while not closing.is_set() and not (task.done() and steps.empty()):
            with contextlib.suppress(TimeoutError):
                await _write(response, await asyncio.wait_for(steps.get(), LOOK_SECONDS))
        if task.done():
            await _write(response, _outcome(task))
    except ConnectionError:
        pass  # nobody looks any more
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return response


async def _write(response: web.StreamResponse, content: dict[str, Any]) -> None:
    await response.write(msgspec.json.encode(content) + b"\n")


def _outcome(task: "asyncio.Future[dict[str, Any]]") -> dict[str, Any]:
    error = task.exception()
    if error is None:
        return task.result()
    if isinstance(error, RiparianError):
        return {"error": str(error)}
    if isinstance(error, KafkaError):
        return {"error": f"Kafka does not do it ({error})"}
    log.warning("what the page asked for failed", exc_info=error)
    return {"error": f"it could not be done ({type(error).__name__}): the log of riparian ui says more"}
