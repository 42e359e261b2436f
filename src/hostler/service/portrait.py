"""Everything that there is to show about one task, read in one moment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from hostler.config.settings import Settings
from hostler.flows.lineage import DEEPEST
from hostler.model import parse_stamp
from hostler.planner import Blocker, blockers_of
from hostler.service.next_steps import NextStep, next_step
from hostler.service.pages import page
from hostler.store import Transaction
from hostler.store.operator import Deed, deeds_of
from hostler.store.pull_requests import PullRow, find_pull
from hostler.store.runs import Run, RunState, runs_of
from hostler.store.tasks import Task, children_of
from hostler.store.transaction import age

_TASK_WORDS = (
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
_BRIEF_WORDS = (
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
_RUN_WORDS = (
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
    "lent_at",
)


@dataclass(frozen=True, slots=True)
class Tree:
    """A task and all that came from it."""

    task: Task
    children: tuple[Tree, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """For programs: names and states."""
        below = [child.as_json() for child in self.children]
        return {"id": self.task.id, "state": self.task.state.value, "children": below}


@dataclass(frozen=True, slots=True)
class Portrait:
    """One task with its surroundings."""

    home: Path
    settings: Settings
    now: datetime
    tree: Tree
    runs: tuple[Run, ...]
    blockers: tuple[Blocker, ...]
    pull: PullRow | None
    deeds: tuple[Deed, ...] = ()

    @property
    def task(self) -> Task:
        return self.tree.task

    @property
    def next(self) -> NextStep:
        """What it is doing, and what a person can do."""
        return next_step(self.task, [run for run in self.runs if run.state is not RunState.ENDED])

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return task_folder(self.home, self.task)

    @property
    def checkout(self) -> Path | None:
        """Where its agents work on a repository."""
        if self.task.repo_full_name is None:
            return None
        return self.home / "checkouts" / self.task.project / self.task.id

    @property
    def issue_url(self) -> str:
        """Its issue's page; empty for a task by hand."""
        return self._page("issues", self.task.issue_number)

    @property
    def pull_url(self) -> str:
        """Its pull request's page; empty where there is none."""
        return (self.pull.url if self.pull else "") or self._page("pull", self.task.pr_number)

    def _page(self, kind: str, number: int | None) -> str:
        return page(self.settings.github.web_url, self.task.repo_full_name, kind, number)

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        task = self.task
        return {
            **{name: getattr(task, name) for name in _TASK_WORDS},
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
            "deeds": [one.as_json() for one in self.deeds],
            "runs": [self._run(run) for run in self.runs],
        }

    def _run(self, run: Run) -> dict[str, Any]:
        return run_json(run, self.home, self.now)


def brief(task: Task) -> dict[str, Any]:
    """A task in a list, for programs."""
    facts = {name: getattr(task, name) for name in _BRIEF_WORDS}
    return {**facts, "state": task.state.value, "flow": task.flow.value}


def run_json(run: Run, home: Path, now: datetime) -> dict[str, Any]:
    """One run, for programs."""
    return {
        **{name: getattr(run, name) for name in _RUN_WORDS},
        "state": run.state.value,
        "seconds": seconds_of(run, now),
        "folder": home / run.folder,
    }


def portrait(tx: Transaction, home: Path, settings: Settings, task: Task) -> Portrait:
    """A task as it is now."""
    return Portrait(
        home=home,
        settings=settings,
        now=tx.now(),
        tree=tree_of(tx, task),
        runs=tuple(runs_of(tx, task.id)),
        blockers=blockers_of(tx, [task]).get(task.id, ()),
        pull=find_pull(tx, task.repo, task.pr_number) if task.pr_number else None,
        deeds=deeds_of(tx, task.id),
    )


def tree_of(tx: Transaction, task: Task, depth: int = DEEPEST) -> Tree:
    """A task and all that came from it, each level in its order."""
    below = children_of(tx, task.id) if depth > 0 else []
    return Tree(task, tuple(tree_of(tx, child, depth - 1) for child in below))


def task_folder(home: Path, task: Task) -> Path:
    """Where the files of a task are."""
    return home / "projects" / task.project / "tasks" / task.id


def seconds_of(run: Run, now: datetime) -> float:
    """How long a run's agent has worked so far, or did."""
    if run.running_at is None:
        return 0.0
    begun = parse_stamp(run.running_at)
    over = run.exited_at or run.ended_at
    return age(begun, parse_stamp(over) if over else now).total_seconds()
