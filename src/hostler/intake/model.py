"""Events of the inbox as typed values, and the effects that a decision about one can have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from hostler.forge.actions import RerunFailedJobs
from hostler.forge.events import decode_content
from hostler.forge.port import CommentContent, Issue, ItemKind, Pull, WorkflowRun
from hostler.intake.markdown import TextDependencies
from hostler.intake.operator_syntax import (
    InvalidCommand,
    ParsedCommand,
    command_lines,
    has_other_text,
)
from hostler.store.inbox import InboxRow
from hostler.store.pull_requests import Floors, PullRow, PullStatus
from hostler.store.tasks import Flow, Task, TaskState
from hostler.store.transaction import normal_stamp

# Events in which somebody says something.
COMMENT_KINDS = (ItemKind.ISSUE_COMMENT, ItemKind.REVIEW_COMMENT, ItemKind.REVIEW)


@dataclass(frozen=True, slots=True)
class IssueEvent:
    """One version of an issue, or of a pull request seen as one."""

    row: InboxRow
    title: str
    body: str
    labels: frozenset[str]
    is_open: bool
    is_pull: bool
    # How many others it waits for, by GitHub's own list; None where GitHub does not say.
    blockers: int | None = None

    @property
    def digest(self) -> str:
        """What an approval is for: title and body."""
        return sha256(f"{self.title}\0{self.body}".encode("utf-8", "replace")).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class PullEvent:
    """One version of a pull request. `merged_at` is GitHub's time, empty if it was not merged."""

    row: InboxRow
    is_open: bool
    merged: bool
    head_sha: str
    labels: frozenset[str] = frozenset()
    merged_at: str = ""


@dataclass(frozen=True, slots=True)
class CommentEvent:
    """One version of what somebody said.

    `verdict` is a review's state; `thread` the remark that began its thread.
    """

    row: InboxRow
    body: str
    verdict: str = ""
    thread: int = 0
    path: str = ""
    line: int = 0
    url: str = ""

    @property
    def is_command(self) -> bool:
        """Words for the operator's desk are not work."""
        return bool(command_lines(self.body))

    def is_work(self, operator: bool) -> bool:
        """Whether it has words for an agent: no command, or one of somebody who gives none."""
        return not self.is_command or (not operator and has_other_text(self.body))

    @property
    def is_empty(self) -> bool:
        """A review that only holds line comments, approves, or was dismissed, asks for nothing."""
        return not self.body.strip() or self.verdict == "DISMISSED"


@dataclass(frozen=True, slots=True)
class WorkflowRunEvent:
    """One attempt of a workflow run that is over."""

    row: InboxRow
    run: WorkflowRun


@dataclass(frozen=True, slots=True)
class UnreadableEvent:
    """An event whose content is not as GitHub documents it."""

    row: InboxRow


InboxEvent = IssueEvent | PullEvent | CommentEvent | WorkflowRunEvent | UnreadableEvent


def parse_event(row: InboxRow) -> InboxEvent:
    """Return the event of an inbox row."""
    try:
        content = decode_content(row.kind, row.payload)
    except (ValueError, RecursionError):
        return UnreadableEvent(row)
    match content:
        case Issue():
            return IssueEvent(
                row,
                content.title,
                content.body,
                content.labels,
                is_open=content.state == "open",
                is_pull=content.is_pull,
                blockers=content.blocker_count,
            )
        case Pull():
            return _parse_pull(row, content)
        case CommentContent():
            return CommentEvent(
                row,
                content.body,
                content.verdict,
                content.thread or row.object_id,
                content.path,
                content.line,
                content.url,
            )
        case WorkflowRun():
            return WorkflowRunEvent(row, content)


def _parse_pull(row: InboxRow, pull: Pull) -> PullEvent | UnreadableEvent:
    try:
        merged_at = normal_stamp(pull.merged_at) if pull.merged_at else ""
    except ValueError:
        return UnreadableEvent(row)
    is_open = pull.state == "open"
    return PullEvent(row, is_open, pull.merged, pull.head_sha, pull.labels, merged_at)


# What is read here; events of other kinds are not for us.
EVENT_KINDS = tuple(kind.value for kind in ItemKind)


@dataclass(frozen=True, slots=True)
class StartTask:
    """A new task for an issue, approved by somebody; after a design, if there is a parent.

    What follows a design waits for the same as its parent. `heard_from`: the GitHub time at which
    a takeover of the issue ends; empty: when the issue last changed.
    """

    flow: Flow
    issue: IssueEvent
    approved_by: str
    parent: Task | None = None
    waits_for: TextDependencies = field(default_factory=TextDependencies)
    heard_from: str = ""


@dataclass(frozen=True, slots=True)
class ChangeTaskState:
    """A task changes its state."""

    task: Task
    state: TaskState
    reason: str
    question: str = ""


