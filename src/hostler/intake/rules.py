"""Decide what issues, comments and pull requests cause. Pure functions."""

from __future__ import annotations

from dataclasses import replace

from hostler.forge.port import ItemKind
from hostler.intake.markdown import TextDependencies, parse_text_dependencies
from hostler.intake.model import (
    AddFeedback,
    ChangeTaskState,
    CommentEvent,
    IntakeDecision,
    IntakeEffect,
    IssueEvent,
    PullEvent,
    RedirectComment,
    SetPullState,
    StartTask,
    TakeOverTask,
    ThreadState,
    UpdateTaskIssue,
)
from hostler.intake.operator_commands import decide_on_command
from hostler.intake.operator_syntax import parse_command
from hostler.intake.repo_policy import RepoPolicy, find_flow, is_ignored, refusal_reason
from hostler.store.pull_requests import PullRow, PullStatus
from hostler.store.tasks import Flow, IssueRef, Task, TaskState

# No agent is running, and there is no work to see yet.
_STATES_BEFORE_WORK = frozenset(
    {TaskState.QUEUED, TaskState.RETRYING, TaskState.PARKED, TaskState.NEEDS_INPUT}
)
# Part of the event key of an issue that an operator started manually.
MANUAL_KEY_PART = ":by-hand:"
APPROVAL_VOID = "The issue was edited after it was approved, and its author is not an allowed user."
BLOCKERS_UNKNOWN = IntakeDecision("GitHub has not reported yet what blocks it.", waits=True)
APPROVAL_QUESTION = (
    "This issue was edited after it was approved. Should the work continue with the new text? "
    "A comment here by an allowed user approves it."
)


def decide_on_issue(event: IssueEvent, thread: ThreadState, policy: RepoPolicy) -> IntakeDecision:
    """Return what one version of an issue causes."""
    if not thread.is_newest:
        return IntakeDecision("A newer version of the issue is known.")
    if event.is_pull:
        return _decide_on_pull_as_issue(event, thread, policy)
    if not event.is_open:
        return _stop_tasks(thread.tasks, "The issue was closed.", "It is closed.")
    if is_ignored(policy, event.labels):
        return _take_over_tasks(thread.tasks, f"The issue has the label {policy.labels.ignore}.")
    if thread.current_task is not None:
        return _decide_on_change(event, thread, thread.current_task, policy)
    return _decide_on_new_issue(event, thread, policy)


def _find_dependencies(
    event: IssueEvent, thread: ThreadState, policy: RepoPolicy
) -> TextDependencies:
    """Return what the task of an issue depends on: by its text and by GitHub's list."""
    own = IssueRef.of(policy.repo, event.row.scope_number)
    in_text = parse_text_dependencies(event.body, own)
    names = dict.fromkeys([*in_text.names, *(thread.blocked_by or ())])
    return TextDependencies(tuple(name for name in names if name != str(own)), in_text.left_out)


def is_past_waiting(task: Task) -> bool:
    """Return whether dependencies no longer matter: the task has started, or is to start now."""
    return task.over or task.attempt > 0 or MANUAL_KEY_PART in task.issue_key


def _decide_on_new_issue(
    event: IssueEvent, thread: ThreadState, policy: RepoPolicy
) -> IntakeDecision:
    """Return whether an open issue without a task gets one."""
    found = find_flow(policy, event.labels)
    if found is None:
        wanted = ", ".join(label for label, _ in policy.flows())
        return IntakeDecision(f"It has none of the labels {wanted}.")
    if policy.allows(event.row.author):
        why = f"{event.row.author}, an allowed user, wrote it, and it has the label {found[0]}."
        return _start_task(why, StartTask(found[1], event, event.row.author), thread, policy)
    if thread.labellers is None:
        return IntakeDecision("It is not known yet who set its label.", waits=True)
    return _decide_by_label(event, thread, thread.labellers, policy)


def _decide_by_label(
    event: IssueEvent, thread: ThreadState, labellers: dict[str, str], policy: RepoPolicy
) -> IntakeDecision:
    """Decide about an issue of another user: only labels set by allowed users count."""
    who = {label.lower(): login for label, login in labellers.items()}
    trusted = [label for label in event.labels if policy.allows(who.get(label.lower(), ""))]
    found = find_flow(policy, trusted)
    if found is None:
        return IntakeDecision(
            f"{refusal_reason(event.row.author)} An allowed user can set the label instead."
        )
    label, flow = found
    by = who[label.lower()]
    why = f"{by}, an allowed user, set the label {label}."
    return _start_task(why, StartTask(flow, event, by), thread, policy)


def _start_task(
    why: str, start: StartTask, thread: ThreadState, policy: RepoPolicy
) -> IntakeDecision:
    if thread.blocked_by is None:
        return BLOCKERS_UNKNOWN
    dependencies = _find_dependencies(start.issue, thread, policy)
    reason = " ".join([why, *dependencies.left_out])
    return IntakeDecision(reason, (replace(start, waits_for=dependencies),))


