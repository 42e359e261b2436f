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

# A failure joins the turn that is about to begin, or begins one; anything else comes first.
_READY_STATES = (TaskState.AWAITING_FEEDBACK, TaskState.QUEUED)
# How much of a check's name people are shown.
MAX_CHECK_NAME = 80


def decide_on_run(seen: WorkflowRunEvent, known: ThreadState, policy: RepoPolicy) -> IntakeDecision:
    """What one attempt of a workflow run that is over causes."""
    pull, task = known.pull, known.pull_task
    if pull is None or task is None:
        return IntakeDecision("It is not of a pull request of ours.")
    if pull.final or task.over:
        return IntakeDecision("Its pull request is over.")
    idle = _ignore_reason(seen.run, pull, policy) or (
        "" if known.newest else "It was repeated since; the newer attempt counts."
    )
    if idle:
        return IntakeDecision(idle)
    if pull.status is PullStatus.BLOCKED or task.state is TaskState.BLOCKED:
        return TASK_BLOCKED
    return _decide_on_failures(known, pull, task, policy)


def _ignore_reason(run: WorkflowRun, pull: PullRow, policy: RepoPolicy) -> str:
    """Why a run has nothing to say about a pull request; empty: it has."""
    if policy.ci == "never":
        return "The settings make no work of CI."
    if run.head_sha != pull.last_seen_head_sha:
        return "It is of an older head."
    if run.foreign or (run.branch and run.branch != pull.branch):
        return "It is of another branch with the same commit."
    return ""


def _decide_on_failures(
    known: ThreadState, pull: PullRow, task: Task, policy: RepoPolicy
) -> IntakeDecision:
    checks = known.checks
    failed = find_failures(checks)
    if not failed:
        return IntakeDecision("Nothing of this head has failed that is not known.")
    if policy.ci == "all_complete":
        if checks.unfinished is None:
            return IntakeDecision("GitHub has not said yet what else runs.", waits=True)
        if checks.unfinished:
            return IntakeDecision("Other runs of this head are not over.")
    if task.state not in _READY_STATES:
        return IntakeDecision(f"The task is {task.state}; it is told of it after that.", waits=True)
    return _choose_effects(failed, checks, pull, task, policy)


def _choose_effects(
    failed: tuple[WorkflowRunEvent, ...],
    checks: CiState,
    pull: PullRow,
    task: Task,
    policy: RepoPolicy,
) -> IntakeDecision:
    again = [one for one in failed if one.run.check in checks.repeated]
    if again:
        return IntakeDecision(
            "It failed again.", (BlockTask(task, pull, render_second_failure(again)),)
        )
    flaky = [one for one in failed if has_passed_before(one, checks)]
    rest = tuple(one for one in failed if one not in flaky)
    effects: list[IntakeEffect] = [
        RerunFlakyCheck(task, one, PASSED_BEFORE_REASON) for one in flaky
    ]
    if rest and pull.turns_without_person >= policy.turns_without_person:
        effects.append(AskAboutCi(task, rest, pull.pr_number, render_too_many_turns(rest, pull)))
    elif rest:
        effects.append(AddCiFeedback(task, rest, pull.pr_number))
    return IntakeDecision(f"CI failed: {list_checks(failed)}.", tuple(effects))


def find_failures(checks: CiState) -> tuple[WorkflowRunEvent, ...]:
    """Runs whose newest attempt failed, that nobody was told of, and that are not being repeated.

    Of each check only its newest run counts: an older one was judged by other circumstances.
    """
    newest: dict[str, WorkflowRunEvent] = {}
    for one in checks.seen:
        newest[one.run.check] = one
    return tuple(
        one
        for one in newest.values()
        if one.run.failed
        and one.row.event_key not in checks.told
        and not _is_rerunning(one, checks)
    )


def _is_rerunning(one: WorkflowRunEvent, checks: CiState) -> bool:
    asked = checks.repeated.get(one.run.check)
    return asked is not None and asked.run_id == one.run.id and one.run.attempt <= asked.attempt


def has_passed_before(failed: WorkflowRunEvent, checks: CiState) -> bool:
    """Whether the same check passed on this very commit: then the commit is hardly the cause."""
    return any(one.run.passed and one.run.check == failed.run.check for one in checks.seen)


PASSED_BEFORE_REASON = "The same check had passed on the same commit before."


def build_rerun(failed: WorkflowRunEvent) -> tuple[RerunFailedJobs, str]:
    """Run a suspected flake once more: one time for each check of a head."""
    run = failed.run
    deed = RerunFailedJobs(failed.row.scope_number, run.id, run.attempt)
    return deed, rerun_token(run.head_sha, run.check)


def rerun_token(head_sha: str, check: str) -> str:
    """By this the repetition of a check is known."""
    return build_token("rerun", head_sha, check)


def build_flaky_issue(failed: WorkflowRunEvent, why: str) -> tuple[OpenIssue, str]:
    """Tell people of a suspected flake: one issue for each check."""
    run, name = failed.run, clean_check_name(failed.run.check)
    body = (
        f"The check `{name}` failed on #{failed.row.scope_number} at {run.head_sha}, and the "
        f"commit is hardly the cause. {why}\n\nThe run: {run.url or run.id}. It is run once more; "
        "if it fails again, the pull request waits for a person.\n\n"
        "There is one such issue for each check. Close it when the check can be relied on."
    )
    return OpenIssue(f"Flaky: {name}", body), build_token("flaky", run.check)


