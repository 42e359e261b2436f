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

# Of a closing that only an operator ends: no clock of ours comes so far.
UNTIL_RESUMED = datetime(9999, 1, 1, tzinfo=UTC)
# How many turns ahead an opening is looked for. Nobody plans by what comes later.
TURNS_AHEAD = 100


class Gate(StrEnum):
    """What may stand before a start, in this order."""

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
    """Who else meets the same closed gate."""

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
    """One agent that wants to start. `lease` names its place: a run's bears the run's name.

    `width` is the most that its project may run at once, over all pools; 0: no limit.
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
    """A parked pool, as far as it may be believed."""

    until: datetime
    since: datetime | None
    why: str

    @property
    def ends_at(self) -> datetime | None:
        """When it ends by itself; None: it does not."""
        return None if self.until == UNTIL_RESUMED else self.until

    @property
    def in_words(self) -> str:
        """Until when."""
        if self.until == UNTIL_RESUMED:
            return "until an operator opens it"
        return f"until {self.until:%Y-%m-%d %H:%M:%S} UTC"


@dataclass(frozen=True, slots=True)
class GateInputs:
    """All that the gates look at, for one pool and one project that asks.

    `wishes` holds the projects that take part, the asking one included; `said`: the process that
    asks has said before that it wants this. `free_mb` is None where nobody can tell, `learned`
    where the cap is the operator's alone.
    """

    now: datetime
    pool: str
    in_pool: int
    own_in_pool: int
    own: int
    on_machine: int
    free_mb: int | None
    wishes: tuple[ProjectDemand, ...]
    parked: ParkedPool | None = None
    said: bool = False
    learned: AdaptivePool | None = None


@dataclass(frozen=True, slots=True)
class LeaseGranted:
    """There is a lease now, under this name."""

    lease: str
    pool: str


@dataclass(frozen=True, slots=True)
class LeaseDenied:
    """A closed gate: what it counted and allows, since when, when it may open, in words too."""

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
        """Who else meets the same closed gate."""
        return SHARED_BY[self.gate]

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
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


def decide(ask: LeaseRequest, scene: GateInputs, policy: Policy) -> LeaseDenied | None:
    """The first closed gate; None: it may start."""
    return next((no for gate in _GATES if (no := gate(ask, scene, policy))), None)


def cap_of(scene: GateInputs, policy: Policy) -> int:
    """The cap in force: what was learned of the pool, or the operator's word."""
    return scene.learned.cap if scene.learned else policy.cap(scene.pool)


def share_of(scene: GateInputs, policy: Policy, project: str) -> int:
    """A project's fair share of the pool now."""
    return _shares(scene, policy, _turn(scene, policy))[project]


def too_wide(ask: LeaseRequest, scene: GateInputs, policy: Policy) -> str | None:
    """What to tell the operator of a project whose width is more than its share.

    Its share is what it would get if it wanted all that it can: a quiet project is not too wide.
    """
    eager = (replace(w, more=None) if w.project == ask.project else w for w in scene.wishes)
    share = share_of(replace(scene, wishes=tuple(eager)), policy, ask.project)
    if ask.width <= share:
        return None
    cap, projects = cap_of(scene, policy), len(scene.wishes)
    return (
        f"Project {ask.project} has width {ask.width}, and its fair share of pool {scene.pool} is "
        f"{share} (cap {cap} across {projects} project{'s' if projects != 1 else ''}): "
        "it gets the rest only while others leave it."
    )


def _parked(ask: LeaseRequest, scene: GateInputs, _policy: Policy) -> LeaseDenied | None:
    closed = scene.parked
    if closed is None or closed.until <= scene.now:
        return None
    why = f": {closed.why.rstrip('.')}" if closed.why else ""
    return LeaseDenied(
        Gate.PARKED,
        scene.pool,
        ask.project,
        f"Pool {scene.pool} is closed {closed.in_words}{why}.",
        f"Wait, or open it with `hostler governor resume --provider {scene.pool}`.",
        since=closed.since,
        opens_at=closed.ends_at,
    )


def _breaker(ask: LeaseRequest, scene: GateInputs, _policy: Policy) -> LeaseDenied | None:
    remedy = f"Wait, or forget it with `hostler governor reset --provider {scene.pool}`."
    return _shut(Gate.BREAKER, ask, scene, remedy)


def _limit(ask: LeaseRequest, scene: GateInputs, _policy: Policy) -> LeaseDenied | None:
    return _shut(Gate.LIMIT, ask, scene, "Wait: its provider asked for it.")


def _spacing(ask: LeaseRequest, scene: GateInputs, _policy: Policy) -> LeaseDenied | None:
    return _shut(Gate.SPACING, ask, scene, "Wait a moment.")


def _shut(gate: Gate, ask: LeaseRequest, scene: GateInputs, remedy: str) -> LeaseDenied | None:
    """What the pool's policy says, if it closes this gate."""
    shut = scene.learned.shut if scene.learned else None
    if shut is None or shut.gate != gate:
        return None
    what = f"Pool {scene.pool} is held back: {shut.what}."
    return LeaseDenied(
        gate, scene.pool, ask.project, what, remedy, since=shut.since, opens_at=shut.until
    )


def _more(scene: GateInputs) -> str:
    """What to do about a full pool."""
    given = f"hostler governor set --provider {scene.pool} --max-global N"
    if scene.learned is None:
        return f"Wait until one ends, or raise the cap with `{given}`."
    most = scene.learned.knobs.hard_max
    return f"Wait: the cap follows what the provider takes, up to {most} (`{given} --adaptive`)."


