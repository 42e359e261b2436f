"""Rules: where a run may go, and how it is called. Touches nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum

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
BARRED_BY_A_STOP = frozenset({Move.GO, Move.NEVER_STARTED})


def after(state: RunState, move: Move, *, stopped: bool = False) -> RunState | None:
    """The state that a move leads to; None where it is not allowed."""
    allowed, to = MOVES[move]
    if state not in allowed or (stopped and move in BARRED_BY_A_STOP):
        return None
    return to


def run_id(moment: datetime, chance: str) -> str:
    """A name that sorts by age and can be read out: `20260102-030405-678-9f3a1c`."""
    moment = moment.astimezone(UTC)
    return f"{moment:%Y%m%d-%H%M%S}-{moment.microsecond // 1000:03d}-{chance}"


def run_folder(project: str, task: str, run: str) -> str:
    """Where a run's files are, below the home."""
    return f"projects/{project}/tasks/{task}/runs/{run}"
