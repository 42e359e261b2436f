"""States of a run, the allowed moves between them, recovery rules after a crash, and errors."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from hostler.agents.outcomes import Outcome
from hostler.agents.verdict import DecidedBy
from hostler.errors import HostlerError
from hostler.store.runs import LIVE, RunState


class RunMove(StrEnum):
    """A change of a run's state."""

    LOCKED = "locked"
    GO = "go"
    OVER = "over"
    NEVER_STARTED = "never_started"
    FINISH = "finish"
    END = "end"


RUN_MOVES: dict[RunMove, tuple[tuple[RunState, ...], RunState]] = {
    RunMove.LOCKED: ((RunState.ADMITTED,), RunState.STARTING),
    RunMove.GO: ((RunState.STARTING,), RunState.RUNNING),
    RunMove.OVER: (LIVE, RunState.EXITED),
    RunMove.NEVER_STARTED: (LIVE, RunState.ENDED),
    RunMove.FINISH: ((RunState.EXITED,), RunState.FINISHING),
    RunMove.END: ((RunState.FINISHING,), RunState.ENDED),
}
# These moves start something, so a stop request has priority.
MOVES_REFUSED_AFTER_STOP = frozenset({RunMove.GO, RunMove.NEVER_STARTED})


def next_run_state(state: RunState, move: RunMove, *, stopped: bool = False) -> RunState | None:
    """Return the state that a move leads to; None if it is not allowed."""
    allowed, to = RUN_MOVES[move]
    if state not in allowed or (stopped and move in MOVES_REFUSED_AFTER_STOP):
        return None
    return to


def run_id(moment: datetime, chance: str) -> str:
    """Return an id that sorts by age and is readable: `20260102-030405-678-9f3a1c`."""
    moment = moment.astimezone(UTC)
    return f"{moment:%Y%m%d-%H%M%S}-{moment.microsecond // 1000:03d}-{chance}"


def run_folder_path(project: str, task: str, run: str) -> str:
    """Return the folder of a run's files, relative to the home."""
    return f"projects/{project}/tasks/{task}/runs/{run}"


class RecoveryAction(StrEnum):
    """What to do with a run that another process may have started."""

    NOTHING = "nothing"
    ADOPT = "adopt"
    NEVER_STARTED = "never_started"
    CONCLUDE = "conclude"
    SWEEP = "sweep"
    LEAVE_ALONE = "leave_alone"
    FINISH = "finish"


@dataclass(frozen=True, slots=True)
class RunEvidence:
    """What can be observed about a run from outside.

    `shim_alive`: its supervisor process exists. `has_exit_file`: exit.json was written.
    `may_have_agent`: there was, or may have been, an agent. `is_reachable`: its processes, if any,
    would be visible from here.
    """

    shim_alive: bool
    has_exit_file: bool = False
    may_have_agent: bool = False
    is_reachable: bool = True


@dataclass(frozen=True, slots=True)
class RecoveryDecision:
    """What to do.

    `stop`: a stop was requested, and must be delivered again or taken into account.
    """

    action: RecoveryAction
    stop: bool = False


def decide_recovery(state: RunState, seen: RunEvidence, *, stopped: bool) -> RecoveryDecision:
    """Return the action for a run: the table of docs/internals/runs.md, row by row."""
    if state is RunState.ENDED:
        return RecoveryDecision(RecoveryAction.NOTHING)
    if state in {RunState.EXITED, RunState.FINISHING}:
        return RecoveryDecision(RecoveryAction.FINISH, stopped)
    return RecoveryDecision(_of_a_live_row(seen), stopped)


def _of_a_live_row(seen: RunEvidence) -> RecoveryAction:
    if seen.shim_alive:
        return RecoveryAction.ADOPT
    if seen.has_exit_file:
        return RecoveryAction.CONCLUDE
    if not seen.may_have_agent:
        return RecoveryAction.NEVER_STARTED
    return RecoveryAction.SWEEP if seen.is_reachable else RecoveryAction.LEAVE_ALONE


class RunError(HostlerError):
    """An operation on a run is not possible."""


class UnknownRun(RunError):
    """The run does not exist."""

    def __init__(self, run: str) -> None:
        super().__init__(f"Run {run} does not exist.")
        self.run = run


class TaskHasRun(RunError):
    """The task has a run that has not ended: a second one would work in parallel."""

    def __init__(self, task: str, run: str) -> None:
        super().__init__(f"Task {task} already has the run {run}.", safe="No run was added.")
        self.task = task
        self.run = run


class FenceLost(RunError):
    """Another process has taken over the run. The caller must not change its task any more."""

    def __init__(self, run: str, fence: int, expected: str, found: str) -> None:
        super().__init__(
            f"Run {run} (fence {fence}) is no longer {expected}: {found}.",
            safe="Nothing was written.",
        )
        self.run = run
        self.fence = fence
        self.expected = expected
        self.found = found


class RunStopped(RunError):
    """A stop was requested before the agent was started."""

    def __init__(self, run: str, why: str) -> None:
        super().__init__(f"Run {run} was asked to stop: {why}", safe="No agent was started.")
        self.run = run
        self.why = why


class ShimStartFailed(RunError):
    """The shim exited, or timed out, before it had locked its run folder."""

    def __init__(self, run: str, code: int | None, sentence: str) -> None:
        super().__init__(
            f"The supervisor of run {run} did not start: {sentence or f'exit code {code}'}",
            safe="No agent was started.",
        )
        self.run = run
        self.code = code


class StopNotDelivered(RunError):
    """The stop request could not be passed to the run's shim. It remains in the row."""

    def __init__(self, run: str, error: OSError) -> None:
        super().__init__(
            f"Cannot deliver the stop request to run {run}: {error.strerror or error}.",
            safe="The request is stored and will be delivered again.",
            remedy="Free disk space, or make the home directory writable.",
        )
        self.run = run


class WatchClosed(RunError):
    """Watching ended because the service is shutting down. The run continues and can be adopted."""

    def __init__(self, run: str) -> None:
        super().__init__(f"Run {run} is no longer watched.", safe="Its agent continues.")
        self.run = run


class NotLaunched(RunError):
    """There is nothing to launch.

    `outcome` says what that means for the task, `by` who decided it.
    """

    def __init__(self, outcome: Outcome, why: str, by: DecidedBy = DecidedBy.NOT_STARTED) -> None:
        super().__init__(why, safe="No agent was started.")
        self.outcome = outcome
        self.by = by


class RunNotVisible(RunError):
    """Processes of the run may exist where this process cannot see them. The run stays as it is."""

    def __init__(self, run: str, why: str) -> None:
        super().__init__(
            f"Cannot tell whether processes of run {run} still exist: {why}",
            safe="It keeps its lease, and its task waits.",
            remedy="Check that machine; if no process is left, remove the run manually.",
        )
        self.run = run
