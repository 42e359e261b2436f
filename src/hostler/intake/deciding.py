"""One event, one decision. Touches no clock, database or network."""

from __future__ import annotations

from hostler.intake.effects import Decision, Known
from hostler.intake.issues import on_issue
from hostler.intake.people import Watch, flow_of, is_ignored
from hostler.intake.pulls import on_pull
from hostler.intake.remarks import on_remark
from hostler.intake.signals import IssueSeen, PullSeen, Remark, Signal


def decide(signal: Signal, known: Known, watch: Watch) -> Decision:
    """What an event causes, and why."""
    match signal:
        case IssueSeen():
            return on_issue(signal, known, watch)
        case PullSeen():
            return on_pull(signal, known, watch)
        case Remark():
            return on_remark(signal, known, watch)
        case _:
            return Decision("GitHub's words about it could not be read.")


def asks_for_labeller(signal: Signal, watch: Watch) -> bool:
    """Whether it matters who put the labels on an issue: a stranger wrote it, and it has some."""
    return (
        isinstance(signal, IssueSeen)
        and signal.is_open
        and not signal.is_pull
        and not watch.allows(signal.row.author)
        and not is_ignored(watch, signal.labels)
        and flow_of(watch, signal.labels) is not None
    )
