"""Writes to a code host as data, and the markers by which they are recognised.

Repeating an action is harmless or detectable: texts carry a marker with their action token, a pull
request is known by its head branch, the others set a state.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from hostler.model import ScopeKind
from hostler.telemetry.redaction import redact

MAX_BODY_LENGTH = 65_536
MAX_TITLE_LENGTH = 256
SHORTENED_NOTE = "*(shortened: the rest did not fit into a comment)*"

_TOKEN_PATTERN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._:/+]|-(?!-)){0,119}")
_MARKER_PATTERN = re.compile(r"<!--\s*hostler:action=([A-Za-z0-9._:/+-]{1,120}?)\s*-->")
_MARKER_PREFIX = re.compile(r"<!--(\s*)hostler:action=")
_FENCE_PATTERN = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)


def require_token(token: str) -> str:
    """A token that can stand in a marker; raises for others."""
    if not _TOKEN_PATTERN.fullmatch(token) or token.endswith("-"):
        raise ValueError(f"not a token: {token!r}")
    return token


def format_marker(token: str) -> str:
    """The hidden line by which we know our own writes."""
    return f"<!-- hostler:action={require_token(token)} -->"


def find_tokens(body: str) -> list[str]:
    """The tokens of all markers in a text."""
    return _MARKER_PATTERN.findall(body)


def add_marker(body: str, token: str) -> str:
    """A body ready to be sent: cleaned, cut to GitHub's limit, its marker on the last line."""
    text = _MARKER_PREFIX.sub(r"<!--\1hostler:quoted=", sanitize_text(body)).rstrip()
    tail = f"\n\n{format_marker(token)}"
    if len(text) + len(tail) > MAX_BODY_LENGTH:
        text = _cut_body(text, MAX_BODY_LENGTH - len(tail))
    return text + tail if text else format_marker(token)


def format_title(title: str) -> str:
    """A title ready to be sent: one line, not too long."""
    line = " ".join(sanitize_text(title).split()) or "(no title)"
    return line if len(line) <= MAX_TITLE_LENGTH else line[: MAX_TITLE_LENGTH - 1] + "…"


def sanitize_text(text: str) -> str:
    """A text without secrets, and without characters that cannot be sent or stored."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return redact(whole.replace("\0", ""))


def _cut_body(text: str, room: int) -> str:
    """The beginning of a text and a note, in `room` characters, outside code and comments."""
    # The longest closing that may become necessary: a comment's end and a fence.
    kept = text[: room - len(SHORTENED_NOTE) - 80]
    line_end = kept.rfind("\n")
    if line_end > len(kept) // 2:
        kept = kept[:line_end]
    return f"{kept}{_closing_fence(kept)}\n\n{SHORTENED_NOTE}"


def _closing_fence(text: str) -> str:
    comment = "\n-->" if text.rfind("<!--") > text.rfind("-->") else ""
    fence = ""
    for found in _FENCE_PATTERN.findall(text):
        if not fence:
            fence = found
        elif found[0] == fence[0] and len(found) >= len(fence):
            fence = ""
    return comment + (f"\n{fence[:60]}" if fence else "")


@dataclass(frozen=True, slots=True)
class CreateComment:
    """Say something in the conversation of an issue or pull request."""

    kind: ClassVar[str] = "comment"
    scope_kind: ClassVar[ScopeKind] = ScopeKind.ISSUE
    number: int
    body: str


@dataclass(frozen=True, slots=True)
class ReplyToReviewComment:
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
class AddLabel:
    """Put labels on an issue or pull request."""

    kind: ClassVar[str] = "label"
    scope_kind: ClassVar[ScopeKind] = ScopeKind.ISSUE
    number: int
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RemoveLabel:
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


Action = (
    CreateComment
    | ReplyToReviewComment
    | EditComment
    | OpenIssue
    | OpenPull
    | UpdatePull
    | CloseIssue
    | AddLabel
    | RemoveLabel
    | CreateLabel
    | RerunFailedJobs
)
ACTION_KINDS: dict[str, type[Action]] = {
    deed.kind: deed
    for deed in (
        CreateComment,
        ReplyToReviewComment,
        EditComment,
        OpenIssue,
        OpenPull,
        UpdatePull,
        CloseIssue,
        AddLabel,
        RemoveLabel,
        CreateLabel,
        RerunFailedJobs,
    )
}
# GitHub refuses to do these a second time, so one that was not seen may be sent again at once.
UNIQUE_ACTION_KINDS = frozenset({CreateLabel.kind})


def encode_action(deed: Action) -> str:
    """A deed as stored: no secret in its texts."""
    changed: dict[str, Any] = {}
    if (title := getattr(deed, "title", None)) is not None:
        changed["title"] = format_title(title)
    if (body := getattr(deed, "body", None)) is not None:
        changed["body"] = sanitize_text(body)
    return json.dumps(asdict(replace(deed, **changed)), ensure_ascii=False)


def decode_action(kind: str, payload: str) -> Action:
    """A stored deed."""
    values = json.loads(payload)
    if "labels" in values:
        values["labels"] = tuple(values["labels"])
    return ACTION_KINDS[kind](**values)
