"""A request on its way through a handler: who asks, about what, and how to respond."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hostler.sandbox.auth import Identity
from hostler.sandbox.git.errors import NoSuchObject
from hostler.sandbox.git.repository import Repository
from hostler.sandbox.http.errors import ApiError, conflict, gone, not_found
from hostler.sandbox.http.pagination import (
    Page,
    Pageable,
    PageableList,
    link_header,
    parse_timestamp,
    requested_page,
)
from hostler.sandbox.http.rate_limits import RateAccount
from hostler.sandbox.http.requests import (
    JsonFields,
    SandboxRequest,
    SandboxResponse,
    encode,
    json_response,
)
from hostler.sandbox.http.router import ApiRoute
from hostler.sandbox.serializers.base import RenderContext, Renderer, serialize
from hostler.sandbox.state.entities import Issue, MovedIssue, Repo
from hostler.sandbox.state.tables import Collection, Entity, EntityFilter
from hostler.sandbox.state.world import World


class ApiCall:
    """Everything a handler needs. Reads look at what is visible, writes at the truth."""

    def __init__(
        self,
        request: SandboxRequest,
        route: ApiRoute,
        params: dict[str, str],
        world: World,
        renderer: Renderer,
        viewer: Identity,
        account: RateAccount,
    ) -> None:
        self.request = request
        self.route = route
        self.params = params
        self.world = world
        self.viewer = viewer
        self.account = account
        self.tables = world.seen if request.is_read else world.truth
        self.frame = RenderContext(request.root, self.tables, viewer)
        self._renderer = renderer
        self._repo: Repo | None = None

    @property
    def repo(self) -> Repo:
        """The repository that the path names."""
        assert self._repo is not None, "the template is not below /repos/{owner}/{repo}"
        return self._repo

    @repo.setter
    def repo(self, repo: Repo) -> None:
        self._repo = repo

    @property
    def actor(self) -> str:
        """The login that does this."""
        return self.viewer.login

    def fields(self, resource: str) -> JsonFields:
        """Return the JSON body, with GitHub's complaints about `resource`."""
        return JsonFields(resource, self.request.json())

    def number(self, name: str = "number") -> int:
        """Return a numeric path segment; 404 if it is none."""
        text = self.params[name]
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            raise not_found()
        return int(text)

    def issue(self, name: str = "number") -> Issue:
        """Return the issue (or pull request's) that the path names; 301, 404 or 410 if gone."""
        number = self.number(name)
        issue = self.tables.find(Issue, self.repo.id, number)
        if issue is None:
            self._away(number)
            raise not_found()
        if not self.repo.has_issues and issue.pull is None:
            raise gone("Issues has been disabled in this repository.")
        return issue

    def git(self) -> Repository:
        """Return the repository's git side."""
        repo_store = self.world.repo_store
        if repo_store is None:
            raise conflict("Git Repository is empty.")
        try:
            return repo_store.get(self.repo.id)
        except NoSuchObject:
            # Deleted, though readers do not see it yet; or a state that came without its git.
            known = self.world.truth.get(Repo, self.repo.id)
            raise (conflict("Git Repository is empty.") if known else not_found()) from None

    def can(self, permission: str) -> bool:
        """Return whether the caller has at least this permission here."""
        return self.viewer.can(self.tables, self.repo, permission)

    def association(self) -> str:
        """Return the caller's relation to the repository."""
        return self.viewer.association(self.tables, self.repo)

    def association_with(self, repo: Repo) -> str:
        """Return the caller's relation to some repository."""
        return self.viewer.association(self.tables, repo)

    def one(
        self, item: Entity, status: int = 200, variant: str = "", **headers: str
    ) -> SandboxResponse:
        """Answer with one entity."""
        if self.tables is self.world.truth:
            return json_response(serialize(item, self.frame, variant), status, **headers)
        body = self._renderer.one(item, self.frame, variant)
        modified = item.moment("updated") or None
        return SandboxResponse(status, body, dict(headers), modified=modified)

    def page(self, items: Pageable | Sequence[Any], variant: str = "") -> SandboxResponse:
        """Answer with the asked-for page of entities, with its `Link` header."""
        chosen, headers = self.cut(items)
        if self.tables is self.world.truth:
            return json_response([serialize(item, self.frame, variant) for item in chosen])
        body, digest = self._renderer.many(chosen, self.frame, variant)
        return SandboxResponse(200, body, headers, digest)

    def wrapped(
        self, items: Pageable | Sequence[Any], key: str, variant: str = ""
    ) -> SandboxResponse:
        """Answer with a page inside an object: {"total_count": n, key: [...]}."""
        chosen, headers = self.cut(items)
        found = [serialize(item, self.frame, variant) for item in chosen]
        return SandboxResponse(200, encode({"total_count": len(items), key: found}), headers)

    def cut(self, items: Pageable | Sequence[Any]) -> tuple[list[Any], dict[str, str]]:
        """Return the asked-for part of a list, and the `Link` header that goes with it."""
        found = PageableList(items) if isinstance(items, Sequence) else items
        page = requested_page(self.request.query, self.world.settings.max_items)
        link = link_header(self.numeric_url(), self.request.query, page, len(found))
        return found.cut(page.offset, page.size), {"Link": link} if link else {}

    def feed(
        self,
        collection: Collection,
        *,
        sorts: tuple[str, ...] = (),
        default: str = "id",
        descending: bool = False,
        since: bool = True,
        where: EntityFilter | None = None,
        variant: str = "",
    ) -> SandboxResponse:
        """Answer with a page of a list, honouring since, sort and direction as far as it has them.

        Without `sort` the order is `default`. With `default="id"` a direction without a
        sort is ignored, as the comment feeds do; `descending` is the direction if none is named.
        """
        query = self.request.query
        moment = parse_timestamp(query.get("since")) if since else None
        sort = query.get("sort", "")
        order = sort if sort in sorts else default
        down = descending
        if order != "id" and query.get("direction") in ("asc", "desc"):
            down = query["direction"] == "desc"
        view = collection.select(order, descending=down, since=moment, where=where)
        return self.page(view, variant)

    def numeric_url(self) -> str:
        """This request's URL, with the repository by its number."""
        path = self.request.path
        if self._repo is not None and path.startswith("/repos/"):
            rest = path.split("/", 4)[4:]
            path = "/".join([f"/repositories/{self._repo.id}", *rest])
        return self.request.root + path

    def _away(self, number: int) -> None:
        moved = self.tables.find(MovedIssue, self.repo.id, number)
        if moved is None:
            return
        target = self.tables.get(Repo, moved.to_repo) if moved.to_repo else None
        if target is None:
            raise gone("This issue was deleted")
        if not self.viewer.can(self.tables, target, "read"):
            raise not_found()
        here = f"/issues/{number}"
        rest = self.request.path.partition(here)[2]
        if self.request.query_string:
            rest += "?" + self.request.query_string
        url = f"{self.request.root}/repositories/{target.id}/issues/{moved.to_number}{rest}"
        status = 301 if self.request.is_read else 307
        raise ApiError(status, "Moved Permanently", headers={"Location": url})


T = TypeVar("T")


def requested_page_of(call: ApiCall) -> Page:
    """Return the page that the query asks for."""
    return requested_page(call.request.query, call.world.settings.max_items)


def respond_with_page(
    call: ApiCall, items: Sequence[T], show: Callable[[T], dict[str, Any]], total: int | None = None
) -> SandboxResponse:
    """Answer with a page of `items`; with `total`, they are that page already."""
    page = requested_page_of(call)
    cut = items if total is not None else items[page.offset : page.offset + page.size]
    whole = len(items) if total is None else total
    link = link_header(call.numeric_url(), call.request.query, page, whole)
    return SandboxResponse(
        200, encode([show(item) for item in cut]), {"Link": link} if link else {}
    )
