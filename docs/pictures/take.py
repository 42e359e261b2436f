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
from typing import TypeVar

import httpx
from playwright.sync_api import Browser, Page, sync_playwright

HERE = Path(__file__).parent
HOSTLER = [sys.executable, "-m", "hostler"]
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 360, "height": 740}
PATIENCE = 120.0
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
    with sync_playwright() as play, tempfile.TemporaryDirectory(prefix="pictures-") as folder:
        browser = play.chromium.launch(executable_path=path, args=FLAGS)
        with demo(Path(folder)) as (story, home), served(home) as (url, token):
            Camera(browser, url, token, story, home.parent).take_all()
        browser.close()
    for picture in sorted(HERE.glob("*.png")):
        size = picture.stat().st_size
        print(f"{picture.name}: {size:,} bytes")
        assert size < LARGEST, "too large"


class Story:
    """The demo. It stands still while it is held."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def hold(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)


@contextmanager
def demo(folder: Path) -> Iterator[tuple[Story, Path]]:
    """A demo that has just begun, and is held; and its home."""
    env = {**os.environ, "TMPDIR": str(folder)}
    process = subprocess.Popen(
        [*HOSTLER, "demo", "--plain", "--keep"], env=env, stdout=subprocess.DEVNULL
    )
    story = Story(process)
    try:
        home = until(lambda: next(folder.glob("hostler-demo-*/home/hostler.db"), None)).parent
        story.hold()
        yield story, home
    finally:
        story.go_on()
        process.send_signal(signal.SIGINT)
        process.wait()


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
        yield said.rpartition("answers at ")[2].partition(";")[0], token.stdout.strip()
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

    def take_all(self) -> None:
        """In the order of the story, which stands still for the first ones."""
        page = self._page(WIDE)
        self._story.go_on()
        until(self._somebody_is_asked)
        self._story.hold()
        self._wait(page, ".need")
        self._shoot(page, "stable")
        for name, size, scheme in (("dark", WIDE, "dark"), ("phone", PHONE, "light")):
            self._shoot(self._page(size, scheme), f"stable-{name}")
        self._story.go_on()
        self._go(page, "#/work", ".column:nth-child(4) .board-card")
        self._shoot(page, "board")
        task = page.locator(".column:nth-child(4) .board-card h3 a").first.get_attribute("href")
        self._go(page, task or "", ".output-line:nth-child(3)")
        self._shoot(page, "task")
        self._go(page, "#/work", ".column:nth-child(5) .board-card:nth-child(4)")
        self._go(page, "#/work/graph", ".graph-node")
        self._shoot(page, "graph")
        self._go(page, "#/governor", ".chart-line")
        self._shoot(page, "governor")
        self._go(page, "#/health", ".finding")
        self._shoot(page, "health")

    def _somebody_is_asked(self) -> bool | None:
        headers = {"Authorization": f"Bearer {self._token}"}
        seen = httpx.get(f"{self._url}/api/v1/status", headers=headers, timeout=30).json()
        return True if seen["needs_person_total"] else None

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
        self._wait(page, ".pulse.is-live")
        return page

    def _go(self, page: Page, address: str, shown: str) -> None:
        page.evaluate("(address) => { location.hash = address; }", address)
        self._wait(page, shown)

    def _wait(self, page: Page, shown: str) -> None:
        page.locator(shown).first.wait_for(state="attached")

    def _shoot(self, page: Page, name: str) -> None:
        page.evaluate(ELSEWHERE, [[self._folder, FOLDER], [f"on {socket.gethostname()},", "here,"]])
        page.screenshot(path=HERE / f"{name}.png")


if __name__ == "__main__":
    main()
