"""Shadow mode: silent when the feeds find what the full scan finds, loud when one is broken."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import pytest
from polled_repositories import fleet

from hostler.forge.github.polling.poller import PollPlan
from hostler.forge.port import ItemKind, SurfaceFeed
from hostler.telemetry import names
from hostler.telemetry.metrics import metrics

SHADOW = PollPlan(incremental="shadow")


@pytest.fixture
def town(database_template):
    with fleet(database_template, shadow=SHADOW) as (hub, homes):
        hub.branches["topic"] = "1" * 40
        number = hub.open_pull("topic", "main", "x", by="hostler-bot")
        homes["shadow"].follow(number)
        yield hub, homes["shadow"], number


def reported(home, polls=12, seconds=60):
    """Differences told over some polls."""
    found = []
    for _ in range(polls):
        home.hub.clock.advance(seconds)
        found += home.poller.poll().differences
    return found


@contextmanager
def deaf(hub, feed):
    """A reader that skips what one feed says."""
    real = type(hub).changes

    def changes(self, asked, since, **how):
        found = real(self, asked, since, **how)
        return replace(found, items=()) if asked is feed else found

    with patch.object(type(hub), "changes", changes):
        yield


def test_equal_readings_say_nothing(town):
    hub, home, number = town
    before = metrics.value(names.SHADOW_DIFFERENCES)
    for place in range(6):
        comment = hub.say(number, f"words {place}", by="alice")
        hub.review_line(number, f"line {place}", by="bob")
        hub.review(number, "COMMENTED", f"all {place}", by="bob")
        assert reported(home, polls=2) == []
        hub.edit(ItemKind.ISSUE_COMMENT, comment, "edited")
    assert reported(home) == []
    assert metrics.value(names.SHADOW_DIFFERENCES) == before


def test_what_is_shown_late_or_changes_between_two_readings_is_no_difference(town):
    hub, home, number = town
    reported(home, polls=3)
    real = type(hub).changes
    said = []

    def stirring(self, feed, since, **how):
        found = real(self, feed, since, **how)
        if feed is SurfaceFeed.REVIEW_COMMENTS:  # the last of the feeds; the full scan follows
            said.append(self.say(number, f"meanwhile {len(said)}", by="alice"))
        return found

    with patch.object(type(hub), "changes", stirring):
        assert reported(home, polls=10) == []
    late = hub.say(number, "late", by="alice")
    hub.hide(late, 280)
    assert reported(home, polls=15) == []
    assert len(said) == 10


@pytest.mark.parametrize("feed", [SurfaceFeed.ISSUE_COMMENTS, SurfaceFeed.REVIEW_COMMENTS])
def test_a_reader_that_is_broken_on_purpose_is_reported_once(town, feed):
    hub, home, number = town
    reported(home, polls=3)
    before = metrics.value(names.SHADOW_DIFFERENCES)
    with deaf(hub, feed):
        hub.say(number, "lost words", by="alice")
        hub.review_line(number, "lost line", by="bob")
        told = reported(home, polls=20)
    kind = "issue_comment" if feed is SurfaceFeed.ISSUE_COMMENTS else "review_comment"
    assert len(told) == 1 and told[0].startswith(f"{kind}:")
    assert metrics.value(names.SHADOW_DIFFERENCES) == before + 1


def test_the_incremental_result_is_what_counts(town):
    hub, home, number = town
    reported(home, polls=3)
    with deaf(hub, SurfaceFeed.ISSUE_COMMENTS):
        hub.say(number, "only in the full scan", by="alice")
        reported(home, polls=20)
    assert home.rows() == []


def test_what_was_taken_back_is_no_difference(town):
    hub, home, number = town
    reported(home, polls=3)
    with deaf(hub, SurfaceFeed.ISSUE_COMMENTS):
        comment = hub.say(number, "never mind", by="alice")
        assert reported(home, polls=2) == []
        hub.delete(ItemKind.ISSUE_COMMENT, comment)
        assert reported(home, polls=20) == []
