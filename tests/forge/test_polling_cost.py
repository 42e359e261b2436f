"""What polls cost, by the sandbox's own ledger: it follows what happens, not what there is."""

from __future__ import annotations

import pytest
from polling_fixture import PolledRepo, chatter

from hostler.forge.github.client import pagination
from hostler.forge.github.polling.poller import MAX_THREAD_SCANS
from hostler.store.pull_requests import PullStatus

HOUR = 3600


@pytest.fixture
def polled_repo(sandbox_repo, store):
    return PolledRepo(sandbox_repo, store)


def settled(sandbox_repo, polled_repo, pulls, comments, blocked=0):
    """Pull requests with long histories, all of it read and an hour ago."""
    numbers = [sandbox_repo.pull(f"topic{place}") for place in range(pulls)]
    for place, number in enumerate(numbers):
        status = PullStatus.BLOCKED if place < blocked else PullStatus.AWAITING_FEEDBACK
        polled_repo.follow(number, status)
        chatter(sandbox_repo, number, comments, seconds=20 * HOUR)
    sandbox_repo.pass_time(HOUR)
    # Each is scanned, and swept until its mergeability is known.
    for _ in range(pulls // MAX_THREAD_SCANS + 3 * pulls + 4):
        sandbox_repo.pass_time(30)
        polled_repo.poll()
    return numbers


@pytest.mark.parametrize("comments", [110, pytest.param(1000, marks=pytest.mark.soak)])
def test_a_quiet_poll_of_ten_pull_requests(sandbox_git_repo, sandbox_repo, polled_repo, comments):
    settled(sandbox_repo, polled_repo, 10, comments, blocked=2)
    for _ in range(12):
        sandbox_repo.pass_time(60)
        asked = polled_repo.asked()
        assert len(asked) <= 5
        assert {status for _, status in asked} == {304}
        ledger = sandbox_repo.ledger()
        # Not even the time is asked for.
        assert len(ledger) == len(asked)
        assert sum(row["primary"] for row in ledger) == 0


def test_what_fills_pages_at_once_is_not_asked_for_again_and_again(
    sandbox_repo, polled_repo, monkeypatch
):
    monkeypatch.setattr(pagination, "PAGE_SIZE", 5)
    numbers = [sandbox_repo.issue() for _ in range(4)]
    sandbox_repo.pass_time(HOUR)
    polled_repo.settle()
    for place in range(24):
        sandbox_repo.say(numbers[place % 4], f"word {place}")
    sandbox_repo.tune(visibility_delay=290)
    sandbox_repo.say(numbers[0], "seen late")
    polled_repo.poll()
    sandbox_repo.tune(visibility_delay=0)
    sandbox_repo.pass_time(60)
    assert len(polled_repo.asked()) > 5
    assert "seen late" not in polled_repo.bodies("issue_comment")
    # As long as something may turn up late, all of it is looked through.
    for _ in range(8):
        sandbox_repo.pass_time(60)
        polled_repo.poll()
    assert "seen late" in polled_repo.bodies("issue_comment")
    polled_repo.wake()
    polled_repo.poll()
    for _ in range(6):
        sandbox_repo.pass_time(60)
        asked = polled_repo.asked()
        assert len(asked) <= 3 and {status for _, status in asked} == {304}
    sandbox_repo.say(numbers[1], "the next")
    polled_repo.poll()
    assert polled_repo.bodies("issue_comment")[-1] == "the next"
    assert len(polled_repo.bodies("issue_comment")) == 26


@pytest.mark.parametrize("comments", [100, 1000])
def test_the_cost_is_flat_in_the_length_of_threads(
    sandbox_git_repo, sandbox_repo, polled_repo, comments
):
    (number,) = settled(sandbox_repo, polled_repo, 1, comments)
    sandbox_repo.pass_time(60)
    quiet = polled_repo.asked()
    assert [path for path, _ in quiet[:3]] == ["issues", "issues/comments", "pulls/comments"]
    assert len(quiet) == 4
    sandbox_repo.pass_time(60)
    sandbox_repo.say(number, "a new word")
    busy = polled_repo.asked()
    assert len(busy) - len(quiet) <= 3
    assert "a new word" in polled_repo.bodies("issue_comment")


def test_workflow_runs_cost_one_request_more(sandbox_git_repo, sandbox_repo, store):
    polled_repo = PolledRepo(sandbox_repo, store, runs=True)
    settled(sandbox_repo, polled_repo, 2, 10)
    for _ in range(6):
        sandbox_repo.pass_time(60)
        asked = polled_repo.asked()
        assert len(asked) == 5
        assert {status for _, status in asked} == {304}


def test_an_idle_repository_costs_less_than_two_requests_on_average(sandbox_repo, polled_repo):
    sandbox_repo.say(sandbox_repo.issue())
    sandbox_repo.pass_time(HOUR)
    polled_repo.settle()
    asked = [polled_repo.asked() for _ in range(20)]
    assert sum(map(len, asked)) <= 2 * len(asked)
    assert {status for each in asked for _, status in each} == {304}
    assert {len(each) for each in asked} == {1, 3}


def test_the_tripwire_brings_the_rest_at_once(sandbox_repo, polled_repo):
    number = sandbox_repo.issue()
    polled_repo.settle()
    sandbox_repo.pass_time(60)
    sandbox_repo.say(number, "now")
    assert "issues/comments" in [path for path, _ in polled_repo.asked()]
    assert "now" in polled_repo.bodies("issue_comment")


def test_a_day_away_costs_what_happened_in_it(sandbox_git_repo, sandbox_repo, polled_repo):
    numbers = settled(sandbox_repo, polled_repo, 4, 300)
    sandbox_repo.pass_time(24 * HOUR)
    chatter(sandbox_repo, numbers[0], 150, seconds=20 * HOUR)
    sandbox_repo.say(numbers[0], "good morning")
    polled_repo.wake()
    asked = polled_repo.asked()
    # Two pages of comments, and one page of everything else; one pull request, its reviews.
    assert len(asked) <= 9
    assert "good morning" in polled_repo.bodies("issue_comment")
    fresh = [body for body in polled_repo.bodies("issue_comment") if body.startswith("word")]
    assert len(fresh) == 4 * 300 + 150


def test_a_poll_that_finds_nothing_writes_nothing(
    sandbox_git_repo, sandbox_repo, polled_repo, store
):
    settled(sandbox_repo, polled_repo, 2, 10)
    before = store.change_mark()
    for _ in range(8):
        sandbox_repo.pass_time(60)
        polled_repo.poll()
    assert store.change_mark() == before


def test_a_new_token_costs_one_answer_with_content_and_no_event(
    sandbox_git_repo, sandbox_repo, polled_repo
):
    settled(sandbox_repo, polled_repo, 1, 50)
    before = polled_repo.keys()
    # GitHub's tags depend on the token; so a reader with another one has tags that fail.
    with polled_repo.store.write() as tx:
        tx.constant("UPDATE github_feed_pages SET pages = replace(pages, 'W/', 'W/x')")
    assert {status for _, status in polled_repo.asked()} == {200}
    for _ in range(4):
        polled_repo.poll()
    assert {status for _, status in polled_repo.asked()} == {304}
    assert polled_repo.keys() == before
