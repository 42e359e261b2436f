"""Fixtures: one browser and one fake service per session, fresh pages for each test."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from browser_pages import FLAGS, PageCache, PageOpener, TrackedPageOpener, find_browser
from fake_web_service import FakeWebService
from playwright.sync_api import Browser, sync_playwright


@pytest.fixture(scope="session")
def shared_browser() -> Iterator[tuple[Browser, asyncio.AbstractEventLoop]]:
    path = find_browser()
    with sync_playwright() as play:
        found = play.chromium.launch(executable_path=path, args=FLAGS)
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        yield found, loop
        asyncio._set_running_loop(loop)
        found.close()


@pytest.fixture
def browser(shared_browser: tuple[Browser, asyncio.AbstractEventLoop]) -> Iterator[Browser]:
    """The browser. Its event loop counts as running only during the test.

    Otherwise other tests of this process could not run their own loops.
    """
    found, loop = shared_browser
    asyncio._set_running_loop(loop)
    yield found
    asyncio._set_running_loop(None)


@pytest.fixture(scope="session")
def shared_web_service() -> Iterator[FakeWebService]:
    web_service = FakeWebService()
    yield web_service
    web_service.stop()


@pytest.fixture
def web_service(shared_web_service: FakeWebService) -> Iterator[FakeWebService]:
    yield shared_web_service
    shared_web_service.reset()


@pytest.fixture(scope="session")
def page_cache(shared_browser: tuple[Browser, asyncio.AbstractEventLoop]) -> PageCache:
    return PageCache(shared_browser[0])


@pytest.fixture
def open_page(
    browser: Browser, page_cache: PageCache, web_service: FakeWebService
) -> Iterator[PageOpener]:
    """Opens pages. Their errors fail the test."""
    opener = TrackedPageOpener(page_cache, web_service)
    yield opener
    opener.close()
    assert opener.errors == []
