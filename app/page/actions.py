"""Commands from the page to a stream that runs, where `riparian ui --actions` allows them.

Who gives one has the token that was printed at the start. It is sent in a header that no form can set, nor a script of
another page without this server's permission, which it never gives. Besides, the Origin has to be this page.
"""

import asyncio
import hmac
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

from app import control
from app.errors import SpecError
from app.kafka.connection import Connection
from app.page.lines import Steps, answered
from app.page.view import StreamView
from topics.commands import DEMOTE, FREEZE, PROMOTE, RESET, THAW, EventRecord

TOKEN = "X-Riparian-Token"
COMMANDS = (PROMOTE, DEMOTE, FREEZE, THAW, RESET)
MOST_BYTES = 4096
WAIT_SECONDS = 30.0


class Wanted(msgspec.Struct, forbid_unknown_fields=True):
    """What the browser sends. by : who asks, as they say. stream : its name typed once more, for a reset."""

    command: str
    model: str | None = None
    by: str = ""
    stream: str = ""


class Actions:
    """Commands under a token.

    Parameters
    ----------
    connection : Connection

    Attributes
    ----------
    token : what a request has to name.
    """

    def __init__(self, connection: Connection) -> None:
        self.token = secrets.token_urlsafe(32)
        self._connection = connection

    def refusal(self, request: web.Request) -> str | None:
        """Why a request is not taken; None where it is."""
        if request.headers.get("Origin") != str(request.url.origin()):
            return "The request is not of this page."
        given = request.headers.get(TOKEN, "")
        if not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self.token.encode()):
            return "The token is not right. It was printed when riparian ui started."
        return None

    async def handle(
        self, request: web.Request, view: StreamView, headers: Mapping[str, str], closing: asyncio.Event
    ) -> web.StreamResponse:
        """Send a command, and answer with lines: each partition's `answer`, and at last `done`."""
        refused = self.refusal(request)
        if refused is not None:
            raise web.HTTPForbidden(text=refused)
        if request.content_type != "application/json" or (request.content_length or 0) > MOST_BYTES:
            raise web.HTTPBadRequest(text=f"expected application/json of at most {MOST_BYTES:,} bytes.")
        try:
            wanted = msgspec.json.decode(await request.content.read(MOST_BYTES + 1), type=Wanted)
            asked = self._command(view, wanted)
        except (msgspec.DecodeError, SpecError) as error:
            raise web.HTTPBadRequest(text=str(error)) from None

        async def work(steps: Steps) -> dict[str, Any]:
            def on_answer(event: EventRecord) -> None:
                steps.put_nowait({"answer": msgspec.to_builtins(event)})

            found = await control.ask(view.spec, self._connection, asked, WAIT_SECONDS, on_answer)
            silent = [partition for partition in range(view.spec.partitions) if partition not in found]
            return {"done": {"id": asked.id, "silent": silent}}

        return await answered(request, headers, closing, work)

    def _command(self, view: StreamView, wanted: Wanted) -> Any:
        control.check(view.spec)
        if wanted.command not in COMMANDS:
            raise SpecError(f"command: expected one of {', '.join(COMMANDS)}, found {wanted.command!r}")
        if (wanted.model is None) != (wanted.command == DEMOTE):
            raise SpecError(f"{wanted.command}: expected {'no' if wanted.command == DEMOTE else 'a'} model")
        if wanted.command == RESET and wanted.stream != view.spec.name:
            raise SpecError(f"reset: expected the stream's name, {view.spec.name}, found {wanted.stream!r}")
        by = wanted.by.strip()[:200]
        more = {} if wanted.model is None else {"model": wanted.model}
        return control.command(wanted.command, by or f"{control.me()} (live page)"[:200], **more)
