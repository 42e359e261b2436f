"""What polls cost, by the sandbox's own ledger: it follows what happens, not what there is."""

from __future__ import annotations

import pytest
from feeds_yard import Yard, chatter

from hostler.forge.github.client import pagination
from hostler.forge.github.polling.poller import MAX_THREAD_SCANS
from hostler.store.pull_requests import PullStatus

HOUR = 3600


@pytest.fixture
def yard(house, store):
    return Yard(house, store)


def settled(house, yard, pulls, comments, blocked=0):
    """Pull requests with long histories, all of it read and an hour ago."""
    numbers = [house.pull(f"topic{place}") for place in range(pulls)]
    for place, number in enumerate(numbers):
        status = PullStatus.BLOCKED if place < blocked else PullStatus.AWAITING_FEEDBACK
        yard.follow(number, status)
        chatter(house, number, comments, seconds=20 * HOUR)
    house.pass_time(HOUR)
    # Each is scanned, and swept until its mergeability is known.
    for _ in range(pulls // MAX_THREAD_SCANS + 3 * pulls + 4):
        house.pass_time(30)
        yard.poll()
    return numbers


@pytest.mark.parametrize("comments", [110, pytest.param(1000, marks=pytest.mark.soak)])
def test_a_quiet_poll_of_ten_pull_requests(git_house, house, yard, comments):
    settled(house, yard, 10, comments, blocked=2)
    for _ in range(12):
        house.pass_time(60)
        asked = yard.asked()
        assert len(asked) <= 5
        assert {status for _, status in asked} == {304}
        ledger = house.ledger()
        # Not even the time is asked for.
        assert len(ledger) == len(asked)
        assert sum(row["primary"] for row in ledger) == 0


def test_what_fills_pages_at_once_is_not_asked_for_again_and_again(house, yard, monkeypatch):
    monkeypatch.setattr(pagination, "PAGE_SIZE", 5)
    numbers = [house.issue() for _ in range(4)]
    house.pass_time(HOUR)
    yard.settle()
    for place in range(24):
        house.say(numbers[place % 4], f"word {place}")
    house.tune(visibility_delay=290)
    house.say(numbers[0], "seen late")
    yard.poll()
    house.tune(visibility_delay=0)
    house.pass_time(60)
    assert len(yard.asked()) > 5
    assert "seen late" not in yard.bodies("issue_comment")
    # As long as something may turn up late, all of it is looked through.
    for _ in range(8):
        house.pass_time(60)
        yard.poll()
    assert "seen late" in yard.bodies("issue_comment")
    yard.wake()
    yard.poll()
    for _ in range(6):
        house.pass_time(60)
        asked = yard.asked()
        assert len(asked) <= 3 and {status for _, status in asked} == {304}
    house.say(numbers[1], "the next")
    yard.poll()
    assert yard.bodies("issue_comment")[-1] == "the next"
    assert len(yard.bodies("issue_comment")) == 26


@pytest.mark.parametrize("comments", [100, 1000])
def test_the_cost_is_flat_in_the_length_of_threads(git_house, house, yard, comments):
    (number,) = settled(house, yard, 1, comments)
    house.pass_time(60)
    quiet = yard.asked()
    assert [path for path, _ in quiet[:3]] == ["issues", "issues/comments", "pulls/comments"]
    assert len(quiet) == 4
    house.pass_time(60)
    house.say(number, "a new word")
    busy = yard.asked()
    assert len(busy) - len(quiet) <= 3
    assert "a new word" in yard.bodies("issue_comment")


def test_workflow_runs_cost_one_request_more(git_house, house, store):
    yard = Yard(house, store, runs=True)
    settled(house, yard, 2, 10)
    for _ in range(6):
        house.pass_time(60)
        asked = yard.asked()
        assert len(asked) == 5
        assert {status for _, status in asked} == {304}


def test_an_idle_repository_costs_less_than_two_requests_on_average(house, yard):
    house.say(house.issue())
    house.pass_time(HOUR)
    yard.settle()
    asked = [yard.asked() for _ in range(20)]
    assert sum(map(len, asked)) <= 2 * len(asked)
    assert {status for each in asked for _, status in each} == {304}
    assert {len(each) for each in asked} == {1, 3}


def test_the_tripwire_brings_the_rest_at_once(house, yard):
    number = house.issue()
    yard.settle()
    house.pass_time(60)
    house.say(number, "now")
    assert "issues/comments" in [path for path, _ in yard.asked()]
    assert "now" in yard.bodies("issue_comment")


def test_a_day_away_costs_what_happened_in_it(git_house, house, yard):
    numbers = settled(house, yard, 4, 300)
    house.pass_time(24 * HOUR)
    chatter(house, numbers[0], 150, seconds=20 * HOUR)
    house.say(numbers[0], "good morning")
    yard.wake()
    asked = yard.asked()
    # Two pages of comments, and one page of everything else; one pull request, its reviews.
    assert len(asked) <= 9
    assert "good morning" in yard.bodies("issue_comment")
    fresh = [body for body in yard.bodies("issue_comment") if body.startswith("word")]
    assert len(fresh) == 4 * 300 + 150


def test_a_poll_that_finds_nothing_writes_nothing(git_house, house, yard, store):
    settled(house, yard, 2, 10)
    before = store.change_mark()
    for _ in range(8):
        house.pass_time(60)
        yard.poll()
    assert store.change_mark() == before


def test_a_new_token_costs_one_answer_with_content_and_no_event(git_house, house, yard):
    settled(house, yard, 1, 50)
    before = yard.keys()
    # GitHub's tags depend on the token; so a reader with another one has tags that fail.
    with yard.store.write() as tx:
        tx.constant("UPDATE github_feed_chains SET pages = replace(pages, 'W/', 'W/x')")
    assert {status for _, status in yard.asked()} == {200}
    for _ in range(4):
        yard.poll()
    assert {status for _, status in yard.asked()} == {304}
    assert yard.keys() == before
