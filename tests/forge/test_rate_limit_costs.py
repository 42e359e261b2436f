"""What watching costs: the model against the sandbox's ledger, and what it advises."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from polling_fixture import PolledRepo, chatter

from hostler.forge.github.rate_limit.cost_model import (
    CHANGED_REQUESTS,
    PollingSetup,
    WatchedRepository,
    cost_of_busy_polls,
    cost_of_quiet_polls,
    cost_of_writes,
    plan_costs,
    requests_of_quiet_poll,
)
from hostler.forge.github.rate_limit.limits import RequestCaps

REPOS = st.lists(st.builds(WatchedRepository, st.integers(0, 5), st.booleans()), max_size=400)
SETUPS = st.builds(
    PollingSetup,
    interval=st.integers(5, 86_400),
    idle_every=st.integers(1, 1000),
    in_turn=st.booleans(),
    threads=st.booleans(),
    app=st.booleans(),
    between_writes=st.floats(1, 60),
)
FLEET = [WatchedRepository(2)] * 30 + [WatchedRepository()] * 270


def spent(sandbox_repo, polled_repo, polls):
    """(requests, primary, points) of some quiet polls, by the ledger."""
    rows = []
    for _ in range(polls):
        sandbox_repo.pass_time(60)
        polled_repo.asked()
        rows += [row for row in sandbox_repo.ledger() if row["path"].startswith("/repos/")]
    return len(rows), sum(r["primary"] for r in rows), sum(r["secondary"] for r in rows)


def rested(sandbox_repo, polled_repo):
    """Everything is read, and nothing has happened for an hour."""
    sandbox_repo.pass_time(3600)
    for _ in range(24):
        sandbox_repo.pass_time(30)
        polled_repo.poll()


@pytest.mark.parametrize("every", [1, 4, 5])
def test_an_idle_repository_costs_what_the_model_says(sandbox_repo, store, every):
    sandbox_repo.say(sandbox_repo.issue())
    polled_repo = PolledRepo(sandbox_repo, store, idle_every=every)
    rested(sandbox_repo, polled_repo)
    asked, paid, points = spent(sandbox_repo, polled_repo, 20)
    assert (
        asked
        == points
        == 20 * requests_of_quiet_poll(WatchedRepository(), PollingSetup(idle_every=every))
    )
    assert paid == cost_of_quiet_polls([WatchedRepository()], PollingSetup()).primary_per_hour == 0


@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize("pulls", [1, 3])
def test_an_active_repository_costs_what_the_model_says(
    sandbox_git_repo, sandbox_repo, store, pulls, runs
):
    polled_repo = PolledRepo(sandbox_repo, store, runs=runs)
    for place in range(pulls):
        number = sandbox_repo.pull(f"topic{place}")
        polled_repo.follow(number)
        chatter(sandbox_repo, number, 30, seconds=3600)
    rested(sandbox_repo, polled_repo)
    asked, paid, points = spent(sandbox_repo, polled_repo, 12)
    assert (
        asked
        == points
        == 12 * requests_of_quiet_poll(WatchedRepository(pulls, runs), PollingSetup())
    )
    assert paid == 0


def test_threads_cost_what_the_model_says_at_most(sandbox_git_repo, sandbox_repo, store):
    polled_repo = PolledRepo(sandbox_repo, store, feeds="threads")
    for place in range(2):
        polled_repo.follow(sandbox_repo.pull(f"topic{place}"))
    rested(sandbox_repo, polled_repo)
    asked, _, points = spent(sandbox_repo, polled_repo, 6)
    assert (
        asked
        == points
        <= 6 * requests_of_quiet_poll(WatchedRepository(2), PollingSetup(threads=True))
    )


def test_a_busy_poll_costs_no_more_than_the_worst_case(sandbox_git_repo, sandbox_repo, store):
    polled_repo = PolledRepo(sandbox_repo, store)
    number = sandbox_repo.pull("topic")
    polled_repo.follow(number)
    rested(sandbox_repo, polled_repo)
    for word in range(5):
        sandbox_repo.pass_time(60)
        sandbox_repo.say(number, f"word {word}")
        sandbox_repo.remark(number, f"line {word}")
        assert (
            len(polled_repo.asked())
            <= requests_of_quiet_poll(WatchedRepository(1), PollingSetup()) + CHANGED_REQUESTS
        )


def test_the_numbers_of_300_repositories():
    found = plan_costs(FLEET, PollingSetup(interval=60), RequestCaps())
    assert found.now.fits
    assert found.now.total.points_per_minute == pytest.approx(30 * 4 + 270 * 1.4)
    assert found.now.total.requests_per_hour == pytest.approx(60 * 498)
    assert found.now.total.primary_per_hour == 0
    assert (found.allowance.primary_per_hour, found.allowance.points_per_minute) == (4000, 720)
    assert not found.worst.fits
    assert found.advice == ()


def test_an_app_pays_once_an_hour_for_every_address():
    found = plan_costs(FLEET, PollingSetup(interval=60, app=True), RequestCaps()).now.total
    assert found.primary_per_hour == 30 * (3 + 4) + 270 * 3
    assert (
        plan_costs(
            [WatchedRepository()], PollingSetup(interval=3600, app=True), RequestCaps()
        ).now.total.primary_per_hour
        < 2
    )


def test_in_turn_all_together_cost_what_one_does():
    one = cost_of_quiet_polls([WatchedRepository()], PollingSetup())
    many = cost_of_quiet_polls([WatchedRepository()] * 50, PollingSetup(in_turn=True))
    assert many.requests_per_hour == pytest.approx(one.requests_per_hour)


def test_writes_are_bounded_by_pauses_and_by_githubs_limit():
    fast, slow = (
        cost_of_writes(PollingSetup(), RequestCaps()),
        cost_of_writes(PollingSetup(between_writes=60), RequestCaps()),
    )
    assert (fast.primary_per_hour, fast.points_per_minute) == (400, 300)
    assert (slow.primary_per_hour, slow.points_per_minute) == (60, 5)


def test_nothing_costs_nothing():
    found = plan_costs([], PollingSetup(), RequestCaps())
    assert found.now.total == found.worst.total == cost_of_quiet_polls([], PollingSetup())
    assert found.now.fits and found.worst.fits


@given(REPOS, SETUPS)
def test_the_worst_case_is_never_better(repos, setup):
    found = plan_costs(repos, setup, RequestCaps())
    for name in ("requests_per_hour", "primary_per_hour", "points_per_minute"):
        assert getattr(found.now.total, name) <= getattr(found.worst.total, name) + 1e-9
    assert 1.0 <= found.now.stretch <= found.worst.stretch
    assert (
        cost_of_busy_polls(repos, setup).primary_per_hour
        >= cost_of_quiet_polls(repos, setup).primary_per_hour
    )


@given(REPOS, SETUPS)
def test_slower_polls_and_fewer_repositories_never_cost_more(repos, setup):
    here = cost_of_quiet_polls(repos, setup).points_per_minute + 1e-6
    assert (
        cost_of_quiet_polls(repos, replace(setup, interval=setup.interval * 2)).points_per_minute
        <= here
    )
    assert cost_of_quiet_polls(repos, replace(setup, idle_every=1000)).points_per_minute <= here
    if not setup.in_turn:
        assert cost_of_quiet_polls(repos[1:], setup).points_per_minute <= here


MANY = [WatchedRepository(1)] * 10 + [WatchedRepository()] * 590


def advised(setup, repos=MANY):
    return "\n".join(plan_costs(repos, setup, RequestCaps()).advice)


def test_each_advice_alone_makes_it_fit():
    setup = PollingSetup(interval=60)
    said = plan_costs(MANY, setup, RequestCaps()).advice
    assert len(said) == 4
    interval, every, fewer, _ = said
    enough = int(interval.split()[3])
    assert plan_costs(MANY, replace(setup, interval=enough), RequestCaps()).now.fits
    assert not plan_costs(MANY, replace(setup, interval=enough - 2), RequestCaps()).now.fits
    polls = int(every.split()[3])
    assert plan_costs(MANY, replace(setup, idle_every=polls), RequestCaps()).now.fits
    assert not plan_costs(MANY, replace(setup, idle_every=polls - 1), RequestCaps()).now.fits
    left = int(fewer.split()[1])
    assert plan_costs(MANY[:left], setup, RequestCaps()).now.fits
    assert not plan_costs(MANY[: left + 1], setup, RequestCaps()).now.fits


def test_only_what_helps_is_advised():
    assert "GitHub App" not in advised(PollingSetup(interval=60, app=True))
    assert "idle_feed" not in advised(PollingSetup(interval=10))
    threads = [WatchedRepository(20)] * 20
    assert "feeds" in advised(PollingSetup(interval=60, threads=True), threads)
    assert "feeds" not in advised(PollingSetup(interval=60), threads)
    # The hourly price of an App's tokens does not depend on how often we poll.
    assert "poll_interval" not in advised(
        PollingSetup(interval=3000, app=True), [WatchedRepository(40)] * 100
    )


@given(REPOS, SETUPS, st.integers(1, 100))
def test_advice_is_given_exactly_where_it_does_not_fit(repos, setup, percent):
    found = plan_costs(repos, setup, RequestCaps(percent=percent))
    assert found.now.fits or found.advice or setup.app
    assert not (found.now.fits and found.advice)
