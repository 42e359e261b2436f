"""Supervise runs: one agent process each, from its admission to its end.

In reading order: `states` has the states of a run and the recovery rules, `transitions` stores
them, `supervisor` takes one run through them, `dispatcher` starts its shim and `process_watch`
waits for it, `outcome` reads its streams and decides its outcome, `run_folder` is its folder on
disk. `interfaces` has the callbacks that the service provides.

Callers decide what an outcome means for a task. Guarantees and recovery: docs/internals/runs.md.
"""

from hostler.runs.dispatcher import LocalDispatcher
from hostler.runs.interfaces import RunCallbacks, RunPlan, RunStep
from hostler.runs.outcome import next_action, verdict_of
from hostler.runs.states import RecoveryAction
from hostler.runs.supervisor import RecoveredRun, Supervisor, recover
from hostler.runs.transitions import NewRun, admit_run, request_stop, require_newest

__all__ = [
    "LocalDispatcher",
    "NewRun",
    "RecoveredRun",
    "RecoveryAction",
    "RunCallbacks",
    "RunPlan",
    "RunStep",
    "Supervisor",
    "admit_run",
    "next_action",
    "recover",
    "request_stop",
    "require_newest",
    "verdict_of",
]
