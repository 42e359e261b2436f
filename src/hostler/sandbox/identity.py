"""Who a request speaks for."""

from __future__ import annotations

from dataclasses import dataclass

from hostler.sandbox.entities import PERMISSIONS, Repo, User
from hostler.sandbox.tables import Tables


@dataclass(frozen=True, slots=True)
class Identity:
    """A user's token, an App's JWT, an installation's token, or nobody.

    `key` names the token and goes into ETags; `purse` names the budget that pays, which all
    tokens of one user or installation share. `repos` limits an installation (None = no limit).
    """

    key: str
    purse: str = ""
    login: str = ""
    app_id: int | None = None
    installation_id: int | None = None
    repos: frozenset[int] | None = None
    is_app: bool = False

    @property
    def anonymous(self) -> bool:
        """Whether nobody is named."""
        return not self.login and not self.is_app

    def permission(self, tables: Tables, repo: Repo) -> str:
        """none, read, triage, write, maintain or admin."""
        if self.installation_id is not None:
            return self._installation_permission(repo)
        if not self.login:
            return "none" if repo.private else "read"
        login = self.login.lower()
        found = _owner_permission(tables, repo, login)
        for name, permission in repo.access:
            if name.lower() == login:
                found = max(found, permission, key=PERMISSIONS.index)
        return found if found != "none" or repo.private else "read"

    def can(self, tables: Tables, repo: Repo, wanted: str) -> bool:
        """Whether the permission reaches `wanted`."""
        return PERMISSIONS.index(self.permission(tables, repo)) >= PERMISSIONS.index(wanted)

    def association(self, tables: Tables, repo: Repo) -> str:
        """How GitHub calls the author's relation to the repository."""
        if not self.login:
            return "NONE"
        if self.login.lower() == repo.owner.lower():
            return "OWNER"
        if _owner_permission(tables, repo, self.login.lower()) != "none":
            return "MEMBER"
        named = {name.lower() for name, _ in repo.access}
        return "COLLABORATOR" if self.login.lower() in named else "NONE"

    def _installation_permission(self, repo: Repo) -> str:
        if self.repos is None or repo.id in self.repos:
            return "write"
        return "none" if repo.private else "read"


def _owner_permission(tables: Tables, repo: Repo, login: str) -> str:
    if repo.owner.lower() == login:
        return "admin"
    owner = tables.find(User, repo.owner.lower())
    members = owner.members if owner else ()
    return "admin" if login in {name.lower() for name in members} else "none"


ANONYMOUS = Identity(key="anonymous", purse="anonymous")
