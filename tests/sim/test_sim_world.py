"""Simulated days: the same for the same seed, nothing lost, nobody above the cap."""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random
from typing import NamedTuple

import pytest

from hostler.sim.metrics import METRICS, MetricsCollector, Sample
from hostler.sim.policies import CONTESTANTS
from hostler.sim.provider import Provider
from hostler.sim.scenario import MAIN, Scenario
from hostler.sim.tournament import tournament
from hostler.sim.workload import Agent, Piece, Task, bursts
from hostler.sim.world import Room, World

# A fall, an outage and a rise in an hour, with two pools and short work.
SHORT = Scenario(
    name="short",
    hours=1,
    ceilings=(((0, 10), (0.25, 3), (0.5, 0), (0.6, 12)), ((0, 4),)),
    work_median=20,
    projects=3,
    max_global=8,
    hard_max=16,
    recovery_from=0.6,
)
policies = pytest.mark.parametrize("policy", CONTESTANTS)


class Watched(World):
    """A world that notes which tasks were finished and which agents were started."""

    def __init__(self, policy: str, seed: int = 1) -> None:
        super().__init__(SHORT, CONTESTANTS[policy], seed)
        self.finished: Counter[str] = Counter()
        self.starts: list[Start] = []

    def _done(self, now: float, room: Room, agent: Agent) -> None:
        self.finished[agent.task.piece.name] += 1
        super()._done(now, room, agent)

    def run(self) -> MetricsCollector:
        start = Room.start

        def noted(room: Room, now: float, project: str) -> Agent:
            free = room.running < room.cap and room.closed_gate(now) is None
            agent = start(room, now, project)
            self.starts.append(Start(free, sum(room.active.values()) == room.running))
            return agent

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Room, "start", noted)
            return super().run()


class Start(NamedTuple):
    """Whether there was room for an agent, and whether it was counted."""

    free: bool
    counted: bool


@cache
def day(policy: str) -> tuple[Watched, MetricsCollector]:
    """Return one simulated day of each policy, for everything that is said about days."""
    world = Watched(policy)
    return world, world.run()


def numbers(tally: MetricsCollector) -> tuple[dict[str, float], list[Sample]]:
    return tally.metrics(), tally.moments


@policies
def test_the_same_seed_gives_the_same_numbers(policy):
    _, tally = day(policy)
    assert numbers(World(SHORT, CONTESTANTS[policy], 1).run()) == numbers(tally)


@pytest.mark.parametrize("policy", ["aimd", "served"])
def test_another_seed_gives_other_numbers(policy):
    _, tally = day(policy)
    assert numbers(World(SHORT, CONTESTANTS[policy], 4).run()) != numbers(tally)


@policies
def test_each_task_is_finished_once_and_its_work_was_really_served(policy):
    world, tally = day(policy)
    pieces = {
        piece.name: piece.requests
        for burst in bursts(SHORT, 1)
        for stage in burst.stages
        for piece in stage
    }
    assert tally.tasks == len(world.finished) > 0
    assert set(world.finished.values()) == {1}
    assert sum(pieces[name] for name in world.finished) <= tally.served


@policies
def test_nobody_starts_above_the_cap_and_every_start_is_counted(policy):
    world, tally = day(policy)
    assert all(start.free and start.counted for start in world.starts)
    assert tally.dispatches == len(world.starts) > 0


@policies
def test_no_provider_serves_more_than_its_ceiling_and_what_its_bucket_holds(policy):
    world, tally = day(policy)
    minutes = range(int(SHORT.seconds / 60))
    poured = sum(
        room.provider.ceiling(minute * 60) * 60 for room in world.rooms for minute in minutes
    )
    full = sum(room.provider.ceiling(0) * SHORT.bucket_seconds for room in world.rooms)
    assert tally.served * SHORT.request_seconds <= poured + full


def test_who_died_is_queued_again_and_passes_admission_like_all_other():
    fixed = Scenario(
        name="outage", hours=1, ceilings=(((0, 4), (0.2, 0), (0.5, 4)),), work_median=30
    )
    tally = World(fixed, CONTESTANTS["fixed_8"], 1).run()
    assert tally.deaths > 0
    assert tally.dispatches <= tally.tasks + tally.deaths + 8


