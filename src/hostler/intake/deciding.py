"""One event, one decision. Touches no clock, database or network."""

from __future__ import annotations

from hostler.intake.ci import on_run
from hostler.intake.effects import Decision, Known
from hostler.intake.issues import on_issue, waits_no_more
from hostler.intake.people import Watch, flow_of, is_ignored
from hostler.intake.pulls import on_pull
from hostler.intake.remarks import on_remark
from hostler.intake.signals import IssueSeen, PullSeen, Remark, RunSeen, Signal
from hostler.store.tasks import Task


def decide(signal: Signal, known: Known, watch: Watch) -> Decision:
    """What an event causes, and why."""
    match signal:
        case IssueSeen():
            return on_issue(signal, known, watch)
        case PullSeen():
            return on_pull(signal, known, watch)
        case Remark():
            return on_remark(signal, known, watch)
        case RunSeen():
            return on_run(signal, known, watch)
        case _:
            return Decision("GitHub's words about it could not be read.")


def asks_for_blockers(signal: Signal, task: Task | None, watch: Watch) -> bool:
    """Whether GitHub must be asked what blocks an issue: it has, or may get, a task to hold."""
    if not isinstance(signal, IssueSeen) or signal.is_pull or not signal.is_open:
        return False
    if signal.blockers == 0 or is_ignored(watch, signal.labels):
        return False
    return flow_of(watch, signal.labels) is not None if task is None else not waits_no_more(task)


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
