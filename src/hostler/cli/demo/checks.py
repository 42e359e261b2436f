"""The checks of the summary: what GitHub and the database must show at the end. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hostler.cli.demo.cast import ALLOWED, BOT, REVIEWER
from hostler.cli.demo.news import flow_of, place_of
from hostler.cli.demo.sight import Issue, Sight, TaskSeen


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must hold; `wrong` says where it does not."""

    promise: str
    wrong: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.wrong


def check_all(sight: Sight) -> list[Check]:
    """Every check on what was seen last."""
    return [Check(promise, tuple(find(sight))) for promise, find in _CHECKS.items()]


def _every_issue_is_closed(sight: Sight) -> Iterator[str]:
    if not _wanted(sight):
        yield "no issue was filed"
    for issue in _wanted(sight):
        if issue.open:
            yield f"{_name(issue)} is open"


def _one_pull_per_task(sight: Sight) -> Iterator[str]:
    for issue in _wanted(sight):
        pulls, tasks = sight.github.pulls_of(issue), sight.house.tasks_of(issue)
        if len(pulls) != len(tasks) or not tasks:
            yield f"{_name(issue)} has {len(tasks)} tasks and {len(pulls)} pull requests"
    for pull in sight.github.pulls:
        if pull.merged_by != REVIEWER:
            yield f"pull request {place_of(pull.repo, pull.number)} was not merged by {REVIEWER}"


def _one_reply_per_version(sight: Sight) -> Iterator[str]:
    threads = [(pull, *thread) for pull in sight.github.pulls for thread in pull.threads()]
    if not any(remark.versions > 1 and replies for _, remark, replies in threads):
        yield "no edited comment was answered again"
    for pull, remark, replies in threads:
        if len(replies) != remark.versions:
            yield (
                f"a comment on {place_of(pull.repo, pull.number)} with {remark.versions} "
                f"versions has {len(replies)} replies"
            )


def _a_commit_per_version(sight: Sight) -> Iterator[str]:
    for pull in sight.github.pulls:
        wanted = 1 + sum(remark.versions for remark, _ in pull.threads())
        if pull.commits != wanted:
            yield (
                f"pull request {place_of(pull.repo, pull.number)} has {pull.commits} commits "
                f"instead of {wanted}"
            )


def _a_design_came_first(sight: Sight) -> Iterator[str]:
    flows = [[task.flow for task in sight.house.tasks_of(one)] for one in sight.github.issues]
    if ["design", "implementation"] not in flows:
        yield "no implementation followed a design"


def _a_failure_was_mended(sight: Sight) -> Iterator[str]:
    if not any(_failed_first(task) for task in sight.house.tasks):
        yield "no agent failed first and succeeded later"


def _failed_first(task: TaskSeen) -> bool:
    outcomes = [run.outcome for run in task.runs]
    return task.state == "done" and outcomes[:1] == ["crash"] and outcomes[-1:] == ["success"]


def _questions_were_answered(sight: Sight) -> Iterator[str]:
    if not any(said.author == BOT for issue in sight.github.issues for said in issue.talk):
        yield "no question was asked"
    for issue in sight.github.issues:
        if issue.asks:
            yield f"the question on {_name(issue)} has no answer"


def _strangers_were_left_alone(sight: Sight) -> Iterator[str]:
    strangers = [one for one in sight.github.issues if one.author not in ALLOWED and one.labels]
    if not strangers:
        yield "no stranger filed an issue"
    for issue in strangers:
        touched = issue.comments or sight.github.pulls_of(issue) or sight.house.tasks_of(issue)
        if touched or not issue.open:
            yield f"{_name(issue)} by {issue.author} was touched"


def _status_says_done(sight: Sight) -> Iterator[str]:
    for issue in _wanted(sight):
        said = [comment for comment in issue.comments if comment.is_status]
        done = [comment for comment in said if " · done" in comment.body.partition("\n")[0]]
        if len(said) != len(sight.house.tasks_of(issue)) or len(done) != len(said):
            yield f"{_name(issue)} has {len(said)} status comments, {len(done)} of them done"


def _nothing_is_left_to_do(sight: Sight) -> Iterator[str]:
    for task in sight.house.tasks:
        if task.state != "done":
            yield f"the {flow_of(task.flow)} of {place_of(task.repo, task.issue)} is {task.state}"
        if task.live is not None:
            yield f"the run {task.live.run} is {task.live.state}"
    if sight.house.unsent:
        yield f"{sight.house.unsent} writes are not sent"


_CHECKS: dict[str, Callable[[Sight], Iterator[str]]] = {
    "every issue by somebody allowed is closed": _every_issue_is_closed,
    "one pull request per task, merged by the reviewer": _one_pull_per_task,
    "one threaded reply per version of a comment": _one_reply_per_version,
    "one commit per version of a comment": _a_commit_per_version,
    "a merged design started its implementation": _a_design_came_first,
    "an agent that failed was followed by one that did not": _a_failure_was_mended,
    "a question was asked and answered": _questions_were_answered,
    "the stranger's issue was left alone": _strangers_were_left_alone,
    "one status comment per task, and it says done": _status_says_done,
    "nothing is running, waiting or unsent": _nothing_is_left_to_do,
}


def _wanted(sight: Sight) -> list[Issue]:
    return [issue for issue in sight.github.issues if issue.author in ALLOWED]


def _name(issue: Issue) -> str:
    return place_of(issue.repo, issue.number)
