"""Fill a world: in tests step by step, or from a seed file, which is checked first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from hostler.model import RepoName
from hostler.sandbox.auth import AppRegistration, Installation, SandboxToken, token_for
from hostler.sandbox.git.names import is_branch_name
from hostler.sandbox.http.requests import MAX_BODY_LENGTH
from hostler.sandbox.state.entities import PERMISSIONS, Comment, Issue, Label, Repo, User
from hostler.sandbox.state.world import InvalidInput, World, create_repo

DEFAULT_SEED: dict[str, Any] = {
    "users": [{"login": "alice", "name": "Alice"}, {"login": "bob", "name": "Bob"}],
    "repos": [
        {
            "name": "alice/demo",
            "description": "A place to try things",
            "collaborators": {"bob": "write"},
            "labels": [
                {"name": "bug", "color": "d73a4a"},
                {"name": "enhancement", "color": "a2eeef"},
                {"name": "hostler", "color": "0e8a16"},
            ],
            "issues": [
                {
                    "title": "Say hello in the README",
                    "body": "The README should greet its readers.",
                    "user": "alice",
                    "labels": ["enhancement"],
                    "comments": [{"user": "bob", "body": "A short greeting is enough."}],
                }
            ],
        }
    ],
}

USER_TYPES = ("User", "Organization", "Bot")
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


def check_seed(data: Any, world: World) -> None:
    """Raise BadInput with the place of the first mistake in a seed for this world."""
    if not isinstance(data, dict):
        raise InvalidInput("seed", "must be an object with users, repos and apps")
    for name in data:
        if name not in ("users", "repos", "apps"):
            raise InvalidInput(name, "unknown; a seed has users, repos and apps")
        _check_rows(name, name, data[name])
    for where, user in _rows(data, "users"):
        _check_user(where, user)
    for where, repo in _rows(data, "repos"):
        _check_repo(where, repo)
    for where, app in _rows(data, "apps"):
        _check_app(where, app)
    _check_free(data, "repos", "name", {repo.full_name for repo in world.truth.all(Repo)})
    _check_free(data, "apps", "slug", {app.slug for app in world.truth.all(AppRegistration)})


def _rows(data: dict[str, Any], name: str, where: str = "") -> Iterator[tuple[str, Any]]:
    """Return every row of a list, with its place."""
    for index, row in enumerate(data.get(name, ())):
        yield f"{where}{name}[{index}]", row


def _check_rows(where: str, shape: str, rows: Any) -> None:
    if not isinstance(rows, list):
        raise InvalidInput(where, "must be a list")
    for index, row in enumerate(rows):
        _check_row(f"{where}[{index}]", _SHAPES[shape], row)


def _check_row(where: str, shape: dict[str, str], row: Any) -> None:
    if not isinstance(row, dict):
        raise InvalidInput(where, "must be an object")
    wanted = {name.rstrip("!"): kind for name, kind in shape.items()}
    for name in shape:
        if name.endswith("!") and name.rstrip("!") not in row:
            raise InvalidInput(f"{where}.{name.rstrip('!')}", "is missing")
    for name, value in row.items():
        if name not in wanted:
            raise InvalidInput(f"{where}.{name}", f"unknown; there are {', '.join(wanted)}")
        if wanted[name] in _SHAPES:
            _check_rows(f"{where}.{name}", wanted[name], value)
        elif not _has_type(wanted[name], value):
            raise InvalidInput(f"{where}.{name}", f"must be {wanted[name]}")


def _has_type(kind: str, value: Any) -> bool:
    if kind == _TEXTS:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    plain = {_TEXT: str, _FLAG: bool, "an object": dict, "a list": list}
    return isinstance(value, plain[kind])


def _check_user(where: str, user: dict[str, Any]) -> None:
    _check_login(f"{where}.login", user["login"])
    if user.get("type", "User") not in USER_TYPES:
        raise InvalidInput(f"{where}.type", f"must be one of {', '.join(USER_TYPES)}")
    for place, login in _rows(user, "members", f"{where}."):
        _check_login(place, login)


def _check_repo(where: str, repo: dict[str, Any]) -> None:
    try:
        RepoName.parse(repo["name"])
    except ValueError as error:
        raise InvalidInput(f"{where}.name", str(error)) from None
    if repo["name"].endswith(".git"):
        raise InvalidInput(f"{where}.name", "must not end in .git")
    if not is_branch_name(repo.get("default_branch", "main")):
        raise InvalidInput(f"{where}.default_branch", "is no name for a branch")
    for login, permission in repo.get("collaborators", {}).items():
        _check_login(f"{where}.collaborators", login)
        if permission not in PERMISSIONS[1:]:
            raise InvalidInput(f"{where}.collaborators.{login}", "is no permission")
    for place, label in _rows(repo, "labels", f"{where}."):
        _check_label(place, label)
    for place, issue in _rows(repo, "issues", f"{where}."):
        _check_issue(place, issue)


def _check_label(where: str, label: Any) -> None:
    if isinstance(label, str):
        _check_length(where, label, 50)
        return
    if not isinstance(label, dict) or "name" not in label:
        raise InvalidInput(where, "must be a text or an object with a name")
    _check_row(where, _SHAPES["labels"], label)
    _check_length(f"{where}.name", label["name"], 50)
    _check_length(f"{where}.description", label.get("description", ""), 100, empty=True)
    if not _COLOR.fullmatch(label.get("color", "ededed")):
        raise InvalidInput(f"{where}.color", "must be six hexadecimal digits")


def _check_issue(where: str, issue: dict[str, Any]) -> None:
    _check_length(f"{where}.title", issue["title"], 256)
    _check_length(f"{where}.body", issue.get("body", ""), MAX_BODY_LENGTH, empty=True)
    if "user" in issue:
        _check_login(f"{where}.user", issue["user"])
    for place, label in _rows(issue, "labels", f"{where}."):
        _check_length(place, label, 50)
    for place, comment in _rows(issue, "comments", f"{where}."):
        _check_login(f"{place}.user", comment["user"])
        _check_length(f"{place}.body", comment["body"], MAX_BODY_LENGTH)


def _check_app(where: str, app: dict[str, Any]) -> None:
    if not _SLUG.fullmatch(app["slug"]):
        raise InvalidInput(f"{where}.slug", "must be of a-z, 0-9 and single dashes")
    _check_login(f"{where}.owner", app["owner"])
    for place, login in _rows(app, "installed_on", f"{where}."):
        _check_login(place, login)
    if "public_key" in app and not _is_rsa_key(app["public_key"]):
        raise InvalidInput(f"{where}.public_key", "must be an RSA public key in PEM")


def _check_free(data: dict[str, Any], rows: str, field: str, taken: set[str]) -> None:
    """Names are unique, whatever their case."""
    known = {name.lower() for name in taken}
    for where, row in _rows(data, rows):
        if row[field].lower() in known:
            raise InvalidInput(f"{where}.{field}", f"{row[field]} is there already")
        known.add(row[field].lower())


def _check_login(where: str, login: str) -> None:
    if not _LOGIN.fullmatch(login):
        raise InvalidInput(where, f"{login!r} is no login")


def _check_length(where: str, text: str, limit: int, *, empty: bool = False) -> None:
    if len(text) > limit:
        raise InvalidInput(where, f"is too long (maximum is {limit} characters)")
    if not empty and not text.strip():
        raise InvalidInput(where, "must not be blank")


def _is_rsa_key(pem: str) -> bool:
    try:
        return isinstance(load_pem_public_key(pem.encode()), RSAPublicKey)
    except (ValueError, UnsupportedAlgorithm):
        return False


class Seeder:
    """Creates users, repositories, issues and comments without the API."""

    def __init__(self, world: World) -> None:
        self._world = world

    def user(self, login: str, **values: Any) -> User:
        """Create a user with the fixed token of that login; organisations have none."""
        world = self._world
        known = world.user(login)
        if known is not None:
            return known
        user = world.put(User(world.new_id("user"), login, world.now(), **values))
        if user.type != "Organization":
            world.put(SandboxToken(world.count("id:token"), token_for(login), login))
        return user

    async def repo(self, full_name: str, *, labels: tuple[str, ...] = (), **values: Any) -> Repo:
        """Create a repository, and its owner if missing."""
        owner, _, name = full_name.partition("/")
        self.user(owner)
        repo = await create_repo(self._world, owner, name, **values)
        for label in labels:
            self.label(repo, label)
        return repo

    def label(self, repo: Repo, name: str, color: str = "ededed", description: str = "") -> Label:
        """Return a label."""
        world = self._world
        known = world.truth.find(Label, repo.id, name.lower())
        made = Label(world.new_id("label"), repo.id, name, color, description or None)
        return known or world.put(made)

    def issue(
        self, repo: Repo, title: str, user: str, *, labels: tuple[str, ...] = (), **values: Any
    ) -> Issue:
        """Create an issue; `values` sets any other fields."""
        world, now = self._world, self._world.now()
        made = Issue(
            id=world.new_id("issue"),
            repo_id=repo.id,
            number=world.next_number(repo),
            title=title,
            user=user,
            created_at=values.pop("created_at", now),
            updated_at=values.pop("updated_at", now),
            labels=tuple(self.label(repo, name).id for name in labels),
            **values,
        )
        return world.put(made)

    def comment(self, issue: Issue, user: str, body: str, **values: Any) -> Comment:
        """Create a comment and update the issue's count and `updated_at`."""
        world, now = self._world, self._world.now()
        made = Comment(
            id=world.new_id("comment"),
            repo_id=issue.repo_id,
            issue_id=issue.id,
            number=issue.number,
            user=user,
            body=body,
            created_at=values.pop("created_at", now),
            updated_at=values.pop("updated_at", now),
            **values,
        )
        known = world.truth.get(Issue, issue.id)
        if known is not None:
            world.put(replace(known, comments=known.comments + 1, updated_at=now))
        return world.put(made)

    def app(self, slug: str, owner: str, public_key: str = "") -> AppRegistration:
        """Create a GitHub App with its bot account; without a key it cannot sign JWTs."""
        world = self._world
        number = world.new_id("app")
        self.user(f"{slug}[bot]", type="Bot")
        client = f"Iv23sandbox{number:04d}"
        return world.put(
            AppRegistration(number, slug, slug, owner, world.now(), public_key, client)
        )

    def install(
        self, app: AppRegistration, account: str, repos: tuple[int, ...] | None = None
    ) -> Installation:
        """Put an App onto an account."""
        world = self._world
        return world.put(
            Installation(world.new_id("installation"), app.id, account, world.now(), repos)
        )


