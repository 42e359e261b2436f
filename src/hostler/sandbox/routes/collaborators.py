"""Who may do what in a repository."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hostler.sandbox.call import Call
from hostler.sandbox.entities import Repo, User
from hostler.sandbox.errors import not_found
from hostler.sandbox.http import Response, json_response, no_content
from hostler.sandbox.identity import Identity
from hostler.sandbox.paging import Listed
from hostler.sandbox.router import REPO, Router
from hostler.sandbox.shapes.people import simple_user
from hostler.sandbox.shapes.repos import permissions

router = Router()
ONE = REPO + "/collaborators/{login}"
_NAMES = {"pull": "read", "push": "write", "read": "read", "write": "write"} | {
    name: name for name in ("triage", "maintain", "admin")
}


@router.route("GET", REPO + "/collaborators", access="write", login=True)
def list_all(call: Call) -> Response:
    """Everybody who was given something, owners first."""
    chosen, headers = call.cut(Listed(_logins(call)))
    response = json_response([_collaborator(call, login) for login in chosen])
    response.headers.update(headers)
    return response


@router.route("GET", ONE, login=True)
def is_one(call: Call) -> Response:
    """204 for a collaborator, 404 for others."""
    if call.params["login"].lower() not in {login.lower() for login in _logins(call)}:
        raise not_found()
    return no_content()


@router.route("PUT", ONE, access="admin")
def add(call: Call) -> Response:
    """Give a permission; it counts at once, without an invitation."""
    user = _user(call)
    wanted = call.fields("Repository").choice("permission", tuple(_NAMES)) or "push"
    call.world.put(replace(call.repo, access=_access(call.repo, user, _NAMES[wanted])))
    return no_content()


@router.route("DELETE", ONE, access="admin")
def remove(call: Call) -> Response:
    """Take the permission away."""
    call.world.put(replace(call.repo, access=_access(call.repo, _user(call), None)))
    return no_content()


@router.route("GET", ONE + "/permission", login=True)
def permission(call: Call) -> Response:
    """What a user may do here."""
    user = _user(call)
    found = Identity(key="", login=user.login).permission(call.tables, call.repo)
    # The old word knows only four levels.
    simple = {"triage": "read", "maintain": "write"}.get(found, found)
    person = _collaborator(call, user.login)
    return json_response({"permission": simple, "role_name": found, "user": person})


def _logins(call: Call) -> list[str]:
    owner = call.tables.find(User, call.repo.owner.lower())
    first = list(owner.members) if owner and owner.members else [call.repo.owner]
    return list(dict.fromkeys([*first, *(login for login, _ in call.repo.access)]))


def _collaborator(call: Call, login: str) -> dict[str, Any]:
    found = Identity(key="", login=login).permission(call.tables, call.repo)
    return {
        **simple_user(login, call.frame),
        "permissions": permissions(found),
        "role_name": found,
    }


def _user(call: Call) -> User:
    user = call.tables.find(User, call.params["login"].lower())
    if user is None:
        raise not_found()
    return user


def _access(repo: Repo, user: User, level: str | None) -> tuple[tuple[str, str], ...]:
    others = tuple(pair for pair in repo.access if pair[0].lower() != user.login.lower())
    return others if level is None else (*others, (user.login, level))
