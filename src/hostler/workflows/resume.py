"""Resume a closed pull request or a blocked task.

GitHub is asked first, outside of any transaction; the rows are read again inside it.
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
    """A pull request does not go on, and this is why; `over`: it is closed or merged there."""

    def __init__(self, what: str, remedy: str = "", *, over: bool = False) -> None:
        super().__init__(what, safe="Nothing was changed.", remedy=remedy)
        self.over = over


@dataclass(frozen=True, slots=True)
class PullSnapshot:
    """A pull request of ours, here: its row, its task, and whether a run of that is not over.

    `current`: the pull request that the task works for now, if it is another one and not over.
    """

    pull: PullRow
    task: Task | None
    busy: bool = False
    current: int | None = None

    @property
    def name(self) -> str:
        return f"{self.pull.repo_full_name}#{self.pull.pr_number}"

    @property
    def watched(self) -> bool:
        """Whether it awaits feedback, with a task that hears it."""
        return (
            self.pull.status is PullStatus.AWAITING_FEEDBACK
            and self.task is not None
            and not self.task.over
            and self.task.state is not TaskState.BLOCKED
            and self.task.pr_number == self.pull.pr_number
        )


def check_local(here: PullSnapshot) -> NotResumed | None:
    """What speaks against it, by what is known here; GitHub need not even be asked."""
    return next(_local_refusals(here), None)


def check_remote(here: PullSnapshot, there: Pull, head_sha: str = "") -> NotResumed | None:
    """What speaks against it, by how it is on GitHub."""
    return next(_remote_refusals(here, there, head_sha), None)


def check_label(name: str, labels: Iterable[str], ignore: str) -> NotResumed | None:
    """People have the work as long as the label is there."""
    if ignore.lower() not in {label.lower() for label in labels}:
        return None
    return NotResumed(
        f"{name} carries {ignore}: people have the work.", "Take the label off first."
    )


def _local_refusals(here: PullSnapshot) -> Iterator[NotResumed]:
    pull, task = here.pull, here.task
    again = f"Begin anew: hostler run {pull.repo_full_name}#{pull.issue_number}"
    if pull.status is PullStatus.MERGED:
        yield NotResumed(f"{here.name} was merged, and that is final.")
    if task is None:
        yield NotResumed(
            f"The task of {here.name} was deleted.", again if pull.issue_number else ""
        )
        return
    if task.state is TaskState.DONE:
        yield NotResumed(f"The task of {here.name} is done.")
    if here.current is not None:
        yield NotResumed(
            f"The task of {here.name} goes on with pull request {here.current}.",
            "Say there what is to be done.",
        )
    if not task.over and task.pr_number != pull.pr_number:
        yield NotResumed(
            f"The task of {here.name} has begun anew, and will open another pull request.",
            f"Stop it first, if you want the old one: hostler task stop {task.id}",
        )
    if here.busy and not here.watched:
        yield NotResumed(f"The last run of {task.id} has not ended.", "Try again in a moment.")


def _remote_refusals(here: PullSnapshot, there: Pull, head_sha: str) -> Iterator[NotResumed]:
    if there.merged:
        yield NotResumed(f"{here.name} was merged, and that is final.", over=True)
    if there.state != "open":
        yield NotResumed(f"{here.name} is closed on GitHub.", "Reopen it there first.", over=True)
    if head_sha and head_sha.lower() != there.head_sha.lower():
        yield NotResumed(
            f"The head of {here.name} is {there.head_sha}, not {head_sha}.",
            "Look at what was pushed, and name that head, or none.",
        )


RESUME_SCOPES = ("admission", OUTBOX, SCOPE)


class NoSuchPull(HostlerError):
    """A number that means no pull request of ours, or more than one."""

    exit_code = 2

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what, safe="Nothing was changed.", remedy=remedy)


@dataclass(frozen=True, slots=True)
class ResumedPull:
    """What became of a pull request; `changed`: it was not so before."""

    pull: PullRow
    task: Task
    changed: bool = True


def store_nothing(_tx: Transaction, _task: Task) -> None:
    """Nobody wants to store anything with it."""


@dataclass(frozen=True, slots=True)
class ResumeRequest:
    """Who asks for it, which head they have seen, and how far back words count.

    `noted` stores what belongs to it in the same transaction, if anything was changed.
    """

    by: str
    head_sha: str = ""
    backfill: timedelta = timedelta(days=1)
    noted: Callable[[Transaction, Task], None] = store_nothing


@dataclass(frozen=True, slots=True)
class _RemotePull:
    """A pull request as GitHub showed it, and when, by its own time."""

    item: Item
    at: datetime


def find_own_pull(tx: Transaction, number: int, repo: str = "") -> PullRow:
    """The pull request of ours that a person means, or a clear refusal."""
    known = pulls_numbered(tx, number)
    found = [one for one in known if not repo or one.repo_full_name.lower() == repo.lower()]
    if len(found) == 1:
        return found[0]
    names = [one.repo_full_name for one in found or known]
    if found:
        raise NoSuchPull(
            f"Pull request {number} is ours in {_join_names(names)}.",
            f"Say which: --repo {names[0]}",
        )
    where = f" of {repo}" if repo else ""
    near = f"There is one of ours in {_join_names(names)}. " if names else ""
    raise NoSuchPull(
        f"Pull request {number}{where} is not one of ours.",
        f"{near}`hostler task list --all` shows all tasks and their pull requests.",
    )


def resume_pull(
    store: Store, forge: Forge, watch: RepoPolicy, number: int, order: ResumeRequest
) -> ResumedPull:
    """Watch a pull request again that was closed here, or whose task was stopped."""
    with store.read() as tx:
        here = read_pull_snapshot(tx, watch, number)
    _raise_if_refused(check_local(here))
    there = _read_remote_pull(forge, here)
    _raise_if_refused(check_remote(here, content_as(there.item, Pull), order.head_sha))
    for thread in filter(None, (number, here.pull.issue_number)):
        _raise_if_refused(
            check_label(f"{watch.repo}#{thread}", _read_labels(forge, thread), watch.labels.ignore)
        )
    with store.write(*RESUME_SCOPES) as tx:
        here = read_pull_snapshot(tx, watch, number)
        _raise_if_refused(check_local(here))
        if here.watched:
            return ResumedPull(here.pull, require_task(tx, here.pull.task), changed=False)
        after = _resume_in_transaction(tx, watch, here.pull, there, order)
        order.noted(tx, require_task(tx, after.task))
    return ResumedPull(after, _process_inbox(store, watch, after.task))


def unblock(
    store: Store, forge: Forge, watch: RepoPolicy, task: Task, order: ResumeRequest
) -> Task:
    """Let a blocked task go on: its pull request awaits feedback; without one, it is queued."""
    there = check_blocked(store, forge, watch, task, order)
    with store.write(*RESUME_SCOPES) as tx:
        present = require_task(tx, task.id)
        if present.state is not TaskState.BLOCKED:
            raise NotResumed(f"The task {task.id} is not blocked any more.")
        if there is None or present.pr_number is None:
            queue_again(tx, present, order.by)
        else:
            here = read_pull_snapshot(tx, watch, present.pr_number)
            _raise_if_refused(check_local(here))
            _resume_in_transaction(tx, watch, here.pull, there, order)
        order.noted(tx, require_task(tx, task.id))
    return _process_inbox(store, watch, task.id)


def _process_inbox(store: Store, watch: RepoPolicy, task: str) -> Task:
    """The task when it was told what waits in the inbox; cut off before, the next look does it."""
    ingest_stored_events(store, watch)
    with store.read() as tx:
        return require_task(tx, task)


def check_blocked(
    store: Store, forge: Forge, watch: RepoPolicy, task: Task, order: ResumeRequest
) -> _RemotePull | None:
    """A blocked task's pull request on GitHub, if it has one; refused where it cannot go on."""
    if task.pr_number is None:
        return None
    with store.read() as tx:
        here = read_pull_snapshot(tx, watch, task.pr_number)
    _raise_if_refused(check_local(here))
    there = _read_remote_pull(forge, here)
    _raise_if_refused(check_remote(here, content_as(there.item, Pull), order.head_sha))
    return there


