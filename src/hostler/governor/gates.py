"""Decide whether one more agent may start. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from math import gcd
from typing import Any

from hostler.governor.adaptive.controller import AdaptivePool
from hostler.governor.policy import Policy
from hostler.model import format_timestamp

# Until when a pool is parked that only an operator resumes. No clock reaches it.
UNTIL_RESUMED = datetime(9999, 1, 1, tzinfo=UTC)
# How many rotation turns ahead to look for the next share.
MAX_TURNS_AHEAD = 100


class Gate(StrEnum):
    """What may deny a start, in the order of evaluation."""

    PARKED = "parked"
    BREAKER = "breaker"
    LIMIT = "limit"
    MACHINE = "machine"
    MEMORY = "memory"
    CAP = "cap"
    WIDTH = "width"
    SHARE = "share"
    SPACING = "spacing"


class SharedBy(StrEnum):
    """Which other requests are denied by the same gate."""

    MACHINE = "machine"
    POOL = "pool"
    PROJECT = "project"


SHARED_BY = {
    Gate.PARKED: SharedBy.POOL,
    Gate.BREAKER: SharedBy.POOL,
    Gate.LIMIT: SharedBy.POOL,
    Gate.MACHINE: SharedBy.MACHINE,
    Gate.MEMORY: SharedBy.MACHINE,
    Gate.CAP: SharedBy.POOL,
    Gate.WIDTH: SharedBy.PROJECT,
    Gate.SHARE: SharedBy.PROJECT,
    Gate.SPACING: SharedBy.POOL,
}


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """A request for one lease. `lease` is its name: a run's lease has the run's name.

    `width` is how many agents the project may run at once in all pools; 0 means no limit.
    """

    lease: str
    project: str
    pool: str = ""
    task_id: str = ""
    program: str = ""
    model: str = ""
    width: int = 0
    weight: int = 1


@dataclass(frozen=True, slots=True)
class ParkedPool:
    """A parked pool. Times are sanitised."""

    until: datetime
    since: datetime | None
    why: str

    @property
    def ends_at(self) -> datetime | None:
        """Return when the pool reopens by itself, or None if it does not."""
        return None if self.until == UNTIL_RESUMED else self.until

    @property
    def text(self) -> str:
        """Return until when the pool is parked, for display."""
        if self.until == UNTIL_RESUMED:
            return "until an operator resumes it"
        return f"until {self.until:%Y-%m-%d %H:%M:%S} UTC"


@dataclass(frozen=True, slots=True)
class GateInputs:
    """Everything the gates read, for one pool and one project.

    `demands` holds the projects that take part, the requesting one included. `demand_published`:
    this process has published demand for it. `free_mb` is None if unknown, `learned` if the cap is
    fixed.
    """

    now: datetime
    pool: str
    in_pool: int
    own_in_pool: int
    own: int
    on_machine: int
    free_mb: int | None
    demands: tuple[ProjectDemand, ...]
    parked: ParkedPool | None = None
    demand_published: bool = False
    learned: AdaptivePool | None = None


@dataclass(frozen=True, slots=True)
class LeaseGranted:
    """A lease exists now, under this name."""

    lease: str
    pool: str


@dataclass(frozen=True, slots=True)
class LeaseDenied:
    """Which gate is closed: what it counted and allows, when it may open, and what to do."""

    gate: Gate
    pool: str
    project: str
    what: str
    remedy: str
    found: int = 0
    allowed: int = 0
    since: datetime | None = None
    opens_at: datetime | None = None

    @property
    def shared_by(self) -> SharedBy:
        """Return which other requests are denied by the same gate."""
        return SHARED_BY[self.gate]

    def as_json(self) -> dict[str, Any]:
        """Return the denial for JSON output."""
        return {
            "gate": self.gate.value,
            "shared_by": self.shared_by.value,
            "pool": self.pool,
            "project": self.project,
            "what": self.what,
            "remedy": self.remedy,
            "found": self.found,
            "allowed": self.allowed,
            "since": format_timestamp(self.since) if self.since else None,
            "opens_at": format_timestamp(self.opens_at) if self.opens_at else None,
        }


def decide(request: LeaseRequest, inputs: GateInputs, policy: Policy) -> LeaseDenied | None:
    """Return the first closed gate, or None if the agent may start."""
    return next((denied for gate in _GATES if (denied := gate(request, inputs, policy))), None)


def cap_of(inputs: GateInputs, policy: Policy) -> int:
    """Return the cap in force: the adaptive one, or the operator's."""
    return inputs.learned.cap if inputs.learned else policy.cap(inputs.pool)


def share_of(inputs: GateInputs, policy: Policy, project: str) -> int:
    """Return a project's fair share of the pool now."""
    return _shares(inputs, policy, _turn(inputs, policy))[project]


