"""Which task a person means: by its id, the beginning of it, or its issue."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from hostler.errors import HostlerError
from hostler.store import Transaction
from hostler.store.task_lookup import ids_like, newest_of_issue
from hostler.store.tasks import IssueRef, Task, find_task, require_task

# So many are named where several begin alike.
MOST_NAMED = 5
# As long as the day of an id: shorter beginnings are slips of the finger.
SHORTEST = 4


class NoSuchTask(HostlerError):
    """A name that means no task, or more than one."""

    exit_code = 2

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what, safe="Nothing was changed.", remedy=remedy)


def task_meant(tx: Transaction, text: str) -> Task:
    """The one task that a person means, or a clear refusal."""
    name = text.strip()
    if "#" in name:
        return _of_issue(tx, name)
    if not name.isprintable():  # no database has it, and some would not even be asked
        raise _unknown(tx, "")
    exact = find_task(tx, name)
    if exact is not None:
        return exact
    found = ids_like(tx, name, MOST_NAMED + 1) if len(name) >= SHORTEST else []
    if len(found) == 1:
        return require_task(tx, found[0])
    raise _ambiguous(name, found) if found else _unknown(tx, name)


def tasks_meant(tx: Transaction, texts: Iterable[str]) -> list[Task]:
    """The tasks that a person means, each once, in that order."""
    found = {task.id: task for task in (task_meant(tx, text) for text in texts)}
    return list(found.values())


def _of_issue(tx: Transaction, name: str) -> Task:
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


def _ambiguous(name: str, found: list[str]) -> NoSuchTask:
    shown = ", ".join(found[:MOST_NAMED]) + (", …" if len(found) > MOST_NAMED else "")
    return NoSuchTask(f"Several tasks begin with {name}: {shown}.", "Write more of the one meant.")


def _unknown(tx: Transaction, name: str) -> NoSuchTask:
    # Most slips are near the end: whatever begins with the same day is looked through.
    near = ids_like(tx, name[:8], 200) if len(name) >= SHORTEST else []
    close = get_close_matches(name, near, n=1)
    like = f"Did you mean {close[0]}? " if close else ""
    return NoSuchTask(
        f"There is no task {name[:120]!r}." if name else "That is no name of a task.",
        f"{like}`hostler task list --all` shows all.",
    )
