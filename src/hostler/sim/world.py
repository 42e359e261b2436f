"""A simulated day: events in the order of their time, nothing else."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

from hostler.governor.gates import turn_at
from hostler.sim import agents
from hostler.sim.agents import Agent, Task
from hostler.sim.policies import Contestant
from hostler.sim.provider import Provider
from hostler.sim.room import ROTATION_SECONDS, Room, moment
from hostler.sim.scenario import Scenario
from hostler.sim.tally import Moment, Tally
from hostler.sim.workload import bursts, project_names


class World:
    """One policy on one seed."""

    def __init__(self, scenario: Scenario, contestant: Contestant, seed: int) -> None:
        self.scenario = scenario
        self.tally = Tally(scenario)
        self._roll = Random(f"{seed}:run")  # noqa: S311
        self._bursts = bursts(scenario, seed)
        self._missing: dict[tuple[int, int], int] = {}
        projects = project_names(scenario)
        self.rooms = [
            Room(scenario, contestant, Provider(scenario, pool, seed), projects, self._roll)
            for pool in range(len(scenario.ceilings))
        ]
        self._wakes: list[float] = [0.0] * len(self.rooms)
        self._events: list[tuple[float, int, Callable[[float, Any], None], Any]] = []
        self._order = count()
        for number, burst in enumerate(self._bursts):
            self._at(burst.at, self._begin, (number, 0))
        self._at(0.0, self._look, None)

    def run(self) -> Tally:
        """Until the end of the day."""
        end = self.scenario.seconds
        while self._events and self._events[0][0] < end:
            now, _, happen, what = heapq.heappop(self._events)
            happen(now, what)
        return self.tally

    def _at(self, when: float, happen: Callable[[float, Any], None], what: Any) -> None:
        heapq.heappush(self._events, (when, next(self._order), happen, what))

    def _begin(self, now: float, stage: tuple[int, int]) -> None:
        """A stage of a burst is ready."""
        burst = self._bursts[stage[0]]
        pieces = burst.stages[stage[1]]
        self._missing[stage] = len(pieces)
        for piece in pieces:
            task = Task(piece, burst.project, stage, piece.requests)
            self.rooms[piece.pool].waiting[burst.project].append(task)
        for pool in {piece.pool for piece in pieces}:
            self._admit(now, pool)

    def _look(self, now: float, _: None) -> None:
        """Every few seconds, whatever happens."""
        turn = turn_at(moment(now).timestamp(), ROTATION_SECONDS)
        ceiling, could = 0.0, 0.0
        for pool, room in enumerate(self.rooms):
            self._admit(now, pool)
            height, wishes = room.provider.ceiling(now), room.wishes()
            self.tally.looked(now, height, wishes, turn)
            ceiling += height
            could += min(self.scenario.ceiling_at(pool, now), sum(wish.total for wish in wishes))
        caps, running = sum(r.cap for r in self.rooms), sum(r.running for r in self.rooms)
        self.tally.seen(Moment(now, ceiling, caps, running), could)
        self._at(now + self.scenario.look_seconds, self._look, None)

    def _admit(self, now: float, pool: int) -> None:
        """Start whoever may start."""
        room = self.rooms[pool]
        room.look(now)
        while room.wanted():
            if (shut := room.shut(now)) is not None:
                if shut.until is not None:
                    self._wake(now, pool, (shut.until - moment(0.0)).total_seconds())
                return
            project = room.next_project(now)
            if project is None:
                return
            agent = room.start(now, project)
            self.tally.dispatches += 1
            self._thinks(now, agent)

    def _thinks(self, now: float, agent: Agent) -> None:
        """Its next request comes after a while."""
        wait = agents.next_request(self.scenario, agent, self._roll)
        self._at(now + wait, self._ask, agent)

    def _wake(self, now: float, pool: int, when: float) -> None:
        """Come back when a gate opens, once."""
        if self._wakes[pool] <= now:
            self._wakes[pool] = when
            self._at(when, self._woken, pool)

    def _woken(self, now: float, pool: int) -> None:
        self._wakes[pool] = 0.0
        self._admit(now, pool)

    def _ask(self, now: float, agent: Agent) -> None:
        """An agent sends a request."""
        room = self.rooms[agent.task.piece.pool]
        if room.provider.ask(now):
            self._served(now, room, agent)
        else:
            self._refused(now, room, agent)

    def _served(self, now: float, room: Room, agent: Agent) -> None:
        worth = agents.usual_seconds(self.scenario, agent)
        self.tally.answered(now, agent.task.project, worth)
        room.answered(agent)
        if agents.served(agent):
            self._done(now, room, agent)
            return
        self._thinks(now, agent)

    def _refused(self, now: float, room: Room, agent: Agent) -> None:
        self.tally.limits += 1
        dead = agents.refused(agent, self.scenario)
        room.limited(now, agent, deadly=dead)
        if dead:
            self._died(now, room, agent)
            return
        wait = agents.backoff(self.scenario, agent.misses, self._roll)
        self._at(now + wait, self._ask, agent)

    def _done(self, now: float, room: Room, agent: Agent) -> None:
        self.tally.tasks += 1
        room.end(now, agent)
        number, stage = agent.task.stage
        self._missing[number, stage] -= 1
        if not self._missing[number, stage] and stage + 1 < len(self._bursts[number].stages):
            self._begin(now, (number, stage + 1))
        self._admit(now, agent.task.piece.pool)

    def _died(self, now: float, room: Room, agent: Agent) -> None:
        self.tally.deaths += 1
        room.end(now, agent)
        later = now + self.scenario.requeue_seconds * agent.task.deaths
        self._at(later, self._queued_again, agent.task)
        self._admit(now, agent.task.piece.pool)

    def _queued_again(self, now: float, task: Task) -> None:
        """It waits like all other work, at the head of its own project."""
        self.rooms[task.piece.pool].waiting[task.project].appendleft(task)
        self._admit(now, task.piece.pool)
