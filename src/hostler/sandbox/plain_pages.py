"""Pages of things that are no entities, such as commits and files asked of git."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hostler.sandbox.call import Call
from hostler.sandbox.http import Response, encode
from hostler.sandbox.paging import Page, link_header, page_of

T = TypeVar("T")


def asked_page(call: Call) -> Page:
    """The page that the query asks for."""
    return page_of(call.request.query, call.world.settings.max_items)


def plain_page(
    call: Call, items: Sequence[T], show: Callable[[T], dict[str, Any]], total: int | None = None
) -> Response:
    """Answer with a page of `items`; with `total`, they are that page already."""
    page = asked_page(call)
    cut = items if total is not None else items[page.offset : page.offset + page.size]
    whole = len(items) if total is None else total
    link = link_header(call.numeric_url(), call.request.query, page, whole)
    return Response(200, encode([show(item) for item in cut]), {"Link": link} if link else {})
