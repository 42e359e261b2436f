"""A repository in memory, its people, a database, and what a poll does."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

from fake_forge import FakeForge

from hostler.clock import FakeClock, SystemClock
from hostler.forge.github.polling.poller import scan_repository
from hostler.intake.process import (
    ProcessResult,
    fetch_blockers,
    fetch_labellers,
    find_issues_without_blockers,
    find_issues_without_labellers,
    process_inbox,
)
from hostler.intake.repo_policy import RepoPolicy
from hostler.store import Patience, Store, open_store
from hostler.store.admin.migrate import upgrade
from hostler.store.engine.backend import find_place
from hostler.store.inbox import waiting_keys
from hostler.store.pull_requests import PullRow, PullStatus, add_pull, find_pull, pulls_in
from hostler.store.tasks import Task, TaskState, change_task, require_task, tasks_in

PATIENT = Patience(queue_seconds=60.0, begin_seconds=60.0)
ALLOWED = ("ann", "bob")
STRANGERS = ("mallory", "eve", "renovate[bot]")
BUGFIX, SMALL, DESIGN, IGNORE = "agent:bugfix", "agent:small-job", "agent:design", "agent:ignore"


@cache
def migrated() -> bytes:
    """A migrated database to copy: made once in a process, with no folder to keep alive."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        upgrade(
            home,
            find_place(home, None),
            clock=SystemClock(),
            patience=PATIENT,
            progress=lambda done, total: None,
        )
        return (home / "hostler.db").read_bytes()


def lay_database(home: Path) -> None:
    """A migrated database in a home: making one takes longer than many a test."""
    home.mkdir(parents=True, exist_ok=True)
    file = home / "hostler.db"
    if not file.exists():
        file.touch(mode=0o600)
        file.write_bytes(migrated())


@contextmanager
def database(clock: FakeClock) -> Iterator[Store]:
    """A database that lives as long as its block, off the disk where that can be."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        (Path(folder) / "hostler.db").write_bytes(migrated())
        with closing(open_store(Path(folder), clock=clock, patience=PATIENT)) as store:
            yield store


class Yard:
    """One repository, with ann and bob allowed and everybody else a stranger."""

    def __init__(self, store: Store, clock: FakeClock) -> None:
        self.store = store
        self.clock = clock
        self.hub = FakeForge(clock)
        self.name = self.hub.name
        self.watch = RepoPolicy(self.name, "stable", frozenset(ALLOWED), agent="helper")

    def tick(self) -> None:
        """GitHub's moments are whole seconds."""
        self.clock.advance(1)

    def file(self, title: str = "Crash", by: str = "ann", *labels: str, body: str = "It.") -> int:
        self.tick()
        return self.hub.file_issue(title, by=by, body=body, labels=labels)

    def label(self, number: int, label: str, by: str) -> None:
        self.tick()
        self.hub.put_labels(number, (label,), by=by)

    def change(self, number: int, **fields: object) -> None:
        self.tick()
        self.hub.change(number, **fields)

    def block(self, number: int, *blockers: int) -> None:
        for blocker in blockers:
            self.tick()
            self.hub.block(number, blocker)

    def say(self, number: int, body: str = "hello", by: str = "ann") -> int:
        self.tick()
        return self.hub.say(number, body, by=by)

    def read(self) -> None:
        """GitHub → inbox."""
        self.tick()
        with self.store.read() as tx:
            watched = [pull.pr_number for pull in pulls_in(tx, self.name)]
        scan_repository(self.store, self.hub, self.name, pulls=watched)

    def take(self) -> ProcessResult:
        """Inbox → tasks."""
        with self.store.read() as tx:
            numbers, blocked = (
                find_issues_without_labellers(tx, self.watch),
                find_issues_without_blockers(tx, self.watch),
            )
        labellers, blockers = fetch_labellers(self.hub, numbers), fetch_blockers(self.hub, blocked)
        with self.store.write("tasks", "outbox") as tx:
            return process_inbox(tx, self.watch, labellers, blockers)

    def poll(self) -> ProcessResult:
        self.read()
        return self.take()

    def tasks(self) -> list[Task]:
        with self.store.read() as tx:
            return tasks_in(tx, list(TaskState))

    def task(self) -> Task:
        (found,) = self.tasks()
        return found

    def waiting(self, task: Task) -> list[str]:
        with self.store.read() as tx:
            return waiting_keys(tx, self.name, task.number, task.pr_number)

    def pull(self, number: int) -> PullRow:
        with self.store.read() as tx:
            found = find_pull(tx, self.name, number)
        assert found is not None
        return found

    def set(self, task: Task, **fields: object) -> Task:
        """Put a task somewhere on its way."""
        with self.store.write("tasks") as tx:
            present = require_task(tx, task.id)
            return change_task(tx, present, replace(present, **fields))

    def open_pull(self, task: Task, branch: str = "agent/bugfix/1-crash") -> int:
        """As if an agent had worked and its pull request were open."""
        self.tick()
        self.hub.branches[branch] = "1" * 40
        number = self.hub.open_pull(branch, "main", "Work", by=self.hub.login)
        row = PullRow(
            str(self.name),
            number,
            task.number,
            task.id,
            branch,
            PullStatus.AWAITING_FEEDBACK,
            "1" * 40,
        )
        with self.store.write("tasks") as tx:
            add_pull(tx, row)
        self.set(task, pr_number=number, state=TaskState.AWAITING_FEEDBACK, branch=branch)
        return number

    def reasons(self, taken: ProcessResult, number: int) -> list[str]:
        return [event.decision.reason for event in taken.events if event.number == number]
