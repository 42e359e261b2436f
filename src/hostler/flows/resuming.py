"""Going on by hand: a pull request after it was closed, a task after it was blocked.

GitHub is asked first, outside of any transaction; the rows are looked at again inside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hostler.errors import Gone, HostlerError, Moved, NotFound
from hostler.flows.arrivals import take_what_waits
from hostler.flows.commands import resume as queue_again
from hostler.flows.material import waiting
from hostler.flows.standing import NotResumed, Standing, against_here, against_label, against_there
from hostler.flows.status import publish
from hostler.forge.outbox.sender import SCOPE as OUTBOX
from hostler.forge.payloads import pull_of
from hostler.forge.port import Forge, Item
from hostler.intake import Watch, hear_since
from hostler.intake.preview import row_of
from hostler.intake.takeover import give_back, thread_of, whole_second
from hostler.store import Store
from hostler.store.inbox import add_inbox_row
from hostler.store.operator import Deed, What, add_deed
from hostler.store.pull_requests import (
    PullRow,
    PullStatus,
    ask_for_scan,
    change_pull,
    comment_floors,
    find_pull,
    pulls_numbered,
)
from hostler.store.runs import open_runs
from hostler.store.tasks import SCOPE, Task, TaskState, change_task, find_task, require_task
from hostler.store.transaction import Transaction, normal_stamp

SCOPES = ("admission", OUTBOX, SCOPE)


class NoSuchPull(HostlerError):
    """A number that means no pull request of ours, or more than one."""

    exit_code = 2

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what, safe="Nothing was changed.", remedy=remedy)


@dataclass(frozen=True, slots=True)
class Resumed:
    """What became of a pull request; `changed`: it was not so before."""

    pull: PullRow
    task: Task
    changed: bool = True


def nothing(_tx: Transaction, _task: Task) -> None:
    """Nobody wants to store anything with it."""


@dataclass(frozen=True, slots=True)
class Order:
    """Who asks for it, which head they have seen, and how far back words count.

    `noted` stores what belongs to it in the same transaction, if anything was changed.
    """

    by: str
    head_sha: str = ""
    backfill: timedelta = timedelta(days=1)
    noted: Callable[[Transaction, Task], None] = nothing


@dataclass(frozen=True, slots=True)
class _There:
    """A pull request as GitHub showed it, and when, by its own time."""

    item: Item
    at: datetime


def pull_meant(tx: Transaction, number: int, repo: str = "") -> PullRow:
    """The pull request of ours that a person means, or a clear refusal."""
    known = pulls_numbered(tx, number)
    found = [one for one in known if not repo or one.repo_full_name.lower() == repo.lower()]
    if len(found) == 1:
        return found[0]
    names = [one.repo_full_name for one in found or known]
    if found:
        raise NoSuchPull(
            f"Pull request {number} is ours in {_listed(names)}.", f"Say which: --repo {names[0]}"
        )
    where = f" of {repo}" if repo else ""
    near = f"There is one of ours in {_listed(names)}. " if names else ""
    raise NoSuchPull(
        f"Pull request {number}{where} is not one of ours.",
        f"{near}`hostler task list --all` shows all tasks and their pull requests.",
    )


def resume_pull(store: Store, forge: Forge, watch: Watch, number: int, order: Order) -> Resumed:
    """Watch a pull request again that was closed here, or whose task was stopped."""
    with store.read() as tx:
        here = standing(tx, watch, number)
    _refuse(against_here(here))
    there = _ask(forge, here)
    _refuse(against_there(here, pull_of(there.item.payload), order.head_sha))
    for thread in filter(None, (number, here.pull.issue_number)):
        _refuse(
            against_label(f"{watch.repo}#{thread}", _labels(forge, thread), watch.labels.ignore)
        )
    with store.write(*SCOPES) as tx:
        here = standing(tx, watch, number)
        _refuse(against_here(here))
        if here.watched:
            return Resumed(here.pull, require_task(tx, here.pull.task), changed=False)
        after = _go_on(tx, watch, here.pull, there, order)
        order.noted(tx, require_task(tx, after.task))
    return Resumed(after, _told(store, watch, after.task))


def unblock(store: Store, forge: Forge, watch: Watch, task: Task, order: Order) -> Task:
    """Let a blocked task go on: its pull request awaits feedback; without one, it is queued."""
    there = look_at_blocked(store, forge, watch, task, order)
    with store.write(*SCOPES) as tx:
        present = require_task(tx, task.id)
        if present.state is not TaskState.BLOCKED:
            raise NotResumed(f"The task {task.id} is not blocked any more.")
        if there is None or present.pr_number is None:
            queue_again(tx, present, order.by)
        else:
            here = standing(tx, watch, present.pr_number)
            _refuse(against_here(here))
            _go_on(tx, watch, here.pull, there, order)
        order.noted(tx, require_task(tx, task.id))
    return _told(store, watch, task.id)


def _told(store: Store, watch: Watch, task: str) -> Task:
    """The task when it was told what waits in the inbox; cut off before, the next look does it."""
    take_what_waits(store, watch)
    with store.read() as tx:
        return require_task(tx, task)


def look_at_blocked(
    store: Store, forge: Forge, watch: Watch, task: Task, order: Order
) -> _There | None:
    """A blocked task's pull request on GitHub, if it has one; refused where it cannot go on."""
    if task.pr_number is None:
        return None
    with store.read() as tx:
        here = standing(tx, watch, task.pr_number)
    _refuse(against_here(here))
    there = _ask(forge, here)
    _refuse(against_there(here, pull_of(there.item.payload), order.head_sha))
    return there