def _decide_on_change(
    event: IssueEvent, thread: ThreadState, task: Task, policy: RepoPolicy
) -> IntakeDecision:
    """Decide about a new version of an issue that has a task."""
    if event.digest == task.body_digest or task.over:
        return _decide_on_same_text(event, thread, task, policy)
    dependencies = None if is_past_waiting(task) else _find_dependencies(event, thread, policy)
    if policy.allows(event.row.author):
        if thread.blocked_by is None and dependencies is not None:
            return BLOCKERS_UNKNOWN
        return IntakeDecision(
            "Its author edited the text.", (UpdateTaskIssue(task, event, dependencies),)
        )
    if task.state is TaskState.RUNNING:
        return IntakeDecision(
            "Its text was edited; the running agent keeps the old one.", waits=True
        )
    if task.state not in _STATES_BEFORE_WORK or task.pr_number is not None:
        return IntakeDecision("Its text was edited; the work continues with the approved one.")
    ask = ChangeTaskState(task, TaskState.NEEDS_INPUT, APPROVAL_VOID, APPROVAL_QUESTION)
    return IntakeDecision(APPROVAL_VOID, (UpdateTaskIssue(task, event, dependencies), ask))


def _decide_on_same_text(
    event: IssueEvent, thread: ThreadState, task: Task, policy: RepoPolicy
) -> IntakeDecision:
    """Decide about an unchanged text; GitHub's list of blocking issues may have changed."""
    if is_past_waiting(task):
        return IntakeDecision("It already has a task.")
    if thread.blocked_by is None:
        return BLOCKERS_UNKNOWN
    dependencies = _find_dependencies(event, thread, policy)
    if dependencies.names == task.depends_on:
        return IntakeDecision("It already has a task.")
    return IntakeDecision(
        "Its dependencies have changed.", (UpdateTaskIssue(task, event, dependencies),)
    )


def _decide_on_pull_as_issue(
    event: IssueEvent, thread: ThreadState, policy: RepoPolicy
) -> IntakeDecision:
    going = thread.pull is not None and not thread.pull.final
    if going and thread.pull_task is not None and is_ignored(policy, event.labels):
        return _take_over_tasks(
            (thread.pull_task,), f"The pull request has the label {policy.labels.ignore}."
        )
    return IntakeDecision("It is a pull request: its labels start no task.")


def _take_over_tasks(tasks: tuple[Task, ...], reason: str) -> IntakeDecision:
    """Hand tasks over to users, also those that were stopped before."""
    stopped = _stop_tasks(tasks, reason, reason)
    return replace(stopped, effects=(*stopped.effects, *map(TakeOverTask, tasks)))


def _stop_tasks(tasks: tuple[Task, ...], reason: str, otherwise: str) -> IntakeDecision:
    going = [task for task in tasks if not task.over]
    effects: tuple[IntakeEffect, ...] = tuple(
        ChangeTaskState(task, TaskState.STOPPED, reason) for task in going
    )
    return IntakeDecision(reason if effects else otherwise, effects)


TASK_BLOCKED = IntakeDecision(
    "The task is blocked; the comment will be processed when it continues.", waits=True, held=True
)


def decide_on_comment(
    comment: CommentEvent, thread: ThreadState, policy: RepoPolicy
) -> IntakeDecision:
    """Return what one version of a comment causes."""
    if not thread.is_newest:
        return IntakeDecision("It was edited since; the newer version counts.")
    command = parse_command(comment.body)
    if command is None:
        return _decide_on_text(comment, thread, policy)
    decided = decide_on_command(comment, command, thread, policy)
    if decided.waits or not comment.has_agent_text(policy.is_operator(comment.row.author)):
        return decided
    # The rest of a comment by a user who is not an operator counts like any other comment.
    other = _decide_on_text(comment, thread, policy)
    return replace(other, effects=(*decided.effects, *other.effects))


def _decide_on_text(
    comment: CommentEvent, thread: ThreadState, policy: RepoPolicy
) -> IntakeDecision:
    if not policy.allows(comment.row.author):
        return IntakeDecision(refusal_reason(comment.row.author))
    if comment.is_empty:
        return IntakeDecision("It asks for nothing.")
    if comment.row.updated_at < thread.floors.comments_since:
        return IntakeDecision("It was made while users had taken over the work.")
    if thread.pull is not None and thread.pull_task is not None:
        return _decide_on_pull_comment(comment, thread, thread.pull_task)
    if thread.current_task is not None and comment.row.kind == ItemKind.ISSUE_COMMENT:
        return _decide_on_issue_comment(comment, thread, thread.current_task)
    if thread.pull_opening:
        return IntakeDecision("A pull request is being opened; it may be about that.", waits=True)
    return IntakeDecision("No task belongs to it.")


