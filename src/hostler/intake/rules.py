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

# Before an agent is at work, and before there is anything of its work to see.
_STATES_BEFORE_WORK = frozenset(
    {TaskState.QUEUED, TaskState.RETRYING, TaskState.PARKED, TaskState.NEEDS_INPUT}
)
# In the key of a version that the operator brought in.
MANUAL_KEY_PART = ":by-hand:"
APPROVAL_VOID = (
    "The issue's text was changed after it was approved, and its author is not allowed here."
)
BLOCKERS_UNKNOWN = IntakeDecision("GitHub did not say yet what it is blocked by.", waits=True)
APPROVAL_QUESTION = (
    "The text of this issue was changed after it was approved. "
    "Shall the work go on with the new text? A comment here by somebody allowed approves it."
)


def decide_on_issue(seen: IssueEvent, known: ThreadState, policy: RepoPolicy) -> IntakeDecision:
    """What one version of an issue causes."""
    if not known.newest:
        return IntakeDecision("A newer version of the issue is known.")
    if seen.is_pull:
        return _decide_on_pull_as_issue(seen, known, policy)
    if not seen.is_open:
        return _stop_tasks(known.tasks, "The issue was closed.", "It is closed.")
    if is_ignored(policy, seen.labels):
        return _take_over_tasks(known.tasks, f"The issue carries {policy.labels.ignore}.")
    if known.present is not None:
        return _decide_on_change(seen, known, known.present, policy)
    return decide_on_new_issue(seen, known, policy)


def find_dependencies(seen: IssueEvent, known: ThreadState, policy: RepoPolicy) -> TextDependencies:
    """What the task of an issue has to wait for: by its text, and by GitHub's own list."""
    own = IssueRef.of(policy.repo, seen.row.scope_number)
    said = parse_text_dependencies(seen.body, own)
    names = dict.fromkeys([*said.names, *(known.blocked_by or ())])
    return TextDependencies(tuple(name for name in names if name != str(own)), said.left_out)


def is_past_waiting(task: Task) -> bool:
    """Whether a task is past waiting for others: it has begun, or the operator said now."""
    return task.over or task.attempt > 0 or MANUAL_KEY_PART in task.issue_key


def decide_on_new_issue(seen: IssueEvent, known: ThreadState, policy: RepoPolicy) -> IntakeDecision:
    """Whether an open issue without a task becomes one."""
    found = find_flow(policy, seen.labels)
    if found is None:
        wanted = ", ".join(label for label, _ in policy.flows())
        return IntakeDecision(f"It carries none of the labels {wanted}.")
    if policy.allows(seen.row.author):
        why = f"{seen.row.author}, who is allowed, wrote it, and it carries {found[0]}."
        return _start_task(why, StartTask(found[1], seen, seen.row.author), known, policy)
    if known.labellers is None:
        return IntakeDecision("Who put its label there is not known yet.", waits=True)
    return _decide_by_label(seen, known, known.labellers, policy)


def _decide_by_label(
    seen: IssueEvent, known: ThreadState, labellers: dict[str, str], policy: RepoPolicy
) -> IntakeDecision:
    """A stranger's issue: only labels put there by somebody allowed count."""
    who = {label.lower(): login for label, login in labellers.items()}
    trusted = [label for label in seen.labels if policy.allows(who.get(label.lower(), ""))]
    found = find_flow(policy, trusted)
    if found is None:
        return IntakeDecision(
            f"{refusal_reason(seen.row.author)} Somebody who is may put the label there instead."
        )
    label, flow = found
    by = who[label.lower()]
    why = f"{by}, who is allowed, put {label} on it."
    return _start_task(why, StartTask(flow, seen, by), known, policy)


def _start_task(
    why: str, begin: StartTask, known: ThreadState, policy: RepoPolicy
) -> IntakeDecision:
    if known.blocked_by is None:
        return BLOCKERS_UNKNOWN
    named = find_dependencies(begin.issue, known, policy)
    told = " ".join([why, *named.left_out])
    return IntakeDecision(told, (replace(begin, waits_for=named),))


