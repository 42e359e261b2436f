"""What changed between two snapshots, the table of tasks, and the plain view for logs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, TypeVar

from hostler.cli.demo.environment import ALLOWED, BOT
from hostler.cli.demo.observe import (
    CommentSnapshot,
    DatabaseSnapshot,
    DemoSnapshot,
    GitHubSnapshot,
    IssueSnapshot,
    PullRequestSnapshot,
    ReviewCommentSnapshot,
    RunSnapshot,
    TaskSnapshot,
)
from hostler.cli.output import print_line

S = TypeVar("S", bound=CommentSnapshot)
HOSTLER, AGENT = "hostler", "agent"
FLOW_NAMES = {"small_job": "small job", "implementation": "implement"}


@dataclass(frozen=True, slots=True)
class DemoEvent:
    """Something that happened: on which issue, by whom, what."""

    issue: str
    who: str
    what: str


def find_events(before: DemoSnapshot, after: DemoSnapshot) -> list[DemoEvent]:
    """Find what changed between two snapshots; user actions come first."""
    return [
        *_issue_events(before.github, after.github),
        *_task_events(before.database, after.database),
        *_pull_events(before.github, after.github),
        *_closed_events(before.github, after.github),
    ]


def issue_ref(repo: str, number: int) -> str:
    """Format an issue as `almanac #3`."""
    return f"{repo.partition('/')[2]} #{number}"


def flow_of(flow: str) -> str:
    """Return the display name of a flow."""
    return FLOW_NAMES.get(flow, flow)


def _quote_first_line(text: str) -> str:
    """Return the first line of a text, in quotes."""
    return f"“{text.strip().partition(chr(10))[0]}”"


def _issue_events(before: GitHubSnapshot, after: GitHubSnapshot) -> Iterator[DemoEvent]:
    known = {(issue.repo, issue.number): issue for issue in before.issues}
    for issue in after.issues:
        old = known.get((issue.repo, issue.number))
        label = issue_ref(issue.repo, issue.number)
        if old is None:
            labels = ", ".join(issue.labels)
            yield DemoEvent(label, issue.author, f"files “{issue.title}” [{labels}]")
        yield from _comment_events(label, old.comments if old else (), issue.comments)


def _closed_events(before: GitHubSnapshot, after: GitHubSnapshot) -> Iterator[DemoEvent]:
    open_ones = {(issue.repo, issue.number) for issue in before.issues if issue.open}
    for issue in after.issues:
        if not issue.open and (issue.repo, issue.number) in open_ones:
            yield DemoEvent(issue_ref(issue.repo, issue.number), "github", "the issue is closed")


def _comment_events(
    label: str, before: Iterable[CommentSnapshot], after: Iterable[CommentSnapshot]
) -> Iterator[DemoEvent]:
    for said, old in _pair_versions(before, after):
        if said.is_status or (old and old.body == said.body):
            continue
        who = HOSTLER if said.author == BOT else said.author
        verb = "edits" if old else "asks" if who == HOSTLER else "answers"
        yield DemoEvent(label, who, f"{verb}: {_quote_first_line(said.text)}")


def _pull_events(before: GitHubSnapshot, after: GitHubSnapshot) -> Iterator[DemoEvent]:
    known = {(pull.repo, pull.number): pull for pull in before.pulls}
    for pull in after.pulls:
        old = known.get((pull.repo, pull.number))
        label = issue_ref(pull.repo, pull.issue or pull.number)
        if old is None:
            yield DemoEvent(label, HOSTLER, f"opens pull request #{pull.number}: {pull.title}")
        elif old.head != pull.head:
            yield DemoEvent(label, HOSTLER, f"pushes a commit to #{pull.number}: {pull.head[:7]}")
        yield from _review_comment_events(label, pull, old.remarks if old else ())
        yield from _comment_events(label, old.comments if old else (), pull.comments)
        yield from _review_events(label, pull, old)


def _review_comment_events(
    label: str, pull: PullRequestSnapshot, before: Iterable[ReviewCommentSnapshot]
) -> Iterator[DemoEvent]:
    for remark, old in _pair_versions(before, pull.remarks):
        if old and old.body == remark.body:
            continue
        who = HOSTLER if remark.author == BOT else remark.author
        if remark.in_reply_to is not None:
            what = f"replies in the thread: {_quote_first_line(remark.text)}"
        elif old:
            what = f"edits the comment: {_quote_first_line(remark.text)}"
        else:
            what = f"comments on {remark.path}:{remark.line}: {_quote_first_line(remark.text)}"
        yield DemoEvent(label, who, what)


def _review_events(
    label: str, pull: PullRequestSnapshot, old: PullRequestSnapshot | None
) -> Iterator[DemoEvent]:
    for who in pull.approved_by[len(old.approved_by) if old else 0 :]:
        yield DemoEvent(label, who, f"approves #{pull.number}")
    if pull.merged_by and not (old and old.merged_by):
        yield DemoEvent(label, pull.merged_by, f"merges #{pull.number}")


def _task_events(before: DatabaseSnapshot, after: DatabaseSnapshot) -> Iterator[DemoEvent]:
    known = {task.id: task for task in before.tasks}
    for task in after.tasks:
        old = known.get(task.id)
        if old is None:
            yield DemoEvent(_task_label(task), HOSTLER, f"picks it up: {flow_of(task.flow)}")
        yield from _run_events(task, old.runs if old else ())
        if (old.state if old else "") != task.state and (what := _describe_state(task)):
            yield DemoEvent(_task_label(task), HOSTLER, what)


def _run_events(task: TaskSnapshot, before: Iterable[RunSnapshot]) -> Iterator[DemoEvent]:
    known = {run.run: run for run in before}
    for run in task.runs:
        old = known.get(run.run)
        if old is None:
            yield DemoEvent(_task_label(task), HOSTLER, f"starts an agent{_attempt_text(run)}")
        for words in run.words[len(old.words) if old else 0 :]:
            yield DemoEvent(_task_label(task), AGENT, words)


def _attempt_text(run: RunSnapshot) -> str:
    return f" (run {run.attempt} of this task)" if run.attempt > 1 else ""


def _describe_state(task: TaskSnapshot) -> str:
    match task.state:
        case "retrying" | "parked":
            return f"retries soon: {task.reason}"
        case "blocked" | "failed" | "stopped":
            return f"{task.state}: {task.reason}"
        case "done":
            return "done; the implementation follows" if task.flow == "design" else "done"
    return ""


def _task_label(task: TaskSnapshot) -> str:
    return issue_ref(task.repo, task.issue)


def _pair_versions(before: Iterable[S], after: Iterable[S]) -> Iterator[tuple[S, S | None]]:
    """Yield each present comment with its earlier version, if any."""
    known = {said.id: said for said in before}
    return ((said, known.get(said.id)) for said in after)


# Short names of states for the narrow column.
STATE_NAMES = {"awaiting_feedback": "in review", "needs_input": "asks"}
NEW, IGNORED = "new", "ignored"
_NEXT_POLL = "picked up at the next poll"


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One line of the table."""

    issue: str
    title: str
    flow: str
    state: str
    happening: str
    pull: str = ""


