"""What happened between two moments, as lines for people. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from hostler.cli.demo.cast import BOT
from hostler.cli.demo.sight import GitHub, House, Pull, Remark, RunSeen, Said, Sight, TaskSeen

S = TypeVar("S", bound=Said)
HOSTLER, AGENT = "hostler", "agent"
FLOWS = {"small_job": "small job", "implementation": "implement"}


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened: where, by whom, what."""

    place: str
    who: str
    what: str


def news(before: Sight, after: Sight) -> list[Line]:
    """Everything that is new, people first."""
    return [
        *_on_issues(before.github, after.github),
        *_in_house(before.house, after.house),
        *_on_pulls(before.github, after.github),
        *_closed(before.github, after.github),
    ]


def place_of(repo: str, number: int) -> str:
    """`almanac #3`."""
    return f"{repo.partition('/')[2]} #{number}"


def flow_of(flow: str) -> str:
    """The name of a flow for people."""
    return FLOWS.get(flow, flow)


def first_line(text: str) -> str:
    """The beginning of a text, in quotes."""
    return f"“{text.strip().partition(chr(10))[0]}”"


def _on_issues(before: GitHub, after: GitHub) -> Iterator[Line]:
    known = {(issue.repo, issue.number): issue for issue in before.issues}
    for issue in after.issues:
        old = known.get((issue.repo, issue.number))
        place = place_of(issue.repo, issue.number)
        if old is None:
            labels = ", ".join(issue.labels)
            yield Line(place, issue.author, f"files “{issue.title}” [{labels}]")
        yield from _talk(place, old.comments if old else (), issue.comments)


def _closed(before: GitHub, after: GitHub) -> Iterator[Line]:
    open_ones = {(issue.repo, issue.number) for issue in before.issues if issue.open}
    for issue in after.issues:
        if not issue.open and (issue.repo, issue.number) in open_ones:
            yield Line(place_of(issue.repo, issue.number), "github", "the issue is closed")


def _talk(place: str, before: Iterable[Said], after: Iterable[Said]) -> Iterator[Line]:
    for said, old in _paired(before, after):
        if said.is_status or (old and old.body == said.body):
            continue
        who = HOSTLER if said.author == BOT else said.author
        verb = "edits" if old else "asks" if who == HOSTLER else "answers"
        yield Line(place, who, f"{verb}: {first_line(said.text)}")


def _on_pulls(before: GitHub, after: GitHub) -> Iterator[Line]:
    known = {(pull.repo, pull.number): pull for pull in before.pulls}
    for pull in after.pulls:
        old = known.get((pull.repo, pull.number))
        place = place_of(pull.repo, pull.issue or pull.number)
        if old is None:
            yield Line(place, HOSTLER, f"opens pull request #{pull.number}: {pull.title}")
        elif old.head != pull.head:
            yield Line(place, HOSTLER, f"pushes a commit to #{pull.number}: {pull.head[:7]}")
        yield from _remarks(place, pull, old.remarks if old else ())
        yield from _talk(place, old.comments if old else (), pull.comments)
        yield from _verdicts(place, pull, old)


def _remarks(place: str, pull: Pull, before: Iterable[Remark]) -> Iterator[Line]:
    for remark, old in _paired(before, pull.remarks):
        if old and old.body == remark.body:
            continue
        who = HOSTLER if remark.author == BOT else remark.author
        if remark.in_reply_to is not None:
            what = f"replies in the thread: {first_line(remark.text)}"
        elif old:
            what = f"edits the comment: {first_line(remark.text)}"
        else:
            what = f"comments on {remark.path}:{remark.line}: {first_line(remark.text)}"
        yield Line(place, who, what)


def _verdicts(place: str, pull: Pull, old: Pull | None) -> Iterator[Line]:
    for who in pull.approved_by[len(old.approved_by) if old else 0 :]:
        yield Line(place, who, f"approves #{pull.number}")
    if pull.merged_by and not (old and old.merged_by):
        yield Line(place, pull.merged_by, f"merges #{pull.number}")


def _in_house(before: House, after: House) -> Iterator[Line]:
    known = {task.id: task for task in before.tasks}
    for task in after.tasks:
        old = known.get(task.id)
        if old is None:
            yield Line(_place(task), HOSTLER, f"picks it up: {flow_of(task.flow)}")
        yield from _runs(task, old.runs if old else ())
        if (old.state if old else "") != task.state and (what := _state(task)):
            yield Line(_place(task), HOSTLER, what)


def _runs(task: TaskSeen, before: Iterable[RunSeen]) -> Iterator[Line]:
    known = {run.run: run for run in before}
    for run in task.runs:
        old = known.get(run.run)
        if old is None:
            yield Line(_place(task), HOSTLER, f"starts an agent{_again(run)}")
        for words in run.words[len(old.words) if old else 0 :]:
            yield Line(_place(task), AGENT, words)


def _again(run: RunSeen) -> str:
    return f" (run {run.attempt} of this task)" if run.attempt > 1 else ""


def _state(task: TaskSeen) -> str:
    match task.state:
        case "retrying" | "parked":
            return f"tries again soon: {task.reason}"
        case "blocked" | "failed" | "stopped":
            return f"{task.state}: {task.reason}"
        case "done":
            return "done; the implementation follows" if task.flow == "design" else "done"
    return ""


def _place(task: TaskSeen) -> str:
    return place_of(task.repo, task.issue)


def _paired(before: Iterable[S], after: Iterable[S]) -> Iterator[tuple[S, S | None]]:
    """Each of the present ones with its former self."""
    known = {said.id: said for said in before}
    return ((said, known.get(said.id)) for said in after)
