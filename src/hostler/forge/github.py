"""The port `Forge` on GitHub's REST API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

from hostler.errors import Gone, Moved, NotFound
from hostler.forge import payloads
from hostler.forge.changing import changes, jobs_of, reading_of, runs_of, since_text
from hostler.forge.ci import Job
from hostler.forge.client import Client
from hostler.forge.deeds import Deed
from hostler.forge.finding import find
from hostler.forge.making import make
from hostler.forge.port import (
    Blocking,
    Chain,
    Cost,
    Feed,
    Issue,
    Item,
    ItemKind,
    Made,
    Reading,
    Repository,
)
from hostler.forge.reading import (
    PAGE,
    Listed,
    Payload,
    read_ascending,
    read_by_id,
    read_numbered,
    tags,
)
from hostler.forge.wire import Answer
from hostler.model import RepoName

_ONE = {
    ItemKind.ISSUE_COMMENT: "issues/comments",
    ItemKind.REVIEW_COMMENT: "pulls/comments",
}


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

    def name_of(self, number: int) -> RepoName | None:
        try:
            return payloads.repository(self.client.read(f"/repositories/{number}").data).name
        except (NotFound, Gone, Moved):
            return None

    def issue(self, number: int) -> Issue:
        return payloads.issue(self.get(f"issues/{number}").data)

    def pull(self, number: int) -> Item:
        return self.changes(Feed.PULL, None, number=number).items[0]

    def reviews(self, number: int) -> list[Item]:
        return list(self.changes(Feed.REVIEWS, None, number=number).items)

    def remark(self, kind: ItemKind, comment_id: int) -> Item | None:
        try:
            return payloads.item(kind, self.get(f"{_ONE[kind]}/{comment_id}").data)
        except (NotFound, Gone):
            return None

    def thread(self, number: int) -> list[Item]:
        return self.comments(number, None)

    def labellers(self, number: int) -> dict[str, str]:
        events = self.by_id(f"issues/{number}/events").items
        return dict(filter(None, map(payloads.labeller_of, events)))

    def blocked_by(self, number: int) -> list[Blocking]:
        try:
            found = self.by_id(f"issues/{number}/dependencies/blocked_by")
        except (NotFound, Gone):
            # An older host has no such list, or the issue is gone: then it waits for nothing.
            return []
        return [payloads.blocking(one) for one in found.items]

    def labels(self) -> frozenset[str]:
        return frozenset(payloads.label_name(label) for label in self.by_id("labels").items)

    def changes(
        self,
        feed: Feed,
        since: datetime | None,
        *,
        number: int = 0,
        only_open: bool = False,
        known: Chain = (),
        one_page: bool = False,
    ) -> Reading:
        return changes(
            self, feed, since, number=number, only_open=only_open, known=known, one_page=one_page
        )

    def workflow_run(self, run_id: int) -> Item | None:
        try:
            return payloads.item(ItemKind.WORKFLOW_RUN, self.get(f"actions/runs/{run_id}").data)
        except (NotFound, Gone):
            return None

    def runs_of(self, head_sha: str, *, known: Chain = ()) -> Reading:
        found = self.numbered(
            "actions/runs", known, one_page=True, unwrap=runs_of, head_sha=head_sha
        )
        return reading_of(Feed.WORKFLOW_RUNS, 0, found)

    def failed_jobs(self, run_id: int) -> list[Job]:
        found = self.numbered(f"actions/runs/{run_id}/jobs", unwrap=jobs_of)
        return [job for job in map(payloads.job_of, found.items) if job.failed]

    def job_log(self, job_id: int) -> str:
        try:
            return self.client.stored(self.client.path(f"actions/jobs/{job_id}/logs"))
        except (NotFound, Gone):
            return ""

    def make(self, deed: Deed, *, key: str) -> Made:
        return make(self, deed, key)

    def find(self, deed: Deed, *, key: str, since: datetime) -> Made | None:
        try:
            return find(self, deed, key, since)
        except NotFound:
            return None

    def comments(self, number: int, since: datetime | None) -> list[Item]:
        """A conversation's comments that changed at or after a moment."""
        found = self.by_id(f"issues/{number}/comments", since=since_text(since))
        return [payloads.item(ItemKind.ISSUE_COMMENT, one) for one in found.items]

    def review_comments(self, number: int, since: datetime) -> list[Item]:
        """A pull request's review comments that changed at or after a moment."""
        found = self.ascending(f"pulls/{number}/comments", since_text(since))
        return [payloads.item(ItemKind.REVIEW_COMMENT, one) for one in found.items]

    def pulls_of(self, branch: str) -> list[Payload]:
        """The pull requests of a head branch, newest first."""
        owner = self.client.repo.owner
        if self.client.renamed:
            owner = self.repository().name.owner
        found = self.by_id("pulls", state="all", head=f"{owner}:{branch}")
        known = {payloads.pull_of(pull): pull for pull in found.items}
        ours = [pull for pull in known if pull.head == branch]
        return [known[pull] for pull in sorted(ours, key=lambda pull: -pull.number)]

    def get(self, path: str, etag: str = "", **query: Any) -> Answer:
        """Something below the repository; unchanged, if the ETag is still right."""
        return self.client.read(self.client.path(path), etag=etag, **query)

    def ascending(self, path: str, since: str | None, known: Chain = (), **query: str) -> Listed:
        """A list in the order of change."""
        etags = tags(known)

        def page(anchor: str | None, number: int) -> Answer:
            return self.get(
                path,
                etags.get((anchor or "", number), ""),
                since=anchor,
                sort="updated",
                direction="asc",
                per_page=PAGE,
                page=None if number == 1 else number,
                **query,
            )

        return read_ascending(page, since, known)

    def by_id(self, path: str, known: Chain = (), **query: str | None) -> Listed:
        """A list in the order of ids."""
        etag = known[0].etag if known else ""

        def follow(url: str) -> Answer:
            if url:
                return self.client.read(url)
            return self.get(path, etag, per_page=PAGE, **query)

        return read_by_id(follow, known)

    def numbered(
        self,
        path: str,
        known: Chain = (),
        *,
        one_page: bool = False,
        unwrap: Callable[[Any], Any] = lambda data: data,
        **query: str | None,
    ) -> Listed:
        """A list by its pages' numbers; `unwrap` finds it in an answer."""
        etags = tags(known)

        def page(number: int) -> Answer:
            etag, wanted = etags.get(("", number), ""), None if number == 1 else number
            answer = self.get(path, etag, per_page=PAGE, page=wanted, **query)
            return answer if answer.unchanged else replace(answer, data=unwrap(answer.data))

        return read_numbered(page, known, one_page=one_page)
