"""Read whole lists while they change.

A list sorted by time of change is read in ascending order: after a full page, from the newest
second read, page 1 again, so that items that move to the end are read again instead of pulling
others past the reader. Pages are counted only where a whole page shares one second, and then read
once more downwards. A list sorted by id is read from its last page to its first.

Pages known from an earlier read are requested with their ETags. An unchanged page holds nothing
new, and where the next one begins is known. A full page says nothing about the pages after it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from hostler.errors import ServerFailed
from hostler.forge.github.client.transport import ApiAnswer
from hostler.forge.github.payloads import parse_word
from hostler.forge.port import KnownPage, PageChain

PAGE_SIZE = 100
# The maximum pages of one reading. An ascending one continues there next time.
MAX_PAGES = 100
# GitHub refuses pages beyond about 10,000 items.
MAX_PAGE_NUMBER = 1000

Payload = dict[str, Any]
# Reads a page of a sorted list: (since, page number).
SortedPage = Callable[[str | None, int], ApiAnswer]
# Reads the first page, or the one at a URL.
FollowPage = Callable[[str], ApiAnswer]
# Reads a page by its number.
NumberedPage = Callable[[int], ApiAnswer]


@dataclass(frozen=True, slots=True)
class ListedPages:
    """What was read; if it is not complete, it is everything up to its newest item."""

    items: list[Payload]
    complete: bool
    chain: PageChain = ()
    unchanged: bool = False
    asked: int = 0
    pages: int = 0


@dataclass(slots=True)
class _PageWalk:
    """Collects pages: their items, and how the next reading can request them."""

    known: dict[tuple[str, int], KnownPage]
    found: dict[tuple[int, str], Payload] = field(default_factory=dict)
    read_pages: dict[tuple[str, int], KnownPage] = field(default_factory=dict)
    asked: int = 0
    pages: int = 0

    def take(self, anchor: str, number: int, answer: ApiAnswer) -> KnownPage:
        """Add the answer for a page."""
        self.asked += 1
        place = (anchor, number)
        if answer.unchanged:
            if place not in self.known:
                raise ServerFailed("a request for a list", answer.status)
            page = self.known[place]
        else:
            page = self._read(anchor, number, answer)
        self.read_pages[place] = page
        return page

    def _read(self, anchor: str, number: int, answer: ApiAnswer) -> KnownPage:
        self.pages += 1
        items = page_items(answer)
        self.found.update({(int(item["id"]), _item_version(item)): item for item in items})
        newest = max((_item_version(item) for item in items), default="")
        return KnownPage(anchor, number, answer.etag, len(items) >= PAGE_SIZE, newest)

    def listed(self, *, complete: bool) -> ListedPages:
        """Return what was read."""
        return ListedPages(
            list(self.found.values()),
            complete,
            tuple(self.read_pages.values()) if complete else (),
            unchanged=complete and not self.pages,
            asked=self.asked,
            pages=self.pages,
        )


def _item_version(item: Payload) -> str:
    return str(item.get("updated_at") or item.get("submitted_at") or "")


def page_tags(known: PageChain) -> dict[tuple[str, int], str]:
    """Return the ETags of known pages, by their start and number."""
    return {(page.anchor, page.number): page.etag for page in known}


def _walk_pages(known: PageChain) -> _PageWalk:
    return _PageWalk({(page.anchor, page.number): page for page in known})


def read_ascending(
    read: SortedPage, since: str | None, known: PageChain = (), max_pages: int = MAX_PAGES
) -> ListedPages:
    """Read everything changed at or after `since`, once per version, oldest change first."""
    walk = _walk_pages(known)

    def take(anchor: str | None, number: int) -> KnownPage:
        return walk.take(anchor or "", number, _item_time(read(anchor, number)))

    anchor, number = since, 1
    for _ in range(max_pages):
        page = take(anchor, number)
        if page.full and anchor is not None and page.newest <= anchor:
            number += 1
            continue
        # Items that left a counted page meanwhile have moved others to earlier pages.
        for earlier in range(number - 1, 0, -1):
            take(anchor, earlier)
        if not page.full:
            return walk.listed(complete=True)
        anchor, number = page.newest, 1
    return walk.listed(complete=False)


def _item_time(answer: ApiAnswer) -> ApiAnswer:
    """Check that all items of an answer have a timestamp."""
    for item in () if answer.unchanged else page_items(answer):
        parse_word(item, "updated_at")
    return answer


def read_numbered(
    read: NumberedPage,
    known: PageChain = (),
    max_pages: int = MAX_PAGES,
    *,
    one_page: bool = False,
) -> ListedPages:
    """Read a list that grows at its end, from its first known page on."""
    walk = _walk_pages(known)
    number = known[0].number if known else 1
    for _ in range(max_pages):
        page = walk.take("", number, read(number))
        if one_page or not page.full:
            return walk.listed(complete=True)
        number += 1
    return walk.listed(complete=False)


def read_by_id(
    follow: FollowPage, known: PageChain = (), max_pages: int = MAX_PAGES
) -> ListedPages:
    """Read every item of a list sorted by id, each once; if it is too long, its oldest."""
    walk = _walk_pages(known)
    first = follow("")
    page = walk.take("", 1, first)
    if first.unchanged:
        return walk.listed(complete=True)
    if not first.next_url:
        found = walk.listed(complete=True)
        # An item added after a full page does not change its ETag.
        return found if not page.full else _read_fresh(found)
    items = {int(item["id"]): item for item in page_items(first)}
    pages = _read_backwards(first.last_url, first.next_url)
    # Page numbers beyond the maximum are refused, whichever page is requested first.
    allowed = pages[max(len(pages) + 1 - max_pages, 0) :]
    for url in allowed:
        items |= {int(item["id"]): item for item in page_items(follow(url))}
    items |= {int(item["id"]): item for item in page_items(follow(""))}
    asked = 2 + len(allowed)
    complete = len(allowed) == len(pages)
    return ListedPages([items[key] for key in sorted(items)], complete, asked=asked, pages=asked)


def _read_fresh(found: ListedPages) -> ListedPages:
    return ListedPages(found.items, found.complete, asked=found.asked, pages=found.pages)


def _read_backwards(last_url: str, next_url: str) -> list[str]:
    """Return the URLs of the last page down to the second."""
    parts = urlsplit(last_url or next_url)
    query = dict(parse_qsl(parts.query))
    number = query.get("page", "")
    if not (number.isascii() and number.isdigit() and 1 < int(number) <= MAX_PAGE_NUMBER):
        raise ServerFailed(f"GET {parts.path}", 200)
    pages = range(int(number), 1, -1)
    return [urlunsplit(parts._replace(query=urlencode({**query, "page": n}))) for n in pages]


def page_items(answer: ApiAnswer) -> list[Payload]:
    """Return a page's items. Raise `ServerFailed` unless it is a list of objects with ids."""
    data = answer.data
    if not isinstance(data, list) or not all(_is_item(item) for item in data):
        raise ServerFailed("a request for a list", 200)
    return data


def _is_item(item: Any) -> bool:
    return isinstance(item, dict) and type(item.get("id")) is int
