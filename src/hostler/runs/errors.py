"""What this room refuses.

HostlerError
└── RunError              a run cannot go where it was sent
    ├── UnknownRun        there is no such run
    ├── TaskHasRun        the task has a run that is not ended
    ├── FenceLost         the run is no longer in the hands of whoever changes it
    ├── RunStopped        somebody asked for its end: nothing is started
    ├── ShimRefused       no supervisor could be started for it
    ├── StopUnheard       its supervisor could not be told of a stop
    ├── WatchClosed       we stop watching; the run goes on
    ├── NotLaunched       a hook could not prepare its launch, and says what that means
    └── OutOfReach        nobody can tell from here what is left of it
"""

from __future__ import annotations

from hostler.agents.outcomes import Outcome
from hostler.agents.verdict import DecidedBy
from hostler.errors import HostlerError


class RunError(HostlerError):
    """A run cannot go where it was sent."""


class UnknownRun(RunError):
    """There is no such run."""

    def __init__(self, run: str) -> None:
        super().__init__(f"There is no run {run}.")
        self.run = run


class TaskHasRun(RunError):
    """A task has a run that is not ended: another one would work beside it."""

    def __init__(self, task: str, run: str) -> None:
        super().__init__(f"The task {task} has the run {run} already.", safe="None was added.")
        self.task = task
        self.run = run


class FenceLost(RunError):
    """The run moved on without us. Whoever sees this must leave its task alone."""

    def __init__(self, run: str, fence: int, expected: str, found: str) -> None:
        super().__init__(
            f"The run {run} (fence {fence}) is no longer {expected}: {found}.",
            safe="Nothing was written.",
        )
        self.run = run
        self.fence = fence
        self.expected = expected
        self.found = found


class RunStopped(RunError):
    """Somebody asked for the run's end before its agent was started."""

    def __init__(self, run: str, why: str) -> None:
        super().__init__(f"The run {run} is to be stopped: {why}", safe="No agent was started.")
        self.run = run
        self.why = why


class ShimRefused(RunError):
    """The supervisor left, or said nothing, before it had its run."""

    def __init__(self, run: str, code: int | None, sentence: str) -> None:
        super().__init__(
            f"No supervisor for the run {run}: {sentence or f'it left with code {code}'}",
            safe="No agent was started.",
        )
        self.run = run
        self.code = code


class StopUnheard(RunError):
    """The request to stop could not be handed to the run's supervisor. It stays in the row."""

    def __init__(self, run: str, error: OSError) -> None:
        super().__init__(
            f"The run {run} could not be told to stop: {error.strerror or error}.",
            safe="It is told again.",
            remedy="Make room, or make the home writable.",
        )
        self.run = run


class WatchClosed(RunError):
    """We stop watching, as we are about to leave. The run goes on and can be adopted."""

    def __init__(self, run: str) -> None:
        super().__init__(f"The run {run} is no longer watched.", safe="It goes on.")
        self.run = run


class NotLaunched(RunError):
    """There is nothing to launch; `outcome` says what that means for the task, `by` why so."""

    def __init__(self, outcome: Outcome, why: str, by: DecidedBy = DecidedBy.NOT_STARTED) -> None:
        super().__init__(why, safe="No agent was started.")
        self.outcome = outcome
        self.by = by


class OutOfReach(RunError):
    """What is left of a run lives, if it does, where we cannot look. The run stays as it is."""

    def __init__(self, run: str, why: str) -> None:
        super().__init__(
            f"Nobody can tell from here what is left of the run {run}: {why}",
            safe="It keeps its place, and its task waits.",
            remedy="Look on that machine; once nothing of it is left, remove the run by hand.",
        )
        self.run = run