def _decide_on_change(
    seen: IssueEvent, known: ThreadState, task: Task, policy: RepoPolicy
) -> IntakeDecision:
    """A new version of an issue that has a task."""
    if seen.digest == task.body_digest or task.over:
        return _decide_on_same_text(seen, known, task, policy)
    named = None if is_past_waiting(task) else find_dependencies(seen, known, policy)
    if policy.allows(seen.row.author):
        if known.blocked_by is None and named is not None:
            return BLOCKERS_UNKNOWN
        return IntakeDecision("Its author changed the text.", (UpdateTaskIssue(task, seen, named),))
    if task.state is TaskState.RUNNING:
        return IntakeDecision(
            "Its text was changed; the agent at work keeps the old one.", waits=True
        )
    if task.state not in _STATES_BEFORE_WORK or task.pr_number is not None:
        return IntakeDecision("Its text was changed; the work goes on from the approved one.")
    asked = ChangeTaskState(task, TaskState.NEEDS_INPUT, APPROVAL_VOID, APPROVAL_QUESTION)
    return IntakeDecision(APPROVAL_VOID, (UpdateTaskIssue(task, seen, named), asked))


def _decide_on_same_text(
    seen: IssueEvent, known: ThreadState, task: Task, policy: RepoPolicy
) -> IntakeDecision:
    """The same words as before; what GitHub lists as blocking it may be others."""
    if is_past_waiting(task):
        return IntakeDecision("It has its task already.")
    if known.blocked_by is None:
        return BLOCKERS_UNKNOWN
    named = find_dependencies(seen, known, policy)
    if named.names == task.depends_on:
        return IntakeDecision("It has its task already.")
    return IntakeDecision("What it waits for has changed.", (UpdateTaskIssue(task, seen, named),))


def _decide_on_pull_as_issue(
    seen: IssueEvent, known: ThreadState, policy: RepoPolicy
) -> IntakeDecision:
    going = known.pull is not None and not known.pull.final
    if going and known.pull_task is not None and is_ignored(policy, seen.labels):
        return _take_over_tasks(
            (known.pull_task,), f"The pull request carries {policy.labels.ignore}."
        )
    return IntakeDecision("It is a pull request: labels there start nothing.")


def _take_over_tasks(tasks: tuple[Task, ...], reason: str) -> IntakeDecision:
    """People have the work; also that of a task that was stopped before."""
    stopped = _stop_tasks(tasks, reason, reason)
    return replace(stopped, effects=(*stopped.effects, *map(TakeOverTask, tasks)))


def _stop_tasks(tasks: tuple[Task, ...], reason: str, otherwise: str) -> IntakeDecision:
    going = [task for task in tasks if not task.over]
    effects: tuple[IntakeEffect, ...] = tuple(
        ChangeTaskState(task, TaskState.STOPPED, reason) for task in going
    )
    return IntakeDecision(reason if effects else otherwise, effects)


TASK_BLOCKED = IntakeDecision(
    "The task is blocked; it is heard when it goes on.", waits=True, held=True
)


def decide_on_comment(said: CommentEvent, known: ThreadState, policy: RepoPolicy) -> IntakeDecision:
    """What one version of somebody's words causes."""
    if not known.newest:
        return IntakeDecision("It was changed since; the newer version counts.")
    asked = parse_command(said.body)
    if asked is None:
        return _decide_on_text(said, known, policy)
    decided = decide_on_command(said, asked, known, policy)
    if decided.waits or not said.is_work(policy.is_operator(said.row.author)):
        return decided
    # Of somebody who gives no commands, the other words in it are heard like any.
    heard = _decide_on_text(said, known, policy)
    return replace(heard, effects=(*decided.effects, *heard.effects))


def _decide_on_text(said: CommentEvent, known: ThreadState, policy: RepoPolicy) -> IntakeDecision:
    if not policy.allows(said.row.author):
        return IntakeDecision(refusal_reason(said.row.author))
    if said.is_empty:
        return IntakeDecision("It asks for nothing.")
    if said.row.updated_at < known.floors.comments_since:
        return IntakeDecision("It was said while people had the work.")
    if known.pull is not None and known.pull_task is not None:
        return _decide_on_pull_comment(said, known, known.pull_task)
    if known.present is not None and said.row.kind == ItemKind.ISSUE_COMMENT:
        return _decide_on_issue_comment(said, known, known.present)
    if known.opening:
        return IntakeDecision(
            "A pull request is just being opened; it may be about that.", waits=True
        )
    return IntakeDecision("There is no task for it.")


def _decide_on_pull_comment(said: CommentEvent, known: ThreadState, task: Task) -> IntakeDecision:
    assert known.pull is not None
    if known.pull.final:
        return IntakeDecision(f"The pull request is {known.pull.status}, which is final.")
    if task.over:
        return IntakeDecision(f"The task is {task.state}.")
    if known.pull.status is PullStatus.BLOCKED or task.state is TaskState.BLOCKED:
        return TASK_BLOCKED
    return IntakeDecision(
        f"{said.row.author} said it.", (AddFeedback(task, said, known.pull.pr_number),)
    )


