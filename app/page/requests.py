"""What the page takes of a request: of whom, and which JSON."""

import asyncio
from typing import TypeVar

from aiohttp import web

from riparian.app.worker.exposition.connection_limits import PATIENCE_SECONDS
from riparian.topics.reports import reader

T = TypeVar("T")


def is_own(request: web.Request) -> bool:
    """Whether a browser asks for this page itself, or no browser does."""
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    return site in (None, "none", "same-origin") and (origin is None or origin.partition("://")[2] == request.host)


async def sent(request: web.Request, most: int, kind: type[T]) -> T:
    """The JSON of a request. HTTPException where it is none, has more than `most` bytes or does not come to its end."""
    if request.content_type != "application/json" or (request.content_length or 0) > most:
        raise web.HTTPBadRequest(text=f"expected application/json of at most {most:,} bytes.")
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return reader(kind)(await request.read())
    except TimeoutError:
        raise web.HTTPRequestTimeout(text="The request did not come to its end.") from None
    except ValueError as error:
        raise web.HTTPBadRequest(text=str(error)) from None
