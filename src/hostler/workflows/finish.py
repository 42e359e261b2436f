"""Finish a run: commit, check and push the work, and decide what is stored about it.

Each stage looks for its own effect first, so that all of it may be repeated after any crash.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from hostler.agents.outcomes import Outcome
from hostler.agents.verdict import RunVerdict
from hostler.checkouts.checkout import PUSHED_REFS, Checkout, fetch_task_head
from hostler.checkouts.commands import run_tests
from hostler.checkouts.commits import commit_all
from hostler.checkouts.errors import CheckoutMissing, PushRaced
from hostler.checkouts.mirror import is_ancestor, read_mirror_ref, resolve_base
from hostler.checkouts.names import Sha
from hostler.checkouts.push import HistoryVerdict as History
from hostler.checkouts.push import check_history, push_commit
from hostler.config.settings import Tasks
from hostler.errors import HostlerError
from hostler.intake.model import CommentEvent
from hostler.model import EPOCH
from hostler.runs.states import FenceLost
from hostler.store.pull_requests import PullRow, PullStatus, find_pull
from hostler.store.tasks import Flow, Task, TaskState, require_task
from hostler.store.transaction import Transaction
from hostler.workflows.comments import build_pull_write, build_replies, commit_message
from hostler.workflows.effects import (
    Effect,
    MarkProcessed,
    SetPullStatus,
    TaskTransition,
    apply_transition,
)
from hostler.workflows.manual_tasks import decide_after_unfinished_run
from hostler.workflows.outcomes import (
    DesignMissing,
    RunEndFacts,
    TestsFailed,
    ask_about_no_change,
    decide_after_error,
    decide_after_run,
    is_ready_to_finish,
)
from hostler.workflows.turns import (
    CiFailure,
    design_path,
    load_turn_input,
    pending_event_keys,
    rerun_suspected_flakes,
)
from hostler.workflows.workspace import RepoContext, progress_digest, save_blocked_work


class FinishStage(StrEnum):
    """What has just been done, in this order. For logs, and for tests that cut in between."""

    COMMITTED = "committed"
    TAKEN = "taken"
    GUARDED = "guarded"
    TESTED = "tested"
    PUSHED = "pushed"


FinishObserver = Callable[[FinishStage], None]


def ignore_stage(_stage: FinishStage) -> None:
    """Observes nothing."""


@dataclass(frozen=True, slots=True)
class FinishedWork:
    """What an agent's turn has come to. `pushed` is empty where there was nothing new to push.

    `any` says whether the branch holds anything beyond its base.
    """

    head: Sha
    base_branch: str
    pushed: str
    any: bool


def push_work(
    repo_context: RepoContext, task: Task, message: str, observe: FinishObserver = ignore_stage
) -> FinishedWork:
    """From what the agent left to a branch on the remote. Raises what stands in the way."""
    checkout = repo_context.checkout(task)
    commit_all(checkout, message, repo_context.identity)
    observe(FinishStage.COMMITTED)
    head = fetch_task_head(checkout)
    observe(FinishStage.TAKEN)
    base = _base_commit(checkout)
    before = read_mirror_ref(repo_context.mirror, f"{PUSHED_REFS}{checkout.branch}")
    history = check_history(repo_context.mirror, head, base=base, pushed=before)
    observe(FinishStage.GUARDED)
    base_branch, _ = resolve_base(repo_context.mirror, repo_context.remote, task.base_branch)
    if history is History.UNCHANGED:
        return FinishedWork(head, base_branch, "", any=head != base)
    _require_design(repo_context, task, head)
    _run_required_tests(repo_context, checkout)
    observe(FinishStage.TESTED)
    repo_context.permit()
    push_commit(
        repo_context.mirror,
        repo_context.remote,
        checkout.branch,
        head,
        _expected_remote_head(repo_context, checkout, head, before),
    )
    observe(FinishStage.PUSHED)
    return FinishedWork(head, base_branch, head, any=True)


def _base_commit(checkout: Checkout) -> Sha:
    base = read_mirror_ref(checkout.mirror, checkout.ref("base"))
    if base is None:
        raise CheckoutMissing(f"{checkout.path} is not known to its mirror.")
    return base


def _expected_remote_head(
    repo_context: RepoContext, checkout: Checkout, head: Sha, before: Sha | None
) -> Sha | None:
    """What the remote's branch is at, as far as we know; commits of others must be in the work."""
    theirs = read_mirror_ref(repo_context.mirror, f"refs/heads/{checkout.branch}")
    if theirs is not None and not is_ancestor(repo_context.mirror, theirs, head):
        raise PushRaced(checkout.branch, before, theirs)
    return theirs


