"""The pages of a worker's web server: `/metrics`; `/health`, whether its partitions are alive; `/ready`, whether it has
them."""

from typing import Any

from app import __version__
from app.worker.engine import Engine
from app.worker.metrics import Metrics
from topics.names import place_field


def health(engine: Engine) -> tuple[int, dict[str, Any]]:
    """HTTP status and body of `/health`: 200 while no partition has failed, 503 after.

    `status` is "recovering" while the worker waits for partitions or their state, "ok" when it has them all (none,
    where there are more workers than partitions), "failed" once it ends because of an error.
    """
    failure = engine.failure
    body: dict[str, Any] = {
        "status": "failed" if failure is not None else "recovering" if engine.recovering else "ok",
        "stream": engine.spec.name,
        "version": __version__,
        "partitions": {
            str(partition): {
                **{place_field(role): offset for role, offset in runner.learner.offsets.items()},
                "instances": runner.learner.n_instances,
                "labels": runner.learner.n_labels,
                "waiting": runner.learner.pending.n_waiting,
            }
            for partition, runner in sorted(engine.runners.items())
        },
    }
    if engine.copier is not None:
        lags = engine.copier.lags()
        body["rekey"] = [
            {"topic": tp.topic, "partition": tp.partition, "copied": offset, "lag": lags.get(tp)}
            for tp, offset in sorted(engine.copier.copied.items())
        ]
    if failure is not None:
        body["failure"] = str(failure) or type(failure).__name__
    return (200 if failure is None else 503), body


def ready(engine: Engine) -> tuple[int, dict[str, str]]:
    """HTTP status and body of `/ready`: 200 while the worker has all that it was assigned, 503 otherwise."""
    status = health(engine)[1]["status"]
    return (200 if status == "ok" else 503), {"status": status}


def expose(app: Any, engine: Engine, metrics: Metrics) -> None:
    """Serve `/metrics` (Faust's own metrics with them, as `faust_*`), `/health` and `/ready` on the app's web
    server, if it has one."""
    metrics.watch(engine)
    if not app.conf.web_enabled:
        return
    from faust.sensors.prometheus import setup_prometheus_sensors

    # Its sensors cost 16 µs an event (3.5 µs without Prometheus), and an event here is a batch.
    setup_prometheus_sensors(app, pattern="/metrics", registry=metrics.registry, name_prefix="faust")

    @app.page("/health")  # type: ignore[untyped-decorator]
    async def page(view: Any, request: Any) -> Any:
        status, body = health(engine)
        return view.json(body, status=status)

    @app.page("/ready")  # type: ignore[untyped-decorator]
    async def whether_ready(view: Any, request: Any) -> Any:
        status, body = ready(engine)
        return view.json(body, status=status)
