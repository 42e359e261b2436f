"""One pool of the simulated house: its provider, the policy, who runs and who waits."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random

from hostler.governor.adaptive.model import (
    Announced,
    ClosedGate,
    LeaseSlot,
    PoolLoad,
    PoolState,
    Reason,
    Report,
    Source,
)
from hostler.governor.gates import ProjectDemand, shares, turn_at
from hostler.sim.agents import Agent, Task
from hostler.sim.policies import Contestant
from hostler.sim.provider import Provider
from hostler.sim.scenario import Scenario

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
ROTATION_SECONDS = 60
# A provider names no moment that is nearer than this.
SOONEST_AGAIN = 1.0


def moment(seconds: float) -> datetime:
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
        self.overlay = PoolState()
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
        self._knobs = contestant.knobs(scenario)
        self._control = contestant.control(
            lambda at: provider.nominal((at - BEGIN).total_seconds())
        )

    @property
    def cap(self) -> int:
        """The cap in force."""
        return self._control.cap(self._knobs, self.overlay)

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
        self.overlay = self._control.passed(self._knobs, self.overlay, moment(now), load)

    def shut(self, now: float) -> ClosedGate | None:
        """The gate that is closed for everybody."""
        return self._control.shut(self._knobs, self.overlay, moment(now))

    def next_project(self, now: float) -> str | None:
        """Whose turn it is, if there is a place."""
        if self.running >= self.cap:
            return None
        dealt = shares(self.cap, self._demand(), turn_at(moment(now).timestamp(), ROTATION_SECONDS))
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
        self.overlay = self._control.admitted(
            self._knobs, self.overlay, moment(now), agent.slot, self._roll.random()
        )
        return agent

    def answered(self, agent: Agent) -> None:
        """A healthy response; the policy hears of it at the next look."""
        self._answers[agent.slot == self.overlay.probe] += 1
        self._last = agent.slot

    def limited(self, now: float, agent: Agent, *, deadly: bool) -> None:
        """A refusal, if anybody hears of it."""
        if not deadly and not self._tells:
            return
        again = self.provider.again_in(now)
        at = moment(now + max(SOONEST_AGAIN, again)) if self._headers and again else None
        reason = Reason.OVERLOAD if again is None else Reason.BURST
        source = Source.DEATH if deadly else Source.LIVE
        report = Report(agent.slot, source, reason, at)
        self.overlay = self._control.limited(self._knobs, self.overlay, moment(now), report)

    def end(self, now: float, agent: Agent) -> None:
        """A lease is given back."""
        self._tell(now)
        self._live.discard(agent.slot)
        self.active[agent.task.project] -= 1
        self.overlay = self._control.released(
            self._knobs, self.overlay, moment(now), agent.slot, reached=agent.done > 0
        )

    def _demand(self) -> list[ProjectDemand]:
        """Who takes part in the shares: whoever wants more. Strict ones do not ask how much."""
        eager = [wish for wish in self.wishes() if wish.more]
        return [ProjectDemand(wish.project) for wish in eager] if self._strict else eager

    def _tell(self, now: float) -> None:
        """Answers are told together, but those of the probe: no policy asks whose the rest are."""
        for of_probe, requests in self._answers.items():
            if requests:
                slot = self.overlay.probe if of_probe and self.overlay.probe else self._last
                self.overlay = self._control.answered(
                    self._knobs, self.overlay, moment(now), slot, requests
                )
        if self._headers and any(self._answers.values()):
            word = Announced(self._last, self.provider.used(now))
            self.overlay = self._control.announced(self._knobs, self.overlay, moment(now), word)
        self._answers = {True: 0, False: 0}
