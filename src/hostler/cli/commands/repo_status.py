"""The state of each watched repository, from the settings and the database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hostler.config.repositories import repo_full_name
from hostler.config.settings import Repo, Settings
from hostler.errors import StoreMissing
from hostler.store import Transaction, open_store
from hostler.store.operator import ALL, Pause, all_pauses, project_scope
from hostler.store.pull_requests import PullRow, pulls_in
from hostler.store.tasks import OVER, Task, TaskState, tasks_in

UNFINISHED_STATES = tuple(state for state in TaskState if state not in OVER)


@dataclass(frozen=True, slots=True)
class RepoStatus:
    """State of one watched repository. `pauses` are those set by commands."""

    id: str
    settings: Repo
    agent: str
    pauses: tuple[Pause, ...] = ()
    tasks: tuple[Task, ...] = ()
    pulls: tuple[PullRow, ...] = ()

    @property
    def repository(self) -> str:
        """The repository's `owner/name`."""
        return str(repo_full_name(self.settings))

    @property
    def is_paused_by_command(self) -> bool:
        """Whether `hostler repo pause` paused this repository."""
        return any(pause.scope == project_scope(self.id) for pause in self.pauses)

    @property
    def states(self) -> dict[str, int]:
        """Number of open tasks by state."""
        counted = Counter(task.state for task in self.tasks)
        return {state.value: counted[state] for state in UNFINISHED_STATES if counted[state]}

    def as_json(self) -> dict[str, Any]:
        """Return the state as JSON data."""
        return {
            "id": self.id,
            "repository": self.repository,
            "base_branch": self.settings.base_branch or None,
            "agent": self.agent or None,
            "allowed_users": self.settings.allowed_users,
            "paused": bool(self.pauses) or self.settings.paused,
            "paused_in_settings": self.settings.paused,
            "pauses": [asdict(pause) for pause in self.pauses],
            "tasks": self.states,
            "pull_requests": [
                {"number": pull.pr_number, "issue": pull.issue_number, "url": pull.url or None}
                for pull in self.pulls
            ],
        }

    def lines(self) -> Iterator[str]:
        """Yield the state as lines for the terminal."""
        tasks = ", ".join(f"{count} {state}" for state, count in self.states.items())
        pulls = ", ".join(f"#{pull.pr_number}" for pull in self.pulls)
        yield f"{self.id}  {self.repository}"
        yield f"  base branch    {self.settings.base_branch or 'the default branch'}"
        yield f"  agent          {self.agent or 'none: add an [agent.<name>] table'}"
        yield f"  allowed users  {', '.join(self.settings.allowed_users) or 'none'}"
        yield f"  open tasks     {tasks or 'none'}"
        yield f"  pull requests  {pulls or 'none'}"
        if self.settings.paused:
            yield "  paused         in the settings"
        for pause in self.pauses:
            what = "all work, since" if pause.scope == ALL else "since"
            reason = f": {pause.why}" if pause.why else ""
            yield f"  paused         {what} {pause.since} by {pause.by}{reason}"


def read_repo_statuses(home: Path, settings: Settings, *, only: str = "") -> list[RepoStatus]:
    """Read the state of all watched repositories, or of one.

    Without a database, only the settings are used.
    """
    with _open_reader(home, settings) as tx:
        pauses = all_pauses(tx) if tx else {}
        tasks = tasks_in(tx, UNFINISHED_STATES) if tx else []
        return [
            _build_status(tx, settings, id, pauses, tasks)
            for id in settings.repo
            if only in ("", id)
        ]


def _build_status(
    tx: Transaction | None,
    settings: Settings,
    id: str,
    pauses: dict[str, Pause],
    tasks: list[Task],
) -> RepoStatus:
    repo = settings.repo[id]
    scopes = (project_scope(id), ALL)
    return RepoStatus(
        id=id,
        settings=repo,
        agent=repo.agent or next(iter(settings.agent), ""),
        pauses=tuple(pauses[scope] for scope in scopes if scope in pauses),
        tasks=tuple(task for task in tasks if task.project == id),
        pulls=tuple(pulls_in(tx, repo_full_name(repo)) if tx else ()),
    )


@contextmanager
def _open_reader(home: Path, settings: Settings) -> Iterator[Transaction | None]:
    try:
        store = open_store(home, settings.runtime.database_url or None)
    except StoreMissing:
        yield None
        return
    try:
        with store.read() as tx:
            yield tx
    finally:
        store.close()
