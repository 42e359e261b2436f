"""At the start of a service: every run that is not ended, and what is to be done with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hostler.runs.evidence import look
from hostler.runs.recovery import Decision, decide
from hostler.store import Store
from hostler.store.runs import Run, open_runs


@dataclass(frozen=True, slots=True)
class Found:
    """A run that somebody else began. `Supervisor.resume` does what the decision says."""

    run: Run
    decision: Decision


def recover(home: Path, store: Store) -> list[Found]:
    """All open runs, oldest first. Changes nothing."""
    with store.read() as tx:
        runs = open_runs(tx)
    return [Found(run, _decide(home, run)) for run in runs]


def _decide(home: Path, run: Run) -> Decision:
    return decide(run.state, look(home / run.folder, run), stopped=run.stop_why is not None)
