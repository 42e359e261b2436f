"""Runs: one agent process each, supervised from its admission to its end.

In reading order: `states` has the states of a run and the rules of recovery, `transitions` writes
them, `supervisor` leads one run through them, `dispatcher` starts its shim and `process_watch`
waits for it, `outcome` reads its stream and judges it, `run_folder` is its folder on disk.
`interfaces` is what callers provide.

Callers decide what a result means for a task. Guarantees and recovery: docs/internals/runs.md.
"""

from hostler.runs.dispatcher import LocalDispatcher
from hostler.runs.interfaces import Dispatcher, Happening, Hooks, Step
from hostler.runs.outcome import next_step, verdict_of
from hostler.runs.states import Action
from hostler.runs.supervisor import Found, Supervisor, recover
from hostler.runs.transitions import NewRun, admit, request_stop, require_newest

__all__ = [
    "Action",
    "Dispatcher",
    "Found",
    "Happening",
    "Hooks",
    "LocalDispatcher",
    "NewRun",
    "Step",
    "Supervisor",
    "admit",
    "next_step",
    "recover",
    "request_stop",
    "require_newest",
    "verdict_of",
]
