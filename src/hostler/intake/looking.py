"""What is known about the thread of an event, read from the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hostler.forge.outbox import token_of
from hostler.forge.port import Blocking, ItemKind
from hostler.intake.deciding import asks_for_blockers
from hostler.intake.effects import Checks, Known
from hostler.intake.people import Watch
from hostler.intake.running import Unfinished, checks_of
from hostler.intake.signals import IssueSeen, PullSeen, Remark, RunSeen, Signal, read
from hostler.model import Surface
from hostler.store.inbox import is_first, is_newest, rows_of_thread, was_told
from hostler.store.outbox import open_writes
from hostler.store.pull_requests import PullRow, comment_floors, find_pull
from hostler.store.repositories import Repo
from hostler.store.tasks import IssueRef, Task, find_task, tasks_of_issue
from hostler.store.transaction import Transaction

# By issue: who labelled it, and what blocks it.
Labellers = Mapping[int, dict[str, str]]
Blockers = Mapping[int, Sequence[Blocking]]


def look(
    tx: Transaction,
    watch: Watch,
    signal: Signal,
    labellers: Labellers,
    blockers: Blockers | None = None,
    unfinished: Unfinished | None = None,
) -> Known:
    """Everything that a decision about this event rests on. None: GitHub's lists do not count."""
    number = signal.row.scope_number
    pull = find_pull(tx, watch.repo, number)
    issue = pull.issue_number if pull else number
    tasks = tuple(tasks_of_issue(tx, watch.repo, issue))
    # Only words on an issue may have been told, or sent to the pull request, before.
    said = signal if isinstance(signal, Remark) and pull is None and tasks else None
    return Known(
        tasks=tasks,
        pull=pull,
        pull_task=find_task(tx, pull.task) if pull else None,
        # Only a merge asks for it.
        issue=newest_issue(tx, watch, issue) if isinstance(signal, PullSeen) else None,
        labellers=labellers.get(number),
        # A pull request of a task by hand has no issue, and floors of its own.
        floors=comment_floors(tx, watch.repo, issue or number),
        opening=pull is None and _opening(tx, watch),
        newest=is_newest(tx, signal.row),
        blocked_by=_blocked_by(watch, signal, tasks, blockers),
        first=said is None or is_first(tx, said.row),
        told=said is not None and was_told(tx, watch.repo, issue, said.row),
        redirected=said is not None and _redirected(tx, watch, said),
        operations_begun=number == watch.operations_issue and _begun(tx, watch),
        checks=_checks(tx, watch, signal, pull, unfinished),
    )


def _begun(tx: Transaction, watch: Watch) -> bool:
    """Whether the feeds have read the operations issue, and told its history from its news."""
    where = (Surface.ISSUE_OPERATOR_COMMANDS, watch.operations_issue)
    return Repo(watch.repo).get_poll_cursor(tx, *where) is not None


def _checks(
    tx: Transaction,
    watch: Watch,
    signal: Signal,
    pull: PullRow | None,
    unfinished: Unfinished | None,
) -> Checks:
    if pull is None or not isinstance(signal, RunSeen):
        return Checks()
    return checks_of(tx, watch, pull, unfinished)


def _redirected(tx: Transaction, watch: Watch, said: Remark) -> bool:
    return Repo(watch.repo).get_action_token(tx, redirect_token(said)) is not None


def redirect_token(said: Remark) -> str:
    """One reply per comment, whatever becomes of it."""
    return token_of("redirect", said.row.object_id)


def _blocked_by(
    watch: Watch, signal: Signal, tasks: tuple[Task, ...], blockers: Blockers | None
) -> tuple[str, ...] | None:
    if blockers is None or not asks_for_blockers(signal, Known(tasks).present, watch):
        return ()
    told = blockers.get(signal.row.scope_number)
    return None if told is None else names_of(told)


def names_of(blockers: Sequence[Blocking]) -> tuple[str, ...]:
    """Issues as tasks name what they depend on, in an order that stays."""
    return tuple(
        str(ref) for ref in sorted({IssueRef.of(one.repo, one.number) for one in blockers})
    )


def newest_issue(tx: Transaction, watch: Watch, number: int) -> IssueSeen | None:
    """The newest version of an issue that was seen."""
    rows = rows_of_thread(tx, watch.repo, number, ItemKind.ISSUE.value)
    seen = read(rows[-1]) if rows else None
    return seen if isinstance(seen, IssueSeen) else None


def _opening(tx: Transaction, watch: Watch) -> bool:
    return any(row.kind == "open_pull" and row.repo == watch.repo for row in open_writes(tx))
