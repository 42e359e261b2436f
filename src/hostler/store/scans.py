"""What was read of a pull request's thread: its events, our own writes, how far both feeds are."""

from __future__ import annotations

from dataclasses import dataclass

from hostler.store.inbox import InboxRow


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far a stream has been read."""

    last_updated_at: str
    last_comment_id: int


@dataclass(frozen=True, slots=True)
class Observed:
    """A write of ours that was seen."""

    token: str
    comment_id: int
    updated_at: str


@dataclass(frozen=True, slots=True)
class FeedbackScan:
    """One reading of a thread. A watermark of None stays where it is."""

    pr_number: int
    events: tuple[InboxRow, ...] = ()
    observed: tuple[Observed, ...] = ()
    review_comments: Watermark | None = None
    issue_comments: Watermark | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of the events of a reading, by their keys."""

    new: tuple[str, ...] = ()
    deduped: tuple[str, ...] = ()
