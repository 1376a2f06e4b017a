"""The page's web server: its files, what the browser asks for as JSON, and what it is told while it looks.

It shows and changes nothing, unless commands are allowed (app/page/actions.py). It listens on 127.0.0.1 unless told
otherwise, and then takes only requests for a name of this machine's own, so that no foreign page can have a browser
read it under another name.
"""

import asyncio
import contextlib
import mimetypes
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from aiohttp import web
from aiokafka.errors import KafkaError

from riparian.app import __version__, retries
from riparian.app.errors import RiparianError
from riparian.app.page import alerts, by_hand, keys, predictions, quality, summary
from riparian.app.page.actions import Actions
from riparian.app.page.history import SeriesSpan
from riparian.app.page.lines import Steps, answered
from riparian.app.page.models import ModelPages, described
from riparian.app.page.requests import is_own, sent
from riparian.app.page.tail import Tail
from riparian.app.page.values import RecordValues
from riparian.app.page.view import DAY_MS, StreamView, now_ms
from riparian.app.page.watch import DAYS, Watch
from riparian.app.stream_file import spec as stream_file
from riparian.app.worker.exposition import connection_limits
from riparian.topics.records import REASONS, is_curable

STATIC = Path(__file__).with_name("static")
BUCKETS, MOST_BUCKETS = 400, 2000
PUSH_SECONDS = 1.0
FILE_SECONDS = 5.0  # time between two looks at the stream files, s
MOST_ID = 1024  # characters, as records may have
AGAIN_SECONDS = 5.0  # time between two messages while nothing comes, s
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
MOST_LETTERS = 100  # rows of dead letters
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def rounded(values: Any) -> list[float | None]:
    """Numbers of four significant digits, None for NaN: a third of the bytes."""
    return [None if v != v else float(f"{v:.4g}") for v in np.asarray(values, np.float64).tolist()]


def as_columns(name: str, found: SeriesSpan) -> dict[str, Any]:
    """A series for the browser; the band between least and largest only where there is one."""
    columns: dict[str, Any] = {"name": name, "mean": rounded(found.mean)}
    if np.any(found.high > found.low):
        columns |= {"low": rounded(found.low), "high": rounded(found.high)}
    return columns


async def _harden(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)


