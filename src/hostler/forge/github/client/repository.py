"""`Forge` on GitHub's REST API: one repository, and how each of its lists is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from hostler.errors import Gone, Moved, NotFound, ServerFailed
from hostler.forge.actions import Action
from hostler.forge.github import payloads
from hostler.forge.github.client.actions import find_action, perform_action
from hostler.forge.github.client.pagination import (
    PAGE_SIZE,
    ListedPages,
    Payload,
    page_tags,
    read_ascending,
    read_by_id,
    read_numbered,
)
from hostler.forge.github.client.session import GitHubSession
from hostler.forge.github.client.transport import ApiAnswer
from hostler.forge.port import (
    ActionResult,
    Blocking,
    Issue,
    Item,
    ItemKind,
    KnownPage,
    ListReading,
    PageChain,
    RepositoryInfo,
    RequestCost,
    SurfaceFeed,
    WorkflowJob,
)
from hostler.model import RepoName

LISTED_KINDS: dict[SurfaceFeed, ItemKind] = {
    SurfaceFeed.ISSUES: ItemKind.ISSUE,
    SurfaceFeed.ISSUE: ItemKind.ISSUE,
    SurfaceFeed.ISSUE_COMMENTS: ItemKind.ISSUE_COMMENT,
    SurfaceFeed.THREAD_COMMENTS: ItemKind.ISSUE_COMMENT,
    SurfaceFeed.REVIEW_COMMENTS: ItemKind.REVIEW_COMMENT,
    SurfaceFeed.THREAD_REVIEW_COMMENTS: ItemKind.REVIEW_COMMENT,
    SurfaceFeed.PULL: ItemKind.PULL,
    SurfaceFeed.REVIEWS: ItemKind.REVIEW,
    SurfaceFeed.WORKFLOW_RUNS: ItemKind.WORKFLOW_RUN,
}
_LIST_PATHS: dict[SurfaceFeed, str] = {
    SurfaceFeed.ISSUES: "issues",
    SurfaceFeed.ISSUE: "issues/{}",
    SurfaceFeed.ISSUE_COMMENTS: "issues/comments",
    SurfaceFeed.THREAD_COMMENTS: "issues/{}/comments",
    SurfaceFeed.REVIEW_COMMENTS: "pulls/comments",
    SurfaceFeed.THREAD_REVIEW_COMMENTS: "pulls/{}/comments",
    SurfaceFeed.PULL: "pulls/{}",
    SurfaceFeed.REVIEWS: "pulls/{}/reviews",
    SurfaceFeed.WORKFLOW_RUNS: "actions/runs",
}
SINGLE_PATHS = (SurfaceFeed.ISSUE, SurfaceFeed.PULL)


def format_since(moment: datetime | None) -> str | None:
    """Format a time for GitHub's `since`: whole seconds, rounded down."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _join_readings(first: ListedPages, more: ListedPages) -> ListedPages:
    items = {int(item["id"]): item for item in (*first.items, *more.items)}
    return ListedPages(
        [items[token] for token in sorted(items)],
        more.complete,
        asked=first.asked + more.asked,
        pages=first.pages + more.pages,
    )


def read_single(answer: ApiAnswer, known: PageChain) -> ListedPages:
    """Return one object as a list."""
    if answer.unchanged:
        return ListedPages([], complete=True, chain=known, unchanged=True, asked=1)
    page = KnownPage("", 1, answer.etag, full=False)
    return ListedPages([answer.data], complete=True, chain=(page,), asked=1, pages=1)


def _list_runs(data: Any) -> Any:
    """Return the list in an answer about workflow runs."""
    if not isinstance(data, dict):
        raise ServerFailed("a request for workflow runs", 200)
    return data.get("workflow_runs")


def _list_jobs(data: Any) -> Any:
    """Return the list in an answer about jobs."""
    if not isinstance(data, dict):
        raise ServerFailed("a request for the jobs of a workflow run", 200)
    return data.get("jobs")


def build_reading(feed: SurfaceFeed, number: int, found: ListedPages) -> ListReading:
    """Return a list as events."""
    return ListReading(
        tuple(_parse_items(LISTED_KINDS[feed], found.items, number)),
        found.complete,
        found.chain,
        found.unchanged,
        found.asked,
        found.pages,
    )


