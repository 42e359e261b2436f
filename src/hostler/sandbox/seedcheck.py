"""What a seed file may say; the first mistake is named by its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from hostler.model import RepoName
from hostler.sandbox.apps import App
from hostler.sandbox.entities import PERMISSIONS, Repo
from hostler.sandbox.fields import BODY_LIMIT
from hostler.sandbox.git.names import is_branch_name
from hostler.sandbox.settings import BadInput
from hostler.sandbox.world import World

TYPES = ("User", "Organization", "Bot")
_LOGIN = re.compile(r"[A-Za-z0-9](-?[A-Za-z0-9]){0,38}(\[bot\])?")
_SLUG = re.compile(r"[a-z0-9](-?[a-z0-9]){0,33}")
_COLOR = re.compile(r"[0-9a-fA-F]{6}")

_TEXT, _FLAG, _TEXTS = "a text", "true or false", "a list of texts"
_SHAPES: dict[str, dict[str, str]] = {
    "users": {"login!": _TEXT, "type": _TEXT, "name": _TEXT, "email": _TEXT, "members": _TEXTS},
    "apps": {"slug!": _TEXT, "owner!": _TEXT, "public_key": _TEXT, "installed_on": _TEXTS},
    "repos": {
        "name!": _TEXT,
        "private": _FLAG,
        "description": _TEXT,
        "default_branch": _TEXT,
        "has_issues": _FLAG,
        "auto_init": _FLAG,
        "collaborators": "an object",
        "labels": "a list",
        "issues": "issues",
    },
    "issues": {
        "title!": _TEXT,
        "body": _TEXT,
        "user": _TEXT,
        "labels": _TEXTS,
        "comments": "comments",
    },
    "comments": {"user!": _TEXT, "body!": _TEXT},
    "labels": {"name!": _TEXT, "color": _TEXT, "description": _TEXT},
}


def check(data: Any, world: World) -> None:
    """Raise BadInput with the place of the first mistake in a seed for this world."""
    if not isinstance(data, dict):
        raise BadInput("seed", "must be an object with users, repos and apps")
    for name in data:
        if name not in ("users", "repos", "apps"):
            raise BadInput(name, "unknown; a seed has users, repos and apps")
        _check_rows(name, name, data[name])
    for where, user in _rows(data, "users"):
        _check_user(where, user)
    for where, repo in _rows(data, "repos"):
        _check_repo(where, repo)
    for where, app in _rows(data, "apps"):
        _check_app(where, app)
    _check_free(data, "repos", "name", {repo.full_name for repo in world.truth.all(Repo)})
    _check_free(data, "apps", "slug", {app.slug for app in world.truth.all(App)})


def _rows(data: dict[str, Any], name: str, where: str = "") -> Iterator[tuple[str, Any]]:
    """Every row of a list, with its place."""
    for index, row in enumerate(data.get(name, ())):
        yield f"{where}{name}[{index}]", row


def _check_rows(where: str, shape: str, rows: Any) -> None:
    if not isinstance(rows, list):
        raise BadInput(where, "must be a list")
    for index, row in enumerate(rows):
        _check_row(f"{where}[{index}]", _SHAPES[shape], row)


def _check_row(where: str, shape: dict[str, str], row: Any) -> None:
    if not isinstance(row, dict):
        raise BadInput(where, "must be an object")
    wanted = {name.rstrip("!"): kind for name, kind in shape.items()}
    for name in shape:
        if name.endswith("!") and name.rstrip("!") not in row:
            raise BadInput(f"{where}.{name.rstrip('!')}", "is missing")
    for name, value in row.items():
        if name not in wanted:
            raise BadInput(f"{where}.{name}", f"unknown; there are {', '.join(wanted)}")
        if wanted[name] in _SHAPES:
            _check_rows(f"{where}.{name}", wanted[name], value)
        elif not _fits(wanted[name], value):
            raise BadInput(f"{where}.{name}", f"must be {wanted[name]}")


def _fits(kind: str, value: Any) -> bool:
    if kind == _TEXTS:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    plain = {_TEXT: str, _FLAG: bool, "an object": dict, "a list": list}
    return isinstance(value, plain[kind])


def _check_user(where: str, user: dict[str, Any]) -> None:
    _check_login(f"{where}.login", user["login"])
    if user.get("type", "User") not in TYPES:
        raise BadInput(f"{where}.type", f"must be one of {', '.join(TYPES)}")
    for place, login in _rows(user, "members", f"{where}."):
        _check_login(place, login)


def _check_repo(where: str, repo: dict[str, Any]) -> None:
    try:
        RepoName.parse(repo["name"])
    except ValueError as error:
        raise BadInput(f"{where}.name", str(error)) from None
    if repo["name"].endswith(".git"):
        raise BadInput(f"{where}.name", "must not end in .git")
    if not is_branch_name(repo.get("default_branch", "main")):
        raise BadInput(f"{where}.default_branch", "is no name for a branch")
    for login, permission in repo.get("collaborators", {}).items():
        _check_login(f"{where}.collaborators", login)
        if permission not in PERMISSIONS[1:]:
            raise BadInput(f"{where}.collaborators.{login}", "is no permission")
    for place, label in _rows(repo, "labels", f"{where}."):
        _check_label(place, label)
    for place, issue in _rows(repo, "issues", f"{where}."):
        _check_issue(place, issue)


def _check_label(where: str, label: Any) -> None:
    if isinstance(label, str):
        _check_length(where, label, 50)
        return
    if not isinstance(label, dict) or "name" not in label:
        raise BadInput(where, "must be a text or an object with a name")
    _check_row(where, _SHAPES["labels"], label)
    _check_length(f"{where}.name", label["name"], 50)
    _check_length(f"{where}.description", label.get("description", ""), 100, empty=True)
    if not _COLOR.fullmatch(label.get("color", "ededed")):
        raise BadInput(f"{where}.color", "must be six hexadecimal digits")


def _check_issue(where: str, issue: dict[str, Any]) -> None:
    _check_length(f"{where}.title", issue["title"], 256)
    _check_length(f"{where}.body", issue.get("body", ""), BODY_LIMIT, empty=True)
    if "user" in issue:
        _check_login(f"{where}.user", issue["user"])
    for place, label in _rows(issue, "labels", f"{where}."):
        _check_length(place, label, 50)
    for place, comment in _rows(issue, "comments", f"{where}."):
        _check_login(f"{place}.user", comment["user"])
        _check_length(f"{place}.body", comment["body"], BODY_LIMIT)


def _check_app(where: str, app: dict[str, Any]) -> None:
    if not _SLUG.fullmatch(app["slug"]):
        raise BadInput(f"{where}.slug", "must be of a-z, 0-9 and single dashes")
    _check_login(f"{where}.owner", app["owner"])
    for place, login in _rows(app, "installed_on", f"{where}."):
        _check_login(place, login)
    if "public_key" in app and not _is_rsa_key(app["public_key"]):
        raise BadInput(f"{where}.public_key", "must be an RSA public key in PEM")


def _check_free(data: dict[str, Any], rows: str, field: str, taken: set[str]) -> None:
    """Names are unique, whatever their case."""
    known = {name.lower() for name in taken}
    for where, row in _rows(data, rows):
        if row[field].lower() in known:
            raise BadInput(f"{where}.{field}", f"{row[field]} is there already")
        known.add(row[field].lower())


def _check_login(where: str, login: str) -> None:
    if not _LOGIN.fullmatch(login):
        raise BadInput(where, f"{login!r} is no login")


def _check_length(where: str, text: str, limit: int, *, empty: bool = False) -> None:
    if len(text) > limit:
        raise BadInput(where, f"is too long (maximum is {limit} characters)")
    if not empty and not text.strip():
        raise BadInput(where, "must not be blank")


def _is_rsa_key(pem: str) -> bool:
    try:
        return isinstance(load_pem_public_key(pem.encode()), RSAPublicKey)
    except (ValueError, UnsupportedAlgorithm):
        return False
