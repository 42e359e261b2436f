"""Resume a closed pull request or a blocked task.

GitHub is queried first, outside of any transaction; the rows are read again inside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hostler.errors import Gone, HostlerError, Moved, NotFound
from hostler.forge.events import content_as
from hostler.forge.outbox.sender import OUTBOX_SCOPE as OUTBOX
from hostler.forge.port import Forge, Item, Pull
from hostler.intake.decisions import build_inbox_row
from hostler.intake.process import (
    add_comments_since,
    end_takeover,
    thread_number,
    truncate_to_second,
)
from hostler.intake.repo_policy import RepoPolicy
from hostler.model import RepoName
from hostler.store import Store
from hostler.store.inbox import add_inbox_row, count_held
from hostler.store.operator import AuditAction, AuditEntry, add_audit_entry
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
from hostler.store.tasks import (
    SCOPE,
    Task,
    TaskState,
    change_task,
    find_task,
    require_task,
    tasks_in,
)
from hostler.store.transaction import Transaction, normal_stamp
from hostler.workflows.commands import CommandRefused
from hostler.workflows.commands import resume_task as queue_again
from hostler.workflows.ingest import ingest_stored_events
from hostler.workflows.status_comment import publish_status_comment
from hostler.workflows.turns import pending_event_keys


class NotResumed(HostlerError):
    """Why a pull request cannot be resumed. `closed`: it is closed or merged on GitHub."""

    def __init__(self, what: str, remedy: str = "", *, closed: bool = False) -> None:
        super().__init__(what, safe="Nothing was changed.", remedy=remedy)
        self.closed = closed


@dataclass(frozen=True, slots=True)
class PullSnapshot:
    """A pull request of Hostler as stored: its row, its task, and whether that has an open run.

    `current`: another unfinished pull request that the task works on now.
    """

    pull: PullRow
    task: Task | None
    has_open_run: bool = False
    current: int | None = None

    @property
    def name(self) -> str:
        return f"{self.pull.repo_full_name}#{self.pull.pr_number}"

    @property
    def is_watched(self) -> bool:
        """Whether it waits for feedback, with a task that receives it."""
        return (
            self.pull.status is PullStatus.AWAITING_FEEDBACK
            and self.task is not None
            and not self.task.over
            and self.task.state is not TaskState.BLOCKED
            and self.task.pr_number == self.pull.pr_number
        )


def check_local(local: PullSnapshot) -> NotResumed | None:
    """Return what prevents resuming by the stored rows; GitHub need not be queried then."""
    return next(_local_refusals(local), None)


def check_remote(local: PullSnapshot, remote: Pull, head_sha: str = "") -> NotResumed | None:
    """Return what prevents resuming by the state on GitHub."""
    return next(_remote_refusals(local, remote, head_sha), None)


def _check_label(name: str, labels: Iterable[str], ignore: str) -> NotResumed | None:
    """Return a refusal if the ignore label is set: users have taken over the work."""
    if ignore.lower() not in {label.lower() for label in labels}:
        return None
    return NotResumed(
        f"{name} has the label {ignore}: users have taken over.", "Remove the label first."
    )


def _local_refusals(local: PullSnapshot) -> Iterator[NotResumed]:
    pull, task = local.pull, local.task
    retry = f"Start again with: hostler run {pull.repo_full_name}#{pull.issue_number}"
    if pull.status is PullStatus.MERGED:
        yield NotResumed(f"{local.name} is already merged.")
    if task is None:
        yield NotResumed(
            f"The task of {local.name} was deleted.", retry if pull.issue_number else ""
        )
        return
    if task.state is TaskState.DONE:
        yield NotResumed(f"The task of {local.name} is done.")
    if local.current is not None:
        yield NotResumed(
            f"The task of {local.name} continues with pull request {local.current}.",
            "Comment there instead.",
        )
    if not task.over and task.pr_number != pull.pr_number:
        yield NotResumed(
            f"The task of {local.name} was started again and will open another pull request.",
            f"To continue the old one, stop it first: hostler task stop {task.id}",
        )
    if local.has_open_run and not local.is_watched:
        yield NotResumed(f"The last run of {task.id} has not ended yet.", "Try again in a moment.")


def _remote_refusals(local: PullSnapshot, remote: Pull, head_sha: str) -> Iterator[NotResumed]:
    if remote.merged:
        yield NotResumed(f"{local.name} is already merged.", closed=True)
    if remote.state != "open":
        yield NotResumed(
            f"{local.name} is closed on GitHub.", "Reopen it there first.", closed=True
        )
    if head_sha and head_sha.lower() != remote.head_sha.lower():
        yield NotResumed(
            f"The head of {local.name} is {remote.head_sha}, not {head_sha}.",
            "Check what was pushed, then pass that head, or none.",
        )


RESUME_SCOPES = ("admission", OUTBOX, SCOPE)


class NoSuchPull(HostlerError):
    """The number is not a pull request of Hostler, or not a unique one."""

    exit_code = 2

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what, safe="Nothing was changed.", remedy=remedy)


@dataclass(frozen=True, slots=True)
class ResumedPull:
    """A resumed pull request. `changed`: False if it was being watched already."""

    pull: PullRow
    task: Task
    changed: bool = True


def _store_nothing(_tx: Transaction, _task: Task) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class ResumeRequest:
    """Who requests it, which head they have seen, and how old comments may be.

    `also_store` is called in the same transaction if anything was changed.
    """

    by: str
    head_sha: str = ""
    backfill: timedelta = timedelta(days=1)
    also_store: Callable[[Transaction, Task], None] = _store_nothing


@dataclass(frozen=True, slots=True)
class _RemotePull:
    """A pull request as GitHub returned it, and when by GitHub's clock."""

    item: Item
    at: datetime


