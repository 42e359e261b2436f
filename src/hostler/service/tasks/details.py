"""Find the task that a user names, and read everything shown about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from hostler.config.settings import Settings
from hostler.errors import HostlerError
from hostler.model import parse_timestamp
from hostler.planner.dependencies import Blocker
from hostler.planner.queue import read_blockers
from hostler.service.tasks.summary import NextStep, build_github_url, describe_next_step
from hostler.store import Transaction
from hostler.store.operator import AuditEntry, audit_entries_of
from hostler.store.pull_requests import PullRow, find_pull
from hostler.store.runs import Run, RunState, runs_of
from hostler.store.task_lookup import ids_like, newest_of_issue
from hostler.store.tasks import IssueRef, Task, children_of, find_task, require_task
from hostler.store.transaction import age
from hostler.workflows.commands import MAX_DEPTH

# At most this many matching ids are listed.
MAX_SUGGESTIONS = 5
# The length of the date in an id; shorter prefixes are rejected.
MIN_PREFIX_LENGTH = 4


class NoSuchTask(HostlerError):
    """A name that matches no task, or several."""

    exit_code = 2

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what, safe="Nothing was changed.", remedy=remedy)


def resolve_task(tx: Transaction, text: str) -> Task:
    """Return the task that a user names. Raises if none or several match."""
    name = text.strip()
    if "#" in name:
        return _resolve_issue(tx, name)
    if not name.isprintable():  # no id has it, and some databases reject it
        raise _unknown_error(tx, "")
    exact = find_task(tx, name)
    if exact is not None:
        return exact
    found = ids_like(tx, name, MAX_SUGGESTIONS + 1) if len(name) >= MIN_PREFIX_LENGTH else []
    if len(found) == 1:
        return require_task(tx, found[0])
    raise _ambiguous_error(name, found) if found else _unknown_error(tx, name)


def resolve_tasks(tx: Transaction, texts: Iterable[str]) -> list[Task]:
    """Return the tasks that a user names, each once, in order."""
    found = {task.id: task for task in (resolve_task(tx, text) for text in texts)}
    return list(found.values())


def _resolve_issue(tx: Transaction, name: str) -> Task:
    issue = IssueRef.parse(name)
    if issue is None:
        raise NoSuchTask(f"{name[:80]!r} names no issue.", "Write it as owner/repo#12, in quotes.")
    found = newest_of_issue(tx, issue)
    if found is None:
        raise NoSuchTask(
            f"There is no task for {issue}.",
            "`hostler service --dry-run` says which issues are picked up, and why others are not; "
            f"`hostler run {issue}` begins one now.",
        )
    return require_task(tx, found)


def _ambiguous_error(name: str, found: list[str]) -> NoSuchTask:
    shown = ", ".join(found[:MAX_SUGGESTIONS]) + (", …" if len(found) > MAX_SUGGESTIONS else "")
    return NoSuchTask(f"Several tasks begin with {name}: {shown}.", "Write more of the one meant.")


def _unknown_error(tx: Transaction, name: str) -> NoSuchTask:
    # Most typing errors are near the end: search ids of the same day.
    near = ids_like(tx, name[:8], 200) if len(name) >= MIN_PREFIX_LENGTH else []
    close = get_close_matches(name, near, n=1)
    like = f"Did you mean {close[0]}? " if close else ""
    return NoSuchTask(
        f"There is no task {name[:120]!r}." if name else "That is no name of a task.",
        f"{like}`hostler task list --all` shows all.",
    )


_TASK_FIELDS = (
    "id",
    "project",
    "repo_full_name",
    "issue_number",
    "pr_number",
    "title",
    "author",
    "reason",
    "question",
    "note",
    "attempt",
    "turn",
    "session",
    "agent",
    "branch",
    "base_branch",
    "cwd",
    "env",
    "depends_on",
    "parent_task",
    "state_since",
    "wake_at",
    "gate",
    "gate_since",
    "wall_limit_minutes",
    "max_restarts",
    "created_at",
    "updated_at",
)
_BRIEF_FIELDS = (
    "id",
    "project",
    "title",
    "state_since",
    "parent_task",
    "repo_full_name",
    "issue_number",
    "pr_number",
    "attempt",
    "gate",
    "wake_at",
    "created_at",
    "agent",
    "depends_on",
)
_RUN_FIELDS = (
    "run",
    "attempt",
    "kind",
    "agent",
    "outcome",
    "why",
    "stop_why",
    "counted",
    "exit_code",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "usd",
    "session",
    "admitted_at",
    "running_at",
    "exited_at",
    "ended_at",
    "slot_released_at",
)


@dataclass(frozen=True, slots=True)
class TaskTree:
    """A task and its descendants."""

    task: Task
    children: tuple[TaskTree, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return ids and states as JSON."""
        below = [child.as_json() for child in self.children]
        return {"id": self.task.id, "state": self.task.state.value, "children": below}