def _parse_items(kind: ItemKind, rows: Sequence[Any], number: int) -> list[Item]:
    if kind is not ItemKind.REVIEW:
        return [payloads.parse_item(kind, row) for row in rows]
    # A review without a time is a draft, visible only to its author.
    return [payloads.parse_item(kind, row, number) for row in rows if row.get("submitted_at")]


_COMMENT_PATHS = {
    ItemKind.ISSUE_COMMENT: "issues/comments",
    ItemKind.REVIEW_COMMENT: "pulls/comments",
}


class GitHubRepository:
    """One repository."""

    def __init__(self, session: GitHubSession) -> None:
        self.session = session

    def own_login(self) -> str:
        return self.session.login()

    def now(self) -> datetime:
        return self.session.transport.now()

    def cost(self) -> RequestCost:
        return RequestCost(self.session.requests, self.session.budget)

    def was_renamed(self) -> bool:
        return self.session.renamed

    def repository(self) -> RepositoryInfo:
        return payloads.parse_repository(self.session.read_repository().data)

    def find_repository_name(self, number: int) -> RepoName | None:
        try:
            return payloads.parse_repository(self.session.read(f"/repositories/{number}").data).name
        except (NotFound, Gone, Moved):
            return None

    def issue(self, number: int) -> Issue:
        return payloads.parse_issue(self.get(f"issues/{number}").data)

    def pull(self, number: int) -> Item:
        return self.changes(SurfaceFeed.PULL, None, number=number).items[0]

    def reviews(self, number: int) -> list[Item]:
        return list(self.changes(SurfaceFeed.REVIEWS, None, number=number).items)

    def get_comment(self, kind: ItemKind, comment_id: int) -> Item | None:
        try:
            return payloads.parse_item(kind, self.get(f"{_COMMENT_PATHS[kind]}/{comment_id}").data)
        except (NotFound, Gone):
            return None

    def thread(self, number: int) -> list[Item]:
        return self.comments(number, None)

    def labellers(self, number: int) -> dict[str, str]:
        events = self.read_by_id(f"issues/{number}/events").items
        return dict(filter(None, map(payloads.parse_labeller, events)))

    def blocked_by(self, number: int) -> list[Blocking]:
        try:
            found = self.read_by_id(f"issues/{number}/dependencies/blocked_by")
        except (NotFound, Gone):
            # An older host has no such list, or the issue was deleted: nothing blocks it.
            return []
        return [payloads.parse_blocking(one) for one in found.items]

    def labels(self) -> frozenset[str]:
        return frozenset(
            payloads.parse_label_name(label) for label in self.read_by_id("labels").items
        )

    def changes(
        self,
        feed: SurfaceFeed,
        since: datetime | None,
        *,
        number: int = 0,
        only_open: bool = False,
        known: PageChain = (),
        one_page: bool = False,
    ) -> ListReading:
        path, anchor = _LIST_PATHS[feed].format(number), format_since(since)
        if feed in SINGLE_PATHS:
            found = read_single(self.get(path, known[0].etag if known else ""), known)
        elif feed is SurfaceFeed.REVIEWS:
            found = self.read_by_number(path, known, one_page=one_page)
        elif feed is SurfaceFeed.WORKFLOW_RUNS:
            created = None if anchor is None else f">={anchor}"
            found = self.read_by_number(path, known, unwrap=_list_runs, created=created)
        elif feed is SurfaceFeed.THREAD_COMMENTS:
            found = self._read_conversation(path, anchor, known)
        else:
            state = {"state": "open" if only_open else "all"} if feed is SurfaceFeed.ISSUES else {}
            found = self.read_by_change(path, anchor, known, **state)
        return build_reading(feed, number, found)

    def workflow_run(self, run_id: int) -> Item | None:
        try:
            return payloads.parse_item(
                ItemKind.WORKFLOW_RUN, self.get(f"actions/runs/{run_id}").data
            )
        except (NotFound, Gone):
            return None

    def list_commit_runs(self, head_sha: str, *, known: PageChain = ()) -> ListReading:
        found = self.read_by_number(
            "actions/runs", known, one_page=True, unwrap=_list_runs, head_sha=head_sha
        )
        return build_reading(SurfaceFeed.WORKFLOW_RUNS, 0, found)

    def failed_jobs(self, run_id: int) -> list[WorkflowJob]:
        found = self.read_by_number(f"actions/runs/{run_id}/jobs", unwrap=_list_jobs)
        return [job for job in map(payloads.parse_job, found.items) if job.failed]

    def job_log(self, job_id: int) -> str:
        try:
            return self.session.read_log(self.session.path(f"actions/jobs/{job_id}/logs"))
        except (NotFound, Gone):
            return ""

    def perform(self, action: Action, *, token: str) -> ActionResult:
        return perform_action(self, action, token)

    def find_performed(self, action: Action, *, token: str, since: datetime) -> ActionResult | None:
        try:
            return find_action(self, action, token, since)
        except NotFound:
            return None

    def comments(self, number: int, since: datetime | None) -> list[Item]:
        """Return the comments of a conversation changed at or after a time."""
        found = self.read_by_id(f"issues/{number}/comments", since=format_since(since))
        return [payloads.parse_item(ItemKind.ISSUE_COMMENT, one) for one in found.items]

    def review_comments(self, number: int, since: datetime) -> list[Item]:
        """Return the review comments of a pull request changed at or after a time."""
        found = self.read_by_change(f"pulls/{number}/comments", format_since(since))
        return [payloads.parse_item(ItemKind.REVIEW_COMMENT, one) for one in found.items]

    def list_pulls_of_branch(self, branch: str) -> list[Payload]:
        """Return the pull requests of a head branch, newest first."""
        owner = self.session.repo.owner
        if self.session.renamed:
            owner = self.repository().name.owner
        found = self.read_by_id("pulls", state="all", head=f"{owner}:{branch}")
        known = {payloads.parse_pull(pull): pull for pull in found.items}
        ours = [pull for pull in known if pull.head == branch]
        return [known[pull] for pull in sorted(ours, key=lambda pull: -pull.number)]

    def _read_conversation(self, path: str, since: str | None, known: PageChain) -> ListedPages:
        """Read a conversation by id; beyond GitHub's last page, from the last comment's second on.

        More comments than that within one second are left out.
        """
        found = self.read_by_id(path, known, since=since)
        while not found.complete:
            last = payloads.parse_word(found.items[-1], "created_at")
            if since is not None and last <= since:
                break
            since = last
            found = _join_readings(found, self.read_by_id(path, since=since))
        return found

    def get(self, path: str, etag: str = "", **query: Any) -> ApiAnswer:
        """Read a path below the repository, conditionally if an ETag is given."""
        return self.session.read(self.session.path(path), etag=etag, **query)

    def read_by_change(
        self, path: str, since: str | None, known: PageChain = (), **query: str
    ) -> ListedPages:
        """Read a list ordered by change."""
        etags = page_tags(known)

        def page(anchor: str | None, number: int) -> ApiAnswer:
            return self.get(
                path,
                etags.get((anchor or "", number), ""),
                since=anchor,
                sort="updated",
                direction="asc",
                per_page=PAGE_SIZE,
                page=None if number == 1 else number,
                **query,
            )

        return read_ascending(page, since, known)

    def read_by_id(self, path: str, known: PageChain = (), **query: str | None) -> ListedPages:
        """Read a list ordered by id."""
        etag = known[0].etag if known else ""

        def follow(url: str) -> ApiAnswer:
            if url:
                return self.session.read(url)
            return self.get(path, etag, per_page=PAGE_SIZE, **query)

        return read_by_id(follow, known)

    def read_by_number(
        self,
        path: str,
        known: PageChain = (),
        *,
        one_page: bool = False,
        unwrap: Callable[[Any], Any] = lambda data: data,
        **query: str | None,
    ) -> ListedPages:
        """Read a list by page numbers; `unwrap` finds it in an answer."""
        etags = page_tags(known)

        def page(number: int) -> ApiAnswer:
            etag, wanted = etags.get(("", number), ""), None if number == 1 else number
            answer = self.get(path, etag, per_page=PAGE_SIZE, page=wanted, **query)
            return answer if answer.unchanged else replace(answer, data=unwrap(answer.data))

        return read_numbered(page, known, one_page=one_page)
