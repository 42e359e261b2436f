"""One browser for the whole session, one service made of data, fresh pages for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pages_browser import FLAGS, Opened, Opener, program
from pages_stage import Stage
from playwright.sync_api import Browser, sync_playwright


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = program()
    with sync_playwright() as play:
        found = play.chromium.launch(executable_path=path, args=FLAGS)
        yield found
        found.close()


@pytest.fixture(scope="session")
def whole_stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.go()


@pytest.fixture
def stage(whole_stage: Stage) -> Iterator[Stage]:
    yield whole_stage
    whole_stage.reset()


@pytest.fixture
def opened(browser: Browser, stage: Stage) -> Iterator[Opened]:
    """Opens pages. What they complain of fails the test."""
    opener = Opener(browser, stage)
    yield opener
    opener.close()
    assert opener.complaints == []
