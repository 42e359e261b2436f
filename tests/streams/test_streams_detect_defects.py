"""The streams are sharp: whatever is broken in the feeds shows, within a few of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import select, update
from streams_campaign import campaign

from hostler.forge.github.polling import ingest, surfaces
from hostler.forge.github.polling import poller as polling
from hostler.intake import process
from hostler.store.schema import feedback_events
from hostler.workflows import effects, turns

SEEDS = range(60)


def no_late_visibility() -> None:
    """A reading begins where the last one ended."""
    surfaces.read_since = lambda mark, window: mark.at


def cursor_ahead_of_its_events() -> None:
    """The cursor is stored in a transaction before its events, and much can happen in between."""
    poll_surface = polling.poll_surface

    def early(tap, place):
        found = surfaces.request_changes(tap, place)
        if not found.quiet:
            with tap.store.write(*tap.scopes) as tx:
                surfaces.advance_surface(tx, tap, place, found.after)
            for _ in range(40):
                with tap.store.read() as tx:
                    tx.constant("SELECT 1")
        return poll_surface(tap, place)

    polling.poll_surface = early


def versions_without_a_digest() -> None:
    """A second edit in the same second is taken for the first."""
    key = ingest.event_key
    ingest.event_key = lambda item: key(replace(item, body="", content=None))


def words_without_an_effect() -> None:
    """Words are taken for heard, and nobody is told."""
    process.record_feedback_event = lambda tx, repo, event: None


def nobody_sweeps() -> None:
    """What moves nothing is not looked for."""
    polling.Poller._sweep_next = lambda poller, poll_state, found: None


def answered_twice() -> None:
    """Words that were answered are waiting again."""
    turns.pending_event_keys = lambda tx, task: list(
        tx.execute(
            select(feedback_events.c.event_key).where(
                feedback_events.c.issue_number == task.number,
                feedback_events.c.pr_number.in_([0, task.pr_number or 0]),
            )
        ).scalars()
    )
    effects.mark_feedback_events_processed = lambda tx, repo, keys: tx.execute(
        update(feedback_events)
        .where(feedback_events.c.event_key.in_(keys))
        .values(processed_at=tx.stamp())
    )


BROKEN = (
    no_late_visibility,
    cursor_ahead_of_its_events,
    versions_without_a_digest,
    words_without_an_effect,
    nobody_sweeps,
    answered_twice,
)


# One of them in every run; the others belong to the long campaigns.
USUAL = (versions_without_a_digest,)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "sabotage",
    [pytest.param(one, marks=() if one in USUAL else pytest.mark.soak) for one in BROKEN],
)
def test_what_is_broken_shows(sabotage):
    assert campaign(SEEDS, sabotage=sabotage).failures
