"""Tasks and words that tests make prompts of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hostler.config.settings import Repo
from hostler.intake.model import CommentEvent, IssueEvent
from hostler.store.inbox import InboxRow
from hostler.store.tasks import Flow, Task, TaskState

STAMP = "2026-01-01T00:00:00.000Z"
REPO = Repo(
    owner="octo", name="stable", required_tests=["make test"], coding_guidelines_path="STYLE.md"
)


def task(**more: Any) -> Task:
    base = Task(
        "t1",
        "stable",
        "octo/stable",
        12,
        Flow.BUGFIX,
        "Crash on start",
        "ann",
        TaskState.RUNNING,
        STAMP,
        1,
        attempt=1,
        branch="agent/bugfix/12-crash",
        session="s1",
    )
    return replace(base, **more)


def row(kind: str, author: str, number: int = 12) -> InboxRow:
    return InboxRow("octo/stable", f"{kind}:9", kind, number, 9, author, STAMP, "{}")


def issue(body: str = "It crashes.") -> IssueEvent:
    return IssueEvent(row("issue", "ann"), "Crash on start", body, frozenset(), True, False)


def remark(body: str = "Rename it.") -> CommentEvent:
    return CommentEvent(row("review_comment", "bob", 15), body, "", 9, "src/app.py", 7)
