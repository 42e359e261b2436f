"""The parts of the model: bucket, ceiling, backoff, work."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from statistics import mean, median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.governor.adaptive.model import LeaseSlot
from hostler.sim import workload
from hostler.sim.provider import Provider
from hostler.sim.scenario import HELD_OUT, MAIN, Scenario
from hostler.sim.workload import Agent, Piece, Task, bursts, project_names

STEADY = Scenario(name="steady", hours=1, ceilings=(((0, 8),),), noise=0)
waits = st.lists(st.floats(0, 30), min_size=1, max_size=60)


@given(waits, st.integers(0, 5))
def test_a_bucket_serves_what_flows_in_and_what_it_held_and_no_more(waits, seed):
    provider = Provider(STEADY.model_copy(update={"noise": 0.1}), 0, seed)
    held, now, served = provider.ceiling(0) / 8 * 30, 0.0, 0
    for wait in waits:
        now += wait
        while provider.ask(now):
            served += 1
        assert 0 <= provider.used(now) <= 1
    poured = sum(provider.ceiling(minute * 60.0) for minute in range(int(now / 60) + 1)) * 7.5
    assert served <= held + poured


def test_a_full_bucket_holds_half_a_minute_and_refills_at_the_ceiling():
    provider = Provider(STEADY, 0, 1)
    assert provider.used(0) == 0
    assert sum(provider.ask(0) for _ in range(100)) == 30
    assert provider.used(0) == 1 and provider.again_in(0) == pytest.approx(1)
    assert not provider.ask(0.9)
    assert provider.ask(1.0)


def test_an_outage_serves_nobody_and_cannot_say_until_when():
    gone = Scenario(name="gone", hours=1, ceilings=(((0, 8), (0.5, 0)),))
    provider = Provider(gone, 0, 1)
    assert not any(provider.ask(1800 + 60 + second) for second in range(600))
    assert provider.again_in(2400) is None and provider.used(2400) == 1


def test_the_noise_is_a_tenth_around_the_ceiling():
    provider = Provider(Scenario(hours=200, ceilings=(((0, 20),),)), 0, 1)
    seen = [provider.ceiling(minute * 60.0) for minute in range(12_000)]
    assert mean(seen) == pytest.approx(20, rel=0.01)
    assert mean((one - 20) ** 2 for one in seen) ** 0.5 == pytest.approx(2, rel=0.05)
    assert provider.nominal(0) == 20


@given(st.integers(1, 30), st.integers())
def test_the_backoff_doubles_up_to_a_minute_give_or_take_a_half(misses, seed):
    wait = workload.refusal_delay(MAIN, misses, Random(seed))
    middle = min(2 ** (misses - 1), 60)
    assert 0.5 * middle <= wait <= 1.5 * middle


def agent(left: int = 50) -> Agent:
    return Agent(Task(Piece("one", left, 0), "ant", (0, 0), left), LeaseSlot("ant", "one"))


def test_ten_refusals_in_a_row_kill_and_half_of_the_work_is_lost():
    one = agent()
    for _ in range(20):
        workload.after_answer(one)
    assert [workload.after_refusal(one, MAIN) for _ in range(10)] == [False] * 9 + [True]
    assert (one.task.left, one.task.deaths) == (40, 1)


def test_an_answer_in_between_saves_it():
    one = agent()
    for _ in range(5):
        assert not any(workload.after_refusal(one, MAIN) for _ in range(9))
        workload.after_answer(one)


def test_the_work_is_over_after_its_last_answer():
    one = agent(left=3)
    assert [workload.after_answer(one) for _ in range(3)] == [False, False, True]


@given(st.integers(0, 50))
def test_there_is_as_much_work_as_is_offered(seed):
    found = bursts(STEADY, seed)
    requests = sum(p.requests for burst in found for stage in burst.stages for p in stage)
    assert requests >= 1.3 * 8 * 450
    names = [p.name for burst in found for stage in burst.stages for p in stage]
    assert len(names) == len(set(names))
    assert [burst.at for burst in found] == sorted(burst.at for burst in found)


def paces(scenario: Scenario, seed: int = 1) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for burst in bursts(scenario, seed):
        found.setdefault(burst.project, []).extend(p.pace for stage in burst.stages for p in stage)
    return found


def test_paces_differ_by_agent_or_by_project_and_are_one_on_average():
    assert {pace for ours in paces(MAIN).values() for pace in ours} == {1.0}
    mixed = [pace for ours in paces(HELD_OUT["mixed_pace"]).values() for pace in ours]
    assert len(set(mixed)) == len(mixed) and mean(mixed) == pytest.approx(1, rel=0.1)
    assert sum(pace < 0.5 for pace in mixed) / len(mixed) == pytest.approx(0.2, abs=0.05)
    each = paces(HELD_OUT["project_pace"])
    assert all(len(set(ours)) == 1 for ours in each.values())
    assert len({ours[0] for ours in each.values()}) == MAIN.projects


def test_a_pace_changes_nothing_else_of_the_work():
    plain, mixed = bursts(MAIN, 3), bursts(HELD_OUT["mixed_pace"], 3)
    assert [
        replace(b, stages=tuple(tuple(replace(p, pace=1.0) for p in s) for s in b.stages))
        for b in mixed
    ] == plain


@given(st.floats(0.1, 9), st.integers())
def test_a_slow_agent_takes_longer_for_each_request(pace, seed):
    one = agent()
    one.task.piece = replace(one.task.piece, pace=pace)
    assert 4 * pace <= workload.next_request(MAIN, one, Random(seed)) <= 12 * pace


def test_bursts_come_to_all_projects_in_stages_of_all_widths():
    found = bursts(MAIN, 1)
    pieces = [p for burst in found for stage in burst.stages for p in stage]
    assert {burst.project for burst in found} == set(project_names(MAIN))
    assert {len(stage) for burst in found for stage in burst.stages} == set(MAIN.widths)
    assert {len(burst.stages) for burst in found} == {2, 3, 4, 5}
    assert median(p.requests for p in pieces) == pytest.approx(90, rel=0.1)
