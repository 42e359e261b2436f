"""Cursors and known pages: from when to read, and what to store after it. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from datetime import datetime, timedelta

from hostler.forge.port import Item, KnownPage, ListReading, PageChain
from hostler.model import EPOCH, PollCursor, parse_timestamp

# GitHub's timestamps are whole seconds, and its servers' clocks differ a little.
CLOCK_TOLERANCE = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class PollWindow:
    """How far each reading goes back before its cursor."""

    overlap: timedelta = timedelta(seconds=5)
    late_visibility: timedelta = timedelta(seconds=300)
    safe_backfill: timedelta = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class CursorState:
    """A cursor position; `fresh` until a first reading is done, `invalid` if it was rejected."""

    at: datetime
    comment_id: int = 0
    fresh: bool = False
    invalid: bool = False


def start_cursor(cursor: PollCursor | None, now: datetime, window: PollWindow) -> CursorState:
    """Return the start position from the stored cursor and GitHub's time."""
    backfill = max(now - window.safe_backfill, EPOCH)
    if cursor is None:
        return CursorState(backfill, fresh=True)
    position = cursor_state(cursor)
    if position is None or position.at > now + CLOCK_TOLERANCE:
        return CursorState(backfill, invalid=True)
    return position


def cursor_state(cursor: PollCursor | None) -> CursorState | None:
    """Return the position of a stored cursor, without checking it against the time."""
    if cursor is None or type(cursor.last_comment_id) is not int:
        return None
    try:
        at = parse_timestamp(cursor.last_updated_at)
    except (ValueError, TypeError):
        return None
    return CursorState(at, cursor.last_comment_id, fresh=not cursor.bootstrap_complete)


def read_since(position: CursorState, window: PollWindow) -> datetime:
    """Return from when to read. Depends only on the position: an idle URL stays the same."""
    return max(position.at - window.overlap - window.late_visibility, EPOCH)


def read_since_after(position: CursorState) -> datetime:
    """Return from when to read what comes after the position: timestamps are whole seconds."""
    return position.at.replace(microsecond=0) + timedelta(seconds=1)


def is_settled(position: CursorState, now: datetime, window: PollWindow) -> bool:
    """Return whether nothing up to the position can appear late any more."""
    return (
        now
        >= read_since_after(position) + window.overlap + window.late_visibility + CLOCK_TOLERANCE
    )


def advance_cursor(position: CursorState, items: Sequence[Item], *, complete: bool) -> CursorState:
    """Return the position after a reading: never back, unless a first reading was cut short."""
    versions = [(parse_timestamp(item.updated_at), item.id) for item in items]
    if position.fresh and versions and not complete:
        at, comment_id = max(versions)
        return CursorState(at, comment_id, fresh=True)
    return CursorState(*max([*versions, (position.at, position.comment_id)]))


def is_same_cursor(position: CursorState, cursor: PollCursor | None) -> bool:
    """Return whether storing the position would change nothing."""
    return position == cursor_state(cursor)


# Longer lists are read again: so many conditional requests would gain nothing.
MAX_STORED_PAGES = 10
# Reviews are requested from their last page on.
MAX_REVIEW_PAGES = 100


def keep_chain(reading: ListReading, most: int = MAX_STORED_PAGES) -> PageChain:
    """Return the pages to store; none if the list was too long or has no ETags."""
    chain = reading.chain
    whole = reading.complete and chain and not chain[-1].full
    return chain if whole and len(chain) <= most and all(page.etag for page in chain) else ()


def splice_chain(chain: PageChain, found: PageChain) -> PageChain:
    """Merge newly read pages of reviews: all from the first on without a gap."""
    pages = {page.number: page for page in (*chain, *found)}
    whole: list[KnownPage] = []
    while (page := pages.get(len(whole) + 1)) and page.etag and len(whole) < MAX_REVIEW_PAGES:
        whole.append(page)
        if not page.full:
            break
    return tuple(whole)


def page_number(chain: PageChain, number: int) -> KnownPage:
    """Return a known page of reviews; without an ETag if it is unknown."""
    return chain[number - 1] if number <= len(chain) else KnownPage("", number, "", full=False)


def count_pages(chain: PageChain) -> int:
    """Return how many pages to request; another may follow a full one."""
    return len(chain) + (not chain or chain[-1].full)


def encode_chains(chain: PageChain) -> str:
    """Encode a chain for storage; empty for none."""
    return json.dumps([astuple(page) for page in chain]) if chain else ""


def decode_chains(text: str) -> PageChain:
    """Decode a stored chain; an invalid one is empty."""
    try:
        rows = [KnownPage(*row) for row in json.loads(text)] if text else []
    except (ValueError, TypeError):
        return ()
    return tuple(rows) if all(_is_valid_chain(page) for page in rows) else ()


def _is_valid_chain(page: KnownPage) -> bool:
    kinds = (page.anchor, str), (page.number, int), (page.etag, str), (page.full, bool)
    return all(isinstance(value, kind) for value, kind in (*kinds, (page.newest, str)))
