"""Finish a run: push its work, decide what follows for its task, and store that.

The stages, in order:

1. `finish_run` (or `finish_in_folder`, `wait_for_children`) computes a `FinishPlan`, outside of
   any transaction.
2. If the agent succeeded, `push_work` commits, checks and pushes what it left.
3. `FinishPlan.apply` runs in the transaction that ends the run. `FinishPlan.decide` chooses the
   task's next state from the task as it is then.
4. `effects.apply_transition` stores the state and queues comments and the pull request.
5. `effects.handle_settled_write` stores the pull request's number when GitHub has created it.

Stages 1 and 2 check what is already done, so they can be repeated after a crash.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import assert_never

from hostler.agents.outcomes import Outcome
from hostler.agents.verdict import RunVerdict
from hostler.checkouts.checkout import PUSHED_REFS, Checkout, fetch_task_head
from hostler.checkouts.commands import run_tests
from hostler.checkouts.commits import commit_all
from hostler.checkouts.errors import CheckoutMissing, PushRaced
from hostler.checkouts.mirror import is_ancestor, read_mirror_ref, resolve_base
from hostler.checkouts.names import Sha
from hostler.checkouts.push import HistoryVerdict, check_history, push_commit
from hostler.config.settings import Tasks
from hostler.errors import HostlerError
from hostler.intake.model import CommentEvent
from hostler.model import EPOCH
from hostler.runs.states import FenceLost
from hostler.store import Store
from hostler.store.pull_requests import PullRow, PullStatus, find_pull
from hostler.store.tasks import Flow, Task, TaskState, require_task
from hostler.store.transaction import Transaction
from hostler.workflows.commands import active_children
from hostler.workflows.comments import build_pull_write, build_replies, commit_message
from hostler.workflows.effects import (
    Effect,
    MarkProcessed,
    SetPullStatus,
    TaskTransition,
    apply_transition,
)
from hostler.workflows.manual_tasks import (
    CHILDREN_BLOCKER,
    decide_after_folder_run,
    decide_after_unfinished_run,
    park_until_children_finish,
)
from hostler.workflows.outcomes import (
    DesignMissing,
    RunEndFacts,
    TestsFailed,
    ask_about_no_change,
    decide_after_error,
    decide_after_run,
    is_ready_to_finish,
    to_stopped,
)
from hostler.workflows.turns import (
    CiFailure,
    design_path,
    load_turn_input,
    pending_event_keys,
    rerun_suspected_flakes,
)
from hostler.workflows.workspace import (
    RepoContext,
    folder_digest,
    progress_digest,
    save_blocked_work,
)

NEW_EVENTS_REASON = "New comments or CI results arrived during the run."
NO_RESULT_NO_CHANGE = "It exited without a result and without changes."


class FinishStage(StrEnum):
    """What was just done, in this order. For logs, and for tests that stop after it."""

    COMMITTED = "committed"
    TAKEN = "taken"
    GUARDED = "guarded"
    TESTED = "tested"
    PUSHED = "pushed"


FinishObserver = Callable[[FinishStage], None]


def ignore_stage(_stage: FinishStage) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class FinishedWork:
    """The commits of a turn. `pushed`: the commit that was pushed, empty if nothing was new.

    `has_commits`: the branch differs from its base.
    """

    head: Sha
    base_branch: str
    pushed: str
    has_commits: bool


@dataclass(frozen=True, slots=True)
class PushedWork:
    """The agent succeeded, and its work is on the remote."""

    verdict: RunVerdict
    work: FinishedWork


@dataclass(frozen=True, slots=True)
class UnfinishedRun:
    """The run did not end with work to push."""

    verdict: RunVerdict


@dataclass(frozen=True, slots=True)
class FolderRun:
    """The run worked in a local folder, where nothing is pushed."""

    verdict: RunVerdict


@dataclass(frozen=True, slots=True)
class ChildrenRunning:
    """The task is done, but some of its child tasks still have a running agent."""


@dataclass(frozen=True, slots=True)
class FinishFailed:
    """Preparing the run or finishing its work raised an error."""

    error: HostlerError


@dataclass(frozen=True, slots=True)
class RepositoryChanged:
    """The settings name another repository for the task's project now."""

    why: str


