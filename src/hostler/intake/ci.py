"""Failing CI of a pull request: read its state, decide what it causes, and store that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import assert_never

from hostler.errors import ForgeError
from hostler.forge.actions import CreateComment, OpenIssue, RerunFailedJobs, decode_action
from hostler.forge.events import content_as
from hostler.forge.outbox.queue import build_token, enqueue_action
from hostler.forge.port import Forge, ItemKind, WorkflowRun
from hostler.intake.model import (
    AddCiFeedback,
    AskAboutCi,
    BlockTask,
    CiEffect,
    CiState,
    IntakeDecision,
    IntakeEffect,
    RerunFlakyCheck,
    ThreadState,
    WorkflowRunEvent,
    parse_event,
)
from hostler.intake.repo_policy import RepoPolicy
from hostler.intake.rules import TASK_BLOCKED
from hostler.store.inbox import (
    FeedbackEvent,
    record_feedback_event,
    rows_of_thread,
    rows_to_look_at,
    supersede,
    told_keys,
)
from hostler.store.outbox import Lane, find_write
from hostler.store.pull_requests import PullRow, PullStatus, change_pull, find_pull
from hostler.store.tasks import Task, TaskState, change_task, require_task
from hostler.store.transaction import Transaction

# In these states a failure joins the next turn; otherwise it waits for the present one.
_READY_STATES = (TaskState.AWAITING_FEEDBACK, TaskState.QUEUED)
# How much of a check's name is shown.
MAX_CHECK_NAME = 80


def decide_on_run(
    event: WorkflowRunEvent, thread: ThreadState, policy: RepoPolicy
) -> IntakeDecision:
    """Return what one finished attempt of a workflow run causes."""
    pull, task = thread.pull, thread.pull_task
    if pull is None or task is None:
        return IntakeDecision("It does not belong to a pull request of Hostler.")
    if pull.final or task.over:
        return IntakeDecision("Its pull request is finished.")
    idle = _ignore_reason(event.run, pull, policy) or (
        "" if thread.is_newest else "It was rerun since; the newer attempt counts."
    )
    if idle:
        return IntakeDecision(idle)
    if pull.status is PullStatus.BLOCKED or task.state is TaskState.BLOCKED:
        return TASK_BLOCKED
    return _decide_on_failures(thread, pull, task, policy)


def _ignore_reason(run: WorkflowRun, pull: PullRow, policy: RepoPolicy) -> str:
    """Return why a run does not count for a pull request; empty if it does."""
    if policy.ci == "never":
        return "The settings ignore CI."
    if run.head_sha != pull.last_seen_head_sha:
        return "It belongs to an older head."
    if run.foreign or (run.branch and run.branch != pull.branch):
        return "It belongs to another branch with the same commit."
    return ""


def _decide_on_failures(
    thread: ThreadState, pull: PullRow, task: Task, policy: RepoPolicy
) -> IntakeDecision:
    checks = thread.checks
    failed = find_failures(checks)
    if not failed:
        return IntakeDecision("This head has no new failures.")
    if policy.ci == "all_complete":
        if checks.unfinished is None:
            return IntakeDecision("GitHub has not reported yet what else runs.", waits=True)
        if checks.unfinished:
            return IntakeDecision("Other runs of this head are unfinished.")
    if task.state not in _READY_STATES:
        return IntakeDecision(f"The task is {task.state}; the failure waits.", waits=True)
    return _choose_effects(failed, checks, pull, task, policy)


def _choose_effects(
    failed: tuple[WorkflowRunEvent, ...],
    checks: CiState,
    pull: PullRow,
    task: Task,
    policy: RepoPolicy,
) -> IntakeDecision:
    failed_again = [one for one in failed if one.run.check in checks.reruns]
    if failed_again:
        return IntakeDecision(
            "It failed again.", (BlockTask(task, pull, _render_second_failure(failed_again)),)
        )
    flaky = [one for one in failed if _has_passed_before(one, checks)]
    rest = tuple(one for one in failed if one not in flaky)
    effects: list[IntakeEffect] = [
        RerunFlakyCheck(task, one, PASSED_BEFORE_REASON) for one in flaky
    ]
    if rest and pull.turns_without_person >= policy.turns_without_person:
        effects.append(AskAboutCi(task, rest, pull.pr_number, _render_too_many_turns(rest, pull)))
    elif rest:
        effects.append(AddCiFeedback(task, rest, pull.pr_number))
    return IntakeDecision(f"CI failed: {list_checks(failed)}.", tuple(effects))


def find_failures(checks: CiState) -> tuple[WorkflowRunEvent, ...]:
    """Return failed runs that are new: not delivered yet, and not being rerun.

    Only the newest run of each check counts.
    """
    newest: dict[str, WorkflowRunEvent] = {}
    for one in checks.attempts:
        newest[one.run.check] = one
    return tuple(
        one
        for one in newest.values()
        if one.run.failed
        and one.row.event_key not in checks.delivered
        and not _is_rerunning(one, checks)
    )


def _is_rerunning(one: WorkflowRunEvent, checks: CiState) -> bool:
    asked = checks.reruns.get(one.run.check)
    return asked is not None and asked.run_id == one.run.id and one.run.attempt <= asked.attempt


def _has_passed_before(failed: WorkflowRunEvent, checks: CiState) -> bool:
    """Return whether the same check passed on this commit, so that the failure may be a flake."""
    return any(one.run.passed and one.run.check == failed.run.check for one in checks.attempts)


PASSED_BEFORE_REASON = "The same check passed on the same commit before."


def build_rerun(failed: WorkflowRunEvent) -> tuple[RerunFailedJobs, str]:
    """Return the rerun of a suspected flake: one per check and head."""
    run = failed.run
    action = RerunFailedJobs(failed.row.scope_number, run.id, run.attempt)
    return action, _rerun_token(run.head_sha, run.check)


def _rerun_token(head_sha: str, check: str) -> str:
    """Return the token of a rerun: one per check and head."""
    return build_token("rerun", head_sha, check)


def build_flaky_issue(failed: WorkflowRunEvent, why: str) -> tuple[OpenIssue, str]:
    """Return the issue about a suspected flake: one per check."""
    run, name = failed.run, clean_check_name(failed.run.check)
    body = (
        f"Check `{name}` failed on #{failed.row.scope_number} at {run.head_sha}, but the commit is "
        f"probably not the cause. {why}\n\nRun: {run.url or run.id}. Hostler reruns it once; if it "
        "fails again, the pull request waits for a user.\n\n"
        "Hostler opens one such issue per check. Close it when the check is reliable again."
    )
    return OpenIssue(f"Flaky: {name}", body), build_token("flaky", run.check)


def _render_second_failure(failed_again: Iterable[WorkflowRunEvent]) -> str:
    """Return the text for a rerun that failed again."""
    listed = "\n".join(
        f"- `{clean_check_name(one.run.check)}`: {one.run.url or one.run.id}"
        for one in failed_again
    )
    return (
        f"CI failed, and failed again in a rerun without changes:\n\n{listed}\n\n"
        "All work is on the branch of the pull request. How should this continue? Fix or rerun the "
        "check, or comment what should change. Then an operator can comment `/hostler unblock` "
        "to continue."
    )


def _render_too_many_turns(failed: Iterable[WorkflowRunEvent], pull: PullRow) -> str:
    """Return the question after too many turns that only CI caused."""
    return (
        f"CI fails ({list_checks(failed)}), and {pull.turns_without_person} turns passed without a "
        "comment from a user. All work is on the branch of the pull request. How should this "
        "continue?"
    )


def list_checks(runs: Iterable[WorkflowRunEvent]) -> str:
    """Return the names of checks, for a sentence."""
    return ", ".join(sorted({f"`{clean_check_name(one.run.check)}`" for one in runs}))


def clean_check_name(name: str) -> str:
    """Return a check's name for use between backticks. Anyone who writes workflows chooses it."""
    return " ".join(name.replace("`", "'").split())[:MAX_CHECK_NAME]


