"""Opening pages in a real browser, and listening to what it complains of."""

from __future__ import annotations

import os
import shutil
from typing import Any, Protocol

import pytest
from pages_data import NOW
from pages_stage import Stage
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# How long a page may take for anything, in milliseconds: generous, for the machine is shared.
PATIENCE = 30_000
NAMES = ("chromium", "chromium-browser", "google-chrome")


expect.set_options(timeout=PATIENCE)


class Opened(Protocol):
    """Opens a page at an address behind `#`; `still`: its clock does not go on."""

    def __call__(
        self,
        address: str = "#/stable",
        *,
        width: int = 1280,
        height: int = 800,
        path: str = "/",
        still: bool = False,
        **wishes: Any,
    ) -> Page: ...


def program() -> str:
    """The browser; without one the tests are skipped, in CI they fail."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        words = "there is no Chromium here (on Debian: apt-get install chromium)"
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)
    return found


def looked(page: Page, what: str, *given: Any) -> Any:
    """What a function of `js/looking.js` finds in a page."""
    call = "([name, given]) => import('/tests/looking.js').then((file) => file[name](...given))"
    return page.evaluate(call, [what, list(given)])


class Opener:
    """Pages of one test, and what they complained of."""

    def __init__(self, browser: Browser, stage: Stage) -> None:
        self._browser = browser
        self._stage = stage
        self._contexts: list[BrowserContext] = []
        self.complaints: list[str] = []

    def __call__(
        self,
        address: str = "#/stable",
        *,
        width: int = 1280,
        height: int = 800,
        path: str = "/",
        still: bool = False,
        **wishes: Any,
    ) -> Page:
        size = {"width": width, "height": height}
        context = self._browser.new_context(
            viewport=size,  # type: ignore[arg-type]
            timezone_id="UTC",
            locale="en-GB",
            **wishes,
        )
        context.set_default_timeout(PATIENCE)
        self._contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._said)
        if still:
            # Its clock stands at the moment of the data; what waits for time still comes.
            page.clock.set_fixed_time(NOW)
        page.goto(f"{self._stage.url}{path}{address}")
        return page

    def _said(self, message: ConsoleMessage) -> None:
        # A browser tells of every answer that is an error; that is not ours to mend.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    def close(self) -> None:
        for context in self._contexts:
            context.close()
