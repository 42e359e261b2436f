"""Every parameter of the model in one place: the main scenario, those held back, and files."""

from __future__ import annotations

import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hostler.errors import HostlerError

# An hour of the run, and how many agents the provider takes from then on.
Point = tuple[Annotated[float, Field(ge=0)], Annotated[float, Field(ge=0, le=10_000)]]
Ceiling = Annotated[tuple[Point, ...], Field(min_length=1)]

# No wait is longer than a day: what is finite alone may come to something endless.
Seconds = Annotated[float, Field(le=86_400)]

# The one that policies are tuned on: a fall, two rises, and ten minutes of nothing.
MAIN_CEILING: tuple[Point, ...] = ((0, 24), (3, 8), (5, 24), (8, 40), (10, 0), (10 + 1 / 6, 24))


class Scenario(BaseModel):
    """What a simulated day is made of. Ceilings are in agents that are never refused."""

    # A number without an end would make others that are none.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: str = "main"
    hours: float = Field(default=12, gt=0, le=240)
    # One ceiling per pool; between its points it stands still, or drifts in a straight line.
    ceilings: tuple[Ceiling, ...] = Field(default=(MAIN_CEILING,), min_length=1, max_length=16)
    drift: bool = False
    # The ceiling of each minute is off by so much (a standard deviation).
    noise: float = Field(default=0.10, ge=0, le=1)
    # The provider: a bucket that holds what it would serve in so long.
    bucket_seconds: Seconds = Field(default=30, gt=0)
    # The agent: a request every so often, give or take this part of it.
    request_seconds: Seconds = Field(default=8, gt=0)
    request_jitter: float = Field(default=0.5, ge=0, le=1)
    # How far agents differ in that, each for itself and each project as a whole: lognormal, with a
    # mean of 1, so that as many agents ask as often as before.
    pace_sigma: float = Field(default=0, ge=0, le=2)
    project_pace_sigma: float = Field(default=0, ge=0, le=2)
    # Its work: lognormal.
    work_median: float = Field(default=90, ge=1, le=1_000_000)
    work_sigma: float = Field(default=0.6, ge=0, le=3)
    # What it does when refused: it waits, twice as long each time, and dies of so many in a row.
    backoff_first_seconds: Seconds = Field(default=1, gt=0)
    backoff_most_seconds: Seconds = Field(default=60, gt=0)
    backoff_jitter: float = Field(default=0.5, ge=0, le=1)
    # Whether it tells of refusals before it dies of them; some programs do not.
    tells: bool = True
    misses_that_kill: int = Field(default=10, ge=1)
    # What a death costs: this part of the work, and a wait that grows with each death of the task.
    lost_part: float = Field(default=0.5, ge=0, le=1)
    requeue_seconds: Seconds = Field(default=60, ge=0)
    # Projects get bursts of work, in stages: the next begins when all of the last is done.
    projects: int = Field(default=6, ge=1, le=100)
    widths: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(1, 2, 3, 4, 6, 8, 12, 16, 24), min_length=1
    )
    stages: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] = (2, 5)
    # All the work there is, as a part of what the ceilings could do.
    offered: float = Field(default=1.3, gt=0, le=100)
    # What the operator said, for the policies that learn.
    max_global: int = Field(default=24, ge=1)
    hard_max: int = Field(default=48, ge=1)
    # How often admission looks without another reason, and hears of answers.
    look_seconds: float = Field(default=5, gt=0, le=60)
    # From which hour on the recovery is measured, if a ceiling rises then.
    recovery_from: float | None = Field(default=5, ge=0)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        for ceiling in self.ceilings:
            hours = [hour for hour, _ in ceiling]
            if hours[0] != 0 or any(b <= a for a, b in pairwise(hours)):
                raise ValueError("the hours of a ceiling begin with 0 and grow")
        if self.stages[0] > self.stages[1]:
            raise ValueError("the fewest stages are more than the most")
        return self

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return self.hours * 3600

    @property
    def rise(self) -> float | None:
        """The second from which on the recovery is measured; None where nothing rises then."""
        if self.recovery_from is None or self.recovery_from >= self.hours:
            return None
        at = self.recovery_from * 3600
        rises = any(self._rises(pool, at) for pool in range(len(self.ceilings)))
        return at if rises else None

    def _rises(self, pool: int, at: float) -> bool:
        # A second each way: the hours of a ceiling are no round seconds.
        before = self.ceiling_at(pool, at - 1) if at >= 1 else 0.0
        return self.ceiling_at(pool, at + 1) > before

    def ceiling_at(self, pool: int, seconds: float) -> float:
        """How many agents a pool takes at a moment, without the noise."""
        hour = seconds / 3600
        points = self.ceilings[pool]
        last = max(index for index, (begin, _) in enumerate(points) if begin <= hour)
        begin, height = points[last]
        if not self.drift or last + 1 == len(points):
            return height
        end, next_height = points[last + 1]
        return height + (next_height - height) * (hour - begin) / (end - begin)


MAIN = Scenario()

# Not used while constants were chosen. Exceptions: docs/internals/sim.md.
HELD_OUT = {
    "two_pools": Scenario(
        name="two_pools",
        ceilings=(MAIN_CEILING, ((0, 10), (4, 20), (7, 5), (9, 16))),
    ),
    "two_projects": Scenario(name="two_projects", projects=2),
    "twelve_projects": Scenario(name="twelve_projects", projects=12),
    "low_ceiling": Scenario(
        name="low_ceiling",
        ceilings=(((0, 3),),),
        max_global=8,
        hard_max=16,
        recovery_from=None,
    ),
    "slow_drift": Scenario(
        name="slow_drift",
        ceilings=(((0, 12), (4, 36), (8, 10), (12, 30)),),
        drift=True,
        recovery_from=None,
    ),
    "mixed_pace": Scenario(name="mixed_pace", pace_sigma=0.6),
    "project_pace": Scenario(name="project_pace", project_pace_sigma=0.6),
}
# One rule of `served` was written for this one.
SILENT = Scenario(name="silent_agents", tells=False)
SCENARIOS = {MAIN.name: MAIN, **HELD_OUT, SILENT.name: SILENT}


def find_scenario(name: str) -> Scenario:
    """One of those here by its name, or one of one's own by its file."""
    if name in SCENARIOS:
        return SCENARIOS[name]
    return read_scenario(Path(name))


def read_scenario(path: Path) -> Scenario:
    """A scenario of one's own: any of the parameters, the others as in the main one."""
    try:
        told: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _refused(path, f"it could not be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _refused(path, f"it is not TOML: {error}") from error
    try:
        return Scenario.model_validate({"name": path.stem, **told})
    except ValidationError as error:
        raise _refused(path, "; ".join(map(_mistake, error.errors()))) from error


def _mistake(error: Any) -> str:
    where = ".".join(str(part) for part in error["loc"])
    return f"{where}: {error['msg']}" if where else str(error["msg"])


def _refused(path: Path, why: str) -> HostlerError:
    refused = HostlerError(
        f"{path} is no scenario: {why}.",
        safe="Nothing was simulated.",
        remedy=f"Name a file as docs/internals/sim.md says, or one of {', '.join(SCENARIOS)}.",
    )
    refused.exit_code = 2
    return refused