def read_pull_snapshot(tx: Transaction, watch: RepoPolicy, number: int) -> PullSnapshot:
    """How a pull request of ours stands, here."""
    pull = find_pull(tx, watch.repo, number)
    if pull is None:
        raise NoSuchPull(f"{watch.repo}#{number} is not ours any more.", "")
    task = find_task(tx, pull.task)
    if task is None:
        return PullSnapshot(pull, None)
    other = task.pr_number if task.pr_number != number else None
    current = find_pull(tx, watch.repo, other) if other else None
    return PullSnapshot(
        pull,
        task,
        busy=bool(open_runs(tx, task_id=task.id)),
        current=current.pr_number if current and not current.final else None,
    )


def _resume_in_transaction(
    tx: Transaction, watch: RepoPolicy, pull: PullRow, there: _RemotePull, order: ResumeRequest
) -> PullRow:
    """Everything that goes with it, in one transaction."""
    row = build_inbox_row(watch, there.item)
    # An older version that says "closed" and waits in the inbox comes too late from now on.
    add_inbox_row(tx, replace(row, updated_at=normal_stamp(row.updated_at)))
    head = content_as(there.item, Pull).head_sha
    after = replace(
        pull,
        status=PullStatus.AWAITING_FEEDBACK,
        last_seen_head_sha=head,
        turns_without_person=0,
    )
    change_pull(tx, pull, after)
    ask_for_scan(tx, after)
    task = require_task(tx, pull.task)
    end_takeover(tx, task, there.at)
    task = change_task(tx, task, _resumed_task(task, pull.pr_number, order.by))
    add_deed(tx, task.id, Deed(tx.stamp(), order.by, What.RESUMED))
    if pull.final:
        add_comments_since(tx, watch, after, _comments_since(tx, watch, task, there, order))
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
    tx: Transaction, watch: RepoPolicy, task: Task, there: _RemotePull, order: ResumeRequest
) -> str:
    """From when on words count that were said when nobody listened."""
    floor = comment_floors(tx, watch.repo, thread_number(task)).heard_from
    return max(truncate_to_second(there.at - order.backfill), floor)


