"""The service's callbacks of a run: launch it, finish it, or requeue its task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from hostler.agents.assignment import Launch
from hostler.agents.outcomes import Outcome
from hostler.agents.verdict import DecidedBy, RunVerdict
from hostler.errors import HostlerError, StoreError
from hostler.governor.policy import Policy
from hostler.model import EPOCH
from hostler.runs import RunPlan, require_newest, verdict_of
from hostler.runs.outcome import NEVER_STARTED, ProviderSignals
from hostler.runs.states import FenceLost, NotLaunched, RunError
from hostler.service.context import AppContext, StepHook, ignore_step
from hostler.service.repositories import RepoContexts
from hostler.service.running.budgets import BudgetReporter, BudgetUsage
from hostler.service.running.bus_messages import BusNotifier, QuestionForwarder
from hostler.service.running.launch import RUN_SCOPES, launch_in_folder, launch_in_repository
from hostler.service.running.run_state import (
    find_last_run,
    has_checkout,
    has_posted,
    read_done_verdict,
)
from hostler.service.scheduling.placement import agent_to_keep
from hostler.store import Transaction
from hostler.store.runs import Run, RunState, counted_runs, last_fence
from hostler.store.tasks import Task, TaskState, change_task, require_task
from hostler.workflows.commands import active_children
from hostler.workflows.finish import (
    FinishFailed,
    FinishPlan,
    FinishStage,
    RepositoryChanged,
    finish_in_folder,
    finish_run,
    plan_after_error,
    wait_for_children,
)
from hostler.workflows.manual_tasks import CHILDREN_BLOCKER, children_text
from hostler.workflows.outcomes import RunEndFacts
from hostler.workflows.pool_signals import plan_signals, release_ended_run
from hostler.workflows.turns import add_delivered_comments, requeue_unstarted
from hostler.workflows.workspace import RepoContext, folder_digest, progress_digest

# The stop reason of runs whose agents are stopped because the service shuts down.
SHUTDOWN_REASON = "the service is shutting down"


class Defect(HostlerError):
    """An unexpected error. The log has the details."""

    def __init__(self, error: Exception) -> None:
        super().__init__(
            f"Internal error in Hostler: {type(error).__name__}: {error}",
            safe="The agent's work is still in its checkout.",
            remedy="Please report it with today's log.",
        )


@dataclass(frozen=True, slots=True)
class RunEndPlan:
    """What is stored when a run ends: its task is finished, or requeued after a shutdown.

    `finish`: None requeues the task. `was_shut_down`: the shutdown was known when it was planned.
    """

    hooks: RunHooks
    finish: FinishPlan | None = None
    was_shut_down: bool = False

    def apply(self, tx: Transaction, run: Run) -> None:
        """Finish or requeue the task. A shutdown requested since the plan was made requeues it."""
        if self.finish is None or (_was_shut_down(run) and not self.was_shut_down):
            self.hooks.requeue(tx, run)
        else:
            self.hooks.keep_agent(tx, run)
            self.finish.apply(tx)


class RunHooks:
    """The callbacks of all runs, on repositories and in folders. See `runs.RunCallbacks`."""

    scopes = RUN_SCOPES

    def __init__(
        self,
        app: AppContext,
        contexts: RepoContexts,
        notifier: BusNotifier,
        questions: QuestionForwarder,
        *,
        observe: StepHook = ignore_step,
        on_defect: Callable[[Exception], None] = lambda _: None,
        on_budget: Callable[[str, BudgetUsage], None] = lambda _task, _usage: None,
        on_prompt_problem: Callable[[str, str], None] = lambda _repo, _why: None,
        policy: Callable[[], Policy] = Policy,
    ) -> None:
        self._app = app
        self._contexts = contexts
        self._notifier = notifier
        self._questions = questions
        self._budgets = BudgetReporter(app, notifier, on_budget)
        self._observe = observe
        self._on_defect = on_defect
        self._on_prompt_problem = on_prompt_problem
        self._policy = policy

    def launch(self, run: Run) -> Launch:
        """Prepare checkout and prompt. An error is stored for the task, and ends the run."""
        task = self._read_task(run)
        if task.state is not TaskState.RUNNING:
            raise NotLaunched(Outcome.INTERRUPTED, f"The task is {task.state}.")
        self._require_no_done_file(run, task)
        context = None
        if task.repo_full_name is not None:
            context, task = self._find_context(task)
            if why := _repository_change(context, task):
                raise NotLaunched(Outcome.CONFIG, why)
        try:
            if context is None:
                launch = launch_in_folder(self._app, run, task)
                progress = folder_digest(Path(task.cwd))
            else:
                report = self._on_prompt_problem
                launch = launch_in_repository(self._app, context, run, task, report)
                progress = progress_digest(context, task)
            self._store_progress(run, progress)
            return launch
        except (StoreError, RunError):
            raise
        except Exception as failure:
            error = self._describe(failure)
            if context is None:
                limits = self._app.settings.tasks
                plan = FinishPlan(task.id, FinishFailed(error), RunEndFacts(EPOCH), limits)
            else:
                plan = plan_after_error(context, task, error)
            self._apply(plan, run)
            raise NotLaunched(Outcome.CONFIG, error.what) from failure

    def plan_signals(self, run: Run, signals: ProviderSignals) -> RunPlan | None:
        """Return what provider signals change about the run's pool; None if nothing."""
        return plan_signals(run, signals, self._policy())

    def release(self, tx: Transaction, run: Run) -> None:
        """Release the run's lease, and park its pool if the provider asked for it."""
        release_ended_run(tx, run, self._policy())

    def finish(self, run: Run, verdict: RunVerdict) -> RunEndPlan:
        """Push the run's work and return what is stored when it ends."""
        task = self._read_task(run)
        # The agent has exited, so this finds all of its questions. A repetition changes nothing.
        self._questions.forward_rest(task)
        was_shut_down = _was_shut_down(run)
        if was_shut_down and task.state is TaskState.RUNNING:
            return RunEndPlan(self)
        task = self._add_comments_from_bus(run, task)
        self._budgets.report(task)
        return RunEndPlan(self, self._plan_finish(task, verdict, run), was_shut_down)

    def finish_again(self, task: Task) -> None:
        """Finish a task whose agent is done, when the first attempt to do so failed."""
        with self._app.store.read() as tx:
            last = find_last_run(tx, task.id)
            waited = task.blockers == CHILDREN_BLOCKER
            children = len(active_children(tx, task.id)) if waited else 0
        verdict = read_done_verdict(self._app, task, last) or _verdict_of_run(last)
        if verdict is None:
            # The task is marked as running, but has no result: requeue it.
            with self._app.store.write(*RUN_SCOPES) as tx:
                requeue_unstarted(tx, require_task(tx, task.id))
            return
        self._apply(self._plan_finish(task, verdict, last), last)
        if children:
            self._notifier.warning(
                task, f"The task is done, but {children_text(children)} still running."
            )

    def requeue(self, tx: Transaction, run: Run) -> None:
        """Put the run's task back to its position in the queue, as if the run had not been."""
        task = self.keep_agent(tx, run)
        if task.progress and not counted_runs(tx, task.id):
            # Noted before an agent that did not start: any agent can begin the task.
            task = change_task(tx, task, replace(task, progress=""))
        if run.session and run.session != task.session:
            # The session has begun, and the next run continues it.
            task = change_task(tx, task, replace(task, session=run.session))
        requeue_unstarted(tx, task)

    def keep_agent(self, tx: Transaction, run: Run) -> Task:
        """Bind a task to the agent that worked on it, even if that was a fallback."""
        task = require_task(tx, run.task_id)
        agent = agent_to_keep(self._app.settings, task, run.agent) if run.counted else task.agent
        return task if agent == task.agent else change_task(tx, task, replace(task, agent=agent))

    def _plan_finish(self, task: Task, verdict: RunVerdict, run: Run | None) -> FinishPlan:
        """Do the work of the end and return the plan. `run` is None for a DONE file without one."""
        limits = self._app.settings.tasks
        waiting = wait_for_children(self._app.store, task, verdict, limits)
        if waiting is not None:
            return waiting
        if run is None:
            return finish_in_folder(task, verdict, limits)
        posted, session = has_posted(self._app.home, run), run.session or ""
        if self._has_nothing_to_push(task, verdict):
            return finish_in_folder(task, verdict, limits, session, has_posted=posted)
        context, task = self._find_context(task)
        if why := _repository_change(context, task):
            return FinishPlan(task.id, RepositoryChanged(why), RunEndFacts(EPOCH), limits)
        context = replace(context, require_fence=partial(self._require_newest, run))

        def observe(stage: FinishStage) -> None:
            self._observe(stage.value, run.run)

        try:
            return finish_run(context, task, verdict, session, observe, has_posted=posted)
        except (StoreError, FenceLost):
            raise
        except Exception as error:
            facts = RunEndFacts(EPOCH, finishing=True)
            return plan_after_error(context, task, self._describe(error), facts)

    def _has_nothing_to_push(self, task: Task, verdict: RunVerdict) -> bool:
        """Return whether the task is in a folder, or was marked as done without a checkout."""
        if task.repo_full_name is None:
            return True
        marked = task.by_hand and verdict.decided_by is DecidedBy.DONE
        return marked and not has_checkout(self._app, task)

    def _read_task(self, run: Run) -> Task:
        """Return a run's task, under the name that its repository has now."""
        with self._app.store.read() as tx:
            _require_newest_run(tx, run)
            task = require_task(tx, run.task_id)
        shut_down = _was_shut_down(run) and task.state is TaskState.RUNNING
        if shut_down or task.repo_full_name is None or task.project in self._contexts.ready():
            return task
        # Making the context renames the stored rows of a renamed repository.
        self._contexts.of(task.project)
        with self._app.store.read() as tx:
            return require_task(tx, run.task_id)

    def _find_context(self, task: Task) -> tuple[RepoContext, Task]:
        """Return the repository's context, and the task under the repository's present name."""
        context = self._contexts.of(task.project)
        with self._app.store.read() as tx:
            present = require_task(tx, task.id)
        return context, replace(task, repo_full_name=present.repo_full_name)

    def _add_comments_from_bus(self, run: Run, task: Task) -> Task:
        """Add comments that the agent was shown on the bus to this turn; return the task."""
        comments = self._notifier.read_shown_comments(run, task) if task.repo_full_name else []
        if not comments:
            return task
        with self._app.store.write(*RUN_SCOPES) as tx:
            _require_newest_run(tx, run)
            return add_delivered_comments(tx, require_task(tx, task.id), comments)

    def _require_no_done_file(self, run: Run, task: Task) -> None:
        """Raise if a manual task is already marked as done, so that it needs no agent."""
        with self._app.store.read() as tx:
            last = find_last_run(tx, task.id, but=run.run)
            verdict = read_done_verdict(self._app, task, last)
        if verdict is not None:
            # The run ends like any other, and finishes its task.
            raise NotLaunched(verdict.outcome, verdict.why, verdict.decided_by)

    def _store_progress(self, run: Run, progress: str) -> None:
        """Store the state of the work before the agent starts, to recognise what it changes."""
        with self._app.store.write(*RUN_SCOPES) as tx:
            _require_newest_run(tx, run)
            task = require_task(tx, run.task_id)
            if progress and progress != task.progress:
                change_task(tx, task, replace(task, progress=progress))

    def _apply(self, plan: FinishPlan, run: Run | None) -> None:
        with self._app.store.write(*RUN_SCOPES) as tx:
            if run is not None:
                _require_newest_run(tx, run)
            plan.apply(tx)

    def _require_newest(self, run: Run) -> None:
        with self._app.store.read() as tx:
            _require_newest_run(tx, run)

    def _describe(self, error: Exception) -> HostlerError:
        """Return an error that can be shown to users; log an unexpected one as a defect."""
        if isinstance(error, HostlerError):
            return error
        self._on_defect(error)
        return Defect(error)


def _repository_change(context: RepoContext, task: Task) -> str:
    """Return why nothing of a task may be pushed to its project's repository; empty if it may."""
    if str(context.policy.repo) == task.repo_full_name:
        return ""
    return (
        f"[repo.{task.project}] now names {context.policy.repo} instead of {task.repo_full_name}."
    )


def _require_newest_run(tx: Transaction, run: Run) -> None:
    """Raise `FenceLost` if another process has continued with the task."""
    if run.state is not RunState.ENDED:
        require_newest(tx, run)
    elif last_fence(tx, run.task_id) != run.fence:
        raise FenceLost(run.run, run.fence, "its task's last run", "there is a later one")
    elif (task := require_task(tx, run.task_id)).state is not TaskState.RUNNING:
        raise FenceLost(run.run, run.fence, "what its task waits for", f"it is {task.state}")


def _verdict_of_run(run: Run | None) -> RunVerdict | None:
    """Return the verdict of a run; None if there was no run or no agent."""
    return None if run is None or run.outcome == NEVER_STARTED else verdict_of(run)


def _was_shut_down(run: Run) -> bool:
    return run.stop_why == SHUTDOWN_REASON