# By head: its unfinished runs when GitHub was queried.
UnfinishedRuns = Mapping[str, tuple[WorkflowRun, ...]]


def find_heads_to_query(tx: Transaction, policy: RepoPolicy) -> list[str]:
    """Return the heads for which GitHub must be queried whether all of their runs are finished."""
    if policy.ci != "all_complete":
        return []
    rows = rows_to_look_at(tx, policy.repo, (ItemKind.WORKFLOW_RUN.value,))
    pulls = (find_pull(tx, policy.repo, number) for number in {row.scope_number for row in rows})
    return sorted(
        pull.last_seen_head_sha
        for pull in pulls
        if pull and not pull.final and pull.last_seen_head_sha
    )


def fetch_unfinished_runs(forge: Forge, heads: Iterable[str]) -> dict[str, tuple[WorkflowRun, ...]]:
    """Query the unfinished runs of these heads, outside of any transaction.

    Heads for which the query fails are left out: their events stay in the inbox.
    """
    found: dict[str, tuple[WorkflowRun, ...]] = {}
    for head in heads:
        try:
            runs = [content_as(item, WorkflowRun) for item in forge.list_commit_runs(head).items]
        except ForgeError:
            continue
        found[head] = tuple(run for run in runs if not run.over)
    return found


def read_ci_state(
    tx: Transaction, policy: RepoPolicy, pull: PullRow, unfinished: UnfinishedRuns | None
) -> CiState:
    """Read the CI of a pull request's present head."""
    kind, head = ItemKind.WORKFLOW_RUN.value, pull.last_seen_head_sha
    rows = rows_of_thread(tx, policy.repo, pull.pr_number, kind, naming=head)
    events = [parse_event(row) for row in rows]
    attempts = tuple(
        one for one in events if isinstance(one, WorkflowRunEvent) and _is_run_of(one.run, pull)
    )
    keys = [one.row.event_key for one in attempts]
    return CiState(
        attempts,
        frozenset(told_keys(tx, policy.repo, keys)),
        _find_reruns(tx, policy, pull, {one.run.check for one in attempts}),
        _is_running(policy, pull, attempts, unfinished),
    )


