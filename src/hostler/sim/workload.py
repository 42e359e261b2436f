"""The work and the agents that do it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from hostler.backoff import backoff
from hostler.governor.adaptive.model import LeaseSlot
from hostler.sim.scenario import Scenario

# Bursts come early enough for their work to be worth something.
LAST_ARRIVAL = 0.95


@dataclass(frozen=True, slots=True)
class Piece:
    """One task: how many answers it takes, whose provider gives them, and how slowly it asks.

    `pace` is how long its agent takes for a request, as a part of what is usual.
    """

    name: str
    requests: int
    pool: int
    pace: float = 1.0


@dataclass(frozen=True, slots=True)
class Burst:
    """Work that arrives for one project at once, to be done stage by stage."""

    at: float
    project: str
    stages: tuple[tuple[Piece, ...], ...]


def project_names(scenario: Scenario) -> list[str]:
    """The projects, in the order of their names."""
    return [f"project-{number:02}" for number in range(1, scenario.projects + 1)]


def bursts(scenario: Scenario, seed: int) -> list[Burst]:
    """All bursts of a run, by arrival. Nothing in it depends on how the work goes."""
    roll = Random(f"{seed}:work")  # noqa: S311
    found = [_paced(scenario, burst, seed) for burst in _bursts(scenario, roll)]
    return sorted(found, key=lambda burst: (burst.at, burst.project))


def _paced(scenario: Scenario, burst: Burst, seed: int) -> Burst:
    """The same work, with the pace of its agents. Rolled apart: it is work as without paces."""
    if not scenario.pace_sigma and not scenario.project_pace_sigma:
        return burst
    ours = _pace(scenario.project_pace_sigma, f"{seed}:pace:{burst.project}")
    return replace(
        burst,
        stages=tuple(
            tuple(
                replace(one, pace=ours * _pace(scenario.pace_sigma, f"{seed}:pace:{one.name}"))
                for one in stage
            )
            for stage in burst.stages
        ),
    )


def _pace(sigma: float, of: str) -> float:
    """Lognormal, with a mean of 1: slow agents stay longer, and weigh as much more."""
    roll = Random(of)  # noqa: S311
    return roll.lognormvariate(-(sigma**2) / 2, sigma) if sigma else 1.0


def _bursts(scenario: Scenario, roll: Random) -> Iterator[Burst]:
    names = project_names(scenario)
    left = scenario.offered * _capacity(scenario)
    for number in range(1_000_000):
        if left <= 0:
            return
        project = names[number % len(names)]
        stages = tuple(
            tuple(
                _piece(scenario, roll, f"{number}.{stage}.{place}")
                for place in range(roll.choice(scenario.widths))
            )
            for stage in range(roll.randint(*scenario.stages))
        )
        left -= sum(piece.requests for stage in stages for piece in stage)
        # Everybody has something to do from the start; the rest arrives over the day.
        begins = 0.0 if number < len(names) else roll.random() * LAST_ARRIVAL * scenario.seconds
        yield Burst(begins, project, stages)


def _piece(scenario: Scenario, roll: Random, name: str) -> Piece:
    requests = roll.lognormvariate(math.log(scenario.work_median), scenario.work_sigma)
    pool = roll.randrange(len(scenario.ceilings)) if len(scenario.ceilings) > 1 else 0
    return Piece(name, max(1, round(requests)), pool)


def _capacity(scenario: Scenario) -> float:
    """How many requests all ceilings could serve."""
    minutes = range(math.ceil(scenario.seconds / 60))
    agents = sum(
        scenario.ceiling_at(pool, minute * 60)
        for pool in range(len(scenario.ceilings))
        for minute in minutes
    )
    return agents * 60 / scenario.request_seconds


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


def after_answer(agent: Agent) -> bool:
    """After an answer: whether the work is over."""
    agent.misses = 0
    agent.done += 1
    agent.task.left -= 1
    return agent.task.left <= 0


def after_refusal(agent: Agent, scenario: Scenario) -> bool:
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


def refusal_delay(scenario: Scenario, misses: int, roll: Random) -> float:
    """How long an agent waits after so many refusals in a row."""
    first, longest = scenario.backoff_first_seconds, scenario.backoff_most_seconds
    return backoff(misses - 1, first, longest) * _around(scenario.backoff_jitter, roll)


def _around(part: float, roll: Random) -> float:
    return 1 + part * (2 * roll.random() - 1)
