"""Cursors and known pages: from when to read, and what to store after it. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from datetime import datetime, timedelta

from hostler.forge.port import Item, KnownPage, ListReading, PageChain
from hostler.model import EPOCH, PollCursor, parse_timestamp

# GitHub's answers come with whole seconds, and its machines differ a little.
CLOCK_TOLERANCE = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class PollWindow:
    """How far each reading reaches back behind its cursor."""

    overlap: timedelta = timedelta(seconds=5)
    late_visibility: timedelta = timedelta(seconds=300)
    safe_backfill: timedelta = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class CursorState:
    """A watermark; `fresh` until a first reading is done, `invalid` if it was not believed."""

    at: datetime
    comment_id: int = 0
    fresh: bool = False
    invalid: bool = False


def start_cursor(cursor: PollCursor | None, now: datetime, window: PollWindow) -> CursorState:
    """Where a reading stands, by the stored cursor and GitHub's time."""
    backfill = max(now - window.safe_backfill, EPOCH)
    if cursor is None:
        return CursorState(backfill, fresh=True)
    mark = cursor_state(cursor)
    if mark is None or mark.at > now + CLOCK_TOLERANCE:
        return CursorState(backfill, invalid=True)
    return mark


def cursor_state(cursor: PollCursor | None) -> CursorState | None:
    """The mark of a cursor as far as it can be told without the time; None if it has none."""
    if cursor is None or type(cursor.last_comment_id) is not int:
        return None
    try:
        at = parse_timestamp(cursor.last_updated_at)
    except (ValueError, TypeError):
        return None
    return CursorState(at, cursor.last_comment_id, fresh=not cursor.bootstrap_complete)


def read_since(mark: CursorState, window: PollWindow) -> datetime:
    """From when to read. It moves only when the mark moves, so that an idle URL stays put."""
    return max(mark.at - window.overlap - window.late_visibility, EPOCH)


def read_since_after(mark: CursorState) -> datetime:
    """From when to read what comes after the mark. GitHub's moments are whole seconds."""
    return mark.at.replace(microsecond=0) + timedelta(seconds=1)


def is_settled(mark: CursorState, now: datetime, window: PollWindow) -> bool:
    """Whether nothing up to the mark can turn up late any more, by GitHub's time of a reading."""
    return now >= read_since_after(mark) + window.overlap + window.late_visibility + CLOCK_TOLERANCE


def advance_cursor(mark: CursorState, items: Sequence[Item], *, complete: bool) -> CursorState:
    """The watermark after a reading: never back, unless a first reading was cut short."""
    seen = [(parse_timestamp(item.updated_at), item.id) for item in items]
    if mark.fresh and seen and not complete:
        at, comment_id = max(seen)
        return CursorState(at, comment_id, fresh=True)
    return CursorState(*max([*seen, (mark.at, mark.comment_id)]))


def is_same_cursor(mark: CursorState, cursor: PollCursor | None) -> bool:
    """Whether storing the mark would change nothing."""
    return mark == cursor_state(cursor)


# A longer list is read whole: asking for so many pages in vain is no gain.
MAX_STORED_PAGES = 10
# Reviews are asked for from their last page on.
MAX_REVIEW_PAGES = 100


def keep_chain(reading: ListReading, most: int = MAX_STORED_PAGES) -> PageChain:
    """What the next reading may rely on; nothing if the list was too long or has no ETags."""
    chain = reading.chain
    whole = reading.complete and chain and not chain[-1].full
    return chain if whole and len(chain) <= most and all(page.etag for page in chain) else ()


def splice_chain(chain: PageChain, found: PageChain) -> PageChain:
    """Pages of reviews, some of which were read anew: those from the first on without a gap."""
    pages = {page.number: page for page in (*chain, *found)}
    whole: list[KnownPage] = []
    while (page := pages.get(len(whole) + 1)) and page.etag and len(whole) < MAX_REVIEW_PAGES:
        whole.append(page)
        if not page.full:
            break
    return tuple(whole)


def page_number(chain: PageChain, number: int) -> KnownPage:
    """A page of reviews as it is known; without an ETag if it is not."""
    return chain[number - 1] if number <= len(chain) else KnownPage("", number, "", full=False)


def count_pages(chain: PageChain) -> int:
    """How many pages there are to ask for; behind a full one may be another."""
    return len(chain) + (not chain or chain[-1].full)


def encode_chains(chain: PageChain) -> str:
    """A chain as it is stored; empty for none."""
    return json.dumps([astuple(page) for page in chain]) if chain else ""


def decode_chains(text: str) -> PageChain:
    """A stored chain; what cannot be read is none."""
    try:
        rows = [KnownPage(*row) for row in json.loads(text)] if text else []
    except (ValueError, TypeError):
        return ()
    return tuple(rows) if all(_is_valid_chain(page) for page in rows) else ()


def _is_valid_chain(page: KnownPage) -> bool:
    kinds = (page.anchor, str), (page.number, int), (page.etag, str), (page.full, bool)
    return all(isinstance(value, kind) for value, kind in (*kinds, (page.newest, str)))
