"""Types that all packages share: timestamps, repository names, cursors and action tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_OWNER = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9]|-(?=[A-Za-z0-9])){0,38}")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


def format_timestamp(at: datetime) -> str:
    """Format a datetime as stored everywhere: UTC, milliseconds, fixed width, sortable as text."""
    if at.tzinfo is None:
        raise ValueError("a datetime without a time zone cannot be stored")
    return at.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def parse_timestamp(text: str) -> datetime:
    """Parse a stored or received timestamp, with or without fractions of a second."""
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(f"timestamp without a time zone: {text!r}")
    return at.astimezone(UTC)


@dataclass(frozen=True, slots=True, order=True)
class RepoName:
    """A GitHub repository's `owner/name`."""

    owner: str
    name: str

    def __post_init__(self) -> None:
        if not _OWNER.fullmatch(self.owner):
            raise ValueError(f"not a GitHub owner: {self.owner!r}")
        if not _NAME.fullmatch(self.name) or self.name in {".", ".."}:
            raise ValueError(f"not a GitHub repository name: {self.name!r}")

    @classmethod
    def parse(cls, text: str) -> RepoName:
        """Parse `owner/name`."""
        owner, slash, name = text.partition("/")
        if not slash or "/" in name:
            raise ValueError(f"expected owner/name, not {text!r}")
        return cls(owner, name)

    def __str__(self) -> str:
        return f"{self.owner}/{self.name}"


class Surface(StrEnum):
    """The streams of GitHub changes, each of which has its own cursor."""

    PR_REVIEW_COMMENTS = "pr_review_comments"
    PR_ISSUE_COMMENTS = "pr_issue_comments"
    ISSUE_PRE_PR_FOLLOWUPS = "issue_pre_pr_followups"
    ISSUE_POST_PR_REDIRECTS = "issue_post_pr_redirects"
    ISSUE_OPERATOR_COMMANDS = "issue_operator_commands"
    REPO_ISSUES = "repo_issues"
    REPO_ISSUE_COMMENTS = "repo_issue_comments"
    REPO_REVIEW_COMMENTS = "repo_review_comments"
    REPO_WORKFLOW_RUNS = "repo_workflow_runs"


class ScopeKind(StrEnum):
    """What an outgoing write is attached to."""

    PR = "pr"
    ISSUE = "issue"


class TokenStatus(StrEnum):
    """The status of an outgoing write."""

    PLANNED = "planned"
    POSTED = "posted"
    OBSERVED = "observed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PollCursor:
    """The position up to which one stream has been read."""

    surface: Surface
    scope_number: int
    last_updated_at: str
    last_comment_id: int
    bootstrap_complete: bool
    updated_at: str


@dataclass(frozen=True, slots=True)
class ActionToken:
    """One outgoing write, identified by its token."""

    token: str
    scope_kind: ScopeKind
    scope_number: int
    source: str
    status: TokenStatus
    attempt_count: int
    observed_comment_id: int | None
    observed_updated_at: str | None
    created_at: str
    updated_at: str
