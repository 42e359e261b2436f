"""What the author of a text may do in a repository, as far as it is known. Pure."""

from __future__ import annotations

import json

from hostler.config.settings import Repo
from hostler.store.inbox import InboxRow

PROGRAMS = "printed by programs, nobody's request"
_PARTS = {
    "OWNER": "owner",
    "MEMBER": "member",
    "COLLABORATOR": "collaborator",
    "CONTRIBUTOR": "contributor",
    "FIRST_TIME_CONTRIBUTOR": "no part in the repository",
    "FIRST_TIMER": "no part in the repository",
    "NONE": "no part in the repository",
}


def permission(login: str, repo: Repo | None, row: InboxRow | None) -> str:
    """In words: by the settings, and by what GitHub said of the author beside the text."""
    known = [*_by_settings(login, repo), _PARTS.get(_association(login, row), "")]
    return ", ".join(part for part in known if part) or "not known"


def _by_settings(login: str, repo: Repo | None) -> list[str]:
    if repo is None:
        return []
    lists = {"operator": repo.operator_logins, "allowed user": repo.allowed_users}
    named = [word for word, logins in lists.items() if _is_in(login, logins)]
    return named or ["not an allowed user"]


def _is_in(login: str, logins: list[str]) -> bool:
    return login.lower() in {one.lower() for one in logins}


def _association(login: str, row: InboxRow | None) -> str:
    """GitHub's own word. It is about the author of the row, and about nobody else."""
    if row is None or row.author.lower() != login.lower():
        return ""
    try:
        payload = json.loads(row.payload)
    except (ValueError, RecursionError):
        return ""
    found = payload.get("author_association") if isinstance(payload, dict) else None
    return found if isinstance(found, str) else ""