def _run_required_tests(repo_context: RepoContext, checkout: Checkout) -> None:
    commands = repo_context.settings.required_tests
    for ran in run_tests(
        commands, checkout.path, repo_context.env, seconds=repo_context.command_seconds
    ):
        if not ran.passed:
            raise TestsFailed(ran)


def _require_design(repo_context: RepoContext, task: Task, head: Sha) -> None:
    if task.flow is not Flow.DESIGN:
        return
    path = design_path(task)
    if not repo_context.mirror.git()("ls-tree", "--name-only", head, "--", path).text:
        raise DesignMissing(path)


NO_RESULT_NO_CHANGE = "It ended without a word and without a change."


@dataclass(frozen=True, slots=True)
class WorkDelivery:
    """What is known when the work is on the remote.

    `more`: further words came while the agent was at work; `last_head` is the pull request's
    head before.
    """

    work: FinishedWork
    verdict: RunVerdict
    remarks: tuple[CommentEvent, ...] = ()
    more: bool = False
    last_head: str = ""
    failures: tuple[CiFailure, ...] = ()


def decide_after_delivery(
    task: Task, delivery: WorkDelivery, facts: RunEndFacts, limits: Tasks
) -> TaskTransition:
    """The task after its work has passed every check."""
    if task.state is not TaskState.RUNNING:
        return TaskTransition(task)
    answered = task.pr_number is not None and _has_answer(delivery)
    if not answered and (delivery.failures or not delivery.work.any):
        return _decide_without_work(task, delivery, facts, limits)
    effects: list[Effect] = []
    if task.pr_number is None:
        effects.append(build_pull_write(task, delivery.verdict.result, delivery.work.base_branch))
    else:
        alone = bool(delivery.failures) and not delivery.remarks
        head = delivery.work.head
        effects.append(SetPullStatus(PullStatus.AWAITING_FEEDBACK, head, without_person=alone))
        effects += _rerun_unchanged_ci(delivery)
    effects += build_replies(
        task, delivery.remarks, delivery.verdict.result, _changed_head(delivery)
    )
    effects.append(MarkProcessed(task.turn_keys))
    return TaskTransition(_delivered_task(task, delivery, facts), tuple(effects))


def _rerun_unchanged_ci(delivery: WorkDelivery) -> list[Effect]:
    """CI that the agent has looked at and left as it is may be a flake."""
    if _changed_head(delivery):
        return []
    result = delivery.verdict.result
    return rerun_suspected_flakes(delivery.failures, result.summary if result else "")


def _delivered_task(task: Task, delivery: WorkDelivery, facts: RunEndFacts) -> Task:
    state = TaskState.QUEUED if delivery.more else TaskState.AWAITING_FEEDBACK
    reason = "More was said meanwhile." if delivery.more else "The work waits for a review."
    return replace(
        task,
        state=state,
        reason=reason,
        session=facts.session or task.session,
        progress=facts.progress or task.progress,
        turn=task.turn + 1,
        turn_keys=(),
        note="",
        question="",
        wake_at=None,
        finishing=False,
        exits_without_progress=0,
        repair_rounds=0,
        requeues=0,
        outages=0,
    )


def _decide_without_work(
    task: Task, delivery: WorkDelivery, facts: RunEndFacts, limits: Tasks
) -> TaskTransition:
    verdict = delivery.verdict
    if not verdict.declared:
        return decide_after_run(
            task, replace(verdict, outcome=Outcome.CRASH, why=NO_RESULT_NO_CHANGE), facts, limits
        )
    step = ask_about_no_change(task, verdict.result.summary if verdict.result else "")
    # The words were read; what they led to is the question.
    heard = replace(step.task, turn_keys=(), session=facts.session or task.session)
    return TaskTransition(heard, (*step.effects, MarkProcessed(task.turn_keys)))


def _has_answer(delivery: WorkDelivery) -> bool:
    """On a pull request, words alone may be an answer; silence is not."""
    return delivery.verdict.declared or bool(delivery.work.pushed)


def _changed_head(delivery: WorkDelivery) -> str | None:
    """The head to point at, if this turn has moved it."""
    head = delivery.work.head
    return head if delivery.work.pushed or head != delivery.last_head else None


# A rule that waits for the task as it is when its step is stored.
FinishRule = Callable[[Transaction, Task, RunEndFacts], TaskTransition]


