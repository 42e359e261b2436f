"""What a run's end says about its provider, for all who would call it: the pool is closed."""

from __future__ import annotations

from datetime import datetime

from hostler.agents.outcomes import LIMITS
from hostler.agents.verdict import Verdict
from hostler.flows.outcomes import limit_ends
from hostler.governor import park, release
from hostler.runs import verdict_of
from hostler.store.runs import Run
from hostler.store.transaction import Transaction


def give_up_place(tx: Transaction, run: Run) -> None:
    """The place of a run that is over is free. If its provider said when to come again, the pool
    is closed until then, in the same moment: nobody starts in between. Scope: admission.
    """
    release(tx, run)
    if run.outcome not in LIMITS:
        return
    verdict = verdict_of(run)
    until = closed_until(verdict, tx.now())
    if until is not None:
        park(tx, run.pool, until, verdict.why)


def closed_until(verdict: Verdict, now: datetime) -> datetime | None:
    """Until when nobody should call the provider of such a run; None: it did not say."""
    until = limit_ends(verdict, now) if verdict.outcome in LIMITS else None
    return until if until is not None and until > now else None