FinishCause = (
    PushedWork | UnfinishedRun | FolderRun | ChildrenRunning | FinishFailed | RepositoryChanged
)


@dataclass(frozen=True, slots=True)
class FinishPlan:
    """What is left to store after a run. Applying it twice changes nothing the second time."""

    task_id: str
    cause: FinishCause
    facts: RunEndFacts
    limits: Tasks

    def apply(self, tx: Transaction) -> Task:
        """Decide by the task as stored now, and store the transition with its effects."""
        task = require_task(tx, self.task_id)
        transition = self.decide(tx, task, _complete_facts(tx, task, self.facts))
        if task.state is TaskState.RUNNING and _has_new_events(tx, task):
            transition = _queue_if_asking(transition)
        return apply_transition(tx, task, transition)

    def decide(self, tx: Transaction, task: Task, facts: RunEndFacts) -> TaskTransition:
        """Return what follows for the task. A task that was stopped in the meantime stays so."""
        match self.cause:
            case PushedWork(verdict, work):
                delivery = _read_delivery(tx, task, verdict, work)
                return decide_after_delivery(task, delivery, facts, self.limits)
            case UnfinishedRun(verdict):
                rule = decide_after_unfinished_run if task.by_hand else decide_after_run
                return rule(task, verdict, facts, self.limits)
            case FolderRun(verdict):
                return decide_after_folder_run(task, verdict, facts, self.limits)
            case ChildrenRunning():
                count = len(active_children(tx, task.id))
                return TaskTransition(
                    park_until_children_finish(task, facts.now, count, self.limits)
                )
            case FinishFailed(error):
                return decide_after_error(task, error, facts, self.limits)
            case RepositoryChanged(why):
                return _stop_running_task(task, why)
            case _:
                assert_never(self.cause)


def finish_run(
    context: RepoContext,
    task: Task,
    verdict: RunVerdict,
    session: str = "",
    observe: FinishObserver = ignore_stage,
    *,
    has_posted: bool = False,
) -> FinishPlan:
    """Push the work of a run on a repository if it succeeded; return what is to be stored."""
    progress = progress_digest(context, task)
    facts = RunEndFacts(EPOCH, session=session, progress=progress, has_posted=has_posted)
    if not is_ready_to_finish(task, verdict):
        return _plan_with_backup(context, task, UnfinishedRun(verdict), facts)
    try:
        work = push_work(context, task, commit_message(task, verdict.result), observe)
    except FenceLost:
        raise
    except HostlerError as error:
        return plan_after_error(context, task, error, replace(facts, finishing=True))
    return FinishPlan(task.id, PushedWork(verdict, work), facts, context.limits)


def finish_in_folder(
    task: Task,
    verdict: RunVerdict,
    limits: Tasks,
    session: str = "",
    *,
    has_posted: bool = False,
) -> FinishPlan:
    """Return what follows from a run in a folder, or from a DONE file without any run."""
    progress = folder_digest(Path(task.cwd)) if task.cwd else ""
    facts = RunEndFacts(EPOCH, session=session, progress=progress, has_posted=has_posted)
    return FinishPlan(task.id, FolderRun(verdict), facts, limits)


def wait_for_children(
    store: Store, task: Task, verdict: RunVerdict, limits: Tasks
) -> FinishPlan | None:
    """Return a plan to wait for children with a running agent; None if there are none.

    None too if the task is not done, or has waited for them before.
    """
    if not is_ready_to_finish(task, verdict) or task.blockers == CHILDREN_BLOCKER:
        return None
    with store.read() as tx:
        if not active_children(tx, task.id):
            return None
    return FinishPlan(task.id, ChildrenRunning(), RunEndFacts(EPOCH), limits)


def plan_after_error(
    context: RepoContext, task: Task, error: HostlerError, facts: RunEndFacts | None = None
) -> FinishPlan:
    """Return what follows from an error before the agent (checkout, launch) or after it."""
    return _plan_with_backup(context, task, FinishFailed(error), facts or RunEndFacts(EPOCH))


