"""The interface to a code host, `Forge`, and the values that it takes and returns."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from hostler.forge.actions import Action
from hostler.forge.github.rate_limit.limits import RateLimitBudget
from hostler.model import RepoName

# Conclusions to fix. A cancelled run, or one that needs approval, needs a person.
FAILED_CONCLUSIONS = frozenset({"failure", "timed_out", "startup_failure"})
COMPLETED_STATUS = "completed"


@dataclass(frozen=True, slots=True)
class WorkflowRun:
    """One attempt of a workflow run; `conclusion` is empty until it is completed.

    `foreign`: the commit comes from a fork.
    """

    id: int
    name: str
    event: str
    head_sha: str
    status: str
    conclusion: str
    attempt: int
    branch: str = ""
    foreign: bool = False
    url: str = ""
    created_at: str = ""

    @property
    def check(self) -> str:
        """Return what identifies a check of a commit: the workflow and its trigger."""
        return f"{self.name} ({self.event})" if self.event else self.name

    @property
    def over(self) -> bool:
        return self.status == COMPLETED_STATUS

    @property
    def failed(self) -> bool:
        return self.over and self.conclusion in FAILED_CONCLUSIONS

    @property
    def passed(self) -> bool:
        return self.over and self.conclusion == "success"


@dataclass(frozen=True, slots=True)
class WorkflowJob:
    """One job of the current attempt of a run."""

    id: int
    name: str
    conclusion: str
    url: str = ""

    @property
    def failed(self) -> bool:
        return self.conclusion in FAILED_CONCLUSIONS


def last_lines(log: str, lines: int, max_length: int) -> str:
    """Return the end of a log: at most so many lines, and so many characters of them."""
    whole = log.rstrip()
    shortened = whole[-max_length:].splitlines()
    if len(whole) > max_length and len(shortened) > 1:
        # The first line is incomplete.
        shortened = shortened[1:]
    return "\n".join(shortened[-lines:])


class ItemKind(StrEnum):
    """What an event in the inbox is about."""

    ISSUE = "issue"
    ISSUE_COMMENT = "issue_comment"
    REVIEW_COMMENT = "review_comment"
    REVIEW = "review"
    PULL = "pull"
    WORKFLOW_RUN = "workflow_run"


class SurfaceFeed(StrEnum):
    """What can be read for changes: lists of the repository, and lists of one thread."""

    ISSUES = "issues"
    ISSUE_COMMENTS = "issue_comments"
    REVIEW_COMMENTS = "review_comments"
    WORKFLOW_RUNS = "workflow_runs"
    # Of one issue or pull request; the last three have no `since`.
    THREAD_COMMENTS = "thread_comments"
    THREAD_REVIEW_COMMENTS = "thread_review_comments"
    ISSUE = "issue"
    PULL = "pull"
    REVIEWS = "reviews"


@dataclass(frozen=True, slots=True)
class Item:
    """One version of an object on the host."""

    kind: ItemKind
    id: int
    number: int
    author: str
    body: str
    updated_at: str
    # None if the host's answer was invalid.
    content: ItemContent | None


@dataclass(frozen=True, slots=True)
class KnownPage:
    """A page as it was read: start, number, ETag, whether it is full, its newest timestamp."""

    anchor: str
    number: int
    etag: str
    full: bool
    newest: str = ""


# The pages of a complete reading.
PageChain = tuple[KnownPage, ...]


@dataclass(frozen=True, slots=True)
class ListReading:
    """The result of reading a feed. If incomplete, it is everything up to its newest item.

    `unchanged`: nothing has changed since `known`, and there are no items. `chain` is what to pass
    as `known` next time. `asked` pages were requested, `pages` came with content.
    """

    items: tuple[Item, ...]
    complete: bool = True
    chain: PageChain = ()
    unchanged: bool = False
    asked: int = 0
    pages: int = 0


@dataclass(frozen=True, slots=True)
class RepositoryInfo:
    """The repository under its current name."""

    id: int
    name: RepoName
    default_branch: str
    private: bool
    can_push: bool


@dataclass(frozen=True, slots=True)
class Issue:
    """An issue, or a pull request seen as one."""

    number: int
    title: str
    body: str
    state: str
    author: str
    labels: frozenset[str]
    is_pull: bool
    updated_at: str
    url: str
    state_reason: str = ""
    locked: bool = False
    # How many issues block it; None if the host does not say.
    blocker_count: int | None = None
    author_association: str = ""


@dataclass(frozen=True, slots=True)
class Blocking:
    """An issue that another one is blocked by, possibly in another repository."""

    repo: RepoName
    number: int
    title: str
    state: str


@dataclass(frozen=True, slots=True)
class Pull:
    """A pull request; `mergeable` is None while the host has not computed it."""

    number: int
    title: str
    body: str
    state: str
    merged: bool
    draft: bool
    author: str
    head: str
    head_sha: str
    base: str
    mergeable: bool | None
    updated_at: str
    url: str
    labels: frozenset[str] = frozenset()
    # Empty if it was not merged.
    merged_at: str = ""
    author_association: str = ""


@dataclass(frozen=True, slots=True)
class CommentContent:
    """A comment, a review comment or a review.

    `verdict` is a review's state; `thread` the id of the first comment of its thread.
    """

    body: str
    verdict: str = ""
    thread: int = 0
    path: str = ""
    line: int = 0
    url: str = ""
    author_association: str = ""


ItemContent = Issue | Pull | CommentContent | WorkflowRun


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What an action created or found. Zero and empty if there is nothing to name."""

    id: int = 0
    number: int = 0
    url: str = ""
    updated_at: str = ""


