"""The status comment: one per task, saying its state and what happens next.

Its text is a function of the task. At most one write of it is open at a time; when that one is
settled, the newest text follows.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

from hostler.forge.actions import CreateComment, EditComment
from hostler.forge.outbox.queue import enqueue_action
from hostler.store.outbox import Lane, OutboxRow, WriteState, find_write
from hostler.store.tasks import Flow, Task, TaskState, change_task
from hostler.store.transaction import Transaction

STATUS_PREFIX = "status"
MAX_LISTED = 5
_FLOW_NAMES = {
    Flow.DESIGN: "design",
    Flow.BUGFIX: "bugfix",
    Flow.SMALL_JOB: "small job",
    Flow.IMPLEMENTATION: "implementation",
    Flow.TASK: "task",
}
_NEXT_STEPS = {
    TaskState.QUEUED: "An agent starts as soon as there is a place for it.",
    TaskState.RUNNING: "An agent is at work. Its work comes as a pull request.",
    TaskState.RETRYING: "It is tried again{at}.",
    TaskState.PARKED: "It waits and is tried again{at}.",
    TaskState.AWAITING_FEEDBACK: (
        "Review {pull}: comments there are taken up, merging it ends the task, closing it stops it."
    ),
    TaskState.NEEDS_INPUT: "Answer the question with a comment, and the work goes on.",
    TaskState.BLOCKED: "It needs the operator. When that is mended: `hostler run {name}`.",
    TaskState.STOPPED: "Nothing more happens by itself. The operator can start it again.",
    TaskState.DONE: "Nothing is left to do.",
    TaskState.FAILED: "It was given up. The operator can start it again: `hostler run {name}`.",
}


def render_status_comment(task: Task) -> str:
    """Where a task is, why, and what happens next."""
    at = f" at {task.wake_at[:16].replace('T', ' ')} UTC" if task.wake_at else " at once"
    pull = f"#{task.pr_number}" if task.pr_number else "the pull request"
    name = f"{task.repo_full_name}#{task.number}"
    then = _NEXT_STEPS[task.state].format(at=at, pull=pull, name=name)
    if task.flow is Flow.DESIGN and task.state is TaskState.DONE:
        then = "The implementation follows."
    if task.state is TaskState.QUEUED and task.depends_on and not task.attempt:
        awaited = _list_dependencies(task.depends_on)
        then = f"An agent starts when {awaited} done, and there is a place for it."
    why = f"{task.reason}\n\n" if task.reason else ""
    where = f" · {pull}" if task.pr_number else ""
    state = task.state.value.replace("_", " ")
    return f"**Hostler** · {_FLOW_NAMES[task.flow]} · {state}{where}\n\n{why}*Next:* {then}"


def text_digest(text: str) -> str:
    """What is kept of a text, to know it again."""
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:24]


def publish_status_comment(tx: Transaction, task: Task) -> Task:
    """Queue the status comment, or its change, if the text is another than the last one."""
    text = render_status_comment(task)
    digest = text_digest(text)
    if task.repo_full_name is None or not task.number:
        return task
    last = find_write(tx, task.repo, task.status_token) if task.status_token else None
    if last is not None and not last.settled:
        return task  # Whoever settles that one comes back here.
    if digest == task.status_digest and not _was_deleted(last):
        return task
    if last is not None and last.state is WriteState.SENT and last.result_id:
        deed: CreateComment | EditComment = EditComment(task.number, last.result_id, text)
    else:
        deed = CreateComment(task.number, text)
    token = f"{STATUS_PREFIX}:{task.id}:{_last_write_number(task) + 1}"
    enqueue_action(tx, task.repo, deed, token=token, lane=Lane.STATUS, source="status")
    return change_task(tx, task, replace(task, status_token=token, status_digest=digest))


def _list_dependencies(names: tuple[str, ...]) -> str:
    """What is waited for, with its verb; a long list is cut."""
    if len(names) == 1:
        return f"{names[0]} is"
    if len(names) > MAX_LISTED:
        names = (*names[:MAX_LISTED], f"{len(names) - MAX_LISTED} others")
    return f"{', '.join(names[:-1])} and {names[-1]} are"


def _was_deleted(last: OutboxRow | None) -> bool:
    """A comment that cannot be changed any more is replaced; one that cannot be made is not."""
    return last is not None and last.state is WriteState.FAILED and last.kind == EditComment.kind


def _last_write_number(task: Task) -> int:
    return int(task.status_token.rpartition(":")[2] or 0)
