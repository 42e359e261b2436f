"""A yard for tests of housekeeping: a home with rows and folders, and a clock that ages them."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hostler.checkouts.checkout import Checkout, CheckoutLocation, CommitIdentity
from hostler.checkouts.mirror import Mirror, Remote, fetch_mirror, open_mirror
from hostler.checkouts.preparation import CheckoutPlan, ensure_checkout
from hostler.clock import FakeClock
from hostler.config.settings import Repo, Settings
from hostler.model import PollCursor, RepoName, ScopeKind, Surface, format_timestamp
from hostler.service.context import StepHook, ignore_step
from hostler.service.gc.collector import collect_garbage
from hostler.service.gc.context import GcKind, GcResult, build_gc_context
from hostler.store import Store
from hostler.store.inbox import (
    FeedbackEvent,
    InboxRow,
    add_inbox_row,
    consume_inbox_rows,
    record_feedback_event,
)
from hostler.store.outbox import Lane, OutboxRow, WriteState, add_write
from hostler.store.pull_requests import PullRow, PullStatus, add_pull
from hostler.store.repositories import Repo as RepoRows
from hostler.store.runs import Run, RunState, add_run, last_fence
from hostler.store.tasks import (
    Flow,
    Task,
    TaskState,
    add_task,
    change_task,
    find_task,
    next_order,
    require_task,
)
from hostler.store.transaction import normal_stamp

HERE = RepoName("octo", "stable")
ANN = CommitIdentity("Ann", "ann@example.org")
DAY = 86_400.0
SETTINGS = Settings(
    repo={"stable": Repo(owner="octo", name="stable", allowed_users=["ann"])},
)


@dataclass
class Yard:
    """One home."""

    home: Path
    store: Store
    clock: FakeClock
    settings: Settings = field(default_factory=lambda: SETTINGS)
    made: int = 0

    def age(self, days: float = 40) -> None:
        self.clock.advance(days * DAY)

    def now(self) -> str:
        return format_timestamp(self.clock.now())

    def gc(
        self,
        *kinds: GcKind,
        days: int = 30,
        dry_run: bool = False,
        observe: StepHook = ignore_step,
    ) -> dict[GcKind, GcResult]:
        at = build_gc_context(self.home, self.settings, self.store, days, observe)
        found = collect_garbage(at, kinds or tuple(GcKind), dry_run=dry_run)
        return {swept.kind: swept for swept in found}

    # Tasks and runs

    def task(self, name: str, state: TaskState = TaskState.DONE, **more: Any) -> Task:
        fields: dict[str, Any] = {"repo_full_name": None, "issue_number": None, "flow": Flow.TASK}
        fields |= {"project": "stable", "title": "Tidy", "author": "ann", "prompt": "Tidy up."}
        with self.store.write("tasks") as tx:
            order = next_order(tx)
            fields |= {"state": state, "state_since": tx.stamp(), "order": order, **more}
            add_task(tx, Task(id=name, **fields))
            task = require_task(tx, name)
        self.write(self.folder(task) / "TASK.md", task.prompt)
        return task

    def of_issue(self, name: str, number: int, state: TaskState = TaskState.DONE, **more: Any):
        fields = {"repo_full_name": str(HERE), "issue_number": number, "flow": Flow.BUGFIX}
        return self.task(name, state, **fields | more)

    def move(self, name: str, state: TaskState) -> None:
        with self.store.write("tasks") as tx:
            task = require_task(tx, name)
            change_task(tx, task, replace(task, state=state))

    def run(self, task: Task, name: str, state: RunState = RunState.ENDED) -> Path:
        folder = f"projects/{task.project}/tasks/{task.id}/runs/{name}"
        with self.store.write("admission") as tx:
            ended = tx.stamp() if state is RunState.ENDED else None
            fence = last_fence(tx, task.id) + 1
            row = Run(
                *(name, task.id, task.project, fence, fence, "work", "helper", "command", "p"),
                *(folder, tx.stamp()),
                state=state,
                ended_at=ended,
            )
            add_run(tx, row)
        self.write(self.home / folder / "stdout", "x" * 1000)
        return self.home / folder

    def folder(self, task: Task) -> Path:
        return self.home / "projects" / task.project / "tasks" / task.id

    def write(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def has(self, name: str) -> bool:
        with self.store.read() as tx:
            return find_task(tx, name) is not None

    # GitHub

    def cursors(self, moment: str = "", *, complete: bool = True) -> None:
        """Every feed has been read up to a moment, or up to now."""
        surfaces = (
            Surface.REPO_ISSUES,
            Surface.REPO_ISSUE_COMMENTS,
            Surface.REPO_REVIEW_COMMENTS,
        )
        for surface in surfaces:
            self.cursor(surface, moment, complete=complete)

    def cursor(self, surface: Surface, moment: str = "", *, complete: bool = True) -> PollCursor:
        with self.store.write() as tx:
            return RepoRows(HERE).upsert_poll_cursor(
                tx,
                surface,
                0,
                last_updated_at=moment or tx.stamp(),
                last_comment_id=1,
                bootstrap_complete=complete,
            )

    def issue(self, number: int, state: str = "closed", *labels: str, author: str = "ann") -> str:
        """A version of an issue, heard now."""
        payload = {
            "number": number,
            "title": "Tidy",
            "body": "Please.",
            "state": state,
            "author": author,
            "labels": labels,
            "is_pull": False,
            "updated_at": self.now(),
            "url": "",
        }
        return self.event(number, "issue", author=author, object_id=1000 + number, payload=payload)

    def event(
        self,
        number: int,
        kind: str = "issue_comment",
        *,
        heard: bool = True,
        author: str = "ann",
        object_id: int = 0,
        payload: dict[str, Any] | None = None,
    ) -> str:
        self.made += 1
        key = f"{kind}:{number}:{self.made}"
        row = InboxRow(
            str(HERE),
            key,
            kind,
            number,
            object_id or self.made,
            author,
            normal_stamp(self.now()),
            json.dumps(payload or {"body": "Words."}),
        )
        with self.store.write("outbox", "tasks") as tx:
            assert add_inbox_row(tx, row)
            if heard:
                consume_inbox_rows(tx, HERE, [key])
        return key

    def words(self, key: str, issue: int, pull: int = 0) -> None:
        with self.store.write() as tx:
            event = FeedbackEvent(key, pull, issue, "issue_comment", 1, self.now())
            record_feedback_event(tx, HERE, event)

    def pull(self, number: int, of: Task, status: PullStatus = PullStatus.MERGED) -> None:
        with self.store.write() as tx:
            add_pull(tx, PullRow(str(HERE), number, of.number, of.id, "branch", status))

    def sent(self, token: str, number: int = 0, **more: Any) -> None:
        fields: dict[str, Any] = {"kind": "comment", "state": WriteState.SENT}
        fields |= {"payload": '{"body": "Hello"}', "scope_kind": ScopeKind.ISSUE, **more}
        row = OutboxRow(
            repo_full_name=str(HERE),
            token=token,
            scope_number=number,
            lane=Lane.STATUS,
            not_before=self.now(),
            **fields,
        )
        with self.store.write("outbox") as tx:
            RepoRows(HERE).record_action_token_planned(
                tx, token, scope_kind=row.scope_kind, scope_number=number, source="test"
            )
            add_write(tx, row)


def git(*words: str, cwd: Path) -> str:
    """Git as an agent runs it."""
    who = {
        f"GIT_{role}_{what}": f"bot@{what}"
        for role in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    done = subprocess.run(
        ["git", *words],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "HOME": str(cwd), **who},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@dataclass(frozen=True)
class Fields:
    """A repository with a commit, its mirror in the home, and checkouts of it."""

    yard: Yard
    origin: Path

    @classmethod
    def plant(cls, yard: Yard, root: Path) -> Fields:
        origin, work = root / "origin.git", root / "planting"
        root.mkdir(exist_ok=True)
        git("init", "-q", "--bare", "-b", "main", str(origin), cwd=root)
        git("init", "-q", "-b", "main", str(work), cwd=root)
        (work / "README.md").write_text("# stable\n")
        git("add", "-A", cwd=work)
        git("commit", "-qm", "Begin", cwd=work)
        git("push", "-q", str(origin), "main", cwd=work)
        found = cls(yard, origin)
        fetch_mirror(found.mirror(), found.remote)
        return found

    @property
    def remote(self) -> Remote:
        return Remote(f"file://{self.origin}")

    def mirror(self, repo: RepoName = HERE) -> Mirror:
        return open_mirror(self.yard.home / "mirrors", repo)

    def checkout(self, task: Task) -> Checkout:
        """The checkout of a task, which has its branch from here on."""
        place = CheckoutLocation(self.yard.home / "checkouts", task.project, task.id)
        plan = CheckoutPlan(f"agent/bugfix/{task.id}", "main", ANN)
        with self.yard.store.write("tasks") as tx:
            change_task(tx, task, replace(task, branch=plan.branch))
        return ensure_checkout(place, self.mirror(), self.remote, plan).checkout
