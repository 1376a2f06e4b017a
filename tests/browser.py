"""A real Chromium for the tests of the live page: without it they are left out."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.broker.harness import PATIENCE

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDE, PHONE, HEIGHT = 1280, 390, 900
LOOK = 0.1  # seconds between two looks at a page


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """The browser of a file: to start one takes longer than most tests."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield found
        found.close()


@pytest.fixture
def browser(chromium: Any) -> Iterator[Any]:
    """The file's, of whose pages none is left over that the test opened."""
    known = list(chromium.contexts)
    yield chromium
    for context in chromium.contexts:
        if context not in known:
            context.close()


class Look:
    """A page of the browser, and what went wrong in it. Wide and light, unless options of a context say otherwise."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        options = {"viewport": {"width": WIDE, "height": HEIGHT}, "color_scheme": "light"} | options
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(1000 * PATIENCE)
        self.wrong: list[str] = []
        self.page.on("console", lambda m: self.wrong.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on(
            "request", lambda r: None if r.url.startswith((url, "data:")) else self.wrong.append(f"asked {r.url}")
        )
        self.url = url

    def open(self, stream: str, tab: str) -> Any:
        self.page.goto(f"{self.url}/?stream={stream}&tab={tab}")
        self.page.wait_for_selector("main > *", state="attached")
        return self.page

    @contextmanager
    def late(self, pattern: str) -> Iterator[None]:
        """What is asked by such an address is not answered before the end."""
        held, late = list[Any](), [True]
        self.page.route(re.compile(pattern), lambda route: held.append(route) if late else route.continue_())
        yield
        late.clear()
        for route in held:
            route.continue_()

    def until(self, condition: str, argument: Any = None) -> None:
        """Ask again and again until it is so; not with each frame, which would be drawn for it."""
        self.page.wait_for_function(condition, arg=argument, polling=1000 * LOOK)

    def until_said(self, text: str, where: str = "body") -> None:
        try:
            self.until("([where, text]) => document.querySelector(where)?.textContent.includes(text)", [where, text])
        except Exception:  # a page tells more than a timeout
            shown = self.page.evaluate("where => document.querySelector(where)?.textContent", where)
            raise AssertionError(f"{text!r} is not in {where}: {shown!r}; {self.wrong}") from None

    def everywhere(self) -> Iterator[int]:
        """As it is, and then in the other of two forms, wide and light or as on a phone and dark: the width of each.
        Nothing is cut, and everyone can read it."""
        for again in (True, False):
            width = self.page.viewport_size["width"]
            yield width
            self.until_it_fits()
            assert not self.accessible(), (width, self.accessible())
            if again:
                self.page.set_viewport_size({"width": WIDE + PHONE - width, "height": HEIGHT})
                self.page.locator("#theme").click()

    def picture(self, name: str) -> None:
        """For people to look at, in the folder that PAGE_PICTURES names."""
        if folder := os.environ.get("PAGE_PICTURES"):
            self.page.screenshot(path=f"{folder}/{name}-{self.page.viewport_size['width']}.png", full_page=True)

    def until_it_fits(self) -> None:
        """Until nothing is wider than the window, which charts learn a frame after its width has changed."""
        self.until("() => document.documentElement.scrollWidth <= innerWidth")

    def until_drawn(self) -> None:
        """Until the first chart has its lines."""
        self.until(
            "() => [...document.querySelectorAll('.entry b')].some((each) => !['–', ''].includes(each.textContent))"
        )

    def accessible(self) -> list[str]:
        from axe_playwright_python.base import AXE_SCRIPT

        # The driver adds the script, which the page's own policy does not stop; once, as that takes longer than a look.
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE_SCRIPT)
        found = self.page.evaluate("axe.run({ resultTypes: ['violations'] }).then(({ violations }) => violations)")
        return [f"{v['id']}: {v['nodes'][0]['html'][:120]}" for v in found if v["impact"] in ("serious", "critical")]
