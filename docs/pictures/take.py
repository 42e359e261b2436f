"""Take the pictures of the dashboard from a demo: the real service, watched in a real browser.

What is seen differs a little each time, as the demo is no film. `make screenshots` runs it.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import guests
import httpx
from playwright.sync_api import Browser, Page, sync_playwright

from hostler.service.context import read_presence

HERE = Path(__file__).parent
HOSTLER = [sys.executable, "-m", "hostler"]
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
WIDE, TALL = {"width": 1280, "height": 800}, {"width": 1280, "height": 1020}
PHONE = {"width": 360, "height": 740}
OTHERS = {"overview-dark": (TALL, "dark"), "overview-phone": (PHONE, "light")}
PATIENCE = 120.0
# So many guests have a place at last.
AT_WORK = 6
# How often a picture is taken until it shows nothing of this machine.
TRIES = 20
LARGEST = 300_000
T = TypeVar("T")
# What belongs to the machine that takes the pictures is nobody else's business.
FOLDER = "/srv/hostler"
ELSEWHERE = """(words) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode;
    const told = words.reduce((text, [ours, shown]) => text.replaceAll(ours, shown), node.data);
    if (told !== node.data) node.data = told;
  }
}"""


def main() -> None:
    """All pictures, or an error."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=FLAGS)
        with filmed(browser, held=True) as camera:
            camera.take_overview()
        # Another one: while a story is held, its GitHub is too, and whoever looks there is late.
        with filmed(browser, held=False) as camera:
            camera.take_others()
        browser.close()
    for picture in sorted(HERE.glob("*.png")):
        size = picture.stat().st_size
        print(f"{picture.name}: {size:,} bytes")
        assert size < LARGEST, "too large"


@contextmanager
def filmed(browser: Browser, *, held: bool) -> Iterator[Camera]:
    """A demo with guests, and a page that watches; held where the story would go on without us."""
    with (
        tempfile.TemporaryDirectory(prefix="pictures-") as folder,
        demo(Path(folder), held=held) as (story, home),
        served(home) as (url, token),
    ):
        camera = Camera(browser, url, token, story, home.parent)
        bring_guests(url, token, home)
        yield camera


class Story:
    """The demo. It stands still while it is held."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def hold(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)


@contextmanager
def demo(folder: Path, *, held: bool) -> Iterator[tuple[Story, Path]]:
    """A demo that has just begun, perhaps held; and its home."""
    env = {**os.environ, "TMPDIR": str(folder)}
    process = subprocess.Popen(
        [*HOSTLER, "demo", "--plain", "--keep"], env=env, stdout=subprocess.DEVNULL
    )
    story = Story(process)
    try:
        home = until(lambda: next(folder.glob("hostler-demo-*/home/hostler.db"), None)).parent
        until(lambda: takes_tasks(home))
        if held:
            story.hold()
        guests.invite(home)
        yield story, home
    finally:
        story.go_on()
        process.send_signal(signal.SIGINT)
        process.wait()


def takes_tasks(home: Path) -> bool | None:
    """Whether the demo's service is at work."""
    return read_presence(home).takes_tasks or None


def bring_guests(url: str, token: str, home: Path) -> None:
    """Have more tasks than the story has."""
    folder = home.parent / "guests"
    folder.mkdir()
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=f"{url}/api/v1/", headers=headers, timeout=30) as client:
        guests.set_caps(client)
        for one in (*guests.FIRST, *guests.THEN):
            guests.submit(client, one, folder)


