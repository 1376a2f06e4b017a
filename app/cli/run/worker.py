"""`riparian worker`: run a stream's worker until it is stopped."""

import asyncio
import gc
import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from riparian.app.cli import broker_option, json_option, streams_argument
from riparian.app.cli.run import starting
from riparian.app.cli.terminal.messages import about, configure, log_format_option, show
from riparian.app.errors import AccessError, BrokerError, SpecError, UnreachableError
from riparian.app.kafka.connection import Connection

AGAIN_SECONDS = 10.0  # that a broker is waited for once more where it has answered, and went away again,
LEAST_ATTEMPTS = 5  # so many times, whatever --wait says
LONGEST_SESSION = 90.0  # Faust's broker_request_timeout, which a session may not outlast

if TYPE_CHECKING:
    from riparian.app.stream_file.spec import Spec
    from riparian.app.worker.assignment import Assignment


@click.command("worker")
@streams_argument
@partial(broker_option, each=True)
@click.option(
    "--port",
    "web_port",
    type=click.IntRange(0, 65535),
    default=6066,
    show_default="6066, or the next one that is free",
    help="Port of /metrics; 0 for no web server.",
)
@click.option(
    "--host",
    "web_host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Address that /metrics listens on; 0.0.0.0 for all, as a container needs.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".riparian/worker"),
    show_default=True,
    help="A folder of this worker's own.",
)
@click.option("--wait", default=60.0, show_default=True, metavar="SECONDS", help="How long to wait for the broker.")
@click.option(
    "--session-timeout",
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a killed worker blocks its partitions, at most 90 (brokers allow 6 or more by default).",
)
@click.option(
    "--instance-id",
    metavar="ID",
    help="This worker's place in the consumer group, which is kept for it while it restarts; none for none. "
    "[default: group.instance.id of the connection, or NAME-N of a Kubernetes StatefulSet's pod]",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
    help="What is logged to standard error.",
)
@log_format_option
@json_option
@click.pass_context
def command(
    context: click.Context,
    streams: tuple[Path, ...],
    connections: list[Connection],
    web_port: int,
    web_host: str,
    data_dir: Path,
    wait: float,
    session_timeout: float,
    instance_id: str | None,
    log_level: str,
    log_format: str,
    as_json: bool,
) -> None:
    """Predict, join labels, learn and report for the stream of STREAM.yaml, or for several streams in one process.

    Start more workers, on this machine or others, to share the partitions. Ctrl-C (or SIGTERM) writes a last
    checkpoint and hands the partitions over.

    \b
      riparian worker fraud.yaml
      riparian worker fraud.yaml churn.yaml --port 7000
    """
    starting.quickly()
    from riparian.app.stream_file import spec as stream_file

    configure(log_format, log_level)
    if not 0 < session_timeout <= LONGEST_SESSION:
        raise click.BadParameter(
            f"expected at most {LONGEST_SESSION:g} seconds, for which a request to Kafka may last, found "
            f"{session_timeout:g}; give less",
            param_hint="--session-timeout",
        )
    from riparian.app.cli.run import environment
    from riparian.app.partition import mapped
    from riparian.app.worker.faust_client import membership

    configs = [one.config for one in connections if one.config is not None]
    if (strange := environment.unknown(os.environ, (*streams, *configs))) is not None:
        show(f"warning: {strange}")
    specs = [stream_file.load(file) for file in streams]
    check_apart(specs, streams)
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        said = "" if os.access(data_dir, os.W_OK) else "Permission denied"
    except OSError as error:
        said = str(error.strerror)
    if said:
        raise click.BadParameter(
            f"{data_dir} cannot be written ({said}): name a folder that can be", param_hint="--data-dir"
        )
    mapped.use(data_dir)
    instances = [membership.instance_id(instance_id, one.instance_id, os.environ) for one in connections]
    connections = [one.with_instance(own) for one, own in zip(connections, instances, strict=True)]
    several, in_vain = len(specs) > 1, [(0, 0)] * len(specs)
    for i, (file, spec, connection) in enumerate(zip(streams, specs, connections, strict=True)):
        with about(file if several else None) as note:
            for remark in remarks(spec):
                note(remark)
            check_key(spec)
            specs[i], in_vain[i], warnings = asyncio.run(prepare(spec, connection, wait, note))
            for warning in warnings:
                note(f"warning: {warning}")
            for warning in asyncio.run(ask_registry(spec, wait, note)):
                note(warning)

    from riparian.app import compiling
    from riparian.app.cli.run.kernels import make_ready
    from riparian.app.kafka.local_broker.ports import listen
    from riparian.app.worker.application import create_app
    from riparian.app.worker.exposition.metrics import Metrics
    from riparian.app.worker.exposition.web import Compiling, expose
    from riparian.app.worker.faust_client.topic_watch import GrownError
    from riparian.app.worker.host import Hosted, run

    compiling.watch(lambda _: gc.enable())  # which leaves more behind than there is room for
    chosen = context.get_parameter_source("web_port") is not ParameterSource.DEFAULT
    web = listen(web_host, web_port, or_next=not chosen) if web_port else None
    with Compiling(web, [spec.name for spec in specs]) as compiled:
        for spec in specs:
            make_ready(spec, compiled)
    port = None if web is None else web.getsockname()[1]
    hosted: list[tuple[Any, Assignment, Metrics]] = []
    for spec, connection, most in zip(specs, connections, in_vain, strict=True):
        metrics = Metrics(spec, None if port is None else f"{socket.gethostname()}:{port}")
        app, assignment = create_app(
            spec,
            connection,
            web=None if hosted else web,  # one for all
            port=port,
            data_dir=data_dir / spec.name if several else data_dir,
            observer=metrics,
            session_timeout=session_timeout,
        )
        assignment.worker.topics.in_vain = most
        hosted.append((app, assignment, metrics))
    expose(hosted)
    for spec, connection, instance in zip(specs, connections, instances, strict=True):
        named = "" if instance is None else f", instance id {instance}"
        show(f"worker of stream {spec.name} on {connection}{named}")
    page = None if port is None else f"http://{web_host}:{port}/metrics"
    if as_json:
        runs = zip((spec.name for spec in specs), map(str, connections), instances, strict=True)
        each = [dict(zip(("stream", "broker", "instance_id"), one, strict=True)) for one in runs]
        click.echo(json.dumps({"streams": each, "metrics": page}))
    if page is not None:
        taken = "" if port == web_port else f" (port {web_port} is taken, perhaps by another worker)"
        show(f"metrics at {page}{taken}")
    try:
        run(
            [Hosted(file, app, assignment) for file, (app, assignment, _) in zip(streams, hosted, strict=True)],
            loglevel=log_level,
            own_lines=log_format == "json",
        )
    except GrownError as grown:
        show(f"{grown}: the worker begins again")
        again = [word for word in sys.argv[1:] if word != "--json"]  # it has said where it is
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        os.execv(sys.executable, [sys.executable, *flags, "-P", "-m", "riparian.app.cli", *again])


