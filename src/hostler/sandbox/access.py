"""Whether a caller may do what a route does, and to which repository."""

from __future__ import annotations

from hostler.sandbox.call import Call
from hostler.sandbox.entities import Repo
from hostler.sandbox.errors import ApiError, forbidden, gone, not_found, unauthorized


def admit(call: Call) -> None:
    """Find the repository of the path and check the caller; raises GitHub's answer if not."""
    route, viewer = call.route, call.viewer
    if route.app != viewer.is_app:
        raise unauthorized("A JSON web token could not be decoded")
    if viewer.anonymous and route.login:
        raise unauthorized()
    if not route.in_repo:
        return
    call.repo = repo = _repo(call)
    if route.app:
        return
    if not call.can("read"):
        raise not_found()
    if viewer.anonymous and not call.request.is_read:
        raise unauthorized()
    if not call.can(route.access):
        raise forbidden(_lacking(route.access))
    if repo.archived and not call.request.is_read and route.access != "admin":
        raise forbidden("Repository was archived so is read-only.")
    if route.issues and not repo.has_issues:
        raise gone("Issues has been disabled in this repository.")


def _repo(call: Call) -> Repo:
    if "repository_id" in call.params:
        found = call.tables.get(Repo, call.number("repository_id"))
        if found is None:
            raise not_found()
        return found
    name = f"{call.params['owner']}/{call.params['repo']}".lower()
    found = call.tables.find(Repo, name)
    if found is not None:
        return found
    former = call.tables.find(Repo, "former", name)
    if former is None or not call.viewer.can(call.tables, former, "read"):
        raise not_found()
    call.repo = former
    raise moved(call)


def moved(call: Call) -> ApiError:
    """The way to a renamed repository: 301 for reads, 307 for writes."""
    url = call.numeric_url()
    if call.request.query_string:
        url += "?" + call.request.query_string
    read = call.request.is_read
    message = "Moved Permanently" if read else "Temporary Redirect"
    return ApiError(301 if read else 307, message, headers={"Location": url})


def _lacking(access: str) -> str:
    if access == "write":
        return "Must have push access to repository"
    return "Must have admin rights to Repository."
