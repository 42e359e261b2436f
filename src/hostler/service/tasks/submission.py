"""Validate a request for a manual task, store it, and report its place in the queue."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

from hostler.agents.prepare import secret_variables
from hostler.bus.message import is_valid_name
from hostler.config.repositories import repo_full_name, resolve_repo_id
from hostler.config.settings import Settings
from hostler.errors import HostlerError
from hostler.governor.holders import read_host
from hostler.governor.policy import read_policy
from hostler.model import RepoName
from hostler.planner.dependencies import Blocker, parse_dependencies, require_no_cycle
from hostler.planner.queue import (
    SubmissionResult,
    read_blockers,
    read_graph,
    read_queue,
    submission_result,
)
from hostler.service.context import Presence
from hostler.service.running.launch import write_task_file
from hostler.service.scheduling.explain import ExplainInputs, blocker_json, find_task_denial
from hostler.service.scheduling.gates import WAITING_STATES, GateDenial, read_disk_space
from hostler.service.scheduling.placement import find_agent
from hostler.service.tasks.details import resolve_task
from hostler.store import Store, Transaction
from hostler.store.tasks import IssueRef, Task, find_task
from hostler.workflows.commands import ancestors
from hostler.workflows.manual_tasks import NotSubmitted, TaskSubmission, submit_task

_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """The request of a user. Empty fields were not given. `here` is the current folder."""

    prompt: str
    author: str
    here: str
    project: str = ""
    cwd: str = ""
    repo: str = ""
    agent: str = ""
    env: tuple[str, ...] = ()
    wall_limit_minutes: int = 0
    max_restarts: int | None = None
    title: str = ""


@dataclass(frozen=True, slots=True)
class TaskLocation:
    """A project, and the folder or repository of a task."""

    project: str
    cwd: str = ""
    repo: RepoName | None = None


def build_submission(settings: Settings, wish: TaskRequest, parent: Task | None) -> TaskSubmission:
    """Validate a request. Inside a run, `parent` is its task."""
    where = _resolve_location(settings, wish, parent)
    return TaskSubmission(
        project=where.project,
        prompt=wish.prompt,
        author=wish.author,
        cwd=where.cwd,
        repo_full_name=str(where.repo) if where.repo else None,
        agent=_require_agent(settings, where, wish.agent or (parent.agent if parent else "")),
        env=_require_env(settings, wish.env, parent),
        wall_limit_minutes=wish.wall_limit_minutes,
        max_restarts=wish.max_restarts,
        parent_task=parent.id if parent else None,
        title=" ".join(wish.title.split()),
    )


def _resolve_location(settings: Settings, wish: TaskRequest, parent: Task | None) -> TaskLocation:
    """Return where the task works: as requested, else as its parent, else in the current folder."""
    if wish.cwd and wish.repo:
        raise NotSubmitted("There is a --cwd and a --repo; a task works in one of them.")
    if wish.repo:
        return _repo_location(settings, resolve_repo_id(settings.repo, wish.repo), wish.project)
    if parent is not None and parent.repo_full_name and not wish.cwd:
        return _repo_location(settings, parent.project, wish.project)
    if parent is not None:
        return TaskLocation(
            _require_project_name(wish.project or parent.project), wish.cwd or parent.cwd
        )
    folder = wish.cwd or wish.here
    if not folder:
        raise NotSubmitted("The folder you are in is gone.", "Name another one with --cwd.")
    return TaskLocation(_require_project_name(wish.project or PurePath(folder).name), folder)


def _repo_location(settings: Settings, id: str, project: str) -> TaskLocation:
    if id not in settings.repo:
        raise NotSubmitted(
            f"The settings do not name the repository {id} any more.", "Use --cwd, or --repo."
        )
    if project not in ("", id):
        raise NotSubmitted(
            f"A task on the repository {id} belongs to the project {id}, not to {project!r}.",
            "Leave --project out.",
        )
    return TaskLocation(id, repo=repo_full_name(settings.repo[id]))


def _require_project_name(project: str) -> str:
    if is_valid_name(project):
        return project
    raise NotSubmitted(
        f"{project[:80]!r} cannot be the name of a project.",
        "Name one with --project: letters, digits, '.', '_' and '-', "
        "beginning with a letter or digit.",
    )


def _require_agent(settings: Settings, where: TaskLocation, named: str) -> str:
    """Return the name of an agent; empty if the settings decide it."""
    names = ", ".join(sorted(settings.agent))
    if not names:
        raise NotSubmitted(
            "The settings name no agent.",
            "Add an [agent.<name>] table, or write a file with `hostler init`.",
        )
    if named and named not in settings.agent:
        raise NotSubmitted(f"There is no agent {named!r}.", f"There are: {names}.")
    if find_agent(settings, where.project, named) is None:
        raise NotSubmitted(
            "There are several agents, and none was named.", f"Name one with --agent: {names}."
        )
    return named


def _require_env(settings: Settings, names: Iterable[str], parent: Task | None) -> tuple[str, ...]:
    """Return the names of variables for the agent. Raises for secrets of Hostler."""
    found = tuple(dict.fromkeys(name.strip() for name in names))
    wrong = [name for name in found if not _VARIABLE_NAME.fullmatch(name)]
    if wrong:
        raise NotSubmitted(
            f"{wrong[0][:80]!r} is not the name of a variable.",
            "Give its name alone; its value is taken when an agent starts.",
        )
    secret = {name.upper() for name in secret_variables(settings)}
    refused = [name for name in found if name.upper() in secret]
    if refused:
        raise NotSubmitted(
            f"{refused[0]} holds a secret of Hostler's own: no agent sees it.", "Leave it out."
        )
    return _require_visible_to_parent(parent, settings, found) if parent else found


def _require_visible_to_parent(
    parent: Task, settings: Settings, names: Collection[str]
) -> tuple[str, ...]:
    """Raise if a parent task passes on a variable that it cannot see itself."""
    found = find_agent(settings, parent.project, parent.agent)
    seen = {*parent.env, *(found[1].env if found else ())}
    more = [name for name in names if name not in seen]
    if more:
        raise NotSubmitted(
            f"The task {parent.id} may not see {more[0]}, so it cannot hand it on.",
            "A person can allow it, in the agent's `env` or with --env.",
        )
    return tuple(names)


SUBMIT_SCOPES = ("admission", "outbox", "tasks")


@dataclass(frozen=True, slots=True)
class SubmissionReceipt:
    """The answer to a submission, for all user interfaces."""

    id: str
    status: str
    queue_position: int | None
    gate: str | None
    why: str | None
    project: str
    parent_task: str | None
    depends_on: tuple[str, ...]
    blockers: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class SubmittedTask:
    """A submitted task, its position, its denial and its blockers."""

    task: Task
    standing: SubmissionResult
    denial: GateDenial | None = None
    blockers: tuple[Blocker, ...] = ()

    def received(self) -> SubmissionReceipt:
        """Return the receipt."""
        denial = self.denial
        return SubmissionReceipt(
            id=self.task.id,
            status=self.standing.status.value,
            queue_position=self.standing.queue_position,
            gate=(str(denial.gate) or None) if denial else None,
            why=denial.why if denial else None,
            project=self.task.project,
            parent_task=self.task.parent_task,
            depends_on=self.task.depends_on,
            blockers=tuple(blocker_json(one) for one in self.blockers),
        )


@dataclass(frozen=True, slots=True)
class SubmissionContext:
    """Where a request comes from. `parent` is the task of the surrounding run, if any; `waits`: the
    caller waits for the end."""

    home: Path
    settings: Settings
    parent: str = ""
    waits: bool = False
    presence: Presence = field(default_factory=Presence)


@dataclass(frozen=True, slots=True)
class LocalTaskQueue:
    """Queues manual tasks in the database."""

    store: Store
    at: SubmissionContext

    def submit(self, wish: TaskRequest, depends_on: Iterable[str]) -> SubmissionReceipt:
        """Validate and queue a task in one transaction."""
        return queue_task(self.store, self.at, wish, depends_on).received()


def queue_task(
    store: Store, at: SubmissionContext, wish: TaskRequest, depends_on: Iterable[str]
) -> SubmittedTask:
    """Validate and queue a task in one transaction."""
    with store.write(*SUBMIT_SCOPES) as tx:
        parent = find_task(tx, at.parent) if at.parent else None
        order = build_submission(at.settings, wish, parent)
        order = replace(order, depends_on=_normalize_dependencies(tx, order, depends_on))
        graph = read_graph(tx, order.depends_on)
        if parent is not None and at.waits:
            for name in (parent.id, *ancestors(tx, parent)):
                require_no_cycle(graph, name, order.depends_on)
        task = submit_task(tx, order)
        require_no_cycle(graph, task.id, order.depends_on)
    write_task_file(at.home / "projects" / task.project / "tasks" / task.id, task)
    return _read_submitted(store, at, task)


def _read_submitted(store: Store, at: SubmissionContext, task: Task) -> SubmittedTask:
    """How it stands a moment later, by the gates of admission: it may have begun already."""
    asked: ExplainInputs | HostlerError
    try:
        policy = read_policy(at.home, at.settings)
        asked = ExplainInputs(
            store, at.settings, policy, read_host(), at.presence, read_disk_space(at.home)
        )
    except HostlerError as error:
        asked = error
    with store.read() as tx:
        present = find_task(tx, task.id) or task
        denial = _find_denial(tx, asked, present)
        queue = read_queue(tx, at.settings.tasks.max_concurrent_root_tasks)
        nobody = present.state in WAITING_STATES and not at.presence.takes_tasks
        standing = submission_result(queue, present, held=denial is not None or nobody)
        return SubmittedTask(
            present, standing, denial, read_blockers(tx, [present]).get(task.id, ())
        )


def _find_denial(
    tx: Transaction, asked: ExplainInputs | HostlerError, task: Task
) -> GateDenial | None:
    """The gate that holds a task; caps that cannot be read hold it, as far as we can tell."""
    if task.state not in WAITING_STATES:
        return None
    if isinstance(asked, HostlerError):
        return GateDenial("", asked.what, asked.remedy)
    return find_task_denial(tx, asked, task)


def _normalize_dependencies(
    tx: Transaction, order: TaskSubmission, given: Iterable[str]
) -> tuple[str, ...]:
    """Dependencies in their one form; a beginning of an id becomes the id."""
    repo = RepoName.parse(order.repo_full_name) if order.repo_full_name else None
    names = parse_dependencies(given, repo=repo)
    found = (name if IssueRef.parse(name) else resolve_task(tx, name).id for name in names)
    return tuple(dict.fromkeys(found))
