"""The streams are sharp: whatever is broken in the feeds shows, within a few of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from streams_campaign import campaign

from hostler.forge.feeds import cursors, inbox, polling, surfaces
from hostler.store import inbox as rows

SEEDS = range(60)


def no_late_visibility() -> None:
    """A reading begins where the last one ended."""
    surfaces.since = lambda mark, window: mark.at


def cursor_ahead_of_its_events() -> None:
    """The cursor is stored in a transaction before its events."""
    draw = surfaces.draw

    def early(tap, place):
        found = surfaces.ask(tap, place)
        with tap.store.write(*tap.scopes) as tx:
            surfaces.advance(tx, tap, place, found.after)
        return draw(tap, place)

    polling.draw = early


def versions_without_a_digest() -> None:
    """A second edit in the same second is taken for the first."""
    key = inbox.event_key
    inbox.event_key = lambda item: key(replace(item, body="", payload={}))


def consumed_in_a_transaction_of_its_own() -> None:
    """Words are marked as heard, and have their effect later, or not."""
    rows.record_feedback_event.__code__ = (lambda tx, repo, event: None).__code__


def first_page_alone() -> None:
    """ "No news" is believed if the first page is as it was."""
    kept = surfaces.kept
    surfaces.kept = lambda reading: kept(reading)[:1]


def our_clock() -> None:
    """An empty first reading takes our clock for a watermark."""
    moved = cursors.moved
    surfaces.moved = lambda mark, items, complete: replace(
        moved(mark, items, complete=complete), at=mark.at + timedelta(hours=1)
    )


BROKEN = (
    no_late_visibility,
    cursor_ahead_of_its_events,
    versions_without_a_digest,
    consumed_in_a_transaction_of_its_own,
    our_clock,
)


@pytest.mark.slow
@pytest.mark.parametrize("sabotage", BROKEN)
def test_what_is_broken_shows(sabotage):
    assert campaign(SEEDS, sabotage=sabotage).failures