@dataclass(frozen=True, slots=True)
class TaskDetails:
    """One task with its runs, blockers, pull request and actions."""

    home: Path
    settings: Settings
    now: datetime
    tree: TaskTree
    runs: tuple[Run, ...]
    blockers: tuple[Blocker, ...]
    pull: PullRow | None
    audit_entries: tuple[AuditEntry, ...] = ()

    @property
    def task(self) -> Task:
        return self.tree.task

    @property
    def next(self) -> NextStep:
        """What the task is doing, and what a user can do."""
        return describe_next_step(
            self.task, [run for run in self.runs if run.state is not RunState.ENDED]
        )

    @property
    def folder(self) -> Path:
        """The folder of the task."""
        return task_folder(self.home, self.task)

    @property
    def checkout(self) -> Path | None:
        """The checkout of the task; None for a task in a folder."""
        if self.task.repo_full_name is None:
            return None
        return self.home / "checkouts" / self.task.project / self.task.id

    @property
    def issue_url(self) -> str:
        """The URL of the issue; empty for a manual task."""
        return self._page("issues", self.task.issue_number)

    @property
    def pull_url(self) -> str:
        """The URL of the pull request; empty if there is none."""
        return (self.pull.url if self.pull else "") or self._page("pull", self.task.pr_number)

    def _page(self, kind: str, number: int | None) -> str:
        return build_github_url(
            self.settings.github.web_url, self.task.repo_full_name, kind, number
        )

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        task = self.task
        return {
            **{name: getattr(task, name) for name in _TASK_FIELDS},
            "flow": task.flow.value,
            "state": task.state.value,
            "issue_url": self.issue_url or None,
            "pull_url": self.pull_url or None,
            "folder": self.folder,
            "checkout": self.checkout,
            "prompt": task.prompt,
            "blockers": [
                {"name": one.name, "why": one.sentence, "remedy": one.remedy}
                for one in self.blockers
            ],
            "children": [child.as_json() for child in self.tree.children],
            "usd": round(sum(run.usd for run in self.runs), 6),
            "next": self.next.then,
            "audit_entries": [one.as_json() for one in self.audit_entries],
            "runs": [self._run(run) for run in self.runs],
        }

    def _run(self, run: Run) -> dict[str, Any]:
        return run_json(run, self.home, self.now)


def brief_json(task: Task) -> dict[str, Any]:
    """Return a task of a list as JSON."""
    facts = {name: getattr(task, name) for name in _BRIEF_FIELDS}
    return {**facts, "state": task.state.value, "flow": task.flow.value}


def run_json(run: Run, home: Path, now: datetime) -> dict[str, Any]:
    """Return a run as JSON."""
    return {
        **{name: getattr(run, name) for name in _RUN_FIELDS},
        "state": run.state.value,
        "seconds": run_duration_seconds(run, now),
        "folder": home / run.folder,
    }


def read_task_details(tx: Transaction, home: Path, settings: Settings, task: Task) -> TaskDetails:
    """Read the details of a task."""
    return TaskDetails(
        home=home,
        settings=settings,
        now=tx.now(),
        tree=_read_tree(tx, task),
        runs=tuple(runs_of(tx, task.id)),
        blockers=read_blockers(tx, [task]).get(task.id, ()),
        pull=find_pull(tx, task.repo, task.pr_number) if task.pr_number else None,
        audit_entries=audit_entries_of(tx, task.id),
    )


def _read_tree(tx: Transaction, task: Task, depth: int = MAX_DEPTH) -> TaskTree:
    """Read a task and its descendants, each level in order."""
    below = children_of(tx, task.id) if depth > 0 else []
    return TaskTree(task, tuple(_read_tree(tx, child, depth - 1) for child in below))


def task_folder(home: Path, task: Task) -> Path:
    """Return the folder of a task."""
    return home / "projects" / task.project / "tasks" / task.id


def run_duration_seconds(run: Run, now: datetime) -> float:
    """Return how long the agent of a run has run."""
    if run.running_at is None:
        return 0.0
    begun = parse_timestamp(run.running_at)
    over = run.exited_at or run.ended_at
    return age(begun, parse_timestamp(over) if over else now).total_seconds()
