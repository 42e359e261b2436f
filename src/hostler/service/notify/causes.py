"""What is worth a call, and the key of its cause: the same cause is called for once. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import timedelta
from hashlib import sha256

from hostler.model import parse_stamp
from hostler.store.operator import Notice, Operation, OperationStatus
from hostler.store.tasks import Task, TaskState

# A shorter wait ends by itself before anybody has read of it.
WORTH_A_CALL = timedelta(minutes=10)
LONGEST_BODY = 1_500
OCCASIONS = {
    TaskState.BLOCKED: "blocked",
    TaskState.NEEDS_INPUT: "needs_input",
    TaskState.PARKED: "parked",
}
_TITLES = {
    "blocked": "Blocked: {title}",
    "needs_input": "Your answer is needed: {title}",
    "parked": "Waiting: {title}",
}
RESTART_FAILED = "restart_failed"


def worth_calling(
    tasks: Iterable[Task], restart: Operation | None, wanted: Collection[str], web_url: str
) -> list[Notice]:
    """The calls that the present state asks for, whether made already or not."""
    found = [notice for task in tasks if (notice := of_task(task, web_url)) is not None]
    failed = of_restart(restart) if restart is not None else None
    return [one for one in (*found, *([failed] if failed else [])) if one.occasion in wanted]


def of_task(task: Task, web_url: str) -> Notice | None:
    """The call for a task that waits for somebody; none for a short wait."""
    occasion = OCCASIONS.get(task.state)
    if occasion is None or (occasion == "parked" and not _is_long(task)):
        return None
    said = task.question if occasion == "needs_input" else task.reason
    return Notice(
        key=f"{occasion}:{task.id}:{_cause(task)}",
        occasion=occasion,
        title=_TITLES[occasion].format(title=f"{task.title} ({place_of(task)})"),
        body=said.strip()[:LONGEST_BODY],
        url=url_of(task, web_url),
    )


def of_restart(operation: Operation) -> Notice | None:
    """The call for a restart that did not come about."""
    if operation.status is not OperationStatus.FAILED:
        return None
    return Notice(
        key=f"{RESTART_FAILED}:{operation.created_at}",
        occasion=RESTART_FAILED,
        title="The service was not restarted",
        body=operation.detail[:LONGEST_BODY],
    )


def place_of(task: Task) -> str:
    """Where a task is talked about."""
    number = task.pr_number or task.number
    return f"{task.repo_full_name}#{number}" if task.repo_full_name and number else task.id


def url_of(task: Task, web_url: str) -> str:
    """A task's page on GitHub; none for one by hand."""
    number = task.pr_number or task.number
    if task.repo_full_name is None or not number:
        return ""
    kind = "pull" if task.pr_number else "issues"
    return f"{web_url.rstrip('/')}/{task.repo_full_name}/{kind}/{number}"


def _cause(task: Task) -> str:
    """What tells one cause from another: a wait that is repeated for one reason is one cause."""
    if task.state is not TaskState.PARKED:
        return task.state_since
    return f"{task.turn}:{sha256(task.reason.encode('utf-8', 'replace')).hexdigest()[:16]}"


def _is_long(task: Task) -> bool:
    if task.wake_at is None:
        return False
    return parse_stamp(task.wake_at) - parse_stamp(task.state_since) >= WORTH_A_CALL