@dataclass(frozen=True, slots=True)
class FinishPlan:
    """What is left to do after a run: one transaction. Storing it twice stores it once."""

    task: str
    rule: FinishRule
    facts: RunEndFacts

    def store(self, tx: Transaction) -> Task:
        """Move the task as it is now; one that was stopped meanwhile stays so."""
        present = require_task(tx, self.task)
        step = self.rule(tx, present, _complete_facts(tx, present, self.facts))
        if present.state is TaskState.RUNNING and _has_new_events(tx, present):
            step = queue_if_asking(step)
        return apply_transition(tx, present, step)


def queue_if_asking(step: TaskTransition) -> TaskTransition:
    """A question while words wait that its agent has not heard: they may be the answer. Pure."""
    task = step.task
    if task.state is not TaskState.NEEDS_INPUT:
        return step
    going_on = replace(task, state=TaskState.QUEUED, reason="More was said meanwhile.")
    return replace(step, task=going_on)


def finish_run(
    repo_context: RepoContext,
    task: Task,
    verdict: RunVerdict,
    session: str = "",
    observe: FinishObserver = ignore_stage,
    *,
    spoke: bool = False,
) -> FinishPlan:
    """Do what the end of a run asks for on disk and remote; what is to be stored about it."""
    facts = RunEndFacts(
        EPOCH, session=session, progress=progress_digest(repo_context, task), spoke=spoke
    )
    if not is_ready_to_finish(task, verdict):
        return _plan_finish(repo_context, task, _run_rule(repo_context, verdict), facts)
    try:
        work = push_work(repo_context, task, commit_message(task, verdict.result), observe)
    except FenceLost:
        raise
    except HostlerError as error:
        return plan_after_error(repo_context, task, error, replace(facts, finishing=True))

    def rule(tx: Transaction, present: Task, facts: RunEndFacts) -> TaskTransition:
        pull = _find_pull(tx, present)
        material = load_turn_input(tx, present)
        delivery = WorkDelivery(
            work,
            verdict,
            material.remarks,
            more=_has_new_events(tx, present),
            last_head=pull.last_seen_head_sha if pull else "",
            failures=material.failures,
        )
        return decide_after_delivery(present, delivery, facts, repo_context.limits)

    return FinishPlan(task.id, rule, facts)


def plan_after_error(
    repo_context: RepoContext, task: Task, error: HostlerError, facts: RunEndFacts | None = None
) -> FinishPlan:
    """The same for an error on the way: before the agent (set up, launch) or after it."""

    def rule(_tx: Transaction, present: Task, facts: RunEndFacts) -> TaskTransition:
        return decide_after_error(present, error, facts, repo_context.limits)

    return _plan_finish(repo_context, task, rule, facts or RunEndFacts(EPOCH))


def _run_rule(repo_context: RepoContext, verdict: RunVerdict) -> FinishRule:
    def rule(_tx: Transaction, present: Task, facts: RunEndFacts) -> TaskTransition:
        after = decide_after_unfinished_run if present.by_hand else decide_after_run
        return after(present, verdict, facts, repo_context.limits)

    return rule


def _plan_finish(
    repo_context: RepoContext, task: Task, rule: FinishRule, facts: RunEndFacts
) -> FinishPlan:
    """Work that is about to wait for a person, and is not on GitHub, is kept on a branch first."""
    with repo_context.store.read() as tx:
        present = require_task(tx, task.id)
        foreseen = rule(tx, present, _complete_facts(tx, present, facts))
    after = foreseen.task.state
    asks_unpushed = after is TaskState.NEEDS_INPUT and facts.finishing
    if (after is TaskState.BLOCKED or asks_unpushed) and task.state is not after:
        facts = replace(facts, kept=save_blocked_work(repo_context, task))
    return FinishPlan(task.id, rule, facts)


def _complete_facts(tx: Transaction, task: Task, facts: RunEndFacts) -> RunEndFacts:
    """The facts, with what only the database knows."""
    pull = _find_pull(tx, task)
    turns = pull.turns_without_person if pull else 0
    return replace(facts, now=tx.now(), turns_without_person=turns)


def _has_new_events(tx: Transaction, task: Task) -> bool:
    """Whether words wait that the present turn was not given."""
    return bool(set(pending_event_keys(tx, task)) - set(task.turn_keys))


def _find_pull(tx: Transaction, task: Task) -> PullRow | None:
    return find_pull(tx, task.repo, task.pr_number) if task.pr_number else None
