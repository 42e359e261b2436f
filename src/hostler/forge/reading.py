"""Reading whole lists while they change under us.

A list sorted by time of change is read in ascending order: after a full page, from the newest
second seen, page 1 again, so that items that move to the end are met again instead of pulling
others past us. Pages are counted only where a whole page shares one second, and then read once
more downwards. A list sorted by id is read from its last page to its first. In both cases, what
leaves moves others towards pages that are still to come.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from hostler.errors import ServerFailed
from hostler.forge.payloads import word_of
from hostler.forge.wire import Answer

PAGE = 100
# Bounds for one reading. An ascending one goes on from there next time.
MOST_PAGES = 100
# GitHub refuses pages beyond about 10,000 items.
LAST_PAGE = 1000

Payload = dict[str, Any]
# Reads a page of a sorted list: (since, page number).
SortedPage = Callable[[str | None, int], Answer]
# Reads the first page, or the one at an address.
Follow = Callable[[str], Answer]


@dataclass(frozen=True, slots=True)
class Listed:
    """What was read; where it is not complete, it is everything up to its newest item."""

    items: list[Payload]
    complete: bool


def read_ascending(read: SortedPage, since: str | None, most_pages: int = MOST_PAGES) -> Listed:
    """Everything changed at or after `since`, once per version, oldest change first."""
    found: dict[tuple[int, str], Payload] = {}

    def take(anchor: str | None, page: int) -> list[Payload]:
        items = items_of(read(anchor, page))
        found.update({(int(item["id"]), word_of(item, "updated_at")): item for item in items})
        return items

    anchor, page = since, 1
    for _ in range(most_pages):
        items = take(anchor, page)
        full = len(items) >= PAGE
        newest = max((str(item["updated_at"]) for item in items), default="")
        if full and anchor is not None and newest <= anchor:
            page += 1
            continue
        # What left one of the counted pages meanwhile has pulled others towards the first.
        for earlier in range(page - 1, 0, -1):
            take(anchor, earlier)
        if not full:
            return Listed(list(found.values()), complete=True)
        anchor, page = newest, 1
    return Listed(list(found.values()), complete=False)


def read_by_id(follow: Follow, most_pages: int = MOST_PAGES) -> Listed:
    """Every item of a list sorted by id, each once."""
    first = follow("")
    if not first.next_url:
        return Listed(items_of(first), complete=True)
    found = {int(item["id"]): item for item in items_of(first)}
    pages = _backwards(first.last_url, first.next_url)
    for url in pages[:most_pages]:
        found |= {int(item["id"]): item for item in items_of(follow(url))}
    found |= {int(item["id"]): item for item in items_of(follow(""))}
    return Listed([found[key] for key in sorted(found)], complete=len(pages) <= most_pages)


def _backwards(last_url: str, next_url: str) -> list[str]:
    """The addresses of the last page down to the second."""
    parts = urlsplit(last_url or next_url)
    query = dict(parse_qsl(parts.query))
    number = query.get("page", "")
    if not (number.isascii() and number.isdigit() and 1 < int(number) <= LAST_PAGE):
        raise ServerFailed(f"GET {parts.path}", 200)
    pages = range(int(number), 1, -1)
    return [urlunsplit(parts._replace(query=urlencode({**query, "page": n}))) for n in pages]


def items_of(answer: Answer) -> list[Payload]:
    """A page's items; anything else than a list of numbered objects is a failing server."""
    data = answer.data
    if not isinstance(data, list) or not all(_is_item(item) for item in data):
        raise ServerFailed("a request for a list", 200)
    return data


def _is_item(item: Any) -> bool:
    return isinstance(item, dict) and type(item.get("id")) is int
