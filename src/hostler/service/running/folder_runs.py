"""Runs in a plain local folder: no checkout and no push."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hostler.agents.assignment import Launch
from hostler.agents.errors import RunFilesFailed
from hostler.agents.prepare import prepare_launch, secret_variables, write_atomically
from hostler.agents.verdict import RunVerdict
from hostler.config.settings import list_secret_files
from hostler.errors import HostlerError
from hostler.model import EPOCH
from hostler.service.context import AppContext
from hostler.service.repositories import NotWatched
from hostler.service.running.run_state import has_posted, session_to_resume
from hostler.store import Transaction
from hostler.store.runs import Run, runs_of
from hostler.store.tasks import Task
from hostler.workflows.assignment import RunFolders, build_assignment
from hostler.workflows.commands import active_children
from hostler.workflows.effects import TaskTransition
from hostler.workflows.finish import FinishPlan
from hostler.workflows.manual_tasks import (
    CHILDREN_BLOCKER,
    decide_after_folder_run,
    wait_for_children,
)
from hostler.workflows.outcomes import RunEndFacts, decide_after_error, is_ready_to_finish
from hostler.workflows.templates import GUIDES, RepoPrompts, find_guide
from hostler.workflows.turns import load_turn_input
from hostler.workflows.workspace import folder_digest

TASK_FILE = "TASK.md"


class FolderMissing(HostlerError):
    """The folder that a task works in is not there."""

    def __init__(self, folder: str) -> None:
        super().__init__(
            f"There is no folder {folder}.",
            safe="No agent was started.",
            remedy="Make it again, or cancel the task.",
        )


def build_run_folders(app: AppContext, run: Run, workplace: Path) -> RunFolders:
    """Where a run happens."""
    folder = app.home / run.folder
    return RunFolders(
        home=app.home, task_dir=folder.parent.parent, run_dir=folder, checkout=workplace
    )


def launch_in_folder(app: AppContext, run: Run, task: Task) -> Launch:
    """Prompt and environment of an agent in its task's folder."""
    workplace = Path(task.cwd)
    if not workplace.is_dir():
        raise FolderMissing(task.cwd)
    settings = app.settings
    agent = settings.agent.get(run.agent)
    if agent is None:
        raise NotWatched(f"There is no agent {run.agent} in the settings any more.")
    with app.store.read() as tx:
        material = load_turn_input(tx, task)
        task = replace(task, session=session_to_resume(task, run, runs_of(tx, task.id)))
    folders = build_run_folders(app, run, workplace)
    grace = settings.runtime.stop_grace_seconds
    words = RepoPrompts(guide=find_guide(name for name in GUIDES if (workplace / name).is_file()))
    work = build_assignment(task, material, run.run, folders, None, settings.tasks, grace, words)
    work = replace(work, private=list_secret_files(settings))
    write_task_file(folders.task_dir, task)
    seen = agent.model_copy(update={"env": [*agent.env, *task.env]})
    return prepare_launch(seen, work, app.environment, secret_variables(settings))


def finish_in_folder(
    app: AppContext, task: Task, verdict: RunVerdict, run: Run | None
) -> FinishPlan:
    """What follows from a run in a folder, or from a mark without any run."""
    limits = app.settings.tasks

    def rule(_tx: Transaction, present: Task, facts: RunEndFacts) -> TaskTransition:
        return decide_after_folder_run(present, verdict, facts, limits)

    seen = folder_digest(Path(task.cwd)) if task.cwd else ""
    if run is None:
        return FinishPlan(task.id, rule, RunEndFacts(EPOCH, progress=seen))
    spoke = has_posted(app.home, run)
    facts = RunEndFacts(EPOCH, session=run.session or "", progress=seen, spoke=spoke)
    return FinishPlan(task.id, rule, facts)


def fail_in_folder(app: AppContext, task: Task, error: HostlerError) -> FinishPlan:
    """The same for an error before the agent."""

    def rule(_tx: Transaction, present: Task, facts: RunEndFacts) -> TaskTransition:
        return decide_after_error(present, error, facts, app.settings.tasks)

    return FinishPlan(task.id, rule, RunEndFacts(EPOCH))


def wait_for_children_first(app: AppContext, task: Task, verdict: RunVerdict) -> FinishPlan | None:
    """The wait for children with an agent at work, if there are any and it is not over yet."""
    if not is_ready_to_finish(task, verdict) or task.blockers == CHILDREN_BLOCKER:
        return None
    with app.store.read() as tx:
        if not active_children(tx, task.id):
            return None

    def rule(tx: Transaction, present: Task, facts: RunEndFacts) -> TaskTransition:
        count = len(active_children(tx, present.id))
        return TaskTransition(wait_for_children(present, facts.now, count, app.settings.tasks))

    return FinishPlan(task.id, rule, RunEndFacts(EPOCH))


def write_task_file(folder: Path, task: Task) -> None:
    """The prompt, for people who look into the folder. Nothing reads it."""
    # An agent can write there: a link in its place is replaced, and leads nowhere.
    with suppress(RunFilesFailed):
        write_atomically(folder / TASK_FILE, f"{task.prompt.rstrip()}\n")
