"""Repositories and their collaborators."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from hostler.sandbox.auth import Identity
from hostler.sandbox.git import names, refs
from hostler.sandbox.http.call import ApiCall
from hostler.sandbox.http.errors import forbidden, invalid, not_found
from hostler.sandbox.http.pagination import PageableList
from hostler.sandbox.http.requests import JsonFields, SandboxResponse, json_response, no_content
from hostler.sandbox.http.router import REPO, ApiRouter
from hostler.sandbox.serializers.repos import OPTIONS, permission_flags, simple_user
from hostler.sandbox.state.entities import Repo, User
from hostler.sandbox.state.world import create_repo

router = ApiRouter()
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


@router.route("GET", REPO)
def get_repo(call: ApiCall) -> SandboxResponse:
    """Return one repository."""
    return call.one(call.repo)


@router.route("POST", "/user/repos", login=True, creates=True)
async def create_user_repo(call: ApiCall) -> SandboxResponse:
    """Create a repository of the caller."""
    return await _create_repo(call, call.actor)


@router.route("POST", "/orgs/{org}/repos", login=True, creates=True)
async def create_org_repo(call: ApiCall) -> SandboxResponse:
    """Create a repository of an organisation."""
    org = _find_org(call)
    if call.actor.lower() not in {name.lower() for name in org.members}:
        raise forbidden("You need admin access to the organization before adding a repository.")
    return await _create_repo(call, org.login)


@router.route("PATCH", REPO, access="admin")
async def edit_repo(call: ApiCall) -> SandboxResponse:
    """Change settings; a new name leaves a redirect behind."""
    fields = call.fields("Repository")
    repo = _with_settings(call, fields)
    if repo.default_branch != call.repo.default_branch:
        await _point_head(call, repo.default_branch)
        # Others may have changed it while git was at work.
        call.repo = _reload_repo(call)
        repo = _with_settings(call, fields)
    return call.one(call.world.put(repo))


def _with_settings(call: ApiCall, fields: JsonFields) -> Repo:
    repo = replace(_with_name(call, fields), **_settings_of(call.repo, fields))
    return replace(repo, updated_at=call.world.now())


async def _point_head(call: ApiCall, branch: str) -> None:
    """Point HEAD at a new default branch; 422 if there is no such branch."""
    known = names.is_branch_name(branch)
    if known and call.world.repo_store is not None:
        git = call.git()
        async with git.lock:
            known = await refs.branch(git, branch) is not None
            if known:
                await git.set_default_branch(branch)
    if not known:
        words = f"The branch {branch[:80]} was not found."
        hint = "Please push that ref first or create it via the Git Data API."
        raise invalid("Repository", "default_branch", "invalid", f"{words} {hint}")


def _reload_repo(call: ApiCall) -> Repo:
    repo = call.world.truth.get(Repo, call.repo.id)
    if repo is None:
        raise not_found()
    return repo


@router.route("DELETE", REPO, access="admin")
async def delete_repo(call: ApiCall) -> SandboxResponse:
    """Delete a repository with everything in it."""
    call.world.remove_repo(call.repo)
    if call.world.repo_store is not None:
        await call.world.repo_store.remove(call.repo.id)
    return no_content()


@router.route("GET", "/user/repos", login=True)
def list_own_repos(call: ApiCall) -> SandboxResponse:
    """Repositories on which the caller has been given something."""
    every = call.tables.group(Repo, "all").select("id")
    mine = [repo for repo in every if _has_access(call, repo)]
    return call.page(_sort_repos(call, mine))


@router.route("GET", "/users/{login}/repos")
def list_user_repos(call: ApiCall) -> SandboxResponse:
    """Return a user's repositories, as far as the caller may see them."""
    return call.page(_sort_repos(call, _repos_of_owner(call, call.params["login"])))


@router.route("GET", "/orgs/{org}/repos")
def list_org_repos(call: ApiCall) -> SandboxResponse:
    """Return an organisation's repositories, as far as the caller may see them."""
    return call.page(_sort_repos(call, _repos_of_owner(call, _find_org(call).login)))


async def _create_repo(call: ApiCall, owner: str) -> SandboxResponse:
    fields = call.fields("Repository")
    name = _repo_name(fields)
    if call.world.repo(f"{owner}/{name}") is not None:
        raise _name_taken()
    repo = await create_repo(
        call.world,
        owner,
        name,
        auto_init=fields.flag("auto_init"),
        description=fields.text("description"),
        homepage=fields.text("homepage"),
        private=_is_private(fields, False),
        has_issues=fields.flag("has_issues", True),
        options=_options((), fields),
    )
    url = f"{call.request.root}/repos/{repo.full_name}"
    return call.one(repo, 201, Location=url)


def _repo_name(fields: JsonFields) -> str:
    name = fields.text("name", required=True)
    assert name is not None
    # GitHub turns what it does not like into dashes.
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", name)
    if not _NAME.fullmatch(name) or name in (".", "..") or name.endswith(".git"):
        raise invalid("Repository", "name", "custom", "name is invalid")
    return name


def _name_taken() -> Exception:
    return invalid("Repository", "name", "custom", "name already exists on this account")


def _with_name(call: ApiCall, fields: JsonFields) -> Repo:
    repo = call.repo
    if fields.values.get("name") in (None, repo.name):
        return repo
    name = _repo_name(fields)
    other = call.world.repo(f"{repo.owner}/{name}")
    if other is not None and other.id != repo.id:
        raise _name_taken()
    old = repo.full_name.lower()
    former = (*(known for known in repo.former if known != old), old)
    return replace(repo, name=name, former=former)


