"""What an agent met at its provider, for all who would call it: the pool is closed, or learns."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from hostler.agents.events import Headroom, LimitSignal
from hostler.agents.outcomes import LIMITS, Outcome, Provider, meaning
from hostler.agents.verdict import Verdict
from hostler.flows.outcomes import LONGEST_PARKING, ends_at, limit_ends
from hostler.governor import News, Policy, hear, park, pool_key, release
from hostler.governor.gates import UNTIL_RESUMED
from hostler.governor.learned import slot_of
from hostler.governor.overlay import Announced, Reason, Report, Slot, Source
from hostler.governor.parking import LONGEST as LONGEST_QUOTA
from hostler.governor.parking import reopen
from hostler.model import parse_stamp
from hostler.runs import verdict_of
from hostler.runs.outcome import NEVER_STARTED, Limit, ProviderSignals, load_tally
from hostler.store.runs import Run
from hostler.store.transaction import Transaction

# After these, a pool may be closed.
CLOSING = LIMITS | {Outcome.AUTH}
# Of one refusal told again and again in one look, so many count: an agent may print what it likes.
MOST_TOLD = 20
# An agent that lives may yet get through, and a tool beside it can speak in its name: its word
# closes a pool for so long, and again when it is said again.
LONGEST_LIVE = timedelta(minutes=15)
SPENT = "Its provider says that the quota is used up."
# These ask for fewer agents; a pool that learns needs no closing for them.
REASONS = {Outcome.RATE_LIMITED: Reason.BURST, Outcome.OVERLOADED: Reason.OVERLOAD}


def listens(run: Run, heard: ProviderSignals, policy: Policy) -> bool:
    """Whether anything follows from what was heard of an agent."""
    return bool(heard.limits) or (bool(heard) and policy.is_adaptive(pool_key(run.pool)))


def heed(tx: Transaction, run: Run, heard: ProviderSignals, policy: Policy) -> None:
    """What an agent told while it lived. A wall is there for all others too, for as long as it is
    told of: how the run ends decides about the rest of its time. Scope: admission.

    Being told to slow down closes nothing: that is for its program to wait out.
    """
    now = tx.now()
    for one in heard.limits:
        until = ends_at(one.signal, now) if is_wall(one.signal) else None
        if until is not None and until > now:
            park(tx, run.pool, min(until, now + LONGEST_LIVE), SPENT, run.run)
    slot = whose(run)
    news = News(
        slot,
        limits=tuple(live_reports(slot, heard.limits)),
        words=tuple(_announced(slot, word) for word in heard.words),
        answers=heard.answers,
    )
    hear(tx, policy, run.pool, news)


def give_up_place(tx: Transaction, run: Run, policy: Policy) -> None:
    """The place of a run that is over is free. If its provider said when to come again, the pool
    is closed until then, in the same moment: nobody starts in between. Scope: admission.
    """
    release(tx, run)
    slot = whose(run)
    limits: tuple[Report, ...] = ()
    if run.outcome in CLOSING:
        verdict = verdict_of(run)
        limits = tuple(_death(slot, verdict, tx.now()))
        until = closed_until(verdict, tx.now())
        # A pool that learns of congestion waits as long as its policy says.
        if until is not None and not (limits and policy.is_adaptive(pool_key(run.pool))):
            until = UNTIL_RESUMED if needs_a_person(verdict) else until
            park(tx, run.pool, until, verdict.why)
    elif got_through(run):
        reopen(tx, run.pool, run.run)
    hear(
        tx, policy, run.pool, News(slot, limits, over=True, reached=load_tally(run.tally).answered)
    )


def is_wall(signal: LimitSignal) -> bool:
    """Whether a limit stands before all agents of a pool; one of a single model does not."""
    return signal.reason is Outcome.QUOTA and not signal.one_model


def got_through(run: Run) -> bool:
    """Whether a run ended well at its provider, with no wall before it at the end."""
    if run.outcome in {None, NEVER_STARTED}:
        return False
    verdict = verdict_of(run)
    walled = verdict.limit is not None and verdict.limit.reason is Outcome.QUOTA
    return meaning(verdict.outcome).provider is Provider.WELL and not walled


def whose(run: Run) -> Slot:
    """Whose agent a run is, for its pool."""
    return slot_of(run.project, run.task_id, run.run)


def live_reports(slot: Slot, limits: Iterable[Limit]) -> list[Report]:
    """What an agent that lives was told, each about as often as it was.

    How long its program waits is not its provider's word: a stream does not tell them apart.
    """
    return [
        Report(slot, Source.LIVE, REASONS[one.signal.reason], _moment(one.signal.resets_at))
        for one in limits
        if one.signal.reason in REASONS
        for _ in range(min(one.times, MOST_TOLD))
    ]


def _death(slot: Slot, verdict: Verdict, now: datetime) -> Iterable[Report]:
    if verdict.outcome in REASONS:
        again = limit_ends(verdict, now)
        yield Report(slot, Source.DEATH, REASONS[verdict.outcome], again)


def _announced(slot: Slot, word: Headroom) -> Announced:
    return Announced(slot, word.utilisation, _moment(word.resets_at))


def _moment(text: str) -> datetime | None:
    try:
        return parse_stamp(text) if text else None
    except (ValueError, OverflowError):
        return None


def needs_a_person(verdict: Verdict) -> bool:
    """Whether no waiting helps: the key is refused, or a bill is not paid."""
    billed = verdict.limit is not None and verdict.limit.person
    return verdict.outcome is Outcome.AUTH or (verdict.outcome is Outcome.QUOTA and billed)


def closed_until(verdict: Verdict, now: datetime) -> datetime | None:
    """Until when nobody should call the provider of such a run; None: that is not known.

    A key that is refused, and a bill that is not paid, wait for an operator.
    """
    if verdict.outcome is Outcome.AUTH:
        return now + LONGEST_QUOTA
    if verdict.limit is not None and verdict.limit.one_model:
        return None
    until = limit_ends(verdict, now) if verdict.outcome in LIMITS else None
    if verdict.outcome is Outcome.QUOTA and (until is None or until <= now):
        # A wall without a time: one task tries now and then, not all of them.
        return now + LONGEST_PARKING
    return until if until is not None and until > now else None
