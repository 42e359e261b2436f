"""Repositories: make, read, change, rename, delete, list."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hostler.sandbox.call import Call
from hostler.sandbox.entities import Repo, User
from hostler.sandbox.errors import forbidden, invalid, not_found
from hostler.sandbox.fields import Fields
from hostler.sandbox.git import names, refs
from hostler.sandbox.git.process import Person
from hostler.sandbox.http import Response, no_content
from hostler.sandbox.router import REPO, Router
from hostler.sandbox.shapes.repos import OPTIONS
from hostler.sandbox.world import World

router = Router()
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


@router.route("GET", REPO)
def get(call: Call) -> Response:
    """One repository."""
    return call.one(call.repo)


@router.route("POST", "/user/repos", login=True, creates=True)
async def create_own(call: Call) -> Response:
    """A repository of the caller."""
    return await _create(call, call.actor)


@router.route("POST", "/orgs/{org}/repos", login=True, creates=True)
async def create_for_org(call: Call) -> Response:
    """A repository of an organisation."""
    org = _org(call)
    if call.actor.lower() not in {name.lower() for name in org.members}:
        raise forbidden("You need admin access to the organization before adding a repository.")
    return await _create(call, org.login)


@router.route("PATCH", REPO, access="admin")
async def edit(call: Call) -> Response:
    """Change settings; a new name leaves a redirect behind."""
    fields = call.fields("Repository")
    repo = _edited(call, fields)
    if repo.default_branch != call.repo.default_branch:
        await _point_head(call, repo.default_branch)
        # Others may have changed it while git was at work.
        call.repo = _still_there(call)
        repo = _edited(call, fields)
    return call.one(call.world.put(repo))


def _edited(call: Call, fields: Fields) -> Repo:
    repo = replace(_renamed(call, fields), **_settings(call.repo, fields))
    return replace(repo, updated_at=call.world.now())


async def _point_head(call: Call, branch: str) -> None:
    """Let git follow a new default branch; 422 where there is no such branch."""
    known = names.is_branch_name(branch)
    if known and call.world.vault is not None:
        git = call.git()
        async with git.lock:
            known = await refs.branch(git, branch) is not None
            if known:
                await git.set_default_branch(branch)
    if not known:
        words = f"The branch {branch[:80]} was not found."
        hint = "Please push that ref first or create it via the Git Data API."
        raise invalid("Repository", "default_branch", "invalid", f"{words} {hint}")


def _still_there(call: Call) -> Repo:
    repo = call.world.truth.get(Repo, call.repo.id)
    if repo is None:
        raise not_found()
    return repo


@router.route("DELETE", REPO, access="admin")
async def delete(call: Call) -> Response:
    """Delete a repository with everything in it."""
    call.world.remove_repo(call.repo)
    if call.world.vault is not None:
        await call.world.vault.remove(call.repo.id)
    return no_content()


@router.route("GET", "/user/repos", login=True)
def list_own(call: Call) -> Response:
    """Repositories on which the caller has been given something."""
    every = call.tables.group(Repo, "all").select("id")
    mine = [repo for repo in every if _is_given(call, repo)]
    return call.page(_sorted(call, mine))


@router.route("GET", "/users/{login}/repos")
def list_of_user(call: Call) -> Response:
    """A user's repositories, as far as the caller may see them."""
    return call.page(_sorted(call, _of_owner(call, call.params["login"])))


@router.route("GET", "/orgs/{org}/repos")
def list_of_org(call: Call) -> Response:
    """An organisation's repositories, as far as the caller may see them."""
    return call.page(_sorted(call, _of_owner(call, _org(call).login)))


