"""A request on its way through a handler: who asks, about what, and how to answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hostler.sandbox.entities import Issue, Moved, Repo
from hostler.sandbox.errors import ApiError, conflict, gone, not_found
from hostler.sandbox.fields import Fields
from hostler.sandbox.git.errors import NoSuchObject
from hostler.sandbox.git.repository import Repository
from hostler.sandbox.http import Request, Response, encode, json_response
from hostler.sandbox.identity import Identity
from hostler.sandbox.limits import Account
from hostler.sandbox.paging import Cuttable, Listed, link_header, moment_of, page_of
from hostler.sandbox.render import Frame, Renderer, shaped
from hostler.sandbox.router import Route
from hostler.sandbox.tables import Collection, Entity, Where
from hostler.sandbox.world import World


class Call:
    """Everything a handler needs. Reads look at what is visible, writes at the truth."""

    def __init__(
        self,
        request: Request,
        route: Route,
        params: dict[str, str],
        world: World,
        renderer: Renderer,
        viewer: Identity,
        account: Account,
    ) -> None:
        self.request = request
        self.route = route
        self.params = params
        self.world = world
        self.viewer = viewer
        self.account = account
        self.tables = world.seen if request.is_read else world.truth
        self.frame = Frame(request.root, self.tables, viewer)
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

    def fields(self, resource: str) -> Fields:
        """The JSON body, with GitHub's complaints about `resource`."""
        return Fields(resource, self.request.json())

    def number(self, name: str = "number") -> int:
        """A numeric path segment; 404 if it is none."""
        text = self.params[name]
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            raise not_found()
        return int(text)

    def issue(self, name: str = "number") -> Issue:
        """The issue (also of a pull request) that the path names; 301, 404 or 410 if it is away."""
        number = self.number(name)
        issue = self.tables.find(Issue, self.repo.id, number)
        if issue is None:
            self._away(number)
            raise not_found()
        if not self.repo.has_issues and issue.pull is None:
            raise gone("Issues has been disabled in this repository.")
        return issue

    def git(self) -> Repository:
        """The repository's git side."""
        vault = self.world.vault
        if vault is None:
            raise conflict("Git Repository is empty.")
        try:
            return vault.get(self.repo.id)
        except NoSuchObject:
            # Deleted, though readers do not see it yet; or a state that came without its git.
            known = self.world.truth.get(Repo, self.repo.id)
            raise (conflict("Git Repository is empty.") if known else not_found()) from None

    def can(self, permission: str) -> bool:
        """Whether the caller has at least this permission here."""
        return self.viewer.can(self.tables, self.repo, permission)

    def association(self) -> str:
        """The caller's relation to the repository."""
        return self.viewer.association(self.tables, self.repo)

    def association_with(self, repo: Repo) -> str:
        """The caller's relation to some repository."""
        return self.viewer.association(self.tables, repo)

    def one(self, item: Entity, status: int = 200, variant: str = "", **headers: str) -> Response:
        """Answer with one entity."""
        if self.tables is self.world.truth:
            return json_response(shaped(item, self.frame, variant), status, **headers)
        body = self._renderer.one(item, self.frame, variant)
        modified = item.moment("updated") or None
        return Response(status, body, dict(headers), modified=modified)

    def page(self, items: Cuttable | Sequence[Any], variant: str = "") -> Response:
        """Answer with the asked-for page of entities, with its `Link` header."""
        chosen, headers = self.cut(items)
        if self.tables is self.world.truth:
            return json_response([shaped(item, self.frame, variant) for item in chosen])
        body, digest = self._renderer.many(chosen, self.frame, variant)
        return Response(200, body, headers, digest)

    def wrapped(self, items: Cuttable | Sequence[Any], key: str, variant: str = "") -> Response:
        """Answer with a page inside an object: {"total_count": n, key: [...]}."""
        chosen, headers = self.cut(items)
        found = [shaped(item, self.frame, variant) for item in chosen]
        return Response(200, encode({"total_count": len(items), key: found}), headers)

    def cut(self, items: Cuttable | Sequence[Any]) -> tuple[list[Any], dict[str, str]]:
        """The asked-for part of a list, and the `Link` header that goes with it."""
        found = Listed(items) if isinstance(items, Sequence) else items
        page = page_of(self.request.query, self.world.settings.max_items)
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
        where: Where | None = None,
        variant: str = "",
    ) -> Response:
        """Answer with a page of a list, honouring since, sort and direction as far as it has them.

        Without `sort` the order is `default`. With `default="id"` a direction without a
        sort is ignored, as the comment feeds do; `descending` is the direction if none is named.
        """
        query = self.request.query
        moment = moment_of(query.get("since")) if since else None
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
        moved = self.tables.find(Moved, self.repo.id, number)
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
