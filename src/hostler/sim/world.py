"""A simulated world: pools under a policy, agents, and a clock that jumps to the next event."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from typing import Any

from hostler.governor.adaptive.model import (
    ClosedGate,
    LeaseSlot,
    LimitAnnouncement,
    LimitReport,
    PoolLoad,
    PoolState,
    Reason,
    Source,
)
from hostler.governor.gates import ProjectDemand, shares, turn_at
from hostler.sim.metrics import MetricsCollector, Sample
from hostler.sim.policies import Contestant
from hostler.sim.provider import Provider
from hostler.sim.scenario import Scenario
from hostler.sim.workload import (
    Agent,
    Task,
    after_answer,
    after_refusal,
    bursts,
    next_request,
    project_names,
    refusal_delay,
    usual_seconds,
)

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
ROTATION_SECONDS = 60
# A provider names no moment that is nearer than this.
SOONEST_AGAIN = 1.0


def simulated_time(seconds: float) -> datetime:
    """A second of the run on the fake clock."""
    return BEGIN + timedelta(seconds=seconds)


class Room:
    """What admission does for one pool, with the real rules."""

    def __init__(
        self,
        scenario: Scenario,
        contestant: Contestant,
        provider: Provider,
        projects: Sequence[str],
        roll: Random,
    ) -> None:
        self.provider = provider
        self.state = PoolState()
        self.active = dict.fromkeys(projects, 0)
        self.waiting: dict[str, deque[Task]] = {project: deque() for project in projects}
        self._projects = list(projects)
        self._live: set[LeaseSlot] = set()
        self._roll = roll
        self._turn_of = 0
        self._answers: dict[bool, int] = {True: 0, False: 0}
        self._last = LeaseSlot("")
        self._headers = contestant.headers
        self._tells = scenario.tells
        self._strict = contestant.strict_shares
        self._config = contestant.config(scenario)
        self._control = contestant.control(
            lambda at: provider.nominal((at - BEGIN).total_seconds())
        )

    @property
    def cap(self) -> int:
        """The cap in force."""
        return self._control.cap(self._config, self.state)

    @property
    def running(self) -> int:
        """How many agents run."""
        return len(self._live)

    def wanted(self) -> bool:
        """Whether anybody waits."""
        return any(self.waiting.values())

    def wishes(self) -> list[ProjectDemand]:
        """Who runs or wants something here."""
        return [
            ProjectDemand(project, self.active[project], len(self.waiting[project]))
            for project in self._projects
            if self.active[project] or self.waiting[project]
        ]

    def look(self, now: float) -> None:
        """What time changes, and what was heard since the last look."""
        self._tell(now)
        load = PoolLoad(self.running, self.wanted(), frozenset(self._live))
        self.state = self._control.advance(self._config, self.state, simulated_time(now), load)

    def closed_gate(self, now: float) -> ClosedGate | None:
        """The gate that is closed for everybody."""
        return self._control.closed_gate(self._config, self.state, simulated_time(now))

    def next_project(self, now: float) -> str | None:
        """Whose turn it is, if there is a place."""
        if self.running >= self.cap:
            return None
        dealt = shares(
            self.cap, self._demand(), turn_at(simulated_time(now).timestamp(), ROTATION_SECONDS)
        )
        order = self._projects[self._turn_of :] + self._projects[: self._turn_of]
        for project in order:
            if self.waiting[project] and self.active[project] < dealt.get(project, 0):
                return project
        return None

    def start(self, now: float, project: str) -> Agent:
        """A grant."""
        task = self.waiting[project].popleft()
        agent = Agent(task, LeaseSlot(project, f"{task.piece.name}/{task.deaths}"))
        self._turn_of = (self._projects.index(project) + 1) % len(self._projects)
        self._live.add(agent.slot)
        self.active[project] += 1
        self.state = self._control.on_start(
            self._config, self.state, simulated_time(now), agent.slot, self._roll.random()
        )
        return agent

    def on_answers(self, agent: Agent) -> None:
        """A healthy response; the policy hears of it at the next look."""
        self._answers[agent.slot == self.state.probe] += 1
        self._last = agent.slot

    def on_limit(self, now: float, agent: Agent, *, deadly: bool) -> None:
        """A refusal, if anybody hears of it."""
        if not deadly and not self._tells:
            return
        again = self.provider.again_in(now)
        at = simulated_time(now + max(SOONEST_AGAIN, again)) if self._headers and again else None
        reason = Reason.OVERLOAD if again is None else Reason.BURST
        source = Source.DEATH if deadly else Source.LIVE
        report = LimitReport(agent.slot, source, reason, at)
        self.state = self._control.on_limit(self._config, self.state, simulated_time(now), report)

    def end(self, now: float, agent: Agent) -> None:
        """A lease is given back."""
        self._tell(now)
        self._live.discard(agent.slot)
        self.active[agent.task.project] -= 1
        self.state = self._control.on_release(
            self._config, self.state, simulated_time(now), agent.slot, reached=agent.done > 0
        )

    def _demand(self) -> list[ProjectDemand]:
        """Who takes part in the shares: whoever wants more. Strict ones do not ask how much."""
        eager = [wish for wish in self.wishes() if wish.more]
        return [ProjectDemand(wish.project) for wish in eager] if self._strict else eager

    def _tell(self, now: float) -> None:
        """Answers are told together, but those of the probe: no policy asks whose the rest are."""
        for of_probe, requests in self._answers.items():
            if requests:
                slot = self.state.probe if of_probe and self.state.probe else self._last
                self.state = self._control.on_answers(
                    self._config, self.state, simulated_time(now), slot, requests
                )
        if self._headers and any(self._answers.values()):
            word = LimitAnnouncement(self._last, self.provider.used(now))
            self.state = self._control.on_announcement(
                self._config, self.state, simulated_time(now), word
            )
        self._answers = {True: 0, False: 0}


class World:
    """One policy on one seed."""

    def __init__(self, scenario: Scenario, contestant: Contestant, seed: int) -> None:
        self.scenario = scenario
        self.tally = MetricsCollector(scenario)
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

    def run(self) -> MetricsCollector:
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
        turn = turn_at(simulated_time(now).timestamp(), ROTATION_SECONDS)
        ceiling, could = 0.0, 0.0
        for pool, room in enumerate(self.rooms):
            self._admit(now, pool)
            height, wishes = room.provider.ceiling(now), room.wishes()
            self.tally.looked(now, height, wishes, turn)
            ceiling += height
            could += min(self.scenario.ceiling_at(pool, now), sum(wish.total for wish in wishes))
        caps, running = sum(r.cap for r in self.rooms), sum(r.running for r in self.rooms)
        self.tally.seen(Sample(now, ceiling, caps, running), could)
        self._at(now + self.scenario.look_seconds, self._look, None)

    def _admit(self, now: float, pool: int) -> None:
        """Start whoever may start."""
        room = self.rooms[pool]
        room.look(now)
        while room.wanted():
            if (closed := room.closed_gate(now)) is not None:
                if closed.until is not None:
                    self._wake(now, pool, (closed.until - simulated_time(0.0)).total_seconds())
                return
            project = room.next_project(now)
            if project is None:
                return
            agent = room.start(now, project)
            self.tally.dispatches += 1
            self._thinks(now, agent)

    def _thinks(self, now: float, agent: Agent) -> None:
        """Its next request comes after a while."""
        wait = next_request(self.scenario, agent, self._roll)
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
        worth = usual_seconds(self.scenario, agent)
        self.tally.answered(now, agent.task.project, worth)
        room.on_answers(agent)
        if after_answer(agent):
            self._done(now, room, agent)
            return
        self._thinks(now, agent)

    def _refused(self, now: float, room: Room, agent: Agent) -> None:
        self.tally.limits += 1
        dead = after_refusal(agent, self.scenario)
        room.on_limit(now, agent, deadly=dead)
        if dead:
            self._died(now, room, agent)
            return
        wait = refusal_delay(self.scenario, agent.misses, self._roll)
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
