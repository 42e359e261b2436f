"""Limits that a stream tells of, from event to row. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from hostler.agents.events import Event, LimitSignal, Retrying
from hostler.agents.outcomes import LIMITS
from hostler.runs.memory import printable, recall_limit
from hostler.store.governor import Signal, Source
from hostler.store.runs import Run


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit, and how often in a row it was told of."""

    signal: LimitSignal
    times: int = 1


def limit_in(event: Event) -> LimitSignal | None:
    """The limit that an event tells of; a retry for another reason is none."""
    if isinstance(event, LimitSignal):
        return event
    if isinstance(event, Retrying) and event.reason in LIMITS:
        return LimitSignal(event.reason, event.status, event.seconds)
    return None


def with_limit(known: Sequence[Limit], signal: LimitSignal) -> tuple[Limit, ...]:
    """One more. The same again is counted, so that a program that retries for hours is one row."""
    if known and _same(known[-1].signal, signal):
        return (*known[:-1], replace(known[-1], signal=signal, times=known[-1].times + 1))
    return (*known, Limit(signal))


def live_signals(run: Run, limits: Iterable[Limit]) -> Iterator[Signal]:
    """Rows for what an agent told while it lived."""
    return (_row(run, one.signal, Source.LIVE, one.times) for one in limits)


def death_signals(run: Run) -> Iterator[Signal]:
    """The row for a run that a limit has ended."""
    if run.outcome in LIMITS:
        told = recall_limit(run.limit_signal)
        reason = next(one for one in LIMITS if one == run.outcome)
        yield _row(run, replace(told or LimitSignal(reason), reason=reason), Source.DEATH, 1)


def _same(one: LimitSignal, other: LimitSignal) -> bool:
    return (one.reason, one.status, one.resets_at) == (other.reason, other.status, other.resets_at)


def _row(run: Run, signal: LimitSignal, source: Source, times: int) -> Signal:
    return Signal(
        run=run.run,
        pool=run.pool,
        task_id=run.task_id,
        project=run.project,
        source=source,
        reason=signal.reason.value,
        status=min(signal.status, 999),
        retry_after_seconds=signal.retry_after_seconds,
        resets_at=printable(signal.resets_at)[:40],
        times=times,
    )
