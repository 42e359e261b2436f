"""Takeover: people have the work of a task, until somebody starts it again by hand."""

from __future__ import annotations

from datetime import datetime

from hostler.model import stamp
from hostler.store.inbox import mark_feedback_events_processed, waiting_keys
from hostler.store.pull_requests import comment_floors, hear_from
from hostler.store.retention import newest_shown
from hostler.store.tasks import Task
from hostler.store.transaction import Transaction, normal_stamp

# `heard_from` while people have the work.
NEVER = "9999-12-31T23:59:59.999Z"


def take_over(tx: Transaction, task: Task) -> None:
    """People have it: what was said until now is let go, and nothing more is heard."""
    waiting = waiting_keys(tx, task.repo, task.number, task.pr_number)
    mark_feedback_events_processed(tx, task.repo, waiting)
    hear_from(tx, task.repo, thread_of(task), NEVER)


def give_back(tx: Transaction, task: Task, at: datetime | str | None = None) -> None:
    """Agents have it again: words count from this moment of GitHub's on.

    None: GitHub was not asked, so the newest moment that it has shown us.
    """
    if task.repo_full_name is None or not thread_of(task):
        return
    if comment_floors(tx, task.repo, thread_of(task)).heard_from == NEVER:
        moment = newest_shown(tx, task.repo_full_name) if at is None else at
        hear_from(tx, task.repo, thread_of(task), whole_second(moment))


def whole_second(moment: datetime | str) -> str:
    """A moment as GitHub would write it: what is said within its second is not older."""
    if isinstance(moment, datetime):
        moment = stamp(moment)
    return f"{normal_stamp(moment)[:19]}.000Z" if moment else ""


def thread_of(task: Task) -> int:
    """The issue that a task's floors belong to; its pull request, where there is no issue."""
    return task.number or task.pr_number or 0