def find_own_pull(tx: Transaction, number: int, repo: str = "") -> PullRow:
    """Return the pull request of Hostler with this number.

    Raise `NoSuchPull` if it is not unique.
    """
    known = pulls_numbered(tx, number)
    found = [one for one in known if not repo or one.repo_full_name.lower() == repo.lower()]
    if len(found) == 1:
        return found[0]
    names = [one.repo_full_name for one in found or known]
    if found:
        raise NoSuchPull(
            f"Pull request {number} exists in {_join_names(names)}.",
            f"Choose one: --repo {names[0]}",
        )
    where = f" of {repo}" if repo else ""
    near = f"Hostler opened one in {_join_names(names)}. " if names else ""
    raise NoSuchPull(
        f"Pull request {number}{where} was not opened by Hostler.",
        f"{near}`hostler task list --all` lists all tasks and their pull requests.",
    )


def resume_pull(
    store: Store, forge: Forge, policy: RepoPolicy, number: int, request: ResumeRequest
) -> ResumedPull:
    """Watch a pull request again that was closed, or whose task was stopped."""
    with store.read() as tx:
        local = _read_pull_snapshot(tx, policy, number)
    _raise_if_refused(check_local(local))
    remote = _read_remote_pull(forge, local)
    _raise_if_refused(check_remote(local, content_as(remote.item, Pull), request.head_sha))
    for thread in filter(None, (number, local.pull.issue_number)):
        _raise_if_refused(
            _check_label(
                f"{policy.repo}#{thread}", _read_labels(forge, thread), policy.labels.ignore
            )
        )
    with store.write(*RESUME_SCOPES) as tx:
        local = _read_pull_snapshot(tx, policy, number)
        _raise_if_refused(check_local(local))
        if local.is_watched:
            return ResumedPull(local.pull, require_task(tx, local.pull.task), changed=False)
        after = _resume_in_transaction(tx, policy, local.pull, remote, request)
        request.also_store(tx, require_task(tx, after.task))
    return ResumedPull(after, _process_inbox(store, policy, after.task))


