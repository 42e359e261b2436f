"""Apply what agents report about their provider to the pool: park it, reopen it, adapt it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from hostler.agents.events import Headroom, LimitSignal
from hostler.agents.outcomes import LIMIT_OUTCOMES, Outcome, ProviderState, outcome_meaning
from hostler.agents.verdict import RunVerdict
from hostler.governor.adaptive.controller import ProviderReport, apply_report, slot_of
from hostler.governor.adaptive.model import (
    LeaseSlot,
    LimitAnnouncement,
    LimitReport,
    Reason,
    Source,
)
from hostler.governor.gates import UNTIL_RESUMED
from hostler.governor.leases import release
from hostler.governor.parking import MAX_PARK as LONGEST_QUOTA
from hostler.governor.parking import park, reopen
from hostler.governor.policy import Policy, pool_key
from hostler.model import parse_timestamp
from hostler.runs import verdict_of
from hostler.runs.outcome import NEVER_STARTED, Limit, ProviderSignals, load_tally
from hostler.store.runs import Run
from hostler.store.transaction import Transaction
from hostler.workflows.outcomes import MAX_TASK_PARK, limit_end, signal_end

# After these, a pool may be closed.
PARKING_OUTCOMES = LIMIT_OUTCOMES | {Outcome.AUTH}
# Of one refusal told again and again in one look, so many count: an agent may print what it likes.
MAX_REPORTS_PER_SIGNAL = 20
# An agent that lives may yet get through, and a tool beside it can speak in its name: its word
# closes a pool for so long, and again when it is said again.
MAX_LIVE_PARK = timedelta(minutes=15)
QUOTA_USED_UP = "Its provider says that the quota is used up."
# These ask for fewer agents; a pool that learns needs no closing for them.
CONGESTION_REASONS = {Outcome.RATE_LIMITED: Reason.BURST, Outcome.OVERLOADED: Reason.OVERLOAD}


def is_relevant(run: Run, heard: ProviderSignals, policy: Policy) -> bool:
    """Whether anything follows from what was heard of an agent."""
    return bool(heard.limits) or (bool(heard) and policy.is_adaptive(pool_key(run.pool)))


def apply_live_signals(tx: Transaction, run: Run, heard: ProviderSignals, policy: Policy) -> None:
    """What an agent told while it lived. A wall is there for all others too, for as long as it is
    told of: how the run ends decides about the rest of its time. Scope: admission.

    Being told to slow down closes nothing: that is for its program to wait out.
    """
    now = tx.now()
    for one in heard.limits:
        until = signal_end(one.signal, now) if is_pool_limit(one.signal) else None
        if until is not None and until > now:
            park(tx, run.pool, min(until, now + MAX_LIVE_PARK), QUOTA_USED_UP, run.run)
    slot = lease_slot(run)
    news = ProviderReport(
        slot,
        limits=tuple(build_live_reports(slot, heard.limits)),
        announcements=tuple(_announcement(slot, word) for word in heard.words),
        answers=heard.answers,
    )
    apply_report(tx, policy, run.pool, news)


def release_ended_run(tx: Transaction, run: Run, policy: Policy) -> None:
    """The place of a run that is over is free. If its provider said when to come again, the pool
    is closed until then, in the same moment: nobody starts in between. Scope: admission.
    """
    release(tx, run)
    slot = lease_slot(run)
    limits: tuple[LimitReport, ...] = ()
    if run.outcome in PARKING_OUTCOMES:
        verdict = verdict_of(run)
        limits = tuple(_final_reports(slot, verdict, tx.now()))
        until = closed_until(verdict, tx.now())
        # A pool that learns of congestion waits as long as its policy says.
        if until is not None and not (limits and policy.is_adaptive(pool_key(run.pool))):
            until = UNTIL_RESUMED if needs_operator(verdict) else until
            park(tx, run.pool, until, verdict.why)
    elif succeeded_at_provider(run):
        reopen(tx, run.pool, run.run)
    apply_report(
        tx,
        policy,
        run.pool,
        ProviderReport(slot, limits, ended=True, reached=load_tally(run.tally).answered),
    )


def is_pool_limit(signal: LimitSignal) -> bool:
    """Whether a limit stands before all agents of a pool; one of a single model does not."""
    return signal.reason is Outcome.QUOTA and not signal.one_model


def succeeded_at_provider(run: Run) -> bool:
    """Whether a run ended well at its provider, with no wall before it at the end."""
    if run.outcome in {None, NEVER_STARTED}:
        return False
    verdict = verdict_of(run)
    walled = verdict.limit is not None and verdict.limit.reason is Outcome.QUOTA
    return outcome_meaning(verdict.outcome).provider is ProviderState.WELL and not walled


def lease_slot(run: Run) -> LeaseSlot:
    """Whose agent a run is, for its pool."""
    return slot_of(run.project, run.task_id, run.run)


def build_live_reports(slot: LeaseSlot, limits: Iterable[Limit]) -> list[LimitReport]:
    """What an agent that lives was told, each about as often as it was.

    How long its program waits is not its provider's word: a stream does not tell them apart.
    """
    return [
        LimitReport(
            slot,
            Source.LIVE,
            CONGESTION_REASONS[one.signal.reason],
            _parse_time(one.signal.resets_at),
        )
        for one in limits
        if one.signal.reason in CONGESTION_REASONS
        for _ in range(min(one.times, MAX_REPORTS_PER_SIGNAL))
    ]


def _final_reports(slot: LeaseSlot, verdict: RunVerdict, now: datetime) -> Iterable[LimitReport]:
    if verdict.outcome in CONGESTION_REASONS:
        again = limit_end(verdict, now)
        yield LimitReport(slot, Source.DEATH, CONGESTION_REASONS[verdict.outcome], again)


def _announcement(slot: LeaseSlot, word: Headroom) -> LimitAnnouncement:
    return LimitAnnouncement(slot, word.utilisation, _parse_time(word.resets_at))


def _parse_time(text: str) -> datetime | None:
    try:
        return parse_timestamp(text) if text else None
    except (ValueError, OverflowError):
        return None


def needs_operator(verdict: RunVerdict) -> bool:
    """Whether no waiting helps: the key is refused, or a bill is not paid."""
    billed = verdict.limit is not None and verdict.limit.person
    return verdict.outcome is Outcome.AUTH or (verdict.outcome is Outcome.QUOTA and billed)


def closed_until(verdict: RunVerdict, now: datetime) -> datetime | None:
    """Until when nobody should call the provider of such a run; None: that is not known.

    A key that is refused, and a bill that is not paid, wait for an operator.
    """
    if verdict.outcome is Outcome.AUTH:
        return now + LONGEST_QUOTA
    if verdict.limit is not None and verdict.limit.one_model:
        return None
    until = limit_end(verdict, now) if verdict.outcome in LIMIT_OUTCOMES else None
    if verdict.outcome is Outcome.QUOTA and (until is None or until <= now):
        # A wall without a time: one task tries now and then, not all of them.
        return now + MAX_TASK_PARK
    return until if until is not None and until > now else None
