"""The seam to wherever agents run: what a supervisor of runs needs from a dispatcher."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Any, Protocol


class Step(StrEnum):
    """What has just been done, in this order. For logs, and for tests that kill in between."""

    SPAWNED = "spawned"
    LOCKED = "locked"
    STARTING = "starting"
    RUNNING = "running"
    GO = "go"
    READ = "read"
    OVER = "over"
    EXITED = "exited"
    FINISHING = "finishing"
    FINISHED = "finished"
    ENDED = "ended"
    NEVER_STARTED = "never_started"


Observer = Callable[[Step, str], None]


def nobody(_step: Step, _run: str) -> None:
    """Observes nothing."""


class What(StrEnum):
    """What a dispatcher tells about a run."""

    STARTED = "started"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened to a run. Numbers only grow; the row and the folder are the truth."""

    number: int
    run: str
    what: What


class Watch(Protocol):
    """An eye on one run's supervisor. Leave its block to let go of it."""

    @property
    def left_well(self) -> bool:
        """Whether we saw it leave after its last word."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Until it has left, or the time is over; whether it has left."""
        ...

    def __enter__(self) -> Watch: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Dispatcher(Protocol):
    """Where agents run."""

    def submit(self, spec: Mapping[str, Any], run: str, fence: int) -> None:
        """Start the run's agent, once. Again is no harm: it is started once."""
        ...

    def attach(self, run: str) -> Watch:
        """Watch a run, whoever started it."""
        ...

    def cancel(self, run: str, grace: float) -> None:
        """Tell a run's supervisor of its stop; a shorter grace hurries an earlier one."""
        ...

    def events(self, after: int) -> Sequence[Happening]:
        """What happened after that number, as far as it is remembered."""
        ...