def unblock(
    store: Store, forge: Forge, policy: RepoPolicy, task: Task, request: ResumeRequest
) -> Task:
    """Unblock a task: its pull request waits for feedback again; without one the task is queued."""
    remote = check_blocked(store, forge, policy, task, request)
    with store.write(*RESUME_SCOPES) as tx:
        present = require_task(tx, task.id)
        if present.state is not TaskState.BLOCKED:
            raise NotResumed(f"Task {task.id} is no longer blocked.")
        if remote is None or present.pr_number is None:
            queue_again(tx, present, request.by)
        else:
            local = _read_pull_snapshot(tx, policy, present.pr_number)
            _raise_if_refused(check_local(local))
            _resume_in_transaction(tx, policy, local.pull, remote, request)
        request.also_store(tx, require_task(tx, task.id))
    return _process_inbox(store, policy, task.id)


def _process_inbox(store: Store, policy: RepoPolicy, task: str) -> Task:
    """Return the task after its pending events were processed.

    After a crash the next poll does it.
    """
    ingest_stored_events(store, policy)
    with store.read() as tx:
        return require_task(tx, task)


def check_blocked(
    store: Store, forge: Forge, policy: RepoPolicy, task: Task, request: ResumeRequest
) -> _RemotePull | None:
    """Return a blocked task's pull request on GitHub, if any; raise if it cannot be resumed."""
    if task.pr_number is None:
        return None
    with store.read() as tx:
        local = _read_pull_snapshot(tx, policy, task.pr_number)
    _raise_if_refused(check_local(local))
    remote = _read_remote_pull(forge, local)
    _raise_if_refused(check_remote(local, content_as(remote.item, Pull), request.head_sha))
    return remote


def _read_pull_snapshot(tx: Transaction, policy: RepoPolicy, number: int) -> PullSnapshot:
    """Read a pull request of Hostler and its task."""
    pull = find_pull(tx, policy.repo, number)
    if pull is None:
        raise NoSuchPull(f"{policy.repo}#{number} is not a pull request of Hostler.", "")
    task = find_task(tx, pull.task)
    if task is None:
        return PullSnapshot(pull, None)
    other = task.pr_number if task.pr_number != number else None
    current = find_pull(tx, policy.repo, other) if other else None
    return PullSnapshot(
        pull,
        task,
        has_open_run=bool(open_runs(tx, task_id=task.id)),
        current=current.pr_number if current and not current.final else None,
    )


def _resume_in_transaction(
    tx: Transaction, policy: RepoPolicy, pull: PullRow, remote: _RemotePull, request: ResumeRequest
) -> PullRow:
    """Store everything that belongs to the resumed pull request."""
    row = build_inbox_row(policy, remote.item)
    # An older version that says "closed" and waits in the inbox comes too late from now on.
    add_inbox_row(tx, replace(row, updated_at=normal_stamp(row.updated_at)))
    head = content_as(remote.item, Pull).head_sha
    after = replace(
        pull,
        status=PullStatus.AWAITING_FEEDBACK,
        last_seen_head_sha=head,
        turns_without_person=0,
    )
    change_pull(tx, pull, after)
    ask_for_scan(tx, after)
    task = require_task(tx, pull.task)
    end_takeover(tx, task, remote.at)
    task = change_task(tx, task, _resumed_task(task, pull.pr_number, request.by))
    add_audit_entry(tx, task.id, AuditEntry(tx.stamp(), request.by, AuditAction.RESUMED))
    if pull.final:
        add_comments_since(tx, policy, after, _comments_since(tx, policy, task, remote, request))
    _queue_if_pending(tx, task)
    return after


def _resumed_task(task: Task, number: int, by: str) -> Task:
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


def _comments_since(
    tx: Transaction, policy: RepoPolicy, task: Task, remote: _RemotePull, request: ResumeRequest
) -> str:
    """Return the time from which comments count that nobody has processed yet."""
    floor = comment_floors(tx, policy.repo, thread_number(task)).comments_since
    return max(truncate_to_second(remote.at - request.backfill), floor)


