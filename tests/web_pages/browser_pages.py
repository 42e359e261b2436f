"""Open pages in a real browser and collect its errors."""

from __future__ import annotations

import shutil
from typing import Any, Literal, Protocol

from api_data import NOW
from fake_web_service import FakeWebService
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, expect

from missing_tools import skip_without

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# Long timeout in milliseconds, because the machine is shared.
TIMEOUT_MS = 30_000
ColorScheme = Literal["light", "dark"]
NAMES = ("chromium", "chromium-browser", "google-chrome")


expect.set_options(timeout=TIMEOUT_MS)


class PageOpener(Protocol):
    """Opens a page at a URL fragment; with `fixed_clock` its time stands still."""

    def __call__(
        self,
        address: str = "#/overview",
        *,
        width: int = 1280,
        height: int = 800,
        path: str = "/",
        fixed_clock: bool = False,
        color_scheme: ColorScheme = "light",
        device_scale_factor: float = 1,
    ) -> Page: ...


def find_browser() -> str:
    """Return the browser's path. Without one the tests are skipped, or fail in CI."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        skip_without("chromium", "there is no Chromium on PATH")
    return found


def call_inspector(page: Page, what: str, *given: Any) -> Any:
    """Call a function of `js/inspect.js` in a page."""
    call = "([name, given]) => import('/tests/inspect.js').then((file) => file[name](...given))"
    return page.evaluate(call, [what, list(given)])


class CachedPage:
    """A page that tests share one after another, because a new one costs a second of CPU time."""

    def __init__(self, browser: Browser, *, fixed_clock: bool, scale: float) -> None:
        context = browser.new_context(timezone_id="UTC", locale="en-GB", device_scale_factor=scale)
        context.set_default_timeout(TIMEOUT_MS)
        self.page = context.new_page()
        if fixed_clock:
            # Fix the clock at the time of the data; timers still run.
            self.page.clock.set_fixed_time(NOW)
        self._session = self.page.context.new_cdp_session(self.page)

    def prepare(self, width: int, height: int, color_scheme: ColorScheme) -> Page:
        """Set the size and colour scheme for a test."""
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.emulate_media(color_scheme=color_scheme)
        return self.page

    def clean(self, origin: str) -> None:
        """Reset the document, cookies, storage and mouse."""
        self.page.goto("about:blank")
        self.page.mouse.move(0, 0)
        kinds = {"origin": origin, "storageTypes": "cookies,local_storage"}
        self._session.send("Storage.clearDataForOrigin", kinds)


class PageCache:
    """The pages that are shared while the browser runs."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._kept: dict[tuple[bool, float], CachedPage] = {}

    def get(self, *, fixed_clock: bool, scale: float) -> CachedPage:
        kind = (fixed_clock, scale)
        if kind not in self._kept:
            self._kept[kind] = CachedPage(self._browser, fixed_clock=fixed_clock, scale=scale)
        return self._kept[kind]


class TrackedPageOpener:
    """The pages of one test and their errors."""

    def __init__(self, kept: PageCache, web_service: FakeWebService) -> None:
        self._kept = kept
        self._stage = web_service
        self._used: list[CachedPage] = []
        self.errors: list[str] = []

    def __call__(
        self,
        address: str = "#/overview",
        *,
        width: int = 1280,
        height: int = 800,
        path: str = "/",
        fixed_clock: bool = False,
        color_scheme: ColorScheme = "light",
        device_scale_factor: float = 1,
    ) -> Page:
        kept = self._kept.get(fixed_clock=fixed_clock, scale=device_scale_factor)
        assert kept not in self._used, "A test has one page of a kind."
        self._used.append(kept)
        page = kept.prepare(width, height, color_scheme)
        page.on("pageerror", self._failed)
        page.on("console", self._said)
        page.goto(f"{self._stage.url}{path}{address}")
        return page

    def _failed(self, error: Error) -> None:
        self.errors.append(str(error))

    def _said(self, message: ConsoleMessage) -> None:
        # Browsers report every error response, which tests cause on purpose.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.errors.append(message.text)

    def close(self) -> None:
        for kept in self._used:
            kept.page.remove_listener("pageerror", self._failed)
            kept.page.remove_listener("console", self._said)
            kept.clean(self._stage.url)
