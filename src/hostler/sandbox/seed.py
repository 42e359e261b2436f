"""Filling a world: by hand in tests, or from a seed file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hostler.sandbox.apps import App, Installation
from hostler.sandbox.auth import Token, token_for
from hostler.sandbox.entities import Comment, Issue, Label, Repo, User
from hostler.sandbox.routes.repos import make_repo
from hostler.sandbox.seedcheck import check
from hostler.sandbox.world import World


class Seeder:
    """Makes people, repositories and conversations without going through the API."""

    def __init__(self, world: World) -> None:
        self._world = world

    def user(self, login: str, **values: Any) -> User:
        """A user with the fixed token of that login; organisations have none."""
        world = self._world
        known = world.user(login)
        if known is not None:
            return known
        user = world.put(User(world.new_id("user"), login, world.now(), **values))
        if user.type != "Organization":
            world.put(Token(world.count("id:token"), token_for(login), login))
        return user

    async def repo(self, full_name: str, *, labels: tuple[str, ...] = (), **values: Any) -> Repo:
        """A repository; its owner is made if need be."""
        owner, _, name = full_name.partition("/")
        self.user(owner)
        repo = await make_repo(self._world, owner, name, **values)
        for label in labels:
            self.label(repo, label)
        return repo

    def label(self, repo: Repo, name: str, color: str = "ededed", description: str = "") -> Label:
        """A label."""
        world = self._world
        known = world.truth.find(Label, repo.id, name.lower())
        made = Label(world.new_id("label"), repo.id, name, color, description or None)
        return known or world.put(made)

    def issue(
        self, repo: Repo, title: str, user: str, *, labels: tuple[str, ...] = (), **values: Any
    ) -> Issue:
        """An issue; `values` may set anything else of it."""
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
        """A comment; the issue's count and `updated_at` follow."""
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

    def app(self, slug: str, owner: str, public_key: str = "") -> App:
        """A GitHub App with its bot account; without a key it cannot sign for itself."""
        world = self._world
        number = world.new_id("app")
        self.user(f"{slug}[bot]", type="Bot")
        client = f"Iv23sandbox{number:04d}"
        return world.put(App(number, slug, slug, owner, world.now(), public_key, client))

    def install(self, app: App, account: str, repos: tuple[int, ...] | None = None) -> Installation:
        """Put an App onto an account."""
        world = self._world
        return world.put(
            Installation(world.new_id("installation"), app.id, account, world.now(), repos)
        )


async def plant(world: World, data: Any) -> None:
    """Make everything that a seed names. The seed is checked first, so it grows whole or not."""
    check(data, world)
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