def _is_run_of(run: WorkflowRun, pull: PullRow) -> bool:
    here = run.head_sha == pull.last_seen_head_sha and not run.foreign
    return here and run.branch in ("", pull.branch)


def _find_reruns(
    tx: Transaction, policy: RepoPolicy, pull: PullRow, checks: Iterable[str]
) -> dict[str, RerunFailedJobs]:
    found: dict[str, RerunFailedJobs] = {}
    for check in checks:
        row = find_write(tx, policy.repo, _rerun_token(pull.last_seen_head_sha, check))
        action = decode_action(row.kind, row.payload) if row else None
        if isinstance(action, RerunFailedJobs):
            found[check] = action
    return found


def _is_running(
    policy: RepoPolicy,
    pull: PullRow,
    attempts: Iterable[WorkflowRunEvent],
    unfinished: UnfinishedRuns | None,
) -> bool | None:
    """Return whether a run is unfinished. Attempts known as finished count, even if a list lags."""
    if policy.ci != "all_complete":
        return False
    running = (unfinished or {}).get(pull.last_seen_head_sha)
    if running is None:
        return None
    over = {(one.run.id, one.run.attempt) for one in attempts}
    return any(_is_run_of(run, pull) and (run.id, run.attempt) not in over for run in running)


def apply_ci_effect(tx: Transaction, policy: RepoPolicy, effect: CiEffect) -> str:
    """Store one effect; return the id of its task."""
    match effect:
        case AddCiFeedback():
            return _add_ci_feedback(tx, policy, effect)
        case AskAboutCi():
            return _ask_about_ci(tx, policy, effect)
        case RerunFlakyCheck():
            return _rerun_flaky(tx, policy, effect)
        case BlockTask():
            return _block_task(tx, policy, effect)
        case _:
            assert_never(effect)


def _add_ci_feedback(tx: Transaction, policy: RepoPolicy, effect: AddCiFeedback) -> str:
    """Add the runs to the task's next turn."""
    task = _record_runs(tx, policy, effect.task, effect.runs, effect.pull)
    if task.state is TaskState.AWAITING_FEEDBACK:
        reason = f"CI failed: {list_checks(effect.runs)}."
        queued = replace(task, state=TaskState.QUEUED, reason=reason[:2000], wake_at=None)
        change_task(tx, task, queued)
    return task.id


def _ask_about_ci(tx: Transaction, policy: RepoPolicy, effect: AskAboutCi) -> str:
    """Ask a user; the runs are part of the turn that the answer starts."""
    task = _record_runs(tx, policy, effect.task, effect.runs, effect.pull)
    asked = replace(
        task,
        state=TaskState.NEEDS_INPUT,
        reason="Waiting for an answer.",
        question=effect.question,
        wake_at=None,
    )
    change_task(tx, task, asked)
    body = f"{effect.question}\n\n*Reply to this comment to continue.*"
    keys = sorted(one.row.event_key for one in effect.runs)
    _post_comment(tx, policy, effect.pull, body, build_token("ask", task.id, *keys))
    return task.id


def _rerun_flaky(tx: Transaction, policy: RepoPolicy, effect: RerunFlakyCheck) -> str:
    """Rerun the check, and open an issue about it."""
    for action, token in (build_rerun(effect.run), build_flaky_issue(effect.run, effect.why)):
        enqueue_action(tx, policy.repo, action, token=token, lane=Lane.FEEDBACK, source="ci")
    return effect.task.id


def _block_task(tx: Transaction, policy: RepoPolicy, effect: BlockTask) -> str:
    """Block the task until an operator unblocks it."""
    task = require_task(tx, effect.task.id)
    change_task(
        tx,
        task,
        replace(task, state=TaskState.BLOCKED, reason=effect.why[:2000], wake_at=None),
    )
    change_pull(tx, effect.pull, replace(effect.pull, status=PullStatus.BLOCKED))
    body = f"**Blocked:** {effect.why}"
    token = build_token("blocked", task.id, task.attempt, effect.why)
    _post_comment(tx, policy, effect.pull.pr_number, body, token)
    return task.id


def _record_runs(
    tx: Transaction, policy: RepoPolicy, task: Task, runs: Iterable[WorkflowRunEvent], pull: int
) -> Task:
    for one in runs:
        row = one.row
        supersede(tx, policy.repo, row.kind, row.object_id, row.event_key)
        event = FeedbackEvent(
            row.event_key, pull, task.number, row.kind, row.object_id, row.updated_at
        )
        record_feedback_event(tx, policy.repo, event)
    return require_task(tx, task.id)


def _post_comment(tx: Transaction, policy: RepoPolicy, number: int, body: str, token: str) -> None:
    action = CreateComment(number, body)
    enqueue_action(tx, policy.repo, action, token=token, lane=Lane.FEEDBACK, source="ci")