def share_warning(request: LeaseRequest, inputs: GateInputs, policy: Policy) -> str | None:
    """Return a warning if a project's width exceeds its fair share, else None.

    The share is computed as if the project wanted all it can get, so an idle project is not warned.
    """
    demands = (replace(w, more=None) if w.project == request.project else w for w in inputs.demands)
    share = share_of(replace(inputs, demands=tuple(demands)), policy, request.project)
    if request.width <= share:
        return None
    cap, projects = cap_of(inputs, policy), len(inputs.demands)
    return (
        f"Project {request.project} has width {request.width}, and its fair share of pool "
        f"{inputs.pool} is {share} (cap {cap} across {projects} "
        f"project{'s' if projects != 1 else ''}): "
        "it gets the rest only while other projects do not use it."
    )


def _parked(request: LeaseRequest, inputs: GateInputs, _policy: Policy) -> LeaseDenied | None:
    closed = inputs.parked
    if closed is None or closed.until <= inputs.now:
        return None
    why = f": {closed.why.rstrip('.')}" if closed.why else ""
    return LeaseDenied(
        Gate.PARKED,
        inputs.pool,
        request.project,
        f"Pool {inputs.pool} is parked {closed.text}{why}.",
        f"Wait, or resume it with `hostler governor resume --provider {inputs.pool}`.",
        since=closed.since,
        opens_at=closed.ends_at,
    )


def _breaker(request: LeaseRequest, inputs: GateInputs, _policy: Policy) -> LeaseDenied | None:
    remedy = f"Wait, or clear it with `hostler governor reset --provider {inputs.pool}`."
    return _pool_gate(Gate.BREAKER, request, inputs, remedy)


def _limit(request: LeaseRequest, inputs: GateInputs, _policy: Policy) -> LeaseDenied | None:
    return _pool_gate(Gate.LIMIT, request, inputs, "Wait: the provider asked for it.")


def _spacing(request: LeaseRequest, inputs: GateInputs, _policy: Policy) -> LeaseDenied | None:
    return _pool_gate(Gate.SPACING, request, inputs, "Wait a few seconds.")


def _pool_gate(
    gate: Gate, request: LeaseRequest, inputs: GateInputs, remedy: str
) -> LeaseDenied | None:
    """Return the denial if the pool's adaptive policy closes this gate."""
    closed = inputs.learned.closed_gate if inputs.learned else None
    if closed is None or closed.gate != gate:
        return None
    what = f"Starts in pool {inputs.pool} are on hold: {closed.what}."
    return LeaseDenied(
        gate, inputs.pool, request.project, what, remedy, since=closed.since, opens_at=closed.until
    )


def _full_pool_remedy(inputs: GateInputs) -> str:
    """Return what to do about a full pool."""
    given = f"hostler governor set --provider {inputs.pool} --max-global N"
    if inputs.learned is None:
        return f"Wait until an agent ends, or raise the cap with `{given}`."
    hard_max = inputs.learned.config.hard_max
    return f"Wait: the cap adapts to the provider, up to {hard_max} (`{given} --adaptive`)."


def _machine(request: LeaseRequest, inputs: GateInputs, policy: Policy) -> LeaseDenied | None:
    ceiling = policy.machine_max_agents
    if ceiling <= 0 or inputs.on_machine < ceiling:
        return None
    return LeaseDenied(
        Gate.MACHINE,
        inputs.pool,
        request.project,
        f"{inputs.on_machine} of {ceiling} agents run on this machine.",
        "Wait until an agent ends, or raise `[runtime] machine_max_agents`.",
        inputs.on_machine,
        ceiling,
    )


def _memory(request: LeaseRequest, inputs: GateInputs, policy: Policy) -> LeaseDenied | None:
    if inputs.free_mb is None or inputs.free_mb >= policy.memory_floor_mb:
        return None
    return LeaseDenied(
        Gate.MEMORY,
        inputs.pool,
        request.project,
        f"{inputs.free_mb:,} MB of memory are free; {policy.memory_floor_mb:,} MB must stay free.",
        "Free memory, or lower `[runtime] memory_floor_mb`.",
        inputs.free_mb,
        policy.memory_floor_mb,
    )


def _cap(request: LeaseRequest, inputs: GateInputs, policy: Policy) -> LeaseDenied | None:
    cap = cap_of(inputs, policy)
    if inputs.in_pool < cap:
        return None
    return LeaseDenied(
        Gate.CAP,
        inputs.pool,
        request.project,
        f"{inputs.in_pool} of {cap} agents of pool {inputs.pool} are running.",
        _full_pool_remedy(inputs),
        inputs.in_pool,
        cap,
    )


