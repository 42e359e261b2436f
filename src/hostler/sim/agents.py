"""The agents: tasks under way, and what each does when it is served or refused."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from hostler.governor.adaptive.model import LeaseSlot
from hostler.sim.scenario import Scenario
from hostler.sim.workload import Piece


@dataclass(slots=True)
class Task:
    """A piece of work, how much of it is left, and how often its agent died."""

    piece: Piece
    project: str
    # Which part of which burst it belongs to: the next one waits for it.
    stage: tuple[int, int]
    left: int
    deaths: int = 0


@dataclass(slots=True)
class Agent:
    """One process on a task."""

    task: Task
    slot: LeaseSlot
    done: int = 0
    misses: int = 0


def served(agent: Agent) -> bool:
    """After an answer: whether the work is over."""
    agent.misses = 0
    agent.done += 1
    agent.task.left -= 1
    return agent.task.left <= 0


def refused(agent: Agent, scenario: Scenario) -> bool:
    """After a refusal: whether the agent dies of it, and a part of its work with it."""
    agent.misses += 1
    if agent.misses < scenario.misses_that_kill:
        return False
    agent.task.left += round(agent.done * scenario.lost_part)
    agent.task.deaths += 1
    return True


def next_request(scenario: Scenario, agent: Agent, roll: Random) -> float:
    """How long an agent thinks before it asks again."""
    return usual_seconds(scenario, agent) * _around(scenario.request_jitter, roll)


def usual_seconds(scenario: Scenario, agent: Agent) -> float:
    """How long an agent takes for a request that is not refused, on average."""
    return scenario.request_seconds * agent.task.piece.pace


def backoff(scenario: Scenario, misses: int, roll: Random) -> float:
    """How long an agent waits after so many refusals in a row."""
    wait = scenario.backoff_first_seconds * 2.0 ** (misses - 1)
    return min(wait, scenario.backoff_most_seconds) * _around(scenario.backoff_jitter, roll)


def _around(part: float, roll: Random) -> float:
    return 1 + part * (2 * roll.random() - 1)
