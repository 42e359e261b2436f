"""Runs: one agent process each, from its admission to its end, whatever is killed meanwhile."""

from hostler.runs.ending import next_step, verdict_of
from hostler.runs.hooks import Hooks
from hostler.runs.ledger import NewRun, admit, request_stop, require_newest
from hostler.runs.local import LocalDispatcher
from hostler.runs.port import Dispatcher, Happening, Step
from hostler.runs.recover import Found, recover
from hostler.runs.recovery import Action
from hostler.runs.supervise import Supervisor

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