def standing(tx: Transaction, watch: Watch, number: int) -> Standing:
    """How a pull request of ours stands, here."""
    pull = find_pull(tx, watch.repo, number)
    if pull is None:
        raise NoSuchPull(f"{watch.repo}#{number} is not ours any more.", "")
    task = find_task(tx, pull.task)
    if task is None:
        return Standing(pull, None)
    other = task.pr_number if task.pr_number != number else None
    current = find_pull(tx, watch.repo, other) if other else None
    return Standing(
        pull,
        task,
        busy=bool(open_runs(tx, task_id=task.id)),
        current=current.pr_number if current and not current.final else None,
    )


def _go_on(tx: Transaction, watch: Watch, pull: PullRow, there: _There, order: Order) -> PullRow:
    """Everything that goes with it, in one transaction."""
    row = row_of(watch, there.item)
    # An older version that says "closed" and waits in the inbox comes too late from now on.
    add_inbox_row(tx, replace(row, updated_at=normal_stamp(row.updated_at)))
    head = pull_of(there.item.payload).head_sha
    after = replace(
        pull,
        status=PullStatus.AWAITING_FEEDBACK,
        last_seen_head_sha=head,
        turns_without_person=0,
    )
    change_pull(tx, pull, after)
    ask_for_scan(tx, after)
    task = require_task(tx, pull.task)
    give_back(tx, task, there.at)
    task = change_task(tx, task, _back(task, pull.pr_number, order.by))
    add_deed(tx, task.id, Deed(tx.stamp(), order.by, What.RESUMED))
    if pull.final:
        hear_since(tx, watch, after, _since(tx, watch, task, there, order))
    _queue_if_asked(tx, task)
    return after


def _back(task: Task, number: int, by: str) -> Task:
    return replace(
        task,
        state=TaskState.AWAITING_FEEDBACK,
        reason=f"Resumed by {by}.",
        pr_number=number,
        wake_at=None,
        finishing=False,
        blockers="",
        exits_without_progress=0,
        repair_rounds=0,
        requeues=0,
        outages=0,
    )


def _since(tx: Transaction, watch: Watch, task: Task, there: _There, order: Order) -> str:
    """From when on words count that were said when nobody listened."""
    floor = comment_floors(tx, watch.repo, thread_of(task)).heard_from
    return max(whole_second(there.at - order.backfill), floor)


def _queue_if_asked(tx: Transaction, task: Task) -> None:
    """Words that wait for an answer get their turn."""
    if waiting(tx, task):
        reason = f"{task.reason} Words wait for an answer."
        task = change_task(tx, task, replace(task, state=TaskState.QUEUED, reason=reason))
    publish(tx, task)


def _ask(forge: Forge, here: Standing) -> _There:
    try:
        return _There(forge.pull(here.pull.pr_number), forge.now())
    except (NotFound, Gone, Moved) as error:
        raise NotResumed(
            f"{here.name} is not on GitHub any more, or our account cannot see it.",
            "Look at what the token may read.",
        ) from error


def _labels(forge: Forge, number: int) -> frozenset[str]:
    try:
        return forge.issue(number).labels
    except (NotFound, Gone, Moved):
        return frozenset()  # its issue was deleted; the pull request is there


def _refuse(refusal: NotResumed | None) -> None:
    if refusal is not None:
        raise refusal


def _listed(names: Iterable[str]) -> str:
    return " and ".join(sorted(names))
