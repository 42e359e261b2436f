"""The feeds in numbers and words: counted after the commit, by surface, with their objectives."""

from __future__ import annotations

from io import StringIO

import pytest
from feeds_yard import Yard

from hostler.clock import FakeClock
from hostler.forge.actions import CreateComment
from hostler.forge.github.polling.context import PollContext, PollMetrics
from hostler.forge.github.polling.poller import Poller, PollPlan
from hostler.store import Store
from hostler.store.pull_requests import PullStatus
from hostler.telemetry import names
from hostler.telemetry.logs import LogDestinations
from hostler.telemetry.metrics import metrics
from hostler.telemetry.names import LogLevel

COMMENTS = {"surface": "repo_issue_comments"}


class Counting:
    """How much metrics have grown since."""

    def __init__(self):
        self._before = {}

    def __call__(self, metric, **labels):
        key = (metric.name, *labels.items())
        now = metrics.value(metric, **labels)
        grown = now - self._before.get(key, 0.0)
        self._before[key] = now
        return grown


@pytest.fixture
def yard(house, store):
    return Yard(house, store)


@pytest.fixture
def grown():
    return Counting()


def test_pages_items_news_and_replays_are_counted_by_surface(house, yard, grown):
    number = house.issue()
    yard.settle()
    counted = (
        names.FETCH_REQUESTS,
        names.FETCH_PAGES,
        names.FETCHED,
        names.FETCHED_NEW,
        names.FETCHED_REPLAY,
    )
    for metric in counted:
        grown(metric, **COMMENTS)
    house.say(number, "new")
    yard.poll()
    assert [grown(metric, **COMMENTS) for metric in counted] == [1, 1, 1, 1, 0]
    yard.poll()
    assert [grown(metric, **COMMENTS) for metric in counted] == [1, 1, 1, 0, 1]
    for _ in range(5):
        yard.poll()
    assert [grown(metric, **COMMENTS) for metric in counted] == [1, 0, 0, 0, 0]


def test_what_was_not_stored_is_not_counted(house, yard, grown, monkeypatch):
    number = house.issue()
    yard.settle()
    grown(names.FETCHED_NEW, **COMMENTS)
    house.pass_time(60)
    house.say(number, "new")
    writes = Store.write

    def refused(self, *scopes, **how):
        raise ZeroDivisionError

    monkeypatch.setattr(Store, "write", refused)
    with pytest.raises(ZeroDivisionError):
        yard.poll()
    monkeypatch.setattr(Store, "write", writes)
    assert grown(names.FETCHED_NEW, **COMMENTS) == 0
    yard.poll()
    assert grown(names.FETCHED_NEW, **COMMENTS) == 1


def test_feedback_is_what_is_said_on_followed_pull_requests(git_house, house, yard, grown):
    number, issue = house.pull(), house.issue()
    yard.follow(number, PullStatus.BLOCKED)
    yard.settle()
    grown(names.FEEDBACK_INGESTED)
    grown(names.FEEDBACK_DEDUPED)
    house.say(number, "feedback")
    house.say(issue, "no feedback")
    yard.poll()
    assert (grown(names.FEEDBACK_INGESTED), grown(names.FEEDBACK_DEDUPED)) == (1, 0)
    yard.poll()
    assert (grown(names.FEEDBACK_INGESTED), grown(names.FEEDBACK_DEDUPED)) == (0, 1)


def test_a_watermark_tells_its_age_by_githubs_time(house, yard):
    house.say(house.issue())
    yard.poll()
    house.pass_time(500)
    house.clock.jump(-86_400)
    yard.wake()
    yard.poll()
    assert metrics.value(names.CURSOR_LAG, **COMMENTS) == pytest.approx(500, abs=2)


def test_the_objectives_have_gauges(house, store):
    repo = {"repo": str(house.name)}
    meter = PollMetrics(str(house.name), 30.0)
    poller = Poller(PollContext(store, house.forge, house.name, poll_metrics=meter), PollPlan())
    number = house.issue()
    for _ in range(3):
        poller.poll()
    for _ in range(5):
        house.say(number, "quick")
        house.pass_time(20)
        poller.poll()
    assert metrics.value(names.SLO_NEW, **repo) == 1
    assert metrics.value(names.SLO_FETCHED, **repo) >= 1
    assert metrics.value(names.SLO_LAG, **repo) == pytest.approx(20, abs=2)
    assert metrics.value(names.SLO_LAG_TARGET, **repo) == 90
    house.pass_time(600)
    for _ in range(120):
        house.pass_time(30)
        poller.poll()
    assert metrics.value(names.SLO_NEW, **repo) == 0
    assert metrics.value(names.SLO_FETCHED, **repo) <= 1


def test_polls_say_what_they_do(house, post, store):
    lines = StringIO()
    log = LogDestinations(FakeClock(), None, terminal=lines, least=LogLevel.DEBUG).log
    poller = Poller(PollContext(store, house.forge, house.name, log=log))
    post.queue(CreateComment(house.issue(), "On it."), "t1")
    post.drain()
    poller.poll()
    told = lines.getvalue()
    for name in (
        "incremental_scan_started",
        "incremental_scan_backfill",
        "token_observed",
        "incremental_scan_completed",
    ):
        assert name in told
    lines.truncate(0)
    poller.poll()
    assert "token_observed" not in lines.getvalue()
