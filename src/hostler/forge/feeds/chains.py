"""Rules of chains: which pages are worth keeping, and how they are written down."""

from __future__ import annotations

import json
from dataclasses import astuple

from hostler.forge.port import Chain, Page, Reading

# A longer list is read whole: asking for so many pages in vain is no gain.
MOST_PAGES = 10
# Reviews are asked for from their last page on.
MOST_REVIEW_PAGES = 100


def kept(reading: Reading, most: int = MOST_PAGES) -> Chain:
    """What the next reading may rely on; nothing if the list was too long or has no ETags."""
    chain = reading.chain
    whole = reading.complete and chain and not chain[-1].full
    return chain if whole and len(chain) <= most and all(page.etag for page in chain) else ()


def spliced(chain: Chain, found: Chain) -> Chain:
    """Pages of reviews, some of which were read anew: those from the first on without a gap."""
    pages = {page.number: page for page in (*chain, *found)}
    whole: list[Page] = []
    while (page := pages.get(len(whole) + 1)) and page.etag and len(whole) < MOST_REVIEW_PAGES:
        whole.append(page)
        if not page.full:
            break
    return tuple(whole)


def page_of(chain: Chain, number: int) -> Page:
    """A page of reviews as it is known; without an ETag if it is not."""
    return chain[number - 1] if number <= len(chain) else Page("", number, "", full=False)


def page_count(chain: Chain) -> int:
    """How many pages there are to ask for; behind a full one may be another."""
    return len(chain) + (not chain or chain[-1].full)


def pack(chain: Chain) -> str:
    """A chain as it is stored; empty for none."""
    return json.dumps([astuple(page) for page in chain]) if chain else ""


def unpack(text: str) -> Chain:
    """A stored chain; what cannot be read is none."""
    try:
        rows = [Page(*row) for row in json.loads(text)] if text else []
    except (ValueError, TypeError):
        return ()
    return tuple(rows) if all(_sound(page) for page in rows) else ()


def _sound(page: Page) -> bool:
    kinds = (page.anchor, str), (page.number, int), (page.etag, str), (page.full, bool)
    return all(isinstance(value, kind) for value, kind in (*kinds, (page.newest, str)))
