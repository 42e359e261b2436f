"""What a run's end says about its provider, for all who would call it: the pool is closed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from hostler.agents.events import LimitSignal
from hostler.agents.outcomes import LIMITS, Outcome
from hostler.agents.verdict import Verdict
from hostler.flows.outcomes import LONGEST_PARKING, ends_at, limit_ends
from hostler.governor import park, release
from hostler.governor.parking import LONGEST as LONGEST_QUOTA
from hostler.runs import verdict_of
from hostler.store.runs import Run
from hostler.store.transaction import Transaction

# After these, a pool may be closed.
CLOSING = LIMITS | {Outcome.AUTH}


def give_up_place(tx: Transaction, run: Run) -> None:
    """The place of a run that is over is free. If its provider said when to come again, the pool
    is closed until then, in the same moment: nobody starts in between. Scope: admission.
    """
    release(tx, run)
    if run.outcome not in CLOSING:
        return
    verdict = verdict_of(run)
    until = closed_until(verdict, tx.now())
    if until is not None:
        park(tx, run.pool, until, verdict.why)


def heed_limits(tx: Transaction, run: Run, limits: Sequence[LimitSignal]) -> None:
    """A wall that a living agent met is there for all others too. Scope: admission.

    Being told to slow down closes nothing: that is for its program to wait out.
    """
    now = tx.now()
    for limit in limits:
        until = ends_at(limit, now) if limit.reason is Outcome.QUOTA else None
        if until is not None and until > now:
            park(tx, run.pool, until, "Its provider says that the quota is used up.")


def closed_until(verdict: Verdict, now: datetime) -> datetime | None:
    """Until when nobody should call the provider of such a run; None: that is not known.

    A key that is refused, and a bill that is not paid, wait for an operator.
    """
    if verdict.outcome is Outcome.AUTH:
        return now + LONGEST_QUOTA
    until = limit_ends(verdict, now) if verdict.outcome in LIMITS else None
    if verdict.outcome is Outcome.QUOTA and (until is None or until <= now):
        # A wall without a time: one task tries now and then, not all of them.
        return now + LONGEST_PARKING
    return until if until is not None and until > now else None
