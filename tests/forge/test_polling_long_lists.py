"""Threads that are longer than GitHub's page numbers go."""

from __future__ import annotations

import pytest
from polling_fixture import PolledRepo, chatter

from hostler.forge.port import SurfaceFeed

LIMIT = 10_000


@pytest.fixture
def long_thread(sandbox_git_repo, sandbox_repo):
    """A pull request with some more comments than can be paged through, the last one just now."""
    number = sandbox_repo.pull("topic")
    chatter(sandbox_repo, number, LIMIT + 150, seconds=72_000)
    sandbox_repo.pass_time(600)
    sandbox_repo.say(number, "the last word")
    return number


@pytest.mark.soak
def test_a_thread_beyond_the_last_page_is_read_whole(sandbox_repo, long_thread):
    reading = sandbox_repo.forge.changes(SurfaceFeed.THREAD_COMMENTS, None, number=long_thread)
    assert reading.complete
    assert len({item.id for item in reading.items}) == len(reading.items) == LIMIT + 151
    assert reading.items[-1].body == "the last word"


@pytest.mark.soak
def test_a_poll_that_begins_with_such_a_thread_comes_through(sandbox_repo, store, long_thread):
    polled_repo = PolledRepo(sandbox_repo, store)
    polled_repo.follow(long_thread)
    polled_repo.poll()
    assert len(polled_repo.bodies("issue_comment")) == LIMIT + 151
