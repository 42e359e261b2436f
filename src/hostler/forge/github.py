"""The port `Forge` on GitHub's REST API."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hostler.errors import Gone, NotFound
from hostler.forge import payloads
from hostler.forge.client import Client
from hostler.forge.deeds import Deed
from hostler.forge.finding import find
from hostler.forge.making import make
from hostler.forge.port import (
    Blocking,
    Cost,
    Feed,
    Issue,
    Item,
    ItemKind,
    Made,
    Reading,
    Repository,
)
from hostler.forge.reading import PAGE, Listed, Payload, read_ascending, read_by_id
from hostler.forge.wire import Answer

_FEEDS: dict[Feed, tuple[str, ItemKind]] = {
    Feed.ISSUES: ("issues", ItemKind.ISSUE),
    Feed.ISSUE_COMMENTS: ("issues/comments", ItemKind.ISSUE_COMMENT),
    Feed.REVIEW_COMMENTS: ("pulls/comments", ItemKind.REVIEW_COMMENT),
}
_ONE = {
    ItemKind.ISSUE_COMMENT: "issues/comments",
    ItemKind.REVIEW_COMMENT: "pulls/comments",
}


def since_text(moment: datetime | None) -> str | None:
    """A moment as GitHub's `since` wants it: whole seconds, rounded down."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class GitHub:
    """One repository."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def myself(self) -> str:
        return self.client.login()

    def now(self) -> datetime:
        return self.client.wire.now()

    def cost(self) -> Cost:
        return Cost(self.client.requests, self.client.budget)

    def renamed(self) -> bool:
        return self.client.renamed

    def repository(self) -> Repository:
        return payloads.repository(self.client.learn().data)

    def issue(self, number: int) -> Issue:
        return payloads.issue(self._get(f"issues/{number}").data)

    def pull(self, number: int) -> Item:
        return payloads.item(ItemKind.PULL, self._get(f"pulls/{number}").data)

    def reviews(self, number: int) -> list[Item]:
        found = self._by_id(f"pulls/{number}/reviews")
        # One without a time is being written, and seen by its author alone.
        return [
            payloads.item(ItemKind.REVIEW, review, number)
            for review in found.items
            if review.get("submitted_at")
        ]

    def remark(self, kind: ItemKind, comment_id: int) -> Item | None:
        try:
            return payloads.item(kind, self._get(f"{_ONE[kind]}/{comment_id}").data)
        except (NotFound, Gone):
            return None

    def thread(self, number: int) -> list[Item]:
        return self.comments(number, None)

    def labellers(self, number: int) -> dict[str, str]:
        events = self._by_id(f"issues/{number}/events").items
        return dict(filter(None, map(payloads.labeller_of, events)))

    def blocked_by(self, number: int) -> list[Blocking]:
        try:
            found = self._by_id(f"issues/{number}/dependencies/blocked_by")
        except (NotFound, Gone):
            # An older host has no such list, or the issue is gone: then it waits for nothing.
            return []
        return [payloads.blocking(one) for one in found.items]

    def labels(self) -> frozenset[str]:
        return frozenset(payloads.label_name(label) for label in self._by_id("labels").items)

    def changes(self, feed: Feed, since: datetime | None, *, only_open: bool = False) -> Reading:
        path, kind = _FEEDS[feed]
        more = {"state": "open" if only_open else "all"} if feed is Feed.ISSUES else {}
        found = self._ascending(path, since_text(since), **more)
        return Reading(tuple(payloads.item(kind, one) for one in found.items), found.complete)

    def make(self, deed: Deed, *, key: str) -> Made:
        return make(self, deed, key)

    def find(self, deed: Deed, *, key: str, since: datetime) -> Made | None:
        try:
            return find(self, deed, key, since)
        except NotFound:
            return None

    def comments(self, number: int, since: datetime | None) -> list[Item]:
        """A conversation's comments that changed at or after a moment."""
        found = self._by_id(f"issues/{number}/comments", since=since_text(since))
        return [payloads.item(ItemKind.ISSUE_COMMENT, one) for one in found.items]

    def review_comments(self, number: int, since: datetime) -> list[Item]:
        """A pull request's review comments that changed at or after a moment."""
        found = self._ascending(f"pulls/{number}/comments", since_text(since))
        return [payloads.item(ItemKind.REVIEW_COMMENT, one) for one in found.items]

    def pulls_of(self, branch: str) -> list[Payload]:
        """The pull requests of a head branch, newest first."""
        owner = self.client.repo.owner
        if self.client.renamed:
            owner = self.repository().name.owner
        found = self._by_id("pulls", state="all", head=f"{owner}:{branch}")
        known = {payloads.pull_of(pull): pull for pull in found.items}
        ours = [pull for pull in known if pull.head == branch]
        return [known[pull] for pull in sorted(ours, key=lambda pull: -pull.number)]

    def _get(self, path: str, **query: Any) -> Answer:
        return self.client.read(self.client.path(path), **query)

    def _ascending(self, path: str, since: str | None, **query: str) -> Listed:
        def page(anchor: str | None, number: int) -> Answer:
            return self._get(
                path,
                since=anchor,
                sort="updated",
                direction="asc",
                per_page=PAGE,
                page=None if number == 1 else number,
                **query,
            )

        return read_ascending(page, since)

    def _by_id(self, path: str, **query: str | None) -> Listed:
        def follow(url: str) -> Answer:
            return self.client.read(url) if url else self._get(path, per_page=PAGE, **query)

        return read_by_id(follow)
