"""Hooks around a run: prepare its checkout and prompt, and finish or requeue its task."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hostler.agents.assignment import Launch
from hostler.agents.outcomes import Outcome
from hostler.agents.prepare import prepare_launch, secret_variables
from hostler.agents.verdict import DecidedBy, RunVerdict
from hostler.config.settings import list_secret_files
from hostler.errors import HostlerError, StoreError
from hostler.governor.policy import Policy
from hostler.model import EPOCH
from hostler.runs import Hooks, require_newest, verdict_of
from hostler.runs.interfaces import InTransaction
from hostler.runs.outcome import NEVER_STARTED
from hostler.runs.states import FenceLost, NotLaunched, RunError
from hostler.service.context import AppContext, StepHook, ignore_step
from hostler.service.repositories import NotWatched, RepoContexts
from hostler.service.running.budgets import BudgetReporter, BudgetUsage
from hostler.service.running.bus_messages import BusNotifier, QuestionForwarder
from hostler.service.running.folder_runs import (
    build_run_folders,
    fail_in_folder,
    finish_in_folder,
    launch_in_folder,
    wait_for_children_first,
    write_task_file,
)
from hostler.service.running.run_state import (
    find_last_run,
    has_checkout,
    has_posted,
    read_done_verdict,
    session_to_resume,
)
from hostler.service.scheduling.placement import agent_to_keep
from hostler.store import Transaction
from hostler.store.runs import Run, RunState, counted_runs, last_fence, runs_of
from hostler.store.tasks import Task, TaskState, change_task, require_task
from hostler.workflows.assignment import build_assignment
from hostler.workflows.commands import active_children
from hostler.workflows.effects import TaskTransition
from hostler.workflows.finish import (
    FinishPlan,
    FinishRule,
    FinishStage,
    finish_run,
    plan_after_error,
)
from hostler.workflows.manual_tasks import CHILDREN_BLOCKER, children_text
from hostler.workflows.outcomes import RunEndFacts
from hostler.workflows.pool_signals import apply_live_signals, is_relevant, release_ended_run
from hostler.workflows.templates import read_repo_prompts
from hostler.workflows.turns import (
    TurnInput,
    add_conversation,
    add_delivered_comments,
    drop_events,
    drop_withdrawn,
    load_logs,
    load_turn_input,
    requeue_unstarted,
)
from hostler.workflows.workspace import (
    RepoContext,
    folder_digest,
    prepare_checkout,
    progress_digest,
)

# Why an agent is stopped when the service leaves with its agents; the task itself is not stopped.
SHUTDOWN_REASON = "the service is leaving"
_RUN_SCOPES = ("outbox", "tasks")


class Defect(HostlerError):
    """Something broke that should not. The log has the details."""

    def __init__(self, error: Exception) -> None:
        super().__init__(
            f"Hostler has a defect: {type(error).__name__}: {error}",
            safe="What the agent did is in its checkout.",
            remedy="Please report it, with the log of today.",
        )


class RunHooks:
    """Launches and finishes runs for all repositories."""

    def __init__(
        self,
        app: AppContext,
        repo_contexts: RepoContexts,
        bus_notifier: BusNotifier,
        questions: QuestionForwarder,
        *,
        observe: StepHook = ignore_step,
        broke: Callable[[Exception], None] = lambda _: None,
        spent: Callable[[str, BudgetUsage], None] = lambda _task, _purse: None,
        refused: Callable[[str, str], None] = lambda _repo, _why: None,
        policy: Callable[[], Policy] = Policy,
    ) -> None:
        self._app = app
        self._repo_contexts = repo_contexts
        self._bus_notifier = bus_notifier
        self._questions = questions
        self._treasurer = BudgetReporter(app, bus_notifier, spent)
        self._observe = observe
        self._broke = broke
        self._refused = refused
        self._policy = policy

    def hooks(self) -> Hooks:
        """For the supervisor of runs."""
        return Hooks(
            self.launch,
            self.finish,
            release=lambda tx, run: release_ended_run(tx, run, self._policy()),
            requeue=self.requeue,
            heard=lambda tx, run, heard: apply_live_signals(tx, run, heard, self._policy()),
            listens=lambda run, heard: is_relevant(run, heard, self._policy()),
            scopes=_RUN_SCOPES,
        )

    def launch(self, run: Run) -> Launch:
        """Checkout and prompt. What goes wrong is stored for the task, and ends the run."""
        task = self._task_of(run)
        if task.state is not TaskState.RUNNING:
            raise NotLaunched(Outcome.INTERRUPTED, f"The task is {task.state}.")
        self._require_undone(run, task)
        in_folder = task.repo_full_name is None
        repo_context, task = (None, task) if in_folder else self._at_desk(task)
        if repo_context is not None and (why := _wrong_repository_text(repo_context, task)):
            raise NotLaunched(Outcome.CONFIG, why)
        try:
            if repo_context is None:
                launch, seen = (
                    launch_in_folder(self._app, run, task),
                    folder_digest(Path(task.cwd)),
                )
            else:
                launch, seen = (
                    self._launch(repo_context, run, task),
                    progress_digest(repo_context, task),
                )
            self._note_start(run, seen)
            return launch
        except (StoreError, RunError):
            raise
        except Exception as error:
            told = self._told(error)
            if repo_context is None:
                self._store(fail_in_folder(self._app, task, told), run)
            else:
                self._store(plan_after_error(repo_context, task, told), run)
            raise NotLaunched(Outcome.CONFIG, told.what) from error

    def finish(self, run: Run, verdict: RunVerdict) -> InTransaction:
        """From an agent's end to what is stored about it."""
        task = self._task_of(run)
        # Its agent says nothing more; and this is repeated until the end of the run is stored.
        self._questions.carry_rest(task)
        if _was_shut_down(run) and task.state is TaskState.RUNNING:
            return self.requeue
        task = self._with_words(run, task)
        self._treasurer.look(task)
        ending = self._ending(task, verdict, run)

        def store(tx: Transaction, ended: Run) -> None:
            # Somebody may have asked for its end since: nothing starts after that.
            if _was_shut_down(ended) and not _was_shut_down(run):
                self.requeue(tx, ended)
            else:
                self._keep_agent(tx, ended)
                ending.store(tx)

        return store

    def _task_of(self, run: Run) -> Task:
        """A run's task, under the name that its repository has now."""
        with self._app.store.read() as tx:
            _require_newest_run(tx, run)
            task = require_task(tx, run.task_id)
        leaving = _was_shut_down(run) and task.state is TaskState.RUNNING
        if leaving or task.repo_full_name is None or task.project in self._repo_contexts.ready():
            return task
        # What is stored of a renamed repository is carried over when its desk is made.
        self._repo_contexts.of(task.project)
        with self._app.store.read() as tx:
            return require_task(tx, run.task_id)

    def _at_desk(self, task: Task) -> tuple[RepoContext, Task]:
        """The desk of a task's project, and the task under the name its repository has now."""
        repo_context = self._repo_contexts.of(task.project)
        with self._app.store.read() as tx:
            present = require_task(tx, task.id)
        return repo_context, replace(task, repo_full_name=present.repo_full_name)

    def _with_words(self, run: Run, task: Task) -> Task:
        """The task, with what its agent was told on the bus as words of this turn."""
        said = self._bus_notifier.heard_by(run, task) if task.repo_full_name else []
        if not said:
            return task
        with self._app.store.write(*_RUN_SCOPES) as tx:
            _require_newest_run(tx, run)
            return add_delivered_comments(tx, require_task(tx, task.id), said)

    def requeue(self, tx: Transaction, run: Run) -> None:
        """The task goes back to its old place, as if this run had not been."""
        task = self._keep_agent(tx, run)
        if task.progress and not counted_runs(tx, task.id):
            # What was noted before an agent that then never began: whoever may can begin it.
            task = change_task(tx, task, replace(task, progress=""))
        if run.session and run.session != task.session:
            # Its conversation has begun, and goes on.
            task = change_task(tx, task, replace(task, session=run.session))
        requeue_unstarted(tx, task)

    def _keep_agent(self, tx: Transaction, run: Run) -> Task:
        """A task stays with the agent that worked on it, also if that was a fallback."""
        task = require_task(tx, run.task_id)
        whose = agent_to_keep(self._app.settings, task, run.agent) if run.counted else task.agent
        return task if whose == task.agent else change_task(tx, task, replace(task, agent=whose))

    def finish_again(self, task: Task) -> None:
        """Our own part of a task whose agent was done: nothing else is repeated."""
        with self._app.store.read() as tx:
            last = find_last_run(tx, task.id)
            late = len(active_children(tx, task.id)) if task.blockers == CHILDREN_BLOCKER else 0
        verdict = read_done_verdict(self._app, task, last) or _verdict_of_run(last)
        if verdict is None:
            # It was said to run, and there is nothing to show for it: it goes back to its place.
            with self._app.store.write(*_RUN_SCOPES) as tx:
                requeue_unstarted(tx, require_task(tx, task.id))
            return
        self._store(self._ending(task, verdict, last), last)
        if late:
            self._bus_notifier.warning(
                task, f"It is done, though {children_text(late)} of it still at work."
            )

    def _require_undone(self, run: Run, task: Task) -> None:
        """A task by hand that is marked as done needs no agent; on a pull request it may again."""
        with self._app.store.read() as tx:
            found = read_done_verdict(self._app, task, find_last_run(tx, task.id, but=run.run))
        if found is not None:
            # The run ends in the way of all others, and its task with it.
            raise NotLaunched(found.outcome, found.why, found.decided_by)

    def _note_start(self, run: Run, seen: str) -> None:
        """What is there before the agent begins: only what changes after that is its progress."""
        with self._app.store.write(*_RUN_SCOPES) as tx:
            _require_newest_run(tx, run)
            task = require_task(tx, run.task_id)
            if seen and seen != task.progress:
                change_task(tx, task, replace(task, progress=seen))

    def _store(self, ending: FinishPlan, run: Run | None) -> None:
        with self._app.store.write(*_RUN_SCOPES) as tx:
            if run is not None:
                _require_newest_run(tx, run)
            ending.store(tx)

    def _launch(self, repo_context: RepoContext, run: Run, task: Task) -> Launch:
        with self._app.store.read() as tx:
            task = replace(task, session=session_to_resume(task, run, runs_of(tx, task.id)))
        material, task = self._material(repo_context, task)
        ready = prepare_checkout(repo_context, task)
        words = read_repo_prompts(repo_context.mirror, ready.base)
        for problem in words.problems:
            self._refused(str(repo_context.watch.repo), problem)
        folders = build_run_folders(self._app, run, repo_context.checkout(task).path)
        settings = self._app.settings
        work = build_assignment(
            task,
            material,
            run.run,
            folders,
            repo_context.settings,
            repo_context.limits,
            settings.runtime.stop_grace_seconds,
            words,
        )
        work = replace(
            work, shared=(repo_context.mirror.path,), private=list_secret_files(settings)
        )
        _remove_done_file(work.done_file)
        agent = settings.agent.get(run.agent)
        if agent is None:
            raise NotWatched(f"There is no agent {run.agent} in the settings any more.")
        if task.by_hand:
            write_task_file(folders.task_dir, task)
        seen = agent.model_copy(update={"env": [*agent.env, *task.env]})
        return prepare_launch(seen, work, self._app.environment, secret_variables(settings))

    def _material(self, repo_context: RepoContext, task: Task) -> tuple[TurnInput, Task]:
        """What the turn is about, as far as it was not taken back; and the task after that."""
        forge = self._app.hub.repo(task.repo)
        with self._app.store.read() as tx:
            material = load_turn_input(tx, task)
        material, gone = drop_withdrawn(forge, material)
        if gone:
            with self._app.store.write(*_RUN_SCOPES) as tx:
                task = drop_events(tx, require_task(tx, task.id), gone)
            if task.state is not TaskState.RUNNING:
                raise NotLaunched(Outcome.INTERRUPTED, task.reason)
        if material.failures:
            lines = self._app.settings.tasks.ci_log_tail_lines
            material = replace(material, failures=load_logs(forge, material.failures, lines))
        if task.by_hand:
            return material, task
        said = [*forge.thread(task.number)]
        if task.pr_number is not None and not task.session:
            # Nobody remembers what was said there: the prompt does.
            said += forge.thread(task.pr_number)
        return add_conversation(material, repo_context.watch, said), task

    def _ending(self, task: Task, verdict: RunVerdict, run: Run | None) -> FinishPlan:
        waiting = wait_for_children_first(self._app, task, verdict)
        if waiting is not None:
            return waiting
        if run is None or self._has_nothing_to_bring_in(task, verdict):
            return finish_in_folder(self._app, task, verdict, run)

        def permit() -> None:
            with self._app.store.read() as tx:
                _require_newest_run(tx, run)

        repo_context, task = self._at_desk(task)
        if why := _wrong_repository_text(repo_context, task):
            return FinishPlan(task.id, _stop_rule(why), RunEndFacts(EPOCH))
        repo_context = replace(repo_context, permit=permit)

        def observe(stage: FinishStage) -> None:
            self._observe(stage.value, run.run)

        try:
            spoke = has_posted(self._app.home, run)
            return finish_run(repo_context, task, verdict, run.session or "", observe, spoke=spoke)
        except (StoreError, FenceLost):
            raise
        except Exception as error:
            return plan_after_error(
                repo_context, task, self._told(error), RunEndFacts(EPOCH, finishing=True)
            )

    def _has_nothing_to_bring_in(self, task: Task, verdict: RunVerdict) -> bool:
        """In a folder, work stays where it is; what was marked before it began has none."""
        if task.repo_full_name is None:
            return True
        marked = task.by_hand and verdict.decided_by is DecidedBy.DONE
        return marked and not has_checkout(self._app, task)

    def _told(self, error: Exception) -> HostlerError:
        """An error for people. What was not foreseen is a defect, and goes to the log."""
        if isinstance(error, HostlerError):
            return error
        self._broke(error)
        return Defect(error)


