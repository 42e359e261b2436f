"""The nouns around pull requests: the request itself, reviews, review comments, pushes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hostler.sandbox.state.tables import Entity, Key

_FAR = 2**60


@dataclass(frozen=True, slots=True)
class PullSize:
    """How much a pull request changes."""

    commits: int = 0
    additions: int = 0
    deletions: int = 0
    files: int = 0


@dataclass(frozen=True, slots=True)
class PullRequest(Entity):
    """What a pull request has beyond its issue, which holds title, state and times.

    `mergeable` is None while nobody knows; `merge_sha` is the test merge, later the real one.
    """

    kind: ClassVar[str] = "pull"
    repo_id: int
    number: int
    issue_id: int
    head_owner: str
    head_ref: str
    head_sha: str
    base_ref: str
    base_sha: str
    created_at: int
    size: PullSize = PullSize()
    mergeable: bool | None = None
    merge_sha: str | None = None
    merged_at: int | None = None
    merged_by: str | None = None
    maintainer_can_modify: bool = False
    reviewers: tuple[str, ...] = ()
    review_comments: int = 0

    @property
    def head_label(self) -> str:
        """owner:branch of what is to be merged."""
        return f"{self.head_owner}:{self.head_ref}"

    def names(self) -> tuple[Key, ...]:
        return ((self.repo_id, self.number), ("issue", self.issue_id))

    def groups(self) -> tuple[Key, ...]:
        return (
            ("repo", self.repo_id),
            ("head", self.repo_id, self.head_ref),
            ("base", self.repo_id, self.base_ref),
        )


@dataclass(frozen=True, slots=True)
class Review(Entity):
    """A review of a pull request; `submitted_at` is None while it is pending."""

    kind: ClassVar[str] = "review"
    repo_id: int
    pull_id: int
    number: int
    user: str
    body: str
    state: str
    commit_id: str
    submitted_at: int | None = None
    association: str = "NONE"

    @property
    def pending(self) -> bool:
        """Whether only its author sees it."""
        return self.state == "PENDING"

    def groups(self) -> tuple[Key, ...]:
        return (("pull", self.pull_id),)

    def moment(self, order: str) -> int:  # noqa: ARG002 - it has but one
        # Pending ones come last.
        return _FAR if self.submitted_at is None else self.submitted_at


@dataclass(frozen=True, slots=True)
class DiffPosition:
    """A comment's position in a diff; all None once the line is gone."""

    line: int | None = None
    start_line: int | None = None
    position: int | None = None


@dataclass(frozen=True, slots=True)
class ReviewComment(Entity):
    """A comment on a line of a diff. Only its review lists one that is pending."""

    kind: ClassVar[str] = "review_comment"
    repo_id: int
    pull_id: int
    number: int
    review_id: int
    user: str
    body: str
    path: str
    diff_hunk: str
    commit_id: str
    original_commit_id: str
    spot: DiffPosition
    original: DiffPosition
    created_at: int
    updated_at: int
    side: str = "RIGHT"
    start_side: str | None = None
    subject: str = "line"
    in_reply_to: int | None = None
    association: str = "NONE"
    pending: bool = False

    def groups(self) -> tuple[Key, ...]:
        own = (("review", self.review_id), ("any", self.pull_id))
        if self.pending:
            return own
        return (("repo", self.repo_id), ("pull", self.pull_id), *own)

    def moment(self, order: str) -> int:
        return self.updated_at if order == "updated" else self.created_at


@dataclass(frozen=True, slots=True)
class Protection(Entity):
    """What a branch asks of pull requests before they are merged into it."""

    kind: ClassVar[str] = "protection"
    repo_id: int
    branch: str
    approvals: int = 0
    contexts: tuple[str, ...] = ()

    def names(self) -> tuple[Key, ...]:
        return ((self.repo_id, self.branch),)


@dataclass(frozen=True, slots=True)
class PushRecord(Entity):
    """One ref that moved, for webhooks; `commits` holds the newest new ones, oldest first."""

    kind: ClassVar[str] = "push"
    repo_id: int
    ref: str
    before: str
    after: str
    pusher: str
    created_at: int
    forced: bool = False
    commits: tuple[tuple[str, str], ...] = ()
