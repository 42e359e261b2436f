"""What streams have found, each in its smallest form."""

from __future__ import annotations

import pytest
from intake_yard import BUGFIX, Yard, database

from hostler.clock import FakeClock
from hostler.forge.port import ItemKind
from hostler.store.outbox import open_writes


@pytest.fixture
def yard():
    clock = FakeClock()
    with database(clock) as store:
        yield Yard(store, clock)


def redirects(yard):
    with yard.store.read() as tx:
        return [row for row in open_writes(tx) if row.token.startswith("redirect")]


def test_two_versions_that_arrive_together_are_led_on_once(yard):
    """Below the floor, since a later comment was shown first."""
    issue = yard.file("Crash", "ann", BUGFIX)
    yard.poll()
    yard.open_pull(yard.task())
    late = yard.say(issue, "first words")
    hidden = yard.hub.comments.pop(late)
    yard.say(issue, "later words")
    yard.poll()
    before = len(redirects(yard))
    yard.hub.comments[late] = hidden
    yard.read()
    yard.hub.edit(ItemKind.ISSUE_COMMENT, late, "other words")
    yard.poll()
    assert len(redirects(yard)) == before + 1
    yard.tick()
    yard.hub.edit(ItemKind.ISSUE_COMMENT, late, "yet other words")
    yard.poll()
    assert len(redirects(yard)) == before + 1
