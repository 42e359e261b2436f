"""What each metric is, on days so short that it can be worked out by hand."""

from __future__ import annotations

import pytest

from hostler.governor.gates import ProjectDemand
from hostler.sim.metrics import SHARE_WINDOW, MetricsCollector, Sample
from hostler.sim.scenario import Scenario

# A look every ten seconds; an answer is worth eight seconds of a place.
DAY = Scenario(
    name="hand",
    hours=1,
    ceilings=(((0, 10), (0.5, 20)),),
    look_seconds=10,
    request_seconds=8,
    recovery_from=0.5,
)
HALF = 1800.0


def tally(**more: int) -> MetricsCollector:
    found = MetricsCollector(DAY)
    for name, value in more.items():
        setattr(found, name, value)
    return found


def answers(found: MetricsCollector, number: int, project: str = "ant", now: float = 0.0) -> None:
    for _ in range(number):
        found.answered(now, project, DAY.request_seconds)


def test_utilisation_is_what_was_served_of_what_the_ceiling_allowed_and_the_work_could_use():
    found = tally()
    # Four could run: 40 s of places. Then work for two alone, though ten could run: 20 s more.
    found.looked(0, 4, [ProjectDemand("ant", 1, 9)], 0)
    found.looked(10, 10, [ProjectDemand("ant", 1, 1)], 0)
    answers(found, 6)
    assert found.metrics()["utilisation"] == pytest.approx(6 * 8 / 60)


def test_where_nothing_could_be_used_nothing_is_divided_by_it():
    assert tally().metrics()["utilisation"] == 0


def test_idle_slots_are_those_that_work_waited_for_and_the_ceiling_allowed():
    found = tally()
    found.looked(
        0, 10, [ProjectDemand("ant", 3, 9), ProjectDemand("bee", 1, 0)], 0
    )  # 10 could, 4 do
    found.looked(
        10, 10, [ProjectDemand("ant", 3, 0), ProjectDemand("bee", 1, 0)], 0
    )  # nobody waits
    found.looked(20, 2, [ProjectDemand("ant", 3, 9)], 0)  # more run than the ceiling allows
    assert found.metrics()["idle_slot_hours"] == pytest.approx(6 * 10 / 3600)


def test_refusals_and_deaths_are_told_per_thousand_starts():
    found = tally(dispatches=250, limits=500, deaths=3, tasks=7).metrics()
    assert (found["limits_per_1000"], found["deaths_per_1000"], found["tasks"]) == (2000, 12, 7)
    assert tally(limits=5).metrics()["limits_per_1000"] == 5000


def seen(found: MetricsCollector, seconds: float, active: int, could: float) -> None:
    found.seen(Sample(seconds, could, 99, active), could)


def test_the_recovery_ends_when_nine_tenths_of_what_could_run_does():
    found = tally()
    seen(found, HALF - 10, 20, 20)  # before the rise
    seen(found, HALF + 60, 17, 20)
    seen(found, HALF + 90, 18, 20)
    seen(found, HALF + 600, 20, 20)
    assert found.metrics()["recovery_min"] == 1.5


def test_the_worst_share_is_that_of_the_project_that_got_least_of_its_part():
    found = tally()
    # Four places for two that want all: twenty seconds each, for ten seconds twice.
    for now in (0, 10):
        found.looked(now, 4, [ProjectDemand("ant", 0, 9), ProjectDemand("bee", 0, 9)], 0)
    answers(found, 5, "ant")
    answers(found, 2, "bee")
    assert found.metrics()["worst_share"] == pytest.approx(2 * 8 / 40)


def test_more_than_its_part_in_one_while_makes_up_for_nothing_in_another():
    found = tally()
    for now in (0.0, SHARE_WINDOW):
        found.looked(now, 4, [ProjectDemand("ant", 0, 9)], 0)
    answers(found, 10, "ant", now=0.0)
    assert found.metrics()["worst_share"] == pytest.approx(0.5)


def test_who_wants_nothing_is_owed_nothing():
    found = tally()
    found.looked(0, 4, [ProjectDemand("ant", 0, 4), ProjectDemand("bee", 0, 0)], 0)
    answers(found, 5, "ant")
    assert found.metrics()["worst_share"] == 1


def test_an_answer_to_a_slow_agent_is_worth_more_of_its_place():
    found = tally()
    found.looked(0, 4, [ProjectDemand("ant", 0, 4)], 0)
    found.answered(0, "ant", 20.0)
    assert found.metrics()["worst_share"] == pytest.approx(0.5)
    assert found.metrics()["utilisation"] == pytest.approx(8 / 40)
