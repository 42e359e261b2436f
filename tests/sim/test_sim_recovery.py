"""The recovery where there is none to measure, and how long work waits whose agent has died."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from hostler.errors import HostlerError
from hostler.sim.metrics import METRICS, MetricsCollector, Sample
from hostler.sim.policies import CONTESTANTS
from hostler.sim.scenario import MAIN, SCENARIOS, Scenario, read_scenario
from hostler.sim.tournament import Entry, PolicyResult, as_json, table
from hostler.sim.workload import Agent, Task
from hostler.sim.world import Room, World

LOW, HIGH = (0, 3), (5, 9)


def test_the_scenarios_that_rise_at_five_hours_say_so_and_the_others_measure_nothing():
    still = {name for name, one in SCENARIOS.items() if one.rise is None}
    assert still == {"low_ceiling", "slow_drift"}
    assert {one.rise for name, one in SCENARIOS.items() if name not in still} == {5 * 3600}


@pytest.mark.parametrize(
    ("told", "rise"),
    [
        ({"ceilings": ((LOW, HIGH),)}, 18_000),
        ({"ceilings": ((LOW,), (LOW, HIGH))}, 18_000),
        # Nothing rises then: it stands still, falls, or rises at another hour.
        ({"ceilings": ((LOW,),)}, None),
        ({"ceilings": (((0, 9), (5, 3)),)}, None),
        ({"ceilings": ((LOW, (4, 9)),)}, None),
        # It would, after the run.
        ({"ceilings": ((LOW, HIGH),), "hours": 5}, None),
        ({"ceilings": ((LOW, HIGH),), "recovery_from": None}, None),
        # A line has no step, but a direction.
        ({"ceilings": ((LOW, HIGH),), "drift": True, "recovery_from": 2}, 7_200),
        ({"ceilings": (((0, 9), (5, 3)),), "drift": True, "recovery_from": 2}, None),
        # The start of the run is a rise from nothing.
        ({"ceilings": ((LOW,),), "recovery_from": 0}, 0),
        ({"ceilings": ((LOW, (10 + 1 / 6, 9)),), "recovery_from": 10 + 1 / 6}, 36_600),
    ],
)
def test_a_recovery_is_measured_where_a_ceiling_rises_within_the_run(told: dict[str, Any], rise):
    assert Scenario(**told).rise == (None if rise is None else pytest.approx(rise))


def standing(scenario: Scenario) -> PolicyResult:
    tally = MetricsCollector(scenario)
    tally.seen(Sample(6 * 3600.0, 10.0, 9, 9), 10.0)
    return PolicyResult("aimd", (Entry("aimd", 1, tally.metrics(), ()),))


def test_what_was_not_measured_is_in_no_result_and_a_dash_in_the_table():
    still = standing(SCENARIOS["low_ceiling"])
    (told,) = as_json(MAIN, 1, [still])["policies"].values()
    for found in (still.means(), told["mean"], told["by_seed"][0]):
        assert set(METRICS) - set(found) == {"recovery_min"}
    assert cells(still)["recovery_min"] == "–"


def test_what_was_measured_is_in_all_of_them():
    risen = standing(MAIN)
    assert risen.means()["recovery_min"] == 60
    assert cells(risen)["recovery_min"] == "60.0"


def cells(one: PolicyResult) -> dict[str, str]:
    head, row = (line.split() for line in table([one]).splitlines())
    return dict(zip(head, row, strict=True))


# Numbers that are none.


NUMBERS = [
    name
    for name, field in Scenario.model_fields.items()
    if field.annotation in (float, int, float | None)
]


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_no_parameter_is_without_an_end(name: str, value: float):
    with pytest.raises(ValidationError) as caught:
        Scenario.model_validate({name: value})
    assert [error["loc"] for error in caught.value.errors()] == [(name,)]


@pytest.mark.parametrize("point", ["[inf, 5]", "[nan, 5]", "[1, inf]", "[1, nan]"])
def test_no_point_of_a_ceiling_is_either(tmp_path, point: str):
    path = tmp_path / "endless.toml"
    path.write_text(f"ceilings = [[[0, 5], {point}]]\n")
    with pytest.raises(HostlerError, match="finite"):
        read_scenario(path)


@pytest.mark.parametrize("name", [one for one in NUMBERS if one.endswith("_seconds")])
def test_no_wait_is_longer_than_a_day(name: str):
    with pytest.raises(ValidationError):
        Scenario.model_validate({name: 1e308})


# Work whose agent has died.


class Graveyard(World):
    """A world that notes how long after each death its task was queued again."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario, CONTESTANTS["fixed_8"], 1)
        self.died: dict[str, float] = {}
        self.waits: set[tuple[int, float]] = set()

    def _died(self, now: float, room: Room, agent: Agent) -> None:
        self.died[agent.task.piece.name] = now
        super()._died(now, room, agent)

    def _queued_again(self, now: float, task: Task) -> None:
        self.waits.add((task.deaths, round(now - self.died[task.piece.name], 3)))
        super()._queued_again(now, task)


def test_work_whose_agent_died_is_queued_again_after_a_minute_for_each_death():
    outage = Scenario(
        hours=0.5,
        ceilings=(((0, 4), (0.1, 0)),),
        work_median=30,
        misses_that_kill=3,
        recovery_from=None,
    )
    world = Graveyard(outage)
    world.run()
    assert {(1, 60.0), (2, 120.0), (3, 180.0)} <= world.waits
    assert all(wait == 60 * deaths for deaths, wait in world.waits)
