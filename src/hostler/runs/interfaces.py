"""What runs need from other packages: the callbacks of a run, and an observer of its steps."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from hostler.agents.assignment import Launch
from hostler.agents.verdict import RunVerdict
from hostler.runs.outcome import ProviderSignals
from hostler.store import Transaction
from hostler.store.runs import Run


class RunStep(StrEnum):
    """A step that was just completed, in this order. For logs, and for tests that kill after it."""

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


# Called with the step and the run's id.
RunObserver = Callable[[RunStep, str], None]


def ignore_run_step(_step: RunStep, _run: str) -> None:
    """Do nothing."""


class RunPlan(Protocol):
    """Changes that were decided outside of a transaction."""

    def apply(self, tx: Transaction, run: Run) -> None:
        """Store them, together with a change of the run's row."""
        ...


class RunCallbacks(Protocol):
    """What the owner of the runs does around each of them.

    `launch` and `finish` are called outside of transactions and may take long. Both can be called
    again after a crash, so each of their steps first checks whether it is already done.
    """

    @property
    def scopes(self) -> tuple[str, ...]:
        """Write scopes that `requeue` and the plan of `finish` need."""
        ...

    def launch(self, run: Run) -> Launch:
        """Prepare checkout and prompt of an admitted run; raise `NotLaunched` with its outcome."""
        ...

    def plan_signals(self, run: Run, signals: ProviderSignals) -> RunPlan | None:
        """Return what provider signals change; None if nothing, so that no lock is taken."""
        ...

    def finish(self, run: Run, verdict: RunVerdict) -> RunPlan:
        """Do the work of the end (commit, push); return what is stored when the run ends."""
        ...

    def release(self, tx: Transaction, run: Run) -> None:
        """Release the lease of a run whose processes have exited, or that was never started."""
        ...

    def requeue(self, tx: Transaction, run: Run) -> None:
        """Put the task of a run that was never started back to its position in the queue."""
        ...
