"""Shares, windows and what remains of the hour: whatever headers and clocks say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from hostler.forge.github.rate_limit.accounts import RateLimitAccount
from hostler.forge.github.rate_limit.limits import (
    HOUR,
    SAME_WINDOW_TOLERANCE,
    PrimaryLimit,
    RateLimitBudget,
    ReportedLimit,
    RequestCaps,
    RequestCounts,
    RequestKind,
    SlidingWindow,
    apply_reported_limit,
    current_limit,
    parse_budget,
    parse_reported_limit,
    poll_share,
)

WALL = datetime(2026, 1, 1, tzinfo=UTC)
PERCENT = st.integers(1, 100)
MOMENTS = st.floats(0, 10_000, allow_nan=False)


@given(PERCENT, st.integers(1, 100_000))
def test_a_share_is_part_of_its_limit_and_never_nothing(percent, limit):
    share = RequestCaps(percent=percent).share(limit)
    assert share == 1 or share * 100 <= limit * percent
    assert 1 <= poll_share(share, 90) <= max(share * 0.9, 1)


@given(PERCENT)
def test_polls_leave_room_for_a_write_everywhere(percent):
    caps = RequestCaps(percent=percent)
    assert caps.points(RequestKind.READ) + RequestKind.WRITE.points <= caps.points(
        RequestKind.WRITE
    )
    assert caps.concurrency(RequestKind.READ) <= caps.concurrency(RequestKind.WRITE)
    assert caps.hourly(RequestKind.READ, 5000) < caps.hourly(RequestKind.WRITE, 5000)


def test_the_numbers_of_the_page():
    caps = RequestCaps()
    assert (caps.points(RequestKind.WRITE), caps.points(RequestKind.READ)) == (720, 684)
    assert (caps.hourly(RequestKind.WRITE, 5000), caps.hourly(RequestKind.READ, 5000)) == (
        4000,
        3600,
    )
    assert (caps.concurrency(RequestKind.WRITE), caps.concurrency(RequestKind.READ)) == (80, 76)
    assert (caps.share(80), caps.share(500)) == (64, 400)


@given(st.lists(st.tuples(st.floats(0, 90), st.floats(0, 30), st.integers(1, 5)), max_size=60))
def test_a_window_is_the_sum_of_what_is_under_way_or_ended_in_it(requests):
    """(pause before it, how long it takes, amount), one after another, against a plain sum."""
    window, now, ended = SlidingWindow(60), 0.0, []
    for pause, takes, amount in requests:
        now += pause
        before = sum(gone for at, gone in ended if at > now - 60)
        assert window.total(now) == before
        window.begin(amount)
        assert window.total(now) == before + amount
        now += takes
        window.end(amount, now, counted=True)
        ended.append((now, amount))


@given(st.lists(st.tuples(st.floats(0, 20), st.integers(1, 5)), max_size=60), st.integers(5, 40))
def test_whoever_waits_as_long_as_a_window_says_has_room_and_not_before(requests, cap):
    window, now = SlidingWindow(60), 0.0
    for pause, amount in requests:
        now += pause
        wait = window.wait(amount, cap, now)
        if wait > 0.001:
            assert window.wait(amount, cap, now + wait - 0.001) > 0
        now += wait
        # A little later: the sum of two floats may miss the moment by the last bit.
        now += 1e-6
        assert window.wait(amount, cap, now) == 0
        window.begin(amount)
        window.end(amount, now, counted=True)
        assert window.total(now) <= cap


def test_what_never_left_does_not_count():
    window = SlidingWindow(60)
    window.begin(5)
    window.end(5, 1.0, counted=False)
    assert window.total(1.0) == 0


@given(st.lists(st.tuples(MOMENTS, st.floats(0, 100)), max_size=40), MOMENTS)
def test_a_rate_is_never_negative_and_fades(added, later):
    tally = RequestCounts(100.0)
    for moment, amount in sorted(added):
        tally.add(amount, moment)
    end = max((moment for moment, _ in added), default=0.0)
    rates = [tally.rate(end + later * part) for part in (0, 0.5, 1)]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] >= 0


def test_a_steady_stream_is_counted_as_what_it_is():
    tally = RequestCounts(100.0)
    for second in range(2000):
        tally.add(3.0, float(second))
    assert abs(tally.rate(2000.0) - 3.0) < 0.05


def test_a_stretched_stream_is_counted_as_it_would_be_without():
    """Every fourth request, in a time that passes four times slower."""
    tally = RequestCounts(100.0)
    for second in range(0, 8000, 4):
        tally.add(3.0, float(second), slower=4.0)
    assert abs(tally.rate(8000.0) - 3.0) < 0.05


TEXT = st.none() | st.text(max_size=20) | st.integers(-(10**12), 10**12).map(str)


@given(TEXT, TEXT, TEXT, TEXT)
def test_garbage_in_headers_is_nothing_or_something_that_can_be(limit, remaining, reset, date):
    names = ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "date")
    given_ = zip(names, (limit, remaining, reset, date), strict=True)
    said = parse_reported_limit(
        parse_budget({name: value for name, value in given_ if value}), WALL
    )
    assert said is None or (0 <= said.remaining <= said.limit and 0 <= said.seconds <= HOUR)


def said(limit=5000, remaining=4000, ahead=600.0, skew=0.0):
    """An answer whose GitHub's clock differs from ours by `skew`."""
    date = WALL + timedelta(seconds=skew)
    return parse_reported_limit(
        RateLimitBudget(limit, remaining, date + timedelta(seconds=ahead), date), WALL
    )