async def plant_seed(world: World, data: Any) -> None:
    """Create everything that a seed names. An invalid seed changes nothing."""
    check_seed(data, world)
    seeder = Seeder(world)
    with world.hiding(0):
        for user in data.get("users", ()):
            members = tuple(user.get("members", ()))
            extra = {name: user[name] for name in ("type", "name", "email") if name in user}
            seeder.user(user["login"], members=members, **extra)
        for repo in data.get("repos", ()):
            await _plant_repo(seeder, repo)
        for app in data.get("apps", ()):
            made = seeder.app(app["slug"], app["owner"], app.get("public_key", ""))
            for account in app.get("installed_on", ()):
                seeder.install(made, account)


async def _plant_repo(seeder: Seeder, data: dict[str, Any]) -> None:
    wanted = ("private", "description", "default_branch", "has_issues")
    values = {name: data[name] for name in wanted if name in data}
    access = tuple(sorted(data.get("collaborators", {}).items()))
    for login, _ in access:
        seeder.user(login)
    repo = await seeder.repo(
        data["name"], access=access, auto_init=data.get("auto_init", True), **values
    )
    for label in data.get("labels", ()):
        named = {"name": label} if isinstance(label, str) else label
        color = named.get("color", "ededed").lower()
        seeder.label(repo, named["name"].strip(), color, named.get("description", ""))
    for issue in data.get("issues", ()):
        _plant_issue(seeder, repo, issue)


def _plant_issue(seeder: Seeder, repo: Repo, data: dict[str, Any]) -> None:
    author = data.get("user", repo.owner)
    seeder.user(author)
    issue = seeder.issue(
        repo,
        data["title"],
        author,
        body=data.get("body"),
        labels=tuple(name.strip() for name in data.get("labels", ())),
        association="OWNER" if author == repo.owner else "NONE",
    )
    for comment in data.get("comments", ()):
        seeder.user(comment["user"])
        seeder.comment(issue, comment["user"], comment["body"])
