"""The summary: what came of each issue, and which checks hold. Pure, but for the printing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hostler.cli.demo.cast import BOT
from hostler.cli.demo.checks import Check, check_all
from hostler.cli.demo.keeping import Report
from hostler.cli.demo.news import flow_of, place_of
from hostler.cli.demo.rows import standing
from hostler.cli.demo.sight import Issue, Pull, Sight
from hostler.cli.output import GREEN, RED, coloured, say

SERVICE = "the service left when asked, and no process was left behind"


@dataclass(frozen=True, slots=True)
class Summary:
    """Everything that the end has to say."""

    seconds: float
    sight: Sight
    checks: tuple[Check, ...]

    @property
    def good(self) -> bool:
        return all(check.holds for check in self.checks)


def sum_up(seconds: float, sight: Sight, more: tuple[Check, ...]) -> Summary:
    """The checks on what was seen last, and those made elsewhere."""
    return Summary(seconds, sight, (*check_all(sight), *more))


def service_check(report: Report) -> Check:
    """How the service ended."""
    wrong = [f"process {one} was alive" for one in report.left]
    if report.code is None:
        wrong.append("the keeper was lost")
    elif report.code:
        wrong.append(f"the service ended with {report.code}")
    return Check(SERVICE, tuple(wrong))


def show(summary: Summary) -> None:
    """For people."""
    sight = summary.sight
    lines = [line for issue in sight.github.issues for line in _of_issue(sight, issue)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)] if lines else []
    for line in lines:
        cells = (f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True))
        say("  ".join(cells).rstrip())
    say()
    for check in summary.checks:
        mark = coloured("✓", GREEN) if check.holds else coloured("✗", RED)
        say(f"{mark} {check.promise}")
        for wrong in check.wrong:
            say(f"    {wrong}")
    missing = sum(not check.holds for check in summary.checks)
    word = "everything holds" if summary.good else f"{missing} of {len(summary.checks)} do not hold"
    say(f"\n{summary.seconds:.0f} s, {word}.")


def as_data(summary: Summary) -> dict[str, Any]:
    """For programs."""
    return {
        "good": summary.good,
        "seconds": round(summary.seconds, 1),
        "issues": [_data(summary.sight, issue) for issue in summary.sight.github.issues],
        "checks": [
            {"promise": check.promise, "holds": check.holds, "wrong": list(check.wrong)}
            for check in summary.checks
        ],
    }


def _of_issue(sight: Sight, issue: Issue) -> Iterator[tuple[str, ...]]:
    """A line per task; one that says so where there is none."""
    place, end = place_of(issue.repo, issue.number), "open" if issue.open else "closed"
    tasks = sight.house.tasks_of(issue)
    if not tasks:
        yield place, "left alone", "", "", "", end
    for task in tasks:
        pull = sight.github.pull_of(issue, task.pull)
        commits = _counted(pull.commits, "commit", "commits") if pull else ""
        replies = _counted(_replies(pull), "reply", "replies") if pull else ""
        yield place, flow_of(task.flow), standing(pull), commits, replies, end


def _replies(pull: Pull) -> int:
    return sum(len(replies) for _, replies in pull.threads())


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}" if count else ""


def _data(sight: Sight, issue: Issue) -> dict[str, Any]:
    return {
        "repo": issue.repo,
        "number": issue.number,
        "title": issue.title,
        "author": issue.author,
        "open": issue.open,
        "questions": sum(one.author == BOT and not one.is_status for one in issue.comments),
        "tasks": [
            {"flow": task.flow, "state": task.state, "outcomes": [run.outcome for run in task.runs]}
            for task in sight.house.tasks_of(issue)
        ],
        "pull_requests": [
            {
                "number": pull.number,
                "title": pull.title,
                "merged_by": pull.merged_by,
                "commits": pull.commits,
                "replies": _replies(pull),
            }
            for pull in sight.github.pulls_of(issue)
        ],
    }
