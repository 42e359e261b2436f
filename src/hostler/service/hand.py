"""Work in a folder of the user's: no checkout, no push, only an agent and its word."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hostler.agents.environment import secret_names
from hostler.agents.errors import RunFilesFailed
from hostler.agents.launch import Launch
from hostler.agents.prepare import prepare, write_whole
from hostler.agents.verdict import Verdict
from hostler.config.secrets import secret_files
from hostler.errors import HostlerError
from hostler.flows import Ending, Facts, Folders, assignment_for, gather
from hostler.flows.byhand import CHILDREN, after_hand_run, await_children
from hostler.flows.folder import footprint
from hostler.flows.lineage import active_children
from hostler.flows.outcomes import wants_finishing
from hostler.flows.steps import Step
from hostler.flows.templates import GUIDES, RepoWords, guide_in
from hostler.flows.trouble import after_trouble
from hostler.model import EPOCH
from hostler.service.desks import NotWatched
from hostler.service.house import House
from hostler.service.sessions import session_for
from hostler.service.speaking import has_spoken
from hostler.store import Transaction
from hostler.store.runs import Run, runs_of
from hostler.store.tasks import Task

TASK_FILE = "TASK.md"


class FolderMissing(HostlerError):
    """The folder that a task works in is not there."""

    def __init__(self, folder: str) -> None:
        super().__init__(
            f"There is no folder {folder}.",
            safe="No agent was started.",
            remedy="Make it again, or cancel the task.",
        )


def folders_of(house: House, run: Run, workplace: Path) -> Folders:
    """Where a run happens."""
    folder = house.home / run.folder
    return Folders(
        home=house.home, task_dir=folder.parent.parent, run_dir=folder, checkout=workplace
    )


def launch_in_folder(house: House, run: Run, task: Task) -> Launch:
    """Prompt and environment of an agent in its task's folder."""
    workplace = Path(task.cwd)
    if not workplace.is_dir():
        raise FolderMissing(task.cwd)
    settings = house.settings
    agent = settings.agent.get(run.agent)
    if agent is None:
        raise NotWatched(f"There is no agent {run.agent} in the settings any more.")
    with house.store.read() as tx:
        material = gather(tx, task)
        task = replace(task, session=session_for(task, run, runs_of(tx, task.id)))
    folders = folders_of(house, run, workplace)
    grace = settings.runtime.stop_grace_seconds
    words = RepoWords(guide=guide_in(name for name in GUIDES if (workplace / name).is_file()))
    work = assignment_for(task, material, run.run, folders, None, settings.tasks, grace, words)
    work = replace(work, private=secret_files(settings))
    write_task_file(folders.task_dir, task)
    seen = agent.model_copy(update={"env": [*agent.env, *task.env]})
    return prepare(seen, work, house.environment, secret_names(settings))


def close_in_folder(house: House, task: Task, verdict: Verdict, run: Run | None) -> Ending:
    """What follows from a run in a folder, or from a mark without any run."""
    limits = house.settings.tasks

    def rule(_tx: Transaction, present: Task, facts: Facts) -> Step:
        return after_hand_run(present, verdict, facts, limits)

    seen = footprint(Path(task.cwd)) if task.cwd else ""
    if run is None:
        return Ending(task.id, rule, Facts(EPOCH, progress=seen))
    spoke = has_spoken(house.home, run)
    facts = Facts(EPOCH, session=run.session or "", progress=seen, spoke=spoke)
    return Ending(task.id, rule, facts)


def failed_in_folder(house: House, task: Task, error: HostlerError) -> Ending:
    """The same for an error before the agent."""

    def rule(_tx: Transaction, present: Task, facts: Facts) -> Step:
        return after_trouble(present, error, facts, house.settings.tasks)

    return Ending(task.id, rule, Facts(EPOCH))


def children_first(house: House, task: Task, verdict: Verdict) -> Ending | None:
    """The wait for children with an agent at work, if there are any and it is not over yet."""
    if not wants_finishing(task, verdict) or task.blockers == CHILDREN:
        return None
    with house.store.read() as tx:
        if not active_children(tx, task.id):
            return None

    def rule(tx: Transaction, present: Task, facts: Facts) -> Step:
        count = len(active_children(tx, present.id))
        return Step(await_children(present, facts.now, count, house.settings.tasks))

    return Ending(task.id, rule, Facts(EPOCH))


def write_task_file(folder: Path, task: Task) -> None:
    """The prompt, for people who look into the folder. Nothing reads it."""
    # An agent can write there: a link in its place is replaced, and leads nowhere.
    with suppress(RunFilesFailed):
        write_whole(folder / TASK_FILE, f"{task.prompt.rstrip()}\n")