@given(st.floats(-1e8, 1e8))
def test_the_reset_is_a_distance_whatever_our_clock_shows(skew):
    assert abs(said(ahead=600, skew=skew).seconds - 600) < 1


def test_a_reset_that_cannot_be_is_taken_for_the_latest():
    assert said(ahead=-5000).seconds == said(ahead=50_000).seconds == HOUR
    assert said(ahead=-3).seconds == 0
    assert said(remaining=9999).remaining == 5000
    assert said(limit=0, remaining=0) is None


ANSWERS = st.builds(ReportedLimit, st.just(100), st.integers(0, 100), st.floats(0, HOUR))


@given(st.lists(st.tuples(st.floats(0, 30), ANSWERS), max_size=30))
def test_within_a_window_what_remains_only_falls(answers):
    known, now = None, 0.0
    for pause, answer in answers:
        now += pause
        after = apply_reported_limit(known, answer, now)
        if (
            known
            and now < known.ends
            and now + answer.seconds <= known.ends + SAME_WINDOW_TOLERANCE
        ):
            assert after.remaining <= known.remaining
            assert after.ends == known.ends
        else:
            assert (after.remaining, after.ends) == (answer.remaining, now + answer.seconds)
        known = after


def test_late_answers_of_the_last_window_do_not_spoil_the_new_one():
    new = apply_reported_limit(PrimaryLimit(100, 3, 50.0), ReportedLimit(100, 99, HOUR), 51.0)
    assert apply_reported_limit(new, ReportedLimit(100, 1, 0.0), 52.0).remaining == 98


def test_a_higher_limit_is_believed_at_once():
    assert (
        apply_reported_limit(
            PrimaryLimit(100, 3, 900.0), ReportedLimit(200, 150, 800.0), 51.0
        ).remaining
        == 150
    )


@given(st.floats(0, 10_000))
def test_a_reset_restores_everything(later):
    primary = current_limit(PrimaryLimit(100, 0, 50.0), 50.0 + later)
    assert (primary.remaining, primary.limit) == (100, 100)
    assert current_limit(PrimaryLimit(100, 7, 50.0), 49.9).remaining == 7


def answered(
    account, now, status=200, remaining=None, kind=RequestKind.READ, limit=100, ahead=600.0
):
    account.start_request(kind, now)
    account.record_answer(kind, status, remaining and ReportedLimit(limit, remaining, ahead), now)
    account.end_request(kind, now, sent=True)


def test_a_stranger_s_budget_is_not_taken_for_ours():
    account = RateLimitAccount(RequestCaps())
    answered(account, 1.0, remaining=90)
    answered(account, 2.0, status=401, remaining=3, limit=60)
    assert account.primary(2.0).remaining == 90