def _wrong_repository_text(repo_context: RepoContext, task: Task) -> str:
    """Why nothing of a task may be brought to its project's desk; empty if it may."""
    if str(repo_context.watch.repo) == task.repo_full_name:
        return ""
    return f"[repo.{task.project}] means {repo_context.watch.repo} now, not {task.repo_full_name}."


def _stop_rule(why: str) -> FinishRule:
    """The end of a task whose work belongs nowhere any more; its checkout stays."""

    def rule(_tx: Transaction, present: Task, _facts: RunEndFacts) -> TaskTransition:
        if present.state is not TaskState.RUNNING:
            return TaskTransition(present)
        return TaskTransition(
            replace(present, state=TaskState.STOPPED, reason=why, finishing=False)
        )

    return rule


def _require_newest_run(tx: Transaction, run: Run) -> None:
    """Raise if somebody has gone on with the task: a service that was replaced changes nothing."""
    if run.state is not RunState.ENDED:
        require_newest(tx, run)
    elif last_fence(tx, run.task_id) != run.fence:
        raise FenceLost(run.run, run.fence, "its task's last run", "there is a later one")
    elif (task := require_task(tx, run.task_id)).state is not TaskState.RUNNING:
        raise FenceLost(run.run, run.fence, "all that its task waits for", f"it is {task.state}")


def _verdict_of_run(run: Run | None) -> RunVerdict | None:
    """What a run came to, if there was an agent or a reason for none."""
    return None if run is None or run.outcome == NEVER_STARTED else verdict_of(run)


def _was_shut_down(run: Run) -> bool:
    return run.stop_why == SHUTDOWN_REASON


def _remove_done_file(file: Path) -> None:
    """DONE of an earlier turn says nothing about this one."""
    with suppress(FileNotFoundError, IsADirectoryError):
        file.unlink()
