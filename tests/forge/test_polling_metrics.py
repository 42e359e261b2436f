"""The feeds in numbers and words: counted after the commit, by surface, with their objectives."""

from __future__ import annotations

from io import StringIO

import pytest
from polling_fixture import PolledRepo

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
def polled_repo(sandbox_repo, store):
    return PolledRepo(sandbox_repo, store)


@pytest.fixture
def grown():
    return Counting()


def test_pages_items_news_and_replays_are_counted_by_surface(sandbox_repo, polled_repo, grown):
    number = sandbox_repo.issue()
    polled_repo.settle()
    counted = (
        names.FETCH_REQUESTS,
        names.FETCH_PAGES,
        names.FETCHED,
        names.FETCHED_NEW,
        names.FETCHED_REPLAY,
    )
    for metric in counted:
        grown(metric, **COMMENTS)
    sandbox_repo.say(number, "new")
    polled_repo.poll()
    assert [grown(metric, **COMMENTS) for metric in counted] == [1, 1, 1, 1, 0]
    polled_repo.poll()
    assert [grown(metric, **COMMENTS) for metric in counted] == [1, 1, 1, 0, 1]
    for _ in range(5):
        polled_repo.poll()
    assert [grown(metric, **COMMENTS) for metric in counted] == [1, 0, 0, 0, 0]


def test_what_was_not_stored_is_not_counted(sandbox_repo, polled_repo, grown, monkeypatch):
    number = sandbox_repo.issue()
    polled_repo.settle()
    grown(names.FETCHED_NEW, **COMMENTS)
    sandbox_repo.pass_time(60)
    sandbox_repo.say(number, "new")
    writes = Store.write

    def refused(self, *scopes, **how):
        raise ZeroDivisionError

    monkeypatch.setattr(Store, "write", refused)
    with pytest.raises(ZeroDivisionError):
        polled_repo.poll()
    monkeypatch.setattr(Store, "write", writes)
    assert grown(names.FETCHED_NEW, **COMMENTS) == 0
    polled_repo.poll()
    assert grown(names.FETCHED_NEW, **COMMENTS) == 1


def test_feedback_is_what_is_said_on_followed_pull_requests(
    sandbox_git_repo, sandbox_repo, polled_repo, grown
):
    number, issue = sandbox_repo.pull(), sandbox_repo.issue()
    polled_repo.follow(number, PullStatus.BLOCKED)
    polled_repo.settle()
    grown(names.FEEDBACK_INGESTED)
    grown(names.FEEDBACK_DEDUPED)
    sandbox_repo.say(number, "feedback")
    sandbox_repo.say(issue, "no feedback")
    polled_repo.poll()
    assert (grown(names.FEEDBACK_INGESTED), grown(names.FEEDBACK_DEDUPED)) == (1, 0)
    polled_repo.poll()
    assert (grown(names.FEEDBACK_INGESTED), grown(names.FEEDBACK_DEDUPED)) == (0, 1)


def test_a_watermark_tells_its_age_by_githubs_time(sandbox_repo, polled_repo):
    sandbox_repo.say(sandbox_repo.issue())
    polled_repo.poll()
    sandbox_repo.pass_time(500)
    sandbox_repo.clock.jump(-86_400)
    polled_repo.wake()
    polled_repo.poll()
    assert metrics.value(names.CURSOR_LAG, **COMMENTS) == pytest.approx(500, abs=2)


def test_the_objectives_have_gauges(sandbox_repo, store):
    repo = {"repo": str(sandbox_repo.name)}
    meter = PollMetrics(str(sandbox_repo.name), 30.0)
    poller = Poller(
        PollContext(store, sandbox_repo.forge, sandbox_repo.name, poll_metrics=meter), PollPlan()
    )
    number = sandbox_repo.issue()
    for _ in range(3):
        poller.poll()
    for _ in range(5):
        sandbox_repo.say(number, "quick")
        sandbox_repo.pass_time(20)
        poller.poll()
    assert metrics.value(names.SLO_NEW, **repo) == 1
    assert metrics.value(names.SLO_FETCHED, **repo) >= 1
    assert metrics.value(names.SLO_LAG, **repo) == pytest.approx(20, abs=2)
    assert metrics.value(names.SLO_LAG_TARGET, **repo) == 90
    sandbox_repo.pass_time(600)
    for _ in range(120):
        sandbox_repo.pass_time(30)
        poller.poll()
    assert metrics.value(names.SLO_NEW, **repo) == 0
    assert metrics.value(names.SLO_FETCHED, **repo) <= 1


def test_polls_say_what_they_do(sandbox_repo, post, store):
    lines = StringIO()
    log = LogDestinations(FakeClock(), None, terminal=lines, least=LogLevel.DEBUG).log
    poller = Poller(PollContext(store, sandbox_repo.forge, sandbox_repo.name, log=log))
    post.queue(CreateComment(sandbox_repo.issue(), "On it."), "t1")
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
