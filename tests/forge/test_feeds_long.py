"""Threads that are longer than GitHub's page numbers go."""

from __future__ import annotations

import pytest
from feeds_yard import Yard, chatter

from hostler.forge.port import SurfaceFeed

LIMIT = 10_000


@pytest.fixture
def long_thread(git_house, house):
    """A pull request with some more comments than can be paged through, the last one just now."""
    number = house.pull("topic")
    chatter(house, number, LIMIT + 150, seconds=72_000)
    house.pass_time(600)
    house.say(number, "the last word")
    return number


@pytest.mark.soak
def test_a_thread_beyond_the_last_page_is_read_whole(house, long_thread):
    reading = house.forge.changes(SurfaceFeed.THREAD_COMMENTS, None, number=long_thread)
    assert reading.complete
    assert len({item.id for item in reading.items}) == len(reading.items) == LIMIT + 151
    assert reading.items[-1].body == "the last word"


@pytest.mark.soak
def test_a_poll_that_begins_with_such_a_thread_comes_through(house, store, long_thread):
    yard = Yard(house, store)
    yard.follow(long_thread)
    yard.poll()
    assert len(yard.bodies("issue_comment")) == LIMIT + 151
