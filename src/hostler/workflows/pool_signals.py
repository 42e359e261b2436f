"""Apply what agents report about their provider to the pool: park it, reopen it, adapt it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
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
from hostler.governor.parking import MAX_PARK, park, reopen
from hostler.governor.policy import Policy, pool_key
from hostler.model import parse_timestamp
from hostler.runs import verdict_of
from hostler.runs.outcome import NEVER_STARTED, Limit, ProviderSignals, load_tally
from hostler.store.runs import Run
from hostler.store.transaction import Transaction
from hostler.workflows.outcomes import MAX_TASK_PARK, limit_end, signal_end

# Outcomes after which a pool may be parked.
PARKING_OUTCOMES = LIMIT_OUTCOMES | {Outcome.AUTH}
# Repetitions of one limit count up to this many times per read: an agent can print anything.
MAX_REPORTS_PER_SIGNAL = 20
# A running agent may still succeed, and a tool can print in its name: what it reports parks the
# pool only this long, and again when it is repeated.
MAX_LIVE_PARK = timedelta(minutes=15)
QUOTA_USED_UP = "The provider reports that the quota is used up."
# These ask for fewer agents; an adaptive pool needs no parking for them.
CONGESTION_REASONS = {Outcome.RATE_LIMITED: Reason.BURST, Outcome.OVERLOADED: Reason.OVERLOAD}


@dataclass(frozen=True, slots=True)
class SignalPlan:
    """Signals that change something about the pool of their run."""

    signals: ProviderSignals
    policy: Policy

    def apply(self, tx: Transaction, run: Run) -> None:
        """Park the pool or adapt it."""
        apply_live_signals(tx, run, self.signals, self.policy)


def plan_signals(run: Run, signals: ProviderSignals, policy: Policy) -> SignalPlan | None:
    """Return a plan for what was read from an agent; None if nothing follows from it."""
    adaptive = bool(signals) and policy.is_adaptive(pool_key(run.pool))
    return SignalPlan(signals, policy) if signals.limits or adaptive else None


def apply_live_signals(tx: Transaction, run: Run, signals: ProviderSignals, policy: Policy) -> None:
    """Apply what an agent reported while running. Scope: admission.

    A used-up quota stops all agents of the pool, so the pool is parked for as long as the limit is
    reported; how the run ends decides about the rest of the time. A request to slow down parks
    nothing: the agent's program waits by itself.
    """
    now = tx.now()
    for one in signals.limits:
        until = signal_end(one.signal, now) if _is_pool_limit(one.signal) else None
        if until is not None and until > now:
            park(tx, run.pool, min(until, now + MAX_LIVE_PARK), QUOTA_USED_UP, run.run)
    slot = _lease_slot(run)
    report = ProviderReport(
        slot,
        limits=tuple(_build_live_reports(slot, signals.limits)),
        announcements=tuple(_announcement(slot, headroom) for headroom in signals.headrooms),
        answers=signals.responses,
    )
    apply_report(tx, policy, run.pool, report)


def release_ended_run(tx: Transaction, run: Run, policy: Policy) -> None:
    """Release the lease of a run that is over, and update its pool. Scope: admission.

    If the provider said when to come back, the pool is parked until then in the same transaction,
    so that no other agent starts in between.
    """
    release(tx, run)
    slot = _lease_slot(run)
    limits: tuple[LimitReport, ...] = ()
    if run.outcome in PARKING_OUTCOMES:
        verdict = verdict_of(run)
        limits = tuple(_final_reports(slot, verdict, tx.now()))
        until = closed_until(verdict, tx.now())
        # For congestion, an adaptive pool waits as long as its policy says.
        if until is not None and not (limits and policy.is_adaptive(pool_key(run.pool))):
            until = UNTIL_RESUMED if _needs_operator(verdict) else until
            park(tx, run.pool, until, verdict.why)
    elif _succeeded_at_provider(run):
        reopen(tx, run.pool, run.run)
    apply_report(
        tx,
        policy,
        run.pool,
        ProviderReport(slot, limits, ended=True, reached=load_tally(run.tally).answered),
    )


def _is_pool_limit(signal: LimitSignal) -> bool:
    """Return whether a limit applies to all agents of a pool, and not only to one model."""
    return signal.reason is Outcome.QUOTA and not signal.one_model


def _succeeded_at_provider(run: Run) -> bool:
    """Return whether a run ended well at its provider, without a used-up quota at the end."""
    if run.outcome in {None, NEVER_STARTED}:
        return False
    verdict = verdict_of(run)
    walled = verdict.limit is not None and verdict.limit.reason is Outcome.QUOTA
    return outcome_meaning(verdict.outcome).provider is ProviderState.WELL and not walled


def _lease_slot(run: Run) -> LeaseSlot:
    """Return the slot of a run in its pool."""
    return slot_of(run.project, run.task_id, run.run)


def _build_live_reports(slot: LeaseSlot, limits: Iterable[Limit]) -> list[LimitReport]:
    """Return a report for each time that a running agent was told to slow down.

    A wait of the agent's program is not the provider's: a stream does not distinguish them.
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


def _announcement(slot: LeaseSlot, headroom: Headroom) -> LimitAnnouncement:
    return LimitAnnouncement(slot, headroom.utilisation, _parse_time(headroom.resets_at))


def _parse_time(text: str) -> datetime | None:
    try:
        return parse_timestamp(text) if text else None
    except (ValueError, OverflowError):
        return None


def _needs_operator(verdict: RunVerdict) -> bool:
    """Return whether waiting does not help: the key is rejected, or a bill is not paid."""
    billed = verdict.limit is not None and verdict.limit.person
    return verdict.outcome is Outcome.AUTH or (verdict.outcome is Outcome.QUOTA and billed)


def closed_until(verdict: RunVerdict, now: datetime) -> datetime | None:
    """Return until when the provider should not be called; None if unknown.

    A rejected key or an unpaid bill waits for an operator.
    """
    if verdict.outcome is Outcome.AUTH:
        return now + MAX_PARK
    if verdict.limit is not None and verdict.limit.one_model:
        return None
    until = limit_end(verdict, now) if verdict.outcome in LIMIT_OUTCOMES else None
    if verdict.outcome is Outcome.QUOTA and (until is None or until <= now):
        # The end of the quota limit is unknown: retry from time to time.
        return now + MAX_TASK_PARK
    return until if until is not None and until > now else None