def _decide_on_issue_comment(said: CommentEvent, known: ThreadState, task: Task) -> IntakeDecision:
    if task.over:
        return IntakeDecision(f"The task is {task.state}.")
    if task.state is TaskState.BLOCKED:
        return TASK_BLOCKED
    if task.state is TaskState.NEEDS_INPUT:
        return IntakeDecision(f"{said.row.author} answers.", (AddFeedback(task, said, 0),))
    if task.pr_number is None or _was_delivered(said, known):
        return IntakeDecision(
            f"{said.row.author} said it on the issue.", (AddFeedback(task, said, 0),)
        )
    if _was_redirected(said, known):
        return IntakeDecision("It was sent to the pull request before.")
    return IntakeDecision(
        f"The work is talked about on pull request {task.pr_number}.",
        (RedirectComment(task, said, task.pr_number),),
    )


def _was_delivered(said: CommentEvent, known: ThreadState) -> bool:
    """What an agent was told before, or was said before there was a pull request, is told."""
    before = said.row.object_id <= known.floors.pre_pr_last_consumed_comment_id
    return known.told or (before and not known.redirected)


def _was_redirected(said: CommentEvent, known: ThreadState) -> bool:
    """An edit gets no second reply. A first version below the floor has only come late."""
    below = said.row.object_id <= known.floors.post_pr_last_redirected_comment_id
    return known.redirected or (below and not known.first)


def decide_on_pull(seen: PullEvent, known: ThreadState, policy: RepoPolicy) -> IntakeDecision:
    """What one version of a pull request causes."""
    if not known.newest:
        return IntakeDecision("A newer version of the pull request is known.")
    if known.pull is None or known.pull_task is None:
        if known.opening:
            return IntakeDecision(
                "A pull request is just being opened; it may be this.", waits=True
            )
        return IntakeDecision("It is not ours.")
    if known.pull.final:
        return IntakeDecision(f"It is {known.pull.status}, which is final.")
    if seen.merged:
        return _decide_on_merge(seen, known, known.pull, known.pull_task, policy)
    if not seen.is_open:
        return _decide_on_close(seen, known.pull, known.pull_task)
    if seen.head_sha == known.pull.last_seen_head_sha:
        return IntakeDecision("Nothing that matters here has changed.")
    moved = SetPullState(known.pull, known.pull.status, seen.head_sha)
    return IntakeDecision("It has a new head.", (moved,))


def _decide_on_merge(
    seen: PullEvent, known: ThreadState, pull: PullRow, task: Task, policy: RepoPolicy
) -> IntakeDecision:
    effects: list[IntakeEffect] = [SetPullState(pull, PullStatus.MERGED, seen.head_sha)]
    if task.state is not TaskState.DONE:
        effects.append(
            ChangeTaskState(task, TaskState.DONE, f"Pull request {pull.pr_number} was merged.")
        )
    if task.flow is Flow.DESIGN:
        effects += _start_implementation(seen, known, task, policy)
    return IntakeDecision("It was merged.", tuple(effects))


def _start_implementation(
    seen: PullEvent, known: ThreadState, design: Task, policy: RepoPolicy
) -> list[IntakeEffect]:
    """Begin the implementation of a merged design.

    Not if its issue is closed, or if the issue or the pull request carries the ignore label:
    then people have the work.
    """
    issue = known.issue
    if issue is None or not issue.is_open or is_ignored(policy, {*issue.labels, *seen.labels}):
        return []
    if any(task.flow is Flow.IMPLEMENTATION for task in known.tasks):
        return []
    return [
        StartTask(
            Flow.IMPLEMENTATION,
            issue,
            design.approved_by,
            parent=design,
            comments_since=seen.merged_at,
        )
    ]


def _decide_on_close(seen: PullEvent, pull: PullRow, task: Task) -> IntakeDecision:
    reason = f"Pull request {pull.pr_number} was closed without merging."
    effects: list[IntakeEffect] = [SetPullState(pull, PullStatus.CLOSED, seen.head_sha)]
    if not task.over:
        effects.append(ChangeTaskState(task, TaskState.STOPPED, reason))
    return IntakeDecision(reason, tuple(effects))