def render_second_failure(again: Iterable[WorkflowRunEvent]) -> str:
    """What people are told when the repetition fails too."""
    listed = "\n".join(
        f"- `{clean_check_name(one.run.check)}`: {one.run.url or one.run.id}" for one in again
    )
    return (
        f"CI failed, was run once more without a change, and failed again:\n\n{listed}\n\n"
        "All work is on the branch of the pull request. Is the check broken, or the work? Mend "
        "or repeat the check, or say here what is to be changed; then let it go on."
    )


def render_too_many_turns(failed: Iterable[WorkflowRunEvent], pull: PullRow) -> str:
    """What people are asked when CI alone has kept an agent busy for too long."""
    return (
        f"CI fails ({list_checks(failed)}), and {pull.turns_without_person} turns passed without a "
        "person's word. All work is on the branch of the pull request. How shall it go on?"
    )


def list_checks(runs: Iterable[WorkflowRunEvent]) -> str:
    """Checks in a sentence."""
    return ", ".join(sorted({f"`{clean_check_name(one.run.check)}`" for one in runs}))


def clean_check_name(name: str) -> str:
    """A check's name between backticks: anybody who writes workflows chooses it."""
    return " ".join(name.replace("`", "'").split())[:MAX_CHECK_NAME]


# By head: its runs that were not over when the host was asked.
UnfinishedRuns = Mapping[str, tuple[WorkflowRun, ...]]


def find_heads_to_query(tx: Transaction, policy: RepoPolicy) -> list[str]:
    """Heads about which the host must be asked whether all of their runs are over."""
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
    """The runs of these heads that are not over; the network is asked here.

    A head about which the host did not answer is left out: its events wait.
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
    """The CI of a pull request's present head."""
    kind, head = ItemKind.WORKFLOW_RUN.value, pull.last_seen_head_sha
    rows = rows_of_thread(tx, policy.repo, pull.pr_number, kind, naming=head)
    signals = [parse_event(row) for row in rows]
    seen = tuple(
        one for one in signals if isinstance(one, WorkflowRunEvent) and _is_run_of(one.run, pull)
    )
    keys = [one.row.event_key for one in seen]
    return CiState(
        seen,
        frozenset(told_keys(tx, policy.repo, keys)),
        _find_reruns(tx, policy, pull, {one.run.check for one in seen}),
        _is_running(policy, pull, seen, unfinished),
    )


def _is_run_of(run: WorkflowRun, pull: PullRow) -> bool:
    here = run.head_sha == pull.last_seen_head_sha and not run.foreign
    return here and run.branch in ("", pull.branch)


def _find_reruns(
    tx: Transaction, policy: RepoPolicy, pull: PullRow, checks: Iterable[str]
) -> dict[str, RerunFailedJobs]:
    found: dict[str, RerunFailedJobs] = {}
    for check in checks:
        row = find_write(tx, policy.repo, rerun_token(pull.last_seen_head_sha, check))
        deed = decode_action(row.kind, row.payload) if row else None
        if isinstance(deed, RerunFailedJobs):
            found[check] = deed
    return found


def _is_running(
    policy: RepoPolicy,
    pull: PullRow,
    seen: Iterable[WorkflowRunEvent],
    unfinished: UnfinishedRuns | None,
) -> bool | None:
    """Whether something still runs. What the inbox knows to be over is over, late lists or not."""
    if policy.ci != "all_complete":
        return False
    running = (unfinished or {}).get(pull.last_seen_head_sha)
    if running is None:
        return None
    over = {(one.run.id, one.run.attempt) for one in seen}
    return any(_is_run_of(run, pull) and (run.id, run.attempt) not in over for run in running)


def apply_ci_effect(tx: Transaction, policy: RepoPolicy, effect: CiEffect) -> str:
    """Make one effect true; the task that it is about."""
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
    """The next turn is about these runs too."""
    task = _record_runs(tx, policy, effect.task, effect.runs, effect.pull)
    if task.state is TaskState.AWAITING_FEEDBACK:
        reason = f"CI failed: {list_checks(effect.runs)}."
        queued = replace(task, state=TaskState.QUEUED, reason=reason[:2000], wake_at=None)
        change_task(tx, task, queued)
    return task.id


def _ask_about_ci(tx: Transaction, policy: RepoPolicy, effect: AskAboutCi) -> str:
    """The runs are kept for the turn that an answer begins."""
    task = _record_runs(tx, policy, effect.task, effect.runs, effect.pull)
    asked = replace(
        task,
        state=TaskState.NEEDS_INPUT,
        reason="A person's answer is needed.",
        question=effect.question,
        wake_at=None,
    )
    change_task(tx, task, asked)
    body = f"{effect.question}\n\n*Answer here with a comment, and the work goes on.*"
    keys = sorted(one.row.event_key for one in effect.runs)
    _post_comment(tx, policy, effect.pull, body, build_token("ask", task.id, *keys))
    return task.id


def _rerun_flaky(tx: Transaction, policy: RepoPolicy, effect: RerunFlakyCheck) -> str:
    """Run it once more, and tell people."""
    for deed, token in (build_rerun(effect.run), build_flaky_issue(effect.run, effect.why)):
        enqueue_action(tx, policy.repo, deed, token=token, lane=Lane.FEEDBACK, source="ci")
    return effect.task.id


def _block_task(tx: Transaction, policy: RepoPolicy, effect: BlockTask) -> str:
    """It waits for the operator."""
    task = require_task(tx, effect.task.id)
    change_task(
        tx,
        task,
        replace(task, state=TaskState.BLOCKED, reason=effect.why[:2000], wake_at=None),
    )
    change_pull(tx, effect.pull, replace(effect.pull, status=PullStatus.BLOCKED))
    body = f"The work cannot go on by itself:\n\n{effect.why}"
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
    deed = CreateComment(number, body)
    enqueue_action(tx, policy.repo, deed, token=token, lane=Lane.FEEDBACK, source="ci")