def _plan_with_backup(
    context: RepoContext, task: Task, cause: FinishCause, facts: RunEndFacts
) -> FinishPlan:
    """Return the plan; push unpushed work to a backup branch first if the task will wait."""
    plan = FinishPlan(task.id, cause, facts, context.limits)
    with context.store.read() as tx:
        present = require_task(tx, task.id)
        state = plan.decide(tx, present, _complete_facts(tx, present, facts)).task.state
    asks_unpushed = state is TaskState.NEEDS_INPUT and facts.finishing
    if (state is TaskState.BLOCKED or asks_unpushed) and task.state is not state:
        return replace(plan, facts=replace(facts, kept_branch=save_blocked_work(context, task)))
    return plan


def push_work(
    context: RepoContext, task: Task, message: str, observe: FinishObserver = ignore_stage
) -> FinishedWork:
    """Commit what the agent left, check it and push its branch. Raise what prevents that."""
    checkout = context.checkout(task)
    commit_all(checkout, message, context.identity)
    observe(FinishStage.COMMITTED)
    head = fetch_task_head(checkout)
    observe(FinishStage.TAKEN)
    base = _base_commit(checkout)
    before = read_mirror_ref(context.mirror, f"{PUSHED_REFS}{checkout.branch}")
    history = check_history(context.mirror, head, base=base, pushed=before)
    observe(FinishStage.GUARDED)
    base_branch, _ = resolve_base(context.mirror, context.remote, task.base_branch)
    if history is HistoryVerdict.UNCHANGED:
        return FinishedWork(head, base_branch, "", has_commits=head != base)
    _require_design(context, task, head)
    _run_required_tests(context, checkout)
    observe(FinishStage.TESTED)
    context.require_fence()
    expected = _expected_remote_head(context, checkout, head, before)
    push_commit(context.mirror, context.remote, checkout.branch, head, expected)
    observe(FinishStage.PUSHED)
    return FinishedWork(head, base_branch, head, has_commits=True)


def _base_commit(checkout: Checkout) -> Sha:
    base = read_mirror_ref(checkout.mirror, checkout.ref("base"))
    if base is None:
        raise CheckoutMissing(f"{checkout.path} is not known to its mirror.")
    return base


def _expected_remote_head(
    context: RepoContext, checkout: Checkout, head: Sha, before: Sha | None
) -> Sha | None:
    """Return the remote branch's head as last seen. Raise if the work lacks commits of others."""
    theirs = read_mirror_ref(context.mirror, f"refs/heads/{checkout.branch}")
    if theirs is not None and not is_ancestor(context.mirror, theirs, head):
        raise PushRaced(checkout.branch, before, theirs)
    return theirs


def _run_required_tests(context: RepoContext, checkout: Checkout) -> None:
    commands = context.settings.required_tests
    for ran in run_tests(commands, checkout.path, context.env, seconds=context.command_seconds):
        if not ran.passed:
            raise TestsFailed(ran)


def _require_design(context: RepoContext, task: Task, head: Sha) -> None:
    if task.flow is not Flow.DESIGN:
        return
    path = design_path(task)
    if not context.mirror.git()("ls-tree", "--name-only", head, "--", path).text:
        raise DesignMissing(path)


@dataclass(frozen=True, slots=True)
class WorkDelivery:
    """What the decision about pushed work needs.

    `has_new_events`: comments or CI results arrived during the run; `last_head`: the head that the
    pull request had before.
    """

    work: FinishedWork
    verdict: RunVerdict
    comments: tuple[CommentEvent, ...] = ()
    has_new_events: bool = False
    last_head: str = ""
    failures: tuple[CiFailure, ...] = ()


def _read_delivery(
    tx: Transaction, task: Task, verdict: RunVerdict, work: FinishedWork
) -> WorkDelivery:
    """Read what the decision about pushed work needs."""
    pull = _find_pull(tx, task)
    turn_input = load_turn_input(tx, task)
    return WorkDelivery(
        work,
        verdict,
        turn_input.comments,
        has_new_events=_has_new_events(tx, task),
        last_head=pull.last_seen_head_sha if pull else "",
        failures=turn_input.failures,
    )