class Page:
    """The page over some streams.

    Parameters
    ----------
    paths : mapping of str to str
        Name of a stream -> its stream file, as commands would name it.
    tail : Tail
        Predictions and what came of them.
    loopback : bool
        Whether only requests for this machine itself are taken.
    actions : Actions, optional
        Commands from the page; none without it.
    """

    def __init__(
        self,
        watch: Watch,
        paths: Mapping[str, str],
        tail: Tail,
        loopback: bool = True,
        actions: Actions | None = None,
    ) -> None:
        self.watch = watch
        self.views = {view.spec.name: view for view in watch.views}
        self._paths, self._loopback, self.tail = paths, loopback, tail
        self._models = ModelPages(watch.connection)
        self._closing = asyncio.Event()
        self._looking = asyncio.Lock()
        self._values = RecordValues()
        self._actions = actions

    def application(self) -> web.Application:
        app = web.Application(
            middlewares=[self._guard, connection_limits.patient], client_max_size=by_hand.MOST_BYTES + 1
        )
        app.add_routes(
            [
                web.get("/", self._file),
                web.get("/static/{name}", self._file),
                web.get("/health", self._health),
                web.get("/api/streams", self._streams),
                web.get("/api/streams/{stream}", self._status),
                web.get("/api/streams/{stream}/live", self._live),
                web.get("/api/streams/{stream}/history", self._history),
                web.get("/api/streams/{stream}/events", self._events),
                web.get("/api/streams/{stream}/comparison", self._comparison),
                web.get("/api/streams/{stream}/distances", self._distances),
                web.get("/api/streams/{stream}/deadletters", self._letters),
                web.get("/api/streams/{stream}/deadletters/{home:[0-9]{1,9}}/{at:[0-9]{1,18}}", self._letter),
                web.get("/api/streams/{stream}/alerts", self._alerts),
                web.get("/api/streams/{stream}/quality", self._quality),
                web.get("/api/streams/{stream}/partitions/{partition:[0-9]{1,9}}/records/{position}", self._record),
                web.get("/api/streams/{stream}/predictions", self._prediction),
                web.get("/api/streams/{stream}/keys", self._key),
                web.get("/api/streams/{stream}/partitions/{partition:[0-9]{1,9}}/models/{role}", self._model),
                web.post("/api/streams/{stream}/partitions/{partition:[0-9]{1,9}}/predict", self._predict),
            ]
        )
        if self._actions is not None:
            app.add_routes(
                [
                    web.post("/api/streams/{stream}/commands", self._command),
                    web.post("/api/streams/{stream}/deadletters/retry", self._retry),
                ]
            )
        app.on_response_prepare.append(_harden)
        app.on_shutdown.append(self._close)
        return app

    async def _close(self, _: web.Application) -> None:
        await self._values.close()
        self._closing.set()  # an open stream of events would hold the stop up

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        host = connection_limits.host_of(request)
        if host is None:
            return web.Response(status=400, text="Host: expected a name or an address.")
        if self._loopback and not connection_limits.is_loopback(host):
            return web.Response(status=421, text="This page answers on 127.0.0.1 and localhost alone.")
        if request.path != "/" and not is_own(request):  # a link may lead here; the rest reads topics, for minutes even
            return web.Response(status=403, text="The request is not of this page.")
        try:
            return await handler(request)
        except (RiparianError, KafkaError) as error:
            said = str(error) if isinstance(error, RiparianError) else f"Kafka does not do it ({error})"
            return self._json({"error": said}, status=409)

    # -- files -------------------------------------------------------------------------------------------------

    async def _file(self, request: web.Request) -> web.Response:
        name = request.match_info.get("name", "index.html")
        path = next((path for path in STATIC.iterdir() if path.name == name), None)
        if path is None:
            raise web.HTTPNotFound(text="There is no such file.")
        headers = {"Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        kind = mimetypes.guess_type(name)[0]
        response = web.Response(body=path.read_bytes(), content_type=kind, charset="utf-8", headers=headers)
        response.enable_compression()
        return response

    @staticmethod
    def _json(content: Any, status: int = 200) -> web.Response:
        body, headers = msgspec.json.encode(content), {"Cache-Control": "no-store"}
        response = web.Response(status=status, body=body, content_type="application/json", headers=headers)
        response.enable_compression()
        return response

    # -- what is asked -----------------------------------------------------------------------------------------

    def _view(self, request: web.Request) -> StreamView:
        view = self.views.get(request.match_info["stream"])
        if view is None:
            raise web.HTTPNotFound(text="There is no such stream on this page.")
        return view

    @staticmethod
    def _number(request: web.Request, name: str, default: int | None, least: int, most: int) -> int | None:
        given = request.query.get(name)
        if given in (None, ""):
            return default
        if not (given.isascii() and given.isdigit() and least <= int(given[:16]) <= most and len(given) <= 16):
            raise web.HTTPBadRequest(text=f"{name}: expected a whole number from {least} to {most}.")
        return int(given)

    def _partition(self, request: web.Request, view: StreamView) -> int | None:
        return self._number(request, "partition", None, 0, view.spec.partitions - 1)

    @staticmethod
    def _of_path(request: web.Request, view: StreamView) -> int:
        partition = int(request.match_info["partition"])
        if partition >= view.spec.partitions:
            raise web.HTTPNotFound(text="There is no such partition.")
        return partition

    def _summary(self, view: StreamView, partition: int | None = None) -> dict[str, Any]:
        found = summary.status(view, now_ms(), self._paths[view.spec.name], partition, self.watch.away_since)
        return found | {
            "progress": self.watch.progress,
            "away": self.watch.away_since,
            "broker": str(self.watch.connection),
            "actions": self._actions is not None,
            "control": view.spec.control,
            "keys": list(view.spec.keys),
            "n_alerts": self.tail.outcomes[view.spec.name].n_alerts(partition),
        }

    async def follow_files(self) -> None:
        """Until it is cancelled: the stream files as they are now, so that the page knows what the commands know."""
        read: dict[str, Any] = {}
        while True:
            for name, view in self.views.items():
                await asyncio.to_thread(follow, view, Path(self._paths[name]), read)
            await asyncio.sleep(FILE_SECONDS)

    async def _health(self, request: web.Request) -> web.Response:
        away = self.watch.away_since
        body = {
            "status": "ok" if away is None else "Kafka does not answer",
            "version": __version__,
            "streams": list(self.views),
        }
        return self._json(body, 200 if away is None else 503)

    async def _streams(self, request: web.Request) -> web.Response:
        rows = []
        for view in self.watch.views:
            shown = self._summary(view)
            kept = ("name", "task", "newest", "works", "verdict", "objective", "tiles", "n_letters")
            rows.append({key: shown[key] for key in kept} | {"features": len(view.spec.features)})
        body = {"version": __version__, "away": self.watch.away_since, "progress": self.watch.progress, "streams": rows}
        return self._json(body)

    async def _status(self, request: web.Request) -> web.Response:
        view = self._view(request)
        return self._json(self._summary(view, self._partition(request, view)))

    async def _history(self, request: web.Request) -> web.Response:
        view, now = self._view(request), now_ms()
        stop = self._number(request, "to", now, 1, now + DAY_MS) or now
        start = self._number(request, "from", stop - 3_600_000, 0, stop - 1) or 0
        start = max(start, stop - DAYS * DAY_MS)
        n = self._number(request, "n", BUCKETS, 10, MOST_BUCKETS) or BUCKETS
        found = view.history(start, stop, n, self._partition(request, view), request.query.get("pool"))
        first = next(iter(found.values()), None)
        body = {
            "from": start, "to": stop,
            "start": first.start if first else start, "width": first.width if first else 0,
            "series": [as_columns(name, each) for name, each in found.items()],
        }  # fmt: skip
        return self._json(body)

    async def _events(self, request: web.Request) -> web.Response:
        view, now = self._view(request), now_ms()
        since = self._number(request, "from", now - DAYS * DAY_MS, 0, now + DAY_MS) or 0
        until = self._number(request, "to", now + DAY_MS, 1, now + DAY_MS) or now
        partition = self._partition(request, view)
        kept = [e for e in view.events if since <= e.time <= until and partition in (None, e.partition)]
        return self._json({"events": kept[-1000:], "n": len(kept)})

    async def _comparison(self, request: web.Request) -> web.Response:
        view = self._view(request)
        return self._json(summary.comparison(view, self._partition(request, view)))

    async def _distances(self, request: web.Request) -> web.Response:
        view = self._view(request)
        return self._json({"rows": summary.distances(view, self._partition(request, view))})

    async def _letters(self, request: web.Request) -> web.Response:
        view, now = self._view(request), now_ms()
        since = self._number(request, "from", now - DAY_MS, 0, now) or 0
        body = {
            "groups": [
                {
                    "reason": reason,
                    "field": field,
                    "n": n,
                    "means": REASONS.get(reason),
                    "again": is_curable(reason),
                }
                for (reason, field), n in view.letters_since(since).items()
            ],
            "total": sum(view.n_letters.values()),
            "letters": [
                msgspec.to_builtins(one) | {"n": n, "n_retried": n_retried, "again": view.may_retry(one)}
                for one, n, n_retried in view.alike()[:MOST_LETTERS]
            ],
        }
        return self._json(body)

    async def _letter(self, request: web.Request) -> web.Response:
        """A dead letter, all of it."""
        view, home, at = self._view(request), int(request.match_info["home"]), int(request.match_info["at"])
        there = home < view.spec.partitions
        found = await retries.letter_at(view.spec, self.watch.connection, home, at) if there else None
        if found is None:
            raise web.HTTPNotFound(text=f"No dead letter is at offset {at:,} of partition {home} any more.")
        return self._json(found.plain())

    async def _alerts(self, request: web.Request) -> web.Response:
        """The last alerts, or what `only` names of them; what the stream file lacks for more."""
        view, only = self._view(request), request.query.get("only") or None
        if only not in (None, *alerts.KINDS):
            raise web.HTTPBadRequest(text=f"only: expected one of {', '.join(alerts.KINDS)}.")
        n = self._number(request, "n", alerts.SHOWN, 1, 1000) or alerts.SHOWN
        outcomes, partition = self.tail.outcomes[view.spec.name], self._partition(request, view)
        found = await asyncio.to_thread(outcomes.alerts, only, partition, n)
        for row, values in zip(
            found["rows"], self._values.of(view.spec, self.watch.connection, found["rows"]), strict=True
        ):
            row["values"] = values
        return self._json(found | alerts.about(view, partition, outcomes) | {"read": self.tail.read})

    async def _quality(self, request: web.Request) -> web.Response:
        """Figures of the predictions whose labels came."""
        view, early = self._view(request), bool(request.query.get("early"))
        outcomes, partition = self.tail.outcomes[view.spec.name], self._partition(request, view)
        told = alerts.about(view, partition, outcomes, reasons=False)
        found = await asyncio.to_thread(quality.figures, outcomes, told["threshold"], partition, early)
        return self._json(found | told | {"read": self.tail.read})

    async def _record(self, request: web.Request) -> web.Response:
        """A prediction by its place, all of it, and the record that it is of."""
        view, partition = self._view(request), self._of_path(request, self._view(request))
        given, index = request.match_info["position"], self._number(request, "index", 0, 0, 1 << 20) or 0
        if not (given.isascii() and given.isdigit() and len(given) <= 18):
            raise web.HTTPNotFound(text="There is no such place.")
        found = await predictions.record_at(view.spec, self.watch.connection, partition, int(given), index)
        outcome = self.tail.outcomes[view.spec.name].at(partition, int(given), index)
        return self._json(found | {"outcome": outcome} | alerts.about(view, partition))

    async def _model(self, request: web.Request) -> web.Response:
        view = self._view(request)
        partition, role = self._of_path(request, view), request.match_info["role"]
        roles = {*view.spec.models(), *(known for known, _ in view.models)}  # commands add and rename models
        if role not in roles:
            raise web.HTTPNotFound(text="There is no such model.")
        return self._json(await self._models.of(view.spec, partition, partial(described, role=role)))

    async def _predict(self, request: web.Request) -> web.Response:
        """What the last checkpoint's models say of an instance. It changes nothing, so it takes no token; a form of
        another page cannot send this type, and its scripts may not."""
        view = self._view(request)
        partition = self._of_path(request, view)
        asked = await sent(request, by_hand.MOST_BYTES, by_hand.Asked)
        try:
            return self._json(await self._models.of(view.spec, partition, partial(by_hand.predicted, given=asked.x)))
        except ValueError as error:
            raise web.HTTPBadRequest(text=str(error)) from None

    async def _prediction(self, request: web.Request) -> web.StreamResponse:
        """A prediction by its id, as lines of JSON: how far the search is, and at last what was found or an error.

        One at a time for all that look: it reads topics and folds records.
        """
        view, id_ = self._view(request), request.query.get("id", "")
        if not 0 < len(id_) <= MOST_ID:
            raise web.HTTPBadRequest(text=f"id: expected a text of 1 to {MOST_ID} characters.")
        look = partial(predictions.explained, view.spec, self.watch.connection, id_)
        return await self._looked_up(request, look, early=True)

    async def _key(self, request: web.Request) -> web.StreamResponse:
        """What is known of a key, and its last records, in the same lines."""
        view, value = self._view(request), request.query.get("value", "")
        if not 0 < len(value) <= MOST_ID:
            raise web.HTTPBadRequest(text=f"value: expected a text of 1 to {MOST_ID} characters.")
        state_of = partial(self._models.of, view.spec, tell=lambda state: state)
        look = partial(keys.looked_up, view.spec, self.watch.connection, state_of)
        came = self.tail.outcomes[view.spec.name].of_id
        look = partial(look, request.query.get("key", ""), value, partition=self._partition(request, view), came=came)
        return await self._looked_up(request, look)

    async def _looked_up(
        self, request: web.Request, look: Callable[..., Awaitable[Any]], early: bool = False
    ) -> web.StreamResponse:
        """Answer with what is found since `last`, and before with how far that is. look : takes `since`, `on_progress`,
        and, where it is `early`, `on_found`."""
        seconds = self._number(request, "last", None, 1, DAYS * DAY_MS)

        async def work(steps: Steps) -> dict[str, Any]:
            def on_progress(what: str, done: int, total: int) -> None:
                if steps.empty():
                    steps.put_nowait({"doing": what, "progress": done / max(1, total)})

            told: dict[str, Any] = {"on_found": lambda said: steps.put_nowait({"said": said})} if early else {}
            async with self._looking:
                since = None if seconds is None else now_ms() - 1000 * seconds
                return {"found": await look(since=since, on_progress=on_progress, **told)}

        return await answered(request, self._closing, work)

    async def _command(self, request: web.Request) -> web.StreamResponse:
        assert self._actions is not None
        return await self._actions.handle(request, self._view(request), self._closing)

    async def _retry(self, request: web.Request) -> web.StreamResponse:
        assert self._actions is not None
        path = self._paths[self._view(request).spec.name]
        return await self._actions.retry(request, path, self._closing)

    async def _live(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events: the status of a stream whenever something has come, at most once a second."""
        view = self._view(request)
        partition = self._partition(request, view)
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        )
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            async for shown in self._changes(view, partition):
                await response.write(b"data: " + msgspec.json.encode(shown) + b"\n\n")
        return response

    async def _changes(self, view: StreamView, partition: int | None) -> AsyncIterator[dict[str, Any]]:
        loop = asyncio.get_running_loop()
        version, shown = -1, 0.0
        while not self._closing.is_set():
            if self.watch.version != version or loop.time() - shown >= AGAIN_SECONDS:
                version, shown = self.watch.version, loop.time()
                yield self._summary(view, partition)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), PUSH_SECONDS)


def follow(view: StreamView, path: Path, read: dict[str, Any]) -> None:
    """Read a stream file where it has changed. read : path -> what it was like when it was read."""
    try:
        found = path.stat()
        now = found.st_mtime_ns, found.st_size
        if read.setdefault(str(path), now) != now:
            read[str(path)] = now
            view.renew(stream_file.load(path))
    except (OSError, RiparianError) as error:
        read[str(path)] = None  # once it is in order, it is read, whether it has changed or not
        view.file_said = str(error)


async def serve(page: Page, sock: socket.socket, tls: ssl.SSLContext | None = None) -> None:
    """Until it is cancelled."""
    connection_limits.raise_file_limit()
    runner = web.AppRunner(page.application(), access_log=None, shutdown_timeout=2.0)
    await runner.setup()
    try:
        await connection_limits.ConnectionLimits(runner, sock, tls).start()
        beside = [asyncio.ensure_future(each) for each in (page.follow_files(), page.tail.run())]
        try:
            await page.watch.run()
        finally:
            for each in beside:
                each.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
    finally:
        await runner.cleanup()