def check_apart(specs: "Sequence[Spec]", files: Sequence[Path]) -> None:
    """SpecError where two files of one worker are of one stream: of one state, and of one consumer group but for their
    prefixes."""
    known: dict[str, Path] = {}
    for spec, file in zip(specs, files, strict=True):
        if spec.name in known:
            raise SpecError(
                f'{file}: name is "{spec.name}", as in {known[spec.name]}, and a worker runs a stream once: leave one '
                "of them out, or give it another name"
            )
        known[spec.name] = file


async def prepare(
    spec: "Spec", connection: Connection, wait: float, waiting: Callable[[str], None]
) -> tuple["Spec", tuple[int, int], list[str]]:
    """Make the topics and partitions that a stream lacks, and see that the others fit. The stream with as many as it
    has, with how many it could not go on, and what to warn of. Waits `wait` seconds for the broker."""
    from riparian.app.kafka.access import rights
    from riparian.app.kafka.admin import ensure_coordinator, ensure_topics, one_client, wait_for_broker
    from riparian.app.kafka.topics import topic_warnings
    from riparian.app.state.changelog import ensure_changelog
    from riparian.app.state.growing import grow, sized
    from riparian.app.state.loading import check_kind

    until, attempt = time.monotonic() + wait, 0
    while True:
        attempt += 1
        await wait_for_broker(connection, max(min(wait, AGAIN_SECONDS), until - time.monotonic()), waiting)
        try:
            async with one_client(connection):
                await rights.check(spec, connection, "worker")
                spec = await sized(spec, connection)
                await check_kind(spec, connection)
                await ensure_topics(spec, connection)
                await ensure_changelog(spec, connection)
                await ensure_coordinator(spec, connection)
                spec, in_vain, grown = await grow(spec, connection)
                if grown is not None:
                    waiting(grown)
                return spec, in_vain, await topic_warnings.warnings(spec, connection)
        except BrokerError as error:  # it went away again
            if isinstance(error, AccessError) or (time.monotonic() >= until and attempt >= LEAST_ATTEMPTS):
                raise
            await asyncio.sleep(random.uniform(0.1, 1.0))  # two workers may have fenced each other


async def ask_registry(spec: "Spec", wait: float, waiting: Callable[[str], None]) -> list[str]:
    """Which schemas the stream needs, and what of them may not fit; RegistryError where it does not answer in time."""
    if spec.registry is None:
        return []
    from riparian.app.registry.client import Registry
    from riparian.app.registry.stream_schemas import begin

    registry, until, said = Registry.of(spec), time.monotonic() + wait, ""
    while registry is not None:
        try:
            return await begin(registry, spec)
        except UnreachableError as error:
            if time.monotonic() >= until:
                raise
            if str(error) != said:
                said = str(error)
                waiting(f"{said}; waiting for it")
            await asyncio.sleep(1.0)
    return []


def check_key(spec: "Spec") -> None:
    """SpecError where a model's pickles would be written that no later start could load, or a key is no secret."""
    from riparian.models.adapter import signature
    from riparian.models.registry import FOREIGN

    needed = any(name in FOREIGN for name, _ in spec.models().values())
    try:
        signature.required() if needed else signature.key()
    except ValueError as error:
        raise SpecError(str(error)) from None


def remarks(spec: "Spec") -> list[str]:
    """What to know of a stream's models before they run."""
    resolved = spec.resolved()
    auto = [] if resolved is None else [f"champion: auto is {resolved.parts}; riparian check tells its size"]
    return [*auto, *slow_models(spec)]


def slow_models(spec: "Spec") -> list[str]:
    """A sentence for each model that learns in Python."""
    from riparian.models.registry import find

    return [
        f"{role} ({name}) is slow: it learns in Python, an instance at a time, and the champion waits for it"
        for role, (name, _) in spec.models().items()
        if find(name).slow
    ]