def test_the_oracle_uses_the_ceiling_and_is_refused_little():
    calm = Scenario(name="calm", hours=2, ceilings=(((0, 12),),), recovery_from=None)
    oracle = World(calm, CONTESTANTS["oracle"], 1).run().metrics()
    greedy = World(calm, CONTESTANTS["fixed_24"], 1).run().metrics()
    assert oracle["utilisation"] > 0.93
    assert oracle["deaths_per_1000"] == 0
    assert oracle["limits_per_1000"] * 4 < greedy["limits_per_1000"]
    timid = World(calm, CONTESTANTS["fixed_8"], 1).run().metrics()
    assert timid["utilisation"] < 0.75 and timid["limits_per_1000"] == 0


def test_silent_agents_are_heard_of_when_they_die_and_not_before():
    loud = SHORT.model_copy(update={"ceilings": (((0, 1),), ((0, 1),))})
    heard = World(loud, CONTESTANTS["aimd"], 1)
    silent = World(loud.model_copy(update={"tells": False}), CONTESTANTS["aimd"], 1)
    for world in (heard, silent):
        world.run()
    events = [sum(room.state.rate_limit_events for room in w.rooms) for w in (heard, silent)]
    assert events == [heard.tally.limits, silent.tally.deaths]
    assert silent.tally.limits > silent.tally.deaths > 0


def room_of(policy: str, *, running: dict[str, int], waiting: dict[str, int]) -> Room:
    """A pool with a cap of eight, and projects that run and want so much; the first is next."""
    told = SHORT.model_copy(update={"max_global": 8})
    room = Room(told, CONTESTANTS[policy], Provider(told, 0, 1), list(running), Random(1))
    for project, number in running.items():
        room.waiting[project].extend(tasks_of(project, number))
        for _ in range(number):
            room.start(0.0, project)
        room.waiting[project].extend(tasks_of(project, waiting.get(project, 0)))
    return room


def tasks_of(project: str, number: int) -> list[Task]:
    return [Task(Piece(f"{project}{n}", 9, 0), project, (0, 0), 9) for n in range(number)]


@pytest.mark.parametrize(("policy", "next_one"), [("aimd_strict", "bee"), ("aimd", "ant")])
def test_strict_shares_do_not_lend_what_another_that_waits_does_not_want(policy, next_one):
    room = room_of(policy, running={"ant": 4, "bee": 1}, waiting={"ant": 9, "bee": 1})
    assert room.next_project(0.0) == next_one


def test_who_runs_agents_and_wants_no_more_has_no_strict_share_either():
    room = room_of("aimd_strict", running={"ant": 4, "bee": 1}, waiting={"ant": 9})
    assert room.next_project(0.0) == "ant"


def test_every_policy_meets_the_same_work_and_the_same_noise():
    worlds = [World(MAIN, CONTESTANTS[name], 7) for name in ("aimd", "oracle")]
    assert bursts(MAIN, 7) == bursts(MAIN, 7) != bursts(MAIN, 8)
    minutes = range(0, int(MAIN.seconds), 60)
    first, second = ([w.rooms[0].provider.ceiling(at) for at in minutes] for w in worlds)
    assert first == second


def test_a_tournament_is_the_same_on_any_number_of_processes():
    brief = SHORT.model_copy(update={"hours": 0.7})
    alone = tournament(brief, ["aimd", "served"], 2)
    told: list[tuple[int, int]] = []
    helped = tournament(brief, ["aimd", "served"], 2, jobs=2, progress=lambda *at: told.append(at))
    assert alone == helped
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert [one.policy for one in alone] == ["aimd", "served"]
    assert set(alone[0].means()) == set(METRICS)


def test_a_recovery_that_never_came_lasted_until_the_end():
    assert MetricsCollector(MAIN).metrics()["recovery_min"] == 7 * 60
    tally = MetricsCollector(MAIN)
    tally.seen(Sample(10 * 3600.0, 0.0, 8, 8), 0.0)
    assert tally.metrics()["recovery_min"] == 7 * 60
    tally.seen(Sample(11 * 3600.0, 10.0, 9, 9), 10.0)
    assert tally.metrics()["recovery_min"] == 6 * 60