def _settings_of(repo: Repo, fields: JsonFields) -> dict[str, Any]:
    description, homepage = fields.text("description"), fields.text("homepage")
    branch = fields.text("default_branch")
    return {
        "description": description if "description" in fields else repo.description,
        "homepage": homepage if "homepage" in fields else repo.homepage,
        "default_branch": branch or repo.default_branch,
        "private": _is_private(fields, repo.private),
        "has_issues": fields.flag("has_issues", repo.has_issues),
        "archived": fields.flag("archived", repo.archived),
        "options": _options(repo.options, fields),
    }


def _is_private(fields: JsonFields, default: bool) -> bool:
    visibility = fields.choice("visibility", ("public", "private"))
    if visibility is not None:
        return visibility == "private"
    return fields.flag("private", default)


def _options(
    known: tuple[tuple[str, bool], ...], fields: JsonFields
) -> tuple[tuple[str, bool], ...]:
    given = {name: fields.flag(name) for name in OPTIONS if fields.values.get(name) is not None}
    return tuple(sorted({**dict(known), **given}.items()))


def _find_org(call: ApiCall) -> User:
    org = call.tables.find(User, call.params["org"].lower())
    if org is None or org.type != "Organization":
        raise not_found()
    return org


def _repos_of_owner(call: ApiCall, login: str) -> list[Repo]:
    owned = call.tables.group(Repo, "owner", login.lower()).select("id")
    return [repo for repo in owned if call.viewer.can(call.tables, repo, "read")]


def _has_access(call: ApiCall, repo: Repo) -> bool:
    return call.association_with(repo) != "NONE"


def _sort_repos(call: ApiCall, repos: list[Repo]) -> list[Repo]:
    query = call.request.query
    sort = query.get("sort", "full_name")
    if sort in ("created", "updated", "pushed"):
        down = query.get("direction", "desc") != "asc"
        return sorted(repos, key=lambda repo: (repo.moment(sort), repo.id), reverse=down)
    down = query.get("direction", "asc") == "desc"
    return sorted(repos, key=lambda repo: repo.full_name.lower(), reverse=down)


COLLABORATOR = REPO + "/collaborators/{login}"
_PERMISSION_NAMES = {"pull": "read", "push": "write", "read": "read", "write": "write"} | {
    name: name for name in ("triage", "maintain", "admin")
}


@router.route("GET", REPO + "/collaborators", access="write", login=True)
def list_collaborators(call: ApiCall) -> SandboxResponse:
    """Return all collaborators, owners first."""
    chosen, headers = call.cut(PageableList(_collaborator_logins(call)))
    response = json_response([_serialize_collaborator(call, login) for login in chosen])
    response.headers.update(headers)
    return response


@router.route("GET", COLLABORATOR, login=True)
def check_collaborator(call: ApiCall) -> SandboxResponse:
    """204 for a collaborator, 404 for others."""
    if call.params["login"].lower() not in {login.lower() for login in _collaborator_logins(call)}:
        raise not_found()
    return no_content()


@router.route("PUT", COLLABORATOR, access="admin")
def add_collaborator(call: ApiCall) -> SandboxResponse:
    """Give a permission; it counts at once, without an invitation."""
    user = _find_user(call)
    wanted = call.fields("Repository").choice("permission", tuple(_PERMISSION_NAMES)) or "push"
    call.world.put(
        replace(call.repo, access=_with_access(call.repo, user, _PERMISSION_NAMES[wanted]))
    )
    return no_content()


@router.route("DELETE", COLLABORATOR, access="admin")
def remove_collaborator(call: ApiCall) -> SandboxResponse:
    """Take the permission away."""
    call.world.put(replace(call.repo, access=_with_access(call.repo, _find_user(call), None)))
    return no_content()


@router.route("GET", COLLABORATOR + "/permission", login=True)
def get_permission(call: ApiCall) -> SandboxResponse:
    """Return what a user may do here."""
    user = _find_user(call)
    found = Identity(key="", login=user.login).permission(call.tables, call.repo)
    # The old word knows only four levels.
    simple = {"triage": "read", "maintain": "write"}.get(found, found)
    person = _serialize_collaborator(call, user.login)
    return json_response({"permission": simple, "role_name": found, "user": person})


def _collaborator_logins(call: ApiCall) -> list[str]:
    owner = call.tables.find(User, call.repo.owner.lower())
    first = list(owner.members) if owner and owner.members else [call.repo.owner]
    return list(dict.fromkeys([*first, *(login for login, _ in call.repo.access)]))


def _serialize_collaborator(call: ApiCall, login: str) -> dict[str, Any]:
    found = Identity(key="", login=login).permission(call.tables, call.repo)
    return {
        **simple_user(login, call.frame),
        "permissions": permission_flags(found),
        "role_name": found,
    }


def _find_user(call: ApiCall) -> User:
    user = call.tables.find(User, call.params["login"].lower())
    if user is None:
        raise not_found()
    return user


def _with_access(repo: Repo, user: User, level: str | None) -> tuple[tuple[str, str], ...]:
    others = tuple(pair for pair in repo.access if pair[0].lower() != user.login.lower())
    return others if level is None else (*others, (user.login, level))