def build_rows(snapshot: DemoSnapshot) -> list[TaskRow]:
    """Build the table, by repository and issue."""
    return [row for issue in snapshot.github.issues for row in _rows_of(snapshot, issue)]


def _rows_of(snapshot: DemoSnapshot, issue: IssueSnapshot) -> Iterator[TaskRow]:
    tasks = snapshot.database.tasks_of(issue)
    label = issue_ref(issue.repo, issue.number)
    if not tasks:
        allowed = issue.author in ALLOWED
        why = "not seen yet" if allowed else f"{issue.author} is not in allowed_users"
        yield TaskRow(label, issue.title, "", NEW if allowed else IGNORED, why)
    for task in tasks:
        pull = snapshot.github.pull_of(issue, task.pull)
        yield TaskRow(
            label,
            issue.title,
            flow_of(task.flow),
            STATE_NAMES.get(task.state, task.state),
            _describe_task(task, pull, issue),
            pull_state(pull),
        )


def pull_state(pull: PullRequestSnapshot | None) -> str:
    """Format a pull request's number and state."""
    if pull is None:
        return ""
    return f"#{pull.number} {'merged' if pull.merged_by else 'open' if pull.open else 'closed'}"


def _describe_task(
    task: TaskSnapshot, pull: PullRequestSnapshot | None, issue: IssueSnapshot
) -> str:
    if task.live is not None:
        return _describe_run(task)
    match task.state:
        case "queued":
            return "waiting for a slot"
        case "awaiting_feedback":
            return _describe_review(pull)
        case "needs_input" if issue.talk and not issue.asks:
            return f"answered; {_NEXT_POLL}"
        case "done" if task.flow == "design":
            return "merged; the implementation follows"
        case "done":
            return "merged; the issue is closed"
    return task.reason


def _describe_run(task: TaskSnapshot) -> str:
    run = task.live
    assert run is not None
    if run.state in ("exited", "finishing"):
        return "commit, required tests, push"
    return run.words[-1] if run.words else "agent starting"


def _describe_review(pull: PullRequestSnapshot | None) -> str:
    if pull is None:
        return "opening the pull request"
    if pull.merged_by:
        return f"merged; {_NEXT_POLL}"
    if any(len(replies) < remark.versions for remark, replies in pull.threads()):
        return f"new comment; {_NEXT_POLL}"
    return "waiting for a review"


class DemoView(Protocol):
    """Shows the demo while it runs."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
    def tell(self, elapsed: float, line: DemoEvent) -> None:
        """Show an event."""
        ...

    def draw(self, elapsed: float, snapshot: DemoSnapshot) -> None:
        """Show the current state."""
        ...


class SilentView:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def tell(self, elapsed: float, line: DemoEvent) -> None:
        pass

    def draw(self, elapsed: float, snapshot: DemoSnapshot) -> None:
        pass


class PlainView(SilentView):
    """Prints a line for each event."""

    def tell(self, elapsed: float, line: DemoEvent) -> None:
        print_line(f"{elapsed:5.1f}s  {line.issue:<14} {line.who:<8} {line.what}")
        sys.stdout.flush()