@dataclass(frozen=True, slots=True)
class RequestCost:
    """The requests sent so far, and the last known rate limit."""

    requests: int
    budget: RateLimitBudget | None


class Forge(Protocol):
    """One repository on a code host. Every call may raise a `ForgeError`."""

    def own_login(self) -> str:
        """Return the account that our writes appear under."""
        ...

    def now(self) -> datetime:
        """Return the host's time."""
        ...

    def cost(self) -> RequestCost:
        """Return what this client has requested so far."""
        ...

    def was_renamed(self) -> bool:
        """Return whether the repository was renamed; `repository` has the new name."""
        ...

    def repository(self) -> RepositoryInfo:
        """Return the repository itself."""
        ...

    def find_repository_name(self, number: int) -> RepoName | None:
        """Return the current name of a repository by its id; None if it is not visible."""
        ...

    def issue(self, number: int) -> Issue:
        """Return the current version of an issue."""
        ...

    def pull(self, number: int) -> Item:
        """Return the current version of a pull request as an event."""
        ...

    def reviews(self, number: int) -> list[Item]:
        """Return all submitted reviews of a pull request."""
        ...

    def get_comment(self, kind: ItemKind, comment_id: int) -> Item | None:
        """Return the current version of a comment or review comment; None if it was deleted."""
        ...

    def thread(self, number: int) -> list[Item]:
        """Return all comments of an issue or pull request, oldest first."""
        ...

    def labellers(self, number: int) -> dict[str, str]:
        """Return who last added each label of an issue."""
        ...

    def blocked_by(self, number: int) -> list[Blocking]:
        """Return the issues that block an issue; none if the host does not support this."""
        ...

    def labels(self) -> frozenset[str]:
        """Return the labels of the repository."""
        ...

    def changes(
        self,
        feed: SurfaceFeed,
        since: datetime | None,
        *,
        number: int = 0,
        only_open: bool = False,
        known: PageChain = (),
        one_page: bool = False,
    ) -> ListReading:
        """Return what changed at or after a time of the host, oldest change first.

        `number`: the thread. `known`: pages of an earlier reading, requested conditionally; the
        items of unchanged pages are left out. Reviews are read from the first known page on;
        `one_page`: only that page.
        """
        ...

    def workflow_run(self, run_id: int) -> Item | None:
        """Return the current version of a workflow run as an event; None if it was deleted."""
        ...

    def list_commit_runs(self, head_sha: str, *, known: PageChain = ()) -> ListReading:
        """Return the newest workflow runs of a commit; `known`: as with `changes`."""
        ...

    def failed_jobs(self, run_id: int) -> list[WorkflowJob]:
        """Return the failed jobs of the current attempt of a run."""
        ...

    def job_log(self, job_id: int) -> str:
        """Return the end of a job's log; empty if the host has none any more."""
        ...

    def perform(self, action: Action, *, token: str) -> ActionResult:
        """Perform an action. After `Unclear`, look for its result before repeating it."""
        ...

    def find_performed(self, action: Action, *, token: str, since: datetime) -> ActionResult | None:
        """Return the result of an earlier `perform` with this token, if it can be found."""
        ...
