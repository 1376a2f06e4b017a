"""The live page's server without Kafka: it is given its records."""

import asyncio
import contextlib
import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from riparian.app.kafka.connection import Connection
from riparian.app.kafka.local_broker.ports import listen
from riparian.app.page.actions import Actions
from riparian.app.page.server import Page, serve
from riparian.app.page.store import Store
from riparian.app.page.tail import Tail
from riparian.app.page.view import StreamView
from riparian.app.page.watch import Watch
from tests.app.page_records import view_of
from tests.browser import Look, browser, chromium

__all__ = ["browser", "chromium"]  # fixtures


class FedTail(Tail):
    """Is given its predictions and labels."""

    async def run(self) -> None:
        self.read = True
        await asyncio.Event().wait()


class Fed(Watch):
    """Is given its records instead of reading them."""

    tail: FedTail

    async def run(self) -> None:
        await asyncio.Event().wait()

    def tell(self, *values: bytes) -> None:
        for value in values:
            self.views[0].take_report(value)
        self.version += 1


Serving = Callable[..., Any]


@contextlib.contextmanager
def serving_of(folder: Path, *views: StreamView, actions: bool = False) -> Iterator[tuple[Fed, Serving]]:
    """A page's watch over some streams, and what serves it until it is left, and gives its address."""
    with Store(folder / "history.sqlite") as store:
        connection = Connection("127.0.0.1:9")
        watch = Fed(list(views), connection, store)
        watch.tail = FedTail(list(views), connection)

        @contextlib.contextmanager
        def serving(port: int = 0) -> Iterator[str]:
            sock, loop = listen("127.0.0.1", port), asyncio.new_event_loop()
            page = Page(
                watch,
                {view.spec.name: str(folder / f"{view.spec.name}.yaml") for view in views},
                watch.tail,
                actions=Actions(connection) if actions else None,
            )
            task = loop.create_task(serve(page, sock))

            def run() -> None:
                with contextlib.suppress(asyncio.CancelledError):
                    loop.run_until_complete(task)

            thread = threading.Thread(target=run)
            thread.start()
            try:
                yield f"http://127.0.0.1:{sock.getsockname()[1]}"
            finally:
                loop.call_soon_threadsafe(task.cancel)
                thread.join()
                loop.close()

        yield watch, serving


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Fed, Serving]]:
    """A page over one stream that has told nothing yet."""
    gc.collect()  # what other tests have left may say so, and not among what the page logs
    with serving_of(tmp_path, StreamView(view_of().spec)) as found:
        yield found


@pytest.fixture
def site(served: tuple[Fed, Serving], browser: Any) -> Iterator[tuple[Fed, Look]]:
    """The watch of such a page, and who looks at it."""
    watch, serving = served
    with serving() as url:
        yield watch, Look(browser, url)
