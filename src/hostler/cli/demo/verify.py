"""Checks of the demo's result, the tests of the merged work, and the summary."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostler.cli.demo.display import flow_of, issue_ref, pull_state
from hostler.cli.demo.environment import ALLOWED, BOT, REVIEWER, DemoScenario
from hostler.cli.demo.observe import DemoSnapshot, IssueSnapshot, PullRequestSnapshot, TaskSnapshot
from hostler.cli.demo.service_process import ServiceExit
from hostler.cli.output import GREEN, RED, colourise, print_line


@dataclass(frozen=True, slots=True)
class DemoCheck:
    """One check of the result; `wrong` lists where it fails."""

    promise: str
    wrong: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.wrong


def run_checks(snapshot: DemoSnapshot) -> list[DemoCheck]:
    """Run all checks on the last snapshot."""
    return [DemoCheck(promise, tuple(find(snapshot))) for promise, find in _CHECKS.items()]


def _every_issue_is_closed(snapshot: DemoSnapshot) -> Iterator[str]:
    if not _allowed_issues(snapshot):
        yield "no issue was filed"
    for issue in _allowed_issues(snapshot):
        if issue.open:
            yield f"{_label(issue)} is open"


def _one_pull_per_task(snapshot: DemoSnapshot) -> Iterator[str]:
    for issue in _allowed_issues(snapshot):
        pulls, tasks = snapshot.github.pulls_of(issue), snapshot.database.tasks_of(issue)
        if len(pulls) != len(tasks) or not tasks:
            yield f"{_label(issue)} has {len(tasks)} tasks and {len(pulls)} pull requests"
    for pull in snapshot.github.pulls:
        if pull.merged_by != REVIEWER:
            yield f"pull request {issue_ref(pull.repo, pull.number)} was not merged by {REVIEWER}"


def _one_reply_per_version(snapshot: DemoSnapshot) -> Iterator[str]:
    threads = [(pull, *thread) for pull in snapshot.github.pulls for thread in pull.threads()]
    if not any(remark.versions > 1 and replies for _, remark, replies in threads):
        yield "no edited comment was answered again"
    for pull, remark, replies in threads:
        if len(replies) != remark.versions:
            yield (
                f"a comment on {issue_ref(pull.repo, pull.number)} with {remark.versions} "
                f"versions has {len(replies)} replies"
            )


def _a_commit_per_version(snapshot: DemoSnapshot) -> Iterator[str]:
    for pull in snapshot.github.pulls:
        wanted = 1 + sum(remark.versions for remark, _ in pull.threads())
        if pull.commits != wanted:
            yield (
                f"pull request {issue_ref(pull.repo, pull.number)} has {pull.commits} commits "
                f"instead of {wanted}"
            )


def _a_design_came_first(snapshot: DemoSnapshot) -> Iterator[str]:
    flows = [
        [task.flow for task in snapshot.database.tasks_of(one)] for one in snapshot.github.issues
    ]
    if ["design", "implementation"] not in flows:
        yield "no implementation followed a design"


def _a_failure_was_fixed(snapshot: DemoSnapshot) -> Iterator[str]:
    if not any(_failed_first(task) for task in snapshot.database.tasks):
        yield "no agent failed first and succeeded later"


def _failed_first(task: TaskSnapshot) -> bool:
    outcomes = [run.outcome for run in task.runs]
    return task.state == "done" and outcomes[:1] == ["crash"] and outcomes[-1:] == ["success"]


def _questions_were_answered(snapshot: DemoSnapshot) -> Iterator[str]:
    if not any(said.author == BOT for issue in snapshot.github.issues for said in issue.talk):
        yield "no question was asked"
    for issue in snapshot.github.issues:
        if issue.asks:
            yield f"the question on {_label(issue)} has no answer"


def _outsiders_were_ignored(snapshot: DemoSnapshot) -> Iterator[str]:
    strangers = [one for one in snapshot.github.issues if one.author not in ALLOWED and one.labels]
    if not strangers:
        yield "no stranger filed an issue"
    for issue in strangers:
        touched = (
            issue.comments or snapshot.github.pulls_of(issue) or snapshot.database.tasks_of(issue)
        )
        if touched or not issue.open:
            yield f"{_label(issue)} by {issue.author} was touched"


def _status_says_done(snapshot: DemoSnapshot) -> Iterator[str]:
    for issue in _allowed_issues(snapshot):
        said = [comment for comment in issue.comments if comment.is_status]
        done = [comment for comment in said if " · done" in comment.body.partition("\n")[0]]
        if len(said) != len(snapshot.database.tasks_of(issue)) or len(done) != len(said):
            yield f"{_label(issue)} has {len(said)} status comments, {len(done)} of them done"


def _nothing_is_left_to_do(snapshot: DemoSnapshot) -> Iterator[str]:
    for task in snapshot.database.tasks:
        if task.state != "done":
            yield f"the {flow_of(task.flow)} of {issue_ref(task.repo, task.issue)} is {task.state}"
        if task.live is not None:
            yield f"the run {task.live.run} is {task.live.state}"
    if snapshot.database.unsent:
        yield f"{snapshot.database.unsent} writes are not sent"


_CHECKS: dict[str, Callable[[DemoSnapshot], Iterator[str]]] = {
    "every issue of an allowed user is closed": _every_issue_is_closed,
    "one pull request per task, merged by the reviewer": _one_pull_per_task,
    "one threaded reply per version of a comment": _one_reply_per_version,
    "one commit per version of a comment": _a_commit_per_version,
    "a merged design started its implementation": _a_design_came_first,
    "a failed agent was retried successfully": _a_failure_was_fixed,
    "a question was asked and answered": _questions_were_answered,
    "the issue of a user who is not allowed was ignored": _outsiders_were_ignored,
    "one status comment per task, and it says done": _status_says_done,
    "nothing is running, waiting or unsent": _nothing_is_left_to_do,
}


def _allowed_issues(snapshot: DemoSnapshot) -> list[IssueSnapshot]:
    return [issue for issue in snapshot.github.issues if issue.author in ALLOWED]


def _label(issue: IssueSnapshot) -> str:
    return issue_ref(issue.repo, issue.number)


TESTS_CHECK = "the merged code passes its tests"
_TEST_TIMEOUT_SECONDS = 60.0


def run_merged_tests(
    scenario: DemoScenario, url: str, folder: Path, env: Mapping[str, str]
) -> DemoCheck:
    """Clone each repository into the folder and run its tests."""
    return DemoCheck(TESTS_CHECK, tuple(_failures(scenario, url, folder, env)))


def _failures(
    scenario: DemoScenario, url: str, folder: Path, env: Mapping[str, str]
) -> Iterator[str]:
    for project in scenario.projects:
        where = folder / project.short
        clone = ["git", "clone", "--quiet", f"{url}/{project.name}.git", str(where)]
        tests = [["sh", "-c", command] for command in project.tests]
        for argv, cwd in [(clone, folder), *((one, where) for one in tests)]:
            if wrong := _run_command(argv, cwd, env):
                yield f"{project.short}: {argv[-1]}: {wrong}"
                break


def _run_command(argv: list[str], cwd: Path, env: Mapping[str, str]) -> str:
    """Run a command; return the last line of its output if it failed, else an empty text."""
    try:
        done = subprocess.run(
            argv,
            cwd=cwd,
            env={**env, "GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TEST_TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = (done.stdout + done.stderr).strip().splitlines()
    return "" if done.returncode == 0 else (said[-1] if said else f"code {done.returncode}")


SERVICE_CHECK = "the service stopped on request and left no process behind"


@dataclass(frozen=True, slots=True)
class DemoSummary:
    """The result of a demo."""

    seconds: float
    snapshot: DemoSnapshot
    checks: tuple[DemoCheck, ...]

    @property
    def good(self) -> bool:
        return all(check.holds for check in self.checks)


def summarise(seconds: float, snapshot: DemoSnapshot, more: tuple[DemoCheck, ...]) -> DemoSummary:
    """Build the summary from the last snapshot and further checks."""
    return DemoSummary(seconds, snapshot, (*run_checks(snapshot), *more))


def check_service_exit(report: ServiceExit) -> DemoCheck:
    """Check how the service ended."""
    wrong = [f"process {one} was alive" for one in report.left]
    if report.code is None:
        wrong.append("the process that guards the service was killed")
    elif report.code:
        wrong.append(f"the service exited with code {report.code}")
    return DemoCheck(SERVICE_CHECK, tuple(wrong))


def print_summary(summary: DemoSummary) -> None:
    """Print the summary."""
    snapshot = summary.snapshot
    lines = [line for issue in snapshot.github.issues for line in _issue_rows(snapshot, issue)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)] if lines else []
    for line in lines:
        cells = (f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True))
        print_line("  ".join(cells).rstrip())
    print_line()
    for check in summary.checks:
        mark = colourise("✓", GREEN) if check.holds else colourise("✗", RED)
        print_line(f"{mark} {check.promise}")
        for wrong in check.wrong:
            print_line(f"    {wrong}")
    failed = sum(not check.holds for check in summary.checks)
    total = len(summary.checks)
    if summary.good:
        print_line(f"\nAll {total} checks passed in {summary.seconds:.0f} s. Next: hostler init")
    else:
        print_line(f"\n{failed} of {total} checks failed after {summary.seconds:.0f} s.")


def summary_json(summary: DemoSummary) -> dict[str, Any]:
    """Return the summary as JSON data."""
    return {
        "good": summary.good,
        "seconds": round(summary.seconds, 1),
        "issues": [
            _issue_json(summary.snapshot, issue) for issue in summary.snapshot.github.issues
        ],
        "checks": [
            {"promise": check.promise, "holds": check.holds, "wrong": list(check.wrong)}
            for check in summary.checks
        ],
    }


def _issue_rows(snapshot: DemoSnapshot, issue: IssueSnapshot) -> Iterator[tuple[str, ...]]:
    """Yield a row per task of an issue, or one row if it has no task."""
    label, end = issue_ref(issue.repo, issue.number), "open" if issue.open else "closed"
    tasks = snapshot.database.tasks_of(issue)
    if not tasks:
        yield label, "ignored", "", "", "", end
    for task in tasks:
        pull = snapshot.github.pull_of(issue, task.pull)
        commits = _count_text(pull.commits, "commit", "commits") if pull else ""
        replies = _count_text(_count_replies(pull), "reply", "replies") if pull else ""
        yield label, flow_of(task.flow), pull_state(pull), commits, replies, end


def _count_replies(pull: PullRequestSnapshot) -> int:
    return sum(len(replies) for _, replies in pull.threads())


def _count_text(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}" if count else ""


def _issue_json(snapshot: DemoSnapshot, issue: IssueSnapshot) -> dict[str, Any]:
    return {
        "repo": issue.repo,
        "number": issue.number,
        "title": issue.title,
        "author": issue.author,
        "open": issue.open,
        "questions": sum(one.author == BOT and not one.is_status for one in issue.comments),
        "tasks": [
            {"flow": task.flow, "state": task.state, "outcomes": [run.outcome for run in task.runs]}
            for task in snapshot.database.tasks_of(issue)
        ],
        "pull_requests": [
            {
                "number": pull.number,
                "title": pull.title,
                "merged_by": pull.merged_by,
                "commits": pull.commits,
                "replies": _count_replies(pull),
            }
            for pull in snapshot.github.pulls_of(issue)
        ],
    }
