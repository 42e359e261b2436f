"""One browser for the whole session, one service made of data, fresh pages for each test."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from pages_browser import FLAGS, KeptPages, Opened, Opener, program
from pages_stage import Stage
from playwright.sync_api import Browser, sync_playwright


@pytest.fixture(scope="session")
def whole_browser() -> Iterator[tuple[Browser, asyncio.AbstractEventLoop]]:
    path = program()
    with sync_playwright() as play:
        found = play.chromium.launch(executable_path=path, args=FLAGS)
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        yield found, loop
        asyncio._set_running_loop(loop)
        found.close()


@pytest.fixture
def browser(whole_browser: tuple[Browser, asyncio.AbstractEventLoop]) -> Iterator[Browser]:
    """The browser. Its loop counts as running, also between calls: others that follow in this
    process have loops of their own, so it must not."""
    found, loop = whole_browser
    asyncio._set_running_loop(loop)
    yield found
    asyncio._set_running_loop(None)


@pytest.fixture(scope="session")
def whole_stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.go()


@pytest.fixture
def stage(whole_stage: Stage) -> Iterator[Stage]:
    yield whole_stage
    whole_stage.reset()


@pytest.fixture(scope="session")
def kept_pages(whole_browser: tuple[Browser, asyncio.AbstractEventLoop]) -> KeptPages:
    return KeptPages(whole_browser[0])


@pytest.fixture
def opened(browser: Browser, kept_pages: KeptPages, stage: Stage) -> Iterator[Opened]:
    """Opens pages. What they complain of fails the test."""
    opener = Opener(kept_pages, stage)
    yield opener
    opener.close()
    assert opener.complaints == []