async def make_repo(world: World, owner: str, name: str, **values: Any) -> Repo:
    """Put a new repository into the world, with its git side."""
    now = world.now()
    readme = values.pop("auto_init", False)
    repo = Repo(
        id=world.new_id("repo"),
        owner=owner,
        name=name,
        created_at=now,
        updated_at=now,
        pushed_at=now,
        **values,
    )
    world.put(repo)
    if world.vault is not None:
        person = Person(
            owner, f"{owner}@users.noreply.github.com", datetime.fromtimestamp(now, UTC)
        )
        await world.vault.create(
            repo.id,
            title=name,
            default_branch=repo.default_branch,
            person=person,
            readme=readme,
        )
    return repo


async def _create(call: Call, owner: str) -> Response:
    fields = call.fields("Repository")
    name = _name(fields)
    if call.world.repo(f"{owner}/{name}") is not None:
        raise _taken()
    repo = await make_repo(
        call.world,
        owner,
        name,
        auto_init=fields.flag("auto_init"),
        description=fields.text("description"),
        homepage=fields.text("homepage"),
        private=_private(fields, False),
        has_issues=fields.flag("has_issues", True),
        options=_options((), fields),
    )
    url = f"{call.request.root}/repos/{repo.full_name}"
    return call.one(repo, 201, Location=url)


def _name(fields: Fields) -> str:
    name = fields.text("name", required=True)
    assert name is not None
    # GitHub turns what it does not like into dashes.
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", name)
    if not _NAME.fullmatch(name) or name in (".", "..") or name.endswith(".git"):
        raise invalid("Repository", "name", "custom", "name is invalid")
    return name


def _taken() -> Exception:
    return invalid("Repository", "name", "custom", "name already exists on this account")


def _renamed(call: Call, fields: Fields) -> Repo:
    repo = call.repo
    if fields.values.get("name") in (None, repo.name):
        return repo
    name = _name(fields)
    other = call.world.repo(f"{repo.owner}/{name}")
    if other is not None and other.id != repo.id:
        raise _taken()
    old = repo.full_name.lower()
    former = (*(known for known in repo.former if known != old), old)
    return replace(repo, name=name, former=former)


def _settings(repo: Repo, fields: Fields) -> dict[str, Any]:
    description, homepage = fields.text("description"), fields.text("homepage")
    branch = fields.text("default_branch")
    return {
        "description": description if "description" in fields else repo.description,
        "homepage": homepage if "homepage" in fields else repo.homepage,
        "default_branch": branch or repo.default_branch,
        "private": _private(fields, repo.private),
        "has_issues": fields.flag("has_issues", repo.has_issues),
        "archived": fields.flag("archived", repo.archived),
        "options": _options(repo.options, fields),
    }


def _private(fields: Fields, default: bool) -> bool:
    visibility = fields.choice("visibility", ("public", "private"))
    if visibility is not None:
        return visibility == "private"
    return fields.flag("private", default)


def _options(known: tuple[tuple[str, bool], ...], fields: Fields) -> tuple[tuple[str, bool], ...]:
    given = {name: fields.flag(name) for name in OPTIONS if fields.values.get(name) is not None}
    return tuple(sorted({**dict(known), **given}.items()))


def _org(call: Call) -> User:
    org = call.tables.find(User, call.params["org"].lower())
    if org is None or org.type != "Organization":
        raise not_found()
    return org


def _of_owner(call: Call, login: str) -> list[Repo]:
    owned = call.tables.group(Repo, "owner", login.lower()).select("id")
    return [repo for repo in owned if call.viewer.can(call.tables, repo, "read")]


def _is_given(call: Call, repo: Repo) -> bool:
    return call.association_with(repo) != "NONE"


def _sorted(call: Call, repos: list[Repo]) -> list[Repo]:
    query = call.request.query
    sort = query.get("sort", "full_name")
    if sort in ("created", "updated", "pushed"):
        down = query.get("direction", "desc") != "asc"
        return sorted(repos, key=lambda repo: (repo.moment(sort), repo.id), reverse=down)
    down = query.get("direction", "asc") == "desc"
    return sorted(repos, key=lambda repo: repo.full_name.lower(), reverse=down)