def test_an_answer_without_a_word_and_a_lost_one_cost_one_each():
    account = RateLimitAccount(RequestCaps())
    answered(account, 1.0, remaining=90)
    answered(account, 2.0)
    account.record_lost_answer(3.0)
    assert account.primary(3.0).remaining == 88


def test_a_host_without_a_limit_of_the_hour_holds_nobody():
    account = RateLimitAccount(RequestCaps())
    answered(account, 1.0)
    assert account.primary(1.0) is None
    account.record_lost_answer(1.0)
    assert account.find_hold(RequestKind.READ, 1.0) is None


def test_the_first_asks_alone_and_the_others_wait_for_its_answer():
    account = RateLimitAccount(RequestCaps())
    account.start_request(RequestKind.READ, 0.0)
    assert account.find_hold(RequestKind.READ, 0.0).seconds is None
    assert account.find_hold(RequestKind.CREATION, 0.0).seconds is None
    account.record_answer(RequestKind.READ, 200, ReportedLimit(100, 90, 600.0), 1.0)
    assert account.find_hold(RequestKind.READ, 1.0) is None


def test_polls_stop_before_writes_and_writes_at_the_share():
    account = RateLimitAccount(RequestCaps())
    answered(account, 0.0, remaining=30)
    assert account.find_hold(RequestKind.READ, 0.0) is None
    answered(account, 0.0, remaining=28)
    assert account.find_hold(RequestKind.READ, 0.0).seconds == 600.0
    for kind in (RequestKind.WRITE, RequestKind.CREATION, RequestKind.URGENT):
        assert account.find_hold(kind, 0.0) is None
    answered(account, 0.0, remaining=20)
    assert account.find_hold(RequestKind.WRITE, 0.0).limit == "primary"
    assert account.find_hold(RequestKind.WRITE, 601.0) is None


def test_whoever_might_go_if_the_others_cost_nothing_waits_for_them():
    account = RateLimitAccount(RequestCaps())
    answered(account, 0.0, remaining=29)
    account.start_request(RequestKind.READ, 0.0)
    assert account.find_hold(RequestKind.READ, 0.0).seconds is None
    account.record_answer(RequestKind.READ, 304, ReportedLimit(100, 29, 600.0), 1.0)
    account.end_request(RequestKind.READ, 1.0, sent=True)
    assert account.find_hold(RequestKind.READ, 1.0) is None


def test_nobody_asks_while_we_are_refused_and_together_is_once():
    account = RateLimitAccount(RequestCaps())
    episodes = [account.start_request(RequestKind.READ, 0.0) for _ in range(3)]
    for episode in episodes:
        assert account.count_refusals(episode) == 0
        account.record_refusal("secondary", 60.0, episode, 1.0)
    for kind in RequestKind:
        assert account.find_hold(kind, 30.0).seconds == 31.0
    assert account.current_refusal(61.0) is None
    later = account.start_request(RequestKind.READ, 61.0)
    assert account.count_refusals(later) == 1
    account.record_refusal("secondary", 120.0, later, 62.0)
    assert account.count_refusals(account.start_request(RequestKind.READ, 200.0)) == 2
    account.record_answer(RequestKind.READ, 200, None, 201.0)
    assert account.count_refusals(account.start_request(RequestKind.READ, 202.0)) == 0


def test_a_shorter_refusal_does_not_end_a_longer_one():
    account = RateLimitAccount(RequestCaps())
    first, second = (
        account.start_request(RequestKind.READ, 0.0),
        account.start_request(RequestKind.READ, 0.0),
    )
    account.record_refusal("primary", 600.0, first, 0.0)
    account.record_refusal("secondary", 60.0, second, 1.0)
    assert account.current_refusal(599.0) is not None


def test_an_answer_that_was_minutes_on_its_way_opens_no_new_window():
    known = apply_reported_limit(None, ReportedLimit(5, 2, 3600.0), 0.0)
    assert apply_reported_limit(known, ReportedLimit(5, 4, 3600.0), 600.0).remaining == 2
    assert apply_reported_limit(known, ReportedLimit(5, 4, 3600.0), 3601.0).remaining == 4
