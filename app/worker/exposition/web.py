"""The pages of a worker's web server: `/metrics`; `/health`, whether its partitions are alive; `/ready`, whether it has
them. And what it answers before it runs, while its kernels are compiled."""

import gzip
import json
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web

from riparian.app import __version__
from riparian.app.worker.assignment import Assignment
from riparian.app.worker.exposition import scrape
from riparian.app.worker.exposition.metrics import Metrics
from riparian.topics.names import place_field

STATUSES = ("failed", "recovering", "ok")  # the worst first


class Compiling:
    """Answers `/health` and `/ready` while kernels are compiled: a worker that compiles is alive, and not ready.

    Parameters
    ----------
    listening : socket, optional
        That of the web server, which stays open.
    streams : names.
    """

    def __init__(self, listening: socket.socket | None, streams: Sequence[str]) -> None:
        self._listening, self._streams = listening, streams
        self._kernels = 0, 0
        self._server: Any = None

    def __call__(self, done: int, total: int) -> None:
        """So many kernels are done, of so many. The first call begins to answer: most starts compile nothing."""
        self._kernels = done, total
        if self._server is None and self._listening is not None:
            self._server = _server(self._listening, self.answer)
            threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()

    def __enter__(self) -> "Compiling":
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.shutdown()

    def answer(self, path: str) -> tuple[int, dict[str, Any]]:
        done, total = self._kernels
        if path == "/health":
            body: dict[str, Any] = {"status": "compiling", "version": __version__}
            if len(self._streams) == 1:
                body |= {"stream": self._streams[0], "partitions": {}}
            return 200, body | {"kernels": {"compiled": done, "of": total}}
        return 503, {"status": "compiling"}


def _server(listening: socket.socket, answer: Any) -> Any:
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        timeout = 5.0

        def do_GET(self) -> None:
            status, body = answer(self.path)
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing: the web server of a worker that runs writes no lines, either."""

    server = ThreadingHTTPServer(listening.getsockname()[:2], Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listening
    return server


def health(assignment: Assignment) -> tuple[int, dict[str, Any]]:
    """HTTP status and body of a stream's `/health`: 200 while no partition has failed, 503 after.

    `status` is "recovering" while the worker waits for partitions or their state, "ok" when it has them all (none,
    where there are more workers than partitions), "failed" once it ends because of an error.
    """
    failure = assignment.worker.failure
    body: dict[str, Any] = {
        "status": "failed" if failure is not None else "recovering" if assignment.recovering else "ok",
        "stream": assignment.spec.name,
        "version": __version__,
        "partitions": {
            str(partition): {
                **{place_field(role): offset for role, offset in runner.learner.offsets.items()},
                "instances": runner.learner.n_instances,
                "labels": runner.learner.n_labels,
                "waiting": runner.learner.pending.n_waiting,
                **({"unknown_schemas": n} if (n := runner.n_unknown_schemas) else {}),
            }
            for partition, runner in sorted(assignment.runners.items())
        },
    }
    if assignment.copier is not None:
        lags = assignment.copier.lags()
        body["rekey"] = [
            {"topic": tp.topic, "partition": tp.partition, "copied": offset, "lag": lags.get(tp)}
            for tp, offset in sorted(assignment.copier.copied.items())
        ]
    if failure is not None:
        body["failure"] = str(failure) or type(failure).__name__
    return (200 if failure is None else 503), body


def health_of(assignments: Sequence[Assignment]) -> tuple[int, dict[str, Any]]:
    """Of a worker: of several streams an entry each, and their worst status."""
    bodies = [health(assignment)[1] for assignment in assignments]
    status = min((body["status"] for body in bodies), key=STATUSES.index)
    if len(bodies) == 1:
        body = bodies[0]
    else:
        streams = {body.pop("stream"): body for body in bodies}
        body = {"status": status, "version": __version__, "streams": streams}
    return (503 if status == "failed" else 200), body


def ready(assignments: Sequence[Assignment]) -> tuple[int, dict[str, str]]:
    """HTTP status and body of `/ready`: 200 while the worker has all that its streams were assigned, 503 otherwise."""
    status = health_of(assignments)[1]["status"]
    return (200 if status == "ok" else 503), {"status": status}


def scraped_page(registry: Any, asked: Mapping[str, str]) -> tuple[bytes, dict[str, str]]:
    """Body and headers of `/metrics`, in the format and compression that the scraper takes. asked : its headers."""
    from prometheus_client.exposition import choose_encoder, gzip_accepted

    encode, content_type = choose_encoder(asked.get("Accept", ""))
    body: bytes = encode(registry)
    headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
    if gzip_accepted(asked.get("Accept-Encoding", "")):
        return gzip.compress(body, compresslevel=1), headers | {"Content-Encoding": "gzip"}
    return body, headers


def expose(streams: Sequence[tuple[Any, Assignment, Metrics]]) -> None:
    """Serve `/metrics` (Faust's own metrics with them, as `faust_*`), `/health` and `/ready` on the web server of the
    first stream's app, if it has one. streams : app, assignment and metrics of each."""
    for _, assignment, metrics in streams:
        metrics.watch(assignment)
    server = streams[0][0]
    if not server.conf.web_enabled:
        return
    from faust.sensors.prometheus import FaustMetrics, PrometheusMonitor
    from prometheus_client import CollectorRegistry

    assignments, counted = [assignment for _, assignment, _ in streams], []
    for app, _, _ in streams:
        counted.append(CollectorRegistry())
        # Its sensors cost 16 µs an event (3.5 µs without Prometheus), and an event here is a batch.
        app.monitor = PrometheusMonitor(metrics=FaustMetrics.create(counted[-1], "faust"))
    scraped = scrape.registry([metrics for _, _, metrics in streams], counted)

    @server.page("/metrics")  # type: ignore[untyped-decorator]
    async def show(view: Any, request: Any) -> Any:
        body, headers = scraped_page(scraped, request.headers)
        return web.Response(body=body, headers=headers)

    @server.page("/health")  # type: ignore[untyped-decorator]
    async def page(view: Any, request: Any) -> Any:
        status, body = health_of(assignments)
        return view.json(body, status=status)

    @server.page("/ready")  # type: ignore[untyped-decorator]
    async def whether_ready(view: Any, request: Any) -> Any:
        status, body = ready(assignments)
        return view.json(body, status=status)