@dataclass(frozen=True, slots=True)
class UpdateTaskIssue:
    """A task works from another version of its issue from now on.

    None: it waits for what it waited for.
    """

    task: Task
    issue: IssueEvent
    waits_for: TextDependencies | None = None


@dataclass(frozen=True, slots=True)
class AddFeedback:
    """Words for a task. `pull` is 0 where they were said on its issue."""

    task: Task
    remark: CommentEvent
    pull: int


@dataclass(frozen=True, slots=True)
class RedirectComment:
    """Tell somebody that the talk goes on at the pull request."""

    task: Task
    remark: CommentEvent
    pull: int


@dataclass(frozen=True, slots=True)
class SetPullState:
    """A pull request changes its status, or has a new head."""

    pull: PullRow
    status: PullStatus
    head_sha: str


@dataclass(frozen=True, slots=True)
class TakeOverTask:
    """People have the work of a task: its words are let go, and none are heard."""

    task: Task


@dataclass(frozen=True, slots=True)
class StoreCommand:
    """A command, to be carried out or, if it was not understood, answered."""

    remark: CommentEvent
    asked: ParsedCommand | InvalidCommand


@dataclass(frozen=True, slots=True)
class RefuseCommand:
    """A command of somebody who may not give any."""

    remark: CommentEvent
    asked: ParsedCommand | InvalidCommand


@dataclass(frozen=True, slots=True)
class AddCiFeedback:
    """Failed runs are work for a task."""

    task: Task
    runs: tuple[WorkflowRunEvent, ...]
    pull: int


@dataclass(frozen=True, slots=True)
class RerunFlakyCheck:
    """A failed run is suspected to be a flake: it is run once more, and people are told."""

    task: Task
    run: WorkflowRunEvent
    why: str


@dataclass(frozen=True, slots=True)
class AskAboutCi:
    """Failed runs are work for a task, but a person has to say first how it goes on."""

    task: Task
    runs: tuple[WorkflowRunEvent, ...]
    pull: int
    question: str


@dataclass(frozen=True, slots=True)
class BlockTask:
    """It cannot go on by itself; its work is on its pull request."""

    task: Task
    pull: PullRow
    why: str


CiEffect = AddCiFeedback | RerunFlakyCheck | AskAboutCi | BlockTask
IntakeEffect = (
    StartTask
    | ChangeTaskState
    | UpdateTaskIssue
    | AddFeedback
    | RedirectComment
    | SetPullState
    | TakeOverTask
    | StoreCommand
    | RefuseCommand
    | CiEffect
)


@dataclass(frozen=True, slots=True)
class IntakeDecision:
    """What one event causes, and why. One that waits is looked at again later.

    `held`: it waits for its task to be unblocked, and need not be looked at before.
    """

    reason: str
    effects: tuple[IntakeEffect, ...] = ()
    waits: bool = False
    held: bool = False

    @property
    def acts(self) -> bool:
        return bool(self.effects)


@dataclass(frozen=True, slots=True)
class CiState:
    """What is known of the CI of a pull request's present head.

    `seen`: every attempt that is over, oldest first; `told`: event keys of those that went to an
    agent; `repeated`: by check, the run that we had repeated, as it was then; `unfinished`: whether
    the host shows runs that are not over, None where it was not asked.
    """

    seen: tuple[WorkflowRunEvent, ...] = ()
    told: frozenset[str] = frozenset()
    repeated: Mapping[str, RerunFailedJobs] = field(default_factory=dict)
    unfinished: bool | None = False


@dataclass(frozen=True, slots=True)
class ThreadState:
    """What is known about the thread that an event belongs to.

    `labellers` is None where nobody was asked yet; `opening`: a pull request of ours is just
    being opened, so its number may not be known; `issue` is the newest version of the issue;
    `blocked_by` is what it waits for by GitHub's own list, None where that is not known yet;
    `first`: no other version of it is known; `told`, `redirected`: what became of another one;
    `operations_begun`: what the operations issue held at first is known, and is history.
    """

    tasks: tuple[Task, ...] = ()
    pull: PullRow | None = None
    pull_task: Task | None = None
    issue: IssueEvent | None = None
    labellers: dict[str, str] | None = None
    floors: Floors = field(default_factory=Floors)
    opening: bool = False
    newest: bool = True
    blocked_by: tuple[str, ...] | None = ()
    first: bool = True
    told: bool = False
    redirected: bool = False
    operations_begun: bool = False
    checks: CiState = field(default_factory=CiState)

    @property
    def present(self) -> Task | None:
        """The task that words on the issue are for: the unfinished one, else the last."""
        going = [task for task in self.tasks if not task.over]
        return (going or list(self.tasks))[-1] if self.tasks else None
