"""What a seed file may say; the first mistake is named by its place."""

from __future__ import annotations

from typing import Any

from hostler.model import RepoName
from hostler.sandbox.entities import PERMISSIONS
from hostler.sandbox.settings import BadInput

_TEXT, _FLAG, _TEXTS = "a text", "true or false", "a list of texts"
_SHAPES: dict[str, dict[str, str]] = {
    "users": {"login!": _TEXT, "type": _TEXT, "name": _TEXT, "email": _TEXT, "members": _TEXTS},
    "apps": {"slug!": _TEXT, "owner!": _TEXT, "public_key!": _TEXT, "installed_on": _TEXTS},
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
}


def check(data: Any) -> None:
    """Raise BadInput with the place of the first mistake in a seed."""
    if not isinstance(data, dict):
        raise BadInput("seed", "must be an object with users, repos and apps")
    for name in data:
        if name not in ("users", "repos", "apps"):
            raise BadInput(name, "unknown; a seed has users, repos and apps")
        _check_rows(name, name, data[name])
    for index, repo in enumerate(data.get("repos", ())):
        _check_repo(f"repos[{index}]", repo)


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


def _check_repo(where: str, repo: dict[str, Any]) -> None:
    try:
        RepoName.parse(repo["name"])
    except ValueError as error:
        raise BadInput(f"{where}.name", str(error)) from None
    for login, permission in repo.get("collaborators", {}).items():
        if permission not in PERMISSIONS[1:]:
            raise BadInput(f"{where}.collaborators.{login}", "is no permission")
    for index, label in enumerate(repo.get("labels", ())):
        if not isinstance(label, str) and not (
            isinstance(label, dict) and isinstance(label.get("name"), str)
        ):
            raise BadInput(f"{where}.labels[{index}]", "must be a text or an object with a name")
