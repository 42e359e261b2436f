"""The table of the live view: one row per task, and one per issue without a task. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hostler.cli.demo.cast import ALLOWED
from hostler.cli.demo.news import flow_of, place_of
from hostler.cli.demo.sight import Issue, Pull, Sight, TaskSeen

# Shorter than the names of states, for the little room there is.
STATES = {"awaiting_feedback": "in review", "needs_input": "asks"}
NEW, LEFT_ALONE = "new", "left alone"
_LATER = "the next poll will notice"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    issue: str
    title: str
    flow: str
    state: str
    happening: str
    pull: str = ""


def rows(sight: Sight) -> list[Row]:
    """The table, by repository and issue."""
    return [row for issue in sight.github.issues for row in _rows_of(sight, issue)]


def _rows_of(sight: Sight, issue: Issue) -> Iterator[Row]:
    tasks = sight.house.tasks_of(issue)
    place = place_of(issue.repo, issue.number)
    if not tasks:
        allowed = issue.author in ALLOWED
        why = "not seen yet" if allowed else f"{issue.author} is not in allowed_users"
        yield Row(place, issue.title, "", NEW if allowed else LEFT_ALONE, why)
    for task in tasks:
        pull = sight.github.pull_of(issue, task.pull)
        yield Row(
            place,
            issue.title,
            flow_of(task.flow),
            STATES.get(task.state, task.state),
            _happening(task, pull, issue),
            standing(pull),
        )


def standing(pull: Pull | None) -> str:
    """A pull request's number and state."""
    if pull is None:
        return ""
    return f"#{pull.number} {'merged' if pull.merged_by else 'open' if pull.open else 'closed'}"


def _happening(task: TaskSeen, pull: Pull | None, issue: Issue) -> str:
    if task.live is not None:
        return _at_work(task)
    match task.state:
        case "queued":
            return "waits for a place"
        case "awaiting_feedback":
            return _in_review(pull)
        case "needs_input" if issue.talk and not issue.asks:
            return f"answered; {_LATER}"
        case "done" if task.flow == "design":
            return "merged; the implementation follows"
        case "done":
            return "merged; the issue is closed"
    return task.reason


def _at_work(task: TaskSeen) -> str:
    run = task.live
    assert run is not None
    if run.state in ("exited", "finishing"):
        return "commit, required tests, push"
    return run.words[-1] if run.words else "an agent starts"


def _in_review(pull: Pull | None) -> str:
    if pull is None:
        return "opens the pull request"
    if pull.merged_by:
        return f"merged; {_LATER}"
    if any(len(replies) < remark.versions for remark, replies in pull.threads()):
        return f"a comment; {_LATER}"
    return "waits for a review"
