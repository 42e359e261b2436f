"""Prepare the launch of a run: checkout, turn input, prompt and environment."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hostler.agents.assignment import Assignment, Launch
from hostler.agents.errors import RunFilesFailed
from hostler.agents.outcomes import Outcome
from hostler.agents.prepare import prepare_launch, secret_variables, write_atomically
from hostler.config.settings import list_secret_files
from hostler.errors import HostlerError
from hostler.runs.states import NotLaunched
from hostler.service.context import AppContext
from hostler.service.repositories import NotWatched
from hostler.service.running.run_state import session_to_resume
from hostler.store.runs import Run, runs_of
from hostler.store.tasks import Task, TaskState, require_task
from hostler.workflows.assignment import RunFolders, build_assignment
from hostler.workflows.templates import GUIDES, RepoPrompts, find_guide, read_repo_prompts
from hostler.workflows.turns import (
    TurnInput,
    add_conversation,
    drop_events,
    drop_withdrawn,
    load_logs,
    load_turn_input,
)
from hostler.workflows.workspace import RepoContext, prepare_checkout

RUN_SCOPES = ("outbox", "tasks")
TASK_FILE = "TASK.md"


class FolderMissing(HostlerError):
    """The folder that a task works in does not exist."""

    def __init__(self, folder: str) -> None:
        super().__init__(
            f"The folder {folder} does not exist.",
            safe="No agent was started.",
            remedy="Create it again, or cancel the task.",
        )


def launch_in_repository(
    app: AppContext,
    context: RepoContext,
    run: Run,
    task: Task,
    report_prompt_problem: Callable[[str, str], None],
) -> Launch:
    """Prepare the checkout of a task on a repository, and return the launch of its agent."""
    task = _with_session(app, run, task)
    turn_input, task = _read_turn_input(app, context, task)
    checkout = prepare_checkout(context, task)
    prompts = read_repo_prompts(context.mirror, checkout.base)
    for problem in prompts.problems:
        report_prompt_problem(str(context.policy.repo), problem)
    assignment = build_assignment(
        task,
        turn_input,
        run.run,
        _run_folders(app, run, context.checkout(task).path),
        context.settings,
        context.limits,
        app.settings.runtime.stop_grace_seconds,
        prompts,
    )
    _remove_done_file(assignment.done_file)
    return _prepare(app, run, task, replace(assignment, shared=(context.mirror.path,)))


def launch_in_folder(app: AppContext, run: Run, task: Task) -> Launch:
    """Return the launch of an agent in its task's folder."""
    folder = Path(task.cwd)
    if not folder.is_dir():
        raise FolderMissing(task.cwd)
    task = _with_session(app, run, task)
    with app.store.read() as tx:
        turn_input = load_turn_input(tx, task)
    assignment = build_assignment(
        task,
        turn_input,
        run.run,
        _run_folders(app, run, folder),
        None,
        app.settings.tasks,
        app.settings.runtime.stop_grace_seconds,
        RepoPrompts(guide=find_guide(name for name in GUIDES if (folder / name).is_file())),
    )
    return _prepare(app, run, task, assignment)


def _prepare(app: AppContext, run: Run, task: Task, assignment: Assignment) -> Launch:
    """Return the launch of an assignment with the settings of the run's agent."""
    agent = app.settings.agent.get(run.agent)
    if agent is None:
        raise NotWatched(f"Agent {run.agent} is no longer in the settings.")
    if task.by_hand:
        write_task_file(assignment.task_dir, task)
    agent = agent.model_copy(update={"env": [*agent.env, *task.env]})
    assignment = replace(assignment, private=list_secret_files(app.settings))
    return prepare_launch(agent, assignment, app.environment, secret_variables(app.settings))


def _read_turn_input(app: AppContext, context: RepoContext, task: Task) -> tuple[TurnInput, Task]:
    """Read what the turn is about from the database and GitHub, without withdrawn comments.

    Return the task as it is after withdrawn comments were dropped from its turn.
    """
    forge = app.hub.repo(task.repo)
    with app.store.read() as tx:
        turn_input = load_turn_input(tx, task)
    turn_input, withdrawn = drop_withdrawn(forge, turn_input)
    if withdrawn:
        with app.store.write(*RUN_SCOPES) as tx:
            task = drop_events(tx, require_task(tx, task.id), withdrawn)
        if task.state is not TaskState.RUNNING:
            raise NotLaunched(Outcome.INTERRUPTED, task.reason)
    if turn_input.failures:
        lines = app.settings.tasks.ci_log_tail_lines
        failures = load_logs(forge, turn_input.failures, lines)
        turn_input = replace(turn_input, failures=failures)
    if task.by_hand:
        return turn_input, task
    thread = [*forge.thread(task.number)]
    if task.pr_number is not None and not task.session:
        # A new session does not know what was said there, so the prompt quotes it.
        thread += forge.thread(task.pr_number)
    return add_conversation(turn_input, context.policy, thread), task


def _with_session(app: AppContext, run: Run, task: Task) -> Task:
    with app.store.read() as tx:
        return replace(task, session=session_to_resume(task, run, runs_of(tx, task.id)))


def _run_folders(app: AppContext, run: Run, working_folder: Path) -> RunFolders:
    run_dir = app.home / run.folder
    return RunFolders(
        home=app.home,
        task_dir=run_dir.parent.parent,
        run_dir=run_dir,
        checkout=working_folder,
    )


def write_task_file(folder: Path, task: Task) -> None:
    """Write the prompt for people who open the folder. No code reads it."""
    # The agent can write there: a symlink at this path is replaced and not followed.
    with suppress(RunFilesFailed):
        write_atomically(folder / TASK_FILE, f"{task.prompt.rstrip()}\n")


def _remove_done_file(file: Path) -> None:
    """Remove the DONE file of an earlier turn."""
    with suppress(FileNotFoundError, IsADirectoryError):
        file.unlink()