@contextmanager
def served(home: Path) -> Iterator[tuple[str, str]]:
    """The dashboard of a home, beside whoever works on it: its address and token."""
    call = [*HOSTLER, "--home", str(home), "--config", str(home / "hostler.toml"), "web"]
    listen = ["serve", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen([*call, *listen], stdout=subprocess.PIPE, text=True, bufsize=1)
    assert process.stdout is not None
    try:
        said = process.stdout.readline()
        token = subprocess.run([*call, "token"], capture_output=True, text=True, check=True)
        yield said.rpartition("Dashboard: ")[2].partition(" ")[0], token.stdout.strip()
    finally:
        process.terminate()
        process.wait()


def until(found: Callable[[], T | None]) -> T:
    """What is found at last."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        here = found()
        if here is not None:
            return here
        time.sleep(0.1)
    raise TimeoutError("the demo did not come so far")


class Camera:
    """One page that watches from the beginning, and others for other sizes."""

    def __init__(self, browser: Browser, url: str, token: str, story: Story, folder: Path) -> None:
        self._folder = str(folder)
        self._browser = browser
        self._url = url
        self._token = token
        self._story = story
        self._watching = self._page(TALL)

    def take_overview(self) -> None:
        """When somebody is asked; the story stands still for them."""
        others = [(name, self._page(*how)) for name, how in OTHERS.items()]
        until(self._guests_are_settled)
        self._story.go_on()
        until(self._somebody_is_asked)
        self._story.hold()
        for name, page in (("overview", self._watching), *others):
            self._wait(page, ".needs-you-row")
            self._shoot(page, name)
        self._story.go_on()

    def take_others(self) -> None:
        """In the order of the story."""
        page = self._watching
        self._go(page, "#/work", ".column:nth-child(4) .board-card")
        self._shoot(page, "board")
        task = page.locator(".column:nth-child(4) .board-card h3 a").first.get_attribute("href")
        self._go(page, task or "", ".output-line:nth-child(3)")
        self._shoot(page, "task")
        self._go(page, "#/work/graph", ".graph-node")
        self._shoot(page, "graph")
        # Its agents meet a limit after a while.
        self._go(page, "#/governor", "[aria-label='Pool openai'] .chart-limit")
        page.locator("section[aria-label='Pool openai']").evaluate("(one) => one.scrollIntoView()")
        page.mouse.wheel(0, -80)
        page.wait_for_timeout(500)
        self._shoot(page, "governor")
        # Looks are noted once a minute.
        self._go(page, "#/overview", ".card")
        self._go(page, "#/health", ".poll-row >> text=all on time")
        self._go(page, "#/health", ".finding")
        self._shoot(page, "health")

    def _guests_are_settled(self) -> bool | None:
        seen = self._status()
        first = seen["tasks"].get("done", 0) >= len(guests.FIRST)
        return True if first and seen["at_work_total"] >= AT_WORK else None

    def _somebody_is_asked(self) -> bool | None:
        return True if self._status()["needs_person_total"] else None

    def _status(self) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._token}"}
        seen: dict[str, Any] = httpx.get(
            f"{self._url}/api/v1/status", headers=headers, timeout=30
        ).json()
        return seen

    def _page(self, size: dict[str, int], scheme: str = "light") -> Page:
        context = self._browser.new_context(
            viewport=size,  # type: ignore[arg-type]
            color_scheme=scheme,  # type: ignore[arg-type]
            timezone_id="UTC",
            locale="en-GB",
        )
        context.set_default_timeout(PATIENCE * 1000)
        page = context.new_page()
        page.goto(self._url)
        page.get_by_label("Token").fill(self._token)
        page.get_by_role("button", name="Log in").click()
        self._wait(page, ".connection.is-live")
        return page

    def _go(self, page: Page, address: str, shown: str) -> None:
        page.evaluate("(address) => { location.hash = address; }", address)
        self._wait(page, shown)

    def _wait(self, page: Page, shown: str) -> None:
        page.locator(shown).first.wait_for(state="attached")

    def _shoot(self, page: Page, name: str) -> None:
        words = [[self._folder, FOLDER], [f"on {socket.gethostname()},", "here,"]]
        for _ in range(TRIES):
            page.evaluate(ELSEWHERE, words)
            page.screenshot(path=HERE / f"{name}.png")
            # What is live may have been drawn anew in between.
            if self._folder not in page.locator("body").inner_text():
                return
        raise TimeoutError(f"{name} shows a folder of this machine")


if __name__ == "__main__":
    main()
