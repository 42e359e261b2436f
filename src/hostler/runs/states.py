"""States of runs, which moves lead where, and what becomes of a run after a crash. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from hostler.agents.outcomes import Outcome
from hostler.agents.verdict import DecidedBy
from hostler.errors import HostlerError
from hostler.store.runs import LIVE, RunState


class Move(StrEnum):
    """What may happen to a run."""

    LOCKED = "locked"
    GO = "go"
    OVER = "over"
    NEVER_STARTED = "never_started"
    FINISH = "finish"
    END = "end"


MOVES: dict[Move, tuple[tuple[RunState, ...], RunState]] = {
    Move.LOCKED: ((RunState.ADMITTED,), RunState.STARTING),
    Move.GO: ((RunState.STARTING,), RunState.RUNNING),
    Move.OVER: (LIVE, RunState.EXITED),
    Move.NEVER_STARTED: (LIVE, RunState.ENDED),
    Move.FINISH: ((RunState.EXITED,), RunState.FINISHING),
    Move.END: ((RunState.FINISHING,), RunState.ENDED),
}
# These two start something: a request to stop comes first.
BARRED_BY_STOP = frozenset({Move.GO, Move.NEVER_STARTED})


def after(state: RunState, move: Move, *, stopped: bool = False) -> RunState | None:
    """The state that a move leads to; None where it is not allowed."""
    allowed, to = MOVES[move]
    if state not in allowed or (stopped and move in BARRED_BY_STOP):
        return None
    return to


def run_id(moment: datetime, chance: str) -> str:
    """A name that sorts by age and can be read out: `20260102-030405-678-9f3a1c`."""
    moment = moment.astimezone(UTC)
    return f"{moment:%Y%m%d-%H%M%S}-{moment.microsecond // 1000:03d}-{chance}"


def run_folder_path(project: str, task: str, run: str) -> str:
    """Where a run's files are, below the home."""
    return f"projects/{project}/tasks/{task}/runs/{run}"


class Action(StrEnum):
    """What is to be done with a run that somebody else may have begun."""

    NOTHING = "nothing"
    ADOPT = "adopt"
    NEVER_STARTED = "never_started"
    CONCLUDE = "conclude"
    SWEEP = "sweep"
    LEAVE_ALONE = "leave_alone"
    FINISH = "finish"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What can be seen of a run from outside.

    `shim_alive`: its supervisor lives. `last_word`: it left one. `agent_traced`: something says
    that there was, or may have been, an agent. `within_reach`: what is left of it could be found.
    """

    shim_alive: bool
    last_word: bool = False
    agent_traced: bool = False
    within_reach: bool = True


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do; `stop`: somebody asked for the end, which must be said again or believed."""

    action: Action
    stop: bool = False


def decide(state: RunState, seen: Evidence, *, stopped: bool) -> Decision:
    """The table of docs/internals/runs.md, row by row."""
    if state is RunState.ENDED:
        return Decision(Action.NOTHING)
    if state in {RunState.EXITED, RunState.FINISHING}:
        return Decision(Action.FINISH, stopped)
    return Decision(_of_a_live_row(seen), stopped)


def _of_a_live_row(seen: Evidence) -> Action:
    if seen.shim_alive:
        return Action.ADOPT
    if seen.last_word:
        return Action.CONCLUDE
    if not seen.agent_traced:
        return Action.NEVER_STARTED
    return Action.SWEEP if seen.within_reach else Action.LEAVE_ALONE


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
            remedy="Free some disk space, or make the home writable.",
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
