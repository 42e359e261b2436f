"""The status comment: one per task, with its state and what happens next.

Its text is a function of the task. At most one write of it is pending at a time; when that write is
settled, the newest text is queued.
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
    TaskState.QUEUED: "An agent starts as soon as a slot is free.",
    TaskState.RUNNING: "An agent is working on this and will open a pull request.",
    TaskState.RETRYING: "Retrying{at}.",
    TaskState.PARKED: "Waiting; retrying{at}.",
    TaskState.AWAITING_FEEDBACK: (
        "Review {pull}. Comments there will be addressed; merging it completes the task, closing "
        "it stops the task."
    ),
    TaskState.NEEDS_INPUT: "Reply to the question with a comment to continue.",
    TaskState.BLOCKED: (
        "Fix the cause. Then an operator can comment `/hostler unblock`, or run "
        "`hostler run {name}`, to continue."
    ),
    TaskState.STOPPED: (
        "An operator can comment `/hostler retry`, or run `hostler run {name}`, to start again."
    ),
    TaskState.DONE: "Nothing more to do.",
    TaskState.FAILED: (
        "An operator can comment `/hostler retry`, or run `hostler run {name}`, to start again."
    ),
}


def render_status_comment(task: Task) -> str:
    """Return the text: the task's state, the reason, and what happens next."""
    at = f" at {task.wake_at[:16].replace('T', ' ')} UTC" if task.wake_at else " now"
    pull = f"#{task.pr_number}" if task.pr_number else "the pull request"
    name = f"{task.repo_full_name}#{task.number}"
    then = _NEXT_STEPS[task.state].format(at=at, pull=pull, name=name)
    if task.flow is Flow.DESIGN and task.state is TaskState.DONE:
        then = "The implementation starts next."
    if task.state is TaskState.QUEUED and task.depends_on and not task.attempt:
        awaited = _list_dependencies(task.depends_on)
        then = f"An agent starts when {awaited} done and a slot is free."
    why = f"{task.reason}\n\n" if task.reason else ""
    where = f" · {pull}" if task.pr_number else ""
    state = task.state.value.replace("_", " ")
    return f"**Hostler** · {_FLOW_NAMES[task.flow]} · {state}{where}\n\n{why}*Next:* {then}"


def text_digest(text: str) -> str:
    """Return a digest by which a text is recognised."""
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:24]


def publish_status_comment(tx: Transaction, task: Task) -> Task:
    """Queue the comment, or its edit, if the text differs from the last one."""
    text = render_status_comment(task)
    digest = text_digest(text)
    if task.repo_full_name is None or not task.number:
        return task
    last = find_write(tx, task.repo, task.status_token) if task.status_token else None
    if last is not None and not last.settled:
        return task  # `handle_settled_write` calls this again.
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
    """Return the names with a verb, shortened if there are many."""
    if len(names) == 1:
        return f"{names[0]} is"
    if len(names) > MAX_LISTED:
        names = (*names[:MAX_LISTED], f"{len(names) - MAX_LISTED} others")
    return f"{', '.join(names[:-1])} and {names[-1]} are"


def _was_deleted(last: OutboxRow | None) -> bool:
    """Return whether the last edit failed, so that a new comment replaces the old one."""
    return last is not None and last.state is WriteState.FAILED and last.kind == EditComment.kind


def _last_write_number(task: Task) -> int:
    return int(task.status_token.rpartition(":")[2] or 0)
