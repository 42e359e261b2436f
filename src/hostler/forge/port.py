"""The interface to a code host, `Forge`, and the values that it takes and returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from hostler.forge.actions import Action
from hostler.forge.github.rate_limit.limits import RateLimitBudget
from hostler.model import RepoName

# What asks for mending. One that was cancelled, or waits for an approval, needs a person.
FAILED_CONCLUSIONS = frozenset({"failure", "timed_out", "startup_failure"})
COMPLETED_STATUS = "completed"


@dataclass(frozen=True, slots=True)
class WorkflowRun:
    """One attempt of a workflow run; `conclusion` is empty until it is over.

    `foreign`: the commit was offered by a fork.
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

    @property
    def check(self) -> str:
        """What tells the checks of a commit apart: the workflow, and what set it off."""
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
    """One job of a run's present attempt."""

    id: int
    name: str
    conclusion: str
    url: str = ""

    @property
    def failed(self) -> bool:
        return self.conclusion in FAILED_CONCLUSIONS


def last_lines(log: str, lines: int, longest: int) -> str:
    """The end of a log: at most so many lines, and so many characters of them."""
    whole = log.rstrip()
    kept = whole[-longest:].splitlines()
    if len(whole) > longest and len(kept) > 1:
        # The first of them is cut.
        kept = kept[1:]
    return "\n".join(kept[-lines:])


class ItemKind(StrEnum):
    """What an event in the inbox is about."""

    ISSUE = "issue"
    ISSUE_COMMENT = "issue_comment"
    REVIEW_COMMENT = "review_comment"
    REVIEW = "review"
    PULL = "pull"
    WORKFLOW_RUN = "workflow_run"


class SurfaceFeed(StrEnum):
    """What can be asked for changes: lists of the repository, and those of one thread."""

    ISSUES = "issues"
    ISSUE_COMMENTS = "issue_comments"
    REVIEW_COMMENTS = "review_comments"
    WORKFLOW_RUNS = "workflow_runs"
    # Of one issue or pull request; the last three know no `since`.
    THREAD_COMMENTS = "thread_comments"
    THREAD_REVIEW_COMMENTS = "thread_review_comments"
    ISSUE = "issue"
    PULL = "pull"
    REVIEWS = "reviews"


@dataclass(frozen=True, slots=True)
class Item:
    """One version of something on the host, with everything it said about it."""

    kind: ItemKind
    id: int
    number: int
    author: str
    body: str
    updated_at: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class KnownPage:
    """One page as it was read: from when, its number, its ETag; whether full; its newest moment."""

    anchor: str
    number: int
    etag: str
    full: bool
    newest: str = ""


# The pages of a complete reading.
PageChain = tuple[KnownPage, ...]


@dataclass(frozen=True, slots=True)
class ListReading:
    """What a feed gave. Incomplete, it is everything up to its newest item.

    `unchanged`: it is all as it was when `known` was read, and there are no items. `chain` is
    what to give as `known` next time. `asked` pages were asked for, `pages` came with content.
    """

    items: tuple[Item, ...]
    complete: bool = True
    chain: PageChain = ()
    unchanged: bool = False
    asked: int = 0
    pages: int = 0


@dataclass(frozen=True, slots=True)
class RepositoryInfo:
    """The repository itself, under its present name."""

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


@dataclass(frozen=True, slots=True)
class Blocking:
    """An issue that another one waits for, in whatever repository it is."""

    repo: RepoName
    number: int
    title: str
    state: str


@dataclass(frozen=True, slots=True)
class Pull:
    """A pull request; `mergeable` is None while the host does not know."""

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


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What a deed made or found. Zero and empty where there is nothing to name."""

    id: int = 0
    number: int = 0
    url: str = ""
    updated_at: str = ""


@dataclass(frozen=True, slots=True)
class RequestCost:
    """What was asked since the client was made, and the last word on the budget."""

    requests: int
    budget: RateLimitBudget | None


class Forge(Protocol):
    """One repository on a code host. Every call may raise a `ForgeError`."""

    def myself(self) -> str:
        """The account that our writes appear under."""
        ...

    def now(self) -> datetime:
        """The host's time."""
        ...

    def cost(self) -> RequestCost:
        """What this client has asked so far."""
        ...

    def renamed(self) -> bool:
        """Whether the repository answered under another name; `repository` tells which."""
        ...

    def repository(self) -> RepositoryInfo:
        """The repository itself."""
        ...

    def name_of(self, number: int) -> RepoName | None:
        """What the repository of a number is called now; None if we cannot see any such."""
        ...

    def issue(self, number: int) -> Issue:
        """One issue as it is now."""
        ...

    def pull(self, number: int) -> Item:
        """One pull request as it is now, as an event; `pull_of` reads it."""
        ...

    def reviews(self, number: int) -> list[Item]:
        """All submitted reviews of a pull request."""
        ...

    def remark(self, kind: ItemKind, comment_id: int) -> Item | None:
        """A comment or review comment as it is now; None if it is gone."""
        ...

    def thread(self, number: int) -> list[Item]:
        """The whole conversation of an issue or pull request, oldest first."""
        ...

    def labellers(self, number: int) -> dict[str, str]:
        """Who last put each label on an issue."""
        ...

    def blocked_by(self, number: int) -> list[Blocking]:
        """What the host says that an issue waits for; nothing where it knows no such thing."""
        ...

    def labels(self) -> frozenset[str]:
        """The labels that the repository knows."""
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
        """What changed at or after a moment of the host's time, oldest change first.

        `number`: the thread. `known`: pages of an earlier reading, asked for conditionally; the
        items of those that are as they were are left out. Reviews are read from the first known
        page on; `one_page`: that one alone.
        """
        ...

    def workflow_run(self, run_id: int) -> Item | None:
        """One workflow run as it is now, as an event; None if it is gone."""
        ...

    def runs_of(self, head_sha: str, *, known: PageChain = ()) -> ListReading:
        """The newest workflow runs of a commit, over or not; `known`: as with `changes`."""
        ...

    def failed_jobs(self, run_id: int) -> list[WorkflowJob]:
        """The jobs that failed in a run's present attempt."""
        ...

    def job_log(self, job_id: int) -> str:
        """The end of a job's log; empty if the host has none any more."""
        ...

    def make(self, deed: Action, *, key: str) -> ActionResult:
        """Do it. `Unclear` means that it must be looked for before it is done again."""
        ...

    def find(self, deed: Action, *, key: str, since: datetime) -> ActionResult | None:
        """What an earlier `make` of this deed and key has made, if it can be seen."""
        ...
