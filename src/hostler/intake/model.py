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

# Events that are comments.
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
    # The number of issues that block it by GitHub's list; None if GitHub does not say.
    blockers: int | None = None

    @property
    def digest(self) -> str:
        """A digest of title and body: what an approval refers to."""
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
    """One version of a comment.

    `verdict`: the state of a review; `thread`: the comment that started its review thread.
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
        """Whether it contains an operator command."""
        return bool(command_lines(self.body))

    def has_agent_text(self, operator: bool) -> bool:
        """Return whether it has text for an agent.

        It has if it is not a command, or a command of a user who cannot give any, with other text.
        """
        return not self.is_command or (not operator and has_other_text(self.body))

    @property
    def is_empty(self) -> bool:
        """Whether it asks for nothing: a review with only line comments, or a dismissed one."""
        return not self.body.strip() or self.verdict == "DISMISSED"


@dataclass(frozen=True, slots=True)
class WorkflowRunEvent:
    """One finished attempt of a workflow run."""

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


# Events of other kinds are ignored.
EVENT_KINDS = tuple(kind.value for kind in ItemKind)


@dataclass(frozen=True, slots=True)
class StartTask:
    """A new task for an approved issue; `parent` is the design task that it follows, if any.

    A task that follows a design waits for the same as its parent. `comments_since`: the GitHub
    time at which a takeover of the issue ends; empty: when the issue last changed.
    """

    flow: Flow
    issue: IssueEvent
    approved_by: str
    parent: Task | None = None
    waits_for: TextDependencies = field(default_factory=TextDependencies)
    comments_since: str = ""


@dataclass(frozen=True, slots=True)
class ChangeTaskState:
    """A task changes its state."""

    task: Task
    state: TaskState
    reason: str
    question: str = ""


@dataclass(frozen=True, slots=True)
class UpdateTaskIssue:
    """A task works from another version of its issue.

    `waits_for` None: its dependencies do not change.
    """

    task: Task
    issue: IssueEvent
    waits_for: TextDependencies | None = None


@dataclass(frozen=True, slots=True)
class AddFeedback:
    """A comment for a task. `pull` is 0 for a comment on its issue."""

    task: Task
    comment: CommentEvent
    pull: int


@dataclass(frozen=True, slots=True)
class RedirectComment:
    """Reply that the discussion continues on the pull request."""

    task: Task
    comment: CommentEvent
    pull: int


@dataclass(frozen=True, slots=True)
class SetPullState:
    """A pull request changes its status or head."""

    pull: PullRow
    status: PullStatus
    head_sha: str


@dataclass(frozen=True, slots=True)
class TakeOverTask:
    """Users take over the work of a task: its comments are dropped, and later ones ignored."""

    task: Task


@dataclass(frozen=True, slots=True)
class StoreCommand:
    """A command to carry out or, if it is invalid, to reply to."""

    comment: CommentEvent
    command: ParsedCommand | InvalidCommand


@dataclass(frozen=True, slots=True)
class RefuseCommand:
    """A command of a user who is not an operator."""

    comment: CommentEvent
    command: ParsedCommand | InvalidCommand


@dataclass(frozen=True, slots=True)
class AddCiFeedback:
    """Failed runs become feedback for a task."""

    task: Task
    runs: tuple[WorkflowRunEvent, ...]
    pull: int


@dataclass(frozen=True, slots=True)
class RerunFlakyCheck:
    """A failed run may be a flake: it is rerun, and an issue about it is opened."""

    task: Task
    run: WorkflowRunEvent
    why: str


@dataclass(frozen=True, slots=True)
class AskAboutCi:
    """Failed runs become feedback for a task, but a user has to answer first."""

    task: Task
    runs: tuple[WorkflowRunEvent, ...]
    pull: int
    question: str


@dataclass(frozen=True, slots=True)
class BlockTask:
    """The task cannot continue; its work is on its pull request."""

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
    """What one event causes, and why. `waits`: it stays in the inbox and is decided again later.

    `held`: it waits until its task is unblocked, and need not be decided again before.
    """

    reason: str
    effects: tuple[IntakeEffect, ...] = ()
    waits: bool = False
    held: bool = False

    @property
    def has_effects(self) -> bool:
        """Whether the event causes anything."""
        return bool(self.effects)


@dataclass(frozen=True, slots=True)
class CiState:
    """What is known of the CI of a pull request's present head.

    `attempts`: every finished attempt, oldest first; `delivered`: event keys of those that went to
    an agent; `reruns`: by check, the run that Hostler had rerun; `unfinished`: whether GitHub shows
    runs that are not finished, None if it was not queried.
    """

    attempts: tuple[WorkflowRunEvent, ...] = ()
    delivered: frozenset[str] = frozenset()
    reruns: Mapping[str, RerunFailedJobs] = field(default_factory=dict)
    unfinished: bool | None = False


@dataclass(frozen=True, slots=True)
class ThreadState:
    """What is known about the thread that an event belongs to.

    `labellers`: None if GitHub was not queried; `pull_opening`: a pull request is being opened, so
    its number may be unknown; `issue`: the newest version of the issue; `blocked_by`: its
    dependencies by GitHub's list, None if not known yet; `is_first`: no other version of the event
    is known; `delivered`, `redirected`: what became of another version; `operations_begun`: the
    older comments of the operations issue are known, and are not commands.
    """

    tasks: tuple[Task, ...] = ()
    pull: PullRow | None = None
    pull_task: Task | None = None
    issue: IssueEvent | None = None
    labellers: dict[str, str] | None = None
    floors: Floors = field(default_factory=Floors)
    pull_opening: bool = False
    is_newest: bool = True
    blocked_by: tuple[str, ...] | None = ()
    is_first: bool = True
    delivered: bool = False
    redirected: bool = False
    operations_begun: bool = False
    checks: CiState = field(default_factory=CiState)

    @property
    def current_task(self) -> Task | None:
        """The task that comments on the issue belong to: the unfinished one, else the last."""
        unfinished = [task for task in self.tasks if not task.over]
        return (unfinished or list(self.tasks))[-1] if self.tasks else None
