"""Rules of cursors: from when to read, and how far a reading moves the watermark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from hostler.forge.port import Item
from hostler.model import EPOCH, PollCursor, parse_stamp

# GitHub's answers come with whole seconds, and its machines differ a little.
TOLERANCE = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Window:
    """How far each reading reaches back behind its cursor."""

    overlap: timedelta = timedelta(seconds=5)
    late_visibility: timedelta = timedelta(seconds=300)
    safe_backfill: timedelta = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Mark:
    """A watermark; `fresh` until a first reading is done, `invalid` if it was not believed."""

    at: datetime
    comment_id: int = 0
    fresh: bool = False
    invalid: bool = False


def start(cursor: PollCursor | None, now: datetime, window: Window) -> Mark:
    """Where a reading stands, by the stored cursor and GitHub's time."""
    backfill = max(now - window.safe_backfill, EPOCH)
    if cursor is None:
        return Mark(backfill, fresh=True)
    mark = stored(cursor)
    if mark is None or mark.at > now + TOLERANCE:
        return Mark(backfill, invalid=True)
    return mark


def stored(cursor: PollCursor | None) -> Mark | None:
    """The mark of a cursor as far as it can be told without the time; None if it has none."""
    if cursor is None or type(cursor.last_comment_id) is not int:
        return None
    try:
        at = parse_stamp(cursor.last_updated_at)
    except (ValueError, TypeError):
        return None
    return Mark(at, cursor.last_comment_id, fresh=not cursor.bootstrap_complete)


def since(mark: Mark, window: Window) -> datetime:
    """From when to read. It moves only when the mark moves, so that an idle URL stays put."""
    return max(mark.at - window.overlap - window.late_visibility, EPOCH)


def behind(mark: Mark) -> datetime:
    """From when to read what comes after the mark. GitHub's moments are whole seconds."""
    return mark.at.replace(microsecond=0) + timedelta(seconds=1)


def is_settled(mark: Mark, now: datetime, window: Window) -> bool:
    """Whether nothing up to the mark can turn up late any more, by GitHub's time of a reading."""
    return now >= behind(mark) + window.overlap + window.late_visibility + TOLERANCE


def moved(mark: Mark, items: Sequence[Item], *, complete: bool) -> Mark:
    """The watermark after a reading: never back, unless a first reading was cut short."""
    seen = [(parse_stamp(item.updated_at), item.id) for item in items]
    if mark.fresh and seen and not complete:
        at, comment_id = max(seen)
        return Mark(at, comment_id, fresh=True)
    return Mark(*max([*seen, (mark.at, mark.comment_id)]))


def is_same(mark: Mark, cursor: PollCursor | None) -> bool:
    """Whether storing the mark would change nothing."""
    return mark == stored(cursor)
