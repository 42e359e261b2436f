"""What one event of the inbox says, in our nouns. Whatever cannot be read is named, not guessed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from hostler.errors import ServerFailed
from hostler.forge.ci import Run
from hostler.forge.payloads import blocker_count, issue, label_name, pull_of, run_of, text
from hostler.forge.port import ItemKind
from hostler.intake.operator import command_lines, has_other_words
from hostler.store.inbox import InboxRow
from hostler.store.transaction import normal_stamp

# Events in which somebody says something.
SPOKEN = (ItemKind.ISSUE_COMMENT, ItemKind.REVIEW_COMMENT, ItemKind.REVIEW)


@dataclass(frozen=True, slots=True)
class IssueSeen:
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
class PullSeen:
    """One version of a pull request. `merged_at` is GitHub's time, empty if it was not merged."""

    row: InboxRow
    is_open: bool
    merged: bool
    head_sha: str
    labels: frozenset[str] = frozenset()
    merged_at: str = ""


@dataclass(frozen=True, slots=True)
class Remark:
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
        return not self.is_command or (not operator and has_other_words(self.body))

    @property
    def is_empty(self) -> bool:
        """A review that only holds line comments, approves, or was dismissed, asks for nothing."""
        return not self.body.strip() or self.verdict == "DISMISSED"


@dataclass(frozen=True, slots=True)
class RunSeen:
    """One attempt of a workflow run that is over."""

    row: InboxRow
    run: Run


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An event whose content is not as GitHub documents it."""

    row: InboxRow


Signal = IssueSeen | PullSeen | Remark | RunSeen | Unreadable


def read(row: InboxRow) -> Signal:
    """What this event says."""
    try:
        payload = json.loads(row.payload)
        return _READERS[ItemKind(row.kind)](row, payload)
    except (ValueError, KeyError, TypeError, AttributeError, ServerFailed):
        return Unreadable(row)


def _issue(row: InboxRow, payload: dict[str, Any]) -> IssueSeen:
    found = issue(payload)
    return IssueSeen(
        row,
        found.title,
        found.body,
        found.labels,
        is_open=found.state == "open",
        is_pull=found.is_pull,
        blockers=blocker_count(payload),
    )


def _pull(row: InboxRow, payload: dict[str, Any]) -> PullSeen:
    found = pull_of(payload)
    merged_at = text(payload, "merged_at")
    return PullSeen(
        row,
        found.state == "open",
        found.merged,
        found.head_sha,
        labels=frozenset(label_name(label) for label in payload.get("labels") or ()),
        merged_at=normal_stamp(merged_at) if merged_at else "",
    )


def _remark(row: InboxRow, payload: dict[str, Any]) -> Remark:
    line = payload.get("line") or payload.get("original_line")
    return Remark(
        row,
        body=text(payload, "body"),
        verdict=text(payload, "state") if row.kind == ItemKind.REVIEW else "",
        thread=int(payload.get("in_reply_to_id") or row.object_id),
        path=text(payload, "path"),
        line=line if isinstance(line, int) else 0,
        url=text(payload, "html_url"),
    )


def _run(row: InboxRow, payload: dict[str, Any]) -> RunSeen:
    return RunSeen(row, run_of(payload))


_READERS: dict[ItemKind, Callable[[InboxRow, dict[str, Any]], Signal]] = {
    ItemKind.ISSUE: _issue,
    ItemKind.PULL: _pull,
    ItemKind.ISSUE_COMMENT: _remark,
    ItemKind.REVIEW_COMMENT: _remark,
    ItemKind.REVIEW: _remark,
    ItemKind.WORKFLOW_RUN: _run,
}
# What is read here; events of other kinds are not for us.
KINDS = tuple(kind.value for kind in _READERS)
