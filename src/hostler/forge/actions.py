"""Writes to a code host as data, and the markers that identify them.

Repeating an action is harmless or detectable: texts contain a marker with their action token, a
pull request is identified by its head branch, the others set a state.
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
SHORTENED_NOTE = "*(shortened: too long for a comment)*"

_TOKEN_PATTERN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._:/+]|-(?!-)){0,119}")
_MARKER_PATTERN = re.compile(r"<!--\s*hostler:action=([A-Za-z0-9._:/+-]{1,120}?)\s*-->")
_MARKER_PREFIX = re.compile(r"<!--(\s*)hostler:action=")
_FENCE_PATTERN = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)


def require_token(token: str) -> str:
    """Return the token if it can be put into a marker. Raise ValueError otherwise."""
    if not _TOKEN_PATTERN.fullmatch(token) or token.endswith("-"):
        raise ValueError(f"not a token: {token!r}")
    return token


def format_marker(token: str) -> str:
    """Return the hidden line that identifies our own writes."""
    return f"<!-- hostler:action={require_token(token)} -->"


def find_tokens(body: str) -> list[str]:
    """Return the tokens of all markers in a text."""
    return _MARKER_PATTERN.findall(body)


def add_marker(body: str, token: str) -> str:
    """Return a body ready to send: sanitized, shortened, with the marker on its last line."""
    text = _MARKER_PREFIX.sub(r"<!--\1hostler:quoted=", sanitize_text(body)).rstrip()
    tail = f"\n\n{format_marker(token)}"
    if len(text) + len(tail) > MAX_BODY_LENGTH:
        text = _cut_body(text, MAX_BODY_LENGTH - len(tail))
    return text + tail if text else format_marker(token)


def format_title(title: str) -> str:
    """Return a title ready to send: one line, not too long."""
    line = " ".join(sanitize_text(title).split()) or "(no title)"
    return line if len(line) <= MAX_TITLE_LENGTH else line[: MAX_TITLE_LENGTH - 1] + "…"


def sanitize_text(text: str) -> str:
    """Return a text without secrets, and without characters that cannot be sent or stored."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return redact(whole.replace("\0", ""))


def _cut_body(text: str, room: int) -> str:
    """Shorten a text to `room` characters with a note, outside of code blocks and comments."""
    # Reserve space for the longest closing: a comment's end and a fence.
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
    """Comment on an issue or pull request."""

    kind: ClassVar[str] = "comment"
    scope_kind: ClassVar[ScopeKind] = ScopeKind.ISSUE
    number: int
    body: str


@dataclass(frozen=True, slots=True)
class ReplyToReviewComment:
    """Reply to a review comment; `to_comment` is the first one of its thread."""

    kind: ClassVar[str] = "reply"
    scope_kind: ClassVar[ScopeKind] = ScopeKind.PR
    number: int
    to_comment: int
    body: str


@dataclass(frozen=True, slots=True)
class EditComment:
    """Replace the text of a comment."""

    kind: ClassVar[str] = "edit_comment"
    scope_kind: ClassVar[ScopeKind] = ScopeKind.ISSUE
    number: int
    comment_id: int
    body: str


@dataclass(frozen=True, slots=True)
class OpenIssue:
    """Open an issue."""

    kind: ClassVar[str] = "open_issue"
    scope_kind: ClassVar[ScopeKind] = ScopeKind.ISSUE
    title: str
    body: str
    labels: tuple[str, ...] = ()
    number: int = 0


@dataclass(frozen=True, slots=True)
class OpenPull:
    """Open a pull request; `number` is the issue it belongs to, whose thread it uses."""

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
    """Change a pull request; None leaves a field unchanged."""

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
    """Add labels to an issue or pull request."""

    kind: ClassVar[str] = "label"
    scope_kind: ClassVar[ScopeKind] = ScopeKind.ISSUE
    number: int
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RemoveLabel:
    """Remove a label."""

    kind: ClassVar[str] = "unlabel"
    scope_kind: ClassVar[ScopeKind] = ScopeKind.ISSUE
    number: int
    label: str


@dataclass(frozen=True, slots=True)
class CreateLabel:
    """Create a label in the repository."""

    kind: ClassVar[str] = "create_label"
    scope_kind: ClassVar[ScopeKind] = ScopeKind.ISSUE
    name: str
    color: str = "ededed"
    description: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class RerunFailedJobs:
    """Rerun the failed jobs of a workflow run; `attempt` is the one that failed."""

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
    action.kind: action
    for action in (
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
# GitHub rejects a second one, so one that was not found may be sent again at once.
UNIQUE_ACTION_KINDS = frozenset({CreateLabel.kind})


def encode_action(action: Action) -> str:
    """Encode an action for storage, without secrets in its texts."""
    changed: dict[str, Any] = {}
    if (title := getattr(action, "title", None)) is not None:
        changed["title"] = format_title(title)
    if (body := getattr(action, "body", None)) is not None:
        changed["body"] = sanitize_text(body)
    return json.dumps(asdict(replace(action, **changed)), ensure_ascii=False)


def decode_action(kind: str, payload: str) -> Action:
    """Decode a stored action."""
    values = json.loads(payload)
    if "labels" in values:
        values["labels"] = tuple(values["labels"])
    return ACTION_KINDS[kind](**values)
