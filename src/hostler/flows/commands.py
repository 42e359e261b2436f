"""What people do with tasks: stop, resume, retry, cancel. Each takes an open transaction."""

from __future__ import annotations

from dataclasses import replace

from hostler.errors import HostlerError
from hostler.flows.lineage import descendants
from hostler.flows.status import publish
from hostler.intake.takeover import give_back
from hostler.runs import request_stop
from hostler.store.operator import Deed, What, add_deed
from hostler.store.pull_requests import PullStatus, change_pull, find_pull
from hostler.store.runs import open_runs
from hostler.store.tasks import Task, TaskState, change_task
from hostler.store.transaction import Transaction

CANCELLED = "Cancelled"
LONGEST_ANSWER = 16_000
RESUMABLE = frozenset(
    {TaskState.STOPPED, TaskState.NEEDS_INPUT, TaskState.PARKED, TaskState.BLOCKED}
)
RETRIABLE = frozenset(
    {TaskState.FAILED, TaskState.STOPPED, TaskState.BLOCKED, TaskState.NEEDS_INPUT}
)


class CommandRefused(HostlerError):
    """The task is in a state in which this means nothing."""

    def __init__(self, verb: str, task: Task, remedy: str = "") -> None:
        state = task.state.value.replace("_", " ")
        super().__init__(
            f"The task {task.id} is {state}: it cannot be {verb}.",
            safe="Nothing was changed.",
            remedy=remedy,
        )


def stop(tx: Transaction, task: Task, by: str, why: str = "") -> list[Task]:
    """Stop a task and what came from it; those that were changed. Scopes: tasks, outbox."""
    if task.over:
        raise CommandRefused("stopped", task)
    return _stop_all(tx, task, Deed(tx.stamp(), by, What.STOPPED, why))


def cancel(tx: Transaction, task: Task, by: str, why: str = "") -> list[Task]:
    """The same for good: only a retry brings it back."""
    if task.over and task.state is not TaskState.STOPPED:
        raise CommandRefused("cancelled", task)
    return _stop_all(tx, task, Deed(tx.stamp(), by, What.CANCELLED, why))


def resume(tx: Transaction, task: Task, by: str, why: str = "") -> Task:
    """Go on where it was, in the same session."""
    if task.state is TaskState.STOPPED and task.reason.startswith(CANCELLED):
        raise CommandRefused("resumed", task, f"Use: hostler task retry {task.id}")
    if task.state not in RESUMABLE:
        raise CommandRefused("resumed", task)
    return _queue(tx, task, Deed(tx.stamp(), by, What.RESUMED, why))


def answer(tx: Transaction, task: Task, by: str, text: str) -> Task:
    """Answer the question of a task by hand; those of issues are answered on GitHub."""
    if task.state is not TaskState.NEEDS_INPUT or not task.by_hand:
        where = "" if task.by_hand else "Answer with a comment on its issue."
        raise CommandRefused("answered", task, where)
    if not text.strip():
        raise HostlerError("The answer is empty.", safe="Nothing was changed.")
    told = replace(task, note=f"{by} answers: {text.strip()}"[:LONGEST_ANSWER])
    said = text.strip()[:LONGEST_ANSWER]
    asked = task.question or task.reason
    deed = Deed(tx.stamp(), by, What.ANSWERED, said, asked, task.state_since)
    return _queue(tx, task, deed, told)


def retry(tx: Transaction, task: Task, by: str, why: str = "") -> Task:
    """Begin anew: the same checkout and branch, all counters at zero."""
    if task.state not in RETRIABLE:
        raise CommandRefused("retried", task)
    fresh = replace(task, attempt=0, session="", progress="", note="", question="")
    return _queue(tx, task, Deed(tx.stamp(), by, What.RETRIED, why), fresh)


def _reason(deed: Deed) -> str:
    """What is said of a deed in the task's state; an answer has a place of its own."""
    told = f": {deed.text}" if deed.text and deed.what is not What.ANSWERED else "."
    return f"{deed.what.capitalize()} by {deed.by}{told}"


def _stop_all(tx: Transaction, task: Task, deed: Deed) -> list[Task]:
    """Stop a task, all that is unfinished below it, and their agents."""
    below = [child for child in descendants(tx, task.id) if not child.over]
    return [_stop(tx, one, deed) for one in (task, *below)]


def _stop(tx: Transaction, task: Task, deed: Deed) -> Task:
    reason = _reason(deed)
    for run in open_runs(tx, task_id=task.id):
        request_stop(tx, run.run, reason)
    stopped = replace(task, state=TaskState.STOPPED, reason=reason, wake_at=None, finishing=False)
    add_deed(tx, task.id, deed)
    return publish(tx, change_task(tx, task, stopped))


def _queue(tx: Transaction, task: Task, deed: Deed, fresh: Task | None = None) -> Task:
    if open_runs(tx, task_id=task.id):
        raise CommandRefused(
            "started again", task, "Its last run has not ended; try again in a moment."
        )
    give_back(tx, task)
    queued = replace(
        fresh or task,
        state=TaskState.QUEUED,
        reason=_reason(deed),
        wake_at=None,
        finishing=False,
        blockers="",
        exits_without_progress=0,
        repair_rounds=0,
        requeues=0,
        outages=0,
        pr_number=_going_on(tx, task),
    )
    add_deed(tx, task.id, deed)
    return publish(tx, change_task(tx, task, queued))


def _going_on(tx: Transaction, task: Task) -> int | None:
    """The pull request to go on with; one that is closed stays so, and a new one follows."""
    if task.pr_number is None or task.repo_full_name is None:
        return task.pr_number
    pull = find_pull(tx, task.repo, task.pr_number)
    if pull is None or pull.final:
        return None
    change_pull(tx, pull, replace(pull, status=PullStatus.AWAITING_FEEDBACK))
    return pull.pr_number
