"""Commands from the page to a stream that runs, and retries of dead letters, where `riparian ui --actions` allows them.

Who gives one has the token that was printed at the start. It is sent in a header that no form can set, nor a script of
another page without this server's permission, which it never gives. Besides, the Origin has to be this page.
"""

import asyncio
import hmac
import re
import secrets
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from riparian.app import retries
from riparian.app.errors import SpecError
from riparian.app.kafka import command_client
from riparian.app.kafka.access import rights
from riparian.app.kafka.connection import Connection
from riparian.app.page.lines import Steps, answered
from riparian.app.page.requests import sent
from riparian.app.page.view import StreamView
from riparian.app.stream_file import spec as stream_file
from riparian.topics.commands import DEMOTE, FREEZE, PAUSE, PROMOTE, RESET, RESUME, THAW, EventRecord
from riparian.topics.records import REASONS

TOKEN = "X-Riparian-Token"
COMMANDS = (PROMOTE, DEMOTE, FREEZE, THAW, RESET, PAUSE, RESUME)
OF_NO_MODEL = (DEMOTE, PAUSE, RESUME)
MOST_BYTES = 4096
WAIT_SECONDS = 30.0
T = TypeVar("T")


class ActionRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What the browser sends. by : who asks, as they say. stream : its name typed once more, for a reset."""

    command: str
    model: str | None = None
    by: str = ""
    stream: str = ""


class Again(msgspec.Struct, forbid_unknown_fields=True):
    """Which dead letters the browser wants to be retried.

    reason : all of this one. field : of these, those about this field, or about none (""). at : or one alone,
    PARTITION/OFFSET among the dead letters. dry_run : only say what would be done.
    """

    reason: str | None = None
    field: str | None = None
    at: str | None = None
    dry_run: bool = True

    def letters(self) -> retries.LetterFilter:
        """ValueError where it is neither or both."""
        if (self.reason is None) == (self.at is None):
            raise ValueError("expected reason or at: retry the letters of one reason, or one letter")
        if self.reason is not None:
            if self.reason not in REASONS:
                raise ValueError(f"reason: expected one of {', '.join(REASONS)}")
            return retries.LetterFilter((self.reason,), fields=() if self.field is None else (self.field,))
        place = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,18})", self.at or "")
        if place is None:
            raise ValueError("at: expected PARTITION/OFFSET, such as 0/17")
        return retries.LetterFilter(places=((int(place[1]), int(place[2])),))


class Actions:
    """Commands under a token.

    Attributes
    ----------
    token : what a request has to name.
    """

    def __init__(self, connection: Connection) -> None:
        self.token = secrets.token_urlsafe(32)
        self._connection = connection
        self._retrying = asyncio.Lock()

    async def _wanted(self, request: web.Request, kind: type[T]) -> T:
        """What a request asks for; HTTPForbidden or HTTPBadRequest where it is not taken."""
        if request.headers.get("Origin") != str(request.url.origin()):
            raise web.HTTPForbidden(text="The request is not of this page.")
        given = request.headers.get(TOKEN, "")
        if not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self.token.encode()):
            raise web.HTTPForbidden(text="The token is not right. It was printed when riparian ui started.")
        return await sent(request, MOST_BYTES, kind)

    async def handle(self, request: web.Request, view: StreamView, closing: asyncio.Event) -> web.StreamResponse:
        """Send a command, and answer with lines: each partition's `answer`, and at last `done`."""
        wanted = await self._wanted(request, ActionRequest)
        try:
            asked = self._command(view, wanted)
        except SpecError as error:
            raise web.HTTPBadRequest(text=str(error)) from None

        async def work(steps: Steps) -> dict[str, Any]:
            def on_answer(event: EventRecord) -> None:
                steps.put_nowait({"answer": msgspec.to_builtins(event)})

            found = await command_client.ask(view.spec, self._connection, asked, WAIT_SECONDS, on_answer)
            silent = [partition for partition in view.spec.commanded if partition not in found]
            return {"done": {"id": asked.id, "silent": silent}}

        return await answered(request, closing, work)

    async def retry(self, request: web.Request, path: str, closing: asyncio.Event) -> web.StreamResponse:
        """Do what `riparian deadletters retry` does, or say what it would do: lines with how far it is, and `done`.

        path : of the stream file, which is read anew: as a rule it was changed so that records are read.
        """
        again = await self._wanted(request, Again)
        try:
            wanted = again.letters()
        except ValueError as error:
            raise web.HTTPBadRequest(text=str(error)) from None

        async def work(steps: Steps) -> dict[str, Any]:
            def on_progress(done: int, total: int) -> None:
                if steps.empty():
                    steps.put_nowait({"progress": done / max(1, total)})

            async with self._retrying:  # two at once would fence each other
                spec = await asyncio.to_thread(stream_file.load, Path(path))
                await rights.enter(spec, self._connection, "retry")
                report = await retries.retry(
                    spec, self._connection, wanted, dry_run=again.dry_run, on_progress=on_progress
                )
            left = {why: n for why, n in report.left.items() if n}
            return {"done": {"retried": dict(report.retried), "left": left, "rejected": dict(report.reasons)}}

        return await answered(request, closing, work)

    def _command(self, view: StreamView, wanted: ActionRequest) -> Any:
        command_client.check(view.spec)
        if wanted.command not in COMMANDS:
            raise SpecError(f"command: expected one of {', '.join(COMMANDS)}, found {wanted.command!r}")
        if (wanted.model is None) != (wanted.command in OF_NO_MODEL):
            raise SpecError(f"{wanted.command}: expected {'no' if wanted.command in OF_NO_MODEL else 'a'} model")
        if wanted.command == RESET and wanted.stream != view.spec.name:
            raise SpecError(f"reset: expected the stream's name, {view.spec.name}, found {wanted.stream!r}")
        by = wanted.by.strip()[:200]
        more = {} if wanted.model is None else {"model": wanted.model}
        return command_client.command(wanted.command, by or f"{command_client.me()} (live page)"[:200], **more)
