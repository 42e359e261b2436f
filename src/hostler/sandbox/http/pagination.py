"""Pages, `Link` headers and the query of feeds, as lenient and as strict as GitHub's."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol
from urllib.parse import urlencode

from hostler.sandbox.http.errors import unprocessable

_NUMBER = re.compile(r"[0-9]{1,12}")


class Pageable(Protocol):
    """Something a page can be cut from."""

    def __len__(self) -> int: ...
    def cut(self, offset: int, count: int) -> list[Any]: ...


class PageableList:
    """A plain sequence as something a page can be cut from."""

    def __init__(self, items: Sequence[Any]) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def cut(self, offset: int, count: int) -> list[Any]:
        """Return up to `count` items from `offset` on."""
        return list(self._items[offset : offset + count])


@dataclass(frozen=True, slots=True)
class Page:
    """Which part of a list is asked for."""

    number: int
    size: int

    @property
    def offset(self) -> int:
        """How many items come before it."""
        return (self.number - 1) * self.size


def requested_page(query: dict[str, str], max_items: int) -> Page:
    """Return the asked-for page; nonsense counts as the default, too far out is refused."""
    size = min(_positive_int(query.get("per_page"), 30), 100)
    page = Page(_positive_int(query.get("page"), 1), size)
    if page.number > 1 and page.offset >= max_items:
        raise unprocessable(
            "In order to keep the API fast for everyone, pagination is limited for this resource."
        )
    return page


def link_header(url: str, query: dict[str, str], page: Page, total: int) -> str:
    """Return the `Link` header; empty if everything fits on one page."""
    last = max(math.ceil(total / page.size), 1)
    targets: dict[str, int] = {}
    if page.number > 1:
        targets["prev"] = min(page.number - 1, last)
    if page.number < last:
        targets |= {"next": page.number + 1, "last": last}
    if page.number > 1:
        targets["first"] = 1
    return ", ".join(
        f'<{_page_url(url, query, number)}>; rel="{rel}"' for rel, number in targets.items()
    )


def parse_timestamp(text: str | None, field: str = "since") -> int | None:
    """Return the second of an ISO 8601 time; None if absent, 422 if unreadable."""
    if not text:
        return None
    try:
        # A plus sign arrives as a space.
        moment = datetime.fromisoformat(text.strip().replace(" ", "+"))
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return math.ceil(moment.timestamp())
    except (ValueError, OverflowError):
        shown = text[:80]
        raise unprocessable(
            f"Invalid request.\n\nFor 'parameters/{field}', '{shown}' is not a valid timestamp."
        ) from None


def _positive_int(text: str | None, default: int) -> int:
    if not text or not _NUMBER.fullmatch(text):
        return default
    return int(text) or default


def _page_url(url: str, query: dict[str, str], number: int) -> str:
    others = {name: value for name, value in query.items() if name != "page"}
    return f"{url}?{urlencode({**others, 'page': number})}"
