"""What can be done on GitHub, as data: queued in the outbox, made and found by a `Forge`.

Repeating one must be harmless or detectable: texts carry a marker with their token, a pull
request is known by its head branch, the rest sets a state.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from hostler.forge.markers import clean, titled
from hostler.model import ScopeKind


@dataclass(frozen=True, slots=True)
class Comment:
    """Say something in the conversation of an issue or pull request."""

    kind: ClassVar[str] = "comment"
    scope_kind: ClassVar[ScopeKind] = ScopeKind.ISSUE
    number: int
    body: str


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer a review comment; `to_comment` is the one that started its thread."""

    kind: ClassVar[str] = "reply"
    scope_kind: ClassVar[ScopeKind] = ScopeKind.PR
    number: int
    to_comment: int
    body: str


@dataclass(frozen=True, slots=True)
class EditComment:
    """Say it differently, in a conversation."""

    kind: ClassVar[str] = "edit_comment"
    scope_kind: ClassVar[ScopeKind] = ScopeKind.ISSUE
    number: int
    comment_id: int
    body: str


@dataclass(frozen=True, slots=True)
class OpenIssue:
    """A new issue."""

    kind: ClassVar[str] = "open_issue"
    scope_kind: ClassVar[ScopeKind] = ScopeKind.ISSUE
    title: str
    body: str
    labels: tuple[str, ...] = ()
    number: int = 0


@dataclass(frozen=True, slots=True)
class OpenPull:
    """Ask for a branch to be merged; `number` is the issue it is for, whose thread it joins."""

    kind: ClassVar[str] = "open_pull"
    scope_kind: ClassVar[ScopeKind] = ScopeKind.ISSUE
    number: int
    head: str
    base: str
    title: str
    body: str
    draft: bool = False


@dataclass(frozen=True, slots=True)
class UpdatePull:
    """Change a pull request; None leaves a part as it is."""

    kind: ClassVar[str] = "update_pull"
    scope_kind: ClassVar[ScopeKind] = ScopeKind.PR
    number: int
    title: str | None = None
    body: str | None = None
    state: str | None = None


@dataclass(frozen=True, slots=True)
class CloseIssue:
    """Close an issue; `reason` is `completed` or `not_planned`."""

    kind: ClassVar[str] = "close_issue"
    scope_kind: ClassVar[ScopeKind] = ScopeKind.ISSUE
    number: int
    reason: str = "completed"


@dataclass(frozen=True, slots=True)
class Label:
    """Put labels on an issue or pull request."""

    kind: ClassVar[str] = "label"
    scope_kind: ClassVar[ScopeKind] = ScopeKind.ISSUE
    number: int
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unlabel:
    """Take a label off."""

    kind: ClassVar[str] = "unlabel"
    scope_kind: ClassVar[ScopeKind] = ScopeKind.ISSUE
    number: int
    label: str


@dataclass(frozen=True, slots=True)
class CreateLabel:
    """Make a label known to the repository."""

    kind: ClassVar[str] = "create_label"
    scope_kind: ClassVar[ScopeKind] = ScopeKind.ISSUE
    name: str
    color: str = "ededed"
    description: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class RerunFailedJobs:
    """Run what failed in a workflow run once more; `attempt` is the one that failed."""

    kind: ClassVar[str] = "rerun_failed_jobs"
    scope_kind: ClassVar[ScopeKind] = ScopeKind.PR
    number: int
    run_id: int
    attempt: int


Deed = (
    Comment
    | Reply
    | EditComment
    | OpenIssue
    | OpenPull
    | UpdatePull
    | CloseIssue
    | Label
    | Unlabel
    | CreateLabel
    | RerunFailedJobs
)
KINDS: dict[str, type[Deed]] = {
    deed.kind: deed
    for deed in (
        Comment,
        Reply,
        EditComment,
        OpenIssue,
        OpenPull,
        UpdatePull,
        CloseIssue,
        Label,
        Unlabel,
        CreateLabel,
        RerunFailedJobs,
    )
}
# GitHub refuses to do these a second time, so one that was not seen may be sent again at once.
UNIQUE_KINDS = frozenset({CreateLabel.kind})


def pack(deed: Deed) -> str:
    """A deed as stored: no secret in its texts."""
    changed: dict[str, Any] = {}
    if (title := getattr(deed, "title", None)) is not None:
        changed["title"] = titled(title)
    if (body := getattr(deed, "body", None)) is not None:
        changed["body"] = clean(body)
    return json.dumps(asdict(replace(deed, **changed)), ensure_ascii=False)


def unpack(kind: str, payload: str) -> Deed:
    """A stored deed."""
    values = json.loads(payload)
    if "labels" in values:
        values["labels"] = tuple(values["labels"])
    return KINDS[kind](**values)
