"""One issue now: its task, and the way until no agent is needed for it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hostler.config.settings import Settings
from hostler.errors import HostlerError, NotFound
from hostler.flows import start_now
from hostler.flows.byhand import awaits_children
from hostler.intake import watch
from hostler.model import RepoName
from hostler.service.house import House
from hostler.service.resting import rested
from hostler.store import Store
from hostler.store.outbox import OutboxRow, open_writes
from hostler.store.runs import open_runs
from hostler.store.tasks import Flow, Task, TaskState, require_task

_REFERENCE = re.compile(r"(?P<repo>[^/\s#]+/[^/\s#]+)#(?P<number>[1-9]\d{0,9})")
# An agent is at work, or will be by itself very soon.
MOVING = frozenset({TaskState.QUEUED, TaskState.RUNNING, TaskState.RETRYING})
_CODES = {
    TaskState.AWAITING_FEEDBACK: 0,
    TaskState.DONE: 0,
    TaskState.NEEDS_INPUT: 3,
    TaskState.BLOCKED: 3,
    TaskState.PARKED: 3,
    # At rest only if what it waits for can never be ready, or nobody works on that.
    TaskState.QUEUED: 3,
    # Left as it is: its agent waits for what nobody works on, or somebody pressed Ctrl-C.
    TaskState.RUNNING: 3,
    TaskState.RETRYING: 3,
}


@dataclass(frozen=True, slots=True)
class Reference:
    """An issue of a watched repository."""

    project: str
    repo: RepoName
    number: int


def refer(settings: Settings, text: str) -> Reference:
    """`owner/repo#12`, if that repository is watched."""
    found = _REFERENCE.fullmatch(text.strip())
    if found is None:
        raise HostlerError(
            f"{text!r} names no issue.", remedy="Write it as owner/repo#12, in quotes."
        )
    wanted = found["repo"].lower()
    for project, repo in settings.repo.items():
        if f"{repo.owner}/{repo.name}".lower() == wanted:
            return Reference(project, RepoName(repo.owner, repo.name), int(found["number"]))
    raise HostlerError(
        f"{found['repo']} is not watched.",
        safe="Nothing was started.",
        remedy=f"Add it first: hostler repo add {found['repo']}",
    )


def begin(house: House, wanted: Reference, flow: Flow | None) -> Task:
    """The issue's task, new or waked up. Asks GitHub for the issue as it is now."""
    repo, forge = house.settings.repo[wanted.project], house.hub.repo(wanted.repo)
    try:
        issue = forge.issue(wanted.number)
    except NotFound as error:
        raise HostlerError(
            f"{wanted.repo}#{wanted.number} does not exist, or our account cannot see it.",
            safe="Nothing was started.",
            remedy="Look at the number, and at what the token may read.",
        ) from error
    return start_now(house.store, watch(wanted.project, repo), issue, flow, at=forge.now())


def at_rest(store: Store, task: str) -> Task | None:
    """The task, when no agent and no write of it is under way any more; None before that."""
    with store.read() as tx:
        found = require_task(tx, task)
        stuck = any(one.stuck for one in rested(tx, [task]))
        moving = (found.state in MOVING and not stuck) or awaits_children(found)
        writes = [row for row in open_writes(tx) if _is_of(found, row)]
        busy = moving or open_runs(tx, task_id=task) or writes
    return None if busy else found


def exit_code(task: Task) -> int:
    """What a task came to, as a program's exit code."""
    return _CODES.get(task.state, 1)


def _is_of(task: Task, row: OutboxRow) -> bool:
    threads = {task.issue_number, task.pr_number}
    return row.repo_full_name == task.repo_full_name and row.scope_number in threads