def _machine(ask: LeaseRequest, scene: GateInputs, policy: Policy) -> LeaseDenied | None:
    ceiling = policy.machine_max_agents
    if ceiling <= 0 or scene.on_machine < ceiling:
        return None
    return LeaseDenied(
        Gate.MACHINE,
        scene.pool,
        ask.project,
        f"{scene.on_machine} of {ceiling} agents run on this machine.",
        "Wait until one ends, or raise `[runtime] machine_max_agents`.",
        scene.on_machine,
        ceiling,
    )


def _memory(ask: LeaseRequest, scene: GateInputs, policy: Policy) -> LeaseDenied | None:
    if scene.free_mb is None or scene.free_mb >= policy.memory_floor_mb:
        return None
    return LeaseDenied(
        Gate.MEMORY,
        scene.pool,
        ask.project,
        f"{scene.free_mb:,} MB of memory are free, less than the {policy.memory_floor_mb:,} MB "
        "that are kept.",
        "End what uses memory, or lower `[runtime] memory_floor_mb`.",
        scene.free_mb,
        policy.memory_floor_mb,
    )


def _cap(ask: LeaseRequest, scene: GateInputs, policy: Policy) -> LeaseDenied | None:
    cap = cap_of(scene, policy)
    if scene.in_pool < cap:
        return None
    return LeaseDenied(
        Gate.CAP,
        scene.pool,
        ask.project,
        f"{scene.in_pool} of {cap} agents of pool {scene.pool} are running.",
        _more(scene),
        scene.in_pool,
        cap,
    )


def _width(ask: LeaseRequest, scene: GateInputs, _policy: Policy) -> LeaseDenied | None:
    if ask.width <= 0 or scene.own < ask.width:
        return None
    return LeaseDenied(
        Gate.WIDTH,
        scene.pool,
        ask.project,
        f"Project {ask.project} runs {scene.own} of its {ask.width} agents.",
        "Wait until one of them ends, or raise `max_concurrent_slots` in its `[repo]` table "
        "(a project without one has a fixed width).",
        scene.own,
        ask.width,
    )


def _share(ask: LeaseRequest, scene: GateInputs, policy: Policy) -> LeaseDenied | None:
    share = share_of(scene, policy, ask.project)
    if scene.own_in_pool < share:
        return None
    cap, projects = cap_of(scene, policy), len(scene.wishes)
    return LeaseDenied(
        Gate.SHARE,
        scene.pool,
        ask.project,
        f"Project {ask.project} runs {scene.own_in_pool} agents, and its fair share of pool "
        f"{scene.pool} is {share} (cap {cap} across {projects} projects).",
        "Wait for its turn, or give it more `weight`.",
        scene.own_in_pool,
        share,
        opens_at=_next_turn(scene, policy, ask.project),
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


def _turn(scene: GateInputs, policy: Policy) -> int:
    return turn_at(scene.now.timestamp(), policy.rotation_window_seconds)


def _shares(scene: GateInputs, policy: Policy, turn: int) -> dict[str, int]:
    return shares(cap_of(scene, policy), scene.wishes, turn)


def _next_turn(scene: GateInputs, policy: Policy, project: str) -> datetime | None:
    """When the rotation alone gives a project another slot; None: it does not, or not soon."""
    turn = _turn(scene, policy)
    places = len(circle_of(tuple(max(1, wish.weight) for wish in scene.wishes)))
    for later in range(turn + 1, turn + min(places, TURNS_AHEAD) + 1):
        if _shares(scene, policy, later)[project] > scene.own_in_pool:
            seconds = later * policy.rotation_window_seconds
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    return None


# As much as anybody could want: a number, so that it can be compared and summed.
UNLIMITED = 1_000_000


@dataclass(frozen=True, slots=True)
class ProjectDemand:
    """One project in a pool: what it runs there, and how many more it wants; None: unknown."""

    project: str
    active: int = 0
    more: int | None = None
    weight: int = 1

    @property
    def total(self) -> int:
        """All that it wants to run at once."""
        return UNLIMITED if self.more is None else self.active + self.more


def shares(cap: int, wishes: Iterable[ProjectDemand], turn: int) -> dict[str, int]:
    """Deal the slots out around the circle, one each, to whoever wants another.

    The names of the projects must differ.
    """
    ordered = sorted(wishes, key=lambda wish: wish.project)
    left = {wish.project: max(0, wish.total) for wish in ordered}
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
    """Which turn a moment belongs to, by its seconds since 1970."""
    return int(seconds // window_seconds)


def _started_at(turn: int, wishes: Sequence[ProjectDemand]) -> list[str]:
    """The places of the circle, from the one where this turn's dealing starts."""
    places = circle_of(tuple(max(1, wish.weight) for wish in wishes))
    start = -turn % len(places) if places else 0
    return [wishes[index].project for index in (*places[start:], *places[:start])]


def _whole_rounds(cap: int, circle: Sequence[str], left: dict[str, int]) -> int:
    """How often the circle can be gone around at once with nobody getting too much.

    Dealing one by one would come to the same, in as many steps as there are slots.
    """
    places = {project: circle.count(project) for project in set(circle)}
    enough = min(left[project] // number for project, number in places.items())
    return min(cap // len(circle), enough)


@lru_cache(maxsize=64)
def circle_of(weights: tuple[int, ...]) -> tuple[int, ...]:
    """The places of a circle by index: as many for each as its weight, spread evenly.

    With equal weights it is everybody once, in order.
    """
    common = gcd(*weights) or 1
    places = [
        ((2 * number + 1) / (2 * (weight // common)), index)
        for index, weight in enumerate(weights)
        for number in range(weight // common)
    ]
    return tuple(index for _, index in sorted(places))
