"""`riparian top`: the live page's figures on a terminal."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from app.cli import broker_option, streams_argument
from app.errors import SpecError
from app.kafka.connection import Connection

if TYPE_CHECKING:
    from rich.console import RenderableType

    from app.page.watch import Watch

REFRESH_SECONDS = 1.0
LOOK_SECONDS = 0.1
WIDTH = 132  # where it is no terminal
KEYS = {b"\x1b[A": -1, b"\x1b[D": -1, b"\x1b[B": 1, b"\x1b[C": 1}  # arrows


@click.command("top")
@streams_argument
@click.option("--once", is_flag=True, help="Print one frame and end, as without a terminal.")
@broker_option
def command(streams: tuple[Path, ...], once: bool, connection: Connection) -> None:
    """Show streams live in the terminal: quality, lag, latency, drift, dead letters.

    The same figures and words as the live page (riparian ui), of the last hour. Arrows choose a stream, q ends it.
    """
    from app.stream_file import spec as stream_file

    specs = [(path, stream_file.load(path)) for path in streams]
    names = [spec.name for _, spec in specs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SpecError(f"two of the stream files describe the stream {twice}: give each stream once")

    from app.cli.top_frame import frame
    from app.kafka.admin import wait_for_broker
    from app.page.store import Store
    from app.page.view import StreamView
    from app.page.watch import Watch, now_ms

    paths = {spec.name: str(path) for path, spec in specs}
    chosen = 0

    def drawn() -> "RenderableType":
        return frame(watch.views, paths, chosen, now_ms(), watch.away_since, str(connection))

    async def print_one() -> None:
        from rich.console import Console

        await wait_for_broker(connection, 10.0)
        await _known(watch)
        Console(width=None if sys.stdout.isatty() else WIDTH).print(drawn())

    async def live() -> None:
        nonlocal chosen
        from rich.live import Live

        await wait_for_broker(connection, 10.0)
        keys: asyncio.Queue[bytes] = asyncio.Queue()
        task = asyncio.ensure_future(watch.run())
        try:
            with _keys(keys), Live(drawn(), screen=True, auto_refresh=False) as screen:
                while not task.done():
                    screen.update(drawn(), refresh=True)
                    with contextlib.suppress(TimeoutError):
                        pressed = await asyncio.wait_for(keys.get(), REFRESH_SECONDS)
                        if pressed[:1] in (b"q", b"\x03"):
                            return
                        chosen = (chosen + KEYS.get(pressed, 0)) % len(specs)
                task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    with Store(Path(":memory:")) as store:
        watch = Watch([StreamView(spec) for _, spec in specs], connection, store, days=1)
        interactive = sys.stdin.isatty() and sys.stdout.isatty() and not once
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(live() if interactive else print_one())


async def _known(watch: "Watch") -> None:
    """Until what is there of the last hour is read; of streams that say nothing lately, of the day."""
    task = asyncio.ensure_future(watch.run())
    try:
        while not watch.caught_up or (watch.progress is not None and not all(view.newest for view in watch.views)):
            if task.done():
                task.result()
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextlib.contextmanager
def _keys(keys: "asyncio.Queue[bytes]") -> Iterator[None]:
    """Keys as they are pressed, without an echo."""
    import termios
    import tty

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    loop = asyncio.get_running_loop()
    tty.setcbreak(number)
    loop.add_reader(number, lambda: keys.put_nowait(os.read(number, 16)))
    try:
        yield
    finally:
        loop.remove_reader(number)
        termios.tcsetattr(number, termios.TCSADRAIN, before)
