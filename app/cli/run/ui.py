"""`riparian ui`: the live page of some streams."""

import asyncio
import contextlib
import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from riparian.app.cli import broker_option, json_option, streams_argument
from riparian.app.cli.terminal.messages import configure, log_format_option, show
from riparian.app.errors import AccessError, BrokerError, SpecError
from riparian.app.kafka.connection import Connection

if TYPE_CHECKING:
    import ssl

    from riparian.app.stream_file.spec import Spec

PORT = 6080


@click.command("ui")
@streams_argument
@broker_option
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=PORT,
    show_default=f"{PORT}, or the next one that is free",
    help="Port of the page.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Address that the page listens on; 0.0.0.0 for all. Whoever reaches it sees the streams.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".riparian/ui"),
    show_default=True,
    help="A folder of the page's own, where it keeps a week of history.",
)
@click.option(
    "--actions",
    is_flag=True,
    help="Have buttons that retry dead letters, and promote, freeze and reset models of streams with control: true. "
    "Prints the token for them.",
)
@click.option(
    "--tls-cert",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Serve by TLS, with this certificate (PEM, with its chain).",
)
@click.option(
    "--tls-key",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Its private key, without a password (PEM); needed unless the certificate's file has it.",
)
@log_format_option
@click.option("--open", "browse", is_flag=True, help="Open the page in the browser.")
@json_option
@click.pass_context
def command(
    context: click.Context,
    streams: tuple[Path, ...],
    connection: Connection,
    port: int,
    host: str,
    data_dir: Path,
    actions: bool,
    tls_cert: Path | None,
    tls_key: Path | None,
    log_format: str,
    browse: bool,
    as_json: bool,
) -> None:
    """Show streams live in a browser: quality, drift, models, partitions, dead letters.

    Reads the streams' outputs from Kafka and changes nothing, unless you allow it (--actions). Workers may run or not.
    It is a process of its own, so no worker pays for it.
    """
    from riparian.app.stream_file import spec as stream_file

    configure(log_format, "warning")
    specs = [(path, stream_file.load(path)) for path in streams]
    names = [spec.name for _, spec in specs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SpecError(f"two of the stream files describe the stream {twice}: give each stream once")

    asyncio.run(_enter([spec for _, spec in specs], connection))

    from riparian.app.kafka.local_broker.ports import listen
    from riparian.app.page.actions import Actions
    from riparian.app.page.server import Page, serve
    from riparian.app.page.store import Store
    from riparian.app.page.tail import Tail
    from riparian.app.page.view import StreamView
    from riparian.app.page.watch import Watch
    from riparian.app.worker.exposition.connection_limits import is_loopback

    chosen = context.get_parameter_source("port") is not ParameterSource.DEFAULT
    tls = _tls(tls_cert, tls_key)
    sock = listen(host, port, or_next=not chosen)
    shown = f"[{host}]" if ":" in host else host
    address = f"http{'s' if tls else ''}://{shown}:{sock.getsockname()[1]}/"
    with Store(data_dir / "history.sqlite") as store:
        watch = Watch([StreamView(spec) for _, spec in specs], connection, store)
        paths = {spec.name: str(path) for path, spec in specs}
        allowed = Actions(connection) if actions else None
        tail = Tail(watch.views, connection)
        page = Page(watch, paths, tail, loopback=is_loopback(host), actions=allowed)
        show(f"{', '.join(names)} on {connection}: {address} (Ctrl-C ends it)")
        if allowed is not None:
            show(f"the token for commands: {allowed.token}")
        if as_json:
            token = None if allowed is None else allowed.token
            found = {"streams": names, "broker": str(connection), "address": address, "token": token}
            click.echo(json.dumps(found))
        if browse:
            click.launch(address)

        async def run() -> None:
            task = asyncio.ensure_future(serve(page, sock, tls))
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)
            with contextlib.suppress(asyncio.CancelledError):
                await task

        asyncio.run(run())
        watch.save()


def _tls(cert: Path | None, key: Path | None) -> "ssl.SSLContext | None":
    """What encrypts, where a certificate is given. SpecError where it cannot be used."""
    import ssl

    if cert is None:
        if key is not None:
            raise SpecError("--tls-key: expected --tls-cert beside it; name the certificate")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        # A password would be asked for on the terminal, which a service does not have.
        context.load_cert_chain(cert, key, password=lambda: "")
    except (ssl.SSLError, OSError, ValueError) as error:
        raise SpecError(f"--tls-cert: {cert} with {key or cert} is no certificate with its key ({error})") from None
    return context


async def _enter(specs: "list[Spec]", connection: Connection) -> None:
    """AccessError where an ACL is missing. Where no broker answers, the page says so."""
    from riparian.app.kafka.access import rights

    for spec in specs:
        try:
            await rights.enter(spec, connection, "ui", 1.0)
        except AccessError:
            raise
        except BrokerError:
            return