def _decide_on_pull_comment(
    comment: CommentEvent, thread: ThreadState, task: Task
) -> IntakeDecision:
    assert thread.pull is not None
    if thread.pull.final:
        return IntakeDecision(f"The pull request is {thread.pull.status}, which is final.")
    if task.over:
        return IntakeDecision(f"The task is {task.state}.")
    if thread.pull.status is PullStatus.BLOCKED or task.state is TaskState.BLOCKED:
        return TASK_BLOCKED
    return IntakeDecision(
        f"{comment.row.author} commented.", (AddFeedback(task, comment, thread.pull.pr_number),)
    )


def _decide_on_issue_comment(
    comment: CommentEvent, thread: ThreadState, task: Task
) -> IntakeDecision:
    if task.over:
        return IntakeDecision(f"The task is {task.state}.")
    if task.state is TaskState.BLOCKED:
        return TASK_BLOCKED
    if task.state is TaskState.NEEDS_INPUT:
        return IntakeDecision(f"{comment.row.author} answered.", (AddFeedback(task, comment, 0),))
    if task.pr_number is None or _was_delivered(comment, thread):
        return IntakeDecision(
            f"{comment.row.author} commented on the issue.", (AddFeedback(task, comment, 0),)
        )
    if _was_redirected(comment, thread):
        return IntakeDecision("Its author was redirected to the pull request before.")
    return IntakeDecision(
        f"The work is discussed on pull request {task.pr_number}.",
        (RedirectComment(task, comment, task.pr_number),),
    )


def _was_delivered(comment: CommentEvent, thread: ThreadState) -> bool:
    """Return whether an agent got the comment before, or it was made before the pull request."""
    before = comment.row.object_id <= thread.floors.pre_pr_last_consumed_comment_id
    return thread.delivered or (before and not thread.redirected)


def _was_redirected(comment: CommentEvent, thread: ThreadState) -> bool:
    """Return whether the author was redirected before; an edit gets no second reply."""
    below = comment.row.object_id <= thread.floors.post_pr_last_redirected_comment_id
    return thread.redirected or (below and not thread.is_first)


def decide_on_pull(event: PullEvent, thread: ThreadState, policy: RepoPolicy) -> IntakeDecision:
    """Return what one version of a pull request causes."""
    if not thread.is_newest:
        return IntakeDecision("A newer version of the pull request is known.")
    if thread.pull is None or thread.pull_task is None:
        if thread.pull_opening:
            return IntakeDecision("A pull request is being opened; it may be this one.", waits=True)
        return IntakeDecision("Hostler did not open it.")
    if thread.pull.final:
        return IntakeDecision(f"It is {thread.pull.status}, which is final.")
    if event.merged:
        return _decide_on_merge(event, thread, thread.pull, thread.pull_task, policy)
    if not event.is_open:
        return _decide_on_close(event, thread.pull, thread.pull_task)
    if event.head_sha == thread.pull.last_seen_head_sha:
        return IntakeDecision("Nothing relevant has changed.")
    moved = SetPullState(thread.pull, thread.pull.status, event.head_sha)
    return IntakeDecision("It has a new head.", (moved,))


def _decide_on_merge(
    event: PullEvent, thread: ThreadState, pull: PullRow, task: Task, policy: RepoPolicy
) -> IntakeDecision:
    effects: list[IntakeEffect] = [SetPullState(pull, PullStatus.MERGED, event.head_sha)]
    if task.state is not TaskState.DONE:
        effects.append(
            ChangeTaskState(task, TaskState.DONE, f"Pull request {pull.pr_number} was merged.")
        )
    if task.flow is Flow.DESIGN:
        effects += _start_implementation(event, thread, task, policy)
    return IntakeDecision("It was merged.", tuple(effects))


def _start_implementation(
    event: PullEvent, thread: ThreadState, design: Task, policy: RepoPolicy
) -> list[IntakeEffect]:
    """Start the implementation of a merged design.

    Not if its issue is closed, or if the issue or the pull request has the ignore label: then users
    have taken over the work.
    """
    issue = thread.issue
    if issue is None or not issue.is_open or is_ignored(policy, {*issue.labels, *event.labels}):
        return []
    if any(task.flow is Flow.IMPLEMENTATION for task in thread.tasks):
        return []
    return [
        StartTask(
            Flow.IMPLEMENTATION,
            issue,
            design.approved_by,
            parent=design,
            comments_since=event.merged_at,
        )
    ]


def _decide_on_close(event: PullEvent, pull: PullRow, task: Task) -> IntakeDecision:
    reason = f"Pull request {pull.pr_number} was closed without merging."
    effects: list[IntakeEffect] = [SetPullState(pull, PullStatus.CLOSED, event.head_sha)]
    if not task.over:
        effects.append(ChangeTaskState(task, TaskState.STOPPED, reason))
    return IntakeDecision(reason, tuple(effects))