def _width(request: LeaseRequest, inputs: GateInputs, _policy: Policy) -> LeaseDenied | None:
    if request.width <= 0 or inputs.own < request.width:
        return None
    return LeaseDenied(
        Gate.WIDTH,
        inputs.pool,
        request.project,
        f"Project {request.project} runs {inputs.own} of its {request.width} agents.",
        "Wait until one of them ends, or raise `max_concurrent_slots` in its `[repo]` table "
        "(a project without one has a fixed width).",
        inputs.own,
        request.width,
    )


def _share(request: LeaseRequest, inputs: GateInputs, policy: Policy) -> LeaseDenied | None:
    share = share_of(inputs, policy, request.project)
    if inputs.own_in_pool < share:
        return None
    cap, projects = cap_of(inputs, policy), len(inputs.demands)
    return LeaseDenied(
        Gate.SHARE,
        inputs.pool,
        request.project,
        f"Project {request.project} runs {inputs.own_in_pool} agents, and its fair share of pool "
        f"{inputs.pool} is {share} (cap {cap} across {projects} projects).",
        "Wait for its turn, or give it more `weight`.",
        inputs.own_in_pool,
        share,
        opens_at=_next_turn(inputs, policy, request.project),
    )


_GATES: tuple[Callable[[LeaseRequest, GateInputs, Policy], LeaseDenied | None], ...] = (
    _parked,
    _breaker,
    _limit,
    _machine,
    _memory,
    _cap,
    _width,
    _share,
    _spacing,
)


def _turn(inputs: GateInputs, policy: Policy) -> int:
    return turn_at(inputs.now.timestamp(), policy.rotation_window_seconds)


def _shares(inputs: GateInputs, policy: Policy, turn: int) -> dict[str, int]:
    return shares(cap_of(inputs, policy), inputs.demands, turn)


def _next_turn(inputs: GateInputs, policy: Policy, project: str) -> datetime | None:
    """Return when the rotation gives the project another slot, or None if not soon."""
    turn = _turn(inputs, policy)
    places = len(circle_of(tuple(max(1, demand.weight) for demand in inputs.demands)))
    for later in range(turn + 1, turn + min(places, MAX_TURNS_AHEAD) + 1):
        if _shares(inputs, policy, later)[project] > inputs.own_in_pool:
            seconds = later * policy.rotation_window_seconds
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    return None


# Unlimited demand, as a number that can be compared and summed.
UNLIMITED = 1_000_000


@dataclass(frozen=True, slots=True)
class ProjectDemand:
    """One project in a pool: what it runs there, and how many more it wants (None: unknown)."""

    project: str
    active: int = 0
    more: int | None = None
    weight: int = 1

    @property
    def total(self) -> int:
        """Return how many agents it wants to run at once."""
        return UNLIMITED if self.more is None else self.active + self.more


def shares(cap: int, demands: Iterable[ProjectDemand], turn: int) -> dict[str, int]:
    """Deal the slots out around the circle, one each, to projects that want another.

    Project names must be unique.
    """
    ordered = sorted(demands, key=lambda demand: demand.project)
    left = {demand.project: max(0, demand.total) for demand in ordered}
    dealt = dict.fromkeys(left, 0)
    circle = _started_at(turn, ordered)
    while cap > 0 and (circle := [project for project in circle if left[project] > 0]):
        rounds = _whole_rounds(cap, circle, left)
        for project in circle:
            given = min(left[project], rounds or 1, cap)
            dealt[project] += given
            left[project] -= given
            cap -= given
    return dealt


def turn_at(seconds: float, window_seconds: int) -> int:
    """Return the number of the rotation turn at a Unix time."""
    return int(seconds // window_seconds)


def _started_at(turn: int, demands: Sequence[ProjectDemand]) -> list[str]:
    """Return the places of the circle, from the one where this turn's dealing starts."""
    places = circle_of(tuple(max(1, demand.weight) for demand in demands))
    start = -turn % len(places) if places else 0
    return [demands[index].project for index in (*places[start:], *places[:start])]


def _whole_rounds(cap: int, circle: Sequence[str], left: dict[str, int]) -> int:
    """Return how many whole rounds can be dealt at once.

    Dealing one by one gives the same result in as many steps as there are slots.
    """
    places = {project: circle.count(project) for project in set(circle)}
    enough = min(left[project] // number for project, number in places.items())
    return min(cap // len(circle), enough)


@lru_cache(maxsize=64)
def circle_of(weights: tuple[int, ...]) -> tuple[int, ...]:
    """Return the places of the circle by index: one per unit of weight, spread evenly.

    With equal weights each project has one place, in order.
    """
    common = gcd(*weights) or 1
    places = [
        ((2 * number + 1) / (2 * (weight // common)), index)
        for index, weight in enumerate(weights)
        for number in range(weight // common)
    ]
    return tuple(index for _, index in sorted(places))
