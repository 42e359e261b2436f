"""The numbers and borders of the policy `served`, and of what it measures."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from hostler.governor.adaptive import served
from hostler.governor.adaptive.model import (
    BreakerState,
    LeaseSlot,
    LimitAnnouncement,
    LimitReport,
    PoolConfig,
    PoolLoad,
    PoolState,
    Reason,
    Source,
)
from hostler.governor.adaptive.served import Served, ease, grow, judge_window

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
KNOBS = PoolConfig(max_global=8, hard_max=16, settle_seconds=120.0, break_seconds=300.0)
A, B = LeaseSlot("a", "t1"), LeaseSlot("b", "t2")
SERVED = Served()


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def ahead(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def busy(active: int = 8, *, waiting: bool = True) -> PoolLoad:
    return PoolLoad(active, waiting)


# -- windows ---------------------------------------------------------------------------------------


def test_answers_are_counted_and_end_a_silence():
    before = PoolState(window_answers=2, unanswered_since=ago(9), unanswered_refusals=4)
    assert served.count_answers(before, 3) == PoolState(window_answers=5)


def test_a_refusal_is_counted_everywhere():
    before = PoolState(
        growth=3,
        refusals_unreported=True,
        window_refusals=1,
        window_deaths=1,
        unanswered_refusals=2,
    )
    after = served.count_refusal(before, NOW, deadly=False)
    assert after == PoolState(
        rate_limit_events=1,
        last_rate_limit_at=NOW,
        window_refusals=2,
        window_deaths=1,
        unanswered_since=NOW,
        unanswered_refusals=3,
    )
    deadly = served.count_refusal(replace(before, unanswered_since=ago(9)), NOW, deadly=True)
    assert (
        deadly.window_deaths == 2
        and deadly.refusals_unreported
        and deadly.unanswered_since == ago(9)
    )
    assert not served.count_refusal(PoolState(), NOW, deadly=True).refusals_unreported


def test_what_runs_is_added_up_every_five_seconds():
    before = PoolState(window_at=ago(30), sampled_at=ago(5), agent_seconds=10.0)
    after = served.add_usage(before, NOW, 4)
    assert after == replace(before, sampled_at=NOW, agent_seconds=30.0)
    early = replace(before, sampled_at=ago(4.9))
    assert served.add_usage(early, NOW, 4) is early


def test_a_window_that_nobody_looked_after_begins_anew():
    before = PoolState(
        window_at=ago(300), sampled_at=ago(180), window_answers=9, agent_seconds=10.0
    )
    assert served.add_usage(before, NOW, 2).agent_seconds == 370.0
    late = replace(before, sampled_at=ago(180.001))
    assert served.add_usage(late, NOW, 2) == PoolState(window_at=NOW, sampled_at=NOW)
    for half in (PoolState(window_at=ago(9)), PoolState(sampled_at=ago(9)), PoolState()):
        assert served.add_usage(half, NOW, 2) == PoolState(window_at=NOW, sampled_at=NOW)


def test_an_empty_window_keeps_what_is_known_of_the_pace():
    before = PoolState(
        agent_rate=0.5,
        growth=2,
        window_answers=3,
        window_refusals=2,
        window_deaths=1,
        agent_seconds=9.0,
    )
    after = PoolState(agent_rate=0.5, growth=2, window_at=NOW, sampled_at=NOW)
    assert served.new_window(before, NOW) == after


def test_in_a_pause_the_window_is_emptied_every_five_seconds():
    before = PoolState(
        sampled_at=ago(5), unanswered_since=ago(9), unanswered_refusals=3, window_answers=3
    )
    assert served.discard_window(before, NOW) == PoolState(window_at=NOW, sampled_at=NOW)
    early = replace(before, sampled_at=ago(4.9))
    assert served.discard_window(early, NOW) is early
    never = replace(before, sampled_at=None)
    assert served.discard_window(never, NOW).sampled_at == NOW


def test_a_window_is_full_after_a_minute():
    assert served.is_full(PoolState(window_at=ago(60)), NOW)
    assert not served.is_full(PoolState(window_at=ago(59.9)), NOW)
    assert not served.is_full(PoolState(), NOW)


@pytest.mark.parametrize(
    ("answers", "refusals", "deaths", "says"),
    [
        (0, 1, 1, True),
        (4, 1, 0, True),
        (3, 1, 0, False),
        (1, 4, 0, True),
        (0, 9, 0, False),
        (9, 0, 0, False),
    ],
)
def test_refusals_say_something_among_five_words_of_both_kinds(answers, refusals, deaths, says):
    state = PoolState(window_answers=answers, window_refusals=refusals, window_deaths=deaths)
    assert served.is_conclusive(state) is says


def quiet(**more) -> PoolState:
    """A window of 100 seconds with ten agents, each answered once in ten seconds."""
    given = {"window_at": ago(100), "window_answers": 100, "agent_seconds": 1000.0}
    return PoolState(**{**given, **more})


def test_a_quiet_window_teaches_a_fifth_of_its_pace():
    assert served.learn_pace(quiet(), NOW, 10).agent_rate == 0.1
    assert served.learn_pace(quiet(agent_rate=0.2), NOW, 10).agent_rate == pytest.approx(0.18)


@pytest.mark.parametrize(
    ("more", "active"),
    [
        ({"window_refusals": 1}, 10),
        ({"refused_before": True}, 10),
        ({"window_answers": 4}, 10),
        ({"agent_seconds": 0.0}, 0),
        ({}, 13),
        ({}, 7),
    ],
)
def test_other_windows_teach_no_pace(more, active):
    assert served.learn_pace(quiet(agent_rate=0.5, **more), NOW, active).agent_rate == 0.5


@pytest.mark.parametrize("active", [8, 12])
def test_a_fifth_of_the_agents_may_come_or_go(active):
    assert served.learn_pace(quiet(window_answers=5), NOW, active).agent_rate == 0.005


def test_whether_there_were_refusals_is_kept_for_the_next_window():
    assert served.learn_pace(quiet(window_refusals=1), NOW, 10).refused_before is True
    assert served.learn_pace(quiet(refused_before=True), NOW, 10).refused_before is False


def test_the_usual_number_of_agents_is_their_seconds_by_the_time():
    assert served.average_agents(quiet(), NOW) == 10.0
    assert served.average_agents(PoolState(agent_seconds=7.0), NOW) == 0.0
    assert served.average_agents(PoolState(window_at=ago(0.5), agent_seconds=7.0), NOW) == 7.0
    assert served.average_agents(PoolState(window_at=ago(1.5), agent_seconds=6.0), NOW) == 4.0


def test_the_served_part_is_measured_by_the_known_pace_or_by_the_words():
    assert served.served_fraction(quiet(agent_rate=0.2)) == 0.5
    assert served.served_fraction(quiet(agent_rate=0.0, window_refusals=100)) == 0.5
    assert (
        served.served_fraction(PoolState(agent_rate=0.2, window_answers=1, window_refusals=3))
        == 0.25
    )
    assert served.served_fraction(PoolState()) == 0.0
    assert served.served_fraction(PoolState(window_answers=1)) == 1.0
    brief = PoolState(agent_rate=2.0, agent_seconds=0.5, window_answers=1, window_refusals=9)
    assert served.served_fraction(brief) == 1.0


# -- judging a window ------------------------------------------------------------------------------


def refused_window(**more) -> PoolState:
    """Eight agents over a minute, of whom half are served by the known pace."""
    given = {
        "dynamic_cap": 8,
        "window_at": ago(60),
        "sampled_at": NOW,
        "agent_seconds": 480.0,
        "agent_rate": 0.1,
        "window_answers": 24,
        "window_refusals": 24,
        "growth": 4,
    }
    return PoolState(**{**given, **more})


def test_the_cap_goes_half_of_the_way_down_to_what_was_served():
    after = judge_window(KNOBS, refused_window(), NOW, busy())
    # 8 - (8 - 0.94 * 4) / 2 = 5.88
    assert after.dynamic_cap == 6 and after.last_decrease_at == NOW and after.growth == 0
    assert after.window_answers == 0 and after.window_at == NOW and after.refused_before
    assert not after.refusals_unreported


def test_where_more_ran_than_the_cap_their_part_counts():
    after = judge_window(KNOBS, refused_window(agent_seconds=960.0), NOW, busy())
    # 24 answers in 960 seconds are a quarter of 16 agents: again 4.
    assert after.dynamic_cap == 6
    fewer = judge_window(KNOBS, refused_window(dynamic_cap=16, agent_seconds=480.0), NOW, busy())
    # Half of 16: 16 - (16 - 0.94 * 8) / 2 = 11.76
    assert fewer.dynamic_cap == 12


def test_a_window_that_was_served_well_lowers_nothing():
    after = judge_window(KNOBS, refused_window(window_answers=100), NOW, busy())
    assert after.dynamic_cap == 8 and after.last_decrease_at is None and after.growth == 4
    nearly = judge_window(KNOBS, refused_window(dynamic_cap=9, window_answers=48), NOW, busy())
    assert nearly.dynamic_cap == 9
    calm = judge_window(KNOBS, refused_window(window_refusals=0), NOW, busy())
    assert calm.dynamic_cap == 8 and not calm.refused_before


def test_agents_that_die_without_a_word_halve_the_cap():
    after = judge_window(KNOBS, refused_window(window_refusals=2, window_deaths=2), NOW, busy())
    assert after.refusals_unreported and after.dynamic_cap == 4
    deep = refused_window(window_refusals=2, window_deaths=2, window_answers=0)
    assert judge_window(KNOBS, deep, NOW, busy()).dynamic_cap == 4
    told = judge_window(KNOBS, refused_window(window_refusals=3, window_deaths=2), NOW, busy())
    assert not told.refusals_unreported and told.dynamic_cap == 6


def test_the_cap_never_falls_below_one():
    worst = refused_window(dynamic_cap=1, window_answers=0, window_refusals=1, window_deaths=1)
    after = judge_window(KNOBS, worst, NOW, busy(1))
    assert after.dynamic_cap == 1 and after.last_decrease_at is None


def test_a_window_is_judged_by_the_time_that_passes():
    after = SERVED.advance(KNOBS, refused_window(), NOW, busy())
    assert after.dynamic_cap == 6
    early = refused_window(window_at=ago(59))
    assert SERVED.advance(KNOBS, early, NOW, busy()).dynamic_cap == 8


def test_while_the_breaker_is_not_closed_nothing_is_judged():
    tries = refused_window(breaker_state=BreakerState.HALF_OPEN)
    assert SERVED.advance(KNOBS, tries, NOW, busy()).dynamic_cap == 8


def test_in_a_pause_nothing_is_measured():
    paused = refused_window(gate_until=ahead(99), pausing=True, sampled_at=ago(9))
    after = SERVED.advance(KNOBS, paused, NOW, busy())
    assert after.dynamic_cap == 8 and after.window_answers == 0 and after.window_at == NOW
    over = replace(paused, gate_until=NOW)
    assert SERVED.advance(KNOBS, over, NOW, busy()).dynamic_cap == 6


# -- easing and growing ----------------------------------------------------------------------------


def announced(use: float, **more) -> PoolState:
    return PoolState(dynamic_cap=8, announced_utilisation=use, announced_at=NOW, **more)


def test_one_agent_less_every_twenty_seconds_while_too_much_is_used():
    after = ease(KNOBS, announced(0.6), NOW, busy())
    assert after.dynamic_cap == 7 and after.last_decrease_at == NOW
    assert ease(KNOBS, announced(0.59), NOW, busy()).dynamic_cap == 8
    assert ease(KNOBS, announced(0.9, last_decrease_at=ago(20)), NOW, busy()).dynamic_cap == 7
    assert ease(KNOBS, announced(0.9, last_decrease_at=ago(19.9)), NOW, busy()).dynamic_cap == 8


def test_nothing_is_eased_while_more_run_than_the_cap():
    assert ease(KNOBS, announced(0.9), NOW, busy(9)).dynamic_cap == 8
    assert ease(KNOBS, announced(0.9), NOW, busy(8)).dynamic_cap == 7


def test_an_announcement_is_fresh_for_thirty_seconds():
    fresh = replace(announced(0.9), announced_at=ago(30))
    assert ease(KNOBS, fresh, NOW, busy()).dynamic_cap == 7
    old = replace(announced(0.9), announced_at=ago(30.1))
    assert ease(KNOBS, old, NOW, busy()).dynamic_cap == 8
    never = replace(announced(0.9), announced_at=None)
    assert ease(KNOBS, never, NOW, busy()).dynamic_cap == 8


def growing(seconds: float, **more) -> PoolState:
    return PoolState(**{"dynamic_cap": 8, "last_probe_at": ago(seconds), **more})


def test_the_first_look_at_a_full_pool_starts_the_quiet_while():
    after = grow(KNOBS, PoolState(dynamic_cap=8), NOW, busy())
    assert after == PoolState(dynamic_cap=8, last_probe_at=NOW)


@pytest.mark.parametrize(
    ("more", "use", "seconds"),
    [
        ({}, None, 60),
        ({"refusals_unreported": True}, None, 300),
        ({}, 0.04, 30),
        ({}, 0.05, 300),
        ({}, 0.59, 300),
    ],
)
def test_how_long_it_must_be_quiet_before_there_are_more(more, use, seconds):
    told = {} if use is None else {"announced_utilisation": use, "announced_at": NOW}
    assert grow(KNOBS, growing(seconds - 0.1, **more, **told), NOW, busy()).dynamic_cap == 8
    after = grow(KNOBS, growing(seconds, **more, **told), NOW, busy())
    assert after.dynamic_cap == 9 and after.last_probe_at == NOW
    recent = growing(999, last_rate_limit_at=ago(seconds - 0.1), **more, **told)
    assert grow(KNOBS, recent, NOW, busy()).dynamic_cap == 8
    recent = growing(999, last_decrease_at=ago(seconds - 0.1), **more, **told)
    assert grow(KNOBS, recent, NOW, busy()).dynamic_cap == 8


def test_nothing_grows_that_is_not_wanted_or_has_room_or_is_at_its_bound():
    assert grow(KNOBS, growing(999), NOW, busy(waiting=False)).dynamic_cap == 8
    assert grow(KNOBS, growing(999), NOW, busy(7)).dynamic_cap == 8
    bound = growing(999, dynamic_cap=16)
    assert grow(KNOBS, bound, NOW, busy(16)) is bound
    assert grow(KNOBS, growing(999, dynamic_cap=15), NOW, busy(15)).dynamic_cap == 16


def test_nothing_grows_while_too_much_is_used_and_its_run_of_steps_ends():
    used = growing(999, growth=5, announced_utilisation=0.6, announced_at=NOW)
    assert grow(KNOBS, used, NOW, busy()) == replace(used, growth=0)
    part = replace(used, announced_utilisation=0.05)
    assert grow(KNOBS, part, NOW, busy(waiting=False)) == replace(part, growth=0)
    after = grow(KNOBS, part, NOW, busy())
    assert after.dynamic_cap == 9 and after.growth == 0
    low = replace(used, announced_utilisation=0.04, growth=0)
    assert grow(KNOBS, low, NOW, busy()).growth == 1


@pytest.mark.parametrize(
    ("growth", "more"), [(0, 1), (2, 1), (3, 1), (4, 2), (5, 3), (10, 8), (99, 8)]
)
def test_steps_without_a_word_get_larger_after_two(growth, more):
    config = replace(KNOBS, hard_max=99)
    after = grow(config, growing(60, growth=growth), NOW, busy())
    assert after.dynamic_cap == 8 + more and after.growth == growth + 1
    refusals_unreported = grow(
        config, growing(300, growth=growth, refusals_unreported=True), NOW, busy()
    )
    assert refusals_unreported.dynamic_cap == 9


@pytest.mark.parametrize(("growth", "more"), [(-5, 1), (0, 1), (1, 2), (2, 4), (3, 8), (50, 8)])
def test_steps_double_where_the_provider_says_that_it_has_room(growth, more):
    config = replace(KNOBS, hard_max=99)
    roomy = growing(30, growth=growth, announced_utilisation=0.0, announced_at=NOW)
    assert grow(config, roomy, NOW, busy()).dynamic_cap == 8 + more


def test_no_step_leads_over_the_hard_max():
    roomy = growing(30, dynamic_cap=12, growth=9, announced_utilisation=0.0, announced_at=NOW)
    assert grow(KNOBS, roomy, NOW, busy(12)).dynamic_cap == 16


# -- what is heard ---------------------------------------------------------------------------------


def report(source=Source.LIVE, reason=Reason.BURST, slot=A, again=None) -> LimitReport:
    return LimitReport(slot, source, reason, again)


def test_a_limit_that_asks_for_a_pause_of_days_changes_nothing():
    before = PoolState(dynamic_cap=8)
    assert (
        SERVED.on_limit(KNOBS, before, NOW, report(reason=Reason.QUOTA, again=ahead(9))) is before
    )


def test_a_short_wait_closes_the_gate_and_is_measured():
    after = SERVED.on_limit(KNOBS, PoolState(), NOW, report(again=ahead(29.2)))
    assert after.gate_until == ahead(29.2) and after.gate_seconds == 30.0 and not after.pausing
    assert after.window_refusals == 1 and after.unanswered_refusals == 1


def test_a_wait_over_thirty_seconds_is_a_pause_and_not_measured():
    after = SERVED.on_limit(KNOBS, PoolState(), NOW, report(again=ahead(30.1)))
    assert after.pausing and after.window_refusals == 0 and after.rate_limit_events == 1
    exactly = SERVED.on_limit(KNOBS, PoolState(), NOW, report(again=ahead(30)))
    assert not exactly.pausing and exactly.window_refusals == 1


def test_the_later_word_on_the_gate_counts():
    before = PoolState(gate_until=ahead(20), gate_seconds=30.0)
    for again in (None, ahead(10), ahead(20)):
        after = SERVED.on_limit(KNOBS, before, NOW, report(again=again))
        assert (after.gate_until, after.gate_seconds) == (ahead(20), 30.0)
    after = SERVED.on_limit(KNOBS, before, NOW, report(again=ahead(25)))
    assert (after.gate_until, after.gate_seconds) == (ahead(25), 25.0)


def test_a_pause_stays_one_while_it_lasts():
    paused = PoolState(gate_until=ahead(5), pausing=True)
    assert SERVED.on_limit(KNOBS, paused, NOW, report(again=ahead(9))).pausing
    over = PoolState(gate_until=NOW, pausing=True)
    assert not SERVED.on_limit(KNOBS, over, NOW, report(again=ahead(9))).pausing
    past = SERVED.on_limit(KNOBS, PoolState(), NOW, report(again=ago(5)))
    assert past.gate_until == ago(5) and past.gate_seconds == 0.0


def test_the_gate_is_closed_until_its_moment():
    held = PoolState(gate_until=ahead(5), last_rate_limit_at=ago(2))
    closed = SERVED.closed_gate(KNOBS, held, NOW)
    assert (closed.gate, closed.since, closed.until) == ("limit", ago(2), ahead(5))
    assert "12:00:05 UTC" in closed.what
    assert SERVED.closed_gate(KNOBS, replace(held, gate_until=NOW), NOW) is None
    assert SERVED.closed_gate(KNOBS, PoolState(), NOW) is None


def test_the_breaker_the_gate_and_the_spacing_are_told_in_this_order():
    spaced = PoolState(next_dispatch_at=ahead(1))
    assert SERVED.closed_gate(KNOBS, spaced, NOW).gate == "spacing"
    gated = replace(spaced, gate_until=ahead(1))
    assert SERVED.closed_gate(KNOBS, gated, NOW).gate == "limit"
    broken = replace(
        gated, breaker_state=BreakerState.OPEN, breaker_open_at=NOW, breaker_break_seconds=9.0
    )
    assert SERVED.closed_gate(KNOBS, broken, NOW).gate == "breaker"


def test_three_refusals_over_a_minute_without_an_answer_open_the_breaker():
    deaf = PoolState(unanswered_since=ago(60), unanswered_refusals=2)
    assert SERVED.on_limit(KNOBS, deaf, NOW, report()).breaker_state is BreakerState.OPEN
    few = replace(deaf, unanswered_refusals=1)
    assert SERVED.on_limit(KNOBS, few, NOW, report()).breaker_state is BreakerState.CLOSED
    short = replace(deaf, unanswered_since=ago(59.9))
    assert SERVED.on_limit(KNOBS, short, NOW, report()).breaker_state is BreakerState.CLOSED
    tried = replace(deaf, breaker_state=BreakerState.HALF_OPEN)
    assert SERVED.on_limit(KNOBS, tried, NOW, report()).breaker_state is BreakerState.HALF_OPEN


def test_a_probe_that_dies_of_a_limit_opens_the_breaker_and_a_living_one_tries_on():
    tries = PoolState(breaker_state=BreakerState.HALF_OPEN, probe=A, probe_admitted_at=ago(9))
    dead = SERVED.on_limit(KNOBS, tries, NOW, report(Source.DEATH))
    assert dead.breaker_state is BreakerState.OPEN and dead.rate_limit_events == 1
    alive = SERVED.on_limit(KNOBS, tries, NOW, report())
    assert alive == replace(tries, rate_limit_events=1, last_rate_limit_at=NOW)


def test_a_death_is_measured_as_one():
    assert SERVED.on_limit(KNOBS, PoolState(), NOW, report(Source.DEATH)).window_deaths == 1
    assert SERVED.on_limit(KNOBS, PoolState(), NOW, report()).window_deaths == 0


def test_a_used_up_limit_closes_the_gate_until_it_resets():
    full = SERVED.on_announcement(KNOBS, PoolState(), NOW, LimitAnnouncement(A, 1.0, ahead(99)))
    assert full.gate_until == ahead(99) and full.announced_at is None
    endless = SERVED.on_announcement(KNOBS, PoolState(), NOW, LimitAnnouncement(A, 1.0))
    assert endless.gate_until is None and endless.announced_utilisation == 1.0


def test_what_resets_soon_is_noted_and_a_window_of_hours_is_not():
    soon = SERVED.on_announcement(KNOBS, PoolState(), NOW, LimitAnnouncement(A, 0.99, ahead(30)))
    assert soon == PoolState(announced_utilisation=0.99, announced_at=NOW)
    later = SERVED.on_announcement(KNOBS, PoolState(), NOW, LimitAnnouncement(A, 0.99, ahead(30.1)))
    assert later == PoolState()


def test_an_answer_reopens_the_way_or_closes_the_breaker():
    deaf = PoolState(unanswered_since=ago(9), unanswered_refusals=2)
    assert SERVED.on_answers(KNOBS, deaf, NOW, A, 0) is deaf
    assert SERVED.on_answers(KNOBS, PoolState(), NOW, A, 1) == PoolState(window_answers=1)
    closed = PoolState(
        breaker_state=BreakerState.OPEN, breaker_open_at=NOW, breaker_break_seconds=9.0
    )
    assert SERVED.on_answers(KNOBS, closed, NOW, A, 1).breaker_state is BreakerState.HALF_OPEN
    tries = PoolState(breaker_state=BreakerState.HALF_OPEN, probe=A)
    good = SERVED.on_answers(KNOBS, tries, NOW, A, 2)
    assert good == PoolState(window_at=NOW, sampled_at=NOW)
    other = SERVED.on_answers(KNOBS, tries, NOW, B, 2)
    assert other == replace(tries, window_answers=2)


def test_a_probe_that_ends_closes_the_breaker_if_it_was_answered():
    tries = PoolState(
        dynamic_cap=8,
        breaker_state=BreakerState.HALF_OPEN,
        probe=A,
        window_answers=3,
        unanswered_since=ago(9),
        unanswered_refusals=4,
    )
    after = SERVED.on_release(KNOBS, tries, NOW, A, reached=True)
    assert after == PoolState(dynamic_cap=8, window_at=NOW, sampled_at=NOW)
    assert SERVED.on_release(KNOBS, tries, NOW, A, reached=False) == replace(tries, probe=None)
    assert SERVED.on_release(KNOBS, tries, NOW, B, reached=True) is tries
    assert SERVED.on_release(KNOBS, PoolState(), NOW, A, reached=True) == PoolState()


def test_time_alone_closes_the_breaker_by_a_mute_probe_that_lives():
    tries = PoolState(breaker_state=BreakerState.HALF_OPEN, probe=A, probe_admitted_at=ago(1800))
    load = PoolLoad(1, waiting=False, slots=frozenset({A}), unobserved=frozenset({A}))
    assert SERVED.advance(KNOBS, tries, NOW, load).breaker_state is BreakerState.CLOSED
    gone = PoolLoad(0, waiting=False)
    assert SERVED.advance(KNOBS, tries, NOW, gone).breaker_state is BreakerState.OPEN


def test_what_runs_is_noted_as_time_passes():
    before = PoolState(window_at=ago(30), sampled_at=ago(10))
    after = SERVED.advance(KNOBS, before, NOW, busy(3, waiting=False))
    assert after.agent_seconds == 30.0 and after.sampled_at == NOW


def test_its_cap_is_the_learned_one():
    assert SERVED.cap(KNOBS, PoolState(dynamic_cap=5)) == 5
    started = SERVED.on_start(KNOBS, PoolState(), NOW, A, 0.5)
    assert started.next_dispatch_at == ahead(3)
