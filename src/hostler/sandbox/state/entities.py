"""The nouns of the core: people, repositories, issues, comments, labels, events."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from hostler.sandbox.state.tables import Entity, Key

PERMISSIONS = ("none", "read", "triage", "write", "maintain", "admin")


@dataclass(frozen=True, slots=True)
class User(Entity):
    """A person, a bot or an organisation."""

    kind: ClassVar[str] = "user"
    login: str
    created_at: int
    type: str = "User"
    name: str | None = None
    email: str | None = None
    site_admin: bool = False
    members: tuple[str, ...] = ()

    def names(self) -> tuple[Key, ...]:
        return ((self.login.lower(),),)

    def face(self) -> Hashable:
        return (self.login, self.type)


@dataclass(frozen=True, slots=True)
class Repo(Entity):
    """A repository; `access` holds (login, permission) of collaborators, `former` its old names."""

    kind: ClassVar[str] = "repo"
    owner: str
    name: str
    created_at: int
    updated_at: int
    pushed_at: int
    private: bool = False
    description: str | None = None
    homepage: str | None = None
    default_branch: str = "main"
    has_issues: bool = True
    archived: bool = False
    access: tuple[tuple[str, str], ...] = ()
    former: tuple[str, ...] = ()
    options: tuple[tuple[str, bool], ...] = ()

    @property
    def full_name(self) -> str:
        """owner/name."""
        return f"{self.owner}/{self.name}"

    def names(self) -> tuple[Key, ...]:
        return ((self.full_name.lower(),), *(("former", name) for name in self.former))

    def groups(self) -> tuple[Key, ...]:
        return (("all",), ("owner", self.owner.lower()))

    def face(self) -> Hashable:
        return (self.full_name, self.private, self.default_branch)


@dataclass(frozen=True, slots=True)
class Label(Entity):
    """A label of a repository."""

    kind: ClassVar[str] = "label"
    repo_id: int
    name: str
    color: str = "ededed"
    description: str | None = None
    default: bool = False

    def names(self) -> tuple[Key, ...]:
        return ((self.repo_id, self.name.lower()),)

    def groups(self) -> tuple[Key, ...]:
        return (("repo", self.repo_id),)

    def face(self) -> Hashable:
        return (self.name, self.color, self.description)


@dataclass(frozen=True, slots=True)
class PullState:
    """What an issue's JSON says of the pull request that it is."""

    merged_at: int | None = None
    draft: bool = False


@dataclass(frozen=True, slots=True)
class Issue(Entity):
    """An issue, or the issue side of a pull request (`pull` set). They share the numbers."""

    kind: ClassVar[str] = "issue"
    repo_id: int
    number: int
    title: str
    user: str
    created_at: int
    updated_at: int
    body: str | None = None
    state: str = "open"
    state_reason: str | None = None
    closed_at: int | None = None
    closed_by: str | None = None
    labels: tuple[int, ...] = ()
    assignees: tuple[str, ...] = ()
    comments: int = 0
    locked: bool = False
    lock_reason: str | None = None
    association: str = "NONE"
    blocked_by: tuple[int, ...] = ()
    pull: PullState | None = None
    app_id: int | None = None

    def names(self) -> tuple[Key, ...]:
        return ((self.repo_id, self.number),)

    def groups(self) -> tuple[Key, ...]:
        blockers = tuple(("blocker", issue_id) for issue_id in self.blocked_by)
        return (("repo", self.repo_id), *blockers)

    def moment(self, order: str) -> int:
        # Explicit, because this is called for every item of every sort.
        if order == "comments":
            return self.comments
        return self.updated_at if order == "updated" else self.created_at


@dataclass(frozen=True, slots=True)
class MovedIssue(Entity):
    """Where an issue used to be: deleted (`url` empty) or transferred."""

    kind: ClassVar[str] = "moved"
    repo_id: int
    number: int
    to_repo: int | None = None
    to_number: int | None = None

    def names(self) -> tuple[Key, ...]:
        return ((self.repo_id, self.number),)


@dataclass(frozen=True, slots=True)
class Comment(Entity):
    """A comment in the conversation of an issue or pull request."""

    kind: ClassVar[str] = "comment"
    repo_id: int
    issue_id: int
    number: int
    user: str
    body: str
    created_at: int
    updated_at: int
    association: str = "NONE"
    reactions: tuple[tuple[int, str, str], ...] = ()
    app_id: int | None = None

    def groups(self) -> tuple[Key, ...]:
        return (("repo", self.repo_id), ("issue", self.issue_id))

    def moment(self, order: str) -> int:
        return self.updated_at if order == "updated" else self.created_at


@dataclass(frozen=True, slots=True)
class TimelineEvent(Entity):
    """Something that happened to an issue: closed, reopened, labeled, merged and so on."""

    kind: ClassVar[str] = "event"
    repo_id: int
    issue_id: int
    actor: str
    event: str
    created_at: int
    detail: tuple[tuple[str, str], ...] = ()
    commit_id: str | None = None

    def groups(self) -> tuple[Key, ...]:
        return (("repo", self.repo_id), ("issue", self.issue_id))