def _queue_if_pending(tx: Transaction, task: Task) -> None:
    """Queue the task if comments are waiting for it."""
    if pending_event_keys(tx, task):
        reason = f"{task.reason} Comments are waiting for an answer."
        task = change_task(tx, task, replace(task, state=TaskState.QUEUED, reason=reason))
    publish_status_comment(tx, task)


def _read_remote_pull(forge: Forge, local: PullSnapshot) -> _RemotePull:
    try:
        return _RemotePull(forge.pull(local.pull.pr_number), forge.now())
    except (NotFound, Gone, Moved) as error:
        raise NotResumed(
            f"{local.name} no longer exists on GitHub, or Hostler's account cannot see it.",
            "Check the token's permissions.",
        ) from error


def _read_labels(forge: Forge, number: int) -> frozenset[str]:
    try:
        return forge.issue(number).labels
    except (NotFound, Gone, Moved):
        return frozenset()  # The issue was deleted, but the pull request exists.


def _raise_if_refused(refusal: NotResumed | None) -> None:
    if refusal is not None:
        raise refusal


def _join_names(names: Iterable[str]) -> str:
    return " and ".join(sorted(names))


@dataclass(frozen=True, slots=True)
class BlockedTask:
    """One blocked task, and how many comments are waiting for it."""

    task: Task
    waiting: int

    @property
    def name(self) -> str:
        """The thread on GitHub where it is discussed."""
        return f"{self.task.repo_full_name}#{self.task.pr_number or self.task.number}"

    @property
    def remedy(self) -> str:
        """The command to run when the cause is fixed."""
        task = self.task
        if task.pr_number is None:
            return f"hostler run {task.repo_full_name}#{task.number}"
        return f"hostler feedback blocked reset --pr {task.pr_number} --repo {task.repo_full_name}"


def list_blocked(tx: Transaction, repo: RepoName | None = None) -> list[BlockedTask]:
    """Return blocked tasks with a thread on GitHub, blocked longest first."""
    found = [task for task in tasks_in(tx, (TaskState.BLOCKED,), repo) if _thread_numbers(task)]
    found.sort(key=lambda task: (task.state_since, task.id))
    return [BlockedTask(task, count_held(tx, task.repo, _thread_numbers(task))) for task in found]


def _thread_numbers(task: Task) -> set[int]:
    if task.repo_full_name is None:
        return set()
    return {number for number in (task.issue_number, task.pr_number) if number}


@dataclass(frozen=True, slots=True)
class ResetResult:
    """The result for one blocked task: its new state, or why it stays blocked.

    `closed`: it is closed or merged on GitHub, so there is nothing to continue.
    """

    blocked: BlockedTask
    task: Task | None = None
    why: str = ""
    closed: bool = False


@dataclass(frozen=True, slots=True)
class BlockedTaskResetter:
    """Unblocks tasks, one transaction each. `dry`: only check."""

    store: Store
    forges: Callable[[RepoName], Forge]
    watches: Mapping[RepoName, RepoPolicy]
    request: ResumeRequest
    dry: bool = False

    def reset(self, one: BlockedTask) -> ResetResult:
        """Unblock one task. Raise if GitHub does not answer."""
        policy = self.watches.get(one.task.repo)
        if policy is None:
            return ResetResult(one, why=f"{one.task.repo} is no longer watched.")
        try:
            return ResetResult(one, self._unblocked(one.task, policy))
        except CommandRefused as error:
            return ResetResult(one, why=error.what)
        except NotResumed as error:
            return ResetResult(one, why=error.what, closed=error.closed)

    def _unblocked(self, task: Task, policy: RepoPolicy) -> Task:
        forge = self.forges(task.repo)
        if not self.dry:
            return unblock(self.store, forge, policy, task, self.request)
        check_blocked(self.store, forge, policy, task, self.request)
        return task