def _queue_if_pending(tx: Transaction, task: Task) -> None:
    """Words that wait for an answer get their turn."""
    if pending_event_keys(tx, task):
        reason = f"{task.reason} Words wait for an answer."
        task = change_task(tx, task, replace(task, state=TaskState.QUEUED, reason=reason))
    publish_status_comment(tx, task)


def _read_remote_pull(forge: Forge, here: PullSnapshot) -> _RemotePull:
    try:
        return _RemotePull(forge.pull(here.pull.pr_number), forge.now())
    except (NotFound, Gone, Moved) as error:
        raise NotResumed(
            f"{here.name} is not on GitHub any more, or our account cannot see it.",
            "Look at what the token may read.",
        ) from error


def _read_labels(forge: Forge, number: int) -> frozenset[str]:
    try:
        return forge.issue(number).labels
    except (NotFound, Gone, Moved):
        return frozenset()  # its issue was deleted; the pull request is there


def _raise_if_refused(refusal: NotResumed | None) -> None:
    if refusal is not None:
        raise refusal


def _join_names(names: Iterable[str]) -> str:
    return " and ".join(sorted(names))


@dataclass(frozen=True, slots=True)
class BlockedTask:
    """One blocked task of GitHub's, and how many words wait for it."""

    task: Task
    waiting: int

    @property
    def name(self) -> str:
        """Where it is talked about."""
        return f"{self.task.repo_full_name}#{self.task.pr_number or self.task.number}"

    @property
    def remedy(self) -> str:
        """What to do when the cause is mended."""
        task = self.task
        if task.pr_number is None:
            return f"hostler run {task.repo_full_name}#{task.number}"
        return f"hostler feedback blocked reset --pr {task.pr_number} --repo {task.repo_full_name}"


def list_blocked(tx: Transaction, repo: RepoName | None = None) -> list[BlockedTask]:
    """What is blocked, longest first; tasks without any thread on GitHub are not among it."""
    found = [task for task in tasks_in(tx, (TaskState.BLOCKED,), repo) if _thread_numbers(task)]
    found.sort(key=lambda task: (task.state_since, task.id))
    return [BlockedTask(task, count_held(tx, task.repo, _thread_numbers(task))) for task in found]


def _thread_numbers(task: Task) -> set[int]:
    if task.repo_full_name is None:
        return set()
    return {number for number in (task.issue_number, task.pr_number) if number}


@dataclass(frozen=True, slots=True)
class ResetResult:
    """What became of one that was to go on: its task then, or why it stays as it is.

    `over`: it is closed or merged on GitHub, so there is nothing to go on with.
    """

    blocked: BlockedTask
    task: Task | None = None
    why: str = ""
    over: bool = False


@dataclass(frozen=True, slots=True)
class BlockedTaskResetter:
    """Lets blocked tasks go on, one transaction each. `dry`: only GitHub is asked."""

    store: Store
    forges: Callable[[RepoName], Forge]
    watches: Mapping[RepoName, RepoPolicy]
    order: ResumeRequest
    dry: bool = False

    def reset(self, one: BlockedTask) -> ResetResult:
        """Let one go on. Raises where GitHub does not answer."""
        watch = self.watches.get(one.task.repo)
        if watch is None:
            return ResetResult(one, why=f"{one.task.repo} is not watched any more.")
        try:
            return ResetResult(one, self._unblocked(one.task, watch))
        except CommandRefused as error:
            return ResetResult(one, why=error.what)
        except NotResumed as error:
            return ResetResult(one, why=error.what, over=error.over)

    def _unblocked(self, task: Task, watch: RepoPolicy) -> Task:
        forge = self.forges(task.repo)
        if not self.dry:
            return unblock(self.store, forge, watch, task, self.order)
        check_blocked(self.store, forge, watch, task, self.order)
        return task