def decide_after_delivery(
    task: Task, delivery: WorkDelivery, facts: RunEndFacts, limits: Tasks
) -> TaskTransition:
    """Return the task and its effects after its work has passed every check."""
    if task.state is not TaskState.RUNNING:
        return TaskTransition(task)
    answered = task.pr_number is not None and _has_answer(delivery)
    if not answered and (delivery.failures or not delivery.work.has_commits):
        return _decide_without_work(task, delivery, facts, limits)
    effects: list[Effect] = []
    if task.pr_number is None:
        effects.append(build_pull_write(task, delivery.verdict.result, delivery.work.base_branch))
    else:
        without_person = bool(delivery.failures) and not delivery.comments
        head = delivery.work.head
        effects.append(
            SetPullStatus(PullStatus.AWAITING_FEEDBACK, head, without_person=without_person)
        )
        effects += _rerun_unchanged_ci(delivery)
    effects += build_replies(
        task, delivery.comments, delivery.verdict.result, _changed_head(delivery)
    )
    effects.append(MarkProcessed(task.turn_keys))
    return TaskTransition(_delivered_task(task, delivery, facts), tuple(effects))


def _rerun_unchanged_ci(delivery: WorkDelivery) -> list[Effect]:
    """Return reruns of failed CI that the agent left as it is: it may be a flake."""
    if _changed_head(delivery):
        return []
    result = delivery.verdict.result
    return rerun_suspected_flakes(delivery.failures, result.summary if result else "")


def _delivered_task(task: Task, delivery: WorkDelivery, facts: RunEndFacts) -> Task:
    state = TaskState.QUEUED if delivery.has_new_events else TaskState.AWAITING_FEEDBACK
    reason = NEW_EVENTS_REASON if delivery.has_new_events else "Waiting for review."
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
    transition = ask_about_no_change(task, verdict.result.summary if verdict.result else "")
    # The agent has seen the comments; the question is its answer to them.
    task_after = replace(transition.task, turn_keys=(), session=facts.session or task.session)
    return TaskTransition(task_after, (*transition.effects, MarkProcessed(task.turn_keys)))


def _has_answer(delivery: WorkDelivery) -> bool:
    """Return whether a turn on a pull request has a result: a message or a new commit."""
    return delivery.verdict.declared or bool(delivery.work.pushed)


def _changed_head(delivery: WorkDelivery) -> str | None:
    """Return the head commit if this turn has changed it."""
    head = delivery.work.head
    return head if delivery.work.pushed or head != delivery.last_head else None


def _queue_if_asking(transition: TaskTransition) -> TaskTransition:
    """Queue a task instead of asking if comments arrived that its agent has not seen.

    They may already answer the question.
    """
    task = transition.task
    if task.state is not TaskState.NEEDS_INPUT:
        return transition
    queued = replace(task, state=TaskState.QUEUED, reason=NEW_EVENTS_REASON)
    return replace(transition, task=queued)


def _stop_running_task(task: Task, why: str) -> TaskTransition:
    """Stop a task whose work cannot be pushed anywhere any more; its checkout stays."""
    if task.state is not TaskState.RUNNING:
        return TaskTransition(task)
    stopped = to_stopped(task, why).task
    return TaskTransition(replace(stopped, finishing=False))


def _complete_facts(tx: Transaction, task: Task, facts: RunEndFacts) -> RunEndFacts:
    """Return the facts with what only the database knows."""
    pull = _find_pull(tx, task)
    turns = pull.turns_without_person if pull else 0
    return replace(facts, now=tx.now(), turns_without_person=turns)


def _has_new_events(tx: Transaction, task: Task) -> bool:
    """Return whether events are pending that the present turn was not given."""
    return bool(set(pending_event_keys(tx, task)) - set(task.turn_keys))


def _find_pull(tx: Transaction, task: Task) -> PullRow | None:
    return find_pull(tx, task.repo, task.pr_number) if task.pr_number else None
